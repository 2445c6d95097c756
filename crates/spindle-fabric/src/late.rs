//! Links that deliver packets later than their delay: [`Jitter`], [`Reorder`] and [`LocalRetransmission`].
//!
//! A packet that reaches the far end of such a link is held there until its time. Links without these
//! properties do no work for them.

use std::collections::BTreeMap;

use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use spindle_units::{Duration, Probability};

use crate::loss::Threshold;
use crate::port::store::Meta;
use crate::random::{Purpose, stream};
use crate::{LinkSpec, Loss, NetworkError};

/// Flag of a port: its link has one of the properties of this module.
pub(crate) const LATE: u32 = 1 << 16;

/// Random additional delays of a link, drawn for each packet. The packets stay in order: a packet waits for those
/// before it.
#[derive(Clone, Debug, PartialEq)]
pub struct Jitter {
    /// The distribution of the additional delay.
    pub distribution: JitterDistribution,
    /// The largest additional delay, above zero.
    pub limit: Duration,
}

/// The distribution of [`Jitter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JitterDistribution {
    /// Uniform from 0 to the limit.
    Uniform,
    /// Exponential with this mean, above zero. A delay above the limit is cut to the limit (our choice).
    Exponential(Duration),
}

/// A share of a link's packets is held back, so that later packets overtake them.
#[derive(Clone, Debug, PartialEq)]
pub struct Reorder {
    /// The probability that a packet is held back.
    pub share: Probability,
    /// How long such a packet is held back, above zero.
    pub delay: Duration,
}

/// Retransmission of lost packets by the switch at the start of the link (LinkGuardian, Joshi et al., SIGCOMM
/// 2023). Applies to the packets that the link's loss process loses.
///
/// The far end notices the loss at once, even that of the last packet before a pause, because the sender fills
/// pauses with dummy packets. A notification takes the link's delay back. The sender then sends the packet again,
/// several times in a row, and these copies use the link's capacity. The packet arrives with the first copy, which
/// is one round trip of the link and the sending time later. It is lost only if all copies are lost.
///
/// Our choices: the copies delay the packets that are offered after the notification, not those that wait then. The time that
/// switches need to process a notification is zero. The buffer at the far end is unlimited, so the sender is never
/// paused, which the original does when that buffer fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalRetransmission {
    /// Later packets wait at the far end for the retransmitted packet, and then follow at the link's rate.
    Ordered,
    /// Later packets do not wait (the paper's non-blocking variant, LinkGuardianNB).
    Unordered,
}

impl LocalRetransmission {
    /// The loss rate that remains (the target of the paper's evaluation, Joshi et al. 2023).
    pub const TARGET: f64 = 1e-8;

    /// The largest number of copies of a packet (our choice; enough for a loss rate of 33 %).
    pub const MOST_COPIES: u32 = 16;

    /// The number of copies on a link with this loss: the least number n with `rate^(n + 1)` at most
    /// [`TARGET`](Self::TARGET), from 1 to [`MOST_COPIES`](Self::MOST_COPIES). Losses that have no rate count
    /// as rare.
    pub fn copies(loss: &Loss) -> u32 {
        let rate = loss.long_run_rate().map_or(0.0, Probability::get);
        if rate >= 1.0 {
            return Self::MOST_COPIES;
        }
        // log(0) is minus infinity, which gives no copy. The small number absorbs rounding.
        let copies = Self::TARGET.ln() / rate.ln() - 1.0 - 1e-9;
        (copies.ceil().max(1.0) as u32).min(Self::MOST_COPIES)
    }
}

/// Checks the ranges documented above. `name` is the cable's name, for the error.
pub(crate) fn check(spec: &LinkSpec, name: &str) -> Result<(), NetworkError> {
    let zero = |parameter| {
        let what = format!("cable `{name}`");
        let remedy = "give it a time above zero, or leave the property out";
        Err(NetworkError::parameter(
            what,
            parameter,
            Duration::ZERO,
            remedy,
        ))
    };
    if let Some(jitter) = &spec.jitter {
        if jitter.limit == Duration::ZERO {
            return zero("limit of the jitter");
        }
        if jitter.distribution == JitterDistribution::Exponential(Duration::ZERO) {
            return zero("mean of the jitter");
        }
    }
    match &spec.reorder {
        Some(reorder) if reorder.delay == Duration::ZERO => zero("delay of reordered packets"),
        _ => Ok(()),
    }
}

/// A packet that waits at the far end of a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) meta: Meta,
    pub(crate) stage: Stage,
}

/// What happens to a held packet at its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It leaves the link.
    Leave,
    /// It was lost. The sender is notified and sends copies, of which the first arrives at this time.
    Notify(u64),
    /// The copies of the lost packet arrive.
    Copies,
}

/// The running state of a link with one of these properties.
#[derive(Debug)]
pub(crate) struct LateState {
    jitter: Option<(Jitter, Xoshiro256PlusPlus)>,
    reorder: Option<(Threshold, u64, Xoshiro256PlusPlus)>,
    pub(crate) local: Option<LocalRetransmission>,
    /// The number of copies of a lost packet.
    pub(crate) copies: u32,
    /// When the last packet that keeps the order leaves, in nanoseconds.
    last: u64,
    /// The number of packets that were held.
    count: u64,
    /// The waiting packets by the time when they leave and by their number.
    held: BTreeMap<(u64, u64), Held>,
}

impl LateState {
    /// The state of a link at time 0. `None` if it has none of these properties.
    pub(crate) fn new(spec: &LinkSpec, seed: u64, link: u32) -> Option<Self> {
        if spec.jitter.is_none() && spec.reorder.is_none() && spec.local_retransmission.is_none() {
            return None;
        }
        let rng = |purpose| stream(seed, purpose, u64::from(link));
        let jitter = spec.jitter.clone();
        let reorder = spec.reorder.as_ref();
        Some(Self {
            jitter: jitter.map(|j| (j, rng(Purpose::Jitter))),
            reorder: reorder.map(|r| {
                let share = Threshold::new(r.share.get());
                (share, r.delay.as_nanos(), rng(Purpose::Reorder))
            }),
            local: spec.local_retransmission,
            copies: LocalRetransmission::copies(&spec.loss),
            last: 0,
            count: 0,
            held: BTreeMap::new(),
        })
    }

    /// The number of packets that wait.
    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    /// When a packet leaves that has reached the far end at `now` and needs `sending` on the link. A packet that
    /// was lost arrives later by `recovery`. `None` if it leaves at once.
    pub(crate) fn leaves(&mut self, now: u64, sending: u64, recovery: Option<u64>) -> Option<u64> {
        let extra = self.jitter.as_mut().map_or(0, |(j, rng)| j.draw(rng));
        let ready = now.saturating_add(extra);
        let reorder = self.reorder.as_mut();
        let held_back = reorder.and_then(|(share, delay, rng)| share.hit(rng).then_some(*delay));
        let unordered = self.local == Some(LocalRetransmission::Unordered);
        // A packet that is held back, or recovered out of order, does not delay those behind it.
        if held_back.is_some() || (recovery.is_some() && unordered) {
            let more = held_back.unwrap_or(0) + recovery.unwrap_or(0);
            return Some(ready.saturating_add(more));
        }
        let ready = ready.saturating_add(recovery.unwrap_or(0));
        // Packets behind a recovered one leave at the link's rate, and those behind jitter at once.
        let gap = match self.local {
            Some(LocalRetransmission::Ordered) => sending,
            _ => 0,
        };
        let was = self.last;
        self.last = match ready > was {
            true => ready,
            false => was.saturating_add(gap),
        };
        (self.last > now || was >= now).then_some(self.last)
    }

    /// Holds a packet until `at`.
    pub(crate) fn hold(&mut self, at: u64, held: Held) {
        self.held.insert((at, self.count), held);
        self.count += 1;
    }

    /// Takes a packet whose time has come.
    pub(crate) fn take(&mut self, now: u64) -> Option<Held> {
        let first = self.held.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    /// Takes all packets, because the link goes down.
    pub(crate) fn clear(&mut self) -> BTreeMap<(u64, u64), Held> {
        self.last = 0;
        std::mem::take(&mut self.held)
    }
}

impl Jitter {
    /// An additional delay in nanoseconds.
    fn draw(&self, rng: &mut Xoshiro256PlusPlus) -> u64 {
        // 53 bits fill the significand of an f64 exactly.
        let unit = (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let limit = self.limit.as_nanos();
        let drawn = match self.distribution {
            JitterDistribution::Uniform => unit * limit as f64,
            JitterDistribution::Exponential(mean) => -(mean.as_nanos() as f64) * (1.0 - unit).ln(),
        };
        (drawn.round() as u64).min(limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_as_many_as_the_target_needs() {
        let copies = |rate| {
            let rate = Probability::new(rate).unwrap();
            LocalRetransmission::copies(&Loss::bernoulli(rate))
        };
        // The effective loss rate is rate^(copies + 1).
        for (rate, expected) in [
            (0.0, 1),
            (1e-5, 1),
            (1e-4, 1),
            (1.1e-4, 2),
            (1e-3, 2),
            (1e-2, 3),
            (0.1, 7),
            (0.33, 16),
            (0.9, 16),
            (1.0, 16),
        ] {
            assert_eq!(copies(rate), expected, "{rate}");
        }
        assert_eq!(LocalRetransmission::copies(&Loss::nth([1]).unwrap()), 1);
        assert_eq!(LocalRetransmission::copies(&Loss::black_hole()), 16);
    }

    #[test]
    fn jitter_has_its_distribution_and_limit() {
        let mut rng = stream(1, Purpose::Jitter, 0);
        let limit = Duration::from_micros(100);
        let mut mean = |distribution| {
            let jitter = Jitter {
                distribution,
                limit,
            };
            let drawn: Vec<u64> = (0..100_000).map(|_| jitter.draw(&mut rng)).collect();
            assert!(drawn.iter().all(|d| *d <= 100_000));
            drawn.iter().sum::<u64>() / 100_000
        };
        let uniform = mean(JitterDistribution::Uniform);
        assert!((49_000..51_000).contains(&uniform), "{uniform}");
        let exponential = mean(JitterDistribution::Exponential(Duration::from_micros(10)));
        assert!((9_800..10_200).contains(&exponential), "{exponential}");
        // Mean of min(X, limit) is mean (1 - exp(-limit / mean)).
        let cut = mean(JitterDistribution::Exponential(limit));
        assert!((62_000..64_500).contains(&cut), "{cut}");
    }
}

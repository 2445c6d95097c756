//! [`Loss`]: which packets a link loses in addition to those that its queue drops.

use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use spindle_units::Probability;

use crate::NetworkError;

mod timed;

pub use timed::GilbertTime;
use timed::TimedGilbert;

/// The description of a loss process. Build it with [`Loss`]'s constructors, which check it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum LossProcess {
    /// Loses no packet.
    None,
    /// Loses each packet independently with this probability.
    Bernoulli(Probability),
    /// A chain of two states. Every packet is lost in the bad state and no packet in the good state (Gilbert
    /// 1960, with h = 0). The state changes between packets.
    GilbertElliott {
        /// Long-run fraction of packets that are lost.
        rate: Probability,
        /// Mean number of consecutive lost packets, at least 1.
        mean_burst: f64,
    },
    /// A chain of two states that changes with time. It does not depend on the packets.
    GilbertTime(GilbertTime),
    /// Loses exactly the packets with these numbers, in ascending order. Packets are counted from 1 in the
    /// order in which they cross the link.
    Scripted(Vec<u64>),
    /// Loses every packet.
    BlackHole,
}

/// A link's loss process and the packets to which it applies.
#[derive(Clone, Debug, PartialEq)]
pub struct Loss {
    process: LossProcess,
    data_only: bool,
}

impl Default for Loss {
    fn default() -> Self {
        Self::none()
    }
}

impl Loss {
    fn of(process: LossProcess) -> Self {
        Self {
            process,
            data_only: false,
        }
    }

    /// No loss.
    pub fn none() -> Self {
        Self::of(LossProcess::None)
    }

    /// Independent loss with probability `rate`.
    pub fn bernoulli(rate: Probability) -> Self {
        Self::of(LossProcess::Bernoulli(rate))
    }

    /// Loss in bursts of `mean_burst` packets on average. The long-run fraction of lost packets is `rate`.
    ///
    /// # Errors
    /// If `mean_burst` is below 1 or not finite, or if no chain of two states has both values. The gap between
    /// bursts has at least one packet, so `rate` is at most `mean_burst / (mean_burst + 1)`.
    pub fn gilbert_elliott(rate: Probability, mean_burst: f64) -> Result<Self, NetworkError> {
        let what = "Gilbert-Elliott loss";
        if !mean_burst.is_finite() || mean_burst < 1.0 {
            let remedy = "it counts packets lost in a row, so it is 1 or more";
            return Err(NetworkError::parameter(
                what,
                "mean burst",
                mean_burst,
                remedy,
            ));
        }
        if rate.get() > mean_burst / (mean_burst + 1.0) {
            let remedy = "it is at most burst / (burst + 1), as bursts are a packet apart or more; \
                          take longer bursts, or a black hole";
            return Err(NetworkError::parameter(what, "rate", rate, remedy));
        }
        Ok(Self::of(LossProcess::GilbertElliott { rate, mean_burst }))
    }

    /// Loss with two states that last in time.
    ///
    /// # Errors
    /// If a state's mean time is below [`GilbertTime::LEAST_MEAN`].
    pub fn gilbert_time(chain: GilbertTime) -> Result<Self, NetworkError> {
        chain.check()?;
        Ok(Self::of(LossProcess::GilbertTime(chain)))
    }

    /// Loss of exactly the packets with these numbers, counted from 1 in the order in which they cross the
    /// link. With [`data_only`](Self::data_only), only data packets count.
    ///
    /// # Errors
    /// If one of the numbers is 0.
    pub fn nth(numbers: impl IntoIterator<Item = u64>) -> Result<Self, NetworkError> {
        let mut numbers: Vec<u64> = numbers.into_iter().collect();
        numbers.sort_unstable();
        numbers.dedup();
        if numbers.first() == Some(&0) {
            let remedy = "the first packet has number 1";
            return Err(NetworkError::parameter(
                "scripted loss",
                "packet number",
                0,
                remedy,
            ));
        }
        Ok(Self::of(LossProcess::Scripted(numbers)))
    }

    /// Loss of every packet.
    pub fn black_hole() -> Self {
        Self::of(LossProcess::BlackHole)
    }

    /// The same loss, but only for data packets. Other packets are neither lost nor counted.
    pub fn data_only(mut self) -> Self {
        self.data_only = true;
        self
    }

    /// The loss process.
    pub fn process(&self) -> &LossProcess {
        &self.process
    }

    /// The long-run fraction of packets that are lost. `None` if the process has no such rate. Packets that are
    /// spared because only data can be lost do not count.
    pub fn long_run_rate(&self) -> Option<Probability> {
        match &self.process {
            LossProcess::None => Some(Probability::ZERO),
            LossProcess::Bernoulli(rate) | LossProcess::GilbertElliott { rate, .. } => Some(*rate),
            LossProcess::GilbertTime(chain) => Some(chain.long_run_rate()),
            LossProcess::Scripted(_) => None,
            LossProcess::BlackHole => Some(Probability::ONE),
        }
    }

    /// Whether only data packets can be lost.
    pub fn is_data_only(&self) -> bool {
        self.data_only
    }

    /// Whether no packet is ever lost.
    pub fn is_none(&self) -> bool {
        self.process == LossProcess::None
    }
}

/// The running loss process of one link.
#[derive(Clone, Debug)]
pub(crate) struct LossState {
    kind: Kind,
    data_only: bool,
    rng: Xoshiro256PlusPlus,
}

/// Probabilities are stored as thresholds for 64 random bits.
#[derive(Clone, Debug)]
enum Kind {
    Bernoulli(Threshold),
    Gilbert {
        enter: Threshold,
        leave: Threshold,
        bad: bool,
    },
    GilbertTime(Box<TimedGilbert>),
    Scripted {
        numbers: Vec<u64>,
        next: usize,
        seen: u64,
    },
    BlackHole,
}

/// A threshold below which a uniformly random 64-bit number falls with a fixed probability.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Threshold(u128);

impl Threshold {
    pub(crate) fn new(probability: f64) -> Self {
        Self((probability * 2f64.powi(64)) as u128)
    }

    pub(crate) fn hit(self, rng: &mut Xoshiro256PlusPlus) -> bool {
        u128::from(rng.next_u64()) < self.0
    }
}

impl LossState {
    /// Starts `loss` with the link's own stream. Returns `None` if there is no loss.
    pub(crate) fn new(loss: &Loss, mut rng: Xoshiro256PlusPlus) -> Option<Self> {
        let kind = match loss.process {
            LossProcess::None => return None,
            LossProcess::Bernoulli(rate) => Kind::Bernoulli(Threshold::new(rate.get())),
            LossProcess::GilbertElliott { rate, mean_burst } => {
                let leave = 1.0 / mean_burst;
                // This follows from rate = enter / (enter + leave). The constructor keeps the rate below 1.
                let enter = rate.get() * leave / rate.complement().get();
                Kind::Gilbert {
                    enter: Threshold::new(enter),
                    leave: Threshold::new(leave),
                    // Starts in the long-run distribution, so that the first packets are not special.
                    bad: Threshold::new(rate.get()).hit(&mut rng),
                }
            }
            LossProcess::GilbertTime(ref chain) => {
                Kind::GilbertTime(Box::new(TimedGilbert::new(chain, rng.clone())))
            }
            LossProcess::Scripted(ref numbers) => Kind::Scripted {
                numbers: numbers.clone(),
                next: 0,
                seen: 0,
            },
            LossProcess::BlackHole => Kind::BlackHole,
        };
        Some(Self {
            kind,
            data_only: loss.data_only,
            rng,
        })
    }

    /// Whether the packet that crosses the link at `now` (nanoseconds) is lost. Must be called with ascending
    /// times.
    pub(crate) fn loses(&mut self, now: u64, is_data: bool) -> bool {
        if self.data_only && !is_data {
            return false;
        }
        match &mut self.kind {
            Kind::Bernoulli(rate) => rate.hit(&mut self.rng),
            Kind::Gilbert { enter, leave, bad } => {
                let lost = *bad;
                let change = if lost { *leave } else { *enter };
                *bad ^= change.hit(&mut self.rng);
                lost
            }
            Kind::GilbertTime(chain) => chain.loses(now),
            Kind::Scripted {
                numbers,
                next,
                seen,
            } => {
                *seen += 1;
                let lost = numbers.get(*next) == Some(seen);
                *next += usize::from(lost);
                lost
            }
            Kind::BlackHole => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Purpose, stream};

    fn probability(p: f64) -> Probability {
        Probability::new(p).unwrap()
    }

    fn run(loss: &Loss, packets: usize) -> Vec<bool> {
        let mut state = LossState::new(loss, stream(7, Purpose::Loss, 3)).unwrap();
        (0..packets).map(|_| state.loses(0, true)).collect()
    }

    fn rate(lost: &[bool]) -> f64 {
        lost.iter().filter(|&&l| l).count() as f64 / lost.len() as f64
    }

    fn mean_burst(lost: &[bool]) -> f64 {
        let bursts = lost.windows(2).filter(|w| !w[0] && w[1]).count();
        lost.iter().filter(|&&l| l).count() as f64 / bursts as f64
    }

    #[test]
    fn bernoulli_loss_has_the_configured_rate() {
        for p in [0.0, 0.001, 0.02, 0.5, 1.0] {
            let measured = rate(&run(&Loss::bernoulli(probability(p)), 1_000_000));
            let four_sigma = 4.0 * (p * (1.0 - p) / 1e6).sqrt();
            assert!((measured - p).abs() <= four_sigma, "{p}: {measured}");
        }
    }

    #[test]
    fn gilbert_loss_has_the_configured_rate_and_burst_length() {
        for (p, burst) in [(0.01, 1.0), (0.02, 4.0), (0.1, 20.0), (0.5, 1.5)] {
            let loss = Loss::gilbert_elliott(probability(p), burst).unwrap();
            let lost = run(&loss, 2_000_000);
            let (rate, mean) = (rate(&lost), mean_burst(&lost));
            assert!((rate / p - 1.0).abs() < 0.05, "rate {rate} for {p}");
            assert!((mean / burst - 1.0).abs() < 0.03, "burst {mean} of {burst}");
        }
    }

    #[test]
    fn gilbert_elliott_refuses_impossible_parameters() {
        assert!(Loss::gilbert_elliott(probability(0.1), 0.5).is_err());
        assert!(Loss::gilbert_elliott(probability(0.1), f64::NAN).is_err());
        let error = Loss::gilbert_elliott(probability(0.9), 2.0).unwrap_err();
        assert!(error.to_string().contains("burst / (burst + 1)"), "{error}");
        assert!(Loss::gilbert_elliott(probability(0.5), 1.0).is_ok());
    }

    #[test]
    fn scripted_loss_loses_exactly_the_listed_packets() {
        let lost = run(&Loss::nth([5, 2, 5]).unwrap(), 8);
        let expected = [false, true, false, false, true, false, false, false];
        assert_eq!(lost, expected);
        assert!(Loss::nth([1, 0]).is_err());
    }

    #[test]
    fn data_only_loss_neither_loses_nor_counts_other_packets() {
        let loss = Loss::nth([2]).unwrap().data_only();
        let mut state = LossState::new(&loss, stream(1, Purpose::Loss, 0)).unwrap();
        let lost = [true, false, false, true, false].map(|is_data| state.loses(0, is_data));
        assert_eq!(lost, [false, false, false, true, false]);

        let mut hole =
            LossState::new(&Loss::black_hole().data_only(), stream(1, Purpose::Loss, 0)).unwrap();
        assert!(hole.loses(0, true));
        assert!(!hole.loses(0, false));
    }
}

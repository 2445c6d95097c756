//! [`GilbertTime`]: loss with two states that last in time.

use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use spindle_units::{Duration, Probability};

use super::Threshold;
use crate::NetworkError;

/// The two-state chain of Gilbert (1960) and Elliott (1963) in continuous time. The times spent in each state are
/// exponentially distributed. The state is a function of time alone: neither the number of packets nor the
/// times at which they cross the link change it.
#[derive(Clone, Debug, PartialEq)]
pub struct GilbertTime {
    /// Mean time in the good state.
    pub mean_good: Duration,
    /// Mean time in the bad state.
    pub mean_bad: Duration,
    /// The probability that a packet is lost in the good state.
    pub loss_in_good: Probability,
    /// The probability that a packet is lost in the bad state.
    pub loss_in_bad: Probability,
}

impl GilbertTime {
    /// The least mean time in a state. The chain passes through all states between two packets, so that shorter
    /// times would cost too much on idle links (our choice).
    pub const LEAST_MEAN: Duration = Duration::from_micros(1);

    /// The chain that loses `rate` of the packets in the long run and stays in the bad state for `mean_bad` on
    /// average.
    ///
    /// # Errors
    /// If `rate` is below `loss_in_good`, or not below `loss_in_bad`, because no share of time in the bad state
    /// gives such a rate. If a state's mean time is below [`LEAST_MEAN`](Self::LEAST_MEAN).
    pub fn with_rate(
        rate: Probability,
        mean_bad: Duration,
        (loss_in_good, loss_in_bad): (Probability, Probability),
    ) -> Result<Self, NetworkError> {
        let (good, bad) = (loss_in_good.get(), loss_in_bad.get());
        if rate.get() < good || rate.get() >= bad {
            let remedy =
                "it is at least the loss in the good state and below the loss in the bad state";
            return Err(NetworkError::parameter(WHAT, "rate", rate, remedy));
        }
        // rate = share * bad + (1 - share) * good.
        let share = (rate.get() - good) / (bad - good);
        let mean_good = mean_bad.as_nanos() as f64 * (1.0 - share) / share;
        let chain = Self {
            // A share of 0 makes the good state last for the longest time there is. The cast saturates.
            mean_good: Duration::from_nanos(mean_good as u64),
            mean_bad,
            loss_in_good,
            loss_in_bad,
        };
        chain.check()?;
        Ok(chain)
    }

    /// The long-run fraction of packets that are lost.
    pub fn long_run_rate(&self) -> Probability {
        let [good, bad] = [self.mean_good, self.mean_bad].map(|m| m.as_nanos() as f64);
        let share = bad / (good + bad);
        let rate = share * self.loss_in_bad.get() + (1.0 - share) * self.loss_in_good.get();
        // A mean of two probabilities is a probability, except for rounding.
        Probability::new(rate.clamp(0.0, 1.0)).unwrap_or(Probability::ONE)
    }

    /// Checks the means.
    pub(super) fn check(&self) -> Result<(), NetworkError> {
        let means = [
            ("mean time in the good state", self.mean_good),
            ("mean time in the bad state", self.mean_bad),
        ];
        for (parameter, mean) in means {
            if mean < Self::LEAST_MEAN {
                let remedy = "it is 1us or more";
                return Err(NetworkError::parameter(WHAT, parameter, mean, remedy));
            }
        }
        Ok(())
    }
}

const WHAT: &str = "Gilbert-Elliott loss in time";

/// The running chain.
#[derive(Clone, Debug)]
pub(super) struct TimedGilbert {
    /// The mean times in the good and in the bad state, in nanoseconds.
    means: [f64; 2],
    /// The loss in the good and in the bad state.
    losses: [Threshold; 2],
    bad: bool,
    /// When the current state ends, in nanoseconds. That instant belongs to the next state.
    end: u64,
    /// Draws the times in the states.
    times: Xoshiro256PlusPlus,
    /// Draws the losses, so that they do not affect the times.
    packets: Xoshiro256PlusPlus,
}

impl TimedGilbert {
    /// Starts the chain at time 0 in its long-run distribution. The two random streams are far apart in `rng`.
    pub(super) fn new(chain: &GilbertTime, mut rng: Xoshiro256PlusPlus) -> Self {
        let means = [chain.mean_good, chain.mean_bad].map(|m| m.as_nanos() as f64);
        let mut packets = rng.clone();
        packets.long_jump();
        let bad = Threshold::new(means[1] / (means[0] + means[1])).hit(&mut rng);
        let mut state = Self {
            means,
            losses: [chain.loss_in_good, chain.loss_in_bad].map(|p| Threshold::new(p.get())),
            bad,
            end: 0,
            times: rng,
            packets,
        };
        state.end = state.stay();
        state
    }

    /// Draws the time in the current state, at least 1 ns. By the memorylessness of the distribution this is
    /// also the rest of the state in which the chain starts.
    fn stay(&mut self) -> u64 {
        let uniform = unit(&mut self.times);
        let nanos = -self.means[usize::from(self.bad)] * (1.0 - uniform).ln();
        (nanos as u64).max(1)
    }

    /// Whether a packet at `now` is lost. Must be called with ascending times.
    pub(super) fn loses(&mut self, now: u64) -> bool {
        while self.end <= now {
            self.bad = !self.bad;
            self.end = self.end.saturating_add(self.stay());
        }
        self.losses[usize::from(self.bad)].hit(&mut self.packets)
    }
}

/// A uniformly random number from 0 to below 1.
fn unit(rng: &mut Xoshiro256PlusPlus) -> f64 {
    // 53 bits fill the significand of an f64 exactly.
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Purpose, stream};

    fn probability(p: f64) -> Probability {
        Probability::new(p).unwrap()
    }

    /// A chain that loses everything in the bad state and nothing in the good state.
    fn all_or_nothing(rate: f64, bad: Duration) -> GilbertTime {
        let losses = (Probability::ZERO, probability(1.0));
        GilbertTime::with_rate(probability(rate), bad, losses).unwrap()
    }

    fn start(chain: &GilbertTime) -> TimedGilbert {
        TimedGilbert::new(chain, stream(7, Purpose::Loss, 3))
    }

    #[test]
    fn timed_gilbert_loss_has_the_configured_rate_and_mean_times() {
        let chain = all_or_nothing(0.1, Duration::from_millis(20));
        assert_eq!(chain.mean_good, Duration::from_millis(180));
        let mut state = start(&chain);
        // A packet each millisecond for 2000 s.
        let lost: Vec<bool> = (0..2_000_000).map(|n| state.loses(n * 1_000_000)).collect();
        let all = lost.iter().filter(|l| **l).count() as f64;
        let rate = all / lost.len() as f64;
        assert!((rate / 0.1 - 1.0).abs() < 0.03, "{rate}");
        let bursts = lost.windows(2).filter(|w| !w[0] && w[1]).count() as f64;
        // Bad states that fall between two packets are not seen, and the others hold 20.5 packets on average.
        let mean = all / bursts;
        assert!((mean / 20.5 - 1.0).abs() < 0.05, "{mean}");
    }

    #[test]
    fn timed_gilbert_state_does_not_depend_on_the_packets() {
        let chain = GilbertTime {
            loss_in_good: probability(0.2),
            ..all_or_nothing(0.3, Duration::from_micros(500))
        };
        let states = |gap: usize| {
            let mut state = start(&chain);
            let at = (0..100_000u64).step_by(gap).map(|n| n * 1_000);
            at.map(|now| {
                state.loses(now);
                state.bad
            })
            .step_by(60 / gap)
            .collect::<Vec<_>>()
        };
        let seldom = states(60);
        assert!(seldom.contains(&true) && seldom.contains(&false));
        for gap in [1, 5, 20] {
            assert_eq!(states(gap), seldom, "a packet each {gap} us");
        }
    }

    #[test]
    fn timed_gilbert_loses_its_share_in_each_state() {
        let chain = GilbertTime {
            mean_good: Duration::from_millis(1),
            mean_bad: Duration::from_millis(1),
            loss_in_good: probability(0.01),
            loss_in_bad: probability(0.5),
        };
        let mut state = start(&chain);
        let mut counts = [[0f64; 2]; 2];
        for n in 0..1_000_000 {
            let lost = state.loses(n * 1_000);
            counts[usize::from(state.bad)][usize::from(lost)] += 1.0;
        }
        let [good, bad] = counts.map(|[kept, lost]| lost / (kept + lost));
        assert!(
            (good - 0.01).abs() < 0.001 && (bad - 0.5).abs() < 0.005,
            "{good} {bad}"
        );
    }

    #[test]
    fn timed_gilbert_with_the_rate_of_the_good_state_is_never_bad() {
        let mut state = start(&all_or_nothing(0.0, Duration::from_millis(20)));
        assert!((0..1000).all(|n| !state.loses(n * 1_000_000_000)));
    }

    #[test]
    fn timed_gilbert_refuses_impossible_parameters() {
        let with = |rate, bad, losses: (f64, f64)| {
            let losses = (probability(losses.0), probability(losses.1));
            GilbertTime::with_rate(probability(rate), bad, losses).map(|_| ())
        };
        let ms = Duration::from_millis(1);
        assert!(with(0.5, ms, (0.0, 0.5)).is_err());
        assert!(with(0.05, ms, (0.1, 0.5)).is_err());
        let error = with(0.1, Duration::from_nanos(10), (0.0, 1.0)).unwrap_err();
        assert!(error.to_string().contains("1us or more"), "{error}");
        assert!(with(0.1, ms, (0.1, 0.5)).is_ok());
        let chain = all_or_nothing(0.1, ms);
        assert!((chain.long_run_rate().get() - 0.1).abs() < 1e-9);
    }
}

//! [`LteLike`]: a rate that varies as on a cellular link.

use rand_xoshiro::Xoshiro256PlusPlus;
use spindle_units::{BitRate, Duration, Instant};

use super::{LinkTrace, TraceInfo, TraceStep, TraceSteps, unit};

/// Settings of [`LteLike`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LteSettings {
    /// The time between two changes of the rate, above 0 (default 100 ms, our choice).
    pub step: Duration,
    /// The standard deviation of the rate's natural logarithm after one second, above 0 (default 0.4). Sprout's
    /// model of cellular links has 200 packets/s after a second, for rates from 0 to 1000 packets/s (Winstein,
    /// Sivaraman and Balakrishnan, NSDI 2013, section 3.1). This is 0.4 of the middle of that range.
    pub deviation: f64,
    /// The lowest rate as a share of the link's rate, above 0 and below 1 (default 1/16, our choice).
    pub lowest: f64,
}

impl Default for LteSettings {
    fn default() -> Self {
        Self {
            step: Duration::from_millis(100),
            deviation: 0.4,
            lowest: 1.0 / 16.0,
        }
    }
}

/// The rate is a bounded random walk in its logarithm, between a lowest share of the link's rate and the link's
/// rate, at which it is reflected. It starts in the middle of the logarithms. The delay does not change. The
/// walk follows the model of cellular links that Sprout uses, Brownian motion of the rate (Winstein, Sivaraman
/// and Balakrishnan, NSDI 2013, section 3.1). The logarithm and the bounds are our choice.
#[derive(Clone, Copy, Debug, Default)]
pub struct LteLike(pub LteSettings);

impl LinkTrace for LteLike {
    fn steps(&self, link: &TraceInfo) -> TraceSteps {
        let settings = self.0;
        let (delay, highest) = (link.delay, link.rate.0 as f64);
        let lowest = settings.lowest.ln();
        let deviation = settings.deviation * settings.step.as_secs_f64().sqrt();
        let mut rng = link.rng();
        let mut logarithm = lowest / 2.0;
        let mut at = Instant::ZERO;
        Box::new(std::iter::from_fn(move || {
            let step = TraceStep {
                at,
                rate: BitRate(((highest * logarithm.exp()).round() as u64).max(1)),
                delay,
            };
            at += settings.step;
            logarithm = reflected(logarithm + deviation * normal(&mut rng), lowest);
            Some(step)
        }))
    }
}

/// A logarithm that is reflected at 0 and at `lowest`, which is below 0.
fn reflected(logarithm: f64, lowest: f64) -> f64 {
    let over = if logarithm > 0.0 {
        -logarithm
    } else {
        logarithm
    };
    let under = if over < lowest {
        2.0 * lowest - over
    } else {
        over
    };
    // A change that is longer than the range ends at a bound.
    under.clamp(lowest, 0.0)
}

/// A nearly normal number with mean 0 and variance 1: the sum of twelve uniform ones (Irwin-Hall distribution).
fn normal(rng: &mut Xoshiro256PlusPlus) -> f64 {
    (0..12).map(|_| unit(rng)).sum::<f64>() - 6.0
}

#[cfg(test)]
mod tests {
    use crate::LinkId;

    use super::*;

    fn logarithms(n: usize) -> Vec<f64> {
        let info = TraceInfo {
            link: LinkId(3),
            seed: 1,
            rate: BitRate(16_000_000),
            delay: Duration::from_millis(20),
        };
        let steps = LteLike::default().steps(&info).take(n);
        steps.map(|s| (s.rate.0 as f64).ln()).collect()
    }

    #[test]
    fn rate_stays_in_its_bounds_and_changes_by_the_given_deviation() {
        let walk = logarithms(20_000);
        let (low, high) = (1_000_000f64.ln(), 16_000_000f64.ln());
        assert!(walk.iter().all(|x| (low - 1e-6..=high + 1e-6).contains(x)));
        assert!((walk[0] - 4_000_000f64.ln()).abs() < 1e-6);
        let squares = walk.windows(2).map(|w| (w[1] - w[0]).powi(2));
        let deviation = (squares.sum::<f64>() / (walk.len() - 1) as f64).sqrt();
        // 0.4 per root of a second is 0.126 per 100 ms.
        assert!((deviation - 0.126).abs() < 0.006, "{deviation}");
        let quarter = walk
            .iter()
            .filter(|x| **x < low + (high - low) / 4.0)
            .count();
        let share = quarter as f64 / walk.len() as f64;
        assert!((0.1..0.4).contains(&share), "{share} in the lowest quarter");
    }

    #[test]
    fn steps_are_100_ms_apart_and_the_same_for_the_same_link_and_seed() {
        assert_eq!(logarithms(50), logarithms(50));
        let info = TraceInfo {
            link: LinkId(0),
            seed: 1,
            rate: BitRate(1_000_000),
            delay: Duration::ZERO,
        };
        let times = LteLike::default().steps(&info).take(3);
        let times: Vec<u64> = times.map(|s| s.at.as_millis()).collect();
        assert_eq!(times, [0, 100, 200]);
    }
}

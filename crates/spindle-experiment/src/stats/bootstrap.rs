//! Standard errors by resampling runs. The flows of a run share paths and connections, so they are not
//! independent, but runs are.

use statrs::distribution::{ContinuousCDF, Normal};

use super::{Estimate, Interval};
use crate::rng::Stream;

/// Weights per run for each resample, the same for every transport (paired differences).
#[derive(Clone, Debug)]
pub struct Resamples {
    weights: Vec<Vec<u32>>,
    exact: bool,
}

/// The number of resamples for every estimate. The standard error is then accurate to 1.6 %.
const RESAMPLES: usize = 2000;

impl Resamples {
    /// Draws resamples of `runs` runs. The same number of runs always gives the same resamples.
    pub fn new(runs: usize) -> Self {
        const SEED: u64 = 0x5049_4e44_4c45; // any constant: results must repeat
        let mut rng = Stream::from_seed(SEED);
        let weights = (0..RESAMPLES)
            .map(|_| {
                let mut w = vec![0; runs];
                for _ in 0..runs {
                    w[rng.below(runs as u64) as usize] += 1;
                }
                w
            })
            .collect();
        Self {
            weights,
            exact: false,
        }
    }

    /// Resamples for numbers without chance: the `runs` runs as they are.
    pub fn exact(runs: usize) -> Self {
        Self {
            weights: vec![vec![1; runs]],
            exact: true,
        }
    }

    /// The 95 % interval of a statistic of weighted runs. See [`Self::estimate`].
    pub fn interval(&self, statistic: impl Fn(&[u32]) -> Option<f64>) -> Option<Interval> {
        self.estimate(statistic).map(|e| e.interval())
    }

    /// A statistic of weighted runs, with its standard error and skewness. `None` with fewer than two runs, or
    /// if the statistic cannot be computed for one resample in 20 or more.
    ///
    /// The standard error is the deviation of the resamples' values. The influence of a run is the covariance of
    /// its weight with these values. The percentiles of the values themselves are not used: with 20 runs they
    /// give intervals that are too narrow.
    pub fn estimate(&self, statistic: impl Fn(&[u32]) -> Option<f64>) -> Option<Estimate> {
        let runs = self.weights.first().map_or(0, Vec::len);
        let value = statistic(&vec![1; runs])?;
        if self.exact {
            return Some(Estimate::exact(value));
        }
        if runs < 2 {
            return None;
        }
        let drawn = self.weights.iter();
        let values: Vec<(f64, &Vec<u32>)> = drawn
            .filter_map(|w| Some((statistic(w)?, w)))
            .filter(|(v, _)| v.is_finite())
            .collect();
        if values.len() * 20 <= RESAMPLES * 19 {
            return None;
        }
        let n = values.len() as f64;
        let mean = values.iter().map(|(v, _)| v).sum::<f64>() / n;
        let square = values.iter().map(|(v, _)| (v - mean).powi(2)).sum::<f64>() / n;
        let mut influence = vec![0.0; runs];
        for (v, weights) in &values {
            for (sum, w) in influence.iter_mut().zip(*weights) {
                *sum += (v - mean) * (f64::from(*w) - 1.0);
            }
        }
        let moment = |k: i32| influence.iter().map(|u| (u / n).powi(k)).sum::<f64>() / runs as f64;
        let deviation = moment(2).sqrt();
        Some(Estimate {
            value,
            // The variance of the mean of resampled runs is that of the mean times (runs - 1) / runs.
            error: (square * runs as f64 / (runs as f64 - 1.0)).sqrt(),
            skewness: match deviation > 0.0 {
                true => moment(3) / deviation.powi(3),
                false => 0.0,
            },
            runs,
        })
    }
}

/// The 95 % Wilson score interval of a share of `hits` in `n` independent trials.
pub fn wilson(hits: f64, n: f64) -> Interval {
    if n <= 0.0 {
        return Interval {
            low: 0.0,
            high: 1.0,
        };
    }
    const Z: f64 = 1.959_963_984_540_054; // normal quantile 0.975
    let p = hits / n;
    let centre = (p + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
    let half = Z / (1.0 + Z * Z / n) * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
    Interval {
        low: (centre - half).max(0.0),
        high: (centre + half).min(1.0),
    }
}

/// The probability of a share at least as far from `truth` as `hits` in `n` independent trials, on either side,
/// if `truth` were the true share. It belongs to [`wilson`]'s interval.
pub fn wilson_p_value(hits: f64, n: f64, truth: f64) -> f64 {
    let variance = truth * (1.0 - truth) / n;
    if n <= 0.0 || hits == truth * n {
        return 1.0;
    }
    if variance <= 0.0 {
        return 0.0;
    }
    let z = (hits / n - truth).abs() / variance.sqrt();
    Normal::standard().cdf(-z) * 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_cover_the_mean_of_runs() {
        let runs = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0];
        let mean = |w: &[u32]| {
            let n: u32 = w.iter().sum();
            Some(
                runs.iter()
                    .zip(w)
                    .map(|(r, w)| r * f64::from(*w))
                    .sum::<f64>()
                    / f64::from(n),
            )
        };
        let i = Resamples::new(10).interval(mean).unwrap();
        // Standard error 3.03/sqrt(10) = 0.957, times 2.262 for nine degrees of freedom.
        assert!(
            (i.low - 3.33).abs() < 0.1 && (i.high - 7.67).abs() < 0.1,
            "{i:?}"
        );
        assert_eq!(Resamples::new(10).interval(mean), Some(i));
        assert_eq!(Resamples::new(1).interval(|_| Some(1.0)), None);
        let certain = Interval {
            low: 1.0,
            high: 1.0,
        };
        assert_eq!(
            Resamples::exact(1).interval(|w| Some(f64::from(w[0]))),
            Some(certain)
        );
    }

    #[test]
    fn wilson_agrees_with_tables() {
        let i = wilson(10.0, 100.0);
        assert!(
            (i.low - 0.0552).abs() < 1e-4 && (i.high - 0.1744).abs() < 1e-4,
            "{i:?}"
        );
        // The interval ends where the probability is 5 %.
        for end in [i.low, i.high] {
            let p = wilson_p_value(10.0, 100.0, end);
            assert!((p - 0.05).abs() < 1e-6, "{end}: {p}");
        }
        let none = wilson(0.0, 1000.0);
        assert!(
            none.low < 1e-9 && (none.high - 0.003827).abs() < 1e-5,
            "{none:?}"
        );
    }
}

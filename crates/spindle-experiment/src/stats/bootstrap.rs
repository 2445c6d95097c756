//! Intervals by resampling runs. The flows of a run share paths and connections, so they are not independent,
//! but runs are.

use crate::rng::Stream;

/// A 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Widens the interval so that it contains the value it belongs to. A percentile of few runs may lie
    /// outside the 95 % interval of its resamples.
    #[must_use]
    pub fn around(self, value: f64) -> Self {
        Self {
            low: self.low.min(value),
            high: self.high.max(value),
        }
    }
}

/// Weights per run for each resample, the same for every transport (paired differences).
#[derive(Clone, Debug)]
pub struct Resamples {
    weights: Vec<Vec<u32>>,
    exact: bool,
}

/// The number of resamples for every interval. Each of the 2.5 % tails then contains 50 values.
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

    /// The percentile interval of a statistic. `None` with fewer than two runs, or if the statistic cannot be
    /// computed for one resample in 20 or more.
    pub fn interval(&self, statistic: impl Fn(&[u32]) -> Option<f64>) -> Option<Interval> {
        if self.exact {
            let value = self.weights.first().and_then(|w| statistic(w))?;
            return Some(Interval {
                low: value,
                high: value,
            });
        }
        if self.weights.first().is_none_or(|w| w.len() < 2) {
            return None;
        }
        let mut values: Vec<f64> = self.weights.iter().filter_map(|w| statistic(w)).collect();
        if values.len() * 20 <= RESAMPLES * 19 {
            return None;
        }
        values.sort_by(f64::total_cmp);
        let at = |q| super::nearest_rank(&values, q);
        Some(Interval {
            low: at(0.025),
            high: at(0.975),
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
        // Standard error 2.87/sqrt(10) = 0.91, so about 5.5 +- 1.78.
        assert!(
            (i.low - 3.7).abs() < 0.25 && (i.high - 7.3).abs() < 0.25,
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
        let none = wilson(0.0, 1000.0);
        assert!(
            none.low < 1e-9 && (none.high - 0.003827).abs() < 1e-5,
            "{none:?}"
        );
    }
}

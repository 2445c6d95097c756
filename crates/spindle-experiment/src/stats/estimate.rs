//! [`Estimate`]: a statistic of some runs, and how far it may be from the value that infinitely many runs would
//! give.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// A 95 % interval has this level.
pub const LEVEL: f64 = 0.95;

/// An interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Widens the interval so that it contains the value it belongs to.
    #[must_use]
    pub fn around(self, value: f64) -> Self {
        Self {
            low: self.low.min(value),
            high: self.high.max(value),
        }
    }

    /// Both ends, each moved to the nearest value that is possible.
    #[must_use]
    pub fn within(self, least: f64, most: f64) -> Self {
        Self {
            low: self.low.clamp(least, most),
            high: self.high.clamp(least, most),
        }
    }

    /// The distance between the ends.
    pub fn width(self) -> f64 {
        self.high - self.low
    }
}

/// A statistic of some runs with its sampling error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The statistic of the runs.
    pub value: f64,
    /// Its standard error. 0 for a statistic without chance.
    pub error: f64,
    /// The skewness of the single runs' influence on the statistic.
    pub skewness: f64,
    /// The number of runs.
    pub runs: usize,
}

impl Estimate {
    /// A statistic without chance.
    pub fn exact(value: f64) -> Self {
        Self {
            value,
            error: 0.0,
            skewness: 0.0,
            runs: 1,
        }
    }

    /// The 95 % interval.
    pub fn interval(&self) -> Interval {
        self.interval_at(LEVEL)
    }

    /// The interval that covers the true value with probability `level` (0 to 1).
    ///
    /// It is Student's t interval after a cubic transformation that removes the skewness of the statistic (Hall
    /// 1992, "On the Removal of Skewness by Transformation", Journal of the Royal Statistical Society B 54,
    /// section 2). Completion times have long tails, and with 20 runs the interval without the transformation
    /// covers the mean of a lognormal distribution too rarely.
    pub fn interval_at(&self, level: f64) -> Interval {
        if self.error <= 0.0 || self.runs < 2 {
            return Interval {
                low: self.value,
                high: self.value,
            };
        }
        let t = student(level, self.runs);
        Interval {
            low: self.value - self.error * self.untransform(t),
            high: self.value - self.error * self.untransform(-t),
        }
    }

    /// The probability of a statistic at least as far from `truth` as this one, on either side, if `truth` were
    /// the true value. The interval of level 1 - p ends at `truth` if p is this probability.
    pub fn p_value(&self, truth: f64) -> f64 {
        let distance = self.value - truth;
        if self.error <= 0.0 || self.runs < 2 {
            return if distance == 0.0 { 1.0 } else { 0.0 };
        }
        let y = self.transform(distance / self.error);
        match StudentsT::new(0.0, 1.0, (self.runs - 1) as f64) {
            Ok(student) => 2.0 * student.cdf(-y.abs()),
            Err(_) => 1.0,
        }
    }

    /// The skewness of the studentized statistic.
    fn studentized_skewness(&self) -> f64 {
        self.skewness / (self.runs as f64).sqrt()
    }

    /// The transformed value of the studentized statistic `t`, which has no skewness.
    fn transform(&self, t: f64) -> f64 {
        let a = self.studentized_skewness();
        t + a * t * t / 3.0 + a * a * t * t * t / 27.0 + a / 6.0
    }

    /// The studentized statistic whose transformed value is `y`.
    fn untransform(&self, y: f64) -> f64 {
        let a = self.studentized_skewness();
        if a.abs() < 1e-9 {
            return y;
        }
        3.0 / a * ((1.0 + a * (y - a / 6.0)).cbrt() - 1.0)
    }
}

/// The quantile of Student's t distribution for a two-sided interval of `runs` runs.
fn student(level: f64, runs: usize) -> f64 {
    let freedom = (runs - 1) as f64;
    match StudentsT::new(0.0, 1.0, freedom) {
        Ok(t) => t.inverse_cdf(0.5 + level / 2.0),
        Err(_) => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_skewness_the_interval_is_students() {
        let estimate = Estimate {
            value: 5.0,
            error: 2.0,
            skewness: 0.0,
            runs: 10,
        };
        // 2.262 is the quantile 0.975 for nine degrees of freedom, 3.250 the quantile 0.995.
        let i = estimate.interval();
        assert!((i.high - 5.0 - 2.0 * 2.262).abs() < 1e-2 && (i.high + i.low - 10.0).abs() < 1e-9);
        let wide = estimate.interval_at(0.99);
        assert!((wide.high - 5.0 - 2.0 * 3.250).abs() < 1e-2, "{wide:?}");
    }

    #[test]
    fn the_transformation_is_inverted() {
        for skewness in [-3.0, -0.2, 0.5, 2.0] {
            let e = Estimate {
                value: 0.0,
                error: 1.0,
                skewness,
                runs: 20,
            };
            for t in [-2.5, -1.0, 0.0, 1.5, 3.0] {
                assert!(
                    (e.untransform(e.transform(t)) - t).abs() < 1e-9,
                    "{skewness} {t}"
                );
            }
        }
    }

    #[test]
    fn the_interval_of_level_one_minus_p_ends_at_the_tested_value() {
        let e = Estimate {
            value: 10.0,
            error: 1.5,
            skewness: 1.2,
            runs: 12,
        };
        for truth in [6.0, 8.5, 12.0, 17.0] {
            let i = e.interval_at(1.0 - e.p_value(truth));
            let end = if truth < 10.0 { i.low } else { i.high };
            assert!((end - truth).abs() < 1e-3, "{truth}: {i:?}");
        }
        assert_eq!(Estimate::exact(1.0).p_value(2.0), 0.0);
        assert_eq!(Estimate::exact(2.0).p_value(2.0), 1.0);
    }

    #[test]
    fn a_long_upper_tail_moves_the_interval_up() {
        let e = Estimate {
            value: 10.0,
            error: 1.0,
            skewness: 2.0,
            runs: 20,
        };
        let i = e.interval();
        assert!(i.high - 10.0 > 10.0 - i.low, "{i:?}");
        assert_eq!(
            Estimate::exact(3.0).interval(),
            Interval {
                low: 3.0,
                high: 3.0
            }
        );
    }
}

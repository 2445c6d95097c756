//! Maps values to coordinates, and chooses ticks.

/// Maps a range of values to a range of coordinates, linearly or logarithmically. Values outside the range are
/// clamped to its ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    log: bool,
}

/// The smallest value that a logarithmic scale shows if none is given.
const LOG_FLOOR: f64 = 1e-12;

impl Scale {
    /// Maps the values `low..=high` evenly to the coordinates `from..=to`. An empty or impossible range is
    /// widened.
    pub(crate) fn linear((low, high): (f64, f64), (from, to): (f64, f64)) -> Self {
        let low = if low.is_finite() { low } else { 0.0 };
        let high = if high.is_finite() && high > low {
            high
        } else {
            low + low.abs().max(1.0)
        };
        Self {
            low,
            high,
            from,
            to,
            log: false,
        }
    }

    /// Maps the logarithms of `low..=high` evenly to `from..=to`. Both must be positive. Otherwise a range of
    /// one decade is shown.
    pub(crate) fn log((low, high): (f64, f64), (from, to): (f64, f64)) -> Self {
        let low = if low.is_finite() && low > 0.0 {
            low.clamp(LOG_FLOOR, 1e307)
        } else {
            1.0
        };
        let high = if high.is_finite() && high > low * 1.001 {
            high
        } else {
            low * 10.0
        };
        Self {
            low,
            high,
            from,
            to,
            log: true,
        }
    }

    /// The coordinate of `value`.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let v = if value.is_nan() {
            self.low
        } else {
            value.clamp(self.low, self.high)
        };
        let share = if self.log {
            // A difference of logarithms, since the quotient of the values could overflow.
            (v.ln() - self.low.ln()) / (self.high.ln() - self.low.ln())
        } else {
            // Halved, so that a range wider than the largest number does not overflow.
            (v / 2.0 - self.low / 2.0) / (self.high / 2.0 - self.low / 2.0)
        };
        self.from + share * (self.to - self.from)
    }

    /// Whether `value` lies on the scale.
    pub(crate) fn holds(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// About `target` round values on the scale in ascending order, at most three times as many.
    pub(crate) fn ticks(&self, target: usize) -> Vec<f64> {
        let target = target.max(2);
        let ticks = if self.log {
            self.log_ticks(target)
        } else {
            self.linear_ticks(target)
        };
        ticks
            .into_iter()
            .filter(|t| self.holds(*t))
            .take(target * 3)
            .collect()
    }

    fn linear_ticks(&self, target: usize) -> Vec<f64> {
        let raw = (self.high / 2.0 - self.low / 2.0) / target as f64 * 2.0;
        let power = 10f64.powi(raw.log10().floor() as i32);
        let nice = [1.0, 2.0, 2.5, 5.0, 10.0];
        let factor = nice
            .into_iter()
            .find(|f| f * power >= raw * 0.999)
            .unwrap_or(10.0);
        let step = factor * power;
        if !step.is_normal() {
            return vec![self.low, self.high];
        }
        let first = (self.low / step).ceil();
        (0..target * 3)
            .map(|i| (first + i as f64) * step)
            .map(|t| if t.abs() < step * 1e-9 { 0.0 } else { t })
            .take_while(|t| *t <= self.high * (1.0 + 1e-12) || *t <= self.high)
            .collect()
    }

    fn log_ticks(&self, target: usize) -> Vec<f64> {
        let first = self.low.log10().floor() as i32;
        let last = self.high.log10().ceil() as i32;
        let decades = self.high.log10() - self.low.log10();
        let steps: &[f64] = match decades / target as f64 {
            d if d < 0.28 => &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0],
            d if d < 0.45 => &[1.0, 2.0, 5.0],
            d if d < 0.7 => &[1.0, 3.0],
            _ => &[1.0],
        };
        let stride = if steps.len() > 1 {
            1
        } else {
            (decades / target as f64).ceil() as usize
        };
        (first..=last)
            .step_by(stride.max(1))
            .flat_map(|e| steps.iter().map(move |s| s * 10f64.powi(e)))
            // Powers such as 10^-3 are not exact. A tick just outside an end is moved to that end.
            .map(|t| {
                if (t / self.high - 1.0).abs() < 1e-9 {
                    self.high
                } else {
                    t
                }
            })
            .map(|t| {
                if (t / self.low - 1.0).abs() < 1e-9 {
                    self.low
                } else {
                    t
                }
            })
            .collect()
    }
}

/// A round number at or above `value`, for the end of a linear axis that starts at zero.
pub(crate) fn round_up(value: f64) -> f64 {
    if !value.is_finite() || value <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powi(value.log10().floor() as i32);
    let nice = [1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    let top = nice
        .into_iter()
        .map(|f| f * power)
        .find(|top| *top >= value);
    top.filter(|t| t.is_finite()).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(
            Scale::linear((0.0, 10.0), (0.0, 1.0)).ticks(5),
            [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
        );
        let decades = Scale::log((1.0, 1e4), (0.0, 1.0)).ticks(5);
        assert_eq!(decades, [1.0, 10.0, 100.0, 1e3, 1e4]);
        assert_eq!(
            Scale::log((100.0, 1000.0), (0.0, 1.0)).ticks(3),
            [100.0, 200.0, 500.0, 1000.0]
        );
    }

    #[test]
    fn ends_map_to_ends() {
        let s = Scale::log((1e-4, 1.0), (300.0, 20.0));
        assert!((s.at(1e-4) - 300.0).abs() < 1e-9 && (s.at(1.0) - 20.0).abs() < 1e-9);
        assert!((s.at(1e-2) - 160.0).abs() < 1e-9);
    }

    #[test]
    fn a_range_of_600_decades_does_not_overflow() {
        let s = Scale::log((1.9e-308, 2.9e296), (10.0, 500.0));
        assert!((s.at(2.6e305) - 500.0).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn any_span_gives_finite_coordinates_and_few_ticks(
            low in any::<f64>(), high in any::<f64>(), v in any::<f64>(), log in any::<bool>(),
        ) {
            let span = (low, high);
            let make = if log { Scale::log } else { Scale::linear };
            let s = make(span, (10.0, 500.0));
            let at = s.at(v);
            prop_assert!((9.9..=500.1).contains(&at), "{at}");
            let ticks = s.ticks(6);
            prop_assert!(ticks.len() <= 18);
            prop_assert!(ticks.windows(2).all(|w| w[0] < w[1]), "{ticks:?}");
        }

        #[test]
        fn rounding_up_never_rounds_down(v in 1e-9f64..1e200) {
            prop_assert!(round_up(v) >= v && round_up(v) <= v * 2.0);
        }
    }
}

//! Tests that compare one transport with itself at two values of an axis.

use super::evaluate::{Finding, Findings, Judge, PointView};
use super::{Change, Verdict};
use crate::stats::{Interval, Pool};
use crate::units;

/// Two points that differ only in the axis.
struct Pair<'a> {
    name: &'a str,
    /// The settings of the other axes.
    rest: String,
    /// The point where the metric is claimed to be low. `high` is the point where it is claimed to be high.
    low: &'a Pool,
    high: &'a Pool,
}

impl Judge<'_> {
    /// How much lower the metric of each transport is at the first value of the axis than at the second, for
    /// each setting of the other axes.
    pub(super) fn between_points(
        &self,
        of: &[String],
        (axis, low, high): (&str, &str, &str),
        change: Change,
    ) -> Findings {
        let mut pairs = Vec::new();
        for name in of {
            for point in self.points.iter().filter(|p| is_at(p, axis, low)) {
                let rest = rest(point, axis);
                let mut others = self.points.iter().filter(|p| is_at(p, axis, high));
                let Some(other) = others.find(|p| self::rest(p, axis) == rest) else {
                    continue;
                };
                let (low, high) = (self.pool(point, name)?, self.pool(other, name)?);
                if low.runs() != high.runs() {
                    return Err("the points have different numbers of runs".to_owned());
                }
                pairs.push(Pair {
                    name,
                    rest,
                    low,
                    high,
                });
            }
        }
        if pairs.is_empty() {
            return Err(format!(
                "no two points with {axis} {low} and {high} are alike in all else"
            ));
        }
        match change {
            Change::Any => pairs.iter().map(|p| self.is_lower(p)).collect(),
            Change::Between(from, to) => pairs
                .iter()
                .map(|p| self.is_lower_by(p, (from, to)))
                .collect(),
            Change::UpTo(most, slack) => Ok(vec![self.lowest_by(&pairs, most, slack)?]),
        }
    }

    fn values(&self, pair: &Pair<'_>, weights: &[u32]) -> Option<(f64, f64)> {
        let of = |pool: &Pool| pool.weighted(self.metric, weights);
        Some((of(pair.low)?, of(pair.high)?))
    }

    fn share(&self, pair: &Pair<'_>, weights: &[u32]) -> Option<f64> {
        let (low, high) = self.values(pair, weights)?;
        (high > 0.0).then_some((high - low) / high)
    }

    fn interval_of(
        &self,
        pair: &Pair<'_>,
        statistic: impl Fn(&[u32]) -> Option<f64>,
    ) -> Result<(f64, Interval), String> {
        let value = statistic(&vec![1; pair.low.runs()]).ok_or("the high value is zero")?;
        let interval = pair.low.resamples().interval(statistic);
        Ok((value, interval.ok_or("intervals need two or more runs")?))
    }

    fn is_lower(&self, pair: &Pair<'_>) -> Result<Finding, String> {
        let (_, i) = self.interval_of(pair, |w| self.values(pair, w).map(|(a, b)| b - a))?;
        let verdict = match () {
            () if i.low > 0.0 => Verdict::Holds,
            () if i.high < 0.0 => Verdict::Fails,
            () => Verdict::Tied,
        };
        let text = self.describe(pair);
        Ok(Finding { verdict, text })
    }

    fn is_lower_by(&self, pair: &Pair<'_>, (from, to): (f64, f64)) -> Result<Finding, String> {
        let (value, i) = self.interval_of(pair, |w| self.share(pair, w))?;
        let verdict = match i.high < from || i.low > to {
            true => Verdict::Fails,
            false => Verdict::Holds,
        };
        let text = format!(
            "{}: lower by {} [{} to {}]",
            self.describe(pair),
            percent(value),
            percent(i.low),
            percent(i.high)
        );
        Ok(Finding { verdict, text })
    }

    fn lowest_by(&self, pairs: &[Pair<'_>], most: f64, slack: f64) -> Result<Finding, String> {
        let best = |w: &[u32]| {
            let shares = pairs.iter().filter_map(|p| self.share(p, w));
            shares.max_by(f64::total_cmp)
        };
        let runs = pairs[0].low.runs();
        if pairs.iter().any(|p| p.low.runs() != runs) {
            return Err("the points have different numbers of runs".to_owned());
        }
        let (value, i) = self.interval_of(&pairs[0], best)?;
        let verdict = match () {
            () if i.low >= most - slack => Verdict::Holds,
            () if i.high < most - slack => Verdict::Fails,
            () => Verdict::Tied,
        };
        let all = vec![1; runs];
        let place = pairs.iter().find(|p| self.share(p, &all) == Some(value));
        let text = format!(
            "largest reduction {} [{} to {}], {}; claimed about {}",
            percent(value),
            percent(i.low),
            percent(i.high),
            place.map_or_else(String::new, |p| self.describe(p)),
            percent(most)
        );
        Ok(Finding { verdict, text })
    }

    fn describe(&self, pair: &Pair<'_>) -> String {
        let show = |pool: &Pool| match self.interval(pool) {
            Ok((value, i)) => self.with_interval(value, i),
            Err(reason) => reason,
        };
        let rest = match pair.rest.is_empty() {
            true => String::new(),
            false => format!("{}: ", pair.rest),
        };
        let (low, high) = (show(pair.low), show(pair.high));
        format!("{rest}{} {low} and {high}", pair.name)
    }
}

fn percent(share: f64) -> String {
    units::percent((share * 1e3).round() / 1e3)
}

/// Whether the axis has this value at the point, in whatever notation.
fn is_at(point: &PointView<'_>, axis: &str, value: &str) -> bool {
    let Some((_, found)) = point.set.iter().find(|(a, _)| a == axis) else {
        return false;
    };
    match (units::quantity(found), units::quantity(value)) {
        (Some(a), Some(b)) => (a - b).abs() <= 1e-12 * b.abs(),
        _ => found == value,
    }
}

fn rest(point: &PointView<'_>, axis: &str) -> String {
    let rest = point.set.iter().filter(|(a, _)| a != axis);
    let rest: Vec<String> = rest.map(|(a, v)| format!("{a} {v}")).collect();
    rest.join(", ")
}

//! The test `between-points`: one transport at two values of an axis.

use std::sync::Arc;

use super::{Claimed, Finding, Findings, Judge, Keys, Measured, PointView, ReadTest, Test};
use crate::catalog::Catalog;
use crate::document::ExperimentError;
use crate::stats::Pool;
use crate::units;

/// By how much a metric is lower at one point than at another: `(high - low) / high`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    /// By any amount: the interval of the difference is above zero.
    Any,
    /// By a share within this range.
    Between(f64, f64),
    /// By up to the first share, with the second as the slack for "about". The test uses the largest share over
    /// all pairs of points and transports.
    UpTo(f64, f64),
}

/// The metric of each transport is lower at one value of the axis than at another, for each setting of the other
/// axes.
#[derive(Debug)]
struct BetweenPoints {
    /// Transports.
    of: Vec<String>,
    /// The axis.
    axis: String,
    /// The axis' value where the metric is low.
    low: String,
    /// The axis' value where the metric is high.
    high: String,
    /// By how much the metric is lower.
    change: Change,
}

fn read(keys: &Keys<'_>) -> Result<Arc<dyn Test>, ExperimentError> {
    Ok(Arc::new(BetweenPoints {
        of: keys.transports("of")?,
        axis: keys.axis()?,
        low: keys.axis_value("low")?,
        high: keys.axis_value("high")?,
        change: change(keys)?,
    }))
}

/// `between` or `up_to`, with `slack`, or none of these keys.
fn change(keys: &Keys<'_>) -> Result<Change, ExperimentError> {
    let s = keys.section();
    let given = s.node("slack").is_some();
    let slack = keys.slack()?;
    match (s.node("between"), keys.optional_quantity("up_to")?) {
        (Some(_), None) => {
            let (from, to) = keys.change("between")?;
            Ok(Change::Between(from, to))
        }
        (None, Some(most)) => Ok(Change::UpTo(most, slack)),
        (None, None) if !given => Ok(Change::Any),
        (None, None) => Err(s.error("slack", "nothing to be about, want between or up_to")),
        (Some(_), Some(_)) => Err(s.error("up_to", "found between as well, want one of the two")),
    }
}

impl Test for BetweenPoints {
    fn transports(&self) -> Vec<&str> {
        self.of.iter().map(String::as_str).collect()
    }

    fn findings(&self, judge: &Judge<'_>) -> Findings {
        let (axis, low, high) = (&self.axis, &self.low, &self.high);
        let pairs = self.pairs(judge)?;
        if pairs.is_empty() {
            return Err(format!(
                "no two points with {axis} {low} and {high} are alike in all else"
            ));
        }
        match self.change {
            Change::Any => pairs.iter().map(|p| judge.is_lower(p)).collect(),
            Change::Between(from, to) => pairs
                .iter()
                .map(|p| judge.is_lower_by(p, (from, to)))
                .collect(),
            Change::UpTo(most, slack) => Ok(vec![judge.lowest_by(&pairs, most, slack)?]),
        }
    }
}

impl BetweenPoints {
    /// The pairs of points of each transport, for each setting of the other axes.
    fn pairs<'a>(&'a self, judge: &Judge<'a>) -> Result<Vec<Pair<'a>>, String> {
        let axis = &self.axis;
        let mut pairs = Vec::new();
        for name in &self.of {
            for point in judge.points.iter().filter(|p| is_at(p, axis, &self.low)) {
                let rest = rest(point, axis);
                let mut others = judge.points.iter().filter(|p| is_at(p, axis, &self.high));
                let Some(other) = others.find(|p| self::rest(p, axis) == rest) else {
                    continue;
                };
                let (low, high) = (judge.pool(point, name)?, judge.pool(other, name)?);
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
        Ok(pairs)
    }
}

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
    fn values(&self, pair: &Pair<'_>, weights: &[u32]) -> Option<(f64, f64)> {
        let of = |pool: &Pool| pool.weighted(self.metric, weights);
        Some((of(pair.low)?, of(pair.high)?))
    }

    fn share(&self, pair: &Pair<'_>, weights: &[u32]) -> Option<f64> {
        let (low, high) = self.values(pair, weights)?;
        (high > 0.0).then_some((high - low) / high)
    }

    fn estimate_of(
        &self,
        pair: &Pair<'_>,
        statistic: impl Fn(&[u32]) -> Option<f64>,
    ) -> Result<Measured, String> {
        if statistic(&vec![1; pair.low.runs()]).is_none() {
            return Err("the high value is zero".to_owned());
        }
        Ok(Measured::new(self.estimate(pair.low, statistic)?))
    }

    fn is_lower(&self, pair: &Pair<'_>) -> Result<Finding, String> {
        let found = self.estimate_of(pair, |w| self.values(pair, w).map(|(a, b)| b - a))?;
        let text = self.describe(pair);
        Ok(Finding::new(Claimed::Above(0.0), &found, text))
    }

    fn is_lower_by(&self, pair: &Pair<'_>, (from, to): (f64, f64)) -> Result<Finding, String> {
        let found = self.estimate_of(pair, |w| self.share(pair, w))?;
        let i = found.interval();
        let text = format!(
            "{}: lower by {} [{} to {}]",
            self.describe(pair),
            percent(found.value()),
            percent(i.low),
            percent(i.high)
        );
        Ok(Finding::new(Claimed::Change(from, to), &found, text))
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
        let found = self.estimate_of(&pairs[0], best)?;
        let i = found.interval();
        let all = vec![1; runs];
        let mut places = pairs.iter();
        let place = places.find(|p| self.share(p, &all) == Some(found.value()));
        let text = format!(
            "largest reduction {} [{} to {}], {}; claimed about {}",
            percent(found.value()),
            percent(i.low),
            percent(i.high),
            place.map_or_else(String::new, |p| self.describe(p)),
            percent(most)
        );
        let claimed = Claimed::up_to(most, slack);
        Ok(Finding::new(claimed, &found, text))
    }

    fn describe(&self, pair: &Pair<'_>) -> String {
        let show = |pool: &Pool| match self.measure(pool) {
            Ok(found) => self.with_interval(&found),
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

pub(super) fn register(catalog: &mut Catalog<ReadTest>) {
    let summary = "each transport is lower at one value of an axis than at another";
    catalog.add("between-points", summary, Arc::new(read));
}

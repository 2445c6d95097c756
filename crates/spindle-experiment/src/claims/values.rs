//! The values behind a claim's verdict, point by point.

use serde::Serialize;

use super::{Finding, Judge, PointView, Test, Verdict};
use crate::stats::Pool;

/// The values of a claim's transports at one point of the sweep, in one metric, and the verdicts on the comparisons
/// that were made there.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PointValues {
    /// The point's settings, such as `loss 1%, rate 1Gbps`.
    pub point: String,
    /// The metric's title.
    pub metric: String,
    /// The unit of the values: `us`, `bit/s`, `B`, or `1` for shares and plain numbers.
    pub unit: &'static str,
    /// The runs behind each value. 0 if the values were computed by formulas.
    pub runs: usize,
    /// The transports in the order in which the claim names them. Those without a value are left out.
    pub values: Vec<TransportValue>,
    /// The verdict on each comparison at this point. Comparisons of several points with each other are at none.
    pub comparisons: Vec<Verdict>,
}

/// A transport's value at a point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TransportValue {
    /// The transport.
    pub transport: String,
    /// The value, in the unit of the metric.
    pub value: f64,
    /// The 95 % interval. `None` for values that were computed by formulas, and for those of a single run.
    pub ci95: Option<[f64; 2]>,
    /// The value as text with its unit.
    pub text: String,
    /// The interval as text, such as `1.333 to 1.392 ms`.
    pub interval: Option<String>,
}

impl Judge<'_> {
    /// The values of a test's transports at each point, in the judge's metric.
    pub(super) fn at_points(&self, test: &dyn Test, findings: &[Finding]) -> Vec<PointValues> {
        let names = names(test);
        let at = |point: &PointView<'_>| {
            let label = point.label();
            let here = (label.as_str(), self.metric);
            let comparisons = findings.iter().filter(|f| {
                let place = f.place.as_ref();
                place.is_some_and(|(label, metric)| (label.as_str(), *metric) == here)
            });
            PointValues {
                metric: self.metric.title(),
                unit: self.metric.unit(),
                runs: runs(point, &names),
                values: names
                    .iter()
                    .filter_map(|n| self.value_at(point, n))
                    .collect(),
                comparisons: comparisons.map(|f| f.verdict).collect(),
                point: label,
            }
        };
        let mut points: Vec<PointValues> = self.points.iter().map(at).collect();
        points.retain(|p| !p.values.is_empty());
        points
    }

    /// The value of a transport at a point. `None` if the transport has none there.
    fn value_at(&self, point: &PointView<'_>, transport: &str) -> Option<TransportValue> {
        let pool = point.pool(transport)?;
        let value = pool.value(self.metric)?;
        let found = self.measure(pool).ok().filter(|_| !pool.is_exact());
        let interval = found.map(|f| self.metric.possible(f.interval(), value));
        let show = |v| self.metric.show(v);
        Some(TransportValue {
            transport: transport.to_owned(),
            value,
            ci95: interval.map(|i| [i.low, i.high]),
            text: show(value),
            interval: interval.map(|i| range(show(i.low), &show(i.high))),
        })
    }
}

/// Two values as text, with their unit once if both have the same.
fn range(mut low: String, high: &str) -> String {
    if let (Some((number, a)), Some((_, b))) = (low.split_once(' '), high.split_once(' '))
        && a == b
    {
        low.truncate(number.len());
    }
    format!("{low} to {high}")
}

/// The runs of each transport at a point.
fn runs(point: &PointView<'_>, names: &[&str]) -> usize {
    let pool = names.iter().find_map(|n| point.pool(n));
    pool.filter(|p| !p.is_exact()).map_or(0, Pool::runs)
}

/// The transports of a test, each once.
pub(super) fn names(test: &dyn Test) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for name in test.transports() {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::range;

    #[test]
    fn range_has_a_common_unit_once() {
        assert_eq!(range("1.3 ms".to_owned(), "1.4 ms"), "1.3 to 1.4 ms");
        assert_eq!(range("900 us".to_owned(), "1.4 ms"), "900 us to 1.4 ms");
        assert_eq!(range("2%".to_owned(), "3%"), "2% to 3%");
    }
}

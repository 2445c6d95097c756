//! What an entry of the table of metrics consists of, and how its value is computed.
//!
//! Each entry of [`SPECS`] is a metric of Spindle. Other crates add theirs with
//! [`Registry::metric`](crate::registry::Registry::metric).

use std::fmt;
use std::sync::Arc;

use super::table::SPECS;
use super::{RunResult, show_bytes, show_us};
use crate::catalog::Catalog;

/// The unit of a metric's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A share, 0 to 1, shown as a percentage.
    Share,
    /// A share, 0 to 1, that is often far below 1 %. It is shown as a percentage with five digits after the
    /// point.
    SmallShare,
    /// A time in microseconds.
    Microseconds,
    /// A rate in bits per second.
    BitsPerSecond,
    /// A size in bytes.
    Bytes,
    /// A plain number.
    Number,
}

impl Unit {
    /// The unit's name in results: `us`, `bit/s`, `B`, or `1` for shares and plain numbers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Microseconds => "us",
            Self::BitsPerSecond => "bit/s",
            Self::Bytes => "B",
            Self::Share | Self::SmallShare | Self::Number => "1",
        }
    }

    /// A value as text with its unit.
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Share => crate::units::percent((value * 1e6).round() / 1e6),
            Self::SmallShare => format!("{:.5}%", value * 100.0),
            Self::Microseconds => show_us(value),
            Self::BitsPerSecond => format!("{:.4} Mbps", value / 1e6),
            Self::Bytes => show_bytes(value),
            Self::Number => format!("{value:.3}"),
        }
    }
}

/// A metric as an entry of a table.
pub struct MetricSpec {
    /// The name in experiment files.
    pub name: &'static str,
    /// The name in a sentence.
    pub title: &'static str,
    /// The unit.
    pub unit: Unit,
    /// What must be observed, by its name in experiment files: one of
    /// [`Observe::NAMES`](crate::scenario::Observe::NAMES), or `bystanders`. If `None`, every run has the data.
    pub needs: Option<&'static str>,
    /// How the metric is computed from runs.
    pub form: Form,
}

/// The samples of a run.
type Samples = fn(&RunResult) -> &[u64];

/// How a metric is computed from runs.
#[derive(Clone, Copy)]
pub enum Form {
    /// A ratio of two sums over runs. The function returns what one run adds to the two sums: what is counted,
    /// and the total. It returns `None` if the run does not have the data.
    Ratio(fn(&RunResult) -> Option<(f64, f64)>),
    /// A percentile (0 to 1, nearest rank) of the samples of all runs. The function returns the samples of one
    /// run.
    Percentile(f64, Samples),
    /// Like [`Self::Percentile`], of times in nanoseconds. The metric is in microseconds.
    PercentileOfTimes(f64, Samples),
    /// The largest value of all runs. The function returns the value of one run, or `None` if the run does not
    /// have the data.
    Largest(fn(&RunResult) -> Option<f64>),
}

/// Shows the name.
impl fmt::Debug for MetricSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Metrics with the same name are equal.
impl PartialEq for MetricSpec {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl MetricSpec {
    /// If it is a percentile: the percentile (0 to 1), and the samples of a run.
    pub(crate) fn samples(&self) -> Option<(f64, Samples)> {
        match self.form {
            Form::Percentile(q, of) | Form::PercentileOfTimes(q, of) => Some((q, of)),
            Form::Ratio(_) | Form::Largest(_) => None,
        }
    }

    /// The metric over runs, with run i counted `weights[i]` times. `None` if there is nothing to compute it
    /// from.
    pub fn value(&self, runs: &[RunResult], weights: &[u32]) -> Option<f64> {
        match self.form {
            Form::Ratio(of) => ratio(runs, of, weights),
            Form::Percentile(q, samples) => percentile(runs, samples, q, weights),
            Form::PercentileOfTimes(q, samples) => {
                percentile(runs, samples, q, weights).map(|ns| ns / 1e3)
            }
            Form::Largest(of) => {
                let counted = runs.iter().zip(weights).filter(|(_, w)| **w > 0);
                counted.filter_map(|(r, _)| of(r)).max_by(f64::total_cmp)
            }
        }
    }
}

/// A ratio of two sums over runs, with run i counted `weights[i]` times. `parts` is what a run adds to the sums.
/// Returns `None` if there is no data.
pub(crate) fn ratio(
    runs: &[RunResult],
    parts: impl Fn(&RunResult) -> Option<(f64, f64)>,
    weights: &[u32],
) -> Option<f64> {
    let parts = runs
        .iter()
        .zip(weights)
        .filter_map(|(r, w)| Some((parts(r)?, f64::from(*w))));
    let (hits, all) = parts.fold((0.0, 0.0), |sum, ((a, b), w)| {
        (sum.0 + a * w, sum.1 + b * w)
    });
    (all > 0.0).then_some(hits / all)
}

/// The percentile `q` of all samples, with those of run i counted `weights[i]` times.
fn percentile(runs: &[RunResult], samples: Samples, q: f64, weights: &[u32]) -> Option<f64> {
    let mut all: Vec<(u64, u64)> = runs
        .iter()
        .zip(weights)
        .flat_map(|(r, w)| samples(r).iter().map(|s| (*s, u64::from(*w))))
        .collect();
    all.sort_unstable();
    let n: u64 = all.iter().map(|(_, w)| w).sum();
    let rank = crate::stats::rank(n, q);
    let mut seen = 0;
    let found = all.iter().find(|(_, w)| {
        seen += w;
        seen >= rank
    });
    found.map(|(s, _)| *s as f64)
}

/// The metric of [`SPECS`] with this name.
pub(super) fn find(name: &str) -> Option<&'static MetricSpec> {
    SPECS.iter().find(|s| s.name == name)
}

/// The metrics of [`SPECS`] as a catalog, to which other crates add.
pub(crate) fn built_in() -> Catalog<&'static MetricSpec> {
    let mut catalog = Catalog::new("metric");
    for spec in SPECS {
        catalog.add(spec.name, spec.title, Arc::new(spec));
    }
    catalog
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bystanders::BYSTANDERS;
    use crate::scenario::Observe;

    #[test]
    fn every_metric_needs_something_that_can_be_observed() {
        for spec in SPECS {
            let known = |needs: &str| needs == BYSTANDERS || Observe::NAMES.contains(&needs);
            assert!(spec.needs.is_none_or(known), "{}", spec.name);
            assert_eq!(
                spec.value(&[RunResult::default()], &[1]),
                None,
                "{}",
                spec.name
            );
        }
    }
}

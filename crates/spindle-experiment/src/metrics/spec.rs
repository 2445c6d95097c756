//! Metrics that are a ratio of two sums over runs, as a table.
//!
//! Each entry of [`SPECS`] is a metric of Spindle. Other crates add theirs with
//! [`Registry::metric`](crate::registry::Registry::metric).

use std::fmt;
use std::sync::Arc;

use super::{RunResult, show_bytes, show_us};
use crate::catalog::Catalog;
use crate::observed::{Mark, WaitsOfClass};

/// The unit of a metric's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A share, 0 to 1, shown as a percentage.
    Share,
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
            Self::Share | Self::Number => "1",
        }
    }

    /// A value as text with its unit.
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Share => crate::units::percent((value * 1e6).round() / 1e6),
            Self::Microseconds => show_us(value),
            Self::BitsPerSecond => format!("{:.4} Mbps", value / 1e6),
            Self::Bytes => show_bytes(value),
            Self::Number => format!("{value:.3}"),
        }
    }
}

/// A metric that is a ratio of two sums over runs.
pub struct MetricSpec {
    /// The name in experiment files.
    pub name: &'static str,
    /// The name in a sentence.
    pub title: &'static str,
    /// The unit.
    pub unit: Unit,
    /// What must be observed, by its name in experiment files: one of
    /// [`Observe::NAMES`](crate::scenario::Observe::NAMES). If `None`, every run has the data.
    pub needs: Option<&'static str>,
    /// What one run adds to the two sums: what is counted, and the total. `None` if the run does not have the
    /// data.
    pub of: fn(&RunResult) -> Option<(f64, f64)>,
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

/// The metrics of this form that come with Spindle.
pub static SPECS: [MetricSpec; 10] = [
    MetricSpec {
        name: "recovery.flows",
        title: "flows that proactive recovery repaired",
        unit: Unit::Share,
        needs: Some("recovery"),
        of: |run| {
            let repaired = run.recovery.as_ref()?.first_hits.len();
            Some((repaired as f64, run.flows as f64))
        },
    },
    MetricSpec {
        name: "recovery.useful",
        title: "useful recovery packets",
        unit: Unit::Share,
        needs: Some("recovery"),
        of: |run| {
            let recovery = run.recovery.as_ref()?;
            Some((recovery.useful as f64, recovery.packets as f64))
        },
    },
    MetricSpec {
        name: "size.mean",
        title: "mean size",
        unit: Unit::Bytes,
        needs: Some("sizes"),
        of: |run| {
            let sum: u64 = run.sizes.iter().sum();
            Some((sum as f64, run.sizes.len() as f64))
        },
    },
    MetricSpec {
        name: "queueing.short",
        title: "queueing delay of short flows' packets",
        unit: Unit::Microseconds,
        needs: Some("paths"),
        of: |run| queueing(run, Mark::Short),
    },
    MetricSpec {
        name: "queueing.long",
        title: "queueing delay of long flows' packets",
        unit: Unit::Microseconds,
        needs: Some("paths"),
        of: |run| queueing(run, Mark::Long),
    },
    MetricSpec {
        name: "disorder.short",
        title: "disorder of short flows' packets",
        unit: Unit::Share,
        needs: Some("paths"),
        of: |run| disorder(run, Mark::Short),
    },
    MetricSpec {
        name: "disorder.long",
        title: "disorder of long flows' packets",
        unit: Unit::Share,
        needs: Some("paths"),
        of: |run| disorder(run, Mark::Long),
    },
    MetricSpec {
        name: "paths.unused",
        title: "paths unused by short flows",
        unit: Unit::Share,
        needs: Some("paths"),
        of: |run| {
            let paths = run.observed.paths?;
            let unused = paths.available.saturating_sub(paths.used);
            Some((unused as f64, paths.available as f64))
        },
    },
    MetricSpec {
        name: "cwnd.short",
        title: "congestion window of short flows' packets",
        unit: Unit::Number,
        needs: Some("windows"),
        of: |run| {
            let short = run.observed.windows?.short;
            Some((short.segments, short.packets as f64))
        },
    },
    MetricSpec {
        name: "cwnd.long",
        title: "congestion window of long flows' packets",
        unit: Unit::Number,
        needs: Some("windows"),
        of: |run| {
            let long = run.observed.windows?.long;
            Some((long.segments, long.packets as f64))
        },
    },
];

/// What data packets with this mark waited and met. `None` if it was not observed.
fn waits(run: &RunResult, mark: Mark) -> Option<WaitsOfClass> {
    let paths = run.observed.paths?;
    Some(match mark {
        Mark::Short => paths.short,
        Mark::Long => paths.long,
    })
}

/// Mean time that data packets with this mark spent in queues of switches, microseconds.
fn queueing(run: &RunResult, mark: Mark) -> Option<(f64, f64)> {
    let waits = waits(run, mark)?;
    Some((waits.queueing_ns as f64 / 1e3, waits.packets as f64))
}

/// The share of data packets with this mark that were overtaken by a packet of their flow that was sent later.
fn disorder(run: &RunResult, mark: Mark) -> Option<(f64, f64)> {
    let waits = waits(run, mark)?;
    Some((waits.overtaken as f64, waits.packets as f64))
}

/// The metric of [`SPECS`] with this name.
pub(super) fn find(name: &str) -> Option<&'static MetricSpec> {
    SPECS.iter().find(|s| s.name == name)
}

/// The metrics of [`SPECS`] as a catalog, to which other crates add.
pub(crate) fn built_in() -> Catalog<&'static MetricSpec> {
    let mut catalog = Catalog::new("metric");
    for spec in &SPECS {
        catalog.add(spec.name, spec.title, Arc::new(spec));
    }
    catalog
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Observe;

    #[test]
    fn every_metric_needs_something_that_can_be_observed() {
        for spec in &SPECS {
            let known = |needs: &str| Observe::NAMES.contains(&needs);
            assert!(spec.needs.is_none_or(known), "{}", spec.name);
            assert!((spec.of)(&RunResult::default()).is_none_or(|(_, all)| all == 0.0));
        }
    }
}

//! What `observe` records of each flow in addition to its time, and the metrics computed from it
//! (docs/reference/metrics.md, "With `observe`").

mod records;

pub use records::{
    BystandersOfRun, CodingOfFlows, DeadlinesOfFlows, GoodputOfGroup, LinksOfGroup, Observations,
    PacketsOfClass, PacketsOfFlows, PathsOfFlows, RecoveryOfFlows, SPARE_WINDOWS_MS, TimersOfFlows,
    UnitsOfFlows, WaitsOfClass, WindowsOfClass, WindowsOfFlows,
};

use std::ops::RangeInclusive;

use crate::formula::{COMPUTED_METRICS, Computed};
use crate::metrics::{RunResult, ratio, show_bytes};

/// A metric of observed data that has parameters, or is computed by a formula. Metrics without parameters are
/// entries of [`SPECS`](crate::metrics::SPECS).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObservedMetric {
    /// Of the flows to which proactive recovery delivered data, the share whose first useful recovery packet
    /// has a number in this range, counted from 1 (both ends included).
    FirstHit(u32, u32),
    /// The share of flows with room for at most this many packets (second field) within the window with this
    /// index in [`SPARE_WINDOWS_MS`] (first field).
    Spare(usize, u32),
    /// The share of flows of at most this many bytes.
    SizeTo(u32),
    /// The result of a formula.
    Computed(Computed),
}

/// The name that takes the place of an observation if points are computed.
pub(crate) const COMPUTED: &str = "formula";

impl ObservedMetric {
    /// Returns the computed metric with that name.
    pub fn parse(name: &str) -> Option<Self> {
        let computed = COMPUTED_METRICS.iter().find(|(n, _)| *n == name);
        computed.map(|(_, c)| Self::Computed(*c))
    }

    /// The names of all computed metrics.
    pub fn names() -> impl Iterator<Item = &'static str> + Clone {
        COMPUTED_METRICS.iter().map(|(name, _)| *name)
    }

    /// What must be observed for this metric, by its name in experiment files.
    pub const fn needs(self) -> &'static str {
        match self {
            Self::FirstHit(..) | Self::Spare(..) => "recovery",
            Self::SizeTo(_) => "sizes",
            Self::Computed(_) => COMPUTED,
        }
    }

    /// The metric's name in a sentence.
    pub fn title(self) -> String {
        match self {
            Self::FirstHit(1, to) => {
                format!("repaired flows that took at most {to} recovery packets")
            }
            Self::FirstHit(from, to) => {
                format!("repaired flows that took {from} to {to} recovery packets")
            }
            Self::Spare(window, most) => {
                let ms = SPARE_WINDOWS_MS[window];
                format!("flows with at most {most} spare packets within {ms} ms")
            }
            Self::SizeTo(most) => format!("flows of at most {}", show_bytes(f64::from(most))),
            Self::Computed(c) => c.title().to_owned(),
        }
    }

    /// A value as text with its unit.
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Computed(c) => c.show(value),
            _ => crate::units::percent((value * 1e6).round() / 1e6),
        }
    }

    /// Whether the metric is a share, 0 to 1.
    pub const fn is_share(self) -> bool {
        !self.is_count() && !self.is_time()
    }

    /// Whether the metric is a time.
    pub const fn is_time(self) -> bool {
        matches!(self, Self::Computed(c) if c.is_time())
    }

    /// Whether the metric is a plain number.
    pub const fn is_count(self) -> bool {
        matches!(self, Self::Computed(c) if c.is_count())
    }

    /// The two parts of the metric as a ratio of sums over runs: what is counted, and the total.
    fn parts(self, run: &RunResult) -> Option<(f64, f64)> {
        match self {
            Self::FirstHit(from, to) => first_hit(run, from..=to),
            Self::Spare(window, most) => spare(run, window, most),
            Self::SizeTo(most) => {
                let within = run.sizes.iter().filter(|s| **s <= u64::from(most));
                Some((within.count() as f64, run.sizes.len() as f64))
            }
            Self::Computed(what) => {
                let found = run.computed.iter().find(|(c, _)| *c == what);
                found.map(|(_, value)| (*value, 1.0))
            }
        }
    }
}

/// The repaired flows whose first useful recovery packet has a number in this range, and all repaired flows.
pub(crate) fn first_hit(run: &RunResult, range: RangeInclusive<u32>) -> Option<(f64, f64)> {
    let hits = &run.recovery.as_ref()?.first_hits;
    let within = hits.iter().filter(|n| range.contains(n)).count();
    Some((within as f64, hits.len() as f64))
}

/// The flows with room for at most `most` packets within a window of [`SPARE_WINDOWS_MS`], and all flows.
pub(crate) fn spare(run: &RunResult, window: usize, most: u32) -> Option<(f64, f64)> {
    let spare = &run.recovery.as_ref()?.spare;
    let within = spare.iter().filter(|s| s[window] <= most).count();
    Some((within as f64, spare.len() as f64))
}

/// The group of links between the last two layers of switches, and its name in a network of two layers.
const CORE: &str = "agg-core";
const CORE_OF_TWO_LAYERS: &str = "leaf-spine";

/// Returns the entry of a group. In a network of two layers of switches, the core is the group between them.
pub(crate) fn group_named<'a, T>(
    all: &'a [T],
    name: &str,
    group: impl Fn(&T) -> &String,
) -> Option<&'a T> {
    let has = |name: &str| all.iter().find(|g| group(g) == name);
    has(name).or_else(|| has(CORE_OF_TWO_LAYERS).filter(|_| name == CORE))
}

/// The metric over runs, with run i counted `weights[i]` times. Returns `None` if nothing was observed.
pub(crate) fn weighted(runs: &[RunResult], metric: ObservedMetric, weights: &[u32]) -> Option<f64> {
    ratio(runs, |run| metric.parts(run), weights)
}

#[cfg(test)]
mod tests;

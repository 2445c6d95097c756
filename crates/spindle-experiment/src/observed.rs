//! What `observe` records of each flow in addition to its time, and the metrics computed from it
//! (docs/reference/metrics.md, "With `observe`").

mod coding;
mod records;

pub use coding::{CodingMetric, UnitMetric};
pub use records::{
    CodingOfFlows, GoodputOfGroup, LinksOfGroup, Observations, PacketsOfClass, PacketsOfFlows,
    PathsOfFlows, RecoveryOfFlows, SPARE_WINDOWS_MS, TimersOfFlows, UnitsOfFlows, WaitsOfClass,
    WindowsOfClass, WindowsOfFlows,
};

use crate::formula::{COMPUTED_METRICS, Computed};
use crate::metrics::{RunResult, show_bytes, show_us};

/// A number computed from what was observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObservedMetric {
    /// Of the flows to which proactive recovery delivered data, the share whose first useful recovery packet
    /// has a number in this range, counted from 1 (both ends included).
    FirstHit(u32, u32),
    /// The share of flows with room for at most this many packets (second field) within the window with this
    /// index in [`SPARE_WINDOWS_MS`] (first field).
    Spare(usize, u32),
    /// Median size in bytes, nearest rank.
    SizeMedian,
    /// The share of flows of at most this many bytes.
    SizeTo(u32),
    /// A number computed from each flow's timeouts.
    Timeouts(PerFlow),
    /// A number computed from each flow's fast recoveries.
    Retransmits(PerFlow),
    /// The share of time that the links of this group were busy.
    Utilisation(&'static str),
    /// Packets dropped by queues between the last two layers of switches, divided by the packets offered to
    /// these queues.
    CoreLoss,
    /// Packets dropped by queues at the links of hosts, divided by the packets offered to these queues.
    AccessLoss,
    /// Dropped data packets with the short flows' mark, divided by such packets sent.
    ShortLoss,
    /// Dropped data packets without that mark, divided by such packets sent.
    LongLoss,
    /// All dropped data packets, divided by all data packets sent.
    AllLoss,
    /// Bytes that applications received over links of this group, divided by the bytes that these links could
    /// have sent.
    GroupGoodput(&'static str),
    /// A number computed from what coding sent and learned.
    Coding(CodingMetric),
    /// A number computed from units in transit.
    Units(UnitMetric),
    /// The result of a formula.
    Computed(Computed),
}

/// The class of packets that a metric covers, by their mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Packets marked as short flows'.
    Short,
    /// All other packets.
    Long,
}

/// A statistic of numbers of which each flow has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerFlow {
    /// The mean of the numbers.
    Mean,
    /// The largest number, at most 100.
    Most,
    /// The share of flows with exactly this number.
    Equal(u32),
    /// The share of flows with a larger number.
    Above(u32),
}

/// The name that takes the place of an observation if points are computed.
pub(crate) const COMPUTED: &str = "formula";

/// The metrics that are observed in runs, by name.
pub const OBSERVED_METRICS: [(&str, ObservedMetric); 45] = [
    ("recovery.hit-by-4", ObservedMetric::FirstHit(1, 4)),
    ("recovery.hit-by-16", ObservedMetric::FirstHit(1, 16)),
    ("recovery.hit-5-to-16", ObservedMetric::FirstHit(5, 16)),
    ("spare.20ms.to-4", ObservedMetric::Spare(0, 4)),
    ("spare.50ms.to-4", ObservedMetric::Spare(1, 4)),
    ("spare.100ms.to-4", ObservedMetric::Spare(2, 4)),
    ("spare.20ms.to-3", ObservedMetric::Spare(0, 3)),
    ("spare.50ms.to-3", ObservedMetric::Spare(1, 3)),
    ("spare.100ms.to-3", ObservedMetric::Spare(2, 3)),
    ("size.p50", ObservedMetric::SizeMedian),
    ("timeouts.mean", ObservedMetric::Timeouts(PerFlow::Mean)),
    ("timeouts.max", ObservedMetric::Timeouts(PerFlow::Most)),
    ("timeouts.none", ObservedMetric::Timeouts(PerFlow::Equal(0))),
    (
        "timeouts.above-1",
        ObservedMetric::Timeouts(PerFlow::Above(1)),
    ),
    (
        "timeouts.above-2",
        ObservedMetric::Timeouts(PerFlow::Above(2)),
    ),
    (
        "timeouts.above-20",
        ObservedMetric::Timeouts(PerFlow::Above(20)),
    ),
    (
        "retransmits.mean",
        ObservedMetric::Retransmits(PerFlow::Mean),
    ),
    (
        "retransmits.max",
        ObservedMetric::Retransmits(PerFlow::Most),
    ),
    (
        "retransmits.none",
        ObservedMetric::Retransmits(PerFlow::Equal(0)),
    ),
    (
        "retransmits.one",
        ObservedMetric::Retransmits(PerFlow::Equal(1)),
    ),
    ("core.utilisation", ObservedMetric::Utilisation(CORE)),
    ("access.utilisation", ObservedMetric::Utilisation(ACCESS)),
    (
        "edge-agg.utilisation",
        ObservedMetric::Utilisation("edge-agg"),
    ),
    (
        "leaf-spine.utilisation",
        ObservedMetric::Utilisation("leaf-spine"),
    ),
    ("mesh.utilisation", ObservedMetric::Utilisation("mesh")),
    ("core.loss", ObservedMetric::CoreLoss),
    ("access.loss", ObservedMetric::AccessLoss),
    ("loss.short", ObservedMetric::ShortLoss),
    ("loss.long", ObservedMetric::LongLoss),
    ("loss.all", ObservedMetric::AllLoss),
    ("core.goodput", ObservedMetric::GroupGoodput(CORE)),
    ("access.goodput", ObservedMetric::GroupGoodput(ACCESS)),
    ("edge-agg.goodput", ObservedMetric::GroupGoodput("edge-agg")),
    (
        "leaf-spine.goodput",
        ObservedMetric::GroupGoodput("leaf-spine"),
    ),
    ("mesh.goodput", ObservedMetric::GroupGoodput("mesh")),
    (
        "coding.redundant",
        ObservedMetric::Coding(CodingMetric::Redundant),
    ),
    (
        "coding.redundant.all",
        ObservedMetric::Coding(CodingMetric::RedundantOfAll),
    ),
    ("coding.unit", ObservedMetric::Coding(CodingMetric::Unit)),
    (
        "coding.undecoded",
        ObservedMetric::Coding(CodingMetric::Undecoded),
    ),
    ("coding.late", ObservedMetric::Coding(CodingMetric::Late)),
    (
        "coding.blocking",
        ObservedMetric::Coding(CodingMetric::Blocking),
    ),
    ("coding.at-once", ObservedMetric::Units(UnitMetric::AtOnce)),
    ("coding.delay", ObservedMetric::Units(UnitMetric::Delay)),
    (
        "coding.delay.window",
        ObservedMetric::Units(UnitMetric::WindowDelay),
    ),
    (
        "rtt.tracking",
        ObservedMetric::Coding(CodingMetric::Tracking),
    ),
];

impl ObservedMetric {
    /// Returns the metric with that name.
    pub fn parse(name: &str) -> Option<Self> {
        let named = OBSERVED_METRICS.iter().find(|(n, _)| *n == name);
        let computed = COMPUTED_METRICS.iter().find(|(n, _)| *n == name);
        named
            .map(|(_, metric)| *metric)
            .or_else(|| computed.map(|(_, c)| Self::Computed(*c)))
    }

    /// The names of all these metrics.
    pub fn names() -> impl Iterator<Item = &'static str> + Clone {
        let computed = COMPUTED_METRICS.iter().map(|(name, _)| *name);
        OBSERVED_METRICS
            .iter()
            .map(|(name, _)| *name)
            .chain(computed)
    }

    /// What must be observed for this metric, by its name in experiment files.
    pub const fn needs(self) -> &'static str {
        match self {
            Self::SizeMedian | Self::SizeTo(_) => "sizes",
            Self::Timeouts(_) | Self::Retransmits(_) => "timers",
            Self::Utilisation(_) | Self::CoreLoss | Self::AccessLoss => "links",
            Self::ShortLoss | Self::LongLoss | Self::AllLoss => "packets",
            Self::GroupGoodput(_) => "goodput",
            Self::Coding(_) | Self::Units(_) => "coding",
            Self::Computed(_) => COMPUTED,
            _ => "recovery",
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
            Self::SizeMedian => "median size".to_owned(),
            Self::SizeTo(most) => format!("flows of at most {}", show_bytes(f64::from(most))),
            Self::Timeouts(what) => what.title("timeout"),
            Self::Retransmits(what) => what.title("fast retransmit"),
            Self::Utilisation(CORE) => "core utilisation".to_owned(),
            Self::Utilisation(group) => format!("{group} utilisation"),
            Self::CoreLoss => "core loss".to_owned(),
            Self::AccessLoss => "access loss".to_owned(),
            Self::ShortLoss => "loss of short flows' packets".to_owned(),
            Self::LongLoss => "loss of long flows' packets".to_owned(),
            Self::AllLoss => "loss of packets".to_owned(),
            Self::GroupGoodput(CORE) => "goodput of the core".to_owned(),
            Self::GroupGoodput(group) => format!("goodput of {group}"),
            Self::Coding(what) => what.title().to_owned(),
            Self::Units(what) => what.title().to_owned(),
            Self::Computed(c) => c.title().to_owned(),
        }
    }

    /// A value as text with its unit.
    pub fn show(self, value: f64) -> String {
        match self {
            Self::SizeMedian => show_bytes(value),
            Self::Computed(c) => c.show(value),
            _ if self.is_time() => show_us(value),
            _ if self.is_count() => format!("{value:.3}"),
            Self::CoreLoss
            | Self::AccessLoss
            | Self::ShortLoss
            | Self::LongLoss
            | Self::AllLoss => format!("{:.5}%", value * 100.0),
            _ => crate::units::percent((value * 1e6).round() / 1e6),
        }
    }

    /// Whether the metric is a share, 0 to 1.
    pub const fn is_share(self) -> bool {
        !self.is_size() && !self.is_count() && !self.is_time()
    }

    /// Whether the metric is a time.
    pub const fn is_time(self) -> bool {
        match self {
            Self::Units(what) => what.is_time(),
            Self::Computed(c) => c.is_time(),
            _ => false,
        }
    }

    /// Whether the metric is a size in bytes.
    pub const fn is_size(self) -> bool {
        matches!(self, Self::SizeMedian)
    }

    /// Whether the metric is a plain number.
    pub const fn is_count(self) -> bool {
        match self {
            Self::Timeouts(what) | Self::Retransmits(what) => {
                matches!(what, PerFlow::Mean | PerFlow::Most)
            }
            Self::Coding(CodingMetric::Unit) => true,
            Self::Computed(c) => c.is_count(),
            _ => false,
        }
    }
}

impl PerFlow {
    fn title(self, what: &str) -> String {
        match self {
            Self::Mean => format!("{what}s of a flow"),
            Self::Most => format!("most {what}s of a flow"),
            Self::Equal(0) => format!("flows without a {what}"),
            Self::Equal(n) => format!("flows with {n} {what}{}", if n == 1 { "" } else { "s" }),
            Self::Above(n) => format!("flows with more than {n} {what}s"),
        }
    }

    /// The two parts of the statistic as a ratio of sums. `counts[n]` is how many flows have the number n.
    fn parts(self, counts: &[u64]) -> Option<(f64, f64)> {
        let flows: u64 = counts.iter().sum();
        let of = |keep: &dyn Fn(usize) -> bool| {
            let kept = counts.iter().enumerate().filter(|(n, _)| keep(*n));
            kept.map(|(_, c)| *c).sum::<u64>()
        };
        let hits = match self {
            Self::Mean => counts.iter().enumerate().map(|(n, c)| n as u64 * c).sum(),
            Self::Equal(k) => of(&|n| n == k as usize),
            Self::Above(k) => of(&|n| n > k as usize),
            Self::Most => return None,
        };
        Some((hits as f64, flows as f64))
    }
}

/// The group of links between the last two layers of switches, and the group of the hosts' own links.
const CORE: &str = "agg-core";
const ACCESS: &str = "access";
/// The name of the core group in a network of two layers.
const CORE_OF_TWO_LAYERS: &str = "leaf-spine";

/// The data of a run from which these metrics are computed.
struct Kept<'a>(&'a RunResult);

impl<'a> Kept<'a> {
    fn group(&self, name: &str) -> Option<&'a LinksOfGroup> {
        named(&self.0.observed.links, name, |g| &g.group)
    }

    fn most(&self, metric: ObservedMetric) -> Option<usize> {
        let timers = self.0.observed.timers.as_ref()?;
        match metric {
            ObservedMetric::Timeouts(PerFlow::Most) => Some(timers.timeouts.len()),
            ObservedMetric::Retransmits(PerFlow::Most) => Some(timers.retransmits.len()),
            _ => None,
        }
    }

    /// The two parts of the metric as a ratio of sums over runs: what is counted, and the total.
    fn parts(&self, metric: ObservedMetric) -> Option<(f64, f64)> {
        let shares = |hits: usize, all: usize| Some((hits as f64, all as f64));
        let r = self.0.recovery.as_ref();
        match metric {
            ObservedMetric::FirstHit(from, to) => {
                let hits = &r?.first_hits;
                let within = hits.iter().filter(|n| (from..=to).contains(*n)).count();
                shares(within, hits.len())
            }
            ObservedMetric::Spare(window, most) => {
                let spare = &r?.spare;
                shares(
                    spare.iter().filter(|s| s[window] <= most).count(),
                    spare.len(),
                )
            }
            ObservedMetric::SizeTo(most) => {
                let within = self.0.sizes.iter().filter(|s| **s <= u64::from(most));
                shares(within.count(), self.0.sizes.len())
            }
            ObservedMetric::SizeMedian => None,
            ObservedMetric::Timeouts(what) => {
                what.parts(&self.0.observed.timers.as_ref()?.timeouts)
            }
            ObservedMetric::Retransmits(what) => {
                what.parts(&self.0.observed.timers.as_ref()?.retransmits)
            }
            ObservedMetric::Utilisation(group) => {
                let links = self.group(group)?;
                Some((links.busy_s, links.time_s))
            }
            ObservedMetric::CoreLoss => drops(self.group(CORE)?),
            ObservedMetric::AccessLoss => drops(self.group(ACCESS)?),
            ObservedMetric::ShortLoss => lost(self.0.observed.packets?.short),
            ObservedMetric::LongLoss => lost(self.0.observed.packets?.others),
            ObservedMetric::AllLoss => {
                let (a, b) = (
                    lost(self.0.observed.packets?.short)?,
                    lost(self.0.observed.packets?.others)?,
                );
                Some((a.0 + b.0, a.1 + b.1))
            }
            ObservedMetric::GroupGoodput(group) => {
                let group = named(&self.0.observed.goodput, group, |g| &g.group)?;
                Some((group.bytes as f64, group.room))
            }
            ObservedMetric::Coding(what) => Some(what.parts(&self.0.observed.coding?)),
            ObservedMetric::Units(what) => Some(what.parts(&self.0.observed.units?)),
            ObservedMetric::Computed(what) => {
                let found = self.0.computed.iter().find(|(c, _)| *c == what);
                found.map(|(_, value)| (*value, 1.0))
            }
        }
    }
}

/// Returns the entry of a group. In a network of two layers of switches, the core is the group between them.
fn named<'a, T>(all: &'a [T], name: &str, group: impl Fn(&T) -> &String) -> Option<&'a T> {
    let has = |name: &str| all.iter().find(|g| group(g) == name);
    has(name).or_else(|| has(CORE_OF_TWO_LAYERS).filter(|_| name == CORE))
}

fn drops(links: &LinksOfGroup) -> Option<(f64, f64)> {
    Some((links.dropped as f64, links.offered as f64))
}

fn lost(packets: PacketsOfClass) -> Option<(f64, f64)> {
    Some((packets.dropped as f64, packets.sent as f64))
}

/// The metric over runs, with run i counted `weights[i]` times. Returns `None` if nothing was observed.
pub(crate) fn weighted(runs: &[RunResult], metric: ObservedMetric, weights: &[u32]) -> Option<f64> {
    if metric == ObservedMetric::SizeMedian {
        return median_size(runs, weights);
    }
    let counted = runs.iter().zip(weights).filter(|(_, w)| **w > 0);
    let most = counted.filter_map(|(r, _)| Kept(r).most(metric)).max();
    if let Some(numbers) = most {
        return Some(numbers.saturating_sub(1) as f64);
    }
    ratio(runs, |run| Kept(run).parts(metric), weights)
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

fn median_size(runs: &[RunResult], weights: &[u32]) -> Option<f64> {
    let mut all: Vec<(u64, u64)> = runs
        .iter()
        .zip(weights)
        .flat_map(|(r, w)| r.sizes.iter().map(|s| (*s, u64::from(*w))))
        .collect();
    all.sort_unstable();
    let n: u64 = all.iter().map(|(_, w)| w).sum();
    let rank = crate::stats::rank(n, 0.5);
    let mut seen = 0;
    let found = all.iter().find(|(_, w)| {
        seen += w;
        seen >= rank
    });
    found.map(|(s, _)| *s as f64)
}

#[cfg(test)]
mod tests;

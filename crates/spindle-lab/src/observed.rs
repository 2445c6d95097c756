//! What `observe` keeps of each flow beside its time, and the metrics made of it (experiments/README.md,
//! "Proactive recovery").

use serde::{Deserialize, Serialize};

use crate::formula::{COMPUTED_METRICS, Computed};
use crate::metrics::{RunResult, show_bytes};

/// Times after all data were sent within which spare room in windows is looked at, in milliseconds
/// (CoFUSO section 3.3, Fig 5).
pub const SPARE_WINDOWS_MS: [u64; 3] = [20, 50, 100];

/// What proactive recovery did for the flows of a run, as far as the server's end goes: the one that
/// sends the responses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveryOfFlows {
    /// For each flow to which a recovery packet brought data that had not arrived: how many had been
    /// sent up to and including the first that did.
    pub first_hits: Vec<u32>,
    /// Recovery packets sent: copies and parities.
    pub packets: u64,
    /// Of these, those that brought data that had not arrived.
    pub useful: u64,
    /// For each flow how many packets congestion windows would have let out, recovery packets that were
    /// sent among them, from when its data had all been sent until so long after
    /// ([`SPARE_WINDOWS_MS`]).
    pub spare: Vec<[u32; SPARE_WINDOWS_MS.len()]>,
}

/// How often retransmission timers fired, and fast recovery began, for each flow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimersOfFlows {
    /// By the number of timeouts, how many flows had so many; the last are those with more.
    pub timeouts: Vec<u64>,
    /// The same for fast recoveries.
    pub retransmits: Vec<u64>,
}

/// More timeouts or recoveries of a flow are not told apart.
const MOST_TIMERS: usize = 100;

impl TimersOfFlows {
    /// Counts a flow.
    pub(crate) fn add(&mut self, timeouts: u64, retransmits: u64) {
        for (counts, n) in [
            (&mut self.timeouts, timeouts),
            (&mut self.retransmits, retransmits),
        ] {
            let n = (n as usize).min(MOST_TIMERS);
            if counts.len() <= n {
                counts.resize(n + 1, 0);
            }
            counts[n] += 1;
        }
    }
}

/// What the links of a group did from the beginning of a run to its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinksOfGroup {
    /// The group: `access`, `edge-agg`, `agg-core` in a fat-tree, `access`, `leaf-spine` in a leaf-spine
    /// network.
    pub group: String,
    /// Time that its links spent sending, seconds, summed.
    pub busy_s: f64,
    /// Time that they could have, seconds.
    pub time_s: f64,
    /// Packets that came to their queues.
    pub offered: u64,
    /// Of these, packets that found no room.
    pub dropped: u64,
}

/// What became of the data packets that hosts sent while flows counted, by their mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketsOfFlows {
    /// Those marked as short flows'.
    pub short: PacketsOfClass,
    /// The others.
    pub others: PacketsOfClass,
}

/// What became of data packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketsOfClass {
    /// Packets that left a host, for the first time or again.
    pub sent: u64,
    /// Packets that were dropped, wherever and why.
    pub dropped: u64,
}

/// A number made of what was observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObservedMetric {
    /// Flows to which proactive recovery brought data, over all flows.
    RecoveredFlows,
    /// Recovery packets that brought data, over all recovery packets.
    UsefulRecoveries,
    /// Of the flows to which proactive recovery brought data, the share for which the first packet that
    /// did was one of these, counted from 1 (the last included).
    FirstHit(u32, u32),
    /// The share of flows with room for at most so many packets within the window of that index.
    Spare(usize, u32),
    /// Mean size in bytes.
    SizeMean,
    /// Median size in bytes, nearest rank.
    SizeMedian,
    /// The share of flows of at most so many bytes.
    SizeTo(u32),
    /// A number made of each flow's timeouts.
    Timeouts(PerFlow),
    /// A number made of each flow's fast recoveries.
    Retransmits(PerFlow),
    /// The share of time that the links of this group were busy.
    Utilisation(&'static str),
    /// Packets dropped by queues between the last two layers of switches, over those that came there.
    CoreLoss,
    /// The same at the links of hosts.
    AccessLoss,
    /// Of data packets marked as short flows' those dropped, over those sent.
    ShortLoss,
    /// The same of all others.
    LongLoss,
    /// What a formula gives.
    Computed(Computed),
}

/// What is asked about numbers of which each flow has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerFlow {
    /// Their mean.
    Mean,
    /// The largest, 100 at most.
    Most,
    /// The share of flows with this number.
    Equal(u32),
    /// The share of flows with more.
    Above(u32),
}

/// What is "observed" where points are computed.
pub(crate) const COMPUTED: &str = "formula";

/// Those that are observed in runs, by name.
pub const OBSERVED_METRICS: [(&str, ObservedMetric); 32] = [
    ("recovery.flows", ObservedMetric::RecoveredFlows),
    ("recovery.useful", ObservedMetric::UsefulRecoveries),
    ("recovery.hit-by-4", ObservedMetric::FirstHit(1, 4)),
    ("recovery.hit-by-16", ObservedMetric::FirstHit(1, 16)),
    ("recovery.hit-5-to-16", ObservedMetric::FirstHit(5, 16)),
    ("spare.20ms.to-4", ObservedMetric::Spare(0, 4)),
    ("spare.50ms.to-4", ObservedMetric::Spare(1, 4)),
    ("spare.100ms.to-4", ObservedMetric::Spare(2, 4)),
    ("spare.20ms.to-3", ObservedMetric::Spare(0, 3)),
    ("spare.50ms.to-3", ObservedMetric::Spare(1, 3)),
    ("spare.100ms.to-3", ObservedMetric::Spare(2, 3)),
    ("size.mean", ObservedMetric::SizeMean),
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
];

impl ObservedMetric {
    /// The metric of that name.
    pub fn parse(name: &str) -> Option<Self> {
        let named = OBSERVED_METRICS.iter().find(|(n, _)| *n == name);
        let computed = COMPUTED_METRICS.iter().find(|(n, _)| *n == name);
        named
            .map(|(_, metric)| *metric)
            .or_else(|| computed.map(|(_, c)| Self::Computed(*c)))
    }

    /// The names of all of them.
    pub fn names() -> impl Iterator<Item = &'static str> + Clone {
        let computed = COMPUTED_METRICS.iter().map(|(name, _)| *name);
        OBSERVED_METRICS
            .iter()
            .map(|(name, _)| *name)
            .chain(computed)
    }

    /// What has to be observed for it, by the name in experiment files.
    pub const fn needs(self) -> &'static str {
        match self {
            Self::SizeMean | Self::SizeMedian | Self::SizeTo(_) => "sizes",
            Self::Timeouts(_) | Self::Retransmits(_) => "timers",
            Self::Utilisation(_) | Self::CoreLoss | Self::AccessLoss => "links",
            Self::ShortLoss | Self::LongLoss => "packets",
            Self::Computed(_) => COMPUTED,
            _ => "recovery",
        }
    }

    /// What it is called in a sentence.
    pub fn title(self) -> String {
        match self {
            Self::RecoveredFlows => "flows that proactive recovery repaired".to_owned(),
            Self::UsefulRecoveries => "useful recovery packets".to_owned(),
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
            Self::SizeMean => "mean size".to_owned(),
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
            Self::Computed(c) => c.title().to_owned(),
        }
    }

    /// A value of it as text with its unit.
    pub fn show(self, value: f64) -> String {
        match self {
            Self::SizeMean | Self::SizeMedian => show_bytes(value),
            Self::Computed(c) => c.show(value),
            _ if self.is_count() => format!("{value:.3}"),
            Self::CoreLoss | Self::AccessLoss | Self::ShortLoss | Self::LongLoss => {
                format!("{:.5}%", value * 100.0)
            }
            _ => crate::experiment::units::percent((value * 1e6).round() / 1e6),
        }
    }

    /// Whether it is a share, 0 to 1.
    pub const fn is_share(self) -> bool {
        !self.is_size() && !self.is_count() && !self.is_time()
    }

    /// Whether it is a time.
    pub const fn is_time(self) -> bool {
        matches!(self, Self::Computed(c) if c.is_time())
    }

    /// Whether it is a size in bytes.
    pub const fn is_size(self) -> bool {
        matches!(self, Self::SizeMean | Self::SizeMedian)
    }

    /// Whether it is a mere number.
    pub const fn is_count(self) -> bool {
        match self {
            Self::Timeouts(what) | Self::Retransmits(what) => {
                matches!(what, PerFlow::Mean | PerFlow::Most)
            }
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

    /// What the number is made of, as a ratio of sums, from how many flows have each number.
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

/// What is kept of a run for these metrics.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept {
    flows: u64,
    recovery: Option<RecoveryOfFlows>,
    sizes: Vec<u64>,
    timers: Option<TimersOfFlows>,
    links: Vec<LinksOfGroup>,
    packets: Option<PacketsOfFlows>,
    computed: Vec<(Computed, f64)>,
}

/// The group of links between the last two layers of switches, and that of the hosts' own.
const CORE: &str = "agg-core";
const ACCESS: &str = "access";
/// What the former is called in a network of two layers.
const CORE_OF_TWO_LAYERS: &str = "leaf-spine";

impl Kept {
    pub(crate) fn of(run: &RunResult) -> Self {
        Self {
            flows: run.flows,
            recovery: run.recovery.clone(),
            sizes: run.sizes.clone(),
            timers: run.timers.clone(),
            links: run.links.clone(),
            packets: run.packets,
            computed: run.computed.clone(),
        }
    }

    /// Whether it is no run but a point that was computed.
    pub(crate) fn is_computed(&self) -> bool {
        !self.computed.is_empty()
    }

    fn group(&self, name: &str) -> Option<&LinksOfGroup> {
        let has = |name: &str| self.links.iter().find(|g| g.group == name);
        has(name).or_else(|| has(CORE_OF_TWO_LAYERS).filter(|_| name == CORE))
    }

    fn most(&self, metric: ObservedMetric) -> Option<usize> {
        let timers = self.timers.as_ref()?;
        match metric {
            ObservedMetric::Timeouts(PerFlow::Most) => Some(timers.timeouts.len()),
            ObservedMetric::Retransmits(PerFlow::Most) => Some(timers.retransmits.len()),
            _ => None,
        }
    }

    /// What the metric is made of as a ratio of sums over runs: what is counted, and what there is.
    fn parts(&self, metric: ObservedMetric) -> Option<(f64, f64)> {
        let shares = |hits: usize, all: usize| Some((hits as f64, all as f64));
        let r = self.recovery.as_ref();
        match metric {
            ObservedMetric::RecoveredFlows => {
                shares(r?.first_hits.len(), usize::try_from(self.flows).ok()?)
            }
            ObservedMetric::UsefulRecoveries => {
                let r = r?;
                Some((r.useful as f64, r.packets as f64))
            }
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
            ObservedMetric::SizeMean => {
                let sum: u64 = self.sizes.iter().sum();
                Some((sum as f64, self.sizes.len() as f64))
            }
            ObservedMetric::SizeTo(most) => {
                let within = self.sizes.iter().filter(|s| **s <= u64::from(most));
                shares(within.count(), self.sizes.len())
            }
            ObservedMetric::SizeMedian => None,
            ObservedMetric::Timeouts(what) => what.parts(&self.timers.as_ref()?.timeouts),
            ObservedMetric::Retransmits(what) => what.parts(&self.timers.as_ref()?.retransmits),
            ObservedMetric::Utilisation(group) => {
                let links = self.group(group)?;
                Some((links.busy_s, links.time_s))
            }
            ObservedMetric::CoreLoss => drops(self.group(CORE)?),
            ObservedMetric::AccessLoss => drops(self.group(ACCESS)?),
            ObservedMetric::ShortLoss => lost(self.packets?.short),
            ObservedMetric::LongLoss => lost(self.packets?.others),
            ObservedMetric::Computed(what) => {
                let found = self.computed.iter().find(|(c, _)| *c == what);
                found.map(|(_, value)| (*value, 1.0))
            }
        }
    }
}

fn drops(links: &LinksOfGroup) -> Option<(f64, f64)> {
    Some((links.dropped as f64, links.offered as f64))
}

fn lost(packets: PacketsOfClass) -> Option<(f64, f64)> {
    Some((packets.dropped as f64, packets.sent as f64))
}

/// The metric over runs, run i counted `weights[i]` times; none if nothing was observed.
pub(crate) fn weighted(runs: &[Kept], metric: ObservedMetric, weights: &[u32]) -> Option<f64> {
    if metric == ObservedMetric::SizeMedian {
        return median_size(runs, weights);
    }
    let counted = runs.iter().zip(weights).filter(|(_, w)| **w > 0);
    let most = counted.filter_map(|(r, _)| r.most(metric)).max();
    if let Some(numbers) = most {
        return Some(numbers.saturating_sub(1) as f64);
    }
    let parts = runs
        .iter()
        .zip(weights)
        .filter_map(|(r, w)| Some((r.parts(metric)?, f64::from(*w))));
    let (hits, all) = parts.fold((0.0, 0.0), |sum, ((a, b), w)| {
        (sum.0 + a * w, sum.1 + b * w)
    });
    (all > 0.0).then_some(hits / all)
}

fn median_size(runs: &[Kept], weights: &[u32]) -> Option<f64> {
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
mod tests {
    use super::*;

    fn run(first_hits: &[u32], spare: &[[u32; 3]]) -> Kept {
        Kept {
            flows: 10,
            recovery: Some(RecoveryOfFlows {
                first_hits: first_hits.to_vec(),
                packets: 100,
                useful: 10,
                spare: spare.to_vec(),
            }),
            sizes: vec![10, 30],
            ..Kept::default()
        }
    }

    #[test]
    fn timers_and_links_are_summed_over_runs() {
        let run = |flows: &[(u64, u64)], busy_s, dropped| {
            let mut timers = TimersOfFlows::default();
            flows.iter().for_each(|(t, r)| timers.add(*t, *r));
            let group = |name: &str, dropped| LinksOfGroup {
                group: name.to_owned(),
                busy_s,
                time_s: 10.0,
                offered: 1000,
                dropped,
            };
            Kept {
                timers: Some(timers),
                links: vec![group("access", 2 * dropped), group("agg-core", dropped)],
                ..Kept::default()
            }
        };
        let runs = [
            run(&[(0, 1), (0, 0), (3, 0)], 5.0, 1),
            run(&[(25, 2)], 7.0, 3),
        ];
        let of = |name: &str, w: [u32; 2]| {
            let metric = ObservedMetric::parse(name).expect("a name");
            weighted(&runs, metric, &w)
        };
        assert_eq!(of("timeouts.mean", [1, 1]), Some(7.0));
        assert_eq!(of("timeouts.max", [1, 1]), Some(25.0));
        assert_eq!(of("timeouts.max", [1, 0]), Some(3.0));
        assert_eq!(of("timeouts.none", [1, 1]), Some(0.5));
        assert_eq!(of("timeouts.above-2", [1, 1]), Some(0.5));
        assert_eq!(of("timeouts.above-20", [1, 1]), Some(0.25));
        assert_eq!(of("retransmits.one", [1, 1]), Some(0.25));
        assert_eq!(of("core.utilisation", [1, 1]), Some(0.6));
        assert_eq!(of("access.utilisation", [0, 1]), Some(0.7));
        assert_eq!(of("leaf-spine.utilisation", [1, 1]), None);
        assert_eq!(of("core.loss", [1, 1]), Some(0.002));
        assert_eq!(of("access.loss", [0, 1]), Some(0.006));
        assert_eq!(of("recovery.flows", [1, 1]), None);
        let mut many = TimersOfFlows::default();
        many.add(1_000_000, 0);
        assert_eq!(many.timeouts.len(), 101, "bounded");
    }

    #[test]
    fn metrics_are_ratios_of_sums_over_weighted_runs() {
        let runs = [
            run(&[1, 5, 16, 17], &[[3, 4, 5]]),
            run(&[2], &[[9, 9, 9], [0, 0, 0]]),
        ];
        let of = |name: &str, w: [u32; 2]| {
            let metric = ObservedMetric::parse(name).expect("a name");
            weighted(&runs, metric, &w)
        };
        assert_eq!(of("recovery.flows", [1, 1]), Some(0.25));
        assert_eq!(of("recovery.flows", [0, 1]), Some(0.1));
        assert_eq!(of("recovery.useful", [1, 1]), Some(0.1));
        assert_eq!(of("recovery.hit-by-4", [1, 1]), Some(0.4));
        assert_eq!(of("recovery.hit-5-to-16", [1, 0]), Some(0.5));
        assert_eq!(of("spare.20ms.to-4", [1, 1]), Some(2.0 / 3.0));
        assert_eq!(of("spare.50ms.to-3", [1, 0]), Some(0.0));
        assert_eq!(of("size.mean", [1, 1]), Some(20.0));
        assert_eq!(of("size.p50", [1, 1]), Some(10.0));
        let to = |most| weighted(&runs, ObservedMetric::SizeTo(most), &[1, 1]);
        assert_eq!((to(9), to(10), to(30)), (Some(0.0), Some(0.5), Some(1.0)));
        assert_eq!(of("recovery.hit-by-4", [0, 0]), None);
        assert_eq!(
            weighted(&[Kept::default()], ObservedMetric::SizeMedian, &[1]),
            None
        );
    }
}

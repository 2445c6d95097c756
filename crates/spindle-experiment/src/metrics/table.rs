//! The table of metrics that come with Spindle, except those of completion times, timeouts, load and goodput.

use super::RunResult;
use super::spec::{Form, MetricSpec, Unit};
use crate::bystanders::BYSTANDERS;
use crate::observed::CodingOfFlows;
use crate::observed::{
    LinksOfGroup, PacketsOfClass, UnitsOfFlows, WaitsOfClass, first_hit, group_named, spare,
};

/// An entry.
const fn metric(
    name: &'static str,
    title: &'static str,
    unit: Unit,
    needs: Option<&'static str>,
    form: Form,
) -> MetricSpec {
    MetricSpec {
        name,
        title,
        unit,
        needs,
        form,
    }
}

/// The group of links between the last two layers of switches. In a network of two layers, it is
/// `leaf-spine`.
const CORE: &str = "agg-core";
/// The group of the hosts' own links.
const ACCESS: &str = "access";

/// The metrics of this form that come with Spindle.
pub static SPECS: &[MetricSpec] = &[
    metric(
        "extra_load.flow",
        "extra load of a flow",
        Unit::Share,
        None,
        Form::Ratio(|run| Some((run.flow_extra_sum, run.flow_extra_count as f64))),
    ),
    metric(
        "lossy.rate",
        "mean rate of lossy links",
        Unit::Share,
        None,
        Form::Ratio(|run| lossy(run, |c| c.rate)),
    ),
    metric(
        "lossy.low",
        "lossy links at 1% to 10%",
        Unit::Share,
        None,
        Form::Ratio(|run| lossy_share(run, |c| (0.01..=0.1).contains(&c.rate))),
    ),
    metric(
        "lossy.high",
        "lossy links above 60%",
        Unit::Share,
        None,
        Form::Ratio(|run| lossy_share(run, |c| c.rate > 0.6)),
    ),
    metric(
        "lossy.edge",
        "lossy links at the edge",
        Unit::Share,
        None,
        Form::Ratio(|run| lossy_share(run, |c| c.group == ACCESS)),
    ),
    metric(
        "lossy.network",
        "lossy links in the network",
        Unit::Share,
        None,
        Form::Ratio(|run| lossy_share(run, |c| c.group != ACCESS)),
    ),
    metric(
        "lossy.edge-agg",
        "lossy links between ToR and aggregation",
        Unit::Share,
        None,
        Form::Ratio(|run| lossy_share(run, |c| c.group == "edge-agg")),
    ),
    metric(
        "lossy.agg-core",
        "lossy links above aggregation",
        Unit::Share,
        None,
        Form::Ratio(|run| lossy_share(run, |c| c.group == CORE)),
    ),
    metric(
        "completed",
        "completed flows",
        Unit::Share,
        None,
        Form::Ratio(|run| Some((run.completed as f64, run.flows as f64))),
    ),
    metric(
        "recovery.flows",
        "flows that proactive recovery repaired",
        Unit::Share,
        Some("recovery"),
        Form::Ratio(|run| {
            let repaired = run.recovery.as_ref()?.first_hits.len();
            Some((repaired as f64, run.flows as f64))
        }),
    ),
    metric(
        "recovery.useful",
        "useful recovery packets",
        Unit::Share,
        Some("recovery"),
        Form::Ratio(|run| {
            let recovery = run.recovery.as_ref()?;
            Some((recovery.useful as f64, recovery.packets as f64))
        }),
    ),
    metric(
        "recovery.hit-by-4",
        "repaired flows that took at most 4 recovery packets",
        Unit::Share,
        Some("recovery"),
        Form::Ratio(|run| first_hit(run, 1..=4)),
    ),
    metric(
        "recovery.hit-by-16",
        "repaired flows that took at most 16 recovery packets",
        Unit::Share,
        Some("recovery"),
        Form::Ratio(|run| first_hit(run, 1..=16)),
    ),
    metric(
        "recovery.hit-5-to-16",
        "repaired flows that took 5 to 16 recovery packets",
        Unit::Share,
        Some("recovery"),
        Form::Ratio(|run| first_hit(run, 5..=16)),
    ),
    metric(
        "spare.20ms.to-4",
        "flows with at most 4 spare packets within 20 ms",
        Unit::Share,
        Some("recovery"),
        Form::Ratio(|run| spare(run, 0, 4)),
    ),
    metric(
        "spare.50ms.to-4",
        "flows with at most 4 spare packets within 50 ms",
        Unit::Share,
        Some("recovery"),
        Form::Ratio(|run| spare(run, 1, 4)),
    ),
    metric(
        "spare.100ms.to-4",
        "flows with at most 4 spare packets within 100 ms",
        Unit::Share,
        Some("recovery"),
        Form::Ratio(|run| spare(run, 2, 4)),
    ),
    metric(
        "spare.20ms.to-3",
        "flows with at most 3 spare packets within 20 ms",
        Unit::Share,
        Some("recovery"),
        Form::Ratio(|run| spare(run, 0, 3)),
    ),
    metric(
        "spare.50ms.to-3",
        "flows with at most 3 spare packets within 50 ms",
        Unit::Share,
        Some("recovery"),
        Form::Ratio(|run| spare(run, 1, 3)),
    ),
    metric(
        "spare.100ms.to-3",
        "flows with at most 3 spare packets within 100 ms",
        Unit::Share,
        Some("recovery"),
        Form::Ratio(|run| spare(run, 2, 3)),
    ),
    metric(
        "deadline.missed",
        "flows that missed their deadline",
        Unit::Share,
        None,
        Form::Ratio(|run| {
            let deadlines = run.observed.deadlines?;
            Some((deadlines.missed as f64, deadlines.flows as f64))
        }),
    ),
    metric(
        "size.mean",
        "mean size",
        Unit::Bytes,
        Some("sizes"),
        Form::Ratio(|run| Some((run.sizes.iter().sum::<u64>() as f64, run.sizes.len() as f64))),
    ),
    metric(
        "size.p50",
        "median size",
        Unit::Bytes,
        Some("sizes"),
        Form::Percentile(0.5, |run| &run.sizes),
    ),
    metric(
        "bystanders.fct.mean",
        "mean FCT of bystanders",
        Unit::Microseconds,
        Some(BYSTANDERS),
        Form::Ratio(|run| {
            let times = &run.observed.bystanders.as_ref()?.fct_ns;
            Some((times.iter().sum::<u64>() as f64 / 1e3, times.len() as f64))
        }),
    ),
    metric(
        "bystanders.fct.p50",
        "p50 FCT of bystanders",
        Unit::Microseconds,
        Some(BYSTANDERS),
        Form::PercentileOfTimes(0.5, times_of_bystanders),
    ),
    metric(
        "bystanders.fct.p90",
        "p90 FCT of bystanders",
        Unit::Microseconds,
        Some(BYSTANDERS),
        Form::PercentileOfTimes(0.9, times_of_bystanders),
    ),
    metric(
        "bystanders.fct.p99",
        "p99 FCT of bystanders",
        Unit::Microseconds,
        Some(BYSTANDERS),
        Form::PercentileOfTimes(0.99, times_of_bystanders),
    ),
    metric(
        "bystanders.goodput",
        "goodput of bystanders",
        Unit::BitsPerSecond,
        Some(BYSTANDERS),
        Form::Ratio(|run| {
            let found = run.observed.bystanders.as_ref()?;
            Some((found.goodput_sum_bps, found.fct_ns.len() as f64))
        }),
    ),
    metric(
        "bystanders.completed",
        "bystanders that completed",
        Unit::Share,
        Some(BYSTANDERS),
        Form::Ratio(|run| {
            let found = run.observed.bystanders.as_ref()?;
            Some((found.fct_ns.len() as f64, found.flows as f64))
        }),
    ),
    metric(
        "timeouts.mean",
        "timeouts of a flow",
        Unit::Number,
        Some("timers"),
        Form::Ratio(|run| timeouts(run).map(per_flow)),
    ),
    metric(
        "timeouts.max",
        "most timeouts of a flow",
        Unit::Number,
        Some("timers"),
        Form::Largest(|run| timeouts(run).map(largest)),
    ),
    metric(
        "timeouts.none",
        "flows without a timeout",
        Unit::Share,
        Some("timers"),
        Form::Ratio(|run| timeouts(run).map(|c| flows_with(c, |n| n == 0))),
    ),
    metric(
        "timeouts.above-1",
        "flows with more than 1 timeouts",
        Unit::Share,
        Some("timers"),
        Form::Ratio(|run| timeouts(run).map(|c| flows_with(c, |n| n > 1))),
    ),
    metric(
        "timeouts.above-2",
        "flows with more than 2 timeouts",
        Unit::Share,
        Some("timers"),
        Form::Ratio(|run| timeouts(run).map(|c| flows_with(c, |n| n > 2))),
    ),
    metric(
        "timeouts.above-20",
        "flows with more than 20 timeouts",
        Unit::Share,
        Some("timers"),
        Form::Ratio(|run| timeouts(run).map(|c| flows_with(c, |n| n > 20))),
    ),
    metric(
        "retransmits.mean",
        "fast retransmits of a flow",
        Unit::Number,
        Some("timers"),
        Form::Ratio(|run| retransmits(run).map(per_flow)),
    ),
    metric(
        "retransmits.max",
        "most fast retransmits of a flow",
        Unit::Number,
        Some("timers"),
        Form::Largest(|run| retransmits(run).map(largest)),
    ),
    metric(
        "retransmits.none",
        "flows without a fast retransmit",
        Unit::Share,
        Some("timers"),
        Form::Ratio(|run| retransmits(run).map(|c| flows_with(c, |n| n == 0))),
    ),
    metric(
        "retransmits.one",
        "flows with 1 fast retransmit",
        Unit::Share,
        Some("timers"),
        Form::Ratio(|run| retransmits(run).map(|c| flows_with(c, |n| n == 1))),
    ),
    metric(
        "core.utilisation",
        "core utilisation",
        Unit::Share,
        Some("links"),
        Form::Ratio(|run| utilisation(run, CORE)),
    ),
    metric(
        "access.utilisation",
        "access utilisation",
        Unit::Share,
        Some("links"),
        Form::Ratio(|run| utilisation(run, ACCESS)),
    ),
    metric(
        "edge-agg.utilisation",
        "edge-agg utilisation",
        Unit::Share,
        Some("links"),
        Form::Ratio(|run| utilisation(run, "edge-agg")),
    ),
    metric(
        "leaf-spine.utilisation",
        "leaf-spine utilisation",
        Unit::Share,
        Some("links"),
        Form::Ratio(|run| utilisation(run, "leaf-spine")),
    ),
    metric(
        "mesh.utilisation",
        "mesh utilisation",
        Unit::Share,
        Some("links"),
        Form::Ratio(|run| utilisation(run, "mesh")),
    ),
    metric(
        "core.loss",
        "core loss",
        Unit::SmallShare,
        Some("links"),
        Form::Ratio(|run| queue_loss(run, CORE)),
    ),
    metric(
        "access.loss",
        "access loss",
        Unit::SmallShare,
        Some("links"),
        Form::Ratio(|run| queue_loss(run, ACCESS)),
    ),
    metric(
        "loss.short",
        "loss of short flows' packets",
        Unit::SmallShare,
        Some("packets"),
        Form::Ratio(|run| run.observed.packets.map(|p| lost(p.short))),
    ),
    metric(
        "loss.long",
        "loss of long flows' packets",
        Unit::SmallShare,
        Some("packets"),
        Form::Ratio(|run| run.observed.packets.map(|p| lost(p.others))),
    ),
    metric(
        "loss.all",
        "loss of packets",
        Unit::SmallShare,
        Some("packets"),
        Form::Ratio(|run| {
            let packets = run.observed.packets?;
            let (a, b) = (lost(packets.short), lost(packets.others));
            Some((a.0 + b.0, a.1 + b.1))
        }),
    ),
    metric(
        "core.goodput",
        "goodput of the core",
        Unit::Share,
        Some("goodput"),
        Form::Ratio(|run| goodput(run, CORE)),
    ),
    metric(
        "access.goodput",
        "goodput of access",
        Unit::Share,
        Some("goodput"),
        Form::Ratio(|run| goodput(run, ACCESS)),
    ),
    metric(
        "edge-agg.goodput",
        "goodput of edge-agg",
        Unit::Share,
        Some("goodput"),
        Form::Ratio(|run| goodput(run, "edge-agg")),
    ),
    metric(
        "leaf-spine.goodput",
        "goodput of leaf-spine",
        Unit::Share,
        Some("goodput"),
        Form::Ratio(|run| goodput(run, "leaf-spine")),
    ),
    metric(
        "mesh.goodput",
        "goodput of mesh",
        Unit::Share,
        Some("goodput"),
        Form::Ratio(|run| goodput(run, "mesh")),
    ),
    metric(
        "coding.redundant",
        "redundant packets",
        Unit::Share,
        Some("coding"),
        Form::Ratio(|run| coding(run, |c| (c.extra, c.encoded))),
    ),
    metric(
        "coding.redundant.all",
        "redundant bytes of all traffic",
        Unit::Share,
        Some("coding"),
        Form::Ratio(|run| coding(run, |c| (c.extra_bytes, c.payload_bytes))),
    ),
    metric(
        "coding.unit",
        "segments of a coding unit",
        Unit::Number,
        Some("coding"),
        Form::Ratio(|run| coding(run, |c| (c.segments, c.units))),
    ),
    metric(
        "coding.undecoded",
        "units not decoded",
        Unit::Share,
        Some("coding"),
        Form::Ratio(|run| coding(run, |c| (c.units.saturating_sub(c.decoded), c.units))),
    ),
    metric(
        "coding.late",
        "encoded packets that came too late",
        Unit::Share,
        Some("coding"),
        Form::Ratio(|run| coding(run, |c| (c.late, c.received))),
    ),
    metric(
        "coding.blocking",
        "blocked packets as senders see it",
        Unit::Share,
        Some("coding"),
        Form::Ratio(|run| run.observed.coding.map(|c| (c.blocking, c.periods as f64))),
    ),
    metric(
        "coding.at-once",
        "units decoded at once",
        Unit::Share,
        Some("coding"),
        Form::Ratio(|run| units(run).map(|u| (u.at_once as f64, u.units as f64))),
    ),
    metric(
        "coding.delay",
        "decoding delay of a packet",
        Unit::Microseconds,
        Some("coding"),
        Form::Ratio(|run| units(run).map(|u| (u.delay_ns as f64 / 1e3, u.segments as f64))),
    ),
    metric(
        "coding.delay.window",
        "decoding delay of a window",
        Unit::Microseconds,
        Some("coding"),
        Form::Ratio(|run| units(run).map(|u| (u.window_ns as f64 / 1e3, u.windows as f64))),
    ),
    metric(
        "rtt.tracking",
        "distance of RTT_avg from RTT_smooth",
        Unit::Share,
        Some("coding"),
        Form::Ratio(|run| {
            run.observed
                .coding
                .map(|c| (c.rtt_distance, c.periods as f64))
        }),
    ),
    metric(
        "queueing.short",
        "queueing delay of short flows' packets",
        Unit::Microseconds,
        Some("paths"),
        Form::Ratio(|run| run.observed.paths.map(|p| queueing(p.short))),
    ),
    metric(
        "queueing.long",
        "queueing delay of long flows' packets",
        Unit::Microseconds,
        Some("paths"),
        Form::Ratio(|run| run.observed.paths.map(|p| queueing(p.long))),
    ),
    metric(
        "disorder.short",
        "disorder of short flows' packets",
        Unit::Share,
        Some("paths"),
        Form::Ratio(|run| run.observed.paths.map(|p| disorder(p.short))),
    ),
    metric(
        "disorder.long",
        "disorder of long flows' packets",
        Unit::Share,
        Some("paths"),
        Form::Ratio(|run| run.observed.paths.map(|p| disorder(p.long))),
    ),
    metric(
        "paths.unused",
        "paths unused by short flows",
        Unit::Share,
        Some("paths"),
        Form::Ratio(|run| {
            let paths = run.observed.paths?;
            let unused = paths.available.saturating_sub(paths.used);
            Some((unused as f64, paths.available as f64))
        }),
    ),
    metric(
        "cwnd.short",
        "congestion window of short flows' packets",
        Unit::Number,
        Some("windows"),
        Form::Ratio(|run| {
            run.observed
                .windows
                .map(|w| (w.short.segments, w.short.packets as f64))
        }),
    ),
    metric(
        "cwnd.long",
        "congestion window of long flows' packets",
        Unit::Number,
        Some("windows"),
        Form::Ratio(|run| {
            run.observed
                .windows
                .map(|w| (w.long.segments, w.long.packets as f64))
        }),
    ),
];

/// The completion times of a run's bystanders in nanoseconds.
fn times_of_bystanders(run: &RunResult) -> &[u64] {
    let found = run.observed.bystanders.as_ref();
    found.map_or(&[], |b| &b.fct_ns)
}

/// The mean over drawn cables of `of`.
fn lossy(run: &RunResult, of: fn(&super::LossyCable) -> f64) -> Option<(f64, f64)> {
    Some((run.lossy.iter().map(of).sum(), run.lossy.len() as f64))
}

/// The share of drawn cables for which `has` holds.
fn lossy_share(run: &RunResult, has: fn(&super::LossyCable) -> bool) -> Option<(f64, f64)> {
    let hits = run.lossy.iter().filter(|c| has(c)).count();
    Some((hits as f64, run.lossy.len() as f64))
}

/// How many timers fired, summed over flows, and how many flows there are. `counts[n]` is how many flows have
/// the number n.
fn per_flow(counts: &[u64]) -> (f64, f64) {
    let sum: u64 = counts.iter().enumerate().map(|(n, c)| n as u64 * c).sum();
    (sum as f64, counts.iter().sum::<u64>() as f64)
}

/// How many flows have a number for which `has` holds, and how many flows there are.
fn flows_with(counts: &[u64], has: fn(usize) -> bool) -> (f64, f64) {
    let hits = counts.iter().enumerate().filter(|(n, _)| has(*n));
    let hits: u64 = hits.map(|(_, c)| *c).sum();
    (hits as f64, counts.iter().sum::<u64>() as f64)
}

/// The largest number that a flow has.
fn largest(counts: &[u64]) -> f64 {
    counts.len().saturating_sub(1) as f64
}

fn timeouts(run: &RunResult) -> Option<&[u64]> {
    Some(&run.observed.timers.as_ref()?.timeouts)
}

fn retransmits(run: &RunResult) -> Option<&[u64]> {
    Some(&run.observed.timers.as_ref()?.retransmits)
}

fn links<'a>(run: &'a RunResult, group: &str) -> Option<&'a LinksOfGroup> {
    group_named(&run.observed.links, group, |g| &g.group)
}

/// The time that links of a group were busy, and the time of the run for each of them.
fn utilisation(run: &RunResult, group: &str) -> Option<(f64, f64)> {
    links(run, group).map(|l| (l.busy_s, l.time_s))
}

/// Packets dropped by queues at the links of a group, and packets offered to these queues.
fn queue_loss(run: &RunResult, group: &str) -> Option<(f64, f64)> {
    links(run, group).map(|l| (l.dropped as f64, l.offered as f64))
}

/// Dropped data packets and data packets sent.
fn lost(packets: PacketsOfClass) -> (f64, f64) {
    (packets.dropped as f64, packets.sent as f64)
}

/// Bytes that applications received over links of a group, and the bytes that these links could have sent.
fn goodput(run: &RunResult, group: &str) -> Option<(f64, f64)> {
    let group = group_named(&run.observed.goodput, group, |g| &g.group)?;
    Some((group.bytes as f64, group.room))
}

/// A ratio of two numbers of what coding sent and learned.
fn coding(run: &RunResult, of: fn(&CodingOfFlows) -> (u64, u64)) -> Option<(f64, f64)> {
    let (a, b) = of(run.observed.coding.as_ref()?);
    Some((a as f64, b as f64))
}

fn units(run: &RunResult) -> Option<&UnitsOfFlows> {
    run.observed.units.as_ref()
}

/// Mean time that data packets spent in queues of switches, microseconds.
fn queueing(waits: WaitsOfClass) -> (f64, f64) {
    (waits.queueing_ns as f64 / 1e3, waits.packets as f64)
}

/// The share of data packets that TCP received after a packet of their flow that was sent later. Coded packets have
/// no order, so that segments count as they leave the decoder.
fn disorder(waits: WaitsOfClass) -> (f64, f64) {
    match waits.decoded {
        0 => (waits.overtaken as f64, waits.packets as f64),
        decoded => (waits.decoded_disordered as f64, decoded as f64),
    }
}

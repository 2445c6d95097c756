//! Pictures of distributions, if an experiment requests them (`cdf`): one for each point.

use spindle_experiment::metrics::{Metric, ObservedMetric, SPARE_WINDOWS_MS};
use spindle_experiment::stats::Pool;
use spindle_experiment::{Cdf, Experiment};

use super::estimate;
use crate::format::Quantity;
use crate::{AxisSpec, LinePlot, LineSeries, SeriesPoint};

/// Shares at which completion times are drawn.
const SHARES: [f64; 13] = [
    0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99,
];
/// Numbers of packets at which shares are drawn.
const PACKETS: [u32; 11] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64];
/// Sizes at which shares are drawn, in KiB.
const KIBIBYTES: [u32; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

/// A line before it is drawn: a suffix for the transport's name, and the line's points.
type Line = (String, Vec<(f64, Metric)>);

/// The distributions that an experiment requests.
pub(super) fn plots(experiment: &Experiment, pools: &[Vec<(String, Pool)>]) -> Vec<LinePlot> {
    let kinds = experiment.cdf.iter();
    let all = kinds.flat_map(|kind| pools.iter().enumerate().map(move |(p, _)| (*kind, p)));
    all.map(|(kind, point)| plot(experiment, pools, kind, point))
        .filter(|plot| !plot.series.is_empty())
        .collect()
}

fn plot(
    experiment: &Experiment,
    pools: &[Vec<(String, Pool)>],
    kind: Cdf,
    point: usize,
) -> LinePlot {
    let set = &experiment.points[point].set;
    let set: Vec<String> = set.iter().map(|(a, v)| format!(", {a} {v}")).collect();
    let (x, y) = axes(kind);
    let before: usize = pools[..point].iter().map(Vec::len).sum();
    let mut series = Vec::new();
    for (k, (name, pool)) in pools[point].iter().enumerate() {
        for (suffix, at) in lines(kind) {
            let read = |(x, metric): (f64, Metric)| {
                Some(SeriesPoint {
                    x,
                    y: estimate(pool, metric)?,
                    group: Some(before + k),
                })
            };
            let points: Vec<SeriesPoint> = at.into_iter().filter_map(read).collect();
            if !points.is_empty() {
                series.push(LineSeries {
                    name: format!("{name}{suffix}"),
                    points,
                    ..LineSeries::default()
                });
            }
        }
    }
    if kind == Cdf::Spare {
        for (n, line) in series.iter_mut().enumerate() {
            line.colour = Some(format!("series#{n}"));
        }
    }
    LinePlot {
        title: format!("{}{}", title(kind), set.concat()),
        x,
        y,
        series,
    }
}

const fn title(kind: Cdf) -> &'static str {
    match kind {
        Cdf::Fct => "Distribution of completion times",
        Cdf::FirstHit => "Recovery packets up to the first that repairs",
        Cdf::Spare => "Spare packets after all data were sent",
        Cdf::Sizes => "Distribution of sizes",
    }
}

fn lines(kind: Cdf) -> Vec<Line> {
    let observed = |x: f64, metric| (x, Metric::Observed(metric));
    let packets = || PACKETS.into_iter().map(|n| (f64::from(n), n));
    let one = |points: Vec<(f64, Metric)>| vec![(String::new(), points)];
    match kind {
        Cdf::Fct => one(SHARES.map(|q| (q, Metric::FctPercentile(q))).to_vec()),
        Cdf::FirstHit => {
            let at = packets().map(|(x, n)| observed(x, ObservedMetric::FirstHit(1, n)));
            one(at.collect())
        }
        Cdf::Sizes => {
            let at = KIBIBYTES.map(|k| {
                let bytes = k << 10;
                observed(f64::from(bytes), ObservedMetric::SizeTo(bytes))
            });
            one(at.to_vec())
        }
        Cdf::Spare => {
            let line = |(window, ms): (usize, &u64)| {
                let all = std::iter::once((0.0, 0)).chain(packets());
                let at = all.map(|(x, n)| observed(x, ObservedMetric::Spare(window, n)));
                (format!(" within {ms} ms"), at.collect())
            };
            SPARE_WINDOWS_MS.iter().enumerate().map(line).collect()
        }
    }
}

fn axes(kind: Cdf) -> (AxisSpec, AxisSpec) {
    let spec = |name: &str, quantity, log| AxisSpec {
        name: name.to_owned(),
        quantity,
        log,
        cases: Vec::new(),
    };
    let flows = |name: &str| spec(name, Quantity::Fraction, false);
    match kind {
        Cdf::Fct => (
            flows("share of flows"),
            spec("take at most", Quantity::Micros, true),
        ),
        Cdf::FirstHit => (
            spec("recovery packets", Quantity::Plain, true),
            flows("share of repaired flows"),
        ),
        Cdf::Spare => (
            spec("packets, at most", Quantity::Plain, false),
            flows("share of flows with so many"),
        ),
        Cdf::Sizes => (
            spec("size, at most", Quantity::Bytes, true),
            flows("share of all responses"),
        ),
    }
}

//! Results and verdicts as the plain data that becomes JSON.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::registration::Registration;
use super::runs::SweepResult;
use crate::claims::{Claim, Outcome, PointView, evaluate};
use crate::file::Experiment;
use crate::metrics::{Metric, RunResult, TooFewFlows};
use crate::stats::{Interval, Pool, Resamples};

/// Pairs that are serialised as a JSON object in their own order.
#[derive(Clone, Debug, Default)]
pub struct Ordered<T>(pub Vec<(String, T)>);

impl<T: Serialize> Serialize for Ordered<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

/// The metrics that [`TransportSummary`] has for every transport, by name.
pub const METRICS: [&str; 10] = [
    "fct.mean",
    "fct.p50",
    "fct.p90",
    "fct.p95",
    "fct.p99",
    "fct.p999",
    "fct.max",
    "timeout_fraction",
    "extra_load",
    "goodput",
];

/// The JSON of `compare` and `run`.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The experiment's title or id.
    pub scenario: String,
    /// Spindle's version.
    pub version: String,
    /// The first seed.
    pub seed: u64,
    /// The number of seeds.
    pub seeds: u64,
    /// The points of the sweep.
    pub points: Vec<PointSummary>,
    /// What the simulation did.
    pub engine: EngineSummary,
}

/// One point.
#[derive(Clone, Debug, Serialize)]
pub struct PointSummary {
    /// The values that the sweep set.
    pub set: Ordered<String>,
    /// The transports.
    pub transports: Ordered<TransportSummary>,
    /// Whether the point was computed and not run.
    #[serde(skip)]
    pub computed: bool,
}

/// A metric of one transport at one point.
#[derive(Clone, Debug, Serialize)]
pub struct ColumnSummary {
    /// The value in the metric's unit. `None` if there is no data for it.
    pub value: Option<f64>,
    /// The 95 % interval from resampling runs. `None` with a single run.
    pub ci95: Option<[f64; 2]>,
    /// The reason why there is no value, if the metric is a percentile of too few flows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub too_few: Option<TooFewFlows>,
    /// The value as text.
    #[serde(skip)]
    pub shown: String,
    /// The interval as text.
    #[serde(skip)]
    pub shown_ci95: String,
}

impl<T> Ordered<T> {
    /// Whether there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// One transport at one point.
#[derive(Clone, Debug, Serialize)]
pub struct TransportSummary {
    /// Flows started.
    pub flows: u64,
    /// Flows whose last byte arrived.
    pub completed: u64,
    /// Flows whose connection ended with an error.
    pub aborted: u64,
    /// Of these, flows given up because nothing arrived from the other end.
    #[serde(skip_serializing_if = "none")]
    pub given_up: u64,
    /// Persistent connections that were not warmed up before the measurement.
    pub cold_connections: u64,
    /// Flows in progress when the run reached its configured end.
    pub cut_off: u64,
    /// Completion times.
    pub fct_us: FctSummary,
    /// Flows with a timeout divided by all flows.
    pub timeout_fraction: f64,
    /// The 95 % interval of `timeout_fraction` from resampling runs.
    pub timeout_fraction_ci95: [f64; 2],
    /// Timeouts a flow waited for.
    pub timeouts: u64,
    /// Other timeouts.
    pub late_timeouts: u64,
    /// Loss recoveries that began without a timer.
    pub fast_retransmits: u64,
    /// Unnecessary retransmissions.
    pub spurious_retransmits: u64,
    /// Extra payload bytes divided by all payload bytes.
    pub extra_load: f64,
    /// Goodput of flows.
    pub goodput_bps: MeanOnly,
    /// Response bytes handed to the application.
    pub bytes_delivered: u64,
    /// Of these, bytes that differ from what was sent.
    pub bytes_corrupted: u64,
    /// The metrics that the experiment requests as columns of its table.
    #[serde(skip_serializing_if = "Ordered::is_empty")]
    pub columns: Ordered<ColumnSummary>,
}

/// Completion times in microseconds; 0 if no flow completed.
#[derive(Clone, Debug, Serialize)]
pub struct FctSummary {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 95th percentile. `None` if too few flows completed ([`Metric::wanted_flows`]).
    pub p95: Option<f64>,
    /// 99th percentile. `None` if too few flows completed.
    pub p99: Option<f64>,
    /// 99.9th percentile. `None` if too few flows completed.
    pub p999: Option<f64>,
    /// Longest.
    pub max: f64,
    /// 95 % intervals from resampling runs.
    pub ci95: FctIntervals,
    /// The percentiles that have no value, by name.
    #[serde(skip_serializing_if = "Ordered::is_empty")]
    pub too_few: Ordered<TooFewFlows>,
}

/// 95 % intervals.
#[derive(Clone, Debug, Serialize)]
pub struct FctIntervals {
    /// Of the mean.
    pub mean: [f64; 2],
    /// Of the median.
    pub p50: [f64; 2],
    /// Of the 90th percentile.
    pub p90: [f64; 2],
    /// Of the 95th percentile. `None` if too few flows completed.
    pub p95: Option<[f64; 2]>,
    /// Of the 99th percentile. `None` if too few flows completed.
    pub p99: Option<[f64; 2]>,
    /// Of the 99.9th percentile. `None` if too few flows completed.
    pub p999: Option<[f64; 2]>,
}

/// A mean.
#[derive(Clone, Debug, Serialize)]
pub struct MeanOnly {
    /// The mean.
    pub mean: f64,
    /// The 95 % interval from resampling runs.
    pub ci95: [f64; 2],
}

/// What the simulations did in total.
#[derive(Clone, Debug, Default, Serialize)]
pub struct EngineSummary {
    /// Events executed.
    pub events: u64,
    /// Packets that finished a link.
    pub packet_hops: u64,
    /// Real time, seconds.
    pub wall_s: f64,
    /// Virtual time over all runs, seconds.
    pub sim_s: f64,
    /// Largest resident memory of the process, bytes.
    pub peak_rss_bytes: u64,
}

/// The claims of one experiment.
#[derive(Clone, Debug, Serialize)]
pub struct Verdicts {
    /// The experiment's id.
    pub id: String,
    /// The version that made the runs.
    pub version: String,
    /// The hashes of the claims and sizes, which were known before the runs.
    pub registered: Registration,
    /// The claims.
    pub claims: Vec<Outcome>,
}

/// The pooled runs of each transport at each point.
pub fn pools(result: &SweepResult) -> Vec<Vec<(String, Pool)>> {
    result
        .points
        .iter()
        .map(|p| {
            p.iter()
                .map(|t| (t.name.to_string(), Pool::new(&t.runs)))
                .collect()
        })
        .collect()
}

/// The JSON of a run.
pub fn comparison(experiment: &Experiment, result: &SweepResult) -> Comparison {
    let points = experiment
        .points
        .iter()
        .zip(&result.points)
        .map(|(point, transports)| PointSummary {
            set: Ordered(point.set.clone()),
            computed: point.is_computed(),
            transports: Ordered(
                transports
                    .iter()
                    .map(|t| (t.name.to_string(), summary(&t.runs, &experiment.columns)))
                    .collect(),
            ),
        })
        .collect();
    let runs = || result.points.iter().flatten().flat_map(|t| &t.runs);
    Comparison {
        scenario: scenario_name(experiment).to_owned(),
        version: result.version().to_owned(),
        seed: experiment.seed,
        seeds: experiment.seeds,
        points,
        engine: EngineSummary {
            events: runs().map(|r| r.events).sum(),
            packet_hops: runs().map(|r| r.packet_hops).sum(),
            wall_s: result.wall_s,
            sim_s: runs().map(|r| r.sim_ns as f64 / 1e9).sum(),
            peak_rss_bytes: peak_rss_bytes(),
        },
    }
}

fn scenario_name(experiment: &Experiment) -> &str {
    if experiment.title.is_empty() {
        &experiment.id
    } else {
        &experiment.title
    }
}

/// The 95 % interval of a metric over runs, within what the metric can be. `None` if there is only one run.
pub fn interval(pool: &Pool, metric: Metric) -> Option<Interval> {
    let interval = Resamples::new(pool.runs()).interval(|w| pool.weighted(metric, w))?;
    let value = pool.shown(metric).unwrap_or_default();
    Some(metric.possible(interval, value))
}

/// The metric over all runs. `None` if there is no data for it, or if too few flows completed for it. Completion times are rounded to a nanosecond
/// and goodput to a thousandth of a bit per second, as in the JSON of `run`.
pub fn value(pool: &Pool, metric: Metric) -> Option<f64> {
    pool.shown(metric).map(|v| as_in_json(metric, v))
}

/// The 95 % interval of [`value`] from resampling runs. `None` if there is only one run, or no value.
pub fn ends(pool: &Pool, metric: Metric) -> Option<[f64; 2]> {
    pool.shown(metric)?;
    interval(pool, metric).map(|i| [as_in_json(metric, i.low), as_in_json(metric, i.high)])
}

/// Rounds a value like the JSON of `run` does.
fn as_in_json(metric: Metric, value: f64) -> f64 {
    match (metric, metric.unit()) {
        (Metric::Observed(_) | Metric::Spec(_), _) => value,
        (_, "us" | "bit/s") => rounded(value),
        _ => value,
    }
}

pub(super) fn summary(runs: &[RunResult], columns: &[(&'static str, Metric)]) -> TransportSummary {
    let pool = Pool::new(runs);
    let sum = |f: fn(&RunResult) -> u64| runs.iter().map(f).sum::<u64>();
    let value = |m| value(&pool, m).unwrap_or(0.0);
    let ends = |m| ends(&pool, m).unwrap_or([value(m); 2]);
    let enough = |m| pool.check_flows(m).is_ok();
    let shown = |m| enough(m).then(|| value(m));
    let shown_ends = |m| enough(m).then(|| ends(m));
    TransportSummary {
        flows: sum(|r| r.flows),
        completed: sum(|r| r.completed),
        aborted: sum(|r| r.aborted),
        given_up: sum(|r| r.given_up),
        cold_connections: sum(|r| r.cold_connections),
        cut_off: sum(|r| r.cut_off),
        fct_us: FctSummary {
            mean: value(Metric::FctMean),
            p50: value(Metric::FctPercentile(0.5)),
            p90: value(Metric::FctPercentile(0.9)),
            p95: shown(Metric::FctPercentile(0.95)),
            p99: shown(Metric::FctPercentile(0.99)),
            p999: shown(Metric::FctPercentile(0.999)),
            max: value(Metric::FctMax),
            ci95: FctIntervals {
                mean: ends(Metric::FctMean),
                p50: ends(Metric::FctPercentile(0.5)),
                p90: ends(Metric::FctPercentile(0.9)),
                p95: shown_ends(Metric::FctPercentile(0.95)),
                p99: shown_ends(Metric::FctPercentile(0.99)),
                p999: shown_ends(Metric::FctPercentile(0.999)),
            },
            too_few: too_few(&pool),
        },
        timeout_fraction: value(Metric::TimeoutFraction),
        timeout_fraction_ci95: ends(Metric::TimeoutFraction),
        timeouts: sum(|r| r.timeouts),
        late_timeouts: sum(|r| r.late_timeouts),
        fast_retransmits: sum(|r| r.fast_retransmits),
        spurious_retransmits: sum(|r| r.spurious_retransmits),
        extra_load: value(Metric::ExtraLoad),
        goodput_bps: MeanOnly {
            mean: value(Metric::Goodput),
            ci95: ends(Metric::Goodput),
        },
        bytes_delivered: sum(|r| r.bytes_delivered),
        bytes_corrupted: sum(|r| r.bytes_corrupted),
        columns: Ordered(columns.iter().map(|m| column(&pool, *m)).collect()),
    }
}

/// The percentiles of a summary that have no value, because too few flows completed.
fn too_few(pool: &Pool) -> Ordered<TooFewFlows> {
    let few = |(name, q): (&str, f64)| {
        let few = pool.check_flows(Metric::FctPercentile(q)).err()?;
        Some((name.to_owned(), few))
    };
    let tails = [("p95", 0.95), ("p99", 0.99), ("p999", 0.999)];
    Ordered(tails.into_iter().filter_map(few).collect())
}

/// Summarises a metric that is requested as a column, with its name.
fn column(pool: &Pool, metric: (&'static str, Metric)) -> (String, ColumnSummary) {
    let (name, metric) = metric;
    let too_few = pool.check_flows(metric).err();
    let value = pool.shown(metric);
    let ends = value.and_then(|_| interval(pool, metric));
    let ends = ends.map(|i| [i.low, i.high]);
    let none = too_few.map_or("-", |_| TooFewFlows::SHOWN);
    let show = |v| metric.show(v);
    let summary = ColumnSummary {
        value,
        ci95: ends,
        too_few,
        shown: value.map_or(none.to_owned(), show),
        shown_ci95: ends.map_or(String::new(), |[a, b]| format!("{}-{}", show(a), show(b))),
    };
    (name.to_owned(), summary)
}

/// Rounds to a nanosecond. Sums of thousands of times have no meaningful digits beyond that.
fn rounded(us: f64) -> f64 {
    (us * 1e3).round() / 1e3
}

/// The verdict on every claim.
pub fn verdicts(experiment: &Experiment, result: &SweepResult) -> Verdicts {
    let pools = pools(result);
    let points: Vec<PointView<'_>> = experiment
        .points
        .iter()
        .zip(&pools)
        .map(|(p, pools)| PointView {
            set: &p.set,
            scenario: &p.scenario,
            pools,
        })
        .collect();
    let one = |claim: &Claim| evaluate(claim, &points);
    Verdicts {
        id: experiment.id.clone(),
        version: result.version().to_owned(),
        registered: Registration::of(experiment),
        claims: experiment.claims.iter().map(one).collect(),
    }
}

fn none(n: &u64) -> bool {
    *n == 0
}

/// The largest resident memory of this process so far. 0 if the system does not report it.
pub fn peak_rss_bytes() -> u64 {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else {
        return 0;
    };
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kib = line.and_then(|l| l.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_metric_of_a_summary_is_in_its_json() {
        let json = serde_json::to_value(summary(&[RunResult::default()], &[])).unwrap();
        for name in METRICS {
            assert!(Metric::named(name).is_some(), "{name}");
            let key = match name.split_once('.') {
                Some((group, rest)) => format!("/{group}_us/{rest}"),
                None if name == "goodput" => "/goodput_bps/mean".to_owned(),
                None => format!("/{name}"),
            };
            assert!(json.pointer(&key).is_some(), "{key}");
        }
    }

    proptest! {
        #[test]
        fn an_interval_contains_its_value(
            runs in prop::collection::vec(prop::collection::vec(1u64..1_000_000, 0..30), 1..12),
            timeouts in prop::collection::vec(0u64..3, 12),
        ) {
            let results: Vec<RunResult> = runs
                .iter()
                .zip(&timeouts)
                .map(|(fct, timeouts)| RunResult {
                    flows: fct.len() as u64 + 2,
                    completed: fct.len() as u64,
                    fct_ns: fct.clone(),
                    flows_with_timeout: *timeouts,
                    payload_bytes: 100,
                    extra_bytes: *timeouts,
                    ..RunResult::default()
                })
                .collect();
            let pool = Pool::new(&results);
            for metric in Metric::NAMES.into_iter().filter_map(Metric::parse) {
                if let Some(i) = interval(&pool, metric) {
                    let value = pool.value(metric).unwrap();
                    prop_assert!((i.low..=i.high).contains(&value), "{metric:?}: {value} {i:?}");
                    prop_assert!(runs.len() > 1);
                }
            }
        }
    }
}

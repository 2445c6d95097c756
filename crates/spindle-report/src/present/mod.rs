//! Turns results into the plain data of reports.

mod arena;
mod cdf;
mod figure;
mod oracle;
mod plots;
mod reproduction;
mod runs;

pub use arena::{arena_table, networks};
pub use figure::{Results, figure, figures};
pub use reproduction::Reproduction;

use std::path::{Path, PathBuf};

use spindle_experiment::flow_trace::FlowTrace;
use spindle_experiment::identity::RunIdentity;
use spindle_experiment::metrics::{Metric, RunResult};
use spindle_experiment::registry::Registry;
use spindle_experiment::results::{SweepResult, TransportRuns, interval};
use spindle_experiment::scenario::Window;
use spindle_experiment::stats::Pool;
use spindle_experiment::{Experiment, TransportName};

use crate::{ComparePoint, CompareReport, Estimate, ReportError, TransportResult};

/// How results were made.
#[derive(Clone, Copy)]
pub struct Provenance<'a> {
    /// The names of transports, balancers and topologies.
    pub registry: &'a Registry,
    /// The command that made the results.
    pub command: &'a str,
    /// Returns the command that lists the slowest flows of a run. The arguments are the point's number, the
    /// transport, the seed and the part.
    pub follow: &'a dyn Fn(usize, &TransportName, u64, u64) -> String,
    /// The file of runs next to the report, if there is one.
    pub store: Option<&'a str>,
    /// The experiment's file, if the report should contain a copy of it.
    pub file: Option<&'a str>,
    /// How much was run: "quick", "full" or "paper-scale". `None` if the file's own numbers apply.
    pub scale: Option<&'a str>,
}

impl std::fmt::Debug for Provenance<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut f = f.debug_struct("Provenance");
        f.field("command", &self.command).finish_non_exhaustive()
    }
}

/// Writes the page of `compare` and `run`, with drawings of `flows`. Returns the page's path.
///
/// # Errors
/// If runs of different versions or configurations would stand side by side, or if the directory cannot be
/// written.
pub fn comparison(
    experiment: &Experiment,
    result: &SweepResult,
    flows: Vec<FlowTrace>,
    provenance: &Provenance<'_>,
    directory: &Path,
) -> Result<PathBuf, ReportError> {
    let mut group = 0..;
    let points = experiment
        .points
        .iter()
        .zip(&result.points)
        .map(|(point, transports)| ComparePoint {
            set: point.set.clone(),
            transports: transports
                .iter()
                .map(|t| transport(t, group.next()))
                .collect(),
        })
        .collect();
    let report = CompareReport {
        title: title(experiment),
        scenario: experiment.asks.clone(),
        command: provenance.command.to_owned(),
        identity: identity(result),
        settings: settings(experiment),
        points,
        flows,
        notes: experiment.notes.clone(),
        runs: runs::list(experiment, result, provenance),
    };
    report.write(directory)
}

fn title(experiment: &Experiment) -> String {
    match experiment.title.is_empty() {
        true => experiment.id.clone(),
        false => experiment.title.clone(),
    }
}

/// The version of the runs and the configurations of all points.
fn identity(result: &SweepResult) -> RunIdentity {
    RunIdentity {
        version: result.version().to_owned(),
        configuration: result.configurations.join("+"),
    }
}

fn settings(experiment: &Experiment) -> Vec<(String, String)> {
    let mut list = vec![
        ("seeds".to_owned(), experiment.seeds.to_string()),
        ("runs per seed".to_owned(), experiment.parts().to_string()),
    ];
    let first = experiment.points.first();
    if let Some(formula) = first.and_then(|p| p.scenario.traffic.formula()) {
        return formula.settings();
    }
    if let Some(point) = first {
        let links = &point.scenario.topology.links;
        let host = &point.scenario.host;
        list.extend([
            ("topology".to_owned(), point.scenario.topology.name.clone()),
            ("link rate".to_owned(), links.rate.to_string()),
            ("base RTT".to_owned(), links.rtt.to_string()),
            (
                "flows per transport and seed".to_owned(),
                point.scenario.traffic.flows().to_string(),
            ),
            ("minimum RTO".to_owned(), host.min_rto.to_string()),
            ("MSS".to_owned(), format!("{} B", host.mss)),
            (
                "initial window".to_owned(),
                match host.initial_window {
                    Window::Total(n) => format!("{n} segments over all subflows"),
                    Window::PerSubflow(n) => format!("{n} segments for each subflow"),
                },
            ),
            (
                "ECN".to_owned(),
                if host.ecn { "on" } else { "off" }.to_owned(),
            ),
        ]);
    }
    list
}

/// The metric with its interval. `None` if there is no value, or if too few flows completed for one.
fn estimate(pool: &Pool, metric: Metric) -> Option<Estimate> {
    let value = pool.shown(metric)?;
    Some(match interval(pool, metric) {
        Some(i) => Estimate::new(value, i.low, i.high),
        None => Estimate::exact(value),
    })
}

fn transport(runs: &TransportRuns, group: Option<usize>) -> TransportResult {
    let pool = Pool::new(&runs.runs);
    let sum = |f: fn(&RunResult) -> u64| runs.runs.iter().map(f).sum::<u64>();
    TransportResult {
        name: runs.name.to_string(),
        group,
        flows: sum(|r| r.flows),
        completed: sum(|r| r.completed),
        aborted: sum(|r| r.aborted),
        fct_us: pool.fct_us().collect(),
        mean_us: estimate(&pool, Metric::FctMean),
        p50_us: estimate(&pool, Metric::FctPercentile(0.5)),
        p90_us: estimate(&pool, Metric::FctPercentile(0.9)),
        p95_us: estimate(&pool, Metric::FctPercentile(0.95)),
        p99_us: estimate(&pool, Metric::FctPercentile(0.99)),
        p999_us: estimate(&pool, Metric::FctPercentile(0.999)),
        max_us: pool.value(Metric::FctMax),
        timeout_fraction: estimate(&pool, Metric::TimeoutFraction),
        timeouts: sum(|r| r.timeouts),
        late_timeouts: sum(|r| r.late_timeouts),
        fast_retransmits: sum(|r| r.fast_retransmits),
        spurious_retransmits: sum(|r| r.spurious_retransmits),
        extra_load: estimate(&pool, Metric::ExtraLoad),
        goodput_bps: estimate(&pool, Metric::Goodput),
    }
}

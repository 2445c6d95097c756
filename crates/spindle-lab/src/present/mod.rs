//! Turns results into the plain data of reports.

mod cdf;
mod figure;
mod oracle;
mod overview;
mod plots;
mod runs;

pub use figure::{Results, figure, figures};
pub use overview::{overview_table, scenario};

use std::path::{Path, PathBuf};

use crate::experiment::scenario::{Traffic, Window};
use crate::experiment::{Experiment, TransportName};
use crate::identity::RunIdentity;
use crate::metrics::{Metric, RunResult};
use crate::output::interval;
use crate::registry::Registry;
use crate::report::{
    ComparePoint, CompareReport, Estimate, FlowTrace, ReportError, TransportResult,
};
use crate::stats::Pool;
use crate::story;
use crate::sweep::{SweepResult, TransportRuns};

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

/// Writes the page of `compare` and `run`, with a drawing of one recovered flow if there is one. Returns the
/// page's path.
///
/// # Errors
/// If runs of different versions or configurations would stand side by side, or if the directory cannot be
/// written.
pub fn comparison(
    experiment: &Experiment,
    result: &SweepResult,
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
        flows: flow(provenance.registry, experiment, ATTEMPTS)
            .into_iter()
            .chain(coded_flow(provenance.registry, experiment, ATTEMPTS))
            .collect(),
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

/// How many flows are recorded in search of a flow worth drawing.
const ATTEMPTS: usize = 20;

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
    if let Some(Traffic::Formula(formula)) = first.map(|p| &p.scenario.traffic) {
        return formula.settings();
    }
    if let Some(point) = first {
        let links = point.scenario.topology.links();
        let host = &point.scenario.host;
        list.extend([
            (
                "topology".to_owned(),
                point.scenario.topology.name().to_owned(),
            ),
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

fn estimate(pool: &Pool, metric: Metric) -> Option<Estimate> {
    let value = pool.value(metric)?;
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

/// A flow that FUSO (or another transport that recovers) completed although segments were lost, with the same
/// flow under MPTCP below it. It is taken from the last point, which has the highest swept value.
fn flow(registry: &Registry, experiment: &Experiment, attempts: usize) -> Option<FlowTrace> {
    let recovering = named(experiment, "fuso").or_else(|| {
        let recovers = |t: &&TransportName| {
            registry
                .find(&t.transport)
                .is_some_and(|t| t.config().recovery.is_some())
        };
        experiment.transports.iter().find(recovers)
    });
    let other = named(experiment, "mptcp").or_else(|| named(experiment, "tcp"));
    search(registry, experiment, attempts)?.find(recovering?, other, story::is_recovered)
}

/// A flow for which CoFUSO decoded a lost packet from parities, with the same flow under FUSO or MPTCP below
/// it. It is taken from the last point.
fn coded_flow(registry: &Registry, experiment: &Experiment, attempts: usize) -> Option<FlowTrace> {
    let coding = named(experiment, "cofuso").or_else(|| named(experiment, "cofuso-xor"));
    let other = named(experiment, "fuso").or_else(|| named(experiment, "mptcp"));
    search(registry, experiment, attempts)?.find(coding?, other, story::is_decoded)
}

/// The last transport listed whose name is the family's name, alone or followed by a number of subflows.
fn named<'e>(experiment: &'e Experiment, family: &str) -> Option<&'e TransportName> {
    let rest = |t: &TransportName| t.transport.strip_prefix(family).map(str::to_owned);
    let is_number = |rest: &str| {
        rest.strip_prefix('-')
            .is_some_and(|n| n.parse::<u32>().is_ok())
    };
    let is = |t: &&TransportName| rest(t).is_some_and(|r| r.is_empty() || is_number(&r));
    experiment.transports.iter().rfind(is)
}

fn search<'a>(
    registry: &'a Registry,
    experiment: &'a Experiment,
    attempts: usize,
) -> Option<story::Search<'a>> {
    Some(story::Search {
        registry,
        experiment,
        scenario: &experiment.points.last()?.scenario,
        attempts,
    })
}

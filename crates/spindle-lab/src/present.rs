//! From results to the plain data of reports.

use std::path::{Path, PathBuf};

use crate::claims::{Kind, Outcome, Test, Verdict, point_bound};
use crate::experiment::{Experiment, TransportName, units};
use crate::metrics::{Metric, RunResult};
use crate::output::{Verdicts, interval, pools};
use crate::registry::Registry;
use crate::report::format::Quantity;
use crate::report::{
    self, AxisSpec, ComparePoint, CompareReport, Estimate, Figure, FigureReport, FlowTrace,
    LinePlot, LineSeries, ReportError, RunIdentity, SeriesPoint, TransportResult,
};
use crate::stats::Pool;
use crate::story;
use crate::sweep::{SweepResult, TransportRuns, VERSION};

/// Writes the page of `compare` and `run`, with one recovered flow drawn if there is one; gives the
/// page's path.
///
/// # Errors
/// If the directory cannot be written.
pub fn comparison(
    registry: &Registry,
    experiment: &Experiment,
    result: &SweepResult,
    command: &str,
    directory: &Path,
) -> Result<PathBuf, ReportError> {
    let identity = identity(&configuration(result));
    let points = experiment
        .points
        .iter()
        .zip(&result.points)
        .map(|(point, transports)| ComparePoint {
            set: point.set.clone(),
            transports: transports.iter().map(|t| transport(t, &identity)).collect(),
        })
        .collect();
    let report = CompareReport {
        title: title(experiment),
        scenario: experiment.asks.clone(),
        command: command.to_owned(),
        identity,
        settings: settings(experiment),
        points,
        flows: flows(registry, experiment),
        notes: experiment.notes.clone(),
    };
    report.write(directory)
}

fn title(experiment: &Experiment) -> String {
    match experiment.title.is_empty() {
        true => experiment.id.clone(),
        false => experiment.title.clone(),
    }
}

fn configuration(result: &SweepResult) -> String {
    result.configurations.join("+")
}

fn identity(configuration: &str) -> RunIdentity {
    RunIdentity {
        version: VERSION.to_owned(),
        configuration: configuration.to_owned(),
    }
}

fn settings(experiment: &Experiment) -> Vec<(String, String)> {
    let mut list = vec![
        ("seeds".to_owned(), experiment.seeds.to_string()),
        ("runs per seed".to_owned(), experiment.parts().to_string()),
    ];
    if let Some(point) = experiment.points.first() {
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

fn transport(runs: &TransportRuns, identity: &RunIdentity) -> TransportResult {
    let pool = Pool::new(&runs.runs);
    let sum = |f: fn(&RunResult) -> u64| runs.runs.iter().map(f).sum::<u64>();
    TransportResult {
        name: runs.name.to_string(),
        runs: vec![identity.clone(); runs.runs.len()],
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
        goodput_bps: pool.value(Metric::Goodput),
    }
}

/// A flow that FUSO (or another transport that recovers) brought home although segments were
/// lost, with the same flow under MPTCP below it.
fn flows(registry: &Registry, experiment: &Experiment) -> Vec<FlowTrace> {
    let Some(point) = experiment.points.last() else {
        return Vec::new();
    };
    let named = |family: &str| {
        let is = |t: &&TransportName| {
            t.transport == family || t.transport.starts_with(&format!("{family}-"))
        };
        experiment.transports.iter().find(is)
    };
    let recovering = named("fuso").or_else(|| {
        let recovers = |t: &&TransportName| {
            registry
                .find(&t.transport)
                .is_some_and(|t| t.config().recovery.is_some())
        };
        experiment.transports.iter().find(recovers)
    });
    let Some(first) = recovering else {
        return Vec::new();
    };
    let other = named("mptcp").or_else(|| named("tcp"));
    let search = story::Search {
        registry,
        experiment,
        scenario: &point.scenario,
    };
    search.find(first, other).into_iter().collect()
}

/// One figure of a paper.
pub fn figure(
    experiment: &Experiment,
    result: &SweepResult,
    verdicts: &Verdicts,
    command: &str,
) -> Figure {
    let identity = identity(&configuration(result));
    let pools = pools(result);
    let mut metrics = vec![Metric::FctPercentile(0.99), Metric::TimeoutFraction];
    for claim in &experiment.claims {
        if !metrics.contains(&claim.metric) {
            metrics.push(claim.metric);
        }
    }
    let plots = metrics
        .into_iter()
        .map(|m| plot(experiment, &pools, m, &identity))
        .filter(|plot| !plot.series.is_empty())
        .collect();
    Figure {
        id: experiment.id.clone(),
        title: title(experiment),
        asks: experiment.asks.clone(),
        command: command.to_owned(),
        identity,
        parameters: settings(experiment),
        plots,
        claims: verdicts.claims.iter().map(claim).collect(),
        notes: experiment.notes.clone(),
    }
}

/// Lines over the last axis of the sweep, one per transport and values of the other axes.
fn plot(
    experiment: &Experiment,
    pools: &[Vec<(String, Pool)>],
    metric: Metric,
    identity: &RunIdentity,
) -> LinePlot {
    let axis = experiment
        .points
        .first()
        .and_then(|p| p.set.last())
        .map_or_else(String::new, |(axis, _)| axis.clone());
    let bounded = experiment
        .claims
        .iter()
        .any(|c| matches!(c.test, Test::Bound { .. }));
    let mut series: Vec<LineSeries> = Vec::new();
    for (index, (point, pools)) in experiment.points.iter().zip(pools).enumerate() {
        let x = point
            .set
            .last()
            .and_then(|(_, v)| units::quantity(v))
            .unwrap_or(index as f64);
        let rest = &point.set[..point.set.len().saturating_sub(1)];
        let suffix: String = rest.iter().map(|(_, v)| format!(" {v}")).collect();
        for (name, pool) in pools {
            if let Some(y) = estimate(pool, metric) {
                let line = line(&mut series, format!("{name}{suffix}"), identity);
                line.points.push(SeriesPoint { x, y });
            }
        }
        if metric == Metric::TimeoutFraction
            && bounded
            && let Ok(bound) = point_bound(&point.scenario)
        {
            let y = Estimate::exact(bound);
            let line = line(&mut series, format!("bound{suffix}"), identity);
            line.reference = true;
            line.points.push(SeriesPoint { x, y });
        }
    }
    let share = metric.is_share();
    let quantity = match metric {
        _ if metric.is_rate() => Quantity::BitsPerSecond,
        _ if share => Quantity::Fraction,
        _ => Quantity::Micros,
    };
    let loss = axis == "loss" || axis == "loss.rate";
    LinePlot {
        title: metric.title(),
        x: AxisSpec {
            quantity: if loss {
                Quantity::Fraction
            } else {
                Quantity::Plain
            },
            name: axis,
            log: loss,
        },
        y: AxisSpec {
            name: metric.title(),
            quantity,
            log: !share,
        },
        series,
    }
}

/// The line of that name, which is begun if need be.
fn line<'a>(
    series: &'a mut Vec<LineSeries>,
    name: String,
    identity: &RunIdentity,
) -> &'a mut LineSeries {
    let at = series.iter().position(|s| s.name == name);
    let at = at.unwrap_or_else(|| {
        series.push(LineSeries {
            name,
            reference: false,
            runs: vec![identity.clone()],
            points: Vec::new(),
        });
        series.len() - 1
    });
    &mut series[at]
}

fn claim(outcome: &Outcome) -> report::Claim {
    report::Claim {
        id: outcome.id.clone(),
        kind: match outcome.kind {
            Kind::Numeric => report::ClaimKind::Numeric,
            Kind::Ordering => report::ClaimKind::Ordering,
        },
        text: outcome.text.clone(),
        paper: outcome.paper.clone(),
        measured: outcome.measured.clone(),
        verdict: match outcome.verdict {
            Verdict::Holds => report::Verdict::Holds,
            Verdict::Fails => report::Verdict::Fails,
            Verdict::Tied => report::Verdict::Tied,
            Verdict::NotCheckable => report::Verdict::NotCheckable,
        },
        why: outcome.why.clone(),
    }
}

/// Writes the page of `reproduce`; gives its path.
///
/// # Errors
/// If the directory cannot be written.
pub fn figures(figures: Vec<Figure>, directory: &Path) -> Result<PathBuf, ReportError> {
    let report = FigureReport {
        title: "Reproduced figures".to_owned(),
        introduction: "Every claim is checked on paired runs (same seeds) at 95 %.".to_owned(),
        figures,
    };
    report.write(directory)
}

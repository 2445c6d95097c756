//! From an experiment's results to the page of its figure.

use std::path::{Path, PathBuf};

use spindle_experiment::claims::{Claim, point_bound};
use spindle_experiment::flow_trace::FlowTrace;
use spindle_experiment::library::Paper;
use spindle_experiment::metrics::Metric;
use spindle_experiment::results::{SweepResult, Verdicts, pools};
use spindle_experiment::stats::Pool;
use spindle_experiment::{Experiment, TransportName};

use super::plots::{Value, plots};
use super::{Provenance, cdf, estimate, identity, oracle, runs, settings, title};
use crate::format::Quantity;
use crate::{Arena, AxisSpec, Estimate, Figure, FigureReport, LinePlot, ReportError};

/// The results of an experiment.
#[derive(Clone, Copy, Debug)]
pub struct Results<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// Its runs.
    pub runs: &'a SweepResult,
    /// The verdicts on its claims.
    pub verdicts: &'a Verdicts,
}

/// One figure of a paper, with a drawing of `flow`.
pub fn figure(
    results: &Results<'_>,
    flow: Option<FlowTrace>,
    provenance: &Provenance<'_>,
) -> Figure {
    let experiment = results.experiment;
    let pools = pools(results.runs);
    let mut metrics = vec![tail(&pools), Metric::TimeoutFraction];
    for claim in &experiment.claims {
        for metric in std::iter::once(&claim.metric).chain(claim.test.also()) {
            if !metrics.contains(metric) {
                metrics.push(*metric);
            }
        }
    }
    // Without a claim that runs can check, the columns are all that the experiment shows.
    let checkable = |claim: &Claim| claim.test.not_checkable().is_none();
    if !experiment.claims.iter().any(checkable) {
        let columns = experiment.columns.iter().map(|(_, metric)| *metric);
        let columns: Vec<Metric> = columns.filter(|m| !metrics.contains(m)).collect();
        metrics.extend(columns);
    }
    for printed in &experiment.printed {
        if !metrics.contains(&printed.metric) {
            metrics.push(printed.metric);
        }
    }
    let plots = metrics
        .into_iter()
        .flat_map(|m| metric_plots(experiment, &pools, m))
        .filter(|plot| !plot.series.is_empty())
        .chain(cdf::plots(experiment, &pools))
        .collect();
    Figure {
        flow_command: flow
            .as_ref()
            .map_or_else(String::new, |f| drawn_by(experiment, provenance, f)),
        id: experiment.id.clone(),
        title: title(experiment),
        source: experiment.source.clone(),
        asks: experiment.asks.clone(),
        command: provenance.command.to_owned(),
        identity: identity(results.runs),
        parameters: provenance
            .scale
            .map(|s| ("scale".to_owned(), s.to_owned()))
            .into_iter()
            .chain(settings(experiment))
            .collect(),
        file: provenance.file.map(str::to_owned),
        plots,
        claims: results.verdicts.claims.clone(),
        oracle: oracle::distance(provenance.registry, experiment, results.runs),
        flow,
        notes: experiment.notes.clone(),
        runs: runs::list(experiment, results.runs, provenance),
    }
}

/// The command that draws a flow of the last point.
fn drawn_by(experiment: &Experiment, provenance: &Provenance<'_>, flow: &FlowTrace) -> String {
    let named = |t: &&TransportName| t.to_string() == flow.transport;
    let Some(transport) = experiment.transports.iter().find(named) else {
        return String::new();
    };
    let last = experiment.points.len().saturating_sub(1);
    let run = (provenance.follow)(last, transport, experiment.seed, 0);
    let other = flow.compare_with.as_ref();
    let other = other.map_or_else(String::new, |o| format!(" --against {}", o.transport));
    format!("{run} --flow {}{other} --report flow", flow.number)
}

/// The highest percentile of completion times that every transport has at every point: p99, or p90 if too few
/// flows completed for it.
pub(super) fn tail(pools: &[Vec<(String, Pool)>]) -> Metric {
    let p99 = Metric::FctPercentile(0.99);
    let mut all = pools.iter().flatten();
    match all.all(|(_, pool)| pool.check_flows(p99).is_ok()) {
        true => p99,
        false => Metric::FctPercentile(0.9),
    }
}

/// The pictures of a metric. A line without a value at any point is not drawn.
fn metric_plots(
    experiment: &Experiment,
    pools: &[Vec<(String, Pool)>],
    metric: Metric,
) -> Vec<LinePlot> {
    let bounded = experiment.claims.iter().any(|c| c.test.has_rto_bound());
    let mut values = Vec::new();
    let mut group = 0;
    for (point, pools) in pools.iter().enumerate() {
        for (name, pool) in pools {
            let value = |y| Value {
                name: name.clone(),
                reference: false,
                point,
                y,
                group: Some(group),
                printed: None,
            };
            values.extend(estimate(pool, metric).map(value));
            group += 1;
        }
        let scenario = &experiment.points[point].scenario;
        if metric == Metric::TimeoutFraction
            && bounded
            && let Ok(bound) = point_bound(scenario)
        {
            values.push(Value {
                name: "bound".to_owned(),
                reference: true,
                point,
                y: Estimate::exact(bound),
                group: None,
                printed: None,
            });
        }
    }
    if !values.is_empty() {
        values.extend(printed_values(experiment, metric));
    }
    let y = AxisSpec {
        name: metric.title(),
        quantity: quantity(metric),
        log: !metric.is_share() && !metric.is_computed(),
        cases: Vec::new(),
    };
    plots(experiment, &metric.title(), &y, &values)
}

/// The numbers that the paper prints for a metric, once for each of their points.
fn printed_values(experiment: &Experiment, metric: Metric) -> impl Iterator<Item = Value> {
    let numbers = experiment
        .printed
        .iter()
        .filter(move |p| p.metric == metric);
    numbers.flat_map(|printed| {
        let points = experiment.points.iter().enumerate();
        let there = points.filter(|(_, point)| printed.is_at(&point.set));
        there.map(|(point, _)| Value {
            name: printed.transport.clone(),
            reference: false,
            point,
            y: Estimate::exact(printed.value),
            group: None,
            printed: Some(printed.clone()),
        })
    })
}

/// The quantity that a metric measures.
fn quantity(metric: Metric) -> Quantity {
    match metric {
        _ if metric.is_rate() => Quantity::BitsPerSecond,
        _ if metric.is_share() => Quantity::Fraction,
        _ if metric.is_size() => Quantity::Bytes,
        _ if metric.is_count() => Quantity::Plain,
        _ => Quantity::Micros,
    }
}

/// Writes the pages of a paper's figures, with a table over all of them if there is one. Returns the path of the first
/// page.
///
/// # Errors
/// If runs of different versions or configurations would stand side by side, or if the directory cannot be
/// written.
pub fn figures(
    paper: Option<&Paper>,
    figures: Vec<Figure>,
    arena: Option<Arena>,
    directory: &Path,
) -> Result<PathBuf, ReportError> {
    let rules = "Every claim is checked on paired runs (same seeds) at 95%: it holds or fails if the \
                 interval lies wholly on one side, and is tied otherwise.";
    let report = FigureReport {
        title: paper.map_or("Reproduced figures".to_owned(), |p| p.title.to_owned()),
        introduction: match paper {
            Some(p) if p.joint => p.citation.to_owned(),
            Some(p) => format!(
                "{} Reproduced by Spindle, figure by figure.\n{rules}",
                p.citation
            ),
            None => rules.to_owned(),
        },
        arena,
        figures,
    };
    report.write(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Timeouts of a flow were once drawn in microseconds.
    #[test]
    fn every_metric_is_drawn_in_its_quantity() {
        let of = |name: &str| quantity(Metric::parse(name).unwrap());
        assert_eq!(of("fct.p99"), Quantity::Micros);
        assert_eq!(of("timeouts.max"), Quantity::Plain);
        assert_eq!(of("retransmits.mean"), Quantity::Plain);
        assert_eq!(of("timeouts.none"), Quantity::Fraction);
        assert_eq!(of("core.loss"), Quantity::Fraction);
        assert_eq!(of("goodput.background.stdev"), Quantity::BitsPerSecond);
        assert_eq!(of("size.p50"), Quantity::Bytes);
    }
}

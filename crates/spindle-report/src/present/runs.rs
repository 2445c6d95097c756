//! The runs behind a report's numbers.

use spindle_experiment::metrics::{Metric, RunResult};
use spindle_experiment::results::{SweepResult, TransportRuns};
use spindle_experiment::stats::Pool;
use spindle_experiment::{Experiment, Point};

use super::{Provenance, estimate};
use crate::{RunGroup, RunList, RunRow};

/// The runs of all transports at all points, one group each, in order.
pub(super) fn list(
    experiment: &Experiment,
    result: &SweepResult,
    provenance: &Provenance<'_>,
) -> RunList {
    if experiment.points.iter().any(Point::is_computed) {
        // There is no run to follow.
        return RunList {
            id: experiment.id.clone(),
            ..RunList::default()
        };
    }
    let points = experiment.points.iter().zip(&result.points).enumerate();
    let groups = points.flat_map(|(i, (point, transports))| {
        let group = move |t| group(experiment, i, point.set.clone(), t, provenance);
        transports.iter().map(group)
    });
    RunList {
        id: experiment.id.clone(),
        store: provenance.store.map(str::to_owned),
        groups: groups.collect(),
    }
}

fn group(
    experiment: &Experiment,
    point: usize,
    set: Vec<(String, String)>,
    transport: &TransportRuns,
    provenance: &Provenance<'_>,
) -> RunGroup {
    let parts = experiment.parts();
    let runs = transport.runs.iter().zip(&transport.origins).zip(0..);
    let rows = runs.map(|((run, origin), i)| {
        let (seed, part) = (experiment.seed + i / parts, i % parts);
        RunRow {
            identity: origin.clone(),
            follow: (provenance.follow)(point, &transport.name, seed, part),
            seed,
            part,
            ..row(run)
        }
    });
    let pool = Pool::new(&transport.runs);
    RunGroup {
        set,
        transport: transport.name.to_string(),
        identity: transport.identity.clone(),
        p90_us: estimate(&pool, Metric::FctPercentile(0.9)),
        p99_us: estimate(&pool, Metric::FctPercentile(0.99)),
        rows: rows.collect(),
    }
}

fn row(run: &RunResult) -> RunRow {
    let pool = Pool::new([run]);
    RunRow {
        flows: run.flows,
        completed: run.completed,
        timed_out: run.flows_with_timeout,
        mean_us: pool.value(Metric::FctMean),
        p50_us: pool.value(Metric::FctPercentile(0.5)),
        p90_us: pool.value(Metric::FctPercentile(0.9)),
        max_us: pool.value(Metric::FctMax),
        extra_load: pool.value(Metric::ExtraLoad),
        ..RunRow::default()
    }
}

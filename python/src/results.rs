//! Results of an experiment: tables, the command line's JSON, verdicts.

use std::sync::Arc;

use pyo3::prelude::*;
use spindle_experiment::Experiment as Read;
use spindle_experiment::metrics::RunResult;
use spindle_experiment::results::{self, SweepResult};
use spindle_experiment::stats::Pool;
use spindle_experiment::units::quantity;
use spindle_lab::sweep::gather;

use crate::errors;
use crate::experiment::Experiment;
use crate::metrics::{Chosen, chosen, column};
use crate::runs::Runs;
use crate::tables::{Columns, Table};

/// All runs of an experiment.
#[pyclass(frozen, module = "spindle._native")]
pub(crate) struct Results {
    pub(crate) experiment: Arc<Read>,
    pub(crate) result: SweepResult,
}

/// Runs that make a row of a table.
struct Row<'a> {
    point: usize,
    transport: String,
    seed: Option<u64>,
    part: Option<u64>,
    runs: Vec<&'a RunResult>,
}

#[pymethods]
impl Results {
    /// The results of an experiment from its finished runs, `wall_s` seconds after the first was begun.
    #[new]
    fn new(py: Python<'_>, experiment: &Experiment, runs: &Runs, wall_s: f64) -> PyResult<Self> {
        let (read, jobs) = (Arc::clone(experiment.read()), experiment.jobs()?);
        let result = py.detach(|| {
            let known = runs.known();
            if let Some(job) = jobs.iter().find(|j| !known.contains_key(&j.key)) {
                return Err(format!(
                    "the run of {} at point {} with seed {}, part {}, is missing",
                    job.transport, job.point, job.key.seed, job.key.part
                ));
            }
            Ok(gather(&read, jobs, |key| known.get(key).cloned()))
        });
        let result = result.map_err(|text| errors::store(&text))?;
        Ok(Self {
            experiment: read,
            result: SweepResult { wall_s, ..result },
        })
    }

    /// The JSON of `spindle run --json`.
    fn comparison(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| json(&results::comparison(&self.experiment, &self.result)))
            .map_err(|e| errors::internal(&e))
    }

    /// One entry of the JSON of `spindle reproduce --json`.
    fn verdicts(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| json(&results::verdicts(&self.experiment, &self.result)))
            .map_err(|e| errors::internal(&e))
    }

    /// The table that the command line prints.
    fn text(&self, py: Python<'_>) -> String {
        py.detach(|| results::table(&results::comparison(&self.experiment, &self.result)))
    }

    /// The verdicts as the command line prints them.
    fn verdict_text(&self, py: Python<'_>) -> String {
        py.detach(|| results::verdict_table(&results::verdicts(&self.experiment, &self.result)))
    }

    /// Whether every flow finished as the experiment requires.
    #[getter]
    fn all_well(&self) -> bool {
        results::all_well(&self.result)
    }

    /// A row for each transport at each point.
    #[pyo3(signature = (metrics=None))]
    fn summary(&self, py: Python<'_>, metrics: Option<Vec<String>>) -> PyResult<Table> {
        let chosen = chosen(&self.experiment, metrics)?;
        let columns = py.detach(|| self.table(&self.rows(Rows::Transport), &chosen, true));
        columns.table()
    }

    /// A row for each seed of each transport at each point, or for each part of a seed.
    #[pyo3(signature = (metrics=None, parts=false))]
    fn runs(&self, py: Python<'_>, metrics: Option<Vec<String>>, parts: bool) -> PyResult<Table> {
        let chosen = chosen(&self.experiment, metrics)?;
        let columns = py.detach(|| {
            let by = if parts { Rows::Part } else { Rows::Seed };
            self.table(&self.rows(by), &chosen, false)
        });
        columns.table()
    }

    /// A row for each completed flow of each run, in the order of issue.
    fn completions(&self, py: Python<'_>) -> PyResult<Table> {
        let columns = py.detach(|| {
            let runs = self.rows(Rows::Part);
            let flows = |r: &Row<'_>| r.runs.iter().map(|run| run.fct_ns.len()).sum::<usize>();
            let rows: Vec<&Row<'_>> = runs
                .iter()
                .flat_map(|r| std::iter::repeat_n(r, flows(r)))
                .collect();
            let times = runs
                .iter()
                .flat_map(|r| &r.runs)
                .flat_map(|run| &run.fct_ns);
            self.head(&rows).whole("fct", "ns", times.map(|t| Some(*t)))
        });
        columns.table()
    }
}

/// The key of a row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rows {
    Transport,
    Seed,
    Part,
}

impl Results {
    fn rows(&self, by: Rows) -> Vec<Row<'_>> {
        let parts = self.experiment.parts();
        let size = match by {
            Rows::Transport => (self.experiment.seeds * parts) as usize,
            Rows::Seed => parts as usize,
            Rows::Part => 1,
        };
        let mut rows = Vec::new();
        for (point, transports) in self.result.points.iter().enumerate() {
            for t in transports {
                for (i, runs) in t.runs.chunks(size.max(1)).enumerate() {
                    let first = (i * size) as u64;
                    rows.push(Row {
                        point,
                        transport: t.name.to_string(),
                        seed: (by != Rows::Transport)
                            .then_some(self.experiment.seed + first / parts),
                        part: (by == Rows::Part).then_some(first % parts),
                        runs: runs.iter().collect(),
                    });
                }
            }
        }
        rows
    }

    fn table(&self, rows: &[Row<'_>], chosen: &Chosen, intervals: bool) -> Columns {
        let head = self.head(&rows.iter().collect::<Vec<_>>());
        metrics(counts(head, rows), rows, chosen, intervals)
    }

    /// The columns that identify a row.
    fn head(&self, rows: &[&Row<'_>]) -> Columns {
        let points = || rows.iter().map(|r| &self.experiment.points[r.point]);
        let mut columns =
            Columns::default().whole("point", "", rows.iter().map(|r| Some(r.point as u64)));
        for axis in self.axes() {
            let value = |p: &'_ spindle_experiment::Point| {
                let found = p.set.iter().find(|(a, _)| *a == axis);
                found.map(|(_, value)| value.clone())
            };
            let name = match RESERVED.contains(&axis.as_str()) {
                true => format!("set.{axis}"),
                false => axis.clone(),
            };
            let numbers: Vec<Option<f64>> = points()
                .map(|p| value(p).and_then(|v| quantity(&v)))
                .collect();
            columns = columns.text(&name, points().map(value));
            if numbers.iter().any(Option::is_some) {
                columns = columns.number(&format!("{name}.value"), "", numbers);
            }
        }
        columns = columns.text("transport", rows.iter().map(|r| Some(&r.transport)));
        if rows.iter().any(|r| r.seed.is_some()) {
            columns = columns.whole("seed", "", rows.iter().map(|r| r.seed));
        }
        if rows.iter().any(|r| r.part.is_some()) {
            columns = columns.whole("part", "", rows.iter().map(|r| r.part));
        }
        columns
    }

    fn axes(&self) -> Vec<String> {
        let mut axes: Vec<String> = Vec::new();
        for (axis, _) in self.experiment.points.iter().flat_map(|p| &p.set) {
            if !axes.contains(axis) {
                axes.push(axis.clone());
            }
        }
        axes
    }
}

/// A column that sums a value over runs: name, unit, value.
type Count = (&'static str, &'static str, fn(&RunResult) -> u64);

const COUNTS: [Count; 14] = [
    ("flows", "", |r| r.flows),
    ("completed", "", |r| r.completed),
    ("aborted", "", |r| r.aborted),
    ("given_up", "", |r| r.given_up),
    ("cut_off", "", |r| r.cut_off),
    ("timeouts", "", |r| r.timeouts),
    ("late_timeouts", "", |r| r.late_timeouts),
    ("fast_retransmits", "", |r| r.fast_retransmits),
    ("spurious_retransmits", "", |r| r.spurious_retransmits),
    ("bytes_delivered", "B", |r| r.bytes_delivered),
    ("bytes_corrupted", "B", |r| r.bytes_corrupted),
    ("events", "", |r| r.events),
    ("packet_hops", "", |r| r.packet_hops),
    ("sim_time", "ns", |r| r.sim_ns),
];

/// Names of columns that an axis cannot have.
const RESERVED: [&str; 6] = ["point", "transport", "seed", "part", "flows", "completed"];

fn counts(columns: Columns, rows: &[Row<'_>]) -> Columns {
    COUNTS.iter().fold(columns, |columns, (name, unit, of)| {
        let sum = |r: &Row<'_>| Some(r.runs.iter().map(|run| of(run)).sum());
        columns.whole(name, unit, rows.iter().map(sum))
    })
}

fn metrics(mut columns: Columns, rows: &[Row<'_>], chosen: &Chosen, intervals: bool) -> Columns {
    let pools: Vec<Pool> = rows
        .iter()
        .map(|r| Pool::new(r.runs.iter().copied()))
        .collect();
    for (name, metric) in &chosen.metrics {
        let values: Vec<Option<f64>> = pools.iter().map(|p| results::value(p, *metric)).collect();
        // A percentile of too few flows keeps its column, without values.
        let few = |p: &Pool| p.completed() > 0 && p.check_flows(*metric).is_err();
        if !chosen.all && values.iter().all(Option::is_none) && !pools.iter().any(few) {
            continue;
        }
        let (name, unit) = (column(name), metric.unit());
        columns = columns.number(&name, unit, values);
        if metric.wanted_flows() > 0 {
            columns = columns.wanted_flows(metric.wanted_flows());
        }
        if !intervals {
            continue;
        }
        let ends: Vec<Option<[f64; 2]>> = pools.iter().map(|p| results::ends(p, *metric)).collect();
        for (i, end) in ["low", "high"].into_iter().enumerate() {
            let values = ends.iter().map(|e| e.map(|e| e[i]));
            columns = columns.number(&format!("{name}.{end}"), unit, values);
        }
    }
    columns
}

/// JSON as the command line writes it.
pub(crate) fn json(value: &impl serde::Serialize) -> Result<String, String> {
    serde_json::to_string_pretty(value).map_err(|e| e.to_string())
}

//! Making runs, and keeping finished ones.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use pyo3::prelude::*;
use spindle_experiment::identity::VERSION;
use spindle_experiment::metrics::RunResult;
use spindle_experiment::results::RunKey;
use spindle_lab::driver::RunError;
use spindle_lab::sweep::{Options, Record};

use crate::errors;
use crate::experiment::{Experiment, Key};
use crate::interrupt::{Stop, interruptible};
use crate::names::REGISTRY;

/// A finished run as a line of JSON, and the seconds that it took.
type Made = (String, f64);

/// Makes these runs of an experiment, by their numbers in the order of its keys, one after the other.
#[pyfunction]
pub(crate) fn run_jobs(
    py: Python<'_>,
    experiment: &Experiment,
    numbers: Vec<usize>,
    stop: &Stop,
) -> PyResult<Vec<Made>> {
    let jobs = experiment.jobs()?;
    if let Some(wrong) = numbers.iter().find(|n| **n >= jobs.len()) {
        let text = format!(
            "found run {wrong}, want 0 to {}",
            jobs.len().saturating_sub(1)
        );
        return Err(errors::unknown_name(&text));
    }
    let flag = stop.flag();
    let options = Options {
        stop: Some(stop.flag()),
        ..Options::default()
    };
    let read = experiment.read();
    let one = |n: usize| -> Result<Made, Failed> {
        let started = Instant::now();
        let job = &jobs[n];
        let result = job.run(read, &REGISTRY, &options).map_err(Failed::Run)?;
        let line = Record::new(read, job, result).to_line();
        let line = line.map_err(|e| Failed::Line(e.to_string()))?;
        Ok((line, started.elapsed().as_secs_f64()))
    };
    let work = || numbers.into_iter().map(one).collect::<Result<Vec<_>, _>>();
    interruptible(py, &flag, work)?.map_err(|e| match e {
        Failed::Run(e) => errors::run(&e),
        Failed::Line(text) => errors::internal(&text),
    })
}

enum Failed {
    Run(RunError),
    Line(String),
}

fn record(line: &str) -> PyResult<Record> {
    Record::parse(line).map_err(|e| errors::store(&format!("not the record of a run: {e}")))
}

/// The columns of a store other than the record of a run.
type Head = (String, String, String, Key, (u64, u64, u64));

/// Experiment, version, the sweep's values as JSON, key, and flows started, completed and aborted of a record.
#[pyfunction]
pub(crate) fn head(line: &str) -> PyResult<Head> {
    let r = record(line)?;
    let set: Vec<String> = r.set.iter().map(text_of).collect();
    let set = format!("{{{}}}", set.join(", "));
    let counts = (r.result.flows, r.result.completed, r.result.aborted);
    let key = (r.configuration, r.transport, r.seed, r.part, r.parts);
    Ok((r.experiment, r.version, set, key, counts))
}

fn text_of((axis, value): &(String, String)) -> String {
    let quoted = |s: &String| serde_json::Value::from(s.as_str()).to_string();
    format!("{}: {}", quoted(axis), quoted(value))
}

/// Finished runs by their identity.
#[pyclass(frozen, module = "spindle._native")]
#[derive(Default)]
pub(crate) struct Runs(Mutex<HashMap<RunKey, RunResult>>);

#[pymethods]
impl Runs {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Adds the record of a run.
    fn add(&self, line: &str) -> PyResult<()> {
        let record = record(line)?;
        if record.version != VERSION {
            let text = format!(
                "found a run of \"{}\" by version {}, this is {VERSION}, and results of different \
                 versions are not mixed",
                record.experiment, record.version
            );
            return Err(errors::store(&text));
        }
        self.known().insert(record.key(), record.result);
        Ok(())
    }

    fn __len__(&self) -> usize {
        self.known().len()
    }
}

impl Runs {
    /// All of them.
    pub(crate) fn known(&self) -> MutexGuard<'_, HashMap<RunKey, RunResult>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

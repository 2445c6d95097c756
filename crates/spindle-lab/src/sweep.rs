//! Runs an experiment: all points, transports and seeds, on all cores. Runs are stored as they finish.
//!
//! Each run is a separate simulation, so results do not depend on the number of threads or on the order in
//! which runs finish. Every finished run is appended to the store as one line of JSON and flushed. A process
//! that is stopped loses only the runs in progress. [`Options::resume`] reads a store back.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant as WallInstant;

use bytes::Bytes;
use spindle_experiment::identity::RunIdentity;
use spindle_experiment::metrics::RunResult;
use spindle_experiment::registry::Registry;
use spindle_experiment::results::{
    Lines, RunKey, StoreError, SweepResult, TransportRuns, in_parallel,
};
use spindle_experiment::{Experiment, TransportName};

use crate::driver::RunError;
use crate::progress::Progress;

mod job;
mod record;
mod shared;

use job::simulated;
pub use job::{Job, jobs};
pub use record::Record;
use record::read_store;
pub use shared::Shared;

/// How an experiment is run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The number of threads. 0 means one per core.
    pub jobs: usize,
    /// A file that finished runs are appended to.
    pub store: Option<PathBuf>,
    /// Whether runs that are already in the store are taken from it.
    pub resume: bool,
    /// Whether to show progress and the time left on standard error.
    pub progress: bool,
    /// The bytes that responses carry. Without it, runs use lengths only.
    pub payload: Option<Bytes>,
    /// A directory for captures, one file per run.
    pub pcap: Option<PathBuf>,
    /// Runs that other experiments make as well. It is not used if captures are requested.
    pub shared: Shared,
    /// When this becomes true, runs end early with [`RunError::Stopped`].
    pub stop: Option<Arc<AtomicBool>>,
}

impl Options {
    fn threads(&self) -> usize {
        match self.jobs {
            0 => std::thread::available_parallelism().map_or(1, |n| n.get()),
            jobs => jobs,
        }
    }
}

/// Why an experiment could not be run.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// A run could not be made.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The store of results cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store holds runs of the experiment by another version. Their results would stand next to new ones.
    #[error(
        "{path}, line {line}: found a run of \"{experiment}\" by version {found}, this is {here}, and \
         results of different versions are not mixed; run without --resume to begin again, or give \
         another place for the results"
    )]
    MixedVersions {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The experiment's id.
        experiment: String,
        /// The version of the run.
        found: String,
        /// The version that would run now.
        here: &'static str,
    },
}

/// A run and its identity.
type Made = (RunIdentity, RunResult);

/// Runs every combination of point, transport, seed and part. Transports that only the testbed runs are left
/// out.
///
/// # Errors
/// The first run that cannot be made, or an error of the store.
pub fn execute(
    experiment: &Experiment,
    registry: &Registry,
    options: &Options,
) -> Result<SweepResult, SweepError> {
    let started = WallInstant::now();
    let jobs = jobs(experiment, registry, options.payload.as_deref())?;
    let known = match (&options.store, options.resume) {
        (Some(path), true) => read_store(path, &experiment.id, registry.version())?,
        _ => HashMap::new(),
    };
    let mut slots: Vec<Option<Made>> = jobs.iter().map(|j| known.get(&j.key).cloned()).collect();
    let resumed = slots.iter().filter(|s| s.is_some()).count();
    let store = options.store.as_deref();
    let runs = RunLog {
        experiment,
        lines: store.map(|p| Lines::open(p, options.resume)).transpose()?,
    };
    for (job, slot) in jobs.iter().zip(&mut slots) {
        if slot.is_none() && options.pcap.is_none() {
            *slot = options.shared.get(job);
            slot.iter().try_for_each(|(_, r)| runs.enter(job, r))?;
        }
    }
    let todo: Vec<usize> = (0..jobs.len()).filter(|i| slots[*i].is_none()).collect();
    let progress = Progress::new(options.progress, &experiment.id, todo.len());
    let one = |index: usize| {
        let result = jobs[index].run(experiment, registry, options)?;
        runs.enter(&jobs[index], &result)?;
        progress.step();
        Ok::<_, SweepError>(result)
    };
    for (i, result) in in_parallel(options.threads(), &todo, one)? {
        slots[i] = Some((jobs[i].identity(), result));
    }
    progress.finish();
    for (job, made) in jobs.iter().zip(&slots) {
        made.iter().for_each(|m| options.shared.keep(job, m));
    }
    Ok(SweepResult {
        wall_s: started.elapsed().as_secs_f64(),
        resumed,
        ..gathered(experiment, &jobs, slots)
    })
}

/// Builds the result of an experiment whose runs were made elsewhere by this version. `made` returns the run of
/// each of the experiment's [`jobs`]. Missing runs are left out.
pub fn gather(
    experiment: &Experiment,
    jobs: &[Job],
    mut made: impl FnMut(&RunKey) -> Option<RunResult>,
) -> SweepResult {
    let run = |job: &Job| made(&job.key).map(|result| (job.identity(), result));
    gathered(experiment, jobs, jobs.iter().map(run).collect())
}

/// Groups the runs by point and transport. `slots` correspond to `jobs`.
fn gathered(experiment: &Experiment, jobs: &[Job], slots: Vec<Option<Made>>) -> SweepResult {
    let mut results = jobs.iter().zip(slots);
    let per_transport = (experiment.seeds * experiment.parts()) as usize;
    let points = experiment
        .points
        .iter()
        .map(|_| {
            let mut runs = |name: &TransportName| {
                let of_it: Vec<_> = results.by_ref().take(per_transport).collect();
                let identity = of_it.first().map(|(job, _)| job.identity());
                let made = of_it.into_iter().filter_map(|(_, made)| made);
                let (origins, runs) = made.unzip();
                TransportRuns {
                    name: name.clone(),
                    runs,
                    origins,
                    identity: identity.unwrap_or_else(|| RunIdentity::here("")),
                }
            };
            simulated(experiment).map(&mut runs).collect()
        })
        .collect();
    let configurations = experiment
        .points
        .iter()
        .map(|p| format!("{:016x}", p.hash))
        .collect();
    SweepResult {
        points,
        wall_s: 0.0,
        resumed: 0,
        configurations,
        given_up: experiment.given_up,
    }
}

/// The store to which runs are appended, if there is one.
struct RunLog<'a> {
    experiment: &'a Experiment,
    lines: Option<Lines>,
}

impl RunLog<'_> {
    fn enter(&self, job: &Job, result: &RunResult) -> Result<(), SweepError> {
        if let Some(lines) = &self.lines {
            lines.append(&Record::new(self.experiment, job, result.clone()))?;
        }
        Ok(())
    }
}

//! Runs all rows of an experiment. Each part of a row has its own network, hosts and threads, so that several
//! parts run at a time and each request is as isolated as in the lab.

pub mod output;
pub(crate) mod part;
mod store;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration as StdDuration, Instant as Wall};

use spindle_experiment::registry::Registry;
use spindle_experiment::results::{RunKey, SweepResult, TransportRuns, in_parallel, keys};
use spindle_experiment::rng::hash64;
use spindle_experiment::{Experiment, Point, TransportName};
use spindle_units::Duration;

use crate::error::TestbedError;
use crate::model::fabric::LinkReport;
use crate::model::lateness::Lateness;
use part::{Coded, Part, PartOutput};
use store::Store;

/// How an experiment is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The largest accepted lateness of 99 of 100 packets. Beyond it, the result is invalid.
    pub late_bound: Duration,
    /// The number of parts that run at a time. 0 selects [a number that suits the traffic](usual_jobs).
    pub jobs: usize,
    /// A file that finished parts are appended to.
    pub store: Option<PathBuf>,
    /// Whether parts that are already in the store are taken from it. Parts that were late are run again.
    pub resume: bool,
}

/// Parts at a time for each core. Requests wait for round trips most of their time (our choice).
const PER_CORE: usize = 4;
/// Cores for each part if flows never pause. The part's fabric uses most of one core, and its hosts use as much
/// (our choice).
const CORES_WITHOUT_PAUSE: usize = 2;
/// The largest number of parts at a time, unless more are requested (our choice).
const MOST: usize = 16;

impl Default for Options {
    /// A millisecond (our choice: 1/5 of the smallest round trip that two cores keep up with), as many parts at
    /// a time as suit the traffic, and no store.
    fn default() -> Self {
        Self {
            late_bound: Duration::from_millis(1),
            jobs: 0,
            store: None,
            resume: false,
        }
    }
}

/// The number of parts that run at a time by default: four per core, but at most 16. If any point has short
/// flows next to long flows, which keep hosts busy all the time, it is one part for every two cores. More parts
/// would compete for the processor, which slows hosts down without making packets late.
pub fn usual_jobs(experiment: &Experiment) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let without_pause = |p: &Point| p.scenario.traffic.keeps_hosts_busy();
    match experiment.points.iter().any(without_pause) {
        true => (cores / CORES_WITHOUT_PAUSE).clamp(1, MOST),
        false => (cores * PER_CORE).min(MOST),
    }
}

/// The effects of real time on one transport at one point.
#[derive(Clone, Debug)]
pub struct Row {
    /// The transport.
    pub name: TransportName,
    /// How late packets were delivered.
    pub lateness: Lateness,
    /// How late a thread without real-time priority woke up. The hosts' threads have no real-time priority
    /// either.
    pub hosts: Lateness,
    /// The share of one core that a part's fabric used.
    pub fabric_load: f64,
    /// Packets that a host's interface did not accept.
    pub refused: u64,
    /// What Spindle's hosts coded.
    pub coded: Coded,
    /// Whether packets were late by more than the bound.
    pub fell_behind: bool,
    /// The links of the last part.
    pub links: Vec<LinkReport>,
}

/// All rows.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The measurements that the lab has as well.
    pub result: SweepResult,
    /// The rows of each point.
    pub rows: Vec<Vec<Row>>,
}

/// The progress of a run, reported after each part.
#[derive(Debug)]
pub struct Progress<'a> {
    /// Parts that are done, including those from the store.
    pub done: usize,
    /// All parts.
    pub parts: usize,
    /// How long the rest will take at the present speed. `None` before the first new part.
    pub left: Option<StdDuration>,
    /// The row that this part completed: its point's settings, the effects of real time on it, and its runs.
    pub row: Option<(&'a Point, &'a Row, &'a TransportRuns)>,
}

/// Runs every combination of point, transport, seed and part. `progress` is called after each part from the
/// thread that ran it. Calls never overlap.
///
/// # Errors
/// The first part that cannot be run, or an error of the store.
pub fn run(
    experiment: &Experiment,
    registry: &Registry,
    options: &Options,
    progress: impl FnMut(&Progress<'_>) + Send,
) -> Result<Outcome, TestbedError> {
    let started = Wall::now();
    let jobs = jobs(experiment, registry)?;
    let mut known = match (&options.store, options.resume) {
        (Some(path), true) => store::read(path, registry.version())?,
        _ => HashMap::new(),
    };
    known.retain(|_, output| !late(&output.real.fabric.lateness, options));
    let slots: Vec<Option<PartOutput>> = jobs.iter().map(|j| known.remove(&j.key)).collect();
    let resumed = slots.iter().flatten().count();
    let store = (options.store.as_deref())
        .map(|path| Store::open(path, options.resume, &experiment.id, registry.version()))
        .transpose()?;
    let per_row = (experiment.seeds * experiment.parts()) as usize;
    let todo: Vec<usize> = (0..jobs.len()).filter(|i| slots[*i].is_none()).collect();
    let work = Work {
        registry,
        options,
        jobs: &jobs,
        per_row,
        store,
        started,
        shared: Mutex::new(Shared {
            slots,
            fresh: 0,
            progress,
        }),
    };
    let threads = match options.jobs {
        0 => usual_jobs(experiment),
        jobs => jobs,
    };
    in_parallel(threads, &todo, |index| work.one(index))?;
    let shared = work.shared.into_inner();
    let slots = shared.unwrap_or_else(PoisonError::into_inner).slots;
    let outputs: Vec<PartOutput> = slots.into_iter().flatten().collect();
    Ok(outcome(experiment, options, &outputs, (started, resumed)))
}

/// One part that will be run.
struct Job<'a> {
    point: &'a Point,
    name: &'a TransportName,
    key: RunKey,
}

/// All parts, row by row.
fn jobs<'a>(experiment: &'a Experiment, registry: &Registry) -> Result<Vec<Job<'a>>, TestbedError> {
    let mut jobs = Vec::new();
    for point in &experiment.points {
        for name in &experiment.transports {
            let ends = name.ends();
            let (server, client) = ends.map_err(|e| TestbedError::Transport(e.to_string()))?;
            let config = [server, client].map(|end| match registry.find(end.preset) {
                Some(transport) => transport.configuration(),
                None => end.preset.to_owned(),
            });
            let hash = hash64(&[
                &point.hash.to_le_bytes(),
                config[0].as_bytes(),
                config[1].as_bytes(),
            ]);
            jobs.extend(keys(experiment, name, hash).map(|key| Job { point, name, key }));
        }
    }
    Ok(jobs)
}

struct Shared<P> {
    /// The output of each job.
    slots: Vec<Option<PartOutput>>,
    /// The number of parts that were run in this process.
    fresh: u32,
    progress: P,
}

struct Work<'a, P> {
    registry: &'a Registry,
    options: &'a Options,
    jobs: &'a [Job<'a>],
    per_row: usize,
    store: Option<Store>,
    started: Wall,
    shared: Mutex<Shared<P>>,
}

impl<P: FnMut(&Progress<'_>) + Send> Work<'_, P> {
    fn one(&self, index: usize) -> Result<(), TestbedError> {
        let job = &self.jobs[index];
        let part = Part {
            scenario: &job.point.scenario,
            transport: job.name,
            registry: self.registry,
            seed: job.key.seed,
            part: job.key.part,
            parts: job.key.parts,
        };
        let output = part.run()?;
        if let Some(store) = &self.store {
            store.append(&job.point.set, &job.key, &output)?;
        }
        self.tell(index, output);
        Ok(())
    }

    /// Stores a part's output and reports the progress.
    fn tell(&self, index: usize, output: PartOutput) {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.slots[index] = Some(output);
        shared.fresh += 1;
        let done = shared.slots.iter().flatten().count();
        let left = (shared.slots.len() - done) as u32;
        let left = self.started.elapsed() / shared.fresh * left;
        let first = index - index % self.per_row;
        let of_row = &shared.slots[first..first + self.per_row];
        let outputs: Vec<&PartOutput> = of_row.iter().flatten().collect();
        let job = &self.jobs[index];
        let row = (outputs.len() == self.per_row).then(|| {
            let runs = outputs.iter().map(|o| o.result.clone()).collect();
            let name = job.name.clone();
            (
                row(job.name, &outputs, self.options),
                TransportRuns::here(name, runs, ""),
            )
        });
        let parts = shared.slots.len();
        (shared.progress)(&Progress {
            done,
            parts,
            left: Some(left),
            row: row.as_ref().map(|(row, runs)| (job.point, row, runs)),
        });
    }
}

/// The rows of all parts, in the order of points, transports, seeds and parts.
fn outcome(
    experiment: &Experiment,
    options: &Options,
    outputs: &[PartOutput],
    (started, resumed): (Wall, usize),
) -> Outcome {
    let per_row = (experiment.seeds * experiment.parts()) as usize;
    let per_point = per_row * experiment.transports.len();
    let (mut points, mut rows) = (Vec::new(), Vec::new());
    for of_point in outputs.chunks(per_point.max(1)) {
        let named = experiment.transports.iter().zip(of_point.chunks(per_row));
        let both = named.map(|(name, outputs)| {
            let runs = outputs.iter().map(|o| o.result.clone()).collect();
            let runs = TransportRuns::here(name.clone(), runs, "");
            let outputs: Vec<&PartOutput> = outputs.iter().collect();
            (runs, row(name, &outputs, options))
        });
        let (transports, of_point): (Vec<_>, Vec<_>) = both.unzip();
        points.push(transports);
        rows.push(of_point);
    }
    let hash = |p: &Point| format!("{:016x}", p.hash);
    let result = SweepResult {
        points,
        wall_s: started.elapsed().as_secs_f64(),
        resumed,
        configurations: experiment.points.iter().map(hash).collect(),
        given_up: experiment.given_up,
    };
    Outcome { result, rows }
}

fn late(lateness: &Lateness, options: &Options) -> bool {
    lateness.percentile(0.99) > options.late_bound.as_nanos()
}

fn row(name: &TransportName, outputs: &[&PartOutput], options: &Options) -> Row {
    let (mut lateness, mut hosts) = (Lateness::default(), Lateness::default());
    let (mut cpu, mut wall, mut refused) = (0.0, 0.0, 0);
    let mut coded = Coded::default();
    for output in outputs {
        let fabric = &output.real.fabric;
        lateness.add(&fabric.lateness);
        hosts.add(&output.real.hosts);
        coded.add(&output.real.coded);
        cpu += fabric.cpu_s;
        wall += fabric.wall_s;
        refused += fabric.refused;
    }
    Row {
        name: name.clone(),
        fell_behind: late(&lateness, options),
        lateness,
        hosts,
        fabric_load: cpu / f64::max(wall, 1e-9),
        refused,
        coded,
        links: outputs
            .last()
            .map_or(Vec::new(), |o| o.real.fabric.links.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindle_experiment::Overrides;
    use spindle_experiment::library;

    #[test]
    fn a_part_with_flows_that_never_pause_gets_two_cores() {
        let registry = Registry::standard();
        let jobs = |text: &str| {
            let at = std::path::Path::new("/nowhere");
            let e = library::parse(&registry, ("x.toml", text), at, &Overrides::default());
            usual_jobs(&e.unwrap())
        };
        let cores = std::thread::available_parallelism().unwrap().get();
        let mix = jobs(include_str!("../../../../experiments/caps/testbed.toml"));
        let requests = jobs(include_str!("../../../../experiments/wire/two-paths.toml"));
        assert_eq!(mix, (cores / 2).clamp(1, 16));
        assert_eq!(requests, (4 * cores).min(16));
    }
}

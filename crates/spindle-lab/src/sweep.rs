//! All runs of an experiment: over points, transports and seeds, on all cores, stored as they end.
//!
//! Each run is a simulation of its own, so results do not depend on how many threads there are or
//! in which order runs end. Every finished run is appended to the store as one line of JSON and
//! flushed; a process that is stopped loses only what was running, and a store is read back by
//! [`Options::resume`].

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant as WallInstant;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::driver::{self, RunError, RunRequest};
use crate::experiment::scenario::Traffic;
use crate::experiment::{Experiment, TransportName};
use crate::identity::{RunIdentity, VERSION};
use crate::metrics::RunResult;
use crate::progress::Progress;
use crate::registry::Registry;
use crate::rng::hash64;

mod shared;

pub use shared::Shared;

/// How an experiment is run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Threads; 0 means one per core.
    pub jobs: usize,
    /// A file that finished runs are appended to.
    pub store: Option<PathBuf>,
    /// Take runs that the store has already from there.
    pub resume: bool,
    /// Show progress and the time left on standard error.
    pub progress: bool,
    /// Bytes that responses carry; lengths only without.
    pub payload: Option<Bytes>,
    /// A directory for captures, a file per run.
    pub pcap: Option<PathBuf>,
    /// Runs that other experiments make as well; not taken where captures are asked for.
    pub shared: Shared,
}

/// Why an experiment could not be run.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// A run could not be made.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The store of results cannot be read or written.
    #[error("{path}: cannot {action} results: {source}")]
    Store {
        /// The file.
        path: PathBuf,
        /// "read" or "write".
        action: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// The store holds runs of the experiment by another version: their results would stand beside
    /// new ones.
    #[error(
        "{path}, line {line}: found a run of \"{experiment}\" by version {found}, this is {VERSION}, and \
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
    },
}

/// The runs of one transport at one point, in the order of seed and part.
#[derive(Clone, Debug)]
pub struct TransportRuns {
    /// The transport.
    pub name: TransportName,
    /// Its runs.
    pub runs: Vec<RunResult>,
    /// What made each of them.
    pub origins: Vec<RunIdentity>,
    /// What was to make them all.
    pub identity: RunIdentity,
}

impl TransportRuns {
    /// Runs that this version made with one configuration.
    pub fn here(name: TransportName, runs: Vec<RunResult>, configuration: &str) -> Self {
        let identity = RunIdentity::here(configuration);
        Self {
            name,
            origins: vec![identity.clone(); runs.len()],
            runs,
            identity,
        }
    }
}

/// All runs of an experiment.
#[derive(Clone, Debug)]
pub struct SweepResult {
    /// For each point of the experiment its transports in their order.
    pub points: Vec<Vec<TransportRuns>>,
    /// Real time it took, seconds.
    pub wall_s: f64,
    /// How many runs came from the store.
    pub resumed: usize,
    /// Each point's configuration hash.
    pub configurations: Vec<String>,
    /// [`Experiment::given_up`].
    pub given_up: f64,
}

/// One line of a store.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    experiment: String,
    version: String,
    configuration: String,
    set: Vec<(String, String)>,
    transport: String,
    seed: u64,
    part: u64,
    parts: u64,
    result: RunResult,
}

/// What makes a run the same as another.
type Key = (String, String, u64, u64, u64);

/// A run and what made it.
type Made = (RunIdentity, RunResult);

struct Job<'a> {
    point: usize,
    transport: &'a TransportName,
    seed: u64,
    part: u64,
    key: Key,
}

/// Runs every combination of point, transport, seed and part; transports that only the testbed runs
/// are left out.
///
/// # Errors
/// The first run that cannot be made, or trouble with the store.
pub fn execute(
    experiment: &Experiment,
    registry: &Registry,
    options: &Options,
) -> Result<SweepResult, SweepError> {
    let started = WallInstant::now();
    let jobs = jobs(experiment, registry, options)?;
    let known = match (&options.store, options.resume) {
        (Some(path), true) => read_store(path, &experiment.id)?,
        _ => HashMap::new(),
    };
    let mut slots: Vec<Option<Made>> = jobs.iter().map(|j| known.get(&j.key).cloned()).collect();
    let resumed = slots.iter().filter(|s| s.is_some()).count();
    let store = options
        .store
        .as_deref()
        .map(|p| open_store(p, options.resume))
        .transpose()?
        .map(Mutex::new);
    let books = Books {
        experiment,
        options,
        store,
    };
    for (job, slot) in jobs.iter().zip(&mut slots) {
        if slot.is_none() && options.pcap.is_none() {
            *slot = options.shared.get(job);
            slot.iter().try_for_each(|(_, r)| books.enter(job, r))?;
        }
    }
    let todo: Vec<usize> = (0..jobs.len()).filter(|i| slots[*i].is_none()).collect();
    let pool = Pool {
        experiment,
        registry,
        options,
        jobs: &jobs,
        todo: &todo,
        next: AtomicUsize::new(0),
        failed: AtomicBool::new(false),
        books,
        progress: Progress::new(options.progress, &experiment.id, todo.len()),
    };
    for (i, result) in pool.run()? {
        slots[i] = Some((RunIdentity::here(jobs[i].key.0.clone()), result));
    }
    pool.progress.finish();
    for (job, made) in jobs.iter().zip(&slots) {
        made.iter().for_each(|m| options.shared.keep(job, m));
    }
    let mut results = jobs.iter().zip(slots);
    let per_transport = (experiment.seeds * experiment.parts()) as usize;
    let points = experiment
        .points
        .iter()
        .map(|_| {
            let mut runs = |name: &TransportName| {
                let of_it: Vec<_> = results.by_ref().take(per_transport).collect();
                let key = of_it.first().map(|(job, _)| job.key.0.clone());
                let made = of_it.into_iter().filter_map(|(_, made)| made);
                let (origins, runs) = made.unzip();
                TransportRuns {
                    name: name.clone(),
                    runs,
                    origins,
                    identity: RunIdentity::here(key.unwrap_or_default()),
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
    Ok(SweepResult {
        points,
        wall_s: started.elapsed().as_secs_f64(),
        resumed,
        configurations,
        given_up: experiment.given_up,
    })
}

/// The experiment's transports but for those that only the testbed runs.
fn simulated(experiment: &Experiment) -> impl Iterator<Item = &TransportName> {
    experiment.transports.iter().filter(|t| !t.needs_testbed())
}

fn jobs<'a>(
    experiment: &'a Experiment,
    registry: &Registry,
    options: &Options,
) -> Result<Vec<Job<'a>>, SweepError> {
    let mut jobs = Vec::new();
    let parts = experiment.parts();
    for (index, point) in experiment.points.iter().enumerate() {
        for name in simulated(experiment) {
            let config = match point.is_computed() {
                true => String::new(),
                false => configuration(registry, name)?,
            };
            let payload = options.payload.as_deref().unwrap_or_default();
            let hash = hash64(&[&point.hash.to_le_bytes(), config.as_bytes(), payload]);
            for seed in experiment.seed..experiment.seed + experiment.seeds {
                for part in 0..parts {
                    let key = (format!("{hash:016x}"), name.to_string(), seed, part, parts);
                    jobs.push(Job {
                        point: index,
                        transport: name,
                        seed,
                        part,
                        key,
                    });
                }
            }
        }
    }
    Ok(jobs)
}

/// What a transport is made of. The whole configuration counts, so that a policy of one's own with other
/// parameters is not taken for the one before.
fn configuration(registry: &Registry, name: &TransportName) -> Result<String, RunError> {
    let transport = registry
        .find(&name.transport)
        .ok_or_else(|| RunError::Transport(registry.no_such_transport(&name.transport)))?;
    Ok(format!(
        "{:?} {:?}",
        transport.config(),
        transport.application
    ))
}

struct Pool<'a> {
    experiment: &'a Experiment,
    registry: &'a Registry,
    options: &'a Options,
    jobs: &'a [Job<'a>],
    todo: &'a [usize],
    next: AtomicUsize,
    failed: AtomicBool,
    books: Books<'a>,
    progress: Progress,
}

type Done = Result<Vec<(usize, RunResult)>, SweepError>;

impl Pool<'_> {
    fn run(&self) -> Done {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let threads = if self.options.jobs == 0 {
            cores
        } else {
            self.options.jobs
        };
        let threads = threads.clamp(1, self.todo.len().max(1));
        let done: Vec<Done> = std::thread::scope(|scope| {
            let handles: Vec<_> = (0..threads).map(|_| scope.spawn(|| self.work())).collect();
            handles
                .into_iter()
                .map(|h| match h.join() {
                    Ok(done) => done,
                    Err(panic) => std::panic::resume_unwind(panic),
                })
                .collect()
        });
        let mut all = Vec::new();
        for part in done {
            all.extend(part?);
        }
        Ok(all)
    }

    /// Takes one run after the other until there are none.
    fn work(&self) -> Done {
        let mut done = Vec::new();
        while !self.failed.load(Ordering::Relaxed) {
            let Some(&index) = self.todo.get(self.next.fetch_add(1, Ordering::Relaxed)) else {
                break;
            };
            match self.one(index) {
                Ok(result) => done.push((index, result)),
                Err(e) => {
                    self.failed.store(true, Ordering::Relaxed);
                    return Err(e);
                }
            }
            self.progress.step();
        }
        Ok(done)
    }

    fn one(&self, index: usize) -> Result<RunResult, SweepError> {
        let job = &self.jobs[index];
        let point = &self.experiment.points[job.point];
        if let Traffic::Formula(formula) = &point.scenario.traffic {
            let result = RunResult {
                computed: formula.evaluate(&job.transport.transport),
                ..RunResult::default()
            };
            self.books.enter(job, &result)?;
            return Ok(result);
        }
        let mut request = RunRequest::new(&point.scenario, job.transport, self.registry);
        request.seed = job.seed;
        (request.part, request.parts) = (job.part, self.experiment.parts());
        request.payload = self.options.payload.clone();
        request.pcap = self
            .options
            .pcap
            .as_ref()
            .map(|dir| dir.join(self.capture_name(job)));
        let result = driver::run(&request)?.result;
        self.books.enter(job, &result)?;
        Ok(result)
    }

    fn capture_name(&self, job: &Job<'_>) -> String {
        let set = &self.experiment.points[job.point].set;
        let mut parts = vec![job.key.1.clone()];
        parts.extend(set.iter().map(|(axis, value)| format!("{axis}={value}")));
        parts.push(format!("seed{}.{}", job.seed, job.part));
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        crate::pcap::file_name(&parts)
    }
}

/// The store that runs are entered into, if there is one.
struct Books<'a> {
    experiment: &'a Experiment,
    options: &'a Options,
    store: Option<Mutex<File>>,
}

impl Books<'_> {
    fn enter(&self, job: &Job<'_>, result: &RunResult) -> Result<(), SweepError> {
        let Some(store) = &self.store else {
            return Ok(());
        };
        let line = Line {
            experiment: self.experiment.id.clone(),
            version: VERSION.to_owned(),
            configuration: job.key.0.clone(),
            set: self.experiment.points[job.point].set.clone(),
            transport: job.key.1.clone(),
            seed: job.seed,
            part: job.part,
            parts: job.key.4,
            result: result.clone(),
        };
        let path = || self.options.store.clone().unwrap_or_default();
        append(store, &line).map_err(|source| SweepError::Store {
            path: path(),
            action: "write",
            source,
        })
    }
}

fn append(store: &Mutex<File>, line: &Line) -> std::io::Result<()> {
    let mut text = serde_json::to_string(line)?;
    text.push('\n');
    // A poisoned lock means another run panicked; its panic ends the sweep by itself.
    let mut file = store
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    file.write_all(text.as_bytes())?;
    file.flush()
}

fn open_store(path: &Path, resume: bool) -> Result<File, SweepError> {
    if let Some(dir) = path.parent() {
        // If this fails, opening the file says why.
        let _ = std::fs::create_dir_all(dir);
    }
    let wrong = |source| SweepError::Store {
        path: path.to_owned(),
        action: "write",
        source,
    };
    let mut file = OpenOptions::new()
        .create(true)
        .append(resume)
        .write(true)
        .truncate(!resume)
        .open(path)
        .map_err(wrong)?;
    if resume && !ends_with_newline(path) {
        file.write_all(b"\n").map_err(wrong)?;
    }
    Ok(file)
}

fn ends_with_newline(path: &Path) -> bool {
    std::fs::read(path).map_or(true, |bytes| bytes.last().is_none_or(|b| *b == b'\n'))
}

/// Reads the runs of an experiment; lines that were cut short or are of another experiment are passed
/// over.
fn read_store(path: &Path, experiment: &str) -> Result<HashMap<Key, Made>, SweepError> {
    let wrong = |source| SweepError::Store {
        path: path.to_owned(),
        action: "read",
        source,
    };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(HashMap::new()),
        Err(e) => return Err(wrong(e)),
    };
    let mut known = HashMap::new();
    for (index, line) in BufReader::new(file).lines().enumerate() {
        let line = line.map_err(wrong)?;
        let Ok(l) = serde_json::from_str::<Line>(&line) else {
            continue;
        };
        if l.experiment != experiment {
            continue;
        }
        if l.version != VERSION {
            return Err(SweepError::MixedVersions {
                path: path.to_owned(),
                line: index + 1,
                experiment: l.experiment,
                found: l.version,
            });
        }
        let origin = RunIdentity {
            version: l.version,
            configuration: l.configuration.clone(),
        };
        known.insert(
            (l.configuration, l.transport, l.seed, l.part, l.parts),
            (origin, l.result),
        );
    }
    Ok(known)
}

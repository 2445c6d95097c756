//! Finished runs as lines of JSON, and files of them.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use super::{Job, Made, RunKey, SweepError};
use crate::experiment::Experiment;
use crate::identity::{RunIdentity, VERSION};
use crate::metrics::RunResult;

/// A finished run with what made it: one line of a store.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// The experiment's id.
    pub experiment: String,
    /// The version of Spindle that made it.
    pub version: String,
    /// [`RunKey::configuration`].
    pub configuration: String,
    /// What the sweep set, axis and value.
    pub set: Vec<(String, String)>,
    /// The transport's name.
    pub transport: String,
    /// The seed.
    pub seed: u64,
    /// Which part of the seed's flows, from 0.
    pub part: u64,
    /// Of how many parts.
    pub parts: u64,
    /// What it measured.
    pub result: RunResult,
}

impl Record {
    /// The run of a job, made by this version.
    pub fn new(experiment: &Experiment, job: &Job, result: RunResult) -> Self {
        Self {
            experiment: experiment.id.clone(),
            version: VERSION.to_owned(),
            configuration: job.key.configuration.clone(),
            set: experiment.points[job.point].set.clone(),
            transport: job.key.transport.clone(),
            seed: job.key.seed,
            part: job.key.part,
            parts: job.key.parts,
            result,
        }
    }

    /// Reads a line.
    ///
    /// # Errors
    /// What is wrong with it, such as that it was cut short.
    pub fn parse(line: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(line)
    }

    /// The line, without a line break.
    ///
    /// # Errors
    /// None that are known: a record has no keys but text.
    pub fn to_line(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// What makes the run the same as another.
    pub fn key(&self) -> RunKey {
        RunKey {
            configuration: self.configuration.clone(),
            transport: self.transport.clone(),
            seed: self.seed,
            part: self.part,
            parts: self.parts,
        }
    }

    fn into_made(self) -> (RunKey, Made) {
        let origin = RunIdentity {
            version: self.version.clone(),
            configuration: self.configuration.clone(),
        };
        (self.key(), (origin, self.result))
    }
}

/// A file that finished runs are appended to.
pub(super) struct Store {
    path: PathBuf,
    file: Mutex<File>,
}

impl Store {
    /// Opens it to be gone on with, or emptied.
    pub(super) fn open(path: &Path, resume: bool) -> Result<Self, SweepError> {
        if let Some(dir) = path.parent() {
            // If this fails, opening the file says why.
            let _ = std::fs::create_dir_all(dir);
        }
        let wrong = |source| failed(path, "write", source);
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
        Ok(Self {
            path: path.to_owned(),
            file: Mutex::new(file),
        })
    }

    /// Appends a run.
    pub(super) fn append(&self, record: &Record) -> Result<(), SweepError> {
        let write = || {
            let mut text = record.to_line()?;
            text.push('\n');
            // A poisoned lock means another run panicked; its panic ends the sweep by itself.
            let mut file = self
                .file
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            file.write_all(text.as_bytes())?;
            file.flush()
        };
        write().map_err(|source| failed(&self.path, "write", source))
    }
}

fn failed(path: &Path, action: &'static str, source: std::io::Error) -> SweepError {
    SweepError::Store {
        path: path.to_owned(),
        action,
        source,
    }
}

fn ends_with_newline(path: &Path) -> bool {
    std::fs::read(path).map_or(true, |bytes| bytes.last().is_none_or(|b| *b == b'\n'))
}

/// Reads the runs of an experiment; lines that were cut short or are of another experiment are passed
/// over.
pub(super) fn read_store(
    path: &Path,
    experiment: &str,
) -> Result<HashMap<RunKey, Made>, SweepError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(HashMap::new()),
        Err(e) => return Err(failed(path, "read", e)),
    };
    let mut known = HashMap::new();
    for (index, line) in BufReader::new(file).lines().enumerate() {
        let line = line.map_err(|e| failed(path, "read", e))?;
        let Ok(record) = Record::parse(&line) else {
            continue;
        };
        if record.experiment != experiment {
            continue;
        }
        if record.version != VERSION {
            return Err(SweepError::MixedVersions {
                path: path.to_owned(),
                line: index + 1,
                experiment: record.experiment,
                found: record.version,
            });
        }
        let (key, made) = record.into_made();
        known.insert(key, made);
    }
    Ok(known)
}

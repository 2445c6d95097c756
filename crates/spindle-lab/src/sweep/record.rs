//! Finished runs as lines of JSON, and files of such lines.

use std::collections::HashMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use spindle_experiment::Experiment;
use spindle_experiment::identity::RunIdentity;
use spindle_experiment::metrics::RunResult;

use spindle_experiment::results::{Lines, RunKey};

use super::{Job, Made, SweepError};

/// A finished run with its identity: one line of a store.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// The experiment's id.
    pub experiment: String,
    /// The version of Spindle that made the run.
    pub version: String,
    /// [`RunKey::configuration`].
    pub configuration: String,
    /// The values that the sweep set, as axis and value.
    pub set: Vec<(String, String)>,
    /// The transport's name.
    pub transport: String,
    /// The seed.
    pub seed: u64,
    /// Which part of the seed's flows, from 0.
    pub part: u64,
    /// The number of parts.
    pub parts: u64,
    /// What the run measured.
    pub result: RunResult,
}

impl Record {
    /// The run of a job, made by this version.
    pub fn new(experiment: &Experiment, job: &Job, result: RunResult) -> Self {
        Self {
            experiment: experiment.id.clone(),
            version: job.version.to_owned(),
            configuration: job.key.configuration.clone(),
            set: experiment.points[job.point].set.clone(),
            transport: job.key.transport.clone(),
            seed: job.key.seed,
            part: job.key.part,
            parts: job.key.parts,
            result,
        }
    }

    /// Parses a line.
    ///
    /// # Errors
    /// The line is malformed, for example because it was cut short.
    pub fn parse(line: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(line)
    }

    /// The record as a line, without a line break.
    ///
    /// # Errors
    /// No error is known: all keys of a record are text.
    pub fn to_line(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// The key of the run.
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

/// Reads the runs of an experiment, all of which must have the version `version`. Lines that were cut short or
/// belong to another experiment are skipped.
pub(super) fn read_store(
    path: &Path,
    experiment: &str,
    version: &'static str,
) -> Result<HashMap<RunKey, Made>, SweepError> {
    let mut known = HashMap::new();
    for line in Lines::read(path)? {
        let (number, line) = line?;
        let Ok(record) = Record::parse(&line) else {
            continue;
        };
        if record.experiment != experiment {
            continue;
        }
        if record.version != version {
            return Err(SweepError::MixedVersions {
                path: path.to_owned(),
                line: number,
                experiment: record.experiment,
                found: record.version,
                here: version,
            });
        }
        let (key, made) = record.into_made();
        known.insert(key, made);
    }
    Ok(known)
}

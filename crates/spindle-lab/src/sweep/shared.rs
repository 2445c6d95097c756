//! Runs that several experiments have in common. Figures and tables of a paper often show different aspects of
//! the same set-up.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use spindle_experiment::Experiment;
use spindle_experiment::registry::Registry;

use spindle_experiment::results::RunKey;

use super::{Job, Made, Options, SweepError, jobs};

/// Runs that more than one experiment needs. They are kept once they are made. Clones share them.
///
/// Two runs are the same if version, scenario, transport, seed and part are equal. A run that only one
/// experiment needs is not kept.
#[derive(Clone, Debug, Default)]
pub struct Shared {
    wanted: Arc<HashSet<RunKey>>,
    made: Arc<Mutex<HashMap<RunKey, Made>>>,
}

impl Shared {
    /// The runs that `experiments` have in common when run with `options`.
    ///
    /// # Errors
    /// A transport that does not exist.
    pub fn of<'a>(
        experiments: impl IntoIterator<Item = &'a Experiment>,
        registry: &Registry,
        options: &Options,
    ) -> Result<Self, SweepError> {
        let (mut seen, mut wanted) = (HashSet::new(), HashSet::new());
        for experiment in experiments {
            let keys: HashSet<RunKey> = jobs(experiment, registry, options.payload.as_deref())?
                .into_iter()
                .map(|j| j.key)
                .collect();
            for key in keys {
                if seen.contains(&key) {
                    wanted.insert(key);
                } else {
                    seen.insert(key);
                }
            }
        }
        Ok(Self {
            wanted: Arc::new(wanted),
            made: Arc::default(),
        })
    }

    /// The number of runs that are made once and needed again.
    pub fn len(&self) -> usize {
        self.wanted.len()
    }

    /// Whether the experiments have no run in common.
    pub fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }

    pub(super) fn get(&self, job: &Job) -> Option<Made> {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.get(&job.key).cloned()
    }

    pub(super) fn keep(&self, job: &Job, made: &Made) {
        if self.wanted.contains(&job.key) {
            let mut all = self.made.lock().unwrap_or_else(PoisonError::into_inner);
            all.entry(job.key.clone()).or_insert_with(|| made.clone());
        }
    }
}

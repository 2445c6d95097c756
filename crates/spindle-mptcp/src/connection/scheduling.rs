//! Where data wait before a subflow sends them: data that are assigned, and data that must be sent again.

use super::assigned::Assigned;
use super::reinjection::Reinjections;
use super::undelivered::Undelivered;
use crate::config::Config;
use crate::scheduler::{Candidate, MinRtt, Scheduler, SchedulerFactory};

/// The scheduler, and the data that it has decided about or will decide about before new data.
#[derive(Debug)]
pub(super) struct Scheduling {
    pub(super) scheduler: Box<dyn Scheduler>,
    /// Scratch list of the scheduler's candidates.
    pub(super) candidates: Vec<Candidate>,
    /// Data handed to subflows that have no room for them yet.
    pub(super) assigned: Assigned,
    pub(super) reinjections: Reinjections,
    pub(super) undelivered: Undelivered,
}

impl Scheduling {
    /// The scheduler that `config` names, and no data.
    pub(super) fn new(config: &Config) -> Self {
        let multipath = config.multipath.as_ref();
        Self {
            scheduler: multipath.map_or_else(|| MinRtt.build(), |m| m.scheduler.build()),
            candidates: Vec::new(),
            assigned: Assigned::default(),
            reinjections: Reinjections::default(),
            undelivered: Undelivered::default(),
        }
    }
}

//! Schedulers: the choice of the subflow for new data.
//!
//! A [`SchedulerFactory`] is the configuration value, which makes the [`Scheduler`] of each connection.
//! [`built_in`] has those that come with Spindle. Each has a file that contains both. Other crates implement the
//! same two traits.

mod blest;
mod dems;
mod earliest;
mod ecf;
mod linger;
mod min_rtt;
mod redundant;
mod round_robin;
mod view;

/// The schedulers that come with Spindle. A new one needs a line here and its `mod` line above.
static BUILT_IN: LazyLock<Vec<Arc<dyn SchedulerFactory>>> = LazyLock::new(|| {
    vec![
        Arc::new(min_rtt::MinRtt),
        Arc::new(round_robin::RoundRobin),
        Arc::new(redundant::Redundant),
        Arc::new(linger::Linger),
        Arc::new(ecf::Ecf::default()),
        Arc::new(blest::Blest),
        Arc::new(earliest::Earliest::default()),
        Arc::new(dems::Dems::default()),
    ]
});

use std::fmt::Debug;
use std::sync::{Arc, LazyLock};

pub use blest::Blest;
pub use dems::Dems;
pub use earliest::Earliest;
pub use ecf::Ecf;
pub use linger::Linger;
pub use min_rtt::MinRtt;
pub use redundant::Redundant;
pub use round_robin::RoundRobin;
pub use view::{Candidate, SubflowView, View};

use spindle_units::Instant;

use crate::types::{DataOffset, SubflowId};

/// The schedulers that come with Spindle, always in the same order.
pub fn built_in() -> &'static [Arc<dyn SchedulerFactory>] {
    &BUILT_IN
}

/// Data for a subflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The subflow.
    pub subflow: SubflowId,
    /// The data.
    pub portion: Portion,
}

/// Which data an [`Assignment`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Portion {
    /// The next new data.
    Next,
    /// The last of the new data: a segment from the end of [`View::unsent`]. Data that are written later wait until all
    /// data before this segment were sent. As long as the connection might have to continue as plain TCP, which needs data
    /// in order (RFC 8684, section 3.7), these are the next data instead.
    Last,
    /// Data that were sent before, from this offset.
    Again(DataOffset),
}

impl Assignment {
    /// The next new data go to `subflow`.
    pub fn new_data(subflow: SubflowId) -> Self {
        Self {
            subflow,
            portion: Portion::Next,
        }
    }
}

/// The decision of a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// A subflow gets data now.
    Assign(Assignment),
    /// No subflow gets data now. The scheduler is asked again after the next event on the connection: an
    /// acknowledgement, a timer or a write. A scheduler must not wait for room on a subflow that has nothing in
    /// flight, because no acknowledgement would follow.
    Wait,
    /// Like [`Self::Wait`], but the scheduler is also asked again at this time. The time must be later than
    /// [`View::now`]. Otherwise it counts as [`Self::Wait`], and debug builds panic.
    WaitUntil(Instant),
}

impl Decision {
    /// The next new data go to `subflow`.
    pub fn new_data(subflow: SubflowId) -> Self {
        Self::Assign(Assignment::new_data(subflow))
    }
}

impl From<Option<Assignment>> for Decision {
    /// [`Decision::Wait`] if there is no assignment.
    fn from(assignment: Option<Assignment>) -> Self {
        assignment.map_or(Self::Wait, Self::Assign)
    }
}

/// Makes the scheduler of each connection. It is what a configuration contains, and holds the scheduler's
/// settings, if it has any.
///
/// The schedulers that come with Spindle and those of other crates implement it alike. The [`Debug`] text must
/// contain every setting, because results are identified by a hash of the configuration's text.
pub trait SchedulerFactory: Send + Sync + Debug {
    /// The scheduler's name after a plus sign on the command line and in experiment files. It consists of
    /// lower-case letters, digits and hyphens.
    fn name(&self) -> &str;

    /// What the scheduler does, in one line with its source.
    fn summary(&self) -> &str;

    /// Makes the scheduler of a connection.
    fn build(&self) -> Box<dyn Scheduler>;
}

/// A scheduler. It is asked for one segment at a time, or one [burst](Self::burst).
pub trait Scheduler: Send + Debug {
    /// Whether it assigns data that were sent before, and so must be asked even if there are no new data.
    fn repeats(&self) -> bool {
        false
    }

    /// Bytes that it assigns to a subflow at once, ahead of the subflow's window. `None` if it assigns a
    /// segment only when the segment may be sent. If it is `Some`, the candidates are all usable subflows, with
    /// or without room, and [`View::unsent`] is the number of bytes that would be assigned.
    fn burst(&self) -> Option<u64> {
        None
    }

    /// Whether the view must contain [`View::subflows`] and [`View::message_left`]. They take time to compute,
    /// so they are empty for other schedulers. The answer must be the same for the whole life of the
    /// scheduler.
    fn sees_all(&self) -> bool {
        false
    }

    /// The subflow to use next, or how long to wait.
    fn pick(&mut self, view: &View<'_>) -> Decision;

    /// A subflow has ended. Its identifier may be reused for another subflow.
    fn forget(&mut self, subflow: SubflowId) {
        let _ = subflow;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) use super::view::tests::{candidate, view};

    #[test]
    fn built_in_schedulers_have_distinct_names_and_a_summary() {
        let names: Vec<_> = built_in().iter().map(|s| s.name()).collect();
        assert_eq!(
            names,
            [
                "minrtt",
                "roundrobin",
                "redundant",
                "linger",
                "ecf",
                "blest",
                "earliest",
                "dems"
            ]
        );
        assert!(built_in().iter().all(|s| !s.summary().is_empty()));
    }
}

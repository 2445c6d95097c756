//! Schedulers: the choice of the subflow for new data.
//!
//! A [`SchedulerFactory`] is the configuration value, which makes the [`Scheduler`] of each connection.
//! [`built_in`] has those that come with Spindle. Each has a file that contains both. Other crates implement the
//! same two traits.

mod linger;
mod min_rtt;
mod redundant;
mod round_robin;

/// The schedulers that come with Spindle. A new one needs a line here and its `mod` line above.
static BUILT_IN: LazyLock<Vec<Arc<dyn SchedulerFactory>>> = LazyLock::new(|| {
    vec![
        Arc::new(min_rtt::MinRtt),
        Arc::new(round_robin::RoundRobin),
        Arc::new(redundant::Redundant),
        Arc::new(linger::Linger),
    ]
});

use std::fmt::Debug;
use std::sync::{Arc, LazyLock};

use spindle_units::Duration;

pub use linger::Linger;
pub use min_rtt::MinRtt;
pub use redundant::Redundant;
pub use round_robin::RoundRobin;

use crate::types::{DataOffset, SubflowId};

/// The schedulers that come with Spindle, always in the same order.
pub fn built_in() -> &'static [Arc<dyn SchedulerFactory>] {
    &BUILT_IN
}

/// A subflow that may get data. It is established, not dead, and has room for a segment. A backup is a
/// candidate only if there is no regular one.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// Its identifier.
    pub id: SubflowId,
    /// Smoothed round-trip time, if measured.
    pub srtt: Option<Duration>,
    /// Highest data offset it has carried, for schedulers that send data more than once.
    pub carried_to: DataOffset,
    /// Bytes that it was given and that are not acknowledged yet.
    pub queued: u64,
    /// Its congestion window in bytes.
    pub cwnd: u64,
    /// The rate at which pacing would send its segments, in bytes a second, if measured. Only set for
    /// schedulers that assign [bursts](Scheduler::burst).
    pub pacing_rate: Option<u64>,
}

/// The decision of a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The subflow.
    pub subflow: SubflowId,
    /// Send data again that were sent before, from this offset. `None` for the next new data.
    pub again_from: Option<DataOffset>,
}

impl Assignment {
    /// The next new data go to `subflow`.
    pub fn new_data(subflow: SubflowId) -> Self {
        Self {
            subflow,
            again_from: None,
        }
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
    /// or without room, and `unsent` is the number of bytes that would be assigned.
    fn burst(&self) -> Option<u64> {
        None
    }

    /// The subflow to use next of `candidates` (in the order in which they were added), or `None` to wait.
    /// `sent_to` is the data offset up to which data were sent for the first time. `acked_to` is the data
    /// offset up to which they are acknowledged. `unsent` is the number of bytes that the application has
    /// waiting.
    fn pick(
        &mut self,
        candidates: &[Candidate],
        acked_to: DataOffset,
        sent_to: DataOffset,
        unsent: u64,
    ) -> Option<Assignment>;

    /// A subflow has ended. Its identifier may be reused for another subflow.
    fn forget(&mut self, subflow: SubflowId) {
        let _ = subflow;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn candidate(id: SubflowId, rtt_us: Option<u64>, carried_to: u64) -> Candidate {
        Candidate {
            id,
            srtt: rtt_us.map(Duration::from_micros),
            carried_to: DataOffset(carried_to),
            queued: 0,
            cwnd: 14_480,
            pacing_rate: rtt_us.map(|us| 2 * 14_480_000_000 / (us * 1000)),
        }
    }

    #[test]
    fn built_in_schedulers_have_distinct_names_and_a_summary() {
        let names: Vec<_> = built_in().iter().map(|s| s.name()).collect();
        assert_eq!(names, ["minrtt", "roundrobin", "redundant", "linger"]);
        assert!(built_in().iter().all(|s| !s.summary().is_empty()));
    }
}

//! Subflows in turn.

use super::{Assignment, Candidate, Scheduler, SchedulerFactory};
use crate::types::{DataOffset, SubflowId};

/// Subflows with room in turn, a segment each: "roundrobin".
#[derive(Clone, Copy, Debug)]
pub struct RoundRobin;

impl SchedulerFactory for RoundRobin {
    fn name(&self) -> &str {
        "roundrobin"
    }

    fn summary(&self) -> &str {
        "subflows with room in turn, a segment each"
    }

    fn build(&self) -> Box<dyn Scheduler> {
        Box::new(RoundRobinScheduler { last: None })
    }
}

#[derive(Debug)]
struct RoundRobinScheduler {
    /// The subflow that it chose last.
    last: Option<SubflowId>,
}

impl Scheduler for RoundRobinScheduler {
    fn pick(
        &mut self,
        candidates: &[Candidate],
        _acked: DataOffset,
        _sent: DataOffset,
        unsent: u64,
    ) -> Option<Assignment> {
        if unsent == 0 {
            return None;
        }
        // The candidates are in the order in which they were added. With reused identifiers this is not the
        // order of identifiers.
        let later = candidates.iter().filter(|c| Some(c.id) > self.last);
        let next = later.min_by_key(|c| c.id);
        let chosen = next.or(candidates.iter().min_by_key(|c| c.id))?;
        self.last = Some(chosen.id);
        Some(Assignment::new_data(chosen.id))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::candidate;
    use super::*;

    #[test]
    fn round_robin_picks_subflows_in_turn() {
        let mut s = RoundRobin.build();
        let list = [
            candidate(SubflowId(0), None, 0),
            candidate(SubflowId(1), None, 0),
            candidate(SubflowId(2), None, 0),
        ];
        let picks: Vec<_> = (0..4)
            .filter_map(|_| s.pick(&list, DataOffset::START, DataOffset::START, 1))
            .map(|a| a.subflow.0)
            .collect();
        assert_eq!(picks, [0, 1, 2, 0]);
    }
}

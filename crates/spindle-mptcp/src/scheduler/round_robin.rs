//! Subflows in turn.

use super::{Decision, Scheduler, SchedulerFactory, View};
use crate::types::SubflowId;

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
    fn pick(&mut self, view: &View<'_>) -> Decision {
        if view.unsent == 0 {
            return Decision::Wait;
        }
        // The candidates are in the order in which they were added. With reused identifiers this is not the
        // order of identifiers.
        let later = view.candidates.iter().filter(|c| Some(c.id) > self.last);
        let next = later.min_by_key(|c| c.id);
        let Some(chosen) = next.or(view.candidates.iter().min_by_key(|c| c.id)) else {
            return Decision::Wait;
        };
        self.last = Some(chosen.id);
        Decision::new_data(chosen.id)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{candidate, view};
    use super::*;

    #[test]
    fn round_robin_picks_subflows_in_turn() {
        let mut s = RoundRobin.build();
        let list = [
            candidate(SubflowId(0), None, 0),
            candidate(SubflowId(1), None, 0),
            candidate(SubflowId(2), None, 0),
        ];
        let picks: Vec<_> = (0..4).map(|_| s.pick(&view(&list, 1))).collect();
        let expected = [0, 1, 2, 0].map(|id| Decision::new_data(SubflowId(id)));
        assert_eq!(picks, expected);
    }
}

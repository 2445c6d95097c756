//! A custom scheduler: the subflow with the most room.

use spindle_mptcp::DataOffset;
use spindle_mptcp::scheduler::{Assignment, Candidate, Scheduler, SchedulerFactory};

/// New data go to the subflow with the most unused bytes of its congestion window.
#[derive(Clone, Copy, Debug)]
pub struct MostRoom;

impl SchedulerFactory for MostRoom {
    fn name(&self) -> &str {
        "most-room"
    }

    fn summary(&self) -> &str {
        "the subflow with the most unused bytes of its congestion window"
    }

    fn build(&self) -> Box<dyn Scheduler> {
        Box::new(*self)
    }
}

impl Scheduler for MostRoom {
    fn pick(
        &mut self,
        candidates: &[Candidate],
        _acked_to: DataOffset,
        _sent_to: DataOffset,
        unsent: u64,
    ) -> Option<Assignment> {
        if unsent == 0 {
            return None;
        }
        let room = |c: &&Candidate| c.cwnd.saturating_sub(c.queued);
        let best = candidates.iter().max_by_key(room)?;
        Some(Assignment::new_data(best.id))
    }
}

#[cfg(test)]
mod tests {
    use spindle_mptcp::SubflowId;

    use super::*;

    #[test]
    fn data_go_to_the_subflow_with_the_most_room() {
        let candidate = |id, cwnd, queued| Candidate {
            id: SubflowId(id),
            srtt: None,
            carried_to: DataOffset::START,
            queued,
            cwnd,
            pacing_rate: None,
        };
        let list = [candidate(0, 20_000, 15_000), candidate(1, 14_000, 0)];
        let mut scheduler = MostRoom.build();
        assert_eq!(
            scheduler.pick(&list, DataOffset::START, DataOffset::START, 1),
            Some(Assignment::new_data(SubflowId(1)))
        );
        assert_eq!(
            scheduler.pick(&list, DataOffset::START, DataOffset::START, 0),
            None
        );
    }
}

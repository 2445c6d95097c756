//! A custom scheduler: the subflow with the most room.

use spindle_mptcp::scheduler::{Candidate, Decision, Scheduler, SchedulerFactory, View};

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
    fn pick(&mut self, view: &View<'_>) -> Decision {
        let room = |c: &&Candidate| c.cwnd.saturating_sub(c.queued);
        match view.candidates.iter().max_by_key(room) {
            Some(best) if view.unsent > 0 => Decision::new_data(best.id),
            _ => Decision::Wait,
        }
    }
}

#[cfg(test)]
mod tests {
    use spindle_mptcp::{DataOffset, SubflowId};
    use spindle_units::Instant;

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
        let with_unsent = |unsent| View {
            now: Instant::ZERO,
            candidates: &list,
            subflows: &[],
            acked_to: DataOffset::START,
            sent_to: DataOffset::START,
            unsent,
            window_end: DataOffset(1 << 20),
            message_left: None,
            reinjected: 0,
        };
        let mut scheduler = MostRoom.build();
        assert_eq!(
            scheduler.pick(&with_unsent(1)),
            Decision::new_data(SubflowId(1))
        );
        assert_eq!(scheduler.pick(&with_unsent(0)), Decision::Wait);
    }
}

//! Proactive: every data segment is sent twice on the same path (mechanisms A5.5).

use std::collections::VecDeque;

use super::{Action, Capabilities, Prospect, Recovery, RecoveryFactory, SentView, View, Window};
use crate::types::{SubflowId, SubflowPosition};

/// The policy. The copy follows at once, outside the congestion window, and the receiver drops it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Proactive {
    /// Retransmissions are sent twice, too.
    pub repeats_retransmissions: bool,
    /// The copy of a new segment is ECT if the segment is. Otherwise it is a retransmission, which is not ECT
    /// (RFC 3168, section 6.1.5).
    pub ect_copies: bool,
}

/// A segment that was sent once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Due {
    of: SubflowId,
    position: SubflowPosition,
    /// It was new data.
    new: bool,
}

#[derive(Debug)]
struct ProactivePolicy {
    settings: Proactive,
    due: VecDeque<Due>,
    /// The segment whose copy was requested last.
    requested: Option<(SubflowId, SubflowPosition)>,
}

impl RecoveryFactory for Proactive {
    fn build(&self, _seed: u64) -> Box<dyn Recovery> {
        Box::new(ProactivePolicy {
            settings: *self,
            due: VecDeque::new(),
            requested: None,
        })
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }
}

impl Recovery for ProactivePolicy {
    fn on_sent(&mut self, sent: &SentView) {
        let (of, position, new) = (sent.subflow, sent.segment.position, sent.new);
        let is_copy = !new && self.requested == Some((of, position));
        if is_copy {
            self.requested = None;
        } else if new || self.settings.repeats_retransmissions {
            self.due.push_back(Due { of, position, new });
        }
    }

    fn is_interested(&self, _prospect: &Prospect) -> bool {
        !self.due.is_empty()
    }

    fn on_opportunity(&mut self, _view: &View<'_>) -> Action {
        let next = self.due.pop_front();
        self.requested = next.map(|d| (d.of, d.position));
        next.map_or(Action::Nothing, |due| Action::Repeat {
            of: due.of,
            position: due.position,
            window: Window::Outside,
            ect: due.new && self.settings.ect_copies,
        })
    }

    fn is_immediate(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use spindle_units::Instant;

    use super::super::tests::view;
    use super::super::{SegmentView, Trigger};
    use super::*;
    use crate::types::DataOffset;

    /// The copies that are sent of one segment that is sent as new data and retransmitted once. Each copy is
    /// reported to the policy as the core does. Each item is whether the copy is ECT.
    fn copies(settings: Proactive) -> Vec<bool> {
        let mut policy = settings.build(1);
        let sent = |new| SentView {
            now: Instant::ZERO,
            subflow: SubflowId::FIRST,
            segment: SegmentView {
                position: SubflowPosition::FIRST_BYTE,
                len: 1000,
                offset: DataOffset::START,
                sent_at: Instant::ZERO,
                retransmitted: false,
            },
            new,
        };
        let mut copies = Vec::new();
        for new in [true, false] {
            policy.on_sent(&sent(new));
            while let Action::Repeat { ect, .. } =
                policy.on_opportunity(&view(&[], false, Trigger::Ack))
            {
                policy.on_sent(&sent(false));
                copies.push(ect);
                assert!(copies.len() < 5, "a copy is copied");
            }
        }
        copies
    }

    #[test]
    fn new_segment_is_sent_twice_and_its_copy_is_not_ect() {
        assert_eq!(copies(Proactive::default()), [false]);
    }

    #[test]
    fn retransmission_is_sent_twice_and_only_the_copy_of_new_data_is_ect_if_configured() {
        let settings = Proactive {
            repeats_retransmissions: true,
            ect_copies: true,
        };
        assert_eq!(copies(settings), [true, false]);
    }
}

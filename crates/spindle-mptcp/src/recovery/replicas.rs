//! Replicas of retransmissions: what policies that repeat retransmitted segments have in common.

use std::collections::VecDeque;

use super::{Action, SentView, SubflowView, View, Window};
use crate::types::{SubflowId, SubflowPosition};

/// Most retransmissions that wait for replicas. Older ones are dropped. More are waiting only if the application
/// has sent new data without a pause for a long time (our choice: the segments of a large window).
const MOST_WAITING: usize = 1024;

/// A retransmitted segment that may be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Waiting {
    of: SubflowId,
    position: SubflowPosition,
    len: u32,
    /// Replicas that are still to be sent. `None` until the policy has computed their number.
    left: Option<u32>,
}

impl Waiting {
    fn is(&self, of: SubflowId, position: SubflowPosition) -> bool {
        (self.of, self.position) == (of, position)
    }
}

/// The retransmissions of a connection that wait for replicas.
#[derive(Debug, Default)]
pub(super) struct Replicas {
    waiting: VecDeque<Waiting>,
    /// The segment whose replica was requested last.
    requested: Option<(SubflowId, SubflowPosition)>,
}

impl Replicas {
    /// Takes note of a segment that was sent. One that is neither new nor a replica is a retransmission. If an
    /// earlier retransmission of it waits, its replicas are counted again from the beginning.
    pub(super) fn on_sent(&mut self, sent: &SentView) {
        let (of, position) = (sent.subflow, sent.segment.position);
        if sent.new {
            return;
        }
        if self.requested == Some((of, position)) {
            self.requested = None;
            return;
        }
        self.waiting.retain(|w| !w.is(of, position));
        if self.waiting.len() == MOST_WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back(Waiting {
            of,
            position,
            len: sent.segment.len,
            left: None,
        });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Another subflow may have the identifier later.
    pub(super) fn forget(&mut self, subflow: SubflowId) {
        self.waiting.retain(|w| w.of != subflow);
    }

    /// The next replica, inside the window and the budget. `count` computes how many replicas a retransmission
    /// on a subflow has. It is called once for each retransmission. A replica without room waits until there
    /// is room or the segment is acknowledged.
    pub(super) fn next(
        &mut self,
        view: &View<'_>,
        mut count: impl FnMut(&SubflowView, u32) -> u32,
    ) -> Action {
        let mut at = 0;
        while let Some(w) = self.waiting.get_mut(at) {
            let subflow = view.subflows.iter().find(|s| s.id == w.of);
            let Some(subflow) = subflow.filter(|s| w.position >= s.acked_to) else {
                self.waiting.remove(at);
                continue;
            };
            let left = *w.left.get_or_insert_with(|| count(subflow, w.len));
            let len = u64::from(w.len);
            if left == 0 {
                self.waiting.remove(at);
            } else if !has_room_again(subflow, len) || view.budget_left.is_some_and(|b| b < len) {
                at += 1;
            } else {
                w.left = Some(left - 1);
                let (of, position) = (w.of, w.position);
                self.requested = Some((of, position));
                return Action::Repeat {
                    of,
                    position,
                    window: Window::Inside,
                    ect: false,
                };
            }
        }
        Action::Nothing
    }
}

/// Whether a segment of `len` bytes may be repeated now. It takes no new sequence space, so the peer's window
/// does not matter.
fn has_room_again(subflow: &SubflowView, len: u64) -> bool {
    subflow.usable && !subflow.paced && subflow.in_flight + len <= subflow.cwnd
}

//! A recovery policy: copy what is late.

use spindle_mptcp::recovery::{Action, Recovery, RecoveryFactory, SubflowView, View, Window};
use spindle_units::Instant;

/// Copies a segment over the fastest other subflow once it has gone unacknowledged for 5/4 of its
/// own subflow's round-trip time. It keeps inside the congestion window, so it adds no aggression.
#[derive(Clone, Copy, Debug, Default)]
pub struct Late {
    /// When the next segment will be late.
    wake: Option<Instant>,
}

impl RecoveryFactory for Late {
    fn build(&self, _seed: u64) -> Box<dyn Recovery> {
        Box::new(Self::default())
    }
}

impl Recovery for Late {
    fn on_opportunity(&mut self, view: &View<'_>) -> Action {
        self.wake = None;
        // New data first: what an application waits for may be among them.
        if view.new_data {
            return Action::Nothing;
        }
        for from in view.subflows {
            let (Some(segment), Some(rtt)) = (from.oldest_unprotected, from.srtt) else {
                continue;
            };
            let due = segment.sent_at + rtt * 5 / 4;
            if due > view.now {
                self.wake = Some(self.wake.map_or(due, |wake| wake.min(due)));
            } else if let Some(on) = fastest_other(view, from, segment.len) {
                return Action::Copy {
                    of: from.id,
                    position: segment.position,
                    on: on.id,
                    window: Window::Inside,
                };
            }
        }
        Action::Nothing
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.wake
    }
}

fn fastest_other<'a>(view: &'a View<'_>, from: &SubflowView, len: u32) -> Option<&'a SubflowView> {
    let others = view.subflows.iter().filter(|s| s.id != from.id);
    others
        .filter(|s| s.has_room(u64::from(len)))
        .min_by_key(|s| s.srtt)
}

//! A recovery policy that copies late segments.

use spindle_mptcp::recovery::{
    Action, Capabilities, Recovery, RecoveryFactory, SubflowView, View, Window,
};
use spindle_units::Instant;

/// Copies a segment on the fastest other subflow once it has been unacknowledged for 5/4 of its own subflow's
/// round-trip time. Copies stay within the congestion window, so they add no aggression.
#[derive(Clone, Copy, Debug, Default)]
pub struct Late {
    /// Time at which the next segment will be late.
    wake: Option<Instant>,
}

impl RecoveryFactory for Late {
    fn build(&self, _seed: u64) -> Box<dyn Recovery> {
        Box::new(Self::default())
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }
}

impl Recovery for Late {
    fn on_opportunity(&mut self, view: &View<'_>) -> Action {
        self.wake = None;
        // New data are sent first, since an application may wait for them.
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

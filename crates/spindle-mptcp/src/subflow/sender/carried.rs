//! What subflows learn about a path's window, for the stack's memory of paths (RFC 9040, section 6).

use spindle_units::Instant;

use super::{Phase, Sender};

/// A congestion window that a path has carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CarriedWindow {
    /// The window in bytes.
    pub bytes: u64,
    /// When a subflow last filled it, on the stack's clock.
    pub at: Instant,
    /// The subflow met congestion, so that the path does not carry much more.
    pub congested: bool,
}

/// What former subflows learnt about the path of a subflow.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Former {
    /// The share of its segments that are expected to be lost.
    pub(crate) loss: f64,
    /// The window with which it began, if it is larger than the initial one.
    pub(crate) window: Option<CarriedWindow>,
}

impl Sender {
    /// What the path has carried at this time: the window, or half of it in slow start, whose last flight may be more than
    /// the path carries. During recovery the window is ssthresh, and cwnd follows what is in flight. A window that a former
    /// subflow filled counts as long as this one has not met congestion, with the time of the former subflow if this one has
    /// not filled it.
    pub(crate) fn carried_window(&self, now: Instant) -> CarriedWindow {
        let (cwnd, ssthresh) = (self.cc.cwnd(), self.cc.ssthresh());
        let congested = self.cc.has_met_congestion();
        let settled = (ssthresh < u64::MAX).then_some(ssthresh);
        let window = match self.phase {
            Phase::Open if congested => cwnd,
            Phase::Open => cwnd.max(settled.unwrap_or(0)),
            _ => settled.unwrap_or(cwnd),
        };
        let carried = |bytes| CarriedWindow {
            bytes,
            at: now,
            congested,
        };
        match self.former.window.filter(|_| !congested) {
            Some(before) if window <= before.bytes => before,
            Some(before) => carried(before.bytes.max(window / 2)),
            None if !congested || window < ssthresh => carried(window / 2),
            None => carried(window),
        }
    }
}

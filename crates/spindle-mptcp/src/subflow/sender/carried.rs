//! What subflows learn about a path's window, for the stack's memory of paths (RFC 9040, section 6).

use spindle_units::Instant;

use super::Sender;

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
    /// What the path has carried at this time: cwnd, or half of it in slow start, whose last flight may be more than the
    /// path carries. A window that a former subflow filled counts as long as this one has not reduced it, with the time
    /// of the former subflow if this one has not filled it.
    pub(crate) fn carried_window(&self, now: Instant) -> CarriedWindow {
        let (cwnd, ssthresh) = (self.cc.cwnd(), self.cc.ssthresh());
        let before = self.former.window.filter(|_| ssthresh == u64::MAX);
        let carried = |bytes| CarriedWindow {
            bytes,
            at: now,
            congested: ssthresh < u64::MAX,
        };
        match before {
            Some(before) if cwnd <= before.bytes => before,
            Some(before) => carried(before.bytes.max(cwnd / 2)),
            None if cwnd < ssthresh => carried(cwnd / 2),
            None => carried(cwnd),
        }
    }
}

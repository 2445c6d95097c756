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
    /// What the path has carried at this time, when all data are acknowledged: cwnd, which a longer connection would send
    /// next. After a timeout, cwnd shows nothing, and ssthresh is what the controller takes for the path's share (RFC 5681,
    /// section 3.1). A window that a former subflow filled counts as long as this one has not reduced it, with the time of the
    /// former subflow if this one has not filled it.
    pub(crate) fn carried_window(&self, now: Instant) -> CarriedWindow {
        let (cwnd, ssthresh) = (self.cc.cwnd(), self.cc.ssthresh());
        let initial = self.config.tcp.slow_start.initial_ssthresh;
        let congested = ssthresh < initial.unwrap_or(u64::MAX);
        let current = CarriedWindow {
            bytes: if congested { cwnd.max(ssthresh) } else { cwnd },
            at: now,
            congested,
        };
        let keeps = |former: &CarriedWindow| !congested && cwnd <= former.bytes;
        self.former.window.filter(keeps).unwrap_or(current)
    }
}

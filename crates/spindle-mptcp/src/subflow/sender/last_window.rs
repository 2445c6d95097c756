//! What subflows learn about a path's window, for the stack's memory of paths (RFC 9040, section 6).

use spindle_units::Instant;

use super::Sender;

/// The congestion window with which a subflow ended, when all its data were acknowledged. In slow start the path may have
/// carried less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastWindow {
    /// The window in bytes.
    pub bytes: u64,
    /// When a subflow last reached it, on the stack's clock.
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
    pub(crate) window: Option<LastWindow>,
}

impl Sender {
    /// What the next subflow on the path may start with, when all data are acknowledged: cwnd, which a longer connection would
    /// send next. After a timeout, cwnd shows nothing, and ssthresh is what the controller takes for the path's share (RFC 5681,
    /// section 3.1). The window of a former subflow counts as long as this one has not reduced it, with the time of the
    /// former subflow if this one has not exceeded it.
    pub(crate) fn last_window(&self, now: Instant) -> LastWindow {
        let (cwnd, ssthresh) = (self.cc.cwnd(), self.cc.ssthresh());
        let initial = self.config.tcp.slow_start.initial_ssthresh;
        let congested = ssthresh < initial.unwrap_or(u64::MAX);
        let current = LastWindow {
            bytes: if congested { cwnd.max(ssthresh) } else { cwnd },
            at: now,
            congested,
        };
        let keeps = |former: &LastWindow| !congested && cwnd <= former.bytes;
        self.former.window.filter(keeps).unwrap_or(current)
    }
}

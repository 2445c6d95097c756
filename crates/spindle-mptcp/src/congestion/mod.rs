//! Congestion control, with one trait for all controllers.
//!
//! A controller owns cwnd and ssthresh of one subflow, in bytes, and is notified of events. It does not access
//! segments, timers or the network. State that the subflows of one connection share is in [`Coupling`].
//!
//! [`CongestionKind`] is the configuration value. [`build`] creates a controller from it.

mod balia;
mod coupled;
mod coupling;
mod cubic;
mod dctcp;
mod fully_coupled;
mod hystart;
mod kind;
mod lia;
mod olia;
mod reno;
mod window;

#[cfg(test)]
mod tests;

use spindle_units::{Duration, Instant};

pub use coupling::{Coupling, CouplingRow};
pub use kind::{CongestionKind, Parameters, UnknownCongestion, build};

/// The information that one acknowledgement gave the sender.
#[derive(Clone, Copy, Debug)]
pub struct AckSample {
    /// When the acknowledgement arrived.
    pub now: Instant,
    /// Bytes it newly acknowledged, cumulatively.
    pub acked: u64,
    /// Of these, bytes reported as received with a congestion mark. For DCTCP, all bytes of an acknowledgement
    /// with ECE (RFC 8257, section 3.3). Otherwise zero.
    pub marked: u64,
    /// Bytes in flight before the acknowledgement was processed.
    pub prior_in_flight: u64,
    /// The round-trip time that it measured, if any.
    pub rtt: Option<Duration>,
    /// Smoothed round-trip time, if known.
    pub srtt: Option<Duration>,
    /// The acknowledgement number, as bytes since the start of the subflow. It ends HyStart++ rounds and DCTCP
    /// observation windows.
    pub acked_to: u64,
    /// The next byte to be sent, on the same scale.
    pub next: u64,
    /// Whether cwnd limited the sender, and not the application or the peer's window. If not, the window does
    /// not grow (RFC 9293 leaves this case to RFC 7661 and RFC 9438 section 5.8).
    pub cwnd_limited: bool,
    /// Whether the subflow is in fast recovery or has unrepaired losses after a timeout.
    pub recovering: bool,
}

/// Why a window must be reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Loss found by duplicate acknowledgements, SACK or RACK.
    Loss,
    /// ECN echo (RFC 3168, section 6.1.2).
    Ecn,
}

/// One subflow's congestion controller.
///
/// cwnd stays between one segment and the configured cap, whatever the order of the calls.
pub trait Congestion: Send + std::fmt::Debug {
    /// Congestion window in bytes.
    fn cwnd(&self) -> u64;

    /// Slow-start threshold in bytes; `u64::MAX` while unlimited.
    fn ssthresh(&self) -> u64;

    /// Processes an acknowledgement of new data. This is also called during recovery (`sample.recovering`). In
    /// that case the controller may grow the window only after a timeout, when slow start and congestion
    /// avoidance apply as usual. During fast recovery the loss state machine sets the window (see
    /// [`Self::set_cwnd`]).
    ///
    /// Also writes the subflow's row of `coupling`. Changes made by calls without a `coupling` argument reach
    /// the row here.
    fn on_ack(&mut self, sample: &AckSample, coupling: &mut Coupling);

    /// Processes a congestion signal, at most once per window of data. Sets ssthresh, and lowers cwnd to it if
    /// cwnd is larger.
    ///
    /// `in_flight` is the number of bytes in flight when the signal arrived. For an ECN echo this is called
    /// after [`Self::on_ack`] of the same acknowledgement, so that DCTCP has already counted its marks.
    fn on_signal(&mut self, now: Instant, in_flight: u64, signal: Signal, coupling: &mut Coupling);

    /// The retransmission timer expired. Sets ssthresh from `in_flight` if this is the first expiry for that
    /// data (`first`), and cwnd to one segment (RFC 5681, section 3.1).
    fn on_timeout(&mut self, now: Instant, in_flight: u64, first: bool, coupling: &mut Coupling);

    /// The loss state machine sets the window: PRR, NewReno deflation. Never changes ssthresh.
    fn set_cwnd(&mut self, cwnd: u64);

    /// The subflow was idle for a retransmission timeout. Sets cwnd = min(cwnd, `restart_window`) (RFC 5681,
    /// section 4.1). Never raises cwnd.
    fn on_idle(&mut self, restart_window: u64);

    /// The path answers again after an outage. Knowledge about it is stale, so ssthresh is unlimited as for a
    /// new path (RFC 5681, section 3.1). cwnd stays as the timeout set it.
    fn on_return(&mut self);

    /// The last reduction was spurious (D-SACK, F-RTO). Restores cwnd and ssthresh to their values before it,
    /// but never below their current values. Does nothing without a reduction to undo.
    fn undo(&mut self, now: Instant);

    /// The segment size changed (path MTU, options).
    fn set_mss(&mut self, mss: u64);
}

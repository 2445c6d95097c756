//! Congestion control behind one trait.
//!
//! A controller owns cwnd and ssthresh of one subflow, in bytes, and learns what happened; it does
//! not look at segments, timers or the network. What the subflows of one connection must know of
//! each other stands in [`Coupling`].
//!
//! [`CongestionKind`] is the configuration value, [`build`] makes a controller from it.

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

/// What one acknowledgement told the sender.
#[derive(Clone, Copy, Debug)]
pub struct AckSample {
    /// When the acknowledgement arrived.
    pub now: Instant,
    /// Bytes it newly acknowledged, cumulatively.
    pub acked: u64,
    /// Of these, bytes reported as received with a congestion mark: for DCTCP all bytes of an
    /// acknowledgement with ECE (RFC 8257, section 3.3); else zero.
    pub marked: u64,
    /// Bytes in flight before the acknowledgement was processed.
    pub prior_in_flight: u64,
    /// The round-trip time it measured, if it measured one.
    pub rtt: Option<Duration>,
    /// Smoothed round-trip time, if known.
    pub srtt: Option<Duration>,
    /// The acknowledgement number, as bytes since the start of the subflow; ends HyStart++ rounds
    /// and DCTCP observation windows.
    pub acked_to: u64,
    /// The next byte to be sent, on the same scale.
    pub next: u64,
    /// Whether the sender was limited by cwnd, not by the application or the peer's window
    /// (RFC 9293 leaves growth then to RFC 7661 and RFC 9438 section 5.8: no growth if not).
    pub cwnd_limited: bool,
    /// Whether the subflow is in fast recovery or has unrepaired losses after a timeout.
    pub recovering: bool,
}

/// Why a window is to be reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Loss found by duplicate acknowledgements, SACK or RACK.
    Loss,
    /// ECN echo (RFC 3168, section 6.1.2).
    Ecn,
}

/// One subflow's congestion controller.
///
/// Whatever is called in whatever order, cwnd stays between one segment and the configured cap.
pub trait Congestion: Send + std::fmt::Debug {
    /// Congestion window in bytes.
    fn cwnd(&self) -> u64;

    /// Slow-start threshold in bytes; `u64::MAX` while unlimited.
    fn ssthresh(&self) -> u64;

    /// An acknowledgement of new data. Called also during recovery (`sample.recovering`): growth is
    /// then up to the controller only after a timeout, when the loss state is slow start and
    /// congestion avoidance as ever; during fast recovery the window is set by the loss state
    /// machine (see [`Self::set_cwnd`]).
    ///
    /// Also writes the subflow's row of `coupling`; changes made by the calls that have no
    /// `coupling` reach the row here.
    fn on_ack(&mut self, sample: &AckSample, coupling: &mut Coupling);

    /// A congestion signal, at most once per window of data: sets ssthresh, and cwnd to it unless
    /// cwnd is smaller already.
    /// `in_flight` is what was in flight when the signal came. For an ECN echo it comes after
    /// [`Self::on_ack`] of the same acknowledgement, so that DCTCP has counted its marks.
    fn on_signal(&mut self, now: Instant, in_flight: u64, signal: Signal, coupling: &mut Coupling);

    /// The retransmission timer expired: ssthresh from `in_flight` if this is the first expiry for
    /// that data (`first`), cwnd = one segment (RFC 5681, section 3.1).
    fn on_timeout(&mut self, now: Instant, in_flight: u64, first: bool, coupling: &mut Coupling);

    /// The loss state machine sets the window: PRR, NewReno deflation. Never changes ssthresh.
    fn set_cwnd(&mut self, cwnd: u64);

    /// The subflow was idle for a retransmission timeout: cwnd = min(cwnd, `restart_window`)
    /// (RFC 5681, section 4.1). Never raises it.
    fn on_idle(&mut self, restart_window: u64);

    /// The path answers again after an outage: what was known of it is stale, so ssthresh is
    /// unlimited as for a new path (RFC 5681, section 3.1). cwnd stays at what the timeout left.
    fn on_return(&mut self);

    /// The last reduction proved spurious (D-SACK, F-RTO): put cwnd and ssthresh back to what they
    /// were before it, never below what they are now. Without a reduction to undo, nothing.
    fn undo(&mut self, now: Instant);

    /// The segment size changed (path MTU, options).
    fn set_mss(&mut self, mss: u64);
}

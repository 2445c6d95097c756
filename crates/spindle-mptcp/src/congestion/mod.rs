//! Congestion control, with one trait for all controllers.
//!
//! A controller owns cwnd and ssthresh of one subflow, in bytes, and is notified of events. It does not access
//! segments, timers or the network. State that the subflows of one connection share is in [`Coupling`].
//!
//! A [`ControllerFactory`] is the configuration value, which makes the controller of each subflow. [`built_in`]
//! has those that come with Spindle. Each has a file that contains its factory and its controller. Other crates
//! implement the same two traits.

mod balia;
mod classic_hystart;
mod coupled;
mod coupling;
mod cubic;
mod dctcp;
mod delay_bounded;
mod factory;
mod fully_coupled;
mod hystart;
mod lia;
mod network_rate;
mod olia;
mod path_measurements;
mod recent;
mod recent_delay;
mod reno;
mod slow_start_exit;
mod window;

/// The controllers that come with Spindle. A new one needs a line here and its `mod` line above.
static BUILT_IN: LazyLock<Vec<Arc<dyn ControllerFactory>>> = LazyLock::new(|| {
    vec![
        Arc::new(reno::Reno),
        Arc::new(cubic::Cubic),
        Arc::new(dctcp::Dctcp),
        Arc::new(lia::Lia),
        Arc::new(olia::Olia),
        Arc::new(balia::Balia),
        Arc::new(fully_coupled::FullyCoupled),
        Arc::new(delay_bounded::DelayBounded::default()),
    ]
});

#[cfg(test)]
mod tests;

use std::sync::{Arc, LazyLock};

use spindle_units::{Duration, Instant};

pub use balia::Balia;
pub use coupling::{Coupling, CouplingRow};
pub use cubic::Cubic;
pub use dctcp::Dctcp;
pub use delay_bounded::DelayBounded;
pub use factory::{ControllerFactory, Parameters};
pub use fully_coupled::FullyCoupled;
pub use lia::Lia;
pub use network_rate::NetworkRate;
pub use olia::Olia;
pub use path_measurements::{MeasuredRate, NetworkMeasurements, PathMeasurements};
pub use reno::Reno;
pub use slow_start_exit::SlowStartExit;
pub use window::{MIN_SSTHRESH_SEGMENTS, Window};

use crate::types::SubflowPosition;

/// The controllers that come with Spindle, always in the same order.
pub fn built_in() -> &'static [Arc<dyn ControllerFactory>] {
    &BUILT_IN
}

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
    /// Bytes in flight before this acknowledgement. Of acknowledgements that arrived together, between which the sender could
    /// not transmit, the most bytes before any of them so far.
    pub prior_in_flight: u64,
    /// The round-trip time that it measured, if any.
    pub rtt: Option<Duration>,
    /// Smoothed round-trip time, if known.
    pub srtt: Option<Duration>,
    /// Position of the acknowledgement number. It ends HyStart++ rounds and DCTCP observation windows.
    pub acked_to: SubflowPosition,
    /// Position of the next byte to be sent.
    pub next: SubflowPosition,
    /// Whether cwnd limited the sender, and not the application or the peer's window. If not, the window does
    /// not grow (RFC 9293 leaves this case to RFC 7661 and RFC 9438 section 5.8).
    pub cwnd_limited: bool,
    /// Whether the subflow is in fast recovery or has unrepaired losses after a timeout.
    pub recovering: bool,
    /// Segments that loss detection found lost so far, each retransmission that was lost again included.
    pub losses: u64,
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
/// cwnd stays between one segment and the configured cap, whatever the order of the calls. [`Window`] keeps it
/// there.
pub trait Congestion: Send + std::fmt::Debug {
    /// The window that the controller sets.
    fn window(&self) -> &Window;

    /// Like [`Self::window`], to change it. The default methods below change it.
    fn window_mut(&mut self) -> &mut Window;

    /// Processes an acknowledgement of new data. This is also called during recovery (`sample.recovering`). In
    /// that case the controller may grow the window only after a timeout, when slow start and congestion
    /// avoidance apply as usual ([`Window::may_grow`]). During fast recovery the loss state machine sets the
    /// window (see [`Self::set_cwnd`]).
    ///
    /// Also writes the subflow's row of `coupling`. Changes made by calls without a `coupling` argument reach
    /// the row here.
    fn on_ack(&mut self, sample: &AckSample, coupling: &mut Coupling);

    /// An acknowledgement without progress reports segments beyond a hole (SACK). The one of these that was sent last, and
    /// only once, took `rtt`. During recovery there may be no other round-trip times for a long time. Does nothing by
    /// default.
    fn on_selective_ack(&mut self, now: Instant, rtt: Duration) {
        let _ = (now, rtt);
    }

    /// Processes a congestion signal, at most once per window of data. Sets ssthresh, and lowers cwnd to it if
    /// cwnd is larger.
    ///
    /// `in_flight` is the number of bytes in flight when the signal arrived. For an ECN echo this is called
    /// after [`Self::on_ack`] of the same acknowledgement, so that DCTCP has already counted its marks.
    fn on_signal(&mut self, now: Instant, in_flight: u64, signal: Signal, coupling: &mut Coupling);

    /// The retransmission timer expired. Sets ssthresh from `in_flight` if this is the first expiry for that
    /// data (`first`), and cwnd to one segment (RFC 5681, section 3.1).
    fn on_timeout(&mut self, now: Instant, in_flight: u64, first: bool, coupling: &mut Coupling);

    /// Congestion window in bytes.
    fn cwnd(&self) -> u64 {
        self.window().cwnd()
    }

    /// Slow-start threshold in bytes; `u64::MAX` while unlimited.
    fn ssthresh(&self) -> u64 {
        self.window().ssthresh()
    }

    /// The loss state machine sets the window: PRR, NewReno deflation. Never changes ssthresh.
    fn set_cwnd(&mut self, cwnd: u64) {
        self.window_mut().set_cwnd(cwnd);
    }

    /// The subflow was idle for a retransmission timeout. Sets cwnd = min(cwnd, `restart_window`) (RFC 5681,
    /// section 4.1). Never raises cwnd.
    fn on_idle(&mut self, restart_window: u64) {
        self.window_mut().shrink_to(restart_window);
    }

    /// The path answers again after an outage. Knowledge about it is stale, so ssthresh is unlimited as for a
    /// new path (RFC 5681, section 3.1). cwnd stays as the timeout set it.
    fn on_return(&mut self) {
        self.window_mut().forget_ssthresh();
    }

    /// What it measured of the path, for later subflows between the same hosts. Nothing by default.
    fn measurements(&self) -> Option<PathMeasurements> {
        None
    }

    /// The subflow begins. Former ones between the same hosts measured this, or it is supposed since subflows to other hosts of
    /// the network did. Does nothing by default.
    fn expect(&mut self, former: &PathMeasurements) {
        let _ = former;
    }

    /// The subflow begins. Flows to the network of the peer, this one included, share what they measure of the slowest link.
    /// Does nothing by default.
    fn share_rate(&mut self, network: &NetworkRate) {
        let _ = network;
    }

    /// The subflow begins, and this share of segments was lost by former ones on its path, from 0 to 1. Does nothing by
    /// default.
    fn expect_losses(&mut self, share: f64) {
        let _ = share;
    }

    /// The last reduction was spurious (D-SACK, F-RTO). Restores cwnd and ssthresh to their values before it,
    /// but never below their current values. Does nothing without a reduction to undo.
    fn undo(&mut self, now: Instant) {
        let _ = now;
        self.window_mut().undo();
    }

    /// The segment size changed (path MTU, options).
    fn set_mss(&mut self, mss: u64) {
        self.window_mut().set_mss(mss);
    }
}

//! The choice of a controller: what a configuration contains, and what a new controller begins with.

use std::fmt::Debug;

use spindle_units::Duration;

use super::Congestion;
use super::SlowStartExit;
use crate::types::EcnMode;

/// Makes the controller of each subflow. It is what a configuration contains, and holds the controller's
/// settings, if it has any.
///
/// The controllers that come with Spindle and those of other crates implement it alike. The [`Debug`] text must
/// contain every setting, because results are identified by a hash of the configuration's text.
pub trait ControllerFactory: Send + Sync + Debug {
    /// The controller's name in experiment files and, after a plus sign, on the command line. It consists of
    /// lower-case letters, digits and hyphens.
    fn name(&self) -> &str;

    /// What the controller does, in one line with its source.
    fn summary(&self) -> &str;

    /// The ECN mode without which the controller does not do what it should. [`EcnMode::Off`], the default, if
    /// it needs none. In a scenario with ECN it then uses [`EcnMode::Classic`].
    fn ecn(&self) -> EcnMode {
        EcnMode::Off
    }

    /// The name of this controller in the Linux kernel (`net.ipv4.tcp_congestion_control`), for the testbed's
    /// kernel hosts. They use CUBIC if it is `None`, the default.
    fn kernel_name(&self) -> Option<&str> {
        None
    }

    /// Whether a transport with this controller is another transport without it. An experiment's choice of a
    /// controller for all transports does not replace it then. `false` by default.
    fn is_part_of_transport(&self) -> bool {
        false
    }

    /// Makes a controller in slow start.
    fn build(&self, p: &Parameters) -> Box<dyn Congestion>;
}

/// Two factories are equal if their [`Debug`] texts are, as far as results can tell.
impl PartialEq for dyn ControllerFactory {
    fn eq(&self, other: &Self) -> bool {
        format!("{self:?}") == format!("{other:?}")
    }
}

/// The initial parameters of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Segment size in bytes (SMSS). Zero counts as one.
    pub mss: u64,
    /// Initial window in bytes.
    pub initial_window: u64,
    /// The subflow's row in [`super::Coupling`].
    pub subflow: usize,
    /// cwnd never exceeds this many bytes. `u64::MAX` means no cap. One segment is always allowed.
    pub max_window: u64,
    /// Initial ssthresh in bytes. `u64::MAX` means unlimited (RFC 5681, section 3.1: arbitrarily high). A value
    /// below two segments is raised to two segments.
    pub initial_ssthresh: u64,
    /// What ends CUBIC's initial slow start. All other controllers ignore it: only a loss or a mark ends theirs.
    pub slow_start_exit: SlowStartExit,
    /// Whether slow start also applies while cwnd equals ssthresh, as RFC 5681, section 3.1, allows.
    pub through_ssthresh: bool,
    /// Whether slow start counts every acknowledged byte. RFC 5681, equation 2, allows one segment per
    /// acknowledgement. If segments are coalesced, one acknowledgement stands for many segments (RFC 9406,
    /// section 4.2, leaves L unbounded for paced senders; Linux does so for all senders).
    pub stretch_acks: bool,
    /// By how much scheduling on the hosts may prolong a measured round-trip time. A delay-based controller takes no
    /// shorter delay for a queue.
    pub timing_precision: Duration,
}

impl Parameters {
    /// Segments of `mss` bytes and an initial window of `initial_window` bytes. All other fields are plain defaults: the
    /// controller is that of subflow 0, cwnd and ssthresh are unlimited, slow start ends with a loss and counts at most
    /// one segment for each acknowledgement (RFC 5681, section 3.1), and measured round-trip times are exact.
    pub fn new(mss: u64, initial_window: u64) -> Self {
        Self {
            mss,
            initial_window,
            subflow: 0,
            max_window: u64::MAX,
            initial_ssthresh: u64::MAX,
            slow_start_exit: SlowStartExit::Loss,
            through_ssthresh: false,
            stretch_acks: false,
            timing_precision: Duration::ZERO,
        }
    }
}

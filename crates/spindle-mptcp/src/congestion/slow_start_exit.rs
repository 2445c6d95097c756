//! What ends CUBIC's initial slow start.

use super::AckSample;
use super::hystart::HyStart;
use super::recent_delay::RecentDelay;

/// What ends the initial slow start of CUBIC, apart from a loss or a mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SlowStartExit {
    /// Nothing else.
    Loss,
    /// HyStart++ (RFC 9406): the smallest round-trip time of a round has grown.
    #[default]
    HyStart,
    /// The round-trip time grows within a round, in two rounds in a row. A paced sender notices a growing queue
    /// one round trip earlier than with HyStart++, before a queue of one round trip of data overflows.
    ///
    /// If a loss comes first, it halves the window (RFC 5681, section 3.1, equation 4), and cubic growth begins
    /// with that window as W_max. Slow start doubles the window in each round, so it can be twice as large as
    /// the path and its queue allow. CUBIC's factor of 0.7 would leave it too large, and a second round of
    /// losses would follow.
    RecentDelay,
}

/// The state of the mechanism that looks for a growing queue.
#[derive(Clone, Debug)]
pub(super) enum ExitDetector {
    HyStart(HyStart),
    RecentDelay(RecentDelay),
}

impl ExitDetector {
    /// The mechanism at the beginning of a connection. `None` if only losses and marks end slow start.
    pub(super) fn new(exit: SlowStartExit) -> Option<Self> {
        match exit {
            SlowStartExit::Loss => None,
            SlowStartExit::HyStart => Some(Self::HyStart(HyStart::default())),
            SlowStartExit::RecentDelay => Some(Self::RecentDelay(RecentDelay::default())),
        }
    }

    /// Whether a loss halves the window.
    pub(super) fn halves(&self) -> bool {
        matches!(self, Self::RecentDelay(_))
    }

    /// The divisor for slow-start growth.
    pub(super) fn divisor(&self) -> u64 {
        match self {
            Self::HyStart(h) => h.divisor(),
            Self::RecentDelay(d) => d.divisor(),
        }
    }

    /// Processes an acknowledgement. Returns true if slow start ends.
    pub(super) fn on_ack(&mut self, s: &AckSample) -> bool {
        match self {
            Self::HyStart(h) => h.on_ack(s),
            Self::RecentDelay(d) => d.on_ack(s),
        }
    }
}

//! What ends CUBIC's initial slow start.

use super::AckSample;
use super::classic_hystart::ClassicHyStart;
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
    RecentDelay,
    /// HyStart as in Linux 3.18 (Ha and Rhee 2008): a train of acknowledgements lasts as long as half of the
    /// round-trip time, or the round-trip time has grown. Slow start ends at once.
    ClassicHyStart,
}

/// The state of the mechanism that looks for a growing queue.
#[derive(Clone, Debug)]
pub(super) enum ExitDetector {
    HyStart(HyStart),
    RecentDelay(RecentDelay),
    ClassicHyStart(ClassicHyStart),
}

impl ExitDetector {
    /// The mechanism at the beginning of a connection. `None` if only losses and marks end slow start.
    pub(super) fn new(exit: SlowStartExit) -> Option<Self> {
        match exit {
            SlowStartExit::Loss => None,
            SlowStartExit::HyStart => Some(Self::HyStart(HyStart::default())),
            SlowStartExit::RecentDelay => Some(Self::RecentDelay(RecentDelay::default())),
            SlowStartExit::ClassicHyStart => Some(Self::ClassicHyStart(ClassicHyStart::default())),
        }
    }

    /// The divisor for slow-start growth.
    pub(super) fn divisor(&self) -> u64 {
        match self {
            Self::HyStart(h) => h.divisor(),
            Self::RecentDelay(d) => d.divisor(),
            Self::ClassicHyStart(_) => 1,
        }
    }

    /// Processes an acknowledgement that arrived at a cwnd of `segments`. Returns true if slow start ends.
    pub(super) fn on_ack(&mut self, s: &AckSample, segments: u64) -> bool {
        match self {
            Self::HyStart(h) => h.on_ack(s),
            Self::RecentDelay(d) => d.on_ack(s),
            Self::ClassicHyStart(h) => h.on_ack(s, segments),
        }
    }
}

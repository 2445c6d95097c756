//! Numbers computed from what coding sent and learned (CAPS Figs 6, 8, 19, 21, 22, 24, 26 and 27).

use super::{CodingOfFlows, UnitsOfFlows};

/// A metric of coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodingMetric {
    /// Packets beyond one for each segment, divided by encoded packets.
    Redundant,
    /// The payload bytes of these packets, divided by all payload bytes that hosts sent. Flows that are not
    /// coded are included.
    RedundantOfAll,
    /// Mean number of segments in a unit.
    Unit,
    /// Units that were not decoded, divided by units sent.
    Undecoded,
    /// Encoded packets that arrived after their unit was finished, or twice, divided by encoded packets that
    /// arrived.
    Late,
    /// The share of blocked packets that senders assume, averaged over the sampling periods of their paths.
    Blocking,
    /// The distance of RTT_avg from RTT_smooth as a share of RTT_smooth, averaged over the same periods.
    Tracking,
}

impl CodingMetric {
    /// The metric's name in a sentence.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Redundant => "redundant packets",
            Self::RedundantOfAll => "redundant bytes of all traffic",
            Self::Unit => "segments of a coding unit",
            Self::Undecoded => "units not decoded",
            Self::Late => "encoded packets that came too late",
            Self::Blocking => "blocked packets as senders see it",
            Self::Tracking => "distance of RTT_avg from RTT_smooth",
        }
    }

    /// The two parts of the metric as a ratio of sums.
    pub(super) fn parts(self, c: &CodingOfFlows) -> (f64, f64) {
        let of = |a: u64, b: u64| (a as f64, b as f64);
        match self {
            Self::Redundant => of(c.extra, c.encoded),
            Self::RedundantOfAll => of(c.extra_bytes, c.payload_bytes),
            Self::Unit => of(c.segments, c.units),
            Self::Undecoded => of(c.units.saturating_sub(c.decoded), c.units),
            Self::Late => of(c.late, c.received),
            Self::Blocking => (c.blocking, c.periods as f64),
            Self::Tracking => (c.rtt_distance, c.periods as f64),
        }
    }
}

/// A metric of units in transit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitMetric {
    /// Units for which unblocked packets alone were enough, divided by units sent.
    AtOnce,
    /// Mean time from the sending of a segment until enough packets of its unit have arrived, microseconds.
    Delay,
    /// Mean time from the sending of a window until enough packets of each of its units have arrived,
    /// microseconds. A window is all that a connection sends at one time.
    WindowDelay,
}

impl UnitMetric {
    /// The metric's name in a sentence.
    pub const fn title(self) -> &'static str {
        match self {
            Self::AtOnce => "units decoded at once",
            Self::Delay => "decoding delay of a packet",
            Self::WindowDelay => "decoding delay of a window",
        }
    }

    /// Whether the metric is a time.
    pub(super) const fn is_time(self) -> bool {
        !matches!(self, Self::AtOnce)
    }

    /// The two parts of the metric as a ratio of sums.
    pub(super) fn parts(self, u: &UnitsOfFlows) -> (f64, f64) {
        match self {
            Self::AtOnce => (u.at_once as f64, u.units as f64),
            Self::Delay => (u.delay_ns as f64 / 1e3, u.segments as f64),
            Self::WindowDelay => (u.window_ns as f64 / 1e3, u.windows as f64),
        }
    }
}

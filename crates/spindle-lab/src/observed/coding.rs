//! Numbers made of what coding sent and learnt (CAPS Figs 19, 24, 26 and 27).

use super::CodingOfFlows;

/// What is asked about coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodingMetric {
    /// Packets beyond one for each segment, over encoded packets.
    Redundant,
    /// Their payload bytes over all that hosts sent, those of flows that are not coded among them.
    RedundantOfAll,
    /// Mean number of segments of a unit.
    Unit,
    /// Units that were not decoded over units sent.
    Undecoded,
    /// Encoded packets that came when their unit was over, or twice, over those that came.
    Late,
    /// The share of blocked packets that senders reckon with, over sampling periods of their ways.
    Blocking,
    /// By what share of RTT_smooth RTT_avg is off it, over the same.
    Tracking,
}

impl CodingMetric {
    /// What it is called in a sentence.
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

    /// What it is made of, as a ratio of sums.
    pub(super) fn parts(self, c: &CodingOfFlows) -> (f64, f64) {
        let of = |a: u64, b: u64| (a as f64, b as f64);
        match self {
            Self::Redundant => of(c.extra, c.encoded),
            Self::RedundantOfAll => of(c.extra_bytes, c.payload_bytes),
            Self::Unit => of(c.segments, c.units),
            Self::Undecoded => of(c.units.saturating_sub(c.decoded), c.units),
            Self::Late => of(c.late, c.received),
            Self::Blocking => (c.blocking, c.periods as f64),
            Self::Tracking => (c.apart, c.periods as f64),
        }
    }
}

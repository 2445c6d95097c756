//! Numbers made of what coding sent and learnt (CAPS Figs 6, 8, 19, 21, 22, 24, 26 and 27).

use super::{CodingOfFlows, UnitsOfFlows};

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

/// What is asked about units on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitMetric {
    /// Units that unblocked packets alone were enough for, over units sent.
    AtOnce,
    /// Mean time from a segment's sending until enough packets of its unit are there, microseconds.
    Delay,
    /// The same of all that a connection sends at one time, until enough of each of its units are.
    WindowDelay,
}

impl UnitMetric {
    /// What it is called in a sentence.
    pub const fn title(self) -> &'static str {
        match self {
            Self::AtOnce => "units decoded at once",
            Self::Delay => "decoding delay of a packet",
            Self::WindowDelay => "decoding delay of a window",
        }
    }

    /// Whether it is a time.
    pub(super) const fn is_time(self) -> bool {
        !matches!(self, Self::AtOnce)
    }

    /// What it is made of, as a ratio of sums.
    pub(super) fn parts(self, u: &UnitsOfFlows) -> (f64, f64) {
        match self {
            Self::AtOnce => (u.at_once as f64, u.units as f64),
            Self::Delay => (u.delay_ns as f64 / 1e3, u.segments as f64),
            Self::WindowDelay => (u.window_ns as f64 / 1e3, u.windows as f64),
        }
    }
}

//! What is kept of a run where `observe` asks for it.

use serde::{Deserialize, Serialize};

/// Times after all data were sent within which spare room in windows is looked at, in milliseconds
/// (CoFUSO section 3.3, Fig 5).
pub const SPARE_WINDOWS_MS: [u64; 3] = [20, 50, 100];

/// What proactive recovery did for the flows of a run, as far as the server's end goes: the one that
/// sends the responses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveryOfFlows {
    /// For each flow to which a recovery packet brought data that had not arrived: how many had been
    /// sent up to and including the first that did.
    pub first_hits: Vec<u32>,
    /// Recovery packets sent: copies and parities.
    pub packets: u64,
    /// Of these, those that brought data that had not arrived.
    pub useful: u64,
    /// For each flow how many packets congestion windows would have let out, recovery packets that were
    /// sent among them, from when its data had all been sent until so long after
    /// ([`SPARE_WINDOWS_MS`]).
    pub spare: Vec<[u32; SPARE_WINDOWS_MS.len()]>,
}

/// How often retransmission timers fired, and fast recovery began, for each flow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimersOfFlows {
    /// By the number of timeouts, how many flows had so many; the last are those with more.
    pub timeouts: Vec<u64>,
    /// The same for fast recoveries.
    pub retransmits: Vec<u64>,
}

/// More timeouts or recoveries of a flow are not told apart.
const MOST_TIMERS: usize = 100;

impl TimersOfFlows {
    /// Counts a flow.
    pub(crate) fn add(&mut self, timeouts: u64, retransmits: u64) {
        for (counts, n) in [
            (&mut self.timeouts, timeouts),
            (&mut self.retransmits, retransmits),
        ] {
            let n = (n as usize).min(MOST_TIMERS);
            if counts.len() <= n {
                counts.resize(n + 1, 0);
            }
            counts[n] += 1;
        }
    }
}

/// What the links of a group did from the beginning of a run to its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinksOfGroup {
    /// The group: `access`, `edge-agg`, `agg-core` in a fat-tree, `access`, `leaf-spine` in a leaf-spine
    /// network.
    pub group: String,
    /// Time that its links spent sending, seconds, summed.
    pub busy_s: f64,
    /// Time that they could have, seconds.
    pub time_s: f64,
    /// Packets that came to their queues.
    pub offered: u64,
    /// Of these, packets that found no room.
    pub dropped: u64,
}

/// What became of the data packets that hosts sent while flows counted, by their mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketsOfFlows {
    /// Those marked as short flows'.
    pub short: PacketsOfClass,
    /// The others.
    pub others: PacketsOfClass,
}

/// What became of data packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketsOfClass {
    /// Packets that left a host, for the first time or again.
    pub sent: u64,
    /// Packets that were dropped, wherever and why.
    pub dropped: u64,
}

/// What was seen in the network of data packets that hosts sent while flows counted, by their mark, and of
/// the paths that short flows took then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathsOfFlows {
    /// Packets marked as short flows'.
    pub short: WaitsOfClass,
    /// The others.
    pub long: WaitsOfClass,
    /// Ways on from leaf switches in slots of time in which short flows sent there, summed over slots.
    pub ways: u64,
    /// Of these, those that took data of short flows.
    pub used: u64,
}

/// How data packets fared that arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitsOfClass {
    /// Packets.
    pub packets: u64,
    /// Time that they waited in queues of switches, nanoseconds, summed.
    pub queueing_ns: u64,
    /// Of the packets, those that arrived after one of their flow that was sent later.
    pub overtaken: u64,
}

/// What applications got over the links of a group while flows counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GoodputOfGroup {
    /// The group, as in [`LinksOfGroup`].
    pub group: String,
    /// Bytes of flows that arrived, once for each link of the group on their way.
    pub bytes: u64,
    /// Bytes that its links could have sent in that time.
    pub room: f64,
}

/// What coding sent and learnt at all hosts while flows counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CodingOfFlows {
    /// Units sent.
    pub units: u64,
    /// Units decoded.
    pub decoded: u64,
    /// Segments in the units sent.
    pub segments: u64,
    /// Encoded packets sent.
    pub encoded: u64,
    /// Those of them beyond one for each segment.
    pub extra: u64,
    /// Payload bytes of the latter.
    pub extra_bytes: u64,
    /// Payload bytes that hosts sent in all, coded or not.
    pub payload_bytes: u64,
    /// Encoded packets that arrived.
    pub received: u64,
    /// Of these, those that came when their unit was over, or twice.
    pub late: u64,
    /// Sampling periods of all ways, but for the first of each.
    pub periods: u64,
    /// By what share of RTT_smooth RTT_avg was off it in each of them, summed.
    pub apart: f64,
    /// The share of blocked packets that each of them told, summed.
    pub blocking: f64,
}

/// Coding units as the network saw them while flows counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitsOfFlows {
    /// Units sent.
    pub units: u64,
    /// Units of which as many packets as segments arrived before one that was blocked.
    pub at_once: u64,
    /// Segments of units of which so many arrived.
    pub segments: u64,
    /// Time from a unit's sending until then, nanoseconds, summed over its segments.
    pub delay_ns: u64,
    /// Windows, what a connection sends at one time, of whose units all came so far.
    pub windows: u64,
    /// Time from a window's sending until its last unit did, nanoseconds, summed.
    pub window_ns: u64,
}

impl UnitsOfFlows {
    /// What came since.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let of = |f: fn(&Self) -> u64| f(self).saturating_sub(f(before));
        Self {
            units: of(|u| u.units),
            at_once: of(|u| u.at_once),
            segments: of(|u| u.segments),
            delay_ns: of(|u| u.delay_ns),
            windows: of(|u| u.windows),
            window_ns: of(|u| u.window_ns),
        }
    }
}

/// Congestion windows of those that sent data packets while flows counted, by the packets' mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WindowsOfFlows {
    /// Of packets marked as short flows'.
    pub short: WindowsOfClass,
    /// Of the others.
    pub long: WindowsOfClass,
}

/// Congestion windows at the sending of data packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WindowsOfClass {
    /// Packets that left a host, for the first time or again.
    pub packets: u64,
    /// The window of the subflow that each was sent on, in full segments, summed.
    pub segments: f64,
}

//! The records of a run that `observe` requests.

use serde::{Deserialize, Serialize};

/// Times after the sending of all data within which spare room in the windows is observed, in milliseconds
/// (CoFUSO section 3.3, Fig 5).
pub const SPARE_WINDOWS_MS: [u64; 3] = [20, 50, 100];

/// What a run observed because the experiment requested it. In the JSON, these are fields of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Observations {
    /// How often timers fired and fast recovery began, if it was observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timers: Option<TimersOfFlows>,
    /// What groups of links did, if it was observed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinksOfGroup>,
    /// The fate of data packets, if it was observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<PacketsOfFlows>,
    /// How data packets fared in the network, and which paths they took, if it was observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paths: Option<PathsOfFlows>,
    /// What applications received over groups of links, if it was observed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub goodput: Vec<GoodputOfGroup>,
    /// What coding sent and learned, if it was observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coding: Option<CodingOfFlows>,
    /// Coding units as the network saw them, if coding was observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub units: Option<UnitsOfFlows>,
    /// Congestion windows of senders, if they were observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows: Option<WindowsOfFlows>,
    /// The flows of the other transport, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bystanders: Option<BystandersOfRun>,
    /// How many flows met their deadline, if flows have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadlines: Option<DeadlinesOfFlows>,
}

/// The flows of a run that were bystanders ([`Bystanders`](crate::bystanders::Bystanders)).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BystandersOfRun {
    /// Flows started.
    pub flows: u64,
    /// Flows whose connection ended with an error.
    pub aborted: u64,
    /// Flows in progress when the run reached its configured end.
    pub cut_off: u64,
    /// Completion times of the completed flows in nanoseconds, in the order in which the flows were issued.
    pub fct_ns: Vec<u64>,
    /// Sum over completed flows of size divided by completion time, bits per second.
    pub goodput_sum_bps: f64,
}

/// The deadlines of the flows of a run, background flows excepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadlinesOfFlows {
    /// Flows with a deadline that were started. Flows that the end of the run cut off are not included.
    pub flows: u64,
    /// Of these, flows that took longer than their deadline, or were never complete.
    pub missed: u64,
}

/// What proactive recovery did for the flows of a run. It covers the server's end only, which sends the
/// responses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveryOfFlows {
    /// For each flow to which a recovery packet delivered new data: the number of recovery packets sent up to
    /// and including the first one that did.
    pub first_hits: Vec<u32>,
    /// Recovery packets sent: copies and parities.
    pub packets: u64,
    /// Of these, those that delivered data that had not arrived.
    pub useful: u64,
    /// For each flow, how many packets the congestion windows would have let out within [`SPARE_WINDOWS_MS`]
    /// after all of its data had been sent. Recovery packets that were sent in that time are included.
    pub spare: Vec<[u32; SPARE_WINDOWS_MS.len()]>,
}

/// How often retransmission timers fired, and fast recovery began, for each flow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimersOfFlows {
    /// `timeouts[n]` is the number of flows with n timeouts. The last entry includes all flows with more.
    pub timeouts: Vec<u64>,
    /// Like `timeouts`, but for fast recoveries.
    pub retransmits: Vec<u64>,
}

/// Larger numbers of timeouts or recoveries of a flow are not distinguished.
const MOST_TIMERS: usize = 100;

impl TimersOfFlows {
    /// Counts a flow.
    pub fn add(&mut self, timeouts: u64, retransmits: u64) {
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
    /// Time that the links spent sending, seconds, summed over links.
    pub busy_s: f64,
    /// Time that the links could have spent sending, seconds.
    pub time_s: f64,
    /// Packets that were offered to the links' queues.
    pub offered: u64,
    /// Of these, packets for which the queue had no room.
    pub dropped: u64,
}

/// The fate of the data packets that hosts sent while flows were counted, by the packets' mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketsOfFlows {
    /// Packets marked as short flows'.
    pub short: PacketsOfClass,
    /// All other packets.
    pub others: PacketsOfClass,
}

/// The fate of data packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketsOfClass {
    /// Packets that a host sent, for the first time or again.
    pub sent: u64,
    /// Packets that were dropped, at any place and for any reason.
    pub dropped: u64,
}

/// What the network did with data packets that hosts sent while flows were counted, by the packets' mark. It
/// also covers the paths that short flows used in that time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathsOfFlows {
    /// Packets marked as short flows'.
    pub short: WaitsOfClass,
    /// All other packets.
    pub long: WaitsOfClass,
    /// Paths from leaf switches towards the spines, summed over time slots in which short flows sent at that
    /// leaf.
    #[serde(rename = "ways")]
    pub available: u64,
    /// Of these, the paths that carried data of short flows.
    pub used: u64,
}

/// How the data packets that arrived fared in the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitsOfClass {
    /// Packets.
    pub packets: u64,
    /// Time that the packets waited in queues of switches, nanoseconds, summed.
    pub queueing_ns: u64,
    /// Of the packets, those that arrived after a packet of the same flow that was sent later.
    pub overtaken: u64,
    /// Segments that a decoder passed up to TCP. 0 if the packets are not coded.
    #[serde(default, skip_serializing_if = "none")]
    pub decoded: u64,
    /// Of the decoded segments, those that TCP received after a segment of the same flow that was encoded later.
    #[serde(default, skip_serializing_if = "none")]
    pub decoded_disordered: u64,
}

/// What applications received over the links of a group while flows were counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GoodputOfGroup {
    /// The group, as in [`LinksOfGroup`].
    pub group: String,
    /// Bytes of flows that arrived, counted once for each link of the group on their path.
    pub bytes: u64,
    /// Bytes that the group's links could have sent in that time.
    pub room: f64,
}

/// What coding sent and learned at all hosts while flows were counted.
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
    /// Of these, packets beyond one for each segment.
    pub extra: u64,
    /// Payload bytes of these extra packets.
    pub extra_bytes: u64,
    /// Payload bytes that hosts sent in total, coded or not.
    pub payload_bytes: u64,
    /// Encoded packets that arrived.
    pub received: u64,
    /// Of these, packets that arrived after their unit was finished, or twice.
    pub late: u64,
    /// Sampling periods of all paths, without the first of each.
    pub periods: u64,
    /// The distance of RTT_avg from RTT_smooth as a share of RTT_smooth, summed over these periods.
    #[serde(rename = "apart")]
    pub rtt_distance: f64,
    /// The share of blocked packets reported by each of these periods, summed.
    pub blocking: f64,
}

impl CodingOfFlows {
    /// What was counted since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let of = |f: fn(&Self) -> u64| f(self).saturating_sub(f(before));
        Self {
            units: of(|c| c.units),
            decoded: of(|c| c.decoded),
            segments: of(|c| c.segments),
            encoded: of(|c| c.encoded),
            extra: of(|c| c.extra),
            extra_bytes: of(|c| c.extra_bytes),
            payload_bytes: of(|c| c.payload_bytes),
            received: of(|c| c.received),
            late: of(|c| c.late),
            periods: of(|c| c.periods),
            rtt_distance: self.rtt_distance - before.rtt_distance,
            blocking: self.blocking - before.blocking,
        }
    }
}

/// Coding units as the network saw them while flows were counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitsOfFlows {
    /// Units sent.
    pub units: u64,
    /// Units of which as many packets as segments arrived before a blocked packet did.
    pub at_once: u64,
    /// Segments of units of which as many packets as segments arrived.
    pub segments: u64,
    /// Time from a unit's sending until that many packets arrived, nanoseconds, summed over its segments.
    pub delay_ns: u64,
    /// Windows whose units all received as many packets as segments. A window is all that a connection sends at
    /// one time.
    pub windows: u64,
    /// Time from a window's sending until its last unit received that many packets, nanoseconds, summed.
    pub window_ns: u64,
}

impl UnitsOfFlows {
    /// What was counted since `before`.
    pub fn since(&self, before: &Self) -> Self {
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

/// Congestion windows of the senders of data packets while flows were counted, by the packets' mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WindowsOfFlows {
    /// Windows of packets marked as short flows'.
    pub short: WindowsOfClass,
    /// Windows of all other packets.
    pub long: WindowsOfClass,
}

/// Congestion windows when data packets were sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WindowsOfClass {
    /// Packets that a host sent, for the first time or again.
    pub packets: u64,
    /// The congestion window of the subflow that sent each packet, in full segments, summed.
    pub segments: f64,
}

fn none(n: &u64) -> bool {
    *n == 0
}

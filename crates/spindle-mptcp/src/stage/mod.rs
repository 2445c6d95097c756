//! The stage interface: an optional layer between a subflow and the wire.
//!
//! A stage sees every outgoing and incoming segment of its subflow. It may replace, delay, multiply or drop
//! segments, have its own timer, and send its own packets. By default there is no stage.

pub mod coding;
pub mod important;
pub mod reorder;
pub mod scatter;

use std::collections::VecDeque;

use spindle_units::Instant;
use spindle_wire::{CodedPacket, Packet, Segment};

use coding::CodingCounters;

use crate::types::SubflowId;

/// Class selectors below this value have no priority: those of the default forwarding behaviour and of lower
/// effort.
const LOW_SELECTORS: u8 = 2;

/// Whether a differentiated services code point, 0 to 63, has priority: at ports that have a queue for it, and
/// as the tag of a short flow that is [coded](coding::Short::Tagged). A code point has priority if its class
/// selector is above those of the default forwarding behaviour and of lower effort (RFC 2474, section 4.2.2.2;
/// RFC 4594, section 4.10).
#[must_use]
pub fn has_priority(dscp: u8) -> bool {
    dscp >> 3 >= LOW_SELECTORS
}

/// What a stage may know about its subflow when a segment is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageContext {
    /// The current time.
    pub now: Instant,
    /// The congestion window in bytes.
    pub cwnd: u64,
    /// Bytes of a full segment.
    pub mss: u64,
    /// The code point that the application requested, 0 for none. All outgoing segments get it after the stage,
    /// so the segments that the stage is given do not have it.
    pub dscp: u8,
}

impl StageContext {
    /// The congestion window in full segments.
    pub fn window_segments(&self) -> u64 {
        self.cwnd / self.mss.max(1)
    }
}

/// A stage of one subflow.
pub trait Stage: Send + std::fmt::Debug {
    /// Processes a segment that the subflow sends. Packets for the wire are appended to `out`.
    fn output(&mut self, cx: &StageContext, segment: Segment, out: &mut VecDeque<Packet>);

    /// Whether segments wait in the stage for more segments to come.
    fn is_buffering(&self) -> bool {
        false
    }

    /// The connection has nothing more to send now. The stage must send the segments that
    /// [wait](Self::is_buffering) for more to come.
    fn flush(&mut self, cx: &StageContext, out: &mut VecDeque<Packet>) {
        let _ = (cx, out);
    }

    /// Processes a segment that arrived for the subflow. Segments for the subflow are appended to `up`,
    /// packets for the wire (the stage's own acknowledgements) to `out`. By default the segment goes to `up`.
    fn input(
        &mut self,
        now: Instant,
        segment: Segment,
        up: &mut VecDeque<Segment>,
        out: &mut VecDeque<Packet>,
    ) {
        let _ = (now, out);
        up.push_back(segment);
    }

    /// Processes a packet of the coding layer that arrived for the subflow. Segments for the subflow are
    /// appended to `up`, packets for the wire to `out`. By default the packet is ignored, because a stage that
    /// does not code has agreed to no such packets.
    fn input_coded(
        &mut self,
        now: Instant,
        packet: &CodedPacket,
        up: &mut VecDeque<Segment>,
        out: &mut VecDeque<Packet>,
    ) {
        let _ = (now, packet, up, out);
    }

    /// Whether [`Self::input`] does more than forward the segment. This is called for every segment.
    fn sees_input(&self) -> bool {
        true
    }

    /// When [`Self::timeout`] must be called; `None` by default.
    fn next_timeout(&self) -> Option<Instant> {
        None
    }

    /// Handles a timeout. Segments for the subflow are appended to `up`, packets for the wire to `out`.
    fn timeout(&mut self, now: Instant, up: &mut VecDeque<Segment>, out: &mut VecDeque<Packet>) {
        let _ = (now, up, out);
    }

    /// Bytes, not counting options, by which the packets that the stage sends are larger than the segments that
    /// it is given.
    fn overhead(&self) -> usize {
        0
    }

    /// Payload bytes that the stage stores, and in how many pieces. They count as the connection's.
    fn stored(&self) -> (u64, usize) {
        (0, 0)
    }

    /// The stack's memory is short. The stage frees data that may never be needed.
    fn shed(&mut self) {}

    /// Iterations so far of loops over stored data.
    fn steps(&self) -> u64 {
        0
    }

    /// The counters of coding, if the stage codes.
    fn coding(&self) -> Option<&CodingCounters> {
        None
    }
}

/// Makes the stage of each subflow.
pub trait StageFactory: Send + Sync + std::fmt::Debug {
    /// A stage for subflow `subflow`.
    fn build(&self, subflow: SubflowId) -> Box<dyn Stage>;
}

/// The stage that changes nothing. A configuration without a stage behaves alike.
#[derive(Clone, Copy, Debug, Default)]
pub struct Identity;

impl Stage for Identity {
    fn output(&mut self, _cx: &StageContext, segment: Segment, out: &mut VecDeque<Packet>) {
        out.push_back(Packet::Tcp(segment));
    }
}

impl StageFactory for Identity {
    fn build(&self, _subflow: SubflowId) -> Box<dyn Stage> {
        Box::new(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_selectors_from_the_second_on_have_priority() {
        // The default, lower effort (LE and CS1), and AF11, which has the class selector of CS1.
        for low in [0, 1, 8, 10] {
            assert!(!has_priority(low), "{low}");
        }
        // CS2, AF21, EF, CS7.
        for high in [16, 18, 46, 56, 63] {
            assert!(has_priority(high), "{high}");
        }
    }
}

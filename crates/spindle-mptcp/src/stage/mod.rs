//! The stage seam: what stands between a subflow and the wire.
//!
//! A stage sees every segment of its subflow on the way out and on the way in; it may replace,
//! delay, multiply or swallow segments, own a timer and send segments of its own. The default is
//! identity: no stage at all.

pub mod coding;
pub mod reorder;
pub mod scatter;

use std::collections::VecDeque;

use spindle_units::Instant;
use spindle_wire::Segment;

use coding::CodingCounters;

/// A class selector above those of the default and of less than it has priority.
const LOW_SELECTORS: u8 = 2;

/// Whether a differentiated services code point, 0 to 63, has priority: at ports that have a queue for it, and as
/// the tag of a short flow that is to be [coded](coding::Short::Tagged). That is every one whose class selector
/// is above those of the default and of less than it (RFC 2474, section 4.2.2.2; RFC 4594, section 4.10).
#[must_use]
pub fn has_priority(dscp: u8) -> bool {
    dscp >> 3 >= LOW_SELECTORS
}

/// What a stage may know of its subflow when something is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageContext {
    /// The present.
    pub now: Instant,
    /// The congestion window in bytes.
    pub cwnd: u64,
    /// Bytes of a full segment.
    pub mss: u64,
    /// The code point that the application asked for, 0 for none. All that leaves gets it behind the stage; none of
    /// the segments that come to it has it.
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
    /// A segment leaves the subflow; what is to go on the wire is appended to `out`.
    fn output(&mut self, cx: &StageContext, segment: Segment, out: &mut VecDeque<Segment>);

    /// Whether segments wait in it for more to come.
    fn keeps_back(&self) -> bool {
        false
    }

    /// The connection has nothing more to send now: what [waits](Self::keeps_back) for more to come is to
    /// leave.
    fn flush(&mut self, cx: &StageContext, out: &mut VecDeque<Segment>) {
        let _ = (cx, out);
    }

    /// A segment arrived for the subflow; what the subflow is to see is appended to `up`, what is to
    /// go back on the wire (acknowledgements of the stage's own) to `out`. By default it goes up.
    fn input(
        &mut self,
        now: Instant,
        segment: Segment,
        up: &mut VecDeque<Segment>,
        out: &mut VecDeque<Segment>,
    ) {
        let _ = (now, out);
        up.push_back(segment);
    }

    /// Whether [`Self::input`] does anything but hand the segment up; asked for every segment.
    fn sees_input(&self) -> bool {
        true
    }

    /// When [`Self::timeout`] wants to be called; none by default.
    fn next_timeout(&self) -> Option<Instant> {
        None
    }

    /// Time has come; segments for the subflow are appended to `up`, segments to be sent to `out`.
    fn timeout(&mut self, now: Instant, up: &mut VecDeque<Segment>, out: &mut VecDeque<Segment>) {
        let _ = (now, up, out);
    }

    /// Bytes, beyond options, by which what leaves it is larger than the segments that came.
    fn overhead(&self) -> usize {
        0
    }

    /// Payload bytes kept, and in how many pieces; they count as the connection's.
    fn stored(&self) -> (u64, usize) {
        (0, 0)
    }

    /// The stack's memory is short: what may never be needed is given back.
    fn shed(&mut self) {}

    /// Iterations so far of loops over what it keeps.
    fn steps(&self) -> u64 {
        0
    }

    /// What it has coded, if it codes.
    fn coding(&self) -> Option<&CodingCounters> {
        None
    }
}

/// Makes the stage of each subflow.
pub trait StageFactory: Send + Sync + std::fmt::Debug {
    /// A stage for subflow `subflow`.
    fn build(&self, subflow: u8) -> Box<dyn Stage>;
}

/// The stage that changes nothing; what a configuration without a stage behaves like.
#[derive(Clone, Copy, Debug, Default)]
pub struct Identity;

impl Stage for Identity {
    fn output(&mut self, _cx: &StageContext, segment: Segment, out: &mut VecDeque<Segment>) {
        out.push_back(segment);
    }
}

impl StageFactory for Identity {
    fn build(&self, _subflow: u8) -> Box<dyn Stage> {
        Box::new(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_selectors_above_the_first_have_priority() {
        // The default, less than it (LE and CS1), and AF11 with the latter's selector.
        for low in [0, 1, 8, 10] {
            assert!(!has_priority(low), "{low}");
        }
        // CS2, AF21, EF, CS7.
        for high in [16, 18, 46, 56, 63] {
            assert!(has_priority(high), "{high}");
        }
    }
}

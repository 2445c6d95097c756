//! The stage seam: what stands between a subflow and the wire.
//!
//! A stage sees every segment of its subflow on the way out and on the way in; it may replace,
//! delay, multiply or swallow segments, own a timer and send segments of its own. The default is
//! identity: no stage at all.

pub mod scatter;

use std::collections::VecDeque;

use spindle_units::Instant;
use spindle_wire::Segment;

/// A stage of one subflow.
pub trait Stage: Send + std::fmt::Debug {
    /// A segment leaves the subflow; what is to go on the wire is appended to `out`.
    fn output(&mut self, now: Instant, segment: Segment, out: &mut VecDeque<Segment>);

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

    /// Time has come; segments to be sent are appended to `out`.
    fn timeout(&mut self, now: Instant, out: &mut VecDeque<Segment>) {
        let _ = (now, out);
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
    fn output(&mut self, _now: Instant, segment: Segment, out: &mut VecDeque<Segment>) {
        out.push_back(segment);
    }
}

impl StageFactory for Identity {
    fn build(&self, _subflow: u8) -> Box<dyn Stage> {
        Box::new(Self)
    }
}

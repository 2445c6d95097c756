//! A budget of steps ([`spindle_mptcp::StackCounters::steps`]): whatever peers send, a stack's work is in
//! proportion to what it receives and sends, not to what it stores.

use spindle_mptcp::Stack;
use spindle_wire::Segment;

/// Steps that a segment which arrives, a timer or a call of the application may take, however much is
/// outstanding. The most that code allows itself is in parities of blocks: a block of 255 packets is laid out for
/// each packet of it, and 128 parities and 64 settled blocks are looked through.
pub(crate) const PER_EVENT: u64 = 1024;
/// Steps for each segment sent: to send it, find it lost, repeat it, reinject it and see it acknowledged.
pub(crate) const PER_SENT: u64 = 32;

/// What one stack may have taken so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Budget {
    allowed: u64,
}

impl Budget {
    /// A segment came, a timer was served, or the application asked for something.
    pub(crate) fn on_event(&mut self) {
        self.allowed += PER_EVENT;
    }

    /// A segment or burst left.
    pub(crate) fn on_sent(&mut self, seg: &Segment) {
        let unit = usize::from(seg.segment_size.max(1));
        let segments = match seg.is_burst() {
            true => seg.payload.len().div_ceil(unit),
            false => 1,
        };
        self.allowed += PER_SENT * segments as u64;
    }

    /// Fails if the stack took more steps than that.
    pub(crate) fn check(&self, stack: &Stack) {
        let taken = stack.counters().steps;
        assert!(
            taken <= self.allowed,
            "{taken} steps where {} are allowed",
            self.allowed
        );
    }
}

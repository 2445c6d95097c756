//! A budget of steps ([`spindle_mptcp::StackCounters::steps`]): whatever peers send, a stack's work is
//! proportional to what it receives and sends, not to what it stores.

use spindle_mptcp::Stack;

/// Steps allowed for an arriving segment, a timer or a call of the application, however much is outstanding.
/// The most expensive code handles parities of blocks: a block of 255 packets is laid out for each packet of
/// it, and 128 parities and 64 settled blocks are searched.
pub(crate) const PER_EVENT: u64 = 1024;
/// Steps for each segment sent: to send it, mark it lost, retransmit it, reinject it and process its
/// acknowledgement.
pub(crate) const PER_SENT: u64 = 32;

/// The number of steps that one stack may have taken so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Budget {
    allowed: u64,
}

impl Budget {
    /// A segment arrived, a timer was served, or the application made a call.
    pub(crate) fn on_event(&mut self) {
        self.allowed += PER_EVENT;
    }

    /// A packet, or a burst of this many packets, was sent.
    pub(crate) fn on_sent(&mut self, pieces: u32) {
        self.allowed += PER_SENT * u64::from(pieces);
    }

    /// Fails if the stack took more steps than allowed.
    pub(crate) fn check(&self, stack: &Stack) {
        let taken = stack.counters().steps;
        assert!(
            taken <= self.allowed,
            "{taken} steps where {} are allowed",
            self.allowed
        );
    }
}

//! What the application says about the message that it writes.

use spindle_units::{Duration, Instant};

use crate::types::DataOffset;

/// Hints of the application about a message: the data that it writes from now on, until it gives other hints.
/// They change nothing by themselves. A recovery policy may use them ([`super::View::message`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MessageHints {
    /// When the whole message must have arrived, on the stack's clock. `None` if there is no deadline.
    pub deadline: Option<Instant>,
    /// How urgent the message is. 0, the default, is ordinary; a larger number is more urgent.
    pub priority: u8,
    /// Bytes of the message, if they are known.
    pub length: Option<u64>,
}

/// The current message of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageView {
    /// What the application said about it.
    pub hints: MessageHints,
    /// Data offset of its first byte.
    pub start: DataOffset,
}

impl MessageView {
    /// Whether a length is known, and everything up to its end is before `offset`.
    pub fn ends_by(&self, offset: DataOffset) -> bool {
        let length = self.hints.length;
        length.is_some_and(|length| self.start + length <= offset)
    }

    /// Time left until the deadline, zero after it. `None` if there is no deadline.
    pub fn time_left(&self, now: Instant) -> Option<Duration> {
        self.hints.deadline.map(|deadline| deadline.since(now))
    }
}

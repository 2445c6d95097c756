//! [`Message`]: what an application says about the data that it writes next.

use std::time::Instant;

use spindle_mptcp::recovery::MessageHints;
use spindle_units::Duration;

/// Hints about the data that are written from now on, until other hints are given. They change nothing by
/// themselves. A transport whose recovery depends on deadlines or priorities uses them (`xlink`, `hairpin`).
/// Nothing is sent to the peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// When the whole message must have arrived at the peer. `None` if there is no deadline.
    pub deadline: Option<Instant>,
    /// How urgent the message is. 0, the default, is ordinary; a larger number is more urgent.
    pub priority: u8,
    /// Bytes of the message, if they are known.
    pub length: Option<u64>,
}

impl Message {
    /// The hints on the clock of a stack that shows `stack` at the time `now`. A deadline that has passed is
    /// `stack` itself.
    pub(crate) fn hints(&self, now: Instant, stack: spindle_units::Instant) -> MessageHints {
        let left = |deadline: Instant| deadline.saturating_duration_since(now);
        MessageHints {
            deadline: self.deadline.map(|d| stack + Duration::from(left(d))),
            priority: self.priority,
            length: self.length,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadline_is_converted_to_the_clock_of_the_stack() {
        let now = Instant::now();
        let stack = spindle_units::Instant::ZERO + Duration::from_secs(5);
        let message = Message {
            deadline: Some(now + std::time::Duration::from_millis(30)),
            priority: 1,
            length: Some(1000),
        };
        let hints = message.hints(now, stack);
        assert_eq!(hints.deadline, Some(stack + Duration::from_millis(30)));
        assert_eq!((hints.priority, hints.length), (1, Some(1000)));
        let late = now + std::time::Duration::from_secs(1);
        assert_eq!(message.hints(late, stack).deadline, Some(stack));
    }
}

//! Back-pressure from the host's own output queue.
//!
//! A window may be larger than what the path holds; the rest would only wait in the sender's own
//! queue, in front of what everybody else on the host sends. Linux lets a socket keep 128 KB there
//! (`tcp_limit_output_bytes`, "TCP small queues"): without a drop, nothing else would stop it.

use std::collections::VecDeque;

use spindle_units::Instant;

/// What a subflow has in the host's output queue, a FIFO.
#[derive(Clone, Debug)]
pub(super) struct OutputQueue {
    limit: u64,
    /// Bytes of each segment and when it will have left, by ascending time.
    segments: VecDeque<(Instant, u64)>,
    bytes: u64,
    /// Something waits for room.
    waiting: bool,
}

impl OutputQueue {
    /// An empty queue for at most about `limit` bytes: a segment may enter while fewer are in it.
    pub(super) fn new(limit: u64) -> Self {
        Self {
            limit,
            segments: VecDeque::new(),
            bytes: 0,
            waiting: false,
        }
    }

    /// A segment was handed over that leaves at this time.
    pub(super) fn push(&mut self, bytes: u64, leaves: Instant) {
        self.segments.push_back((leaves, bytes));
        self.bytes += bytes;
    }

    /// Whether a further segment may enter; if not, [`Self::deadline`] says when one may.
    pub(super) fn has_room(&mut self, now: Instant) -> bool {
        while let Some(&(leaves, bytes)) = self.segments.front() {
            if leaves > now {
                break;
            }
            self.segments.pop_front();
            self.bytes -= bytes;
        }
        self.waiting = self.bytes >= self.limit && !self.segments.is_empty();
        !self.waiting
    }

    /// When what waits may enter.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let front = self.segments.front().filter(|_| self.waiting)?;
        Some(front.0)
    }

    /// The deadline is over: whoever waits is to try again.
    pub(super) fn on_deadline(&mut self) {
        self.waiting = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Instant {
        Instant::from_nanos(us * 1000)
    }

    #[test]
    fn a_full_queue_holds_back_until_its_first_segment_has_left() {
        let mut q = OutputQueue::new(3000);
        for us in [10, 20, 30] {
            assert!(q.has_room(at(0)));
            q.push(1000, at(us));
        }
        assert_eq!(q.deadline(), None, "nobody has asked for more");
        assert!(!q.has_room(at(5)));
        assert_eq!(q.deadline(), Some(at(10)));
        q.on_deadline();
        assert_eq!(q.deadline(), None);
        assert!(q.has_room(at(10)));
        q.push(1000, at(40));
        assert!(!q.has_room(at(19)));
        assert!(q.has_room(at(40)), "empty");
        assert_eq!(q.bytes, 0);
    }
}

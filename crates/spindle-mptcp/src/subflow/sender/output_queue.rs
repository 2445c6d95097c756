//! Back-pressure from the host's own output queue.
//!
//! A window may be larger than what the path can hold. The excess would wait in the sender's own queue, in
//! front of the packets of every other sender on the host. Linux lets a socket keep 128 KB in that queue
//! (`tcp_limit_output_bytes`, "TCP small queues"). As long as no packet is dropped, nothing else would limit
//! the excess.

use std::collections::VecDeque;

use spindle_units::Instant;

/// A subflow's segments in the host's output queue, which is a FIFO.
#[derive(Clone, Debug)]
pub(super) struct OutputQueue {
    limit: u64,
    /// Transmission time and bytes of each segment, by ascending time.
    segments: VecDeque<(Instant, u64)>,
    bytes: u64,
    /// A segment waits for room.
    waiting: bool,
}

impl OutputQueue {
    /// An empty queue for at most about `limit` bytes. A segment may enter while fewer bytes are queued.
    pub(super) fn new(limit: u64) -> Self {
        Self {
            limit,
            segments: VecDeque::new(),
            bytes: 0,
            waiting: false,
        }
    }

    /// A segment was handed over that will leave the queue at time `leaves`.
    pub(super) fn push(&mut self, bytes: u64, leaves: Instant) {
        self.segments.push_back((leaves, bytes));
        self.bytes += bytes;
    }

    /// Whether another segment may enter. If not, [`Self::deadline`] returns when it may.
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

    /// When the waiting segment may enter.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let front = self.segments.front().filter(|_| self.waiting)?;
        Some(front.0)
    }

    /// The deadline has passed, and the sender must try again.
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
    fn full_output_queue_blocks_until_its_first_segment_has_left() {
        let mut q = OutputQueue::new(3000);
        for us in [10, 20, 30] {
            assert!(q.has_room(at(0)));
            q.push(1000, at(us));
        }
        assert_eq!(q.deadline(), None, "no segment waits for room");
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

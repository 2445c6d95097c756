//! The connections that may have something to send, and whose turn it is.

use std::collections::VecDeque;

/// Segments that a connection sends before the next has its turn: a GSO packet of 64 KB takes 44 of 1460 bytes.
/// (Linux `sch_fq` lets a flow send 2 segments in one turn, and 10 in its first.)
const QUANTUM: u32 = 64;

/// The slots of connections that may have something to send, each once; that is for the caller to see to.
/// They take turns, so that one with much to send does not delay the others.
#[derive(Debug, Default)]
pub(super) struct Ready {
    slots: VecDeque<u32>,
    /// Segments that the first one has sent in its turn.
    sent: u32,
}

impl Ready {
    /// This connection comes last.
    pub(super) fn push(&mut self, slot: u32) {
        self.slots.push_back(slot);
    }

    /// Whose turn it is.
    #[inline]
    pub(super) fn first(&self) -> Option<u32> {
        self.slots.front().copied()
    }

    /// The first has sent a segment; after [`QUANTUM`] of them it comes last.
    #[inline]
    pub(super) fn on_sent(&mut self) {
        self.sent += 1;
        if self.sent == QUANTUM {
            self.sent = 0;
            self.slots.rotate_left(usize::from(self.slots.len() > 1));
        }
    }

    /// The first has nothing more to send.
    #[inline]
    pub(super) fn remove_first(&mut self) {
        self.sent = 0;
        self.slots.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_with_much_to_send_gives_way_after_its_quantum() {
        let mut ready = Ready::default();
        for slot in [7, 8, 9] {
            ready.push(slot);
        }
        let mut order = Vec::new();
        for _ in 0..3 * QUANTUM + 1 {
            order.push(ready.first().unwrap());
            ready.on_sent();
        }
        order.dedup();
        assert_eq!(order, [7, 8, 9, 7]);
    }

    #[test]
    fn a_connection_that_comes_first_early_has_a_whole_turn() {
        let mut ready = Ready::default();
        for slot in [7, 8] {
            ready.push(slot);
        }
        ready.on_sent();
        ready.remove_first();
        ready.push(9);
        for _ in 0..QUANTUM {
            assert_eq!(ready.first(), Some(8));
            ready.on_sent();
        }
        assert_eq!(ready.first(), Some(9));
    }
}

//! The connections that may have something to send, and whose turn it is.

use std::collections::VecDeque;

/// Segments on the wire that a connection may send before the next connection has its turn. A burst of 64 KB is
/// cut into 44 segments of 1460 bytes. (Linux `sch_fq` lets a flow send 2 segments in one turn, and 10 in its
/// first.)
const QUANTUM: u32 = 64;

/// Segments on the wire that new connections may send before a backlogged connection has a turn again. However
/// many new connections follow each other, backlogged connections send at least a seventh of all segments.
const AHEAD: u32 = 4 * QUANTUM;

/// The slots of connections that may have something to send. The caller ensures that each slot is in here at
/// most once.
///
/// Connections take turns, so that a connection with much to send does not delay the others. A new connection
/// has its turn before connections that have used up a turn and have more to send (RFC 8290, section 4.2: the
/// list of new queues). A short answer therefore does not wait until each long transfer has had its turn.
#[derive(Debug, Default)]
pub(super) struct Ready {
    /// Connections that have had no turn since they were added.
    new: VecDeque<u32>,
    /// Connections that have had a turn and have more to send.
    backlogged: VecDeque<u32>,
    /// The current turn, if one has begun.
    turn: Option<Turn>,
    /// Segments that new connections have sent since the last turn of a backlogged connection, counted while a
    /// backlogged connection waits.
    ahead: u32,
}

#[derive(Clone, Copy, Debug)]
struct Turn {
    slot: u32,
    new: bool,
    /// Segments sent in this turn.
    sent: u32,
}

impl Turn {
    /// The turn of a new connection.
    fn new(slot: u32) -> Self {
        Self {
            slot,
            new: true,
            sent: 0,
        }
    }
}

impl Ready {
    /// Adds a connection, which counts as new. If no other connection has something to send, its turn begins at
    /// once and no queue is touched. This is nearly always so in a simulation, where each host has few
    /// connections.
    #[inline]
    pub(super) fn push(&mut self, slot: u32) {
        if self.turn.is_none() && self.new.is_empty() && self.backlogged.is_empty() {
            self.turn = Some(Turn::new(slot));
        } else {
            self.new.push_back(slot);
        }
    }

    /// The slot of the connection whose turn it is.
    #[inline]
    pub(super) fn first(&mut self) -> Option<u32> {
        if self.turn.is_none() && !(self.new.is_empty() && self.backlogged.is_empty()) {
            self.turn = self.next_turn();
        }
        self.turn.map(|t| t.slot)
    }

    #[inline(never)] // only with several connections
    fn next_turn(&mut self) -> Option<Turn> {
        let new = self.backlogged.is_empty() || (self.ahead < AHEAD && !self.new.is_empty());
        let from = if new {
            &mut self.new
        } else {
            &mut self.backlogged
        };
        let slot = from.pop_front()?;
        Some(Turn {
            new,
            ..Turn::new(slot)
        })
    }

    /// The connection whose turn it is has sent this many segments, as counted on the wire. After [`QUANTUM`]
    /// of them its turn is over.
    #[inline]
    pub(super) fn on_sent(&mut self, segments: u32) {
        let Some(turn) = &mut self.turn else {
            return;
        };
        turn.sent += segments;
        if turn.sent >= QUANTUM {
            self.give_way();
        }
    }

    /// The connection whose turn it is has used up its turn, and has more to send.
    #[cold] // only with several connections
    fn give_way(&mut self) {
        let slot = self.turn.map(|t| t.slot);
        self.end_turn();
        self.backlogged.extend(slot);
    }

    /// The connection whose turn it is has nothing more to send.
    #[inline]
    pub(super) fn remove_first(&mut self) {
        self.end_turn();
    }

    #[inline]
    fn end_turn(&mut self) {
        if let Some(turn) = self.turn.take() {
            let waits = turn.new && !self.backlogged.is_empty();
            self.ahead = if waits { self.ahead + turn.sent } else { 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_with_much_to_send_yields_after_its_quantum() {
        let mut ready = Ready::default();
        for slot in [7, 8, 9] {
            ready.push(slot);
        }
        let mut order = Vec::new();
        for _ in 0..3 * QUANTUM + 1 {
            order.push(ready.first().unwrap());
            ready.on_sent(1);
        }
        order.dedup();
        assert_eq!(order, [7, 8, 9, 7]);
    }

    #[test]
    fn burst_counts_as_its_segments_on_the_wire() {
        let mut ready = Ready::default();
        for slot in [7, 8] {
            ready.push(slot);
        }
        let order = [(); 4].map(|()| {
            let first = ready.first();
            ready.on_sent(44);
            first
        });
        assert_eq!(order, [7, 7, 8, 8].map(Some));
    }

    #[test]
    fn new_connection_has_its_turn_before_backlogged_ones() {
        let mut ready = Ready::default();
        for slot in [7, 8] {
            ready.push(slot);
        }
        for slot in [7, 8] {
            assert_eq!(ready.first(), Some(slot));
            ready.on_sent(QUANTUM);
        }
        assert_eq!(ready.first(), Some(7), "its second turn begins");
        ready.push(9);
        ready.on_sent(QUANTUM);
        assert_eq!(ready.first(), Some(9));
        ready.on_sent(1);
        ready.remove_first();
        assert_eq!(ready.first(), Some(8));
    }

    #[test]
    fn endless_new_connections_leave_a_seventh_to_a_backlogged_one() {
        let mut ready = Ready::default();
        ready.push(7);
        assert_eq!(ready.first(), Some(7));
        ready.on_sent(QUANTUM);
        let (mut backlogged, mut all) = (0, 0);
        for n in 0..102 {
            ready.push(1000 + n);
            let first = ready.first();
            ready.on_sent(QUANTUM - 1);
            all += QUANTUM - 1;
            if first == Some(7) {
                backlogged += QUANTUM - 1;
                // The rest of its turn.
                ready.on_sent(1);
            } else {
                ready.remove_first();
            }
        }
        assert!(backlogged * 7 >= all, "{backlogged} of {all}");
        assert!(backlogged * 4 <= all, "{backlogged} of {all}");
    }

    #[test]
    fn segments_of_new_connections_do_not_count_while_none_is_backlogged() {
        let mut ready = Ready::default();
        for n in 0..1000 {
            ready.push(n);
            assert_eq!(ready.first(), Some(n));
            ready.on_sent(QUANTUM - 1);
            ready.remove_first();
        }
        assert_eq!(ready.ahead, 0);
    }

    #[test]
    fn connection_has_a_whole_turn_after_another_ends_its_turn_early() {
        let mut ready = Ready::default();
        for slot in [7, 8] {
            ready.push(slot);
        }
        assert_eq!(ready.first(), Some(7));
        ready.on_sent(1);
        ready.remove_first();
        for _ in 0..QUANTUM {
            assert_eq!(ready.first(), Some(8));
            ready.on_sent(1);
        }
        ready.push(9);
        assert_eq!(ready.first(), Some(9));
    }
}

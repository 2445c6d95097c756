//! Outstanding segments in order of transmission time, as RACK needs them (RFC 8985, section 6.2, step 5).
//!
//! Segments that were transmitted once are already in that order in the queue. Only segments that were
//! transmitted more than once are also kept in a separate, ordered set.

use spindle_units::{Duration, Instant};

use super::{Scoreboard, Sent};
use crate::types::SubflowPosition;

/// Decides which of two transmissions was later: by time of transmission, then by the segment's end.
pub(crate) type SentOrder = (Instant, SubflowPosition);

impl Sent {
    /// Whether the segment was transmitted once and is believed to be neither lost nor delivered.
    fn is_fresh(&self) -> bool {
        self.transmissions == 1 && !self.sacked && !self.lost
    }

    fn order(&self) -> SentOrder {
        (self.sent_at, self.end())
    }
}

impl Scoreboard {
    /// The index of the first segment that was transmitted once and is neither lost nor delivered.
    pub(super) fn first_fresh(&mut self) -> Option<usize> {
        let mut i = self.count_below(self.fresh_from);
        while let Some(s) = self.queue.get(i) {
            self.steps.add(1);
            self.fresh_from = s.start;
            if s.is_fresh() {
                return Some(i);
            }
            i = match s.sacked {
                true => self.behind_sacked(s.start),
                false => i + 1,
            };
        }
        self.fresh_from = self.end;
        None
    }

    /// Marks segments as lost that were transmitted once and end at or below `end`. Returns their bytes.
    pub(crate) fn lose_fresh_below(&mut self, end: SubflowPosition) -> u64 {
        let mut bytes = 0;
        while let Some(i) = self.first_fresh()
            && self.queue[i].end() <= end
        {
            bytes += self.queue[i].seq_len();
            self.mark_lost_at(i);
        }
        bytes
    }

    /// Among the segments in flight that were transmitted more than once: the index of the one whose last
    /// transmission is the oldest.
    pub(super) fn first_repeat(&self) -> Option<usize> {
        let (_, end) = self.repeats.first()?;
        self.index_of(end.checked_sub(1)?)
    }

    /// Marks the segments as lost that were sent before `newest` and at least `wait` ago. Returns their bytes,
    /// and the time at which `wait` will have passed for all other segments sent before `newest`.
    pub(crate) fn lose_older(
        &mut self,
        newest: SentOrder,
        wait: Duration,
        now: Instant,
    ) -> (u64, Option<Instant>) {
        let mut bytes = 0;
        let is_due = |s: &Sent| s.sent_at + wait <= now;
        let is_older = |s: &Sent| s.order() < newest;
        let mut last_fresh = None;
        while let Some(i) = self.first_fresh() {
            let s = &self.queue[i];
            if !is_older(s) {
                break;
            }
            if !is_due(s) {
                last_fresh = self.last_fresh_before(newest, i);
                break;
            }
            bytes += s.seq_len();
            self.mark_lost_at(i);
        }
        while let Some(i) = self.first_repeat() {
            self.steps.add(1);
            let s = &self.queue[i];
            if !is_older(s) || !is_due(s) {
                break;
            }
            bytes += s.seq_len();
            self.mark_lost_at(i);
        }
        let last_repeat = self.repeats.range(..newest).next_back().map(|r| r.0);
        let last = last_fresh.max(last_repeat);
        (bytes, last.map(|sent_at| sent_at + wait))
    }

    /// Send time of the last fresh segment before `newest`. `first` is the index of the first fresh segment.
    fn last_fresh_before(&self, newest: SentOrder, first: usize) -> Option<Instant> {
        let mut i = self
            .queue
            .partition_point(|s| (s.first_sent_at, s.end()) < newest);
        while i > first {
            self.steps.add(1);
            let s = &self.queue[i - 1];
            if s.is_fresh() {
                return Some(s.sent_at);
            }
            i = match self.sacked_ranges.containing(s.start) {
                Some((start, _)) => self.count_below(start),
                None => i - 1,
            };
        }
        None
    }

    /// Recounts the ranges and the ordered set. Only for consistency checks.
    #[cfg(any(test, debug_assertions))]
    pub(super) fn check_order(&self) {
        let ranges = |f: fn(&Sent) -> bool| {
            let mut ranges = crate::ranges::Ranges::default();
            let marked = self.queue.iter().filter(|s| f(s));
            marked.for_each(|s| ranges.insert(s.start, s.end()));
            ranges
        };
        assert_eq!(self.sacked_ranges, ranges(|s| s.sacked), "SACKed ranges");
        let awaiting = ranges(Sent::awaits_retransmission);
        assert_eq!(self.awaiting, awaiting, "ranges to be repeated");
        let repeats = self.queue.iter().filter(|s| s.is_repeat_in_flight());
        let repeats = repeats.map(Sent::order).collect();
        assert_eq!(self.repeats, repeats, "repeats in flight");
        let passed = self.queue.iter().filter(|s| s.start < self.fresh_from);
        assert_eq!(passed.filter(|s| s.is_fresh()).count(), 0, "fresh segments");
        let sorted = self.queue.iter().map(|s| s.first_sent_at);
        assert!(sorted.is_sorted(), "first sent in order");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use spindle_wire::Payload;

    use super::*;
    use crate::types::DataOffset;

    /// The segments that [`Scoreboard::lose_older`] marks and its second result, computed by a scan of all
    /// segments.
    fn looked_for(
        board: &Scoreboard,
        newest: SentOrder,
        wait: Duration,
        now: Instant,
    ) -> (Vec<SubflowPosition>, Option<Instant>) {
        let older = |s: &&Sent| !s.sacked && !s.awaits_retransmission() && s.order() < newest;
        let (due, later): (Vec<_>, Vec<_>) = board
            .queue
            .iter()
            .filter(older)
            .partition(|s| s.sent_at + wait <= now);
        let lost = due.iter().map(|s| s.start).collect();
        (lost, later.iter().map(|s| s.sent_at + wait).max())
    }

    proptest! {
        #[test]
        fn lose_older_marks_the_same_segments_as_a_full_scan(
            steps in prop::collection::vec((0u8..10, 0u64..4000, 1u64..600), 1..80),
        ) {
            let mut board = Scoreboard::default();
            let (mut end, mut now) = (SubflowPosition::FIRST_BYTE, Instant::ZERO);
            let mut newest = (Instant::ZERO, SubflowPosition::SYN);
            for (what, number, len) in steps {
                now += Duration::from_nanos(number % 3);
                let at = SubflowPosition(number);
                match what {
                    0..=3 => {
                        board.push(Sent::new(end, Payload::Length(len as u32), now));
                        end += len;
                    }
                    4 => newest = newest.max(board.sack(at, at + len).newest.map_or(newest, |n| (n.0, n.1))),
                    5 => newest = newest.max(board.acknowledge(SubflowPosition(at.min(end).0 / 4), DataOffset::MAX).newest.map_or(newest, |n| (n.0, n.1))),
                    6 => { board.repeat(at, now); }
                    7 => match len % 4 {
                        0 => { board.clear_lost(); }
                        1 => board.mark_all_lost(number % 2 == 0),
                        2 => board.split(at, len as usize),
                        _ => { board.resegment(100 + len as usize); }
                    },
                    8 => { board.mark_lost_below(at); }
                    _ => { board.mark_lost(at); }
                }
                board.check();
                prop_assert_eq!(board.next_lost(), board.queue.iter().find(|s| s.awaits_retransmission()).map(|s| s.start));
                let unsacked = board.queue.iter().rev().find(|s| !s.sacked);
                let unsacked = unsacked.and_then(|s| (!s.repeated).then_some(s.start));
                prop_assert_eq!(board.last_unsacked(), unsacked);
                let wait = Duration::from_nanos(len % 8);
                let (lost, again) = looked_for(&board, newest, wait, now);
                let before = board.clone();
                let (bytes, found) = board.lose_older(newest, wait, now);
                let marked = board.queue.iter().zip(&before.queue).filter(|(a, b)| a.awaits_retransmission() && !b.awaits_retransmission());
                let marked: Vec<_> = marked.map(|(a, _)| a).collect();
                prop_assert_eq!(marked.iter().map(|s| s.start).collect::<Vec<_>>(), lost);
                prop_assert_eq!(marked.iter().map(|s| s.seq_len()).sum::<u64>(), bytes);
                prop_assert_eq!(found, again);
                board.check();
            }
        }
    }
}

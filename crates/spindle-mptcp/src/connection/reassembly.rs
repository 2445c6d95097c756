//! The data level's receiving side: one buffer over all subflows, ordered by data offset.

use std::collections::{BTreeMap, VecDeque};

use spindle_wire::Payload;

use crate::steps::Steps;
use crate::subflow::receiver::part;
use crate::types::DataOffset;

/// The receive buffer.
#[derive(Debug)]
pub(crate) struct Reassembly {
    /// Next offset expected.
    nxt: DataOffset,
    out_of_order: BTreeMap<DataOffset, Payload>,
    ready: VecDeque<Payload>,
    ready_bytes: u64,
    capacity: u64,
    /// Right edge of the announced window. It never moves back.
    announced: DataOffset,
    /// Bytes beyond the right edge were dropped.
    overrun: bool,
    /// The end of the stream. No data beyond it are accepted.
    end: Option<DataOffset>,
    /// Bytes in `out_of_order`.
    waiting_bytes: u64,
    /// The right edge does not move, because the stack's memory is short.
    pressed: bool,
    /// Loop iterations over stored data.
    pub(crate) steps: Steps,
}

/// Maximum number of pieces stored out of order. A peer that sends smaller pieces has to retransmit some of
/// them.
const MAX_PIECES: usize = 8192;

impl Reassembly {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            nxt: DataOffset::START,
            out_of_order: BTreeMap::new(),
            ready: VecDeque::new(),
            ready_bytes: 0,
            capacity: capacity as u64,
            announced: DataOffset::START + capacity as u64,
            overrun: false,
            end: None,
            waiting_bytes: 0,
            pressed: false,
            steps: Steps::default(),
        }
    }

    /// Enlarges the buffer to `capacity` bytes. Never shrinks it.
    pub(crate) fn grow_to(&mut self, capacity: u64) {
        self.capacity = self.capacity.max(capacity);
    }

    /// Next offset expected: the data-level acknowledgement.
    pub(crate) fn next(&self) -> DataOffset {
        self.nxt
    }

    /// Bytes the application may read now.
    pub(crate) fn readable(&self) -> u64 {
        self.ready_bytes
    }

    /// Whether bytes were ever dropped because they were beyond the window. The peer's data level has to
    /// retransmit them, whatever the subflow acknowledged.
    pub(crate) fn overrun(&self) -> bool {
        self.overrun
    }

    /// Right edge of the announced window, as a data offset.
    pub(crate) fn edge(&self) -> DataOffset {
        self.announced
    }

    /// Ends the stream at `end`, unless data beyond it were already delivered. Stored data beyond it are
    /// dropped, and no more are accepted. Only the first end counts.
    pub(crate) fn end_at(&mut self, end: DataOffset) {
        if self.end.is_some() || end < self.nxt {
            return;
        }
        self.end = Some(end);
        for gone in self.out_of_order.split_off(&end).values() {
            self.waiting_bytes -= gone.len() as u64;
        }
        if let Some(mut last) = self.out_of_order.last_entry() {
            let (len, within) = (last.get().len(), (end - *last.key()) as usize);
            if within < len {
                self.waiting_bytes -= (len - within) as u64;
                let rest = part(last.get(), 0, within);
                last.insert(rest);
            }
        }
    }

    /// Whether more out-of-order data may be stored. They may not while the stack's memory is short, because
    /// the peer keeps them until they are acknowledged.
    pub(crate) fn has_room(&self) -> bool {
        !self.pressed && self.out_of_order.len() < MAX_PIECES
    }

    /// Stores `payload` at `offset`. Returns how many of its bytes are new. Of duplicate bytes the first ones
    /// are kept. Bytes beyond the announced window are dropped.
    pub(crate) fn insert(&mut self, offset: DataOffset, payload: Payload) -> u64 {
        let last = self.end.unwrap_or(DataOffset::MAX);
        if offset >= last {
            return 0;
        }
        // A peer's mapping can produce any offset, so this check precedes the addition below.
        if offset >= self.announced {
            self.overrun |= !payload.is_empty();
            return 0;
        }
        let end = (offset + payload.len() as u64).min(last);
        self.overrun |= end > self.announced;
        let end = end.min(self.announced);
        let start = offset.max(self.nxt);
        if end <= start {
            return 0;
        }
        let cut = |from: DataOffset, to: DataOffset| {
            part(&payload, (from - offset) as usize, (to - from) as usize)
        };
        let first = self.out_of_order.first_key_value().map(|(s, _)| *s);
        if start == self.nxt && first.is_none_or(|s| s >= end) {
            self.push_ready(cut(start, end));
            if first.is_some() {
                self.drain();
            }
            return end - start;
        }
        self.insert_apart(offset, &payload, (start, end))
    }

    /// Stores the bytes of `payload` from `start` to `end`. `payload` begins at `offset`. Called if bytes
    /// before `start` are missing, or if stored pieces begin before `end`.
    #[inline(never)] // out-of-order data
    fn insert_apart(
        &mut self,
        offset: DataOffset,
        payload: &Payload,
        (start, end): (DataOffset, DataOffset),
    ) -> u64 {
        let cut = |from: DataOffset, to: DataOffset| {
            part(payload, (from - offset) as usize, (to - from) as usize)
        };
        let mut fresh = 0;
        for (from, to) in self.gaps(start, end) {
            fresh += to - from;
            self.waiting_bytes += to - from;
            self.out_of_order.insert(from, cut(from, to));
        }
        self.drain();
        fresh
    }

    fn push_ready(&mut self, piece: Payload) {
        self.nxt += piece.len() as u64;
        self.ready_bytes += piece.len() as u64;
        // Lengths are not merged, so that a read returns as much as it would with real bytes.
        self.ready.push_back(piece);
    }

    fn drain(&mut self) {
        while let Some(first) = self.out_of_order.first_entry() {
            self.steps.add(1);
            let start = *first.key();
            if start > self.nxt {
                break;
            }
            let piece = first.remove();
            self.waiting_bytes -= piece.len() as u64;
            let skip = (self.nxt - start) as usize;
            if skip < piece.len() {
                let rest = piece.slice(skip, piece.len() - skip);
                self.push_ready(rest);
            }
        }
    }

    /// The parts of `[start, end)` that are not stored.
    fn gaps(&self, start: DataOffset, end: DataOffset) -> Vec<(DataOffset, DataOffset)> {
        let mut gaps = Vec::new();
        let mut at = start;
        let before = self.out_of_order.range(..=start).next_back();
        let others = self.out_of_order.range(start + 1..end);
        for (&s, p) in self.steps.each(before.into_iter().chain(others)) {
            let e = s + p.len() as u64;
            if e <= at {
                continue;
            }
            if s > at {
                gaps.push((at, s));
            }
            at = at.max(e);
        }
        if at < end {
            gaps.push((at, end));
        }
        gaps
    }

    /// Returns at most `max` bytes for the application.
    pub(crate) fn read(&mut self, max: usize) -> Option<Payload> {
        if max == 0 {
            return None;
        }
        let front = self.ready.front_mut()?;
        let piece = if front.len() > max {
            let head = front.slice(0, max);
            *front = front.slice(max, front.len() - max);
            head
        } else {
            self.ready.pop_front()?
        };
        self.ready_bytes -= piece.len() as u64;
        Some(piece)
    }

    /// The window to announce now, in bytes from [`Self::next`]. It grows only in large steps (RFC 9293,
    /// section 3.8.6.2.2): a segment or half the buffer.
    pub(crate) fn window(&mut self, mss: u64) -> u64 {
        let edge = self.nxt + self.capacity.saturating_sub(self.ready_bytes);
        if !self.pressed && edge >= self.announced + mss.min(self.capacity / 2) {
            self.announced = edge;
        }
        self.announced - self.nxt.min(self.announced)
    }

    /// Whether reading has opened the window so far that an immediate window update is due.
    pub(crate) fn update_due(&self, mss: u64) -> bool {
        let edge = self.nxt + self.capacity.saturating_sub(self.ready_bytes);
        let closed = self.announced - self.nxt.min(self.announced);
        let step = (2 * mss).min(self.capacity / 2);
        !self.pressed && closed < step && edge >= self.announced + step
    }

    /// Gives back memory that is not in use.
    pub(crate) fn shed(&mut self) {
        self.ready.shrink_to_fit();
    }

    /// Drops all stored data, because the connection has ended.
    pub(crate) fn discard(&mut self) {
        self.ready = VecDeque::new();
        self.out_of_order = BTreeMap::new();
        (self.ready_bytes, self.waiting_bytes) = (0, 0);
    }

    /// Bytes and pieces stored.
    pub(crate) fn stored(&self) -> (u64, usize) {
        let pieces = self.ready.len() + self.out_of_order.len();
        (self.ready_bytes + self.waiting_bytes, pieces)
    }

    /// Whether the stack's memory is short.
    pub(crate) fn is_pressed(&self) -> bool {
        self.pressed
    }

    /// Sets whether the right edge is kept from moving. Returns whether the peer needs a window update, because
    /// its window is closed and the memory shortage is over.
    pub(crate) fn set_pressed(&mut self, pressed: bool) -> bool {
        let eased = std::mem::replace(&mut self.pressed, pressed) && !pressed;
        eased && self.announced <= self.nxt
    }

    /// All bytes held.
    #[cfg(test)]
    pub(crate) fn held_bytes(&self) -> u64 {
        self.ready_bytes
            + self
                .out_of_order
                .values()
                .map(|p| p.len() as u64)
                .sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(from: u64, len: u64) -> Payload {
        Payload::from(
            (from..from + len)
                .map(|x| (x % 251) as u8)
                .collect::<Vec<u8>>(),
        )
    }

    proptest! {
        #[test]
        fn each_byte_is_read_once_in_any_input_order(pieces in prop::collection::vec((0u64..300, 1u64..60), 1..80),
                                                     reads in prop::collection::vec(0usize..64, 0..80)) {
            let mut r = Reassembly::new(400);
            let mut fresh = 0;
            let mut read = Vec::new();
            let mut reads = reads.into_iter();
            for (offset, len) in pieces {
                fresh += r.insert(DataOffset(offset), bytes(offset, len));
                r.window(10);
                if let Some(max) = reads.next() && let Some(Payload::Bytes(b)) = r.read(max) {
                    read.extend_from_slice(&b);
                }
                prop_assert!(r.held_bytes() <= 400 + 60);
                prop_assert_eq!(fresh, read.len() as u64 + r.held_bytes());
            }
            while let Some(Payload::Bytes(b)) = r.read(7) {
                read.extend_from_slice(&b);
            }
            let wanted: Vec<u8> = (0..r.next().since_start()).map(|x| (x % 251) as u8).collect();
            prop_assert_eq!(read, wanted);
        }
    }

    #[test]
    fn data_beyond_the_end_are_dropped() {
        let mut r = Reassembly::new(10_000);
        for (at, len) in [(10, 10), (30, 10), (50, 10)] {
            assert_eq!(r.insert(DataOffset(at), bytes(at, len)), len);
        }
        r.end_at(DataOffset(35));
        r.end_at(DataOffset(12));
        assert_eq!(r.stored(), (15, 2));
        assert_eq!(r.insert(DataOffset(5), bytes(5, 100)), 15);
        assert_eq!(r.insert(DataOffset(35), bytes(35, 10)), 0);
        assert_eq!(r.insert(DataOffset(20_000), bytes(0, 10)), 0);
        assert!(!r.overrun(), "bytes beyond the end are no overrun");
        assert_eq!(r.insert(DataOffset(0), bytes(0, 5)), 5);
        assert_eq!((r.next(), r.stored().0), (DataOffset(35), 35));
    }

    #[test]
    fn first_of_duplicate_bytes_is_kept() {
        let mut r = Reassembly::new(10_000);
        let of = |x: u8, len| Payload::from(vec![x; len]);
        assert_eq!(r.insert(DataOffset(2), of(1, 2)), 2);
        assert_eq!(r.insert(DataOffset(0), of(2, 6)), 4);
        let mut read = Vec::new();
        while let Some(p) = r.read(10) {
            read.extend_from_slice(&p.to_bytes());
        }
        assert_eq!(read, [2, 2, 1, 1, 2, 2]);
    }

    #[test]
    fn window_opens_only_in_large_steps() {
        let mut r = Reassembly::new(10_000);
        assert_eq!(r.window(1000), 10_000);
        assert_eq!(r.insert(DataOffset(0), Payload::Length(10_000)), 10_000);
        assert_eq!(r.window(1000), 0);
        r.read(500);
        assert_eq!(r.window(1000), 0, "no silly window");
        assert!(!r.update_due(1000));
        r.read(1500);
        assert!(r.update_due(1000));
        assert_eq!(r.window(1000), 2000);
    }
}

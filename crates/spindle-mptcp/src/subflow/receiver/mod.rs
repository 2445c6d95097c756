//! The receiving half of a subflow: sequence space, reassembly, SACK blocks, acknowledgement
//! policy, and the mappings that turn subflow positions into data offsets.
//!
//! Positions count from the peer's ISN (its SYN is 0, its first byte 1).

mod delivery;

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use spindle_units::{Duration, Instant, prefetch};
use spindle_wire::Payload;

pub(crate) use delivery::{Deliverable, DeliveryRules, NextInOrder};

use crate::steps::Steps;
use crate::types::{DataOffset, MappingDelta, SubflowPosition};

/// How a subflow's bytes map to the data stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mapped {
    /// Data offset of the requested position, and the number of contiguously mapped bytes from there on.
    Run { offset: DataOffset, len: u64 },
    /// No mapping covers the position.
    Unmapped,
}

/// A mapping received in a DSS option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReceivedMap {
    pub(crate) start: SubflowPosition,
    pub(crate) len: u64,
    pub(crate) offset: DataOffset,
    pub(crate) checksum: Option<u16>,
}

impl ReceivedMap {
    fn end(&self) -> SubflowPosition {
        self.start + self.len
    }

    /// Data offset minus position of its bytes.
    pub(crate) fn delta(&self) -> MappingDelta {
        MappingDelta::between(self.offset, self.start)
    }
}

/// Received bytes that may be passed up: (subflow position, bytes).
pub(crate) type Piece = (SubflowPosition, Payload);

/// The pieces of one segment. Most segments have one piece, which needs no allocation.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    first: Option<Piece>,
    rest: Vec<Piece>,
}

impl Pieces {
    fn push(&mut self, piece: Piece) {
        if self.first.is_none() {
            self.first = Some(piece);
        } else {
            self.rest.push(piece);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }
}

impl IntoIterator for Pieces {
    type Item = Piece;
    type IntoIter = std::iter::Chain<std::option::IntoIter<Piece>, std::vec::IntoIter<Piece>>;

    fn into_iter(self) -> Self::IntoIter {
        self.first.into_iter().chain(self.rest)
    }
}

/// `len` bytes of `payload` from `start` on. If they are less than half of the payload, or few bytes, they are
/// copied. Otherwise a peer that repeats itself could make each new byte keep a whole packet in memory, which
/// is not accounted for.
pub(crate) fn part(payload: &Payload, start: usize, len: usize) -> Payload {
    match payload.slice(start, len) {
        Payload::Bytes(b) if b.len() <= SMALL || 2 * b.len() < payload.len() => {
            Payload::Bytes(Bytes::copy_from_slice(&b))
        }
        whole => whole,
    }
}

/// Up to this many bytes, a copy costs little compared with its allocation, and the packet they belong to may
/// have any size.
const SMALL: usize = 256;

/// An out-of-order range that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Received {
    start: SubflowPosition,
    end: SubflowPosition,
    /// The change that created the range in its current form.
    change: u64,
}

/// The range that begins at `start`, if its current form was created by `change`.
fn range_of(
    ranges: &[Received],
    (start, change): (SubflowPosition, u64),
) -> Option<(SubflowPosition, SubflowPosition)> {
    let i = ranges.binary_search_by_key(&start, |r| r.start).ok()?;
    let r = ranges.get(i).filter(|r| r.change == change)?;
    Some((r.start, r.end))
}

/// Number of outdated entries that are kept before all outdated entries are removed.
const RECENT: usize = 16;
/// Limits on what a peer can make the receiver store in addition to the bytes themselves.
const MAX_PIECES: usize = 4096;
const MAX_MAPS: usize = 4096;
/// Maximum number of mappings that a new mapping may overlap. A mapping of 64 KB may overlap those of segments
/// of 256 bytes. Honest mappings overlap few others, since retransmitted data keep their mapping (RFC 8684,
/// section 3.3.1).
const MAX_OVERLAPS: usize = 256;
/// For a larger window, one mapping is allowed per this many bytes, since each packet may have its own mapping.
const MAPPED_AT_LEAST: u64 = 1024;

/// The receiver.
#[derive(Debug, Default)]
pub(crate) struct Receiver {
    /// Next position expected in order.
    pub(crate) nxt: SubflowPosition,
    /// Out-of-order ranges received, sorted, disjoint, not adjacent.
    ranges: Vec<Received>,
    /// The ranges by start and change number, most recently changed first (RFC 2018, section 4). Entries whose
    /// range has changed since are removed when they are found.
    recent: VecDeque<(SubflowPosition, u64)>,
    /// Number of range changes so far.
    changes: u64,
    /// A duplicate to be reported by D-SACK with the next acknowledgement (RFC 2883).
    duplicate: Option<(SubflowPosition, SubflowPosition)>,
    /// Payload that has not been passed up yet: position -> bytes, disjoint.
    held: BTreeMap<SubflowPosition, Payload>,
    held_bytes: u64,
    /// Position of the peer's FIN, once seen.
    pub(crate) fin: Option<SubflowPosition>,
    maps: VecDeque<ReceivedMap>,
    /// The delta of the last removed mapping.
    forgotten_delta: Option<MappingDelta>,
    /// Everything below has been passed up. Its mappings are no longer needed.
    released: SubflowPosition,
    /// Segments since the last acknowledgement.
    unacked_segments: u32,
    /// Bytes of a full segment, for counting coalesced segments. 0 means that each packet counts as one
    /// segment.
    pub(crate) segment: usize,
    /// Round-trip time measured by the receiver, and the echoed timestamp of the last measurement.
    rtt: Option<(Duration, u32)>,
    /// Since when data have been missing before data that arrived.
    hole_since: Option<Instant>,
    /// Segments that filled a hole so late that they were retransmissions.
    pub(crate) repaired: u64,
    /// Work done on data that the peer made the receiver store.
    pub(crate) steps: Steps,
    /// An acknowledgement is due now.
    pub(crate) ack_now: bool,
    /// An acknowledgement is due by this time.
    pub(crate) ack_by: Option<Instant>,
    /// ECN. Classic: CE was seen, and CWR was not seen yet. DCTCP: the last data segment had CE.
    pub(crate) ece: bool,
}

impl Receiver {
    /// The SYN took position 0.
    pub(crate) fn established(&mut self) {
        self.nxt = SubflowPosition::FIRST_BYTE;
    }

    /// Smoothed round-trip time measured with echoed timestamps. It includes the peer's waiting time.
    pub(crate) fn rtt(&self) -> Option<Duration> {
        self.rtt.map(|(rtt, _)| rtt)
    }

    /// Data arrived that echo our timestamp `echo`. `clock` is the current value of the same 1 ms clock. The
    /// acknowledgement with that timestamp allowed the peer to send these data (RFC 7323, section 4.1, from the
    /// receiver's point of view).
    #[inline(never)] // only with autotuning
    pub(crate) fn measure_rtt(&mut self, clock: u32, echo: u32) {
        let elapsed = clock.wrapping_sub(echo);
        let seen = self.rtt.is_some_and(|(_, last)| last == echo);
        // More than a minute is not a round trip.
        if seen || elapsed > 60_000 {
            return;
        }
        let sample = Duration::from_millis(u64::from(elapsed.max(1)));
        let smoothed = self.rtt.map_or(sample, |(rtt, _)| (rtt * 7 + sample) / 8);
        self.rtt = Some((smoothed, echo));
    }

    /// Whether everything up to the peer's FIN has arrived.
    pub(crate) fn fin_reached(&self) -> bool {
        self.fin.is_some_and(|f| self.nxt > f)
    }

    /// Whether the position of the peer's FIN is known, reached or not.
    #[inline]
    pub(crate) fn knows_fin(&self) -> bool {
        self.fin.is_some()
    }

    /// Whether another out-of-order piece may be stored.
    pub(crate) fn has_room(&self) -> bool {
        self.held.len() < MAX_PIECES && self.ranges.len() < MAX_PIECES
    }

    /// The end of the data that have arrived out of order, if there are any.
    #[inline]
    pub(crate) fn holes_end(&self) -> Option<SubflowPosition> {
        self.ranges.last().map(|r| r.end)
    }

    /// Data arrived while others were missing, or are missing now. With `fills`, they were among the missing ones. They
    /// count as a repair if they come half a `round_trip` after the hole was found: reordering does not take so long.
    #[inline(never)] // out-of-order data
    pub(crate) fn watch_holes(&mut self, now: Instant, fills: bool, round_trip: Option<Duration>) {
        let late = |since: Instant| round_trip.is_some_and(|rtt| now.since(since) >= rtt / 2);
        self.repaired += u64::from(fills && self.hole_since.is_some_and(late));
        self.hole_since = match self.ranges.is_empty() {
            true => None,
            false => self.hole_since.or(Some(now)),
        };
    }

    /// Processes payload at `start`. The new part is recorded as received and returned in pieces. The caller
    /// must cut off parts outside the window.
    pub(crate) fn accept(&mut self, start: SubflowPosition, payload: &Payload) -> Pieces {
        let end = start + payload.len() as u64;
        if payload.is_empty() {
            return Pieces::default();
        }
        self.unacked_segments += match self.segment {
            0 => 1,
            // Segments that the system coalesced count individually, as they were sent.
            n => payload.len().div_ceil(n) as u32,
        };
        if end <= self.nxt {
            self.duplicate = Some((start, end));
            self.ack_now = true;
            return Pieces::default();
        }
        if start <= self.nxt && self.ranges.is_empty() {
            let skip = (self.nxt - start) as usize;
            let piece = (self.nxt, part(payload, skip, payload.len() - skip));
            self.nxt = end;
            return Pieces {
                first: Some(piece),
                rest: Vec::new(),
            };
        }
        self.accept_beyond(start, end, payload)
    }

    /// Processes payload if data before it are missing or data after it have arrived.
    #[inline(never)] // out-of-order data
    fn accept_beyond(
        &mut self,
        start: SubflowPosition,
        end: SubflowPosition,
        payload: &Payload,
    ) -> Pieces {
        self.ack_now = true;
        let pieces = self.fresh_pieces(start, end, payload);
        if pieces.is_empty() {
            self.duplicate = Some((start, end));
        }
        self.book(start.max(self.nxt), end);
        pieces
    }

    /// The parts of `[start, end)` not received before.
    fn fresh_pieces(
        &self,
        start: SubflowPosition,
        end: SubflowPosition,
        payload: &Payload,
    ) -> Pieces {
        let mut pieces = Pieces::default();
        let mut at = start.max(self.nxt);
        let mut push = |from: SubflowPosition, to: SubflowPosition| {
            if from < to {
                let (at, len) = ((from - start) as usize, (to - from) as usize);
                pieces.push((from, part(payload, at, len)));
            }
        };
        let first = self.ranges.partition_point(|r| r.end <= at);
        for r in self.steps.each(&self.ranges[first..]) {
            if r.start >= end {
                break;
            }
            push(at, r.start.min(end));
            at = at.max(r.end);
        }
        push(at, end);
        pieces
    }

    /// Adds `[start, end)` to the received ranges and advances `nxt`.
    fn book(&mut self, start: SubflowPosition, end: SubflowPosition) {
        let first = self.ranges.partition_point(|r| r.end < start);
        let last = self.ranges.partition_point(|r| r.start <= end);
        self.changes += 1;
        let mut merged = Received {
            start,
            end,
            change: self.changes,
        };
        for r in self.steps.each(self.ranges.drain(first..last)) {
            merged.start = merged.start.min(r.start);
            merged.end = merged.end.max(r.end);
        }
        if merged.start <= self.nxt {
            self.nxt = self.nxt.max(merged.end);
        } else {
            self.ranges.insert(first, merged);
            self.recent.push_front((merged.start, merged.change));
        }
        if self.recent.len() > 2 * self.ranges.len() + RECENT {
            self.steps.add(self.recent.len());
            let ranges = &self.ranges;
            self.recent.retain(|r| range_of(ranges, *r).is_some());
        }
    }

    /// The FIN at `position` is inside the window.
    pub(crate) fn accept_fin(&mut self, position: SubflowPosition) {
        self.ack_now = true;
        if self.fin.is_none() {
            self.fin = Some(position);
        }
        self.advance_over_fin();
    }

    /// Advances over the FIN when all data before it have arrived.
    pub(crate) fn advance_over_fin(&mut self) {
        if self.fin == Some(self.nxt) {
            self.nxt += 1;
        }
    }

    /// SACK blocks for the next acknowledgement, at most `room`, with D-SACK first (RFC 2018, RFC 2883).
    pub(crate) fn sack_blocks(
        &mut self,
        room: usize,
    ) -> impl Iterator<Item = (SubflowPosition, SubflowPosition)> {
        let dsack = self.duplicate.take();
        let covering = dsack.and_then(|d| {
            let i = self.ranges.partition_point(|r| r.end < d.1);
            let r = self.ranges.get(i).filter(|r| r.start <= d.0)?;
            Some((r.start, r.end))
        });
        let mut rest = Vec::with_capacity(room);
        let mut i = 0;
        while rest.len() < room
            && let Some(recent) = self.recent.get(i)
        {
            self.steps.add(1);
            match range_of(&self.ranges, *recent) {
                Some(r) => {
                    rest.extend(Some(r).filter(|r| Some(*r) != covering));
                    i += 1;
                }
                // The entry is near the front, so removing it costs little.
                None => drop(self.recent.remove(i)),
            }
        }
        dsack.into_iter().chain(covering).chain(rest).take(room)
    }

    /// Whether there is anything to report in a SACK option.
    pub(crate) fn has_sack(&self) -> bool {
        self.duplicate.is_some() || !self.ranges.is_empty()
    }

    /// Schedules the acknowledgement of a data segment that was just processed (RFC 5681, section 4.2). It is
    /// sent at once if acknowledgements are not delayed, for every second segment, or if data are out of order.
    pub(crate) fn schedule_ack(&mut self, now: Instant, delay: Option<Duration>) {
        match delay {
            None => self.ack_now = true,
            Some(_) if self.unacked_segments >= 2 || !self.ranges.is_empty() => self.ack_now = true,
            Some(d) => {
                self.ack_by.get_or_insert(now + d);
            }
        }
    }

    /// An acknowledgement was sent.
    pub(crate) fn acked(&mut self) {
        self.unacked_segments = 0;
        self.ack_now = false;
        self.ack_by = None;
    }

    /// Releases unused memory.
    pub(crate) fn shed(&mut self) {
        self.ranges.shrink_to_fit();
        self.recent.shrink_to_fit();
        self.maps.shrink_to_fit();
    }

    /// Bytes held, and number of pieces and mappings stored.
    pub(crate) fn stored(&self) -> (u64, usize) {
        (self.held_bytes, self.held.len() + self.maps.len())
    }

    /// Prefetches memory that processing a data segment needs.
    #[inline]
    pub(crate) fn prefetch(&self) {
        self.maps.back().into_iter().for_each(prefetch);
        self.ranges.first().into_iter().for_each(prefetch);
    }

    /// Data offset minus position according to the furthest known mapping.
    pub(crate) fn last_delta(&self) -> Option<MappingDelta> {
        let last = self.maps.back().map(ReceivedMap::delta);
        last.or(self.forgotten_delta)
    }

    /// Adds a mapping, or the part of it that is not known yet. Windows are at most `window` bytes. Returns
    /// false if the mapping contradicts one in force (a mapping is immutable, RFC 8684, section 3.3.1), if
    /// there are too many mappings, or if it overlaps too many.
    pub(crate) fn add_map(&mut self, map: ReceivedMap, window: u64) -> bool {
        if map.end() <= self.released {
            return true;
        }
        // A checksum over released bytes cannot be computed again, so the peer must map the remaining bytes
        // separately.
        if map.start < self.released && map.checksum.is_some() {
            return true;
        }
        let most = MAX_MAPS.max((window / MAPPED_AT_LEAST) as usize);
        let at = self.maps.partition_point(|m| m.end() <= map.start);
        if self.maps.get(at).is_some_and(|m| m.start < map.end()) {
            return self.add_overlapping_map(at, map, most);
        }
        self.insert_map(at, map, most)
    }

    fn insert_map(&mut self, at: usize, map: ReceivedMap, most: usize) -> bool {
        let room = self.maps.len() < most;
        if room {
            self.maps.insert(at, map);
        }
        room
    }

    /// Adds a mapping that overlaps others, from the one at index `at` on. It must agree with them, and the
    /// parts beyond them are added. A checksum covers the whole mapping and does not verify a part of it. A
    /// mapping with a checksum therefore adds nothing, and the peer must map the remaining bytes again.
    fn add_overlapping_map(&mut self, mut at: usize, map: ReceivedMap, most: usize) -> bool {
        let mut from = map.start.max(self.released);
        let mut overlaps = 0;
        while from < map.end() {
            self.steps.add(1);
            overlaps += 1;
            if overlaps > MAX_OVERLAPS {
                return false;
            }
            let next = self.maps.get(at).filter(|m| m.start < map.end()).copied();
            if next.is_some_and(|m| m.delta() != map.delta()) {
                return false;
            }
            let to = next.map_or(map.end(), |m| m.start);
            if from < to && map.checksum.is_none() {
                let part = ReceivedMap {
                    start: from,
                    len: to - from,
                    offset: map.delta().offset_of(from),
                    checksum: None,
                };
                if !self.insert_map(at, part, most) {
                    return false;
                }
                at += 1;
            }
            from = next.map_or(map.end(), |m| m.end());
            at += 1;
        }
        true
    }

    /// The place of position `at` in the data stream.
    pub(crate) fn locate(&self, at: SubflowPosition) -> Mapped {
        match self.map_at(at) {
            Some(m) => Mapped::Run {
                offset: m.offset + (at - m.start),
                len: m.end() - at,
            },
            None => Mapped::Unmapped,
        }
    }

    /// The mapping that covers position `at`.
    pub(crate) fn map_at(&self, at: SubflowPosition) -> Option<&ReceivedMap> {
        let i = self.maps.partition_point(|m| m.end() <= at);
        self.maps.get(i).filter(|m| m.start <= at)
    }

    /// Removes mappings that no held or future byte needs.
    pub(crate) fn prune_maps(&mut self) {
        let first_held = self.held.first_key_value().map(|(s, _)| *s);
        self.released = first_held.map_or(self.nxt, |s| s.min(self.nxt));
        while self.maps.front().is_some_and(|m| m.end() <= self.released) {
            self.steps.add(1);
            let gone = self.maps.pop_front();
            self.forgotten_delta = gone.map(|m| m.delta());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A SACK block or piece from `from` to `to`.
    fn block(from: u64, to: u64) -> (SubflowPosition, SubflowPosition) {
        (SubflowPosition(from), SubflowPosition(to))
    }

    fn receiver() -> Receiver {
        let mut r = Receiver::default();
        r.established();
        r
    }

    #[test]
    fn number_of_mappings_is_limited_by_the_window() {
        let taken = |window: u64| {
            let mut r = receiver();
            let map = |k: u64| ReceivedMap {
                start: SubflowPosition(1 + k),
                len: 1,
                offset: DataOffset(k),
                checksum: None,
            };
            (0..20_000u64)
                .take_while(|k| r.add_map(map(*k), window))
                .count()
        };
        assert_eq!(taken(0), MAX_MAPS);
        assert_eq!(taken(4 << 20), MAX_MAPS);
        assert_eq!(taken(16 << 20), 16 << 10);
    }

    #[test]
    fn sack_blocks_are_most_recent_first_with_dsack_in_front() {
        let mut r = receiver();
        for start in [101, 301, 501].map(SubflowPosition) {
            r.accept(start, &Payload::Length(100));
        }
        assert_eq!(
            r.sack_blocks(4).collect::<Vec<_>>(),
            [block(501, 601), block(301, 401), block(101, 201)]
        );
        r.accept(SubflowPosition(301), &Payload::Length(100));
        let blocks: Vec<_> = r.sack_blocks(3).collect();
        assert_eq!(
            blocks,
            [block(301, 401), block(301, 401), block(501, 601)],
            "RFC 2883, section 4.2"
        );
    }

    #[test]
    fn coalesced_segments_count_individually_for_delayed_acks() {
        let mut r = receiver();
        r.segment = 1000;
        let delay = Some(Duration::from_millis(40));
        r.accept(SubflowPosition(1), &Payload::Length(990));
        r.schedule_ack(Instant::ZERO, delay);
        assert!(!r.ack_now && r.ack_by.is_some(), "one segment waits");
        r.acked();
        r.accept(SubflowPosition(991), &Payload::Length(1980));
        r.schedule_ack(Instant::ZERO, delay);
        assert!(r.ack_now, "two segments do not (RFC 5681, section 4.2)");
    }

    #[test]
    fn contradicting_mappings_are_refused_and_equal_mappings_ignored() {
        let mut r = receiver();
        let map = ReceivedMap {
            start: SubflowPosition(1),
            len: 100,
            offset: DataOffset(0),
            checksum: None,
        };
        assert!(r.add_map(map, 0));
        assert!(r.add_map(map, 0));
        let moved = ReceivedMap {
            offset: DataOffset(7),
            ..map
        };
        assert!(!r.add_map(moved, 0));
        let contradicting = ReceivedMap {
            start: SubflowPosition(50),
            offset: DataOffset(500),
            ..map
        };
        assert!(!r.add_map(contradicting, 0));
        let within = ReceivedMap {
            start: SubflowPosition(50),
            len: 20,
            offset: DataOffset(49),
            checksum: None,
        };
        assert!(r.add_map(within, 0));
        let run = Mapped::Run {
            offset: DataOffset(59),
            len: 41,
        };
        assert_eq!(r.locate(SubflowPosition(60)), run);
    }

    #[test]
    fn consistent_overlapping_mapping_adds_its_unmapped_parts() {
        let mut r = receiver();
        let map = |start, len| ReceivedMap {
            start: SubflowPosition(start),
            len,
            offset: DataOffset(start + 1000),
            checksum: None,
        };
        for (start, len) in [(100, 50), (200, 50), (90, 200), (90, 10), (250, 60)] {
            assert!(r.add_map(map(start, len), 0), "{start}");
        }
        for at in 90..310 {
            let Mapped::Run { offset, .. } = r.locate(SubflowPosition(at)) else {
                panic!("{at} is not mapped");
            };
            assert_eq!(offset, DataOffset(at + 1000));
        }
        assert_eq!(
            [89, 310].map(|at| r.locate(SubflowPosition(at))),
            [Mapped::Unmapped; 2]
        );
        let sum = Some(7);
        let within = ReceivedMap {
            checksum: sum,
            ..map(120, 100)
        };
        assert!(r.add_map(within, 0), "nothing new");
        let beyond = ReceivedMap {
            checksum: sum,
            ..map(300, 100)
        };
        assert!(r.add_map(beyond, 0), "it agrees");
        assert_eq!(
            r.locate(SubflowPosition(310)),
            Mapped::Unmapped,
            "a checksum does not verify a part of its mapping"
        );
    }

    proptest! {
        #[test]
        fn accept_returns_each_byte_once_in_any_order(segments in prop::collection::vec((0u64..400, 1u32..80), 1..120)) {
            let mut r = receiver();
            let mut seen = [false; 600];
            for (start, len) in segments {
                for (at, p) in r.accept(SubflowPosition(1 + start), &Payload::Length(len)) {
                    for x in at.0..at.0 + p.len() as u64 {
                        prop_assert!(!std::mem::replace(&mut seen[x as usize], true), "byte {x} twice");
                    }
                }
                let inside = (1..600).take_while(|&x| seen[x as usize]).count() as u64;
                prop_assert_eq!(r.nxt, SubflowPosition(1 + inside));
                let blocks: Vec<_> = r.sack_blocks(4).collect();
                prop_assert!(blocks.iter().all(|b| (b.0.0..b.1.0).all(|x| seen[x as usize])));
            }
        }
    }
}

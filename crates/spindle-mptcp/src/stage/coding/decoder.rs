//! Incoming units: encoded packets are kept until they yield the segments (mechanisms A4.7).
//!
//! What is kept is bounded in units and bytes, whatever a peer sends. The unit whose last packet arrived
//! longest ago is given up first. A unit that was given up or refused may begin again from scratch. Packets
//! with another shape belong to another unit, so forged packets that arrive first do not block the true ones.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use spindle_codes::Tracker;
use spindle_units::{Duration, Instant};
use spindle_wire::{Checksums, CodedKind, CodedPacket, Ecn, Segment};

use super::CodingCounters;
use super::UNSPECIFIED_ENDPOINT;
use super::codec::{Arrived, UnitCode};
use crate::steps::Steps;

/// Most units that are begun and not decoded, and most units that wait for earlier ones: the units of a window
/// of 255 segments, with 4 segments each.
const MAX_UNITS: usize = 64;
/// Most bytes of the symbols of units that are begun, and most bytes of those that wait.
const MAX_BYTES: usize = 4 << 20;
/// For how many more units a decoded unit is remembered. A unit that is further than this from all others is
/// accepted only when a second packet confirms it, so that one forged number does not make the true units look
/// old.
const KNOWN: u64 = 4096;

/// What became of an encoded packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Its unit waits for more packets.
    Kept,
    /// Segments were passed up.
    Up,
    /// It arrived before, its unit is decoded, or no unit can have it.
    Useless,
}

/// A unit that is not complete.
#[derive(Debug)]
struct Unit {
    number: u64,
    k: usize,
    n: usize,
    arrived: Vec<u8>,
    symbols: Vec<Arrived>,
    /// Tracks whether the packets are enough; `None` if all of them are needed.
    tracker: Option<Tracker>,
    bytes: usize,
    /// The segments themselves, if their payloads are only lengths.
    twin: Option<Arc<[Segment]>>,
    marked: bool,
    /// Segments that arrived as they are, one bit each.
    sources: u128,
    /// Segments that were passed up before the unit was complete, one bit each.
    gone: u128,
}

/// Segments of a unit that waits for earlier ones.
#[derive(Debug)]
struct Waiting {
    number: u64,
    until: Instant,
    segments: Vec<Segment>,
    bytes: usize,
}

/// One bit for each of the last [`KNOWN`] units: whether it is decoded.
#[derive(Debug)]
struct Over(Box<[u64; (KNOWN / 64) as usize]>);

impl Default for Over {
    fn default() -> Self {
        Self(Box::new([0; (KNOWN / 64) as usize]))
    }
}

impl Over {
    fn get(&self, number: u64) -> bool {
        let place = number % KNOWN;
        self.0[(place / 64) as usize] >> (place % 64) & 1 == 1
    }

    fn set(&mut self, number: u64, over: bool) {
        let place = number % KNOWN;
        let word = &mut self.0[(place / 64) as usize];
        *word = *word & !(1 << (place % 64)) | u64::from(over) << (place % 64);
    }

    /// Notes that no unit from `from` to `to`, the last included, is decoded.
    fn clear(&mut self, from: u64, to: u64) {
        let mut at = from;
        while at <= to {
            let first = at % 64;
            let bits = (64 - first).min(to - at + 1);
            let mask = u64::MAX >> (64 - bits) << first;
            self.0[(at % KNOWN / 64) as usize] &= !mask;
            at += bits;
        }
    }
}

/// The receiving end.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    /// Units that are not complete, in the order in which their last packets arrived.
    units: VecDeque<Unit>,
    bytes: usize,
    /// The highest number so far. `over` states which of the units up to it are decoded, by number modulo
    /// [`KNOWN`].
    highest: Option<u64>,
    over: Over,
    /// The last packet far from all others: unit number and index.
    stray: Option<(u64, u8)>,
    /// The first unit number that segments wait for, if segments wait for earlier units.
    next: u64,
    /// Units that wait for earlier ones, in the order of their numbers.
    waiting: VecDeque<Waiting>,
    /// Bytes of the units that wait.
    held: usize,
    /// One more than the highest number of a unit of which segments were passed up.
    passed: u64,
    /// Iterations of loops over what is kept.
    pub(super) steps: Steps,
}

impl Decoder {
    /// Accepts an encoded packet. Segments that it yields are appended to `up`. `hold` is how long segments
    /// wait for those of earlier units.
    pub(super) fn take(
        &mut self,
        now: Instant,
        (code, hold): (&UnitCode, Option<Duration>),
        packet: &CodedPacket,
        counters: &mut CodingCounters,
        up: &mut VecDeque<Segment>,
    ) -> Fate {
        counters.packets_received += 1;
        if let Err(fate) = self.sort_in(code, packet, counters) {
            return fate;
        }
        // The packet's unit is the last in the order now.
        let complete = |u: &mut Unit| {
            let index = usize::from(u.arrived.last().copied().unwrap_or(0));
            code.suffice(u.tracker.as_mut(), u.k, index, u.arrived.len())
        };
        let Some(unit) = self.units.pop_back_if(complete) else {
            return self.hand_up_early((code, hold), packet, counters, up);
        };
        let (number, gone) = (unit.number, unit.gone);
        self.bytes -= unit.bytes;
        let Some(mut segments) = unit.segments(code, packet) else {
            counters.units_refused += 1;
            return Fate::Useless;
        };
        self.over.set(number, true);
        counters.units_decoded += 1;
        if hold.is_none() {
            self.give_way((code, number), packet, counters, up);
        }
        let mut index = 0;
        segments.retain(|_| {
            index += 1;
            gone >> (index - 1) & 1 == 0
        });
        self.hand_over((now, hold), number, segments, counters, up);
        Fate::Up
    }

    /// Counts segments of unit `number` that are passed up. They are out of order if segments of a unit that was
    /// sent later were passed up before, as packets are that a later one has overtaken.
    fn count(&mut self, number: u64, segments: usize, counters: &mut CodingCounters) {
        let segments = segments as u64;
        counters.segments_decoded += segments;
        if number + 1 < self.passed {
            counters.segments_disordered += segments;
        }
        if segments > 0 {
            self.passed = self.passed.max(number + 1);
        }
    }

    /// With a systematic code, the first segments of the last unit in the order are passed up as they arrive.
    /// Segments after a gap are passed up when the unit is complete, so that what parities will restore does
    /// not look lost.
    fn hand_up_early(
        &mut self,
        (code, hold): (&UnitCode, Option<Duration>),
        packet: &CodedPacket,
        counters: &mut CodingCounters,
        up: &mut VecDeque<Segment>,
    ) -> Fate {
        let before = up.len();
        let mut of = None;
        if code.is_systematic()
            && hold.is_none()
            && let Some(unit) = self.units.back_mut()
        {
            let next = |unit: &Unit| unit.gone.trailing_ones() as usize;
            while let Some(segment) = unit.source(next(unit), packet) {
                unit.gone |= 1 << next(unit);
                of = Some(unit.number);
                up.push_back(segment);
            }
        }
        if let Some(number) = of {
            self.count(number, up.len() - before, counters);
        }
        match up.len() > before {
            true => Fate::Up,
            false => Fate::Kept,
        }
    }

    /// Segments of unit `number` are about to be passed up, so the segments that earlier units lack will look
    /// lost. The segments of earlier units that are there are passed up first.
    fn give_way(
        &mut self,
        (code, number): (&UnitCode, u64),
        packet: &CodedPacket,
        counters: &mut CodingCounters,
        up: &mut VecDeque<Segment>,
    ) {
        if !code.is_systematic() {
            return;
        }
        self.steps.add(self.units.len());
        let earlier = |u: &&mut Unit| u.number < number && u.sources & !u.gone != 0;
        let mut earlier: Vec<&mut Unit> = self.units.iter_mut().filter(earlier).collect();
        earlier.sort_by_key(|u| u.number);
        let mut given: Vec<(u64, usize)> = Vec::with_capacity(earlier.len());
        for unit in earlier {
            let before = up.len();
            for index in 0..unit.k {
                self.steps.add(1);
                if (unit.sources & !unit.gone) >> index & 1 == 1 {
                    match unit.source(index, packet) {
                        Some(segment) => {
                            unit.gone |= 1 << index;
                            up.push_back(segment);
                        }
                        // The segment cannot be parsed, now or later.
                        None => unit.sources &= !(1 << index),
                    }
                }
            }
            given.push((unit.number, up.len() - before));
        }
        for (number, segments) in given {
            self.count(number, segments, counters);
        }
    }

    /// Adds the packet to its unit, which is then the last in the order.
    fn sort_in(
        &mut self,
        code: &UnitCode,
        packet: &CodedPacket,
        counters: &mut CodingCounters,
    ) -> Result<(), Fate> {
        let coded = &packet.header;
        let CodedKind::Encoded {
            sources,
            total,
            len,
            twin,
        } = &coded.kind
        else {
            return Err(Fate::Useless);
        };
        let (k, n) = (usize::from(*sources), usize::from(*total));
        let number = self.expand(coded.unit);
        if !code.takes(k, n) || coded.index >= *total {
            counters.packets_refused += 1;
            return Err(Fate::Useless);
        }
        let Some(number) = number.filter(|n| self.is_credible(*n, coded.index, counters)) else {
            counters.packets_refused += 1;
            return Err(Fate::Useless);
        };
        if self.is_over(number) {
            counters.packets_late += 1;
            return Err(Fate::Useless);
        }
        let unit = self.unit(code, number, (k, n), counters);
        if unit.arrived.contains(&coded.index) {
            counters.packets_late += 1;
            return Err(Fate::Useless);
        }
        unit.arrived.push(coded.index);
        if usize::from(coded.index) < unit.k {
            unit.sources |= 1 << coded.index;
        }
        unit.marked |= packet.ecn == Ecn::Ce;
        match (&packet.payload, twin) {
            (_, Some(twin)) => unit.twin = Some(twin.clone()),
            (payload, None) => {
                let symbol = payload.to_bytes();
                let more = symbol.len();
                unit.bytes += more;
                unit.symbols.push((coded.index, *len, symbol));
                self.bytes += more;
            }
        }
        self.shed(counters);
        match self.units.is_empty() {
            true => Err(Fate::Useless),
            false => Ok(()),
        }
    }

    /// The number with these low 16 bits that is nearest to the highest number.
    fn expand(&self, low: u16) -> Option<u64> {
        let near = self.highest.unwrap_or(0);
        near.checked_add_signed(i64::from(low.wrapping_sub(near as u16) as i16))
    }

    /// Whether the unit is decoded, or so old that this is unknown.
    fn is_over(&self, number: u64) -> bool {
        let Some(highest) = self.highest else {
            return false;
        };
        if number > highest {
            return false;
        }
        highest - number >= KNOWN || self.over.get(number)
    }

    /// Whether a unit number is near the expected ones, or confirmed by another packet.
    fn is_credible(&mut self, number: u64, index: u8, counters: &mut CodingCounters) -> bool {
        if self.highest.is_none_or(|h| number.abs_diff(h) < KNOWN) {
            return true;
        }
        let before = self.stray.replace((number, index));
        let same = |s: (u64, u8)| s.0.abs_diff(number) < KNOWN && s != (number, index);
        if !before.is_some_and(same) {
            return false;
        }
        // The peer is at these numbers, so what is kept for other numbers is of no use.
        self.shed_all(counters);
        (self.highest, self.stray, self.next) = (None, None, number);
        true
    }

    /// A unit, which is begun if it does not exist yet. It is the last in the order then.
    fn unit(
        &mut self,
        code: &UnitCode,
        number: u64,
        (k, n): (usize, usize),
        counters: &mut CodingCounters,
    ) -> &mut Unit {
        if self.highest.is_none_or(|h| number > h) {
            self.advance(number, counters);
        }
        let same = |u: &Unit| (u.number, u.k, u.n) == (number, k, n);
        self.steps.add(self.units.len());
        let at = self.units.iter().rposition(same);
        let unit = at
            .and_then(|at| self.units.remove(at))
            .unwrap_or_else(|| Unit {
                number,
                k,
                n,
                arrived: Vec::with_capacity(k),
                symbols: Vec::new(),
                tracker: code.tracker(k, n),
                bytes: 0,
                twin: None,
                marked: false,
                sources: 0,
                gone: 0,
            });
        self.units.push_back_mut(unit)
    }

    /// Handles a number higher than any before: the bits that stood for older units are cleared.
    fn advance(&mut self, number: u64, counters: &mut CodingCounters) {
        let first = self.highest.map_or(number.saturating_sub(KNOWN), |h| h + 1);
        let from = first.max((number + 1).saturating_sub(KNOWN));
        self.over.clear(from, number);
        self.highest = Some(number);
        // Units that are no longer in the table cannot be distinguished from decoded units.
        let (before, bytes) = (self.units.len(), &mut self.bytes);
        self.units.retain(|u| {
            let known = number - u.number < KNOWN;
            *bytes -= if known { 0 } else { u.bytes };
            known
        });
        counters.units_given_up += (before - self.units.len()) as u64;
    }

    fn give_up_oldest(&mut self, counters: &mut CodingCounters) {
        if let Some(unit) = self.units.pop_front() {
            self.bytes -= unit.bytes;
            counters.units_given_up += 1;
        }
    }

    /// Gives up the oldest units while a limit is exceeded.
    fn shed(&mut self, counters: &mut CodingCounters) {
        while self.units.len() > MAX_UNITS || self.bytes > MAX_BYTES {
            self.steps.add(1);
            self.give_up_oldest(counters);
        }
    }

    /// Forwards the segments of a unit: at once or, if they may wait, after those of all earlier units.
    fn hand_over(
        &mut self,
        (now, hold): (Instant, Option<Duration>),
        number: u64,
        segments: Vec<Segment>,
        counters: &mut CodingCounters,
        up: &mut VecDeque<Segment>,
    ) {
        let Some(hold) = hold else {
            self.count(number, segments.len(), counters);
            up.extend(segments);
            return;
        };
        if number < self.next {
            self.count(number, segments.len(), counters);
            up.extend(segments);
        } else {
            let waiting = Waiting {
                number,
                until: now + hold,
                bytes: segments.iter().map(|s| s.payload.len()).sum(),
                segments,
            };
            self.held += waiting.bytes;
            let at = self.waiting.partition_point(|w| w.number < number);
            self.waiting.insert(at, waiting);
            while self.waiting.len() > MAX_UNITS || self.held > MAX_BYTES {
                self.release_first(counters, up);
            }
        }
        self.release(counters, up);
    }

    /// Forwards the first unit that waits, whether the earlier ones have arrived or not.
    fn release_first(&mut self, counters: &mut CodingCounters, up: &mut VecDeque<Segment>) {
        if let Some(first) = self.waiting.pop_front() {
            self.held -= first.bytes;
            self.next = self.next.max(first.number + 1);
            self.count(first.number, first.segments.len(), counters);
            up.extend(first.segments);
        }
    }

    /// Forwards the units that need not wait any longer.
    fn release(&mut self, counters: &mut CodingCounters, up: &mut VecDeque<Segment>) {
        loop {
            if self.waiting.front().is_some_and(|w| w.number <= self.next) {
                self.release_first(counters, up);
            } else if self.highest.is_some_and(|h| self.next <= h) && self.is_over(self.next) {
                self.next += 1;
            } else {
                return;
            }
        }
    }

    /// When the first segments have waited long enough.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.waiting.iter().map(|w| w.until).min()
    }

    /// Forwards the units that have waited long enough, and those before them.
    pub(super) fn timeout(
        &mut self,
        now: Instant,
        counters: &mut CodingCounters,
        up: &mut VecDeque<Segment>,
    ) {
        let due = self.waiting.iter().filter(|w| w.until <= now);
        if let Some(last) = due.map(|w| w.number).max() {
            while self.waiting.front().is_some_and(|w| w.number <= last) {
                self.release_first(counters, up);
            }
        }
        self.release(counters, up);
    }

    /// Bytes kept, and in how many pieces.
    pub(super) fn stored(&self) -> (u64, usize) {
        let pieces: usize = self.waiting.iter().map(|w| w.segments.len()).sum();
        let symbols: usize = self.units.iter().map(|u| u.arrived.len()).sum();
        ((self.bytes + self.held) as u64, pieces + symbols)
    }

    /// Gives up all units that are not complete.
    pub(super) fn shed_all(&mut self, counters: &mut CodingCounters) {
        while !self.units.is_empty() {
            self.give_up_oldest(counters);
        }
    }
}

impl Unit {
    /// Segment `index`, if it arrived as it is.
    fn source(&self, index: usize, packet: &CodedPacket) -> Option<Segment> {
        if index >= self.k || self.sources >> index & 1 == 0 {
            return None;
        }
        let segment = match &self.twin {
            Some(twin) => twin.get(index)?.clone(),
            None => {
                let mut symbols = self.symbols.iter();
                let (.., symbol) = symbols.find(|(a, ..)| usize::from(*a) == index)?;
                read(symbol, packet)?
            }
        };
        Some(self.addressed(segment, packet))
    }

    /// The segment with the endpoints of `packet`, and with the unit's mark.
    fn addressed(&self, mut segment: Segment, packet: &CodedPacket) -> Segment {
        (segment.src, segment.dst) = (packet.src, packet.dst);
        if self.marked && matches!(segment.ecn, Ecn::Ect0 | Ecn::Ect1) {
            segment.ecn = Ecn::Ce;
        }
        segment
    }

    /// The unit's segments, or `None` if its packets do not decode to segments of this connection. `packet` is
    /// the last of its packets.
    fn segments(self, code: &UnitCode, packet: &CodedPacket) -> Option<Vec<Segment>> {
        let segments = match &self.twin {
            Some(twin) if twin.len() == self.k => twin.to_vec(),
            Some(_) => return None,
            None => {
                let decoded = code.decode((self.k, self.n), &self.symbols).ok()?;
                let read = decoded.iter().map(|bytes| read(bytes, packet));
                read.collect::<Option<Vec<_>>>()?
            }
        };
        let segments = segments.into_iter();
        Some(segments.map(|s| self.addressed(s, packet)).collect())
    }
}

/// Parses a symbol as a segment, as its checksum must confirm. The code point is that of `packet`;
/// [`Unit::addressed`] sets the endpoints.
fn read(bytes: &Bytes, packet: &CodedPacket) -> Option<Segment> {
    // ECN-capable segments are sent as such (RFC 3168), and all of a unit's packets show it.
    let ecn = match packet.ecn {
        Ecn::NotEct => Ecn::NotEct,
        _ => Ecn::Ect0,
    };
    let nowhere = UNSPECIFIED_ENDPOINT.addr;
    let mut segment = Segment::from_tcp((nowhere, nowhere), ecn, bytes, Checksums::Verify).ok()?;
    segment.dscp = packet.dscp;
    let bare = (segment.src, segment.dst) == (UNSPECIFIED_ENDPOINT, UNSPECIFIED_ENDPOINT);
    (bare && !segment.payload.is_empty()).then_some(segment)
}

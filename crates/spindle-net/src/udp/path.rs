//! One subflow's way through UDP: its id, what passes on it, datagrams in the making.

use quinn_udp::EcnCodepoint;
use spindle_mptcp::PathError;
use spindle_units::Instant;
use spindle_wire::{
    CodedKind, EncapsulationHeader, EncapsulationKind, Endpoint, Experimental, Flags, Segment,
    SeqNumber,
};

use super::pmtu::{LEAST, Search};
use crate::link::{Arrival, PathMtu};

/// Most bytes of one GSO send: what UDP's length field holds with IPv4's header.
pub(super) const MAX_TRAIN: usize = 65_507;
/// Most datagrams of one GSO send (UDP_MAX_SEGMENTS of Linux).
const MAX_DATAGRAMS: usize = 64;
/// Most payload bytes of a burst: with 44 headers of up to 80 bytes it stays one train at an MTU of
/// 1500. Its datagrams share a mapping, so that the receiver can join them again.
pub(super) const BURST: u32 = 61_900;
/// Sends of the first unacknowledged segment that make a black hole.
const BLACK_HOLE_SENDS: u8 = 3;

/// Datagrams of one size, but perhaps the last, for one send.
#[derive(Default)]
pub(super) struct Train {
    pub(super) bytes: Vec<u8>,
    /// Bytes of each datagram but the last.
    pub(super) size: usize,
    pub(super) count: usize,
    ecn: u8,
    /// The last one was shorter: nothing may follow.
    complete: bool,
}

impl Train {
    fn takes(&self, len: usize, ecn: u8, most: usize) -> bool {
        self.count == 0
            || (!self.complete
                && self.ecn == ecn
                && len <= self.size
                && self.count < most.min(MAX_DATAGRAMS)
                && self.bytes.len() + len <= MAX_TRAIN)
    }

    fn added(&mut self, len: usize, ecn: u8) {
        if self.count == 0 {
            (self.size, self.ecn) = (len, ecn);
        }
        self.complete = len < self.size;
        self.count += 1;
    }

    /// The outer ECN field.
    pub(super) fn ecn(&self) -> Option<EcnCodepoint> {
        EcnCodepoint::from_bits(self.ecn)
    }
}

/// The state.
pub(super) struct Path {
    pub(super) id: u64,
    /// Own end and the peer's, as the stack knows them.
    pub(super) local: Endpoint,
    pub(super) remote: Endpoint,
    pub(super) search: Search,
    pub(super) train: Train,
    pub(super) used: Instant,
    /// When the timer in the link's heap is due.
    pub(super) armed: Option<Instant>,
    /// The system had no way for what was sent last.
    pub(super) no_route: bool,
    /// FIN or RST was seen in this direction.
    ended_out: bool,
    ended_in: bool,
    reset: bool,
    /// The highest acknowledgement that came.
    una: Option<SeqNumber>,
    /// How often the large segment, or coding unit, that begins there was sent.
    sends: u8,
    /// Where the last large coding unit began, and how many in a row have begun there: acknowledgements on
    /// coded segments are not seen here, so `una` may lag behind.
    unit: Option<(SeqNumber, u8)>,
}

/// What is to become of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// The stack is to hear what passes.
    pub(super) report: bool,
    /// It passes in no way.
    pub(super) drop: bool,
}

impl Path {
    pub(super) fn new(now: Instant, id: u64, ends: (Endpoint, Endpoint), most: u16) -> Self {
        Self {
            id,
            local: ends.0,
            remote: ends.1,
            search: Search::new(now, most),
            train: Train::default(),
            used: now,
            armed: None,
            no_route: false,
            ended_out: false,
            ended_in: false,
            reset: false,
            una: None,
            sends: 0,
            unit: None,
        }
    }

    /// Whether the subflow is over.
    pub(super) fn ended(&self) -> bool {
        self.reset || (self.ended_in && self.ended_out)
    }

    /// What passes, as the data path tells the stack.
    pub(super) fn report(&self) -> Arrival {
        let ip = if self.remote.addr.is_ipv4() { 20 } else { 40 };
        let tcp = u32::from(self.search.passes()) - spindle_wire::ENCAPSULATION_HEADER_LEN as u32;
        Arrival::PathMtu(PathMtu {
            local: self.local,
            remote: self.remote,
            mtu: tcp + ip,
        })
    }

    /// Bytes of the datagrams in which a segment leaves.
    pub(super) fn bytes_of(&self, s: &Segment) -> usize {
        let (headers, piece) = self.pieces(s);
        let more = s.payload.len().div_ceil(piece.max(1)).saturating_sub(1);
        s.encapsulated_len() + more * headers
    }

    /// Bytes of a segment's headers in a datagram, and of payload that each of its datagrams holds as things
    /// are.
    fn pieces(&self, s: &Segment) -> (usize, usize) {
        let headers = s.encapsulated_len() - s.payload.len();
        let room = usize::from(self.search.passes()).saturating_sub(headers);
        let piece = match usize::from(s.segment_size) {
            0 => s.payload.len(),
            size => size.min(s.payload.len()),
        };
        (headers, piece.min(room.max(1)))
    }

    /// The peer cannot be reached, as the data path tells the stack.
    pub(super) fn unreachable(&self, why: PathError) -> Arrival {
        Arrival::Unreachable {
            local: self.local,
            remote: self.remote,
            why,
        }
    }

    /// A segment came; returns whether a probe has become due.
    pub(super) fn came(&mut self, now: Instant, s: &Segment) -> bool {
        self.used = now;
        if s.flags.contains(Flags::SYN) {
            (self.ended_in, self.ended_out, self.reset) = (false, false, false);
            (self.una, self.unit) = (None, None);
        }
        self.ended_in |= s.flags.contains(Flags::FIN);
        self.reset |= s.flags.contains(Flags::RST);
        if s.flags.contains(Flags::ACK) && self.una.is_none_or(|una| una.before(s.ack)) {
            self.una = Some(s.ack);
            (self.sends, self.unit) = (0, None);
        }
        self.search.heard(now)
    }

    /// A segment is to be sent: cuts it to what passes (that is [`Segment::segment_size`]), and finds a
    /// black hole by it if there is one.
    pub(super) fn goes(&mut self, now: Instant, s: &mut Segment) -> Verdict {
        self.used = now;
        if s.flags.contains(Flags::SYN) && !s.flags.contains(Flags::ACK) {
            (self.ended_in, self.ended_out, self.reset) = (false, false, false);
            (self.una, self.unit) = (None, None);
        }
        self.ended_out |= s.flags.contains(Flags::FIN);
        self.reset |= s.flags.contains(Flags::RST);
        if s.coded().is_some() {
            return self.goes_coded(now, s);
        }
        let mut black_hole = false;
        let (headers, piece) = self.pieces(s);
        if is_large(piece + headers) && self.una == Some(s.seq) {
            self.sends = self.sends.saturating_add(1);
            if self.sends >= BLACK_HOLE_SENDS {
                self.sends = 0;
                black_hole = self.search.restart(now, (piece + headers) as u16);
            }
        }
        let (_, piece) = self.pieces(s);
        if piece < s.payload.len() {
            s.segment_size = piece as u16;
        }
        Verdict {
            // What is coded cannot be cut: the stack is to know from the start what passes.
            report: black_hole || offers_coding(s),
            drop: false,
        }
    }

    /// A packet of the coding layer is to be sent. It cannot be cut: one that is too large is dropped, which
    /// TCP makes good in smaller segments. TCP repeats what vanishes in units that begin where an earlier one
    /// did, with the first segment that is not acknowledged.
    fn goes_coded(&mut self, now: Instant, s: &Segment) -> Verdict {
        let first = s
            .coded()
            .is_some_and(|c| c.index == 0 && matches!(c.kind, CodedKind::Encoded { .. }));
        let mut black_hole = false;
        if first && is_large(s.encapsulated_len()) {
            if self.una == Some(s.seq) {
                self.sends = self.sends.saturating_add(1);
            }
            let before = self.unit.filter(|(at, _)| *at == s.seq);
            let row = before.map_or(0, |(_, n)| n).saturating_add(1);
            self.unit = Some((s.seq, row));
            if self.sends.max(row) >= BLACK_HOLE_SENDS {
                (self.sends, self.unit) = (0, None);
                black_hole = self.search.restart(now, s.encapsulated_len() as u16);
            }
        }
        let drop = s.encapsulated_len() > usize::from(self.search.passes());
        Verdict {
            report: black_hole || drop && first,
            drop,
        }
    }

    /// Puts one datagram into the train; false: the train has to leave first.
    pub(super) fn push(&mut self, piece: &Segment, most: usize) -> Option<bool> {
        let (len, ecn) = (piece.encapsulated_len(), piece.ecn.bits());
        if !self.train.takes(len, ecn, most) {
            return Some(false);
        }
        piece.encapsulate(self.id, &mut self.train.bytes).ok()?;
        self.train.added(len, ecn);
        Some(true)
    }

    /// The datagram of a probe that is due.
    pub(super) fn probe(&mut self, now: Instant, number: u64, out: &mut Vec<u8>) -> Option<u16> {
        let (size, number) = self.search.due(now, number)?;
        let kind = EncapsulationKind::Probe(number);
        out.clear();
        EncapsulationHeader { id: self.id, kind }.encode(out);
        out.resize(usize::from(size), 0);
        Some(size)
    }
}

/// Whether a datagram of this size may vanish for its size; the stack may use less than what passes.
fn is_large(datagram: usize) -> bool {
    datagram > usize::from(LEAST)
}

/// Whether it is a SYN or SYN/ACK that speaks of coding.
fn offers_coding(s: &Segment) -> bool {
    let all = s.options.rare.as_ref().map(|r| &r.experimental);
    s.flags.contains(Flags::SYN)
        && all.is_some_and(|a| a.iter().any(|e| e.exid == Experimental::CODING))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::super::pmtu::BASE;
    use super::*;
    use spindle_units::Duration;
    use spindle_wire::Coded;

    const START: SeqNumber = SeqNumber(1000);

    fn at(s: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(s)
    }

    /// A path on which 1472 bytes have been found to pass.
    fn path() -> Path {
        let end = |port| Endpoint::new(IpAddr::from([10, 0, 0, 1]), port);
        let mut path = Path::new(at(0), 7, (end(1), end(2)), 1472);
        let (size, number) = path.search.due(at(0), 5).expect("a probe");
        assert!(path.search.acknowledged(at(0), number, size));
        path
    }

    /// Packet `index` of a unit that begins at START and `offset`, in a datagram of `len` bytes.
    fn encoded(offset: u32, index: u8, len: usize) -> Segment {
        let end = |port| Endpoint::new(IpAddr::from([10, 0, 0, 1]), port);
        let mut s = Segment::new(end(1), end(2));
        s.seq = START + offset;
        s.options.rare_mut().coded = Some(Coded {
            unit: 0,
            index,
            timestamp: 0,
            kind: CodedKind::Encoded {
                sources: 3,
                total: 5,
                len: 0,
                twin: None,
            },
        });
        s.payload = vec![0; len - s.encapsulated_len()].into();
        assert_eq!(s.encapsulated_len(), len);
        s
    }

    fn acknowledges(path: &mut Path, offset: u32) {
        let mut ack = Segment::new(path.remote, path.local);
        (ack.flags, ack.ack) = (Flags::ACK, START + offset);
        path.came(at(0), &ack);
    }

    /// Sends a whole unit; what is said of its first packet.
    fn unit(path: &mut Path, offset: u32, len: usize) -> Verdict {
        let all = (0..5).map(|i| path.goes(at(1), &mut encoded(offset, i, len)));
        let all: Vec<Verdict> = all.collect();
        assert!(all.iter().all(|v| v.drop == all[0].drop));
        assert!(all[1..].iter().all(|v| !v.report));
        all[0]
    }

    #[test]
    fn units_that_vanish_again_and_again_are_in_a_black_hole() {
        let (fine, gone) = (
            Verdict::default(),
            Verdict {
                report: true,
                drop: true,
            },
        );
        let mut p = path();
        acknowledges(&mut p, 0);
        // A window, then what a timer repeats.
        assert_eq!(unit(&mut p, 0, 1472), fine);
        assert_eq!(unit(&mut p, 3000, 1472), fine);
        assert_eq!(unit(&mut p, 0, 1472), fine);
        assert_eq!(unit(&mut p, 0, 1472), gone);
        assert_eq!(p.search.passes(), BASE);
        assert_eq!(unit(&mut p, 0, usize::from(BASE)), fine);
        // The next is found only if what is smaller vanishes as well.
        acknowledges(&mut p, 1000);
        for n in 0..2 {
            assert_eq!(unit(&mut p, 1000, usize::from(BASE)), fine, "{n}");
        }
        assert_eq!(unit(&mut p, 1000, usize::from(BASE)), gone);
        assert_eq!(p.search.passes(), LEAST);
    }

    #[test]
    fn what_is_acknowledged_or_small_is_in_none() {
        let mut p = path();
        for n in 0..10 {
            acknowledges(&mut p, n * 1000);
            for _ in 0..2 {
                assert_eq!(unit(&mut p, n * 1000, 1472), Verdict::default());
            }
        }
        for _ in 0..10 {
            assert_eq!(unit(&mut p, 9000, usize::from(LEAST)), Verdict::default());
        }
        assert_eq!(p.search.passes(), 1472);
    }

    /// The peer's MSS keeps segments below what passes and below the base.
    #[test]
    fn what_is_smaller_than_what_passes_is_in_a_black_hole_as_well() {
        let (mut coded, mut plain) = (path(), path());
        for p in [&mut coded, &mut plain] {
            acknowledges(p, 0);
        }
        for _ in 0..2 {
            assert!(!unit(&mut coded, 0, 1190).report);
        }
        let all = unit(&mut coded, 0, 1190);
        assert!(all.drop && all.report);
        let mut s = Segment::new(plain.local, plain.remote);
        s.seq = START;
        s.payload = vec![0; 1100].into();
        for _ in 0..2 {
            assert!(!plain.goes(at(1), &mut s).report);
        }
        assert!(plain.goes(at(1), &mut s).report);
        assert!(s.segment_size > 0 && s.segment_size < LEAST);
        for p in [coded, plain] {
            assert_eq!(p.search.passes(), LEAST);
        }
    }

    /// Where the peer has data as well, its acknowledgements are on coded segments.
    #[test]
    fn acknowledgements_that_nobody_sees_are_not_missed() {
        let mut p = path();
        acknowledges(&mut p, 0);
        for n in 0..10 {
            assert!(!unit(&mut p, n * 3000, 1472).report);
            assert!(!unit(&mut p, n * 3000, 1472).report);
        }
        assert_eq!(p.search.passes(), 1472);
        assert!(unit(&mut p, 27_000, 1472).report);
    }

    #[test]
    fn what_is_too_large_is_dropped_and_the_stack_hears_of_it() {
        let mut p = path();
        assert!(p.search.too_big(at(1), 1300));
        let verdict = unit(&mut p, 0, 1301);
        assert!(verdict.drop && verdict.report);
        assert_eq!(unit(&mut p, 0, 1300), Verdict::default());
    }

    #[test]
    fn who_offers_coding_hears_what_passes() {
        let mut syn = Segment::new(path().local, path().remote);
        syn.flags = Flags::SYN;
        assert!(!path().goes(at(0), &mut syn).report);
        syn.options.rare_mut().experimental.push(Experimental {
            kind: Experimental::KIND,
            exid: Experimental::CODING,
            data: vec![4],
        });
        assert!(path().goes(at(0), &mut syn).report);
    }
}

//! The path of one subflow through UDP: its id, the size that passes, and unfinished datagrams.

use quinn_udp::EcnCodepoint;
use spindle_mptcp::PathError;
use spindle_units::Instant;
use spindle_wire::{
    CodedPacket, EncapsulationHeader, EncapsulationKind, Endpoint, ExperimentId, Flags, Packet,
    Segment, SeqNumber,
};

use super::keepalive::{Keepalive, Mappings};
use super::pmtu::{LEAST, Search};
use crate::link::{Arrival, PathMtu};

/// Most bytes of one GSO send: what UDP's length field holds with IPv4's header.
pub(super) const MAX_TRAIN: usize = 65_507;
/// Most datagrams of one GSO send (UDP_MAX_SEGMENTS of Linux).
const MAX_DATAGRAMS: usize = 64;
/// Most payload bytes of a burst. With 44 headers of up to 80 bytes, it remains one train at an MTU of 1500.
/// Its datagrams share a mapping, so that the receiver can join them again.
pub(super) const BURST: u32 = 61_900;
/// Number of times the first unacknowledged segment is sent before a black hole is assumed.
const BLACK_HOLE_SENDS: u8 = 3;

/// Datagrams of one size, except perhaps the last, for one send.
#[derive(Default)]
pub(super) struct Train {
    pub(super) bytes: Vec<u8>,
    /// Bytes of each datagram except the last.
    pub(super) size: usize,
    pub(super) count: usize,
    ecn: u8,
    /// The last datagram was shorter. No datagram may follow.
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

/// The state of a path.
pub(super) struct Path {
    pub(super) id: u64,
    /// Local end and the peer's end, as the stack knows them.
    pub(super) local: Endpoint,
    pub(super) remote: Endpoint,
    pub(super) search: Search,
    pub(super) train: Train,
    pub(super) used: Instant,
    /// When a datagram was last sent.
    pub(super) sent: Instant,
    pub(super) keepalive: Keepalive,
    /// When the path's timer in `Timers` is due.
    pub(super) armed: Option<Instant>,
    /// The system had no route for the datagrams sent last.
    pub(super) no_route: bool,
    /// A FIN was seen in this direction.
    ended_out: bool,
    ended_in: bool,
    reset: bool,
    /// The highest acknowledgement number received.
    una: Option<SeqNumber>,
    /// How often the large segment, or coding unit, that begins at `una` was sent.
    sends: u8,
    /// Where the last large coding unit began, and how many units in a row began there. Acknowledgements on
    /// coded segments are not visible here, so `una` may lag behind.
    unit: Option<(SeqNumber, u8)>,
}

/// What must be done with a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// The stack must be notified of the size that passes.
    pub(super) report: bool,
    /// The packet cannot pass and must be dropped.
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
            sent: now,
            keepalive: Keepalive::default(),
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

    /// Whether the subflow has ended.
    pub(super) fn ended(&self) -> bool {
        self.reset || (self.ended_in && self.ended_out)
    }

    /// The size that passes, as a report for the stack.
    pub(super) fn report(&self) -> Arrival {
        let ip = if self.remote.addr.is_ipv4() { 20 } else { 40 };
        let tcp = u32::from(self.search.passes()) - spindle_wire::ENCAPSULATION_HEADER_LEN as u32;
        Arrival::PathMtu(PathMtu {
            local: self.local,
            remote: self.remote,
            mtu: tcp + ip,
        })
    }

    /// Bytes of the datagrams in which a packet is sent.
    pub(super) fn bytes_of(&self, packet: &Packet) -> usize {
        let s = match packet {
            Packet::Tcp(segment) => segment,
            Packet::Coded(packet) => return packet.encapsulated_len(),
        };
        let (headers, piece) = self.pieces(s);
        let more = s.payload.len().div_ceil(piece.max(1)).saturating_sub(1);
        s.encapsulated_len() + more * headers
    }

    /// Bytes of a segment's headers in a datagram, and bytes of payload that each of its datagrams holds at
    /// present.
    fn pieces(&self, s: &Segment) -> (usize, usize) {
        let headers = s.encapsulated_len() - s.payload.len();
        let room = usize::from(self.search.passes()).saturating_sub(headers);
        let piece = match usize::from(s.segment_size) {
            0 => s.payload.len(),
            size => size.min(s.payload.len()),
        };
        (headers, piece.min(room.max(1)))
    }

    /// The report for the stack that the peer cannot be reached.
    pub(super) fn unreachable(&self, why: PathError) -> Arrival {
        Arrival::Unreachable {
            local: self.local,
            remote: self.remote,
            why,
        }
    }

    /// Processes a packet that arrived. Returns whether a probe has become due.
    pub(super) fn on_received(&mut self, now: Instant, packet: &Packet) -> bool {
        self.used = now;
        if let Packet::Tcp(segment) = packet {
            self.on_received_segment(segment);
        }
        self.search.heard(now)
    }

    fn on_received_segment(&mut self, s: &Segment) {
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
    }

    /// Processes a packet that will be sent. Splits a segment to the size that passes (in
    /// [`Segment::segment_size`]), and detects a black hole.
    pub(super) fn on_send(&mut self, now: Instant, packet: &mut Packet) -> Verdict {
        (self.used, self.sent) = (now, now);
        match packet {
            Packet::Tcp(segment) => self.on_send_segment(now, segment),
            Packet::Coded(packet) => self.on_send_coded(now, packet),
        }
    }

    fn on_send_segment(&mut self, now: Instant, s: &mut Segment) -> Verdict {
        if s.flags.contains(Flags::SYN) && !s.flags.contains(Flags::ACK) {
            (self.ended_in, self.ended_out, self.reset) = (false, false, false);
            (self.una, self.unit) = (None, None);
        }
        self.ended_out |= s.flags.contains(Flags::FIN);
        self.reset |= s.flags.contains(Flags::RST);
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
            // Coded packets cannot be split, so the stack must know from the start what size passes.
            report: black_hole || offers_coding(s),
            drop: false,
        }
    }

    /// Processes a packet of the coding layer that will be sent. It cannot be split. A packet that is too large
    /// is dropped, and TCP repairs the loss with smaller segments. TCP retransmits lost data in units that
    /// begin where an earlier one began, with the first segment that is not acknowledged.
    fn on_send_coded(&mut self, now: Instant, packet: &CodedPacket) -> Verdict {
        let first = packet.is_encoded() && packet.header.index == 0;
        let size = packet.encapsulated_len();
        let mut black_hole = false;
        if first
            && is_large(size)
            && let Some(seq) = packet.first_seq
        {
            if self.una == Some(seq) {
                self.sends = self.sends.saturating_add(1);
            }
            let before = self.unit.filter(|(at, _)| *at == seq);
            let row = before.map_or(0, |(_, n)| n).saturating_add(1);
            self.unit = Some((seq, row));
            if self.sends.max(row) >= BLACK_HOLE_SENDS {
                (self.sends, self.unit) = (0, None);
                black_hole = self.search.restart(now, size as u16);
            }
        }
        let drop = size > usize::from(self.search.passes());
        Verdict {
            report: black_hole || drop && first,
            drop,
        }
    }

    /// Adds one datagram to the train. Returns false if the train must be sent before.
    pub(super) fn push(&mut self, piece: &Packet, most: usize) -> Option<bool> {
        let (len, ecn) = (piece.encapsulated_len(), piece.ecn().bits());
        if !self.train.takes(len, ecn, most) {
            return Some(false);
        }
        piece.encapsulate(self.id, &mut self.train.bytes).ok()?;
        self.train.added(len, ecn);
        Some(true)
    }

    /// Encodes the datagram of a probe that is due. Returns its size.
    pub(super) fn probe(&mut self, now: Instant, number: u64, out: &mut Vec<u8>) -> Option<u16> {
        let (size, number) = self.search.due(now, number)?;
        self.sent = now;
        self.encode_probe(number, out);
        out.resize(usize::from(size), 0);
        Some(size)
    }

    /// Encodes a keepalive: the shortest probe.
    pub(super) fn encode_keepalive(&mut self, now: Instant, number: u64, out: &mut Vec<u8>) {
        self.keepalive.sent(now, number, now.since(self.sent));
        (self.used, self.sent) = (now, now);
        self.encode_probe(number, out);
    }

    /// The server has acknowledged a probe, perhaps a keepalive.
    pub(super) fn answered(&mut self, number: u64, mappings: &mut Mappings) {
        self.keepalive.answered(number, self.local.addr, mappings);
    }

    /// The server challenges the address of the subflow.
    pub(super) fn challenged(&mut self, now: Instant, mappings: &mut Mappings) {
        self.keepalive.challenged(now, self.local.addr, mappings);
    }

    fn encode_probe(&self, number: u64, out: &mut Vec<u8>) {
        let kind = EncapsulationKind::Probe(number);
        out.clear();
        EncapsulationHeader { id: self.id, kind }.encode(out);
    }

    /// When the path must be looked at: for its search, or because it may need a keepalive.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let times = [self.search.next_timeout(), self.keepalive.at];
        times.into_iter().flatten().min()
    }
}

/// Whether a datagram of this size may be lost because of its size. The stack may use less than the size that
/// passes.
fn is_large(datagram: usize) -> bool {
    datagram > usize::from(LEAST)
}

/// Whether the segment is a SYN or SYN/ACK with a coding option.
fn offers_coding(s: &Segment) -> bool {
    let all = s.options.rare.as_ref().map(|r| &r.experimental);
    s.flags.contains(Flags::SYN)
        && all.is_some_and(|a| a.iter().any(|e| e.id() == Some(ExperimentId::Coding)))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::super::pmtu::BASE;
    use super::*;
    use spindle_units::Duration;
    use spindle_wire::{CodedKind, CodingHeader, CodingOption};

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
    fn encoded(offset: u32, index: u8, len: usize) -> Packet {
        let end = |port| Endpoint::new(IpAddr::from([10, 0, 0, 1]), port);
        let header = CodingHeader {
            unit: 0,
            index,
            timestamp: 0,
            kind: CodedKind::Encoded {
                sources: 3,
                total: 5,
                len: 0,
                twin: None,
            },
        };
        let mut packet = CodedPacket::new(end(1), end(2), header);
        packet.first_seq = Some(START + offset);
        packet.payload = vec![0; len - packet.encapsulated_len()].into();
        assert_eq!(packet.encapsulated_len(), len);
        packet.into()
    }

    fn acknowledges(path: &mut Path, offset: u32) {
        let mut ack = Segment::new(path.remote, path.local);
        (ack.flags, ack.ack) = (Flags::ACK, START + offset);
        path.on_received(at(0), &ack.into());
    }

    /// Sends a whole unit. Returns the verdict on its first packet.
    fn unit(path: &mut Path, offset: u32, len: usize) -> Verdict {
        let all = (0..5).map(|i| path.on_send(at(1), &mut encoded(offset, i, len)));
        let all: Vec<Verdict> = all.collect();
        assert!(all.iter().all(|v| v.drop == all[0].drop));
        assert!(all[1..].iter().all(|v| !v.report));
        all[0]
    }

    #[test]
    fn units_that_are_lost_repeatedly_are_in_a_black_hole() {
        let (fine, gone) = (
            Verdict::default(),
            Verdict {
                report: true,
                drop: true,
            },
        );
        let mut p = path();
        acknowledges(&mut p, 0);
        // A window, then retransmissions by a timer.
        assert_eq!(unit(&mut p, 0, 1472), fine);
        assert_eq!(unit(&mut p, 3000, 1472), fine);
        assert_eq!(unit(&mut p, 0, 1472), fine);
        assert_eq!(unit(&mut p, 0, 1472), gone);
        assert_eq!(p.search.passes(), BASE);
        assert_eq!(unit(&mut p, 0, usize::from(BASE)), fine);
        // The next black hole is found only if smaller packets are lost as well.
        acknowledges(&mut p, 1000);
        for n in 0..2 {
            assert_eq!(unit(&mut p, 1000, usize::from(BASE)), fine, "{n}");
        }
        assert_eq!(unit(&mut p, 1000, usize::from(BASE)), gone);
        assert_eq!(p.search.passes(), LEAST);
    }

    #[test]
    fn units_that_are_acknowledged_or_small_are_in_no_black_hole() {
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

    /// The peer's MSS keeps segments below the size that passes and below the base.
    #[test]
    fn segments_smaller_than_the_path_mtu_may_be_in_a_black_hole() {
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
            assert!(!plain.on_send_segment(at(1), &mut s).report);
        }
        assert!(plain.on_send_segment(at(1), &mut s).report);
        assert!(s.segment_size > 0 && s.segment_size < LEAST);
        for p in [coded, plain] {
            assert_eq!(p.search.passes(), LEAST);
        }
    }

    /// If the peer sends data as well, its acknowledgements are on coded segments.
    #[test]
    fn acknowledgements_hidden_in_coded_segments_cause_no_black_hole() {
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
    fn a_unit_that_is_too_large_is_dropped_and_reported_to_the_stack() {
        let mut p = path();
        assert!(p.search.too_big(at(1), 1300));
        let verdict = unit(&mut p, 0, 1301);
        assert!(verdict.drop && verdict.report);
        assert_eq!(unit(&mut p, 0, 1300), Verdict::default());
    }

    #[test]
    fn the_path_mtu_is_reported_with_a_syn_that_offers_coding() {
        let mut syn = Segment::new(path().local, path().remote);
        syn.flags = Flags::SYN;
        assert!(!path().on_send_segment(at(0), &mut syn).report);
        syn.options
            .add_experiment(CodingOption::Code(4).to_option());
        assert!(path().on_send_segment(at(0), &mut syn).report);
    }
}

//! One subflow's way through UDP: its id, what passes on it, datagrams in the making.

use quinn_udp::EcnCodepoint;
use spindle_units::Instant;
use spindle_wire::{EncapsulationHeader, EncapsulationKind, Endpoint, Flags, Segment, SeqNumber};

use super::pmtu::{BASE, LEAST, Search};
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
    /// FIN or RST was seen in this direction.
    ended_out: bool,
    ended_in: bool,
    reset: bool,
    /// The highest acknowledgement that came.
    una: Option<SeqNumber>,
    /// How often the large segment that begins there was sent.
    sends: u8,
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
            ended_out: false,
            ended_in: false,
            reset: false,
            una: None,
            sends: 0,
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

    /// A segment came.
    pub(super) fn came(&mut self, now: Instant, s: &Segment) {
        self.used = now;
        if s.flags.contains(Flags::SYN) {
            (self.ended_in, self.ended_out, self.reset) = (false, false, false);
            self.una = None;
        }
        self.ended_in |= s.flags.contains(Flags::FIN);
        self.reset |= s.flags.contains(Flags::RST);
        if s.flags.contains(Flags::ACK) && self.una.is_none_or(|una| una.before(s.ack)) {
            self.una = Some(s.ack);
            self.sends = 0;
        }
    }

    /// A segment is to be sent: cuts it to what passes (that is [`Segment::segment_size`]). Returns
    /// whether a black hole was found by it.
    pub(super) fn goes(&mut self, now: Instant, s: &mut Segment) -> bool {
        self.used = now;
        if s.flags.contains(Flags::SYN) && !s.flags.contains(Flags::ACK) {
            (self.ended_in, self.ended_out, self.reset) = (false, false, false);
            self.una = None;
        }
        self.ended_out |= s.flags.contains(Flags::FIN);
        self.reset |= s.flags.contains(Flags::RST);
        if s.coded().is_some() {
            // Never cut, and no part of sequence space.
            return false;
        }
        let headers = s.encapsulated_len() - s.payload.len();
        let cut = |passes: u16| usize::from(passes).saturating_sub(headers).max(1);
        let piece = match usize::from(s.segment_size) {
            0 => s.payload.len(),
            size => size.min(s.payload.len()),
        };
        let mut black_hole = false;
        // What a restart would not make smaller does not count.
        let passes = self.search.passes();
        let restarted = if passes > BASE { BASE } else { LEAST };
        let large = piece.min(cut(passes)) + headers > usize::from(restarted);
        if large && self.una == Some(s.seq) {
            self.sends = self.sends.saturating_add(1);
            if self.sends >= BLACK_HOLE_SENDS {
                self.sends = 0;
                black_hole = self.search.restart(now);
            }
        }
        let room = cut(self.search.passes());
        if piece > room {
            s.segment_size = room as u16;
        }
        black_hole
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

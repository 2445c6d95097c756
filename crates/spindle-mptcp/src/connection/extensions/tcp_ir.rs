//! Parities outside sequence space, over plain TCP (TCP Instant Recovery; FUSO section 5.1, mechanisms A5.4).
//!
//! A coded segment has the sequence number of its block's first byte. Its payload is the XOR of the block's
//! payloads. Its option has the number of packets, the block's first position and length in 32
//! bits each, and the XOR of the lengths in 16 bits. Each coded segment is answered with an acknowledgement
//! that has the outcome and the low 32 bits of the block's end. So a coded segment is also a probe.

use std::collections::BTreeMap;

use spindle_codes::{ErasureCode, Label, Parity, Shape, Source, Xor};
use spindle_units::Instant;
use spindle_wire::{Flags, Options, ParityOption, ParityOutcome, Payload, Segment};

use super::payloads::{body_of, payload_of};
use crate::connection::Connection;
use crate::connection::trace::{Coded, TraceKind};
use crate::steps::Steps;
use crate::subflow::sender::SendKind;
use crate::types::{DataOffset, SubflowId, SubflowPosition};

/// Segments kept for decoding below the next in-order position: a block of CoFUSO's largest size (CoFUSO
/// section 5.1: 30) and a few more.
const KEPT_IN_ORDER: usize = 32;
/// Maximum number of segments kept.
const KEPT: usize = 1024;

/// A block as its parity describes it.
#[derive(Clone, Copy, Debug)]
struct Block {
    count: usize,
    /// Low 32 bits of the first position.
    first: u32,
    span: u32,
    lengths: u16,
}

/// State of parities outside sequence space.
#[derive(Debug, Default)]
pub(in crate::connection) struct OutOfBand {
    pub(in crate::connection) agreed: bool,
    /// Payload that arrived, by position. A block's other packets are looked up here.
    arrived: BTreeMap<SubflowPosition, Payload>,
    arrived_bytes: u64,
    /// The answer that the next acknowledgement carries.
    echo: Option<(ParityOutcome, u32)>,
    /// Loop iterations over payload that arrived.
    pub(in crate::connection) steps: Steps,
}

impl OutOfBand {
    /// Bytes kept, and number of segments.
    pub(in crate::connection) fn stored(&self) -> (u64, usize) {
        (self.arrived_bytes, self.arrived.len())
    }

    /// Keeps the payload that arrived at `position`, for later decoding. `nxt` is the next in-order position.
    fn keep(&mut self, position: SubflowPosition, payload: &Payload, nxt: SubflowPosition) {
        if let Some(old) = self.arrived.insert(position, payload.clone()) {
            self.arrived_bytes -= old.len() as u64;
        }
        self.arrived_bytes += payload.len() as u64;
        let mut old = self.steps.each(self.arrived.range(..nxt)).count();
        while old > KEPT_IN_ORDER || self.arrived.len() > KEPT {
            let Some((_, gone)) = self.arrived.pop_first() else {
                return;
            };
            self.arrived_bytes -= gone.len() as u64;
            old = old.saturating_sub(1);
        }
    }

    /// The missing packet of `[first, first + span)`, if it can be decoded, with the outcome.
    fn decode(
        &self,
        first: SubflowPosition,
        block: &Block,
        body: &Payload,
    ) -> (ParityOutcome, Option<(SubflowPosition, Payload)>) {
        let end = first + u64::from(block.span);
        let failed = (ParityOutcome::Failed, None);
        let mut sources = Vec::with_capacity(block.count);
        let mut hole = None;
        let mut at = first;
        let rest = std::iter::once((end, None));
        let members = self.arrived.range(first..end).map(|(p, b)| (*p, Some(b)));
        for (position, payload) in self.steps.each(members.chain(rest)) {
            if position < at || (position > at && hole.is_some()) {
                return failed;
            }
            if position > at {
                hole = Some((at, position - at));
                sources.push(None);
            }
            at = position + payload.map_or(0, |p| p.len() as u64);
            sources.extend(payload.map(|p| Some(source(p))));
        }
        let Some((start, missing)) = hole else {
            return (ParityOutcome::Complete, None);
        };
        if sources.len() != block.count {
            return failed;
        }
        let parity = Parity {
            index: 0,
            label: Label {
                len: u32::from(block.lengths),
                dsn: 0,
            },
            body: body_of(body),
        };
        let decoded = Xor::new().decode(Shape::new(block.count, 1), &sources, &[parity]);
        match decoded.ok().and_then(|mut packets| packets.pop()) {
            Some(p) if p.content.len() as u64 == missing => (
                ParityOutcome::Repaired,
                Some((start, payload_of(p.content))),
            ),
            _ => failed,
        }
    }
}

fn source(payload: &Payload) -> Source<'_> {
    Source {
        dsn: 0,
        body: body_of(payload),
    }
}

fn parity_on(seg: &Segment) -> Option<Block> {
    let ParityOption::Parity {
        count,
        first,
        span,
        lengths,
    } = ParityOption::of(&seg.options)?
    else {
        return None;
    };
    Some(Block {
        count: usize::from(count),
        first,
        span,
        lengths,
    })
}

impl Connection {
    /// Sends the parity of the outstanding segments in `[first, end)` on subflow `of`.
    pub(in crate::connection) fn send_parity(
        &mut self,
        now: Instant,
        of: SubflowId,
        first: SubflowPosition,
        end: SubflowPosition,
    ) -> Option<(SubflowId, Segment)> {
        if !self.extensions.parities.out_of_band.agreed || self.mp.is_some() {
            return None;
        }
        let i = self.index(of)?;
        let sf = &mut self.subflows[i];
        let inside = sf.tx.board.iter_from(first).take_while(|s| s.start < end);
        let members: Vec<_> = inside
            .filter(|s| !s.payload.is_empty())
            .map(|s| (s.start, s.payload.clone()))
            .collect();
        let (start, last) = (members.first()?.0, members.last()?);
        let (span, count) = (last.0 + last.1.len() as u64 - start, members.len());
        let sources: Vec<_> = members.iter().map(|m| source(&m.1)).collect();
        let shape = Shape::new(count, 1);
        let symbol = Xor::new().encode(shape, 0, &sources).ok()?;
        let lengths = u16::try_from(symbol.label.len).ok()?;
        let payload = payload_of(symbol.content);
        if payload.len() as u64 > sf.tx.mss || !self.budget_allows(payload.len() as u64) {
            return None;
        }
        let option = ParityOption::Parity {
            count: u8::try_from(count).ok()?,
            first: start.relative_number(),
            span: u32::try_from(span).ok()?,
            lengths,
        };
        self.subflows[i].tx.count_parity(payload.len() as u64);
        let len = payload.len() as u32;
        let offset = self.offset_at(i, start);
        let kind = TraceKind::Sent {
            kind: SendKind::Recovery,
            offset,
            position: start,
            len,
            copy_of: None,
            parity: Some(Coded {
                of,
                packets: count as u8,
                end: offset + span,
                index: 0,
            }),
        };
        self.outbox.trace.add(now, of, kind);
        Some((of, self.build_parity(now, i, start, option, payload)))
    }

    fn offset_at(&self, i: usize, position: SubflowPosition) -> DataOffset {
        let sent = self.subflows[i].tx.board.get(position);
        let map = sent.and_then(|s| s.map);
        map.map_or(DataOffset::START, |m| m.offset)
    }

    fn build_parity(
        &mut self,
        now: Instant,
        i: usize,
        start: SubflowPosition,
        option: ParityOption,
        payload: Payload,
    ) -> Segment {
        let mut options = Options::default();
        options.add_experiment(option.to_option());
        let cx = self.context(now, i);
        // No SACK blocks: the packet is already full.
        let mut seg = self.subflows[i].build_ack_without_sack(cx, options);
        seg.seq = self.subflows[i].seq(start);
        seg.payload = payload;
        seg
    }

    /// Keeps payload that arrived, so that parities can be decoded.
    #[inline]
    pub(in crate::connection) fn keep_for_decoding(&mut self, i: usize, seg: &Segment) {
        if self.extensions.parities.out_of_band.agreed {
            self.keep_agreed(i, seg);
        }
    }

    #[inline(never)] // only with parities
    fn keep_agreed(&mut self, i: usize, seg: &Segment) {
        let sf = &self.subflows[i];
        if let Some(position) = SubflowPosition::from_signed(sf.receive_position(seg.seq)) {
            let nxt = sf.rx.nxt;
            self.extensions
                .parities
                .out_of_band
                .keep(position, &seg.payload, nxt);
        }
    }

    /// Processes a segment that is a parity. Returns false if it is not a parity.
    #[inline]
    pub(in crate::connection) fn take_parity(
        &mut self,
        now: Instant,
        i: usize,
        seg: &Segment,
    ) -> bool {
        self.extensions.parities.out_of_band.agreed && self.take_agreed_parity(now, i, seg)
    }

    #[inline(never)] // only with parities
    fn take_agreed_parity(&mut self, now: Instant, i: usize, seg: &Segment) -> bool {
        if seg.flags.intersects(Flags::SYN | Flags::FIN | Flags::RST) {
            return false;
        }
        let Some(block) = parity_on(seg) else {
            return false;
        };
        let sf = &self.subflows[i];
        let (id, nxt) = (sf.id, sf.rx.nxt);
        let edge = nxt + self.recv.window(sf.tx.mss);
        let first = nxt.nearest_byte(block.first).filter(|first| {
            let end = *first + u64::from(block.span);
            let fits = block.span > 0 && end <= edge && block.count > 0;
            fits && sf.receive_position(seg.seq) == first.signed()
        });
        // The rest of the segment is processed as a bare acknowledgement with the expected sequence number.
        let mut bare = seg.clone();
        bare.payload = Payload::EMPTY;
        bare.seq = sf.expected();
        bare.options.rare = None;
        self.on_segment(now, i, &bare);
        let (Some(first), Some(i)) = (first, self.index(id)) else {
            return true;
        };
        if self.teardown.closed.is_some() || !self.subflows[i].state.is_synchronized() {
            return true;
        }
        self.decode_block(now, i, first, &block, seg, bare);
        true
    }

    /// Decodes a missing packet with a parity if possible, and makes the answer due.
    fn decode_block(
        &mut self,
        now: Instant,
        i: usize,
        first: SubflowPosition,
        block: &Block,
        seg: &Segment,
        mut like: Segment,
    ) {
        let end = first + u64::from(block.span);
        let id = self.subflows[i].id;
        let arrived = TraceKind::ParityArrived { position: first };
        self.outbox.trace.add(now, id, arrived);
        let (outcome, packet) = if end <= self.subflows[i].rx.nxt {
            (ParityOutcome::Complete, None)
        } else {
            self.extensions
                .parities
                .out_of_band
                .decode(first, block, &seg.payload)
        };
        if let Some((start, payload)) = packet {
            like.seq = self.subflows[i].receive_number(start);
            like.flags = Flags::ACK;
            like.payload = payload;
            self.on_segment(now, i, &like);
        }
        if let Some(i) = self.index(id) {
            self.extensions.parities.out_of_band.echo = Some((outcome, end.relative_number()));
            self.subflows[i].rx.ack_now = true;
        }
    }

    /// Adds the answer to a parity to this acknowledgement, if an answer is due.
    #[inline]
    pub(in crate::connection) fn add_echo(&mut self, options: &mut Options) {
        if let Some(echo) = self.extensions.parities.out_of_band.echo.take() {
            Self::put_echo(echo, options);
        }
    }

    #[cold] // only with parities
    fn put_echo((outcome, end): (ParityOutcome, u32), options: &mut Options) {
        options.add_experiment(ParityOption::Echo { outcome, end }.to_option());
    }

    pub(in crate::connection) fn echo_due(&self) -> bool {
        self.extensions.parities.out_of_band.echo.is_some()
    }

    /// Processes the peer's answer to a parity. `flight` is the number of bytes that were outstanding before
    /// this acknowledgement.
    #[inline]
    pub(in crate::connection) fn process_echo(
        &mut self,
        now: Instant,
        i: usize,
        seg: &Segment,
        flight: u64,
    ) {
        if self.extensions.parities.out_of_band.agreed {
            self.process_agreed_echo(now, i, seg, flight);
        }
    }

    #[inline(never)] // only with parities
    fn process_agreed_echo(&mut self, now: Instant, i: usize, seg: &Segment, flight: u64) {
        let Some(ParityOption::Echo { outcome, end: low }) = ParityOption::of(&seg.options) else {
            return;
        };
        let sf = &mut self.subflows[i];
        match (outcome, sf.tx.una.nearest_byte(low)) {
            (ParityOutcome::Repaired, _) => sf.tx.on_repaired(now, flight, &mut self.coupling),
            (ParityOutcome::Failed, Some(end))
                if sf.tx.on_unrepaired(now, end, flight, &mut self.coupling) =>
            {
                let id = sf.id;
                self.outbox.trace.add(now, id, TraceKind::FastRetransmit);
                if let Some(r) = &mut self.policy.sender {
                    r.on_loss_hint(now, id, false);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FIRST: SubflowPosition = SubflowPosition::FIRST_BYTE;

    /// Creates consecutive payloads from position 1 on, and their parity.
    fn coded(lengths: &[usize]) -> (Vec<(SubflowPosition, Payload)>, Block, Payload) {
        let mut at = FIRST;
        let mut packets = Vec::new();
        for (k, len) in lengths.iter().enumerate() {
            let bytes: Vec<u8> = (0..*len).map(|b| (b * 7 + k * 31) as u8).collect();
            packets.push((at, Payload::Bytes(bytes.into())));
            at += *len as u64;
        }
        let sources: Vec<_> = packets.iter().map(|p| source(&p.1)).collect();
        let symbol = Xor::new()
            .encode(Shape::new(packets.len(), 1), 0, &sources)
            .unwrap();
        let block = Block {
            count: packets.len(),
            first: 1,
            span: (at - FIRST) as u32,
            lengths: symbol.label.len as u16,
        };
        (packets, block, payload_of(symbol.content))
    }

    fn with(packets: &[(SubflowPosition, Payload)], gone: &[usize]) -> OutOfBand {
        let mut p = OutOfBand::default();
        for (k, (at, payload)) in packets.iter().enumerate() {
            if !gone.contains(&k) {
                p.keep(*at, payload, FIRST);
            }
        }
        p
    }

    proptest! {
        #[test]
        fn any_single_missing_packet_is_decoded(lengths in prop::collection::vec(1usize..1500, 1..17), k in 0usize..16) {
            let (packets, block, body) = coded(&lengths);
            let gone = k % packets.len();
            let found = with(&packets, &[gone]).decode(FIRST, &block, &body);
            prop_assert_eq!(found, (ParityOutcome::Repaired, Some(packets[gone].clone())));
        }
    }

    #[test]
    fn two_missing_packets_or_resegmented_packets_are_not_decoded() {
        let (packets, block, body) = coded(&[1000, 1000, 700]);
        assert_eq!(
            with(&packets, &[]).decode(FIRST, &block, &body),
            (ParityOutcome::Complete, None)
        );
        for gone in [&[0, 1][..], &[0, 2], &[0, 1, 2]] {
            let found = with(&packets, gone).decode(FIRST, &block, &body);
            assert_eq!(found, (ParityOutcome::Failed, None), "{gone:?}");
        }
        let mut p = with(&packets, &[0, 1]);
        p.keep(FIRST, &Payload::Length(500), FIRST);
        p.keep(SubflowPosition(501), &Payload::Length(500), FIRST);
        assert_eq!(p.decode(FIRST, &block, &body).0, ParityOutcome::Failed);
    }

    #[test]
    fn number_of_in_order_segments_kept_for_decoding_is_bounded() {
        let mut p = OutOfBand::default();
        for k in 0..200u64 {
            let at = FIRST + k * 10;
            p.keep(at, &Payload::Length(10), at);
        }
        assert!(p.stored().1 <= KEPT_IN_ORDER + 1);
        assert_eq!(p.stored().0, 10 * p.stored().1 as u64);
    }
}

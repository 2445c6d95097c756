//! Parities of blocks at the sender (CoFUSO section 5.1, mechanisms A2.4).
//!
//! A parity is new sequence space of the subflow that carries it. It counts against the subflow's congestion
//! window, and its TCP retransmits it verbatim if it is lost. A parity has a DATA_ACK and no mapping, because
//! its bytes are not data. It has a [`ParityOption::Block`]: the position and length of the whole parity, so
//! that a piece of a parity that was cut for a smaller path is recognised. The coding header ([`ParityHeader`]) is the
//! beginning of its payload, because its 20 bytes do not fit into the 40 bytes of options together with
//! timestamps (12 bytes) and DATA_ACK (8). If payloads are only lengths, the header is the payload's head
//! ([`spindle_wire::RareOptions::payload_head`]).
//!
//! Data segments are shorter by the header. So the longest segment, in which windows are counted, is the parity
//! of full packets, and the parity takes the place of one segment. Data segments are sent one by one, each with
//! its own mapping, because coalescing would hide the boundaries of packets. Bursts have segments of full
//! length under one mapping. They are sent only while many new data wait, and are not part of any block.

use std::collections::VecDeque;

use spindle_codes::{ErasureCode, ReedSolomon, Shape, Source, Symbol};
use spindle_units::Instant;
use spindle_wire::{Options, ParityHeader, ParityOption, Payload, Segment};

use super::super::payloads::{body_of, payload_of};
use super::decoder::Decoder;
use crate::connection::trace::{Coded, TraceKind};
use crate::connection::{Connection, Role};
use crate::subflow::sender::SendKind;
use crate::subflow::{Origin, Subflow};
use crate::types::{DataOffset, SubflowId, SubflowPosition};

/// A recovery policy's request for a parity ([`crate::recovery::Action::BlockParity`]).
#[derive(Clone, Copy, Debug)]
pub(in crate::connection) struct ParityRequest {
    pub(in crate::connection) of: SubflowId,
    pub(in crate::connection) first: SubflowPosition,
    pub(in crate::connection) segments: usize,
    pub(in crate::connection) index: usize,
    pub(in crate::connection) parities: usize,
    pub(in crate::connection) on: SubflowId,
}

/// The latest block of a subflow. All its parities are made at once, because its packets are dropped when they
/// are acknowledged.
#[derive(Debug)]
struct Open {
    of: SubflowId,
    first: SubflowPosition,
    end: SubflowPosition,
    /// Data offsets of its first byte and of the first byte after it, for traces.
    offsets: (DataOffset, DataOffset),
    shape: Shape,
    /// Parities that are not sent yet, by index.
    symbols: Vec<Option<Symbol>>,
    /// Bytes and number of these parities.
    kept: (u64, usize),
}

/// A parity in flight.
#[derive(Clone, Copy, Debug)]
struct SentParity {
    start: SubflowPosition,
    len: u64,
    header: [u8; ParityHeader::LEN],
    /// Data offset of the block's first byte, and the packets that the parity protects, for traces.
    coded: (DataOffset, Coded),
}

impl SentParity {
    fn end(&self) -> SubflowPosition {
        self.start + self.len
    }
}

/// State of parities of blocks, in both directions.
#[derive(Debug, Default)]
pub(in crate::connection) struct Blocks {
    /// The subflows that the peer opened, each with the identifier that the peer gave it.
    names: Vec<(SubflowId, u8)>,
    open: Vec<Open>,
    /// Parities in flight, by the subflow that carries them and in the order of its positions. Some
    /// acknowledged parities may still be in the list.
    sent: Vec<(SubflowId, VecDeque<SentParity>)>,
    /// Packets and parities that arrived on each subflow.
    pub(in crate::connection) decoders: Vec<(SubflowId, Decoder)>,
}

impl Blocks {
    /// Bytes kept, and number of packets and parities. Parities that are not sent yet, parities in flight, and
    /// packets and parities that arrived are included.
    pub(in crate::connection) fn stored(&self) -> (u64, usize) {
        let made = self.open.iter().map(|o| o.kept);
        let ends = self.sent.iter().filter_map(|(_, q)| {
            let span = q.back()?.end() - q.front()?.start;
            Some((span, q.len()))
        });
        let received = self.decoders.iter().map(|(_, d)| d.stored());
        let all = made.chain(ends).chain(received);
        all.fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
    }

    pub(in crate::connection) fn shed(&mut self) {
        self.decoders = Vec::new();
    }

    pub(in crate::connection) fn forget(&mut self, id: SubflowId) {
        self.names.retain(|n| n.0 != id);
        self.open.retain(|o| o.of != id);
        self.sent.retain(|s| s.0 != id);
        self.decoders.retain(|d| d.0 != id);
    }

    /// The peer uses the identifier `name` for subflow `id`. An earlier subflow with this identifier was never
    /// established.
    pub(in crate::connection) fn name(&mut self, id: SubflowId, name: u8) {
        self.names.retain(|n| n.0 != id && n.1 != name);
        self.names.push((id, name));
    }

    fn sent_on(&mut self, on: SubflowId) -> &mut VecDeque<SentParity> {
        let at = self.sent.iter().position(|s| s.0 == on);
        let at = at.unwrap_or_else(|| {
            self.sent.push((on, VecDeque::new()));
            self.sent.len() - 1
        });
        &mut self.sent[at].1
    }

    /// Loop iterations over packets and parities that arrived.
    pub(in crate::connection) fn steps(&self) -> u64 {
        self.decoders.iter().map(|(_, d)| d.steps.get()).sum()
    }

    /// The parity that the byte at `start` of subflow `on` belongs to.
    fn sent_at(&self, on: SubflowId, start: SubflowPosition) -> Option<&SentParity> {
        let sent = &self.sent.iter().find(|s| s.0 == on)?.1;
        let at = sent.partition_point(|s| s.end() <= start);
        sent.get(at).filter(|s| s.start <= start)
    }
}

impl Connection {
    /// The identifier by which both ends know a subflow.
    fn name_of(&self, sf: &Subflow) -> Option<u8> {
        if self.role == Role::Client || sf.origin == Origin::Initial {
            return Some(sf.id.0);
        }
        let names = &self.extensions.parities.blocks.as_ref()?.names;
        names.iter().find(|n| n.0 == sf.id).map(|n| n.1)
    }

    /// The subflow that both ends know by the identifier `name`.
    pub(in crate::connection) fn named(&self, name: u8) -> Option<SubflowId> {
        let named = |s: &&Subflow| self.name_of(s) == Some(name);
        self.subflows.iter().find(named).map(|s| s.id)
    }

    /// Whether the peer accepts parities of blocks now: it has our key, so it knows DSS.
    pub(in crate::connection) fn sends_blocks(&self) -> bool {
        self.extensions.parities.in_blocks() && self.multipath().is_some_and(|m| m.confirmed)
    }

    /// Sends a parity of a block, if the block exists and there is room for the parity.
    pub(in crate::connection) fn send_block_parity(
        &mut self,
        now: Instant,
        request: &ParityRequest,
    ) -> Option<(SubflowId, Segment)> {
        if !self.sends_blocks() {
            return None;
        }
        let (w, b) = (self.index(request.of)?, self.index(request.on)?);
        let name = self.name_of(&self.subflows[w])?;
        if request.index == 0 {
            if !self.budget_allows_block(w, request)? {
                return None;
            }
            let block = self.make_block(w, request)?;
            if !self.has_room_for(now, b, block.symbols.first()?.as_ref()?) {
                return None;
            }
            self.subflows[w]
                .tx
                .board
                .code(request.first, request.segments);
            let open = &mut self.extensions.parities.blocks.as_mut()?.open;
            open.retain(|o| o.of != request.of);
            open.push(block);
        }
        let open = &self.extensions.parities.blocks.as_ref()?.open;
        let same = |o: &Open| (o.of, o.first) == (request.of, request.first);
        let at = open.iter().position(same)?;
        let symbol = open[at].symbols.get(request.index)?.clone()?;
        let cost = (ParityHeader::LEN + symbol.content.len()) as u64;
        if !self.has_room_for(now, b, &symbol) || !self.budget_allows(cost) {
            return None;
        }
        let block = &mut self.extensions.parities.blocks.as_mut()?.open[at];
        block.symbols[request.index] = None;
        block.kept.0 -= symbol.content.len() as u64;
        block.kept.1 -= 1;
        let header = ParityHeader {
            name,
            first: block.first.relative_number(),
            end: block.end.relative_number(),
            sources: u8::try_from(block.shape.sources).ok()?,
            parities: u8::try_from(block.shape.parities).ok()?,
            index: u8::try_from(request.index).ok()?,
            coded_len: symbol.label.len,
            coded_dsn: symbol.label.dsn,
        };
        let (offset, end) = block.offsets;
        let coded = Coded {
            of: request.of,
            packets: header.sources,
            end,
            index: header.index,
        };
        let payload = with_header(header.to_bytes(), payload_of(symbol.content));
        Some(self.carry(now, b, (offset, coded), header.to_bytes(), payload))
    }

    /// Whether the recovery budget allows the first parity of a new block of subflow `w`. This is checked before
    /// the block is encoded. A parity is as long as the longest packet of its block and the header. `None` if
    /// there can be no such block.
    fn budget_allows_block(&mut self, w: usize, request: &ParityRequest) -> Option<bool> {
        if self.config.recovery_budget.is_none() {
            return Some(true);
        }
        let board = &self.subflows[w].tx.board;
        let members = board.block(request.first, request.segments)?;
        let longest = members.map(|s| s.payload.len()).max()?;
        Some(self.budget_allows((ParityHeader::LEN + longest) as u64))
    }

    /// Reads the packets of a new block of subflow `w` and makes its parities.
    fn make_block(&self, w: usize, request: &ParityRequest) -> Option<Open> {
        let mp = self.multipath()?;
        let shape = Shape::new(request.segments, request.parities);
        let code = ReedSolomon::new();
        let told = |n: usize| n <= usize::from(u8::MAX);
        if code.limits().check(shape).is_err() || !told(shape.sources) || !told(shape.parities) {
            return None;
        }
        let members = self.subflows[w]
            .tx
            .board
            .block(request.first, request.segments)?;
        let (mut end, mut first, mut last) = (request.first, None, DataOffset::START);
        let mut sources = Vec::with_capacity(request.segments);
        for s in members {
            let offset = s.map?.offset;
            first.get_or_insert(offset);
            last = offset + s.payload.len() as u64;
            end = s.end() - u64::from(s.fin);
            sources.push(Source {
                dsn: mp.dsn(offset) as u32,
                body: body_of(&s.payload),
            });
        }
        let symbols = (0..request.parities).map(|k| code.encode(shape, k, &sources).ok());
        let symbols: Vec<_> = symbols.collect();
        let kept = symbols.iter().flatten();
        let kept = kept.fold((0, 0), |k, s| (k.0 + s.content.len() as u64, k.1 + 1));
        Some(Open {
            of: request.of,
            first: request.first,
            end,
            offsets: (first?, last),
            shape,
            symbols,
            kept,
        })
    }

    /// Whether subflow `b` has room for such a parity now.
    fn has_room_for(&mut self, now: Instant, b: usize, symbol: &Symbol) -> bool {
        let target = &mut self.subflows[b];
        let len = (ParityHeader::LEN + symbol.content.len()) as u64;
        target.tx.check_idle(now);
        target.is_usable() && len <= target.tx.mss && target.tx.may_send(len)
    }

    /// Sends a parity as new sequence space of subflow `b`. `offset` is the data offset of the first protected
    /// packet.
    fn carry(
        &mut self,
        now: Instant,
        b: usize,
        (offset, coded): (DataOffset, Coded),
        header: [u8; ParityHeader::LEN],
        payload: Payload,
    ) -> (SubflowId, Segment) {
        let (on, position) = (self.subflows[b].id, self.subflows[b].tx.nxt);
        let len = payload.len() as u64;
        self.forget_acked_parities();
        if let Some(blocks) = &mut self.extensions.parities.blocks {
            blocks.sent_on(on).push_back(SentParity {
                start: position,
                len,
                header,
                coded: (offset, coded),
            });
        }
        let options = self.parity_options(on, position, &payload);
        let kind = SendKind::Parity;
        let sent = TraceKind::Sent {
            kind,
            offset,
            position,
            len: len as u32,
            copy_of: Some(coded.of),
            parity: Some(coded),
        };
        self.outbox.trace.add(now, on, sent);
        self.note_carrier(on, true);
        let cx = self.context(now, b);
        let sf = &mut self.subflows[b];
        let seg = sf.build_new(cx, payload, false, None, kind, options);
        debug_assert!(
            sf.tx.in_flight() <= sf.tx.cc.cwnd(),
            "a parity of {len} bytes on subflow {on}: {} in flight, cwnd {}",
            sf.tx.in_flight(),
            sf.tx.cc.cwnd()
        );
        self.timers.stalled_since.get_or_insert(now);
        (on, seg)
    }

    /// The packets that the parity at `start` of subflow `on` protects, and the data offset of the first
    /// packet.
    pub(in crate::connection) fn coded(
        &self,
        on: SubflowId,
        start: SubflowPosition,
    ) -> Option<(DataOffset, Coded)> {
        let blocks = self.extensions.parities.blocks.as_ref()?;
        Some(blocks.sent_at(on, start)?.coded)
    }

    /// Drops parities of blocks that were acknowledged.
    pub(in crate::connection) fn forget_acked_parities(&mut self) {
        let Some(blocks) = &mut self.extensions.parities.blocks else {
            return;
        };
        let subflows = &self.subflows;
        blocks.sent.retain_mut(|(on, sent)| {
            let carrier = subflows.iter().find(|c| c.id == *on);
            let una = carrier.map_or(SubflowPosition::MAX, |c| c.tx.una);
            while sent.pop_front_if(|s| s.end() <= una).is_some() {
                self.steps.add(1);
            }
            !sent.is_empty()
        });
    }

    /// The options of a parity, or of a piece of a parity, that begins at `start` of subflow `on`.
    pub(in crate::connection) fn parity_options(
        &self,
        on: SubflowId,
        start: SubflowPosition,
        payload: &Payload,
    ) -> Options {
        let mut options = Options {
            dss: self.ack_dss(),
            ..Options::default()
        };
        let blocks = self.extensions.parities.blocks.as_ref();
        let Some(whole) = blocks.and_then(|b| b.sent_at(on, start)) else {
            return options;
        };
        let marker = ParityOption::Block {
            start: whole.start.relative_number(),
            len: whole.len as u16,
        };
        let rare = options.rare_mut();
        rare.experimental.push(marker.to_option());
        let is_whole = (start, payload.len() as u64) == (whole.start, whole.len);
        if is_whole && matches!(payload, Payload::Length(_)) {
            rare.payload_head = whole.header.to_vec();
        }
        options
    }
}

/// Payload of a parity: the header and the coded body.
fn with_header(header: [u8; ParityHeader::LEN], body: Payload) -> Payload {
    match body {
        Payload::Length(n) => Payload::Length(ParityHeader::LEN as u32 + n),
        Payload::Bytes(b) => Payload::from([&header[..], &b[..]].concat()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subflow_is_identified_by_its_latest_name() {
        let mut b = Blocks::default();
        b.name(SubflowId(1), 3);
        b.name(SubflowId(2), 3);
        b.name(SubflowId(4), 5);
        assert_eq!(b.names, [(SubflowId(2), 3), (SubflowId(4), 5)]);
        b.forget(SubflowId(2));
        assert_eq!(b.names, [(SubflowId(4), 5)]);
    }
}

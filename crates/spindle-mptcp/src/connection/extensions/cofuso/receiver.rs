//! Parities of blocks at the receiver: separated from data and decoded. Decoded packets are passed to the data
//! level, and only the data level is affected by them (CoFUSO sections 4.3 and 5.3).

use spindle_codes::{Label, Shape};
use spindle_units::Instant;
use spindle_wire::{DataNumber, ParityHeader, ParityOption, Payload, Segment};

use super::decoder::{Block, Decoded, Decoder, Found, Verdict};
use crate::connection::ended::SubflowEnd;
use crate::connection::numbers::offset_of;
use crate::connection::trace::TraceKind;
use crate::connection::{Connection, ConnectionEvent};
use crate::subflow::input::Arrival;
use crate::subflow::receiver::part;
use crate::types::{DataOffset, SubflowId, SubflowPosition};

/// The relevance of a segment for block decoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::connection) enum ParityDisposition {
    /// The segment does not help to decode a block.
    Nothing,
    /// The segment may help to decode the block, if there is one, that contains this position of this subflow.
    About(SubflowId, SubflowPosition),
    /// The segment closed its subflow or the connection.
    Fatal,
}

impl Connection {
    /// Sorts a segment that arrived on a connection with parities of blocks, after the subflow has processed
    /// it. Data are kept. A parity is removed from `arrival`, so that no byte of it is delivered.
    pub(in crate::connection) fn sort_arrival(
        &mut self,
        now: Instant,
        i: usize,
        seg: &Segment,
        arrival: &mut Arrival,
    ) -> ParityDisposition {
        if !arrival.had_data {
            return ParityDisposition::Nothing;
        }
        let Some(ParityOption::Block { start, len }) = ParityOption::of(&seg.options) else {
            return self.keep_packet(i, seg);
        };
        if self.mp.is_none() {
            // The peer sent the parity before it fell back. Its sequence space has no data, but plain TCP
            // treats it as data.
            self.reset_subflow(now, i, SubflowEnd::Middlebox);
            return ParityDisposition::Fatal;
        }
        arrival.pieces = Default::default();
        arrival.had_data = false;
        arrival.parity = true;
        self.counters.parities_received += 1;
        let sf = &self.subflows[i];
        if let Some(position) = SubflowPosition::from_signed(sf.receive_position(seg.seq)) {
            let id = sf.id;
            self.outbox
                .trace
                .add(now, id, TraceKind::ParityArrived { position });
        }
        match self.take_block_parity(i, seg, (start, len)) {
            Ok((told, Verdict::Taken)) => told,
            Ok((_, Verdict::Needless)) => ParityDisposition::Nothing,
            Ok((_, Verdict::Refused)) | Err(Refused) => {
                self.counters.parities_refused += 1;
                ParityDisposition::Nothing
            }
        }
    }

    /// Keeps a packet that arrived on subflow `i` exactly as it was sent: its payload covers its mapping and
    /// nothing else.
    fn keep_packet(&mut self, i: usize, seg: &Segment) -> ParityDisposition {
        let sf = &self.subflows[i];
        let (id, len) = (sf.id, seg.payload.len());
        // A burst that arrives in one piece is not part of a block. It is longer than any packet.
        let whole_burst = len as u64 > 2 * sf.tx.mss;
        let pressed = self.recv.is_pressed() || whole_burst;
        let Some(mp) = self.multipath().filter(|_| !pressed) else {
            return ParityDisposition::Nothing;
        };
        let position = SubflowPosition::from_signed(sf.receive_position(seg.seq));
        let map = position.and_then(|p| sf.rx.map_at(p).filter(|m| m.start == p));
        let Some(map) = map.filter(|m| m.len == len as u64).copied() else {
            return ParityDisposition::Nothing;
        };
        let dsn = mp.remote_dsn(map.offset) as u32;
        let most = self.config.tcp.receive_buffer as u64;
        if let Some(decoder) = self.decoder(id) {
            decoder.keep(map.start, dsn, part(&seg.payload, 0, len), most);
        }
        ParityDisposition::About(id, map.start)
    }

    fn decoder(&mut self, id: SubflowId) -> Option<&mut Decoder> {
        let decoders = &mut self.extensions.parities.blocks.as_mut()?.decoders;
        let at = decoders.iter().position(|d| d.0 == id);
        let at = at.unwrap_or_else(|| {
            decoders.push((id, Decoder::default()));
            decoders.len() - 1
        });
        decoders.get_mut(at).map(|d| &mut d.1)
    }

    /// Parses and adds a parity that arrived on subflow `i`.
    fn take_block_parity(
        &mut self,
        i: usize,
        seg: &Segment,
        (start, full): (u32, u16),
    ) -> Result<(ParityDisposition, Verdict), Refused> {
        let carrier = &self.subflows[i];
        let position = carrier.receive_position(seg.seq);
        let len = seg.payload.len();
        let whole = (position as u32, len) == (start, usize::from(full));
        let bytes = seg
            .payload_head::<{ ParityHeader::LEN }>()
            .filter(|_| whole);
        let header = ParityHeader::from_bytes(bytes.ok_or(Refused)?);
        let body = seg
            .payload
            .slice(ParityHeader::LEN, len - ParityHeader::LEN);
        let of = self.named(header.name).ok_or(Refused)?;
        let sf = &self.subflows[self.index(of).ok_or(Refused)?];
        let nxt = sf.rx.nxt;
        let first = nxt.nearest_byte(header.first).ok_or(Refused)?;
        let end = first + u64::from(header.end.wrapping_sub(header.first));
        if end > nxt + sf.receive_window(true) || self.recv.is_pressed() {
            return Err(Refused);
        }
        let block = Block {
            first,
            end,
            shape: Shape::new(usize::from(header.sources), usize::from(header.parities)),
            width: body.len(),
        };
        let most = self.config.tcp.receive_buffer as u64;
        let decoder = self.decoder(of).ok_or(Refused)?;
        let body = part(&body, 0, body.len());
        let label = Label {
            len: header.coded_len,
            dsn: header.coded_dsn,
        };
        let verdict = decoder.add(block, usize::from(header.index), (label, body), nxt, most);
        Ok((ParityDisposition::About(of, first), verdict))
    }

    /// Decodes the block that contains position `at` of subflow `of`, if possible, and passes the missing
    /// packets to the data level. A segment on subflow `by` made decoding possible, so `by` acknowledges at
    /// once.
    pub(in crate::connection) fn recover_block(
        &mut self,
        now: Instant,
        of: SubflowId,
        at: SubflowPosition,
        by: SubflowId,
    ) {
        let Some(i) = self.index(of) else { return };
        let Some(decoder) = self.decoder(of) else {
            return;
        };
        let Decoded {
            packets,
            contradictions,
        } = decoder.decode(at);
        self.counters.parities_refused += contradictions;
        let before = self.recv.readable();
        let mut fresh = 0;
        for packet in packets {
            if let Some((offset, payload)) = self.place(i, packet) {
                self.counters.packets_decoded += 1;
                let len = payload.len() as u32;
                let new = self.recv.insert(offset, payload);
                fresh += new;
                let kind = TraceKind::Decoded {
                    offset,
                    fresh: new as u32,
                    len,
                    by,
                };
                self.outbox.trace.add(now, of, kind);
            } else {
                self.counters.parities_refused += 1;
            }
        }
        if fresh == 0 {
            return;
        }
        self.counters.bytes_received += fresh;
        if self.recv.readable() > before {
            self.outbox.push_event(ConnectionEvent::Readable);
        }
        self.check_data_fin();
        if let Some(by) = self.index(by) {
            self.subflows[by].rx.ack_now = true;
        }
    }

    /// The data offset of a decoded packet of subflow `i`. `None` if the packet is beyond the window,
    /// contradicts a mapping, or cannot be verified because arriving data have checksums.
    fn place(&self, i: usize, packet: Found) -> Option<(DataOffset, Payload)> {
        let mp = self.multipath().filter(|_| !self.verifies())?;
        let dsn = DataNumber::Low(packet.dsn);
        let offset = offset_of(dsn, mp.first_remote_dsn(), self.recv.next());
        let end = offset.checked_add(packet.payload.len() as u64)?;
        let map = self.subflows[i].rx.map_at(packet.position);
        let agrees = map.is_none_or(|m| {
            (m.start, m.len) == (packet.position, packet.payload.len() as u64) && m.offset == offset
        });
        (agrees && end <= self.recv.edge()).then_some((offset, packet.payload))
    }
}

/// A parity that cannot be parsed or refers to an unknown subflow or position.
#[derive(Clone, Copy, Debug)]
struct Refused;

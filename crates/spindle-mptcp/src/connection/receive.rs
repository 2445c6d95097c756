//! Processing of arriving segments at the connection: handshake checks, data-level signals, delivery.

use std::collections::VecDeque;

use spindle_units::Instant;
use spindle_wire::{
    CodedPacket, Dss, Flags, Mapping, MpCapable, MpJoin, Packet, Payload, RareOptions, Segment,
};

use super::ended::SubflowEnd;
use super::extensions::cofuso::receiver::ParityDisposition;
use super::numbers::offset_of;
use super::trace::TraceKind;
use super::{CloseReason, Connection, ConnectionEvent, Role};
use crate::recovery::Trigger;
use crate::subflow::input::{Arrival, InputContext};
use crate::subflow::receiver::{
    Deliverable, DeliveryRules, Mapped, NextInOrder, Piece, ReceivedMap,
};
use crate::subflow::{Origin, TcpState};
use crate::types::{DataOffset, SubflowPosition};

/// Unmapped in-order bytes that a subflow may accumulate before it is reset. RFC 8684, section 3.3.1, leaves
/// the limit to the receiver.
const MAX_UNMAPPED: u64 = 64 << 10;

impl Connection {
    /// Processes a segment for subflow `i`.
    pub(crate) fn receive(&mut self, now: Instant, i: usize, seg: &Segment) {
        let i = match self.connected {
            true => i,
            false => self.promote_if_answered(i, seg),
        };
        let stage = self.subflows[i].stage.as_ref();
        if stage.is_some_and(|s| s.sees_input()) {
            self.take_through_stage(now, i, seg);
        } else {
            self.on_segment(now, i, seg);
        }
        self.note_repairs(now, i);
        self.settle(now);
    }

    #[inline(never)] // only with a stage
    fn take_through_stage(&mut self, now: Instant, i: usize, seg: &Segment) {
        let mut up = VecDeque::new();
        if let Some(stage) = self.subflows[i].stage.as_mut() {
            stage.input(now, seg.clone(), &mut up, &mut self.outbox.packets);
        }
        self.on_segments_of_stage(now, i, up);
    }

    /// Processes a packet of the coding layer for subflow `i`. It is ignored unless the subflow's stage codes.
    pub(crate) fn receive_coded(&mut self, now: Instant, i: usize, packet: &CodedPacket) {
        let mut up = VecDeque::new();
        if let Some(stage) = self.subflows[i].stage.as_mut() {
            stage.input_coded(now, packet, &mut up, &mut self.outbox.packets);
        }
        self.on_segments_of_stage(now, i, up);
        self.note_repairs(now, i);
        self.settle(now);
    }

    /// Processes the segments that a stage has passed up to its subflow, as long as the subflow has not ended.
    pub(super) fn on_segments_of_stage(
        &mut self,
        now: Instant,
        i: usize,
        segments: VecDeque<Segment>,
    ) {
        for segment in segments {
            if !self.subflows.has_ended(i) {
                self.on_segment(now, i, &segment);
            }
        }
    }

    pub(super) fn on_segment(&mut self, now: Instant, i: usize, seg: &Segment) {
        if !self.may_complete(now, i, seg) || self.take_parity(now, i, seg) {
            return;
        }
        let flight = self.subflows[i].tx.flight_size();
        let before = self.subflows[i].state;
        let cx = InputContext {
            now,
            new_data: self.has_new_data(),
            opportunities: self.outbox.opportunities,
            data_level_window: self.is_multipath(),
            room: self.recv.has_room() && self.subflows[i].rx.has_room(),
            data_acked: self.delivered_to(seg),
            refuses: self.refuses_data(),
        };
        let mut reset_due = false;
        let arrival = self.subflows[i].on_segment(seg, cx, &mut self.coupling, &mut reset_due);
        if reset_due
            && self.subflows[i].may_reset(now)
            && let Some(rst) = crate::subflow::output::reset_for(seg)
        {
            self.outbox.packets.push_back(Packet::Tcp(rst));
        }
        if arrival.reset {
            self.on_reset(now, i, seg, before);
            return;
        }
        if arrival.established && !self.on_established(now, i, seg, before, &arrival) {
            return;
        }
        if !arrival.acceptable {
            return;
        }
        self.note_progress(now, i, seg, &arrival);
        self.process_echo(now, i, seg, flight);
        if arrival.had_data {
            self.keep_for_decoding(i, seg);
        }
        if self.rare_options(now, i, seg, &arrival) {
            self.note_undelivered(now, i, seg);
            if self.extensions.parities.in_blocks() {
                self.take_coded(now, i, seg, arrival);
            } else if !self.is_pure_ack(i, seg, &arrival) {
                self.take_data(now, i, seg, arrival);
            }
        }
    }

    /// Whether plain TCP has nothing to process in a segment except its acknowledgement.
    #[inline]
    fn is_pure_ack(&self, i: usize, seg: &Segment, arrival: &Arrival) -> bool {
        let ends = arrival.fin || self.recv.overrun();
        self.mp.is_none() && seg.payload.is_empty() && !ends && !self.subflows[i].rx.holds_any()
    }

    /// Processes data or a parity on a connection with parities of blocks.
    #[inline(never)] // only with coding
    fn take_coded(&mut self, now: Instant, i: usize, seg: &Segment, mut arrival: Arrival) {
        let id = self.subflows[i].id;
        let told = self.sort_arrival(now, i, seg, &mut arrival);
        if told == ParityDisposition::Fatal {
            return;
        }
        self.take_data(now, i, seg, arrival);
        if let ParityDisposition::About(of, at) = told {
            self.recover_block(now, of, at, id);
        }
    }

    /// In SYN_RECEIVED: whether the segment carries what the MPTCP handshake needs.
    #[inline]
    fn may_complete(&mut self, now: Instant, i: usize, seg: &Segment) -> bool {
        let half_open = self.subflows[i].state == TcpState::SynReceived;
        !half_open || seg.flags.contains(Flags::RST) || self.completes(now, i, seg)
    }

    #[cold] // the handshake
    fn completes(&mut self, now: Instant, i: usize, seg: &Segment) -> bool {
        let sf = &self.subflows[i];
        if seg.flags.contains(Flags::SYN) {
            // A SYN/ACK completes the handshake only in a simultaneous open.
            let both = self.role == Role::Client && sf.origin == Origin::Initial;
            return both || !seg.flags.contains(Flags::ACK);
        }
        // A segment that does not acknowledge our SYN completes nothing and proves nothing about MPTCP.
        if !seg.flags.contains(Flags::ACK) || seg.ack != sf.seq(SubflowPosition::FIRST_BYTE) {
            return true;
        }
        match sf.origin {
            Origin::Initial => self.role == Role::Client || self.check_third_ack(seg),
            Origin::Join(_) => match self.check_join_ack(i, seg) {
                Some(true) => true,
                Some(false) => {
                    self.reset_subflow(now, i, SubflowEnd::InvalidJoin);
                    false
                }
                None => false,
            },
        }
    }

    /// The TCP handshake of subflow `i` is complete. Returns false if the subflow was refused.
    #[cold] // the handshake
    fn on_established(
        &mut self,
        now: Instant,
        i: usize,
        seg: &Segment,
        before: TcpState,
        arrival: &Arrival,
    ) -> bool {
        let client = before == TcpState::SynSent;
        match self.subflows[i].origin {
            Origin::Initial => {
                if client {
                    self.on_capable_syn_ack(seg);
                    self.agree_on_extensions(seg);
                } else if self.role == Role::Client {
                    // Simultaneous open: MPTCP does not define it, so the connection uses plain TCP.
                    self.mp = None;
                }
                self.end_race(now, i);
                if self.role == Role::Server {
                    self.settle_early_joins(now);
                }
                let window = self.subflows[i].peer_window.current.max(arrival.window);
                self.send.right_edge = DataOffset::START + window;
                self.connected = true;
                self.timers.stalled_since = None;
                self.outbox.push_event(ConnectionEvent::Connected);
            }
            Origin::Join(_) if client => {
                if !self.check_join_syn_ack(i, seg) {
                    self.reset_subflow(now, i, SubflowEnd::InvalidJoin);
                    return false;
                }
            }
            Origin::Join(_) => {
                self.join_established(i);
                // The fourth segment of the handshake is an immediate acknowledgement.
                self.subflows[i].rx.ack_now = true;
                self.on_subflow_up(now, i);
            }
        }
        true
    }

    /// Records what an acceptable segment acknowledged, on the subflow and at the data level.
    fn note_progress(&mut self, now: Instant, i: usize, seg: &Segment, arrival: &Arrival) {
        if seg.flags.contains(Flags::SYN) {
            return;
        }
        self.policy.triggers.insert(Trigger::Ack);
        let awaits = matches!(self.subflows[i].origin, Origin::Join(j) if j.awaits_fourth);
        if awaits && arrival.in_true_window {
            self.on_fourth_ack(now, i);
        }
        if arrival.ack.entered_recovery {
            self.note_recovery(now, i);
        }
        // With MPTCP the data level shows progress, unless only FINs are outstanding.
        let outstanding = || self.send.una < self.sent_to();
        let acked = arrival.ack.acked > 0 && !(self.is_multipath() && outstanding());
        let probed = self.timers.persist_tries > 0 && (!outstanding() || arrival.window == 0);
        if acked || probed {
            self.timers.stalled_since = Some(now);
        }
        self.tune_send_buffer();
        if !self.is_multipath() {
            let before = self.send.una;
            self.plain_progress(i);
            if self.send.una > before {
                self.memory.moved(now);
            }
        }
        if self.outbox.trace.on && (arrival.ack.acked > 0 || arrival.ack.sacked > 0) {
            self.trace_acked(now, i);
        }
    }

    /// The peer has acknowledged the third ACK of a join, so the join is complete.
    #[cold] // the handshake
    fn on_fourth_ack(&mut self, now: Instant, i: usize) {
        if let Origin::Join(j) = &mut self.subflows[i].origin {
            j.awaits_fourth = false;
            j.repeat_at = None;
        }
        self.on_subflow_up(now, i);
    }

    #[cold] // a loss
    fn note_recovery(&mut self, now: Instant, i: usize) {
        self.watch_repairs();
        let id = self.subflows[i].id;
        self.outbox.trace.add(now, id, TraceKind::FastRetransmit);
        if let Some(r) = &mut self.policy.sender {
            r.on_loss_hint(now, id, false);
        }
    }

    #[cold] // only for a recorded flow
    fn trace_acked(&mut self, now: Instant, i: usize) {
        let sf = &self.subflows[i];
        let (id, position, data) = (sf.id, sf.tx.una, self.send.una);
        let (cwnd, in_flight) = (sf.tx.cc.cwnd(), sf.tx.in_flight());
        let acked = TraceKind::Acked { position, data };
        self.outbox.trace.add(now, id, acked);
        let window = TraceKind::Window { cwnd, in_flight };
        self.outbox.trace.add(now, id, window);
    }

    /// Plain TCP: data that the subflow acknowledges are acknowledged at the data level, and the subflow's
    /// window is the data-level window.
    #[inline]
    pub(super) fn plain_progress(&mut self, i: usize) {
        let sf = &self.subflows[i];
        let oldest = sf.tx.board.front().and_then(|s| s.map);
        let (acked, window) = (
            oldest.map_or(self.sent_to(), |m| m.offset),
            sf.peer_window.current,
        );
        self.on_data_acked(acked);
        self.move_right_edge(self.send.una + window);
    }

    pub(super) fn on_data_acked(&mut self, offset: DataOffset) {
        if offset <= self.send.una {
            return;
        }
        let was_full = self.writable() == 0;
        if self.send.acknowledge(offset) > 0 {
            self.count_outrun();
            self.timers.data_tries = 0;
            self.timers.data_at = None;
            self.timers.persist_tries = 0;
            self.timers.shut_since = None;
            self.notify_acknowledged();
            if was_full && self.writable() > 0 {
                self.outbox.push_event(ConnectionEvent::Writable);
            }
        }
    }

    /// Processes MPTCP signals. Returns false if the subflow has ended.
    #[inline]
    fn rare_options(&mut self, now: Instant, i: usize, seg: &Segment, arrival: &Arrival) -> bool {
        if self.mp.is_none() || seg.flags.contains(Flags::SYN) {
            return self.on_late_mapping(now, i, seg);
        }
        self.mptcp_options(now, i, seg, arrival)
    }

    #[inline(never)] // not for plain TCP
    fn mptcp_options(&mut self, now: Instant, i: usize, seg: &Segment, arrival: &Arrival) -> bool {
        if !arrival.in_true_window {
            // In-window data that this end accepts have their mapping here. Everything else may be forged.
            return match seg.options.dss {
                Some(dss) if !seg.payload.is_empty() => self.take_mapping(now, i, &dss, false),
                _ => true,
            };
        }
        if self.awaits_fallback() && !seg.options.has_mptcp() {
            return self.revert(now, i, None);
        }
        if !self.process_options(now, i, seg, arrival) {
            return false;
        }
        if let Some(dss) = seg.options.dss {
            self.take_data_ack(now, i, &dss, seg);
        }
        if let Some(rare) = &seg.options.rare {
            if !self.on_signals(now, i, rare) {
                return false;
            }
            if let Some(c) = rare.mp_capable
                && let Some(len) = c.data_len
                && self.has_our_keys(i, &c)
            {
                let map = ReceivedMap {
                    start: SubflowPosition::FIRST_BYTE,
                    len: u64::from(len),
                    offset: DataOffset::START,
                    checksum: c.checksum,
                };
                let window = self.config.tcp.receive_buffer as u64;
                self.subflows[i].rx.add_map(map, window);
                self.confirm();
            }
        }
        match seg.options.dss {
            Some(dss) => self.take_mapping(now, i, &dss, true),
            None => true,
        }
    }

    fn confirm(&mut self) {
        if let Some(mp) = &mut self.mp
            && mp.negotiated
        {
            let before = std::mem::replace(&mut mp.confirmed, true);
            if !before {
                self.tell_backup();
            }
            self.begin_to_scatter();
        }
    }

    /// Whether the MP_CAPABLE on the client's first data carries the keys of this connection.
    fn has_our_keys(&self, i: usize, c: &MpCapable) -> bool {
        let first = self.subflows[i].origin == Origin::Initial && self.role == Role::Server;
        let same = |m: &super::MpState| {
            c.sender_key.is_some()
                && c.sender_key == m.key_remote
                && c.receiver_key == Some(m.key_local)
        };
        first && self.multipath().is_some_and(same)
    }

    /// Whether an MP_FAIL is plausible: it answers ours, or its data sequence number belongs to data that were
    /// sent and are not acknowledged. Data up to one send buffer before the oldest unacknowledged byte count
    /// too, because the first MP_FAIL may have been lost although the data were acknowledged.
    fn is_plausible_failure(&self, dsn: u64) -> bool {
        let Some(mp) = self.multipath() else {
            return false;
        };
        let offset = DataOffset::of_sequence_number(dsn, mp.first_dsn());
        let sent = self.sent_to() + u64::from(self.teardown.data_fin_sent);
        let oldest = self.send.una.saturating_sub(self.buffers.send());
        self.awaits_fallback() || (oldest..sent).contains(&offset)
    }

    /// Processes MP_FASTCLOSE, MP_FAIL and path management. Returns false if the subflow has ended.
    fn on_signals(&mut self, now: Instant, i: usize, rare: &RareOptions) -> bool {
        let ours = self.multipath().map(|m| m.key_local);
        if rare.mp_fastclose.is_some() && rare.mp_fastclose == ours {
            self.abort_with(now, CloseReason::PeerAborted);
            return false;
        }
        if let Some(dsn) = rare.mp_fail
            && self.subflows.remaining_count() == 1
            && self.is_plausible_failure(dsn)
        {
            return self.answer_failure(now, i);
        }
        if matches!(rare.mp_join, Some(MpJoin::Ack { .. })) {
            // A repeated third ACK means that the fourth was lost (RFC 8684, section 3.2).
            self.subflows[i].rx.ack_now = true;
        }
        self.on_addresses(now, i, rare);
        true
    }

    /// Processes the DATA_ACK. This comes first because the rest of the segment is checked against it.
    fn take_data_ack(&mut self, now: Instant, i: usize, dss: &Dss, seg: &Segment) {
        if !self.is_multipath() {
            return;
        }
        self.confirm();
        if let Some(offset) = self.data_acked_by(dss) {
            if let Some(mp) = &mut self.mp {
                mp.window_announced = true;
            }
            self.on_data_ack(now, i, offset, seg);
        }
    }

    /// Processes a mapping. An infinite mapping ends MPTCP and is processed only with `infinite`.
    fn take_mapping(&mut self, now: Instant, i: usize, dss: &Dss, infinite: bool) -> bool {
        let Some(mp) = self.multipath().copied() else {
            return true;
        };
        match dss.mapping {
            Some(m) if m.len == 0 => !infinite || self.on_infinite_mapping(now, i, &mp, &m),
            Some(m) => self.on_mapping(now, i, &mp, &m, dss.data_fin),
            None => true,
        }
    }

    fn on_data_ack(&mut self, now: Instant, i: usize, offset: DataOffset, seg: &Segment) {
        let before = self.send.una;
        if self.teardown.data_fin_sent && offset > self.send.written {
            self.teardown.data_fin_acked = true;
            self.teardown.data_fin_due = false;
            self.note_delivered();
        }
        if offset < self.send.una {
            return;
        }
        self.on_data_acked(offset);
        if self.send.una > before {
            self.timers.stalled_since = Some(now);
            self.memory.moved(now);
        }
        let window = self.subflows[i].window_of(seg);
        self.move_right_edge(self.send.right_edge.max(offset + window));
    }

    fn on_mapping(
        &mut self,
        now: Instant,
        i: usize,
        mp: &super::MpState,
        m: &Mapping,
        data_fin: bool,
    ) -> bool {
        let offset = offset_of(m.dsn, mp.first_remote_dsn(), self.recv.next());
        // Data far from anything that can be outstanding cannot be a mapping of this connection.
        let distance = offset.distance(self.recv.next());
        if distance.unsigned_abs() > 1 << 32 || (distance < 0 && offset > self.recv.next()) {
            return true;
        }
        self.note_width(m.dsn);
        let len = u64::from(m.len) - u64::from(data_fin);
        if data_fin {
            self.on_data_fin(offset + len);
            self.subflows[i].rx.ack_now = true;
        }
        if len == 0 {
            return true;
        }
        let rx = &mut self.subflows[i].rx;
        let Some(start) = rx.nxt.nearest_byte(m.ssn) else {
            return true;
        };
        let map = ReceivedMap {
            start,
            len,
            offset,
            checksum: m.checksum,
        };
        self.resend_mp_fail();
        let window = self.config.tcp.receive_buffer as u64;
        if !self.subflows[i].rx.add_map(map, window) {
            self.reset_subflow(now, i, SubflowEnd::ProtocolError);
            return false;
        }
        true
    }

    fn on_data_fin(&mut self, offset: DataOffset) {
        if let Some(mp) = &mut self.mp {
            mp.fin_remote.get_or_insert(offset);
        }
        self.check_data_fin();
    }

    pub(super) fn check_data_fin(&mut self) {
        let reached = self
            .mp
            .as_ref()
            .is_some_and(|m| m.fin_remote == Some(self.recv.next()));
        if reached {
            self.note_peer_closed();
        }
    }

    fn take_data(&mut self, now: Instant, i: usize, seg: &Segment, arrival: Arrival) {
        if self.mp.is_some() {
            self.fallback_at_start(now, i, seg, &arrival);
            if self.subflows.has_ended(i) {
                return;
            }
        }
        self.note_carrier(self.subflows[i].id, arrival.had_data);
        let before = self.recv.readable();
        let (mut fresh, mut len) = (0, 0);
        let mut first = None;
        for piece in arrival.pieces {
            first.get_or_insert(self.offset_of(i, piece.0));
            len += piece.1.len() as u64;
            fresh += self.deliver(now, i, piece);
            if self.subflows.has_ended(i) {
                break;
            }
        }
        fresh += self.deliver_held(now, i, arrival.fin && !seg.options.has_mptcp());
        if self.mp.is_none() && self.recv.overrun() {
            // TCP has acknowledged the dropped data, and there is no data level to retransmit them.
            self.abort_with(now, CloseReason::Interference);
            return;
        }
        self.note_received(now);
        self.counters.bytes_received += fresh;
        if fresh > 0 {
            self.memory.moved(now);
        }
        let brought = if arrival.parity {
            0
        } else {
            seg.payload.len() as u64
        };
        self.counters.bytes_duplicate += brought - fresh.min(brought);
        if self.recv.readable() > before {
            self.outbox.push_event(ConnectionEvent::Readable);
        }
        self.check_data_fin();
        // A wrong checksum may have closed the subflow or the connection.
        if self.subflows.has_ended(i) {
            return;
        }
        if arrival.had_data {
            let offset = first.unwrap_or_default();
            if self.outbox.trace.on {
                self.trace_arrived(now, i, seg, offset, fresh as u32);
            }
            self.ask_receiver(now, i, offset, len as u32, fresh.min(len) as u32);
        }
        if arrival.fin {
            self.on_subflow_fin(now);
        }
    }

    #[cold] // only for a recorded flow
    fn trace_arrived(
        &mut self,
        now: Instant,
        i: usize,
        seg: &Segment,
        offset: DataOffset,
        fresh: u32,
    ) {
        let id = self.subflows[i].id;
        let position = self.subflows[i].receive_position(seg.seq);
        let kind = TraceKind::Arrived {
            offset,
            position: SubflowPosition::from_signed(position).unwrap_or_default(),
            fresh,
            len: seg.payload.len() as u32,
        };
        self.outbox.trace.add(now, id, kind);
    }

    /// Delivers the data that subflow `i` holds, unless it has ended. Returns the number of bytes that are new
    /// to the data level. With `bare_fin`, the peer's FIN arrived without an MPTCP option.
    #[inline]
    fn deliver_held(&mut self, now: Instant, i: usize, bare_fin: bool) -> u64 {
        let mut fresh = 0;
        if self.mp.is_some() && !self.subflows.has_ended(i) {
            fresh += self.release_mapped(now, i, bare_fin);
        }
        // MPTCP may have ended with a mapping that vanished.
        if self.mp.is_none() && self.subflows[i].rx.holds_any() && !self.subflows.has_ended(i) {
            fresh += self.release_unmapped(i);
        }
        fresh
    }

    /// Delivers held data through the mappings, and checks whether mappings have vanished. With `fin`, the
    /// peer's FIN arrived without an MPTCP option.
    #[inline(never)] // not for plain TCP
    fn release_mapped(&mut self, now: Instant, i: usize, fin: bool) -> u64 {
        let fresh = self.release_held(now, i);
        if !self.subflows.has_ended(i) {
            self.mapping_vanished(now, i, fin);
        }
        fresh
    }

    fn ask_receiver(&mut self, now: Instant, i: usize, offset: DataOffset, len: u32, fresh: u32) {
        let id = self.subflows[i].id;
        if let Some(r) = &mut self.policy.receiver
            && r.on_arrival(now, id, offset, len, fresh)
        {
            self.subflows[i].rx.ece = true;
        }
    }

    fn offset_of(&self, i: usize, position: SubflowPosition) -> DataOffset {
        if self.is_multipath() {
            match self.subflows[i].rx.locate(position) {
                Mapped::Run { offset, .. } => offset,
                Mapped::Unmapped => DataOffset::START,
            }
        } else {
            self.unmapped_delta.offset_of(position)
        }
    }

    /// Delivers a piece or holds it. Returns the number of bytes that are new to the data level.
    #[inline]
    fn deliver(&mut self, now: Instant, i: usize, piece: Piece) -> u64 {
        if self.mp.is_none() {
            let offset = self.unmapped_delta.offset_of(piece.0);
            return self.recv.insert(offset, piece.1);
        }
        self.deliver_mp(now, i, piece)
    }

    #[inline(never)] // not for plain TCP
    fn deliver_mp(&mut self, now: Instant, i: usize, piece: Piece) -> u64 {
        let multipath = self.config.multipath.as_ref();
        let rules = DeliveryRules {
            verify: self.verifies(),
            early: multipath.is_some_and(|m| m.early_dsn_delivery),
        };
        let deliverable = self.subflows[i].rx.deliver(piece, rules);
        deliverable.map_or(0, |d| self.pass_up(now, i, d))
    }

    /// Passes payload up to the data level. Returns the number of bytes that are new there.
    fn pass_up(&mut self, now: Instant, i: usize, deliverable: Deliverable) -> u64 {
        match deliverable {
            Deliverable::Piece(piece) => {
                let (mut fresh, mut rest) = (0, Some(piece));
                while let Some((offset, payload)) = self.subflows[i].rx.next_run(&mut rest) {
                    fresh += self.recv.insert(offset, payload);
                }
                fresh
            }
            Deliverable::Unverified(map, parts) => self.deliver_checked(now, i, &map, &parts),
        }
    }

    /// Delivers held data that are in order and mapped.
    fn release_held(&mut self, now: Instant, i: usize) -> u64 {
        let mut fresh = 0;
        loop {
            let verify = self.verifies();
            match self.subflows[i].rx.next_in_order(verify) {
                NextInOrder::Deliverable(deliverable) => {
                    let verified = matches!(deliverable, Deliverable::Unverified(..));
                    fresh += self.pass_up(now, i, deliverable);
                    // A wrong checksum may have ended the subflow, or MPTCP.
                    if verified && (self.mp.is_none() || self.subflows.has_ended(i)) {
                        return fresh;
                    }
                }
                NextInOrder::Unmapped(bytes) if bytes > MAX_UNMAPPED => {
                    self.reset_subflow(now, i, SubflowEnd::Middlebox);
                    return fresh;
                }
                NextInOrder::Unmapped(_) | NextInOrder::Nothing => break,
            }
        }
        self.subflows[i].rx.prune_maps();
        fresh
    }

    /// Delivers the payload of a mapping if its checksum is right (RFC 8684, section 3.3.1).
    fn deliver_checked(
        &mut self,
        now: Instant,
        i: usize,
        map: &ReceivedMap,
        parts: &[Payload],
    ) -> u64 {
        let Some(mp) = self.multipath().copied() else {
            return 0;
        };
        let payload = super::send_queue::join(parts);
        let dsn = mp.remote_dsn(map.offset);
        let data_fin = mp.fin_remote == Some(map.offset + map.len);
        let sum = |fin: bool| {
            spindle_wire::dss_checksum_of(
                dsn,
                map.start.relative_number(),
                (map.len + u64::from(fin)) as u16,
                [&payload],
            )
        };
        let right = map
            .checksum
            .is_some_and(|c| c == sum(false) || (data_fin && c == sum(true)));
        if right {
            return self.recv.insert(map.offset, payload);
        }
        self.counters.checksum_failures += 1;
        self.on_checksum_failure(now, i, dsn, map, payload)
    }

    /// The peer reset subflow `i`.
    #[cold] // a reset
    fn on_reset(&mut self, now: Instant, i: usize, seg: &Segment, before: TcpState) {
        let fast_close = seg.options.rare.as_ref().is_some_and(|r| {
            r.mp_fastclose.is_some() && r.mp_fastclose == self.multipath().map(|m| m.key_local)
        });
        if fast_close {
            self.abort_with(now, CloseReason::PeerAborted);
            return;
        }
        // RFC 8684, section 3.6: without flag T another attempt is useless.
        let why = seg.options.rare.as_ref().and_then(|r| r.mp_tcprst);
        // The peer refused a join while no other subflow exists, so it no longer knows the connection.
        let alone = self.cut_off.is_some() && self.subflows.remaining_count() == 1;
        let unknown = alone && before == TcpState::SynSent;
        if why.map_or(!unknown, |r| r.transient) {
            self.retry_later(now, i);
        }
        let end = match before {
            TcpState::SynSent => SubflowEnd::Refused(why),
            _ => SubflowEnd::PeerReset(why),
        };
        self.lose_subflow(now, i, end);
    }
}

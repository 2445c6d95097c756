//! Fallback to plain TCP (RFC 8684, section 3.7). It is needed if options do not pass, or no longer pass, or if
//! a middlebox changes payload on the only subflow.

use spindle_units::Instant;
use spindle_wire::{Dss, Flags, Mapping, Payload, Segment};

use super::ended::SubflowEnd;
use super::numbers::offset_of;
use super::{Connection, MpState};
use crate::subflow::Origin;
use crate::subflow::input::Arrival;
use crate::subflow::receiver::{Mapped, ReceivedMap};
use crate::subflow::scoreboard::Sent;
use crate::types::{MappingDelta, SubflowId, SubflowPosition};

/// A checksum failed on the only subflow. MP_FAIL is sent until the peer falls back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failing {
    /// Data sequence number of the mapping that failed.
    dsn: u64,
    /// Its data offset minus its position. Unmapped data will be placed with this difference.
    delta: MappingDelta,
}

/// After this many consecutive data acknowledgements without an MPTCP option, options are assumed not to pass
/// on the first subflow any more. It is the number of duplicate ACKs that indicate a loss (RFC 5681, section
/// 3.2). A single such acknowledgement may come from a stack that is short of option space.
const SILENT_ACKS: u8 = 3;

/// Options that must still be sent or processed after a fallback in the middle of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PendingFallbackSignals {
    /// MP_FAIL in answer to the peer's MP_FAIL.
    pub(super) fail: Option<u64>,
    /// The infinite mapping. All data carry it until data that were sent with it are acknowledged.
    mapping: Option<Mapping>,
    /// End position of the data that were sent without it.
    before: SubflowPosition,
    /// Data sequence number of the peer's first byte, while its infinite mapping may still arrive.
    first_remote_dsn: Option<u64>,
    /// A mapping that arrived since then has determined the data offsets of arriving data.
    settled: bool,
}

impl Connection {
    /// Whether this end has reported a failed checksum and the peer has not fallen back yet.
    pub(super) fn awaits_fallback(&self) -> bool {
        self.mp.as_ref().is_some_and(|m| m.failing.is_some())
    }

    /// Whether arriving mappings are checked by their checksums.
    pub(super) fn verifies(&self) -> bool {
        self.mp
            .as_ref()
            .is_some_and(|m| m.checksum && m.failing.is_none())
    }

    /// Makes MP_FAIL due again. Data with a mapping show that the peer did not act on it, so it may have been
    /// lost.
    pub(super) fn resend_mp_fail(&mut self) {
        if let Some(mp) = &mut self.mp
            && let Some(f) = mp.failing
        {
            mp.fail_due = Some(f.dsn);
        }
    }

    /// A checksum failed on subflow `i`. If there are other subflows, this one is reset. Otherwise MP_FAIL
    /// requests the peer to fall back, and from here on only TCP's checksum protects the bytes. Returns the
    /// number of bytes that are new to the data level.
    pub(super) fn on_checksum_failure(
        &mut self,
        now: Instant,
        i: usize,
        dsn: u64,
        map: &ReceivedMap,
        payload: Payload,
    ) -> u64 {
        let alone = self.subflows.remaining_count() == 1;
        if let Some(mp) = &mut self.mp {
            mp.fail_due = Some(dsn);
            mp.failing = alone.then(|| Failing {
                dsn,
                delta: map.delta(),
            });
        }
        if !alone {
            self.reset_subflow(now, i, SubflowEnd::Middlebox);
            return 0;
        }
        self.subflows[i].rx.ack_now = true;
        self.recv.insert(map.offset, payload)
    }

    /// Processes the peer's MP_FAIL: falls back, and sends an MP_FAIL unless the peer's only answers ours (RFC
    /// 8684, section 3.7).
    pub(super) fn answer_failure(&mut self, now: Instant, i: usize) -> bool {
        let Some(mp) = self.multipath().copied() else {
            return true;
        };
        if !self.revert(now, i, None) {
            return false;
        }
        if mp.failing.is_none() {
            self.fallback_signals.fail = Some(mp.remote_dsn(self.recv.next()));
            self.subflows[i].rx.ack_now = true;
        }
        true
    }

    /// The peer has fallen back. From here on positions map linearly.
    pub(super) fn on_infinite_mapping(
        &mut self,
        now: Instant,
        i: usize,
        mp: &MpState,
        m: &Mapping,
    ) -> bool {
        if self.subflows.remaining_count() > 1 {
            return true;
        }
        let delta = self.delta_of(i, mp.first_remote_dsn(), m);
        self.revert(now, i, Some(delta))
    }

    /// Processes a mapping after this end has fallen back, while the peer may not have. Such a mapping still
    /// determines the data offsets. If the mappings do not place all data in one piece, the data cannot be
    /// accepted without mappings, and the subflow is reset. Returns false in this case.
    #[inline]
    pub(super) fn on_late_mapping(&mut self, now: Instant, i: usize, seg: &Segment) -> bool {
        match self.fallback_signals.first_remote_dsn {
            Some(first) => self.take_late_mapping(now, i, seg, first),
            None => true,
        }
    }

    #[cold] // fallback
    fn take_late_mapping(&mut self, now: Instant, i: usize, seg: &Segment, first: u64) -> bool {
        let Some(m) = seg.options.dss.and_then(|d| d.mapping) else {
            return true;
        };
        if seg.payload.is_empty() {
            return true;
        }
        let delta = self.delta_of(i, first, &m);
        if m.len == 0 {
            self.fallback_signals.first_remote_dsn = None;
        } else if std::mem::replace(&mut self.fallback_signals.settled, true)
            && delta != self.unmapped_delta
        {
            self.reset_subflow(now, i, SubflowEnd::Middlebox);
            return false;
        }
        self.unmapped_delta = delta;
        self.keep_to_edge(i);
        true
    }

    /// Data offset minus position according to a mapping. The peer's first byte has the data sequence number
    /// `first`.
    fn delta_of(&self, i: usize, first: u64, m: &Mapping) -> MappingDelta {
        let offset = offset_of(m.dsn, first, self.recv.next());
        let start = self.subflows[i].rx.nxt.nearest(m.ssn);
        MappingDelta::between(offset, SubflowPosition::wrapping_from_signed(start))
    }

    /// The window belonged to the data level. TCP must now respect the edge that it announced.
    fn keep_to_edge(&mut self, i: usize) {
        let sf = &mut self.subflows[i];
        let edge = self.unmapped_delta.position_of(self.recv.edge());
        let window = self.recv.edge().saturating_since(self.recv.next());
        sf.announced_to = edge.clamp(sf.rx.nxt, sf.rx.nxt + window);
    }

    /// Falls back in the middle of a connection, in both directions. `delta` is data offset minus position of
    /// arriving data, if the peer has announced it. The peer has all data that a linear subflow acknowledged.
    /// Only outstanding data in one piece can be sent without mappings. If they are not in one piece, the
    /// subflow is reset, and false is returned.
    pub(super) fn revert(&mut self, now: Instant, i: usize, delta: Option<MappingDelta>) -> bool {
        let Some(mp) = self.multipath().copied() else {
            return true;
        };
        let linear = self.is_linear();
        if linear {
            let oldest = self.subflows[i].tx.board.front().and_then(|s| s.map);
            self.on_data_acked(oldest.map_or(self.sent_to(), |m| m.offset));
        }
        let Some(sent_delta) = self.outstanding_in_one_piece(i) else {
            self.reset_subflow(now, i, SubflowEnd::Middlebox);
            return false;
        };
        let sf = &mut self.subflows[i];
        let known = sf.rx.last_delta().or(mp.failing.map(|f| f.delta));
        let received_delta = delta
            .or(known)
            .or(linear.then_some(MappingDelta::WHOLE_STREAM))
            .unwrap_or_else(|| MappingDelta::between(self.recv.next(), sf.rx.nxt));
        let dsn = mp.dsn(self.send.una);
        self.fallback_signals = PendingFallbackSignals {
            fail: None,
            mapping: Some(Mapping {
                dsn: self.numbers.sent.number(dsn),
                ssn: sent_delta.position_of(self.send.una).relative_number(),
                len: 0,
                checksum: mp.checksum.then_some(0),
            }),
            before: sf.tx.nxt,
            first_remote_dsn: delta.is_none().then_some(mp.first_remote_dsn()),
            settled: false,
        };
        self.fall_back(received_delta);
        self.keep_to_edge(i);
        true
    }

    /// Data offset minus position of outstanding and later data. `None` if it is not the same for all of them,
    /// or if the data level misses data that the subflow acknowledged.
    fn outstanding_in_one_piece(&self, i: usize) -> Option<MappingDelta> {
        let tx = &self.subflows[i].tx;
        let fin = u64::from(tx.board.back().is_some_and(|s| s.fin));
        let delta = MappingDelta::between(self.sent_to(), tx.nxt - fin);
        // Without its option a parity is treated as data.
        if tx.board.iter().any(Sent::is_parity) {
            return None;
        }
        let one = tx
            .board
            .iter()
            .filter_map(|s| Some(MappingDelta::between(s.map?.offset, s.start)))
            .all(|d| d == delta);
        let oldest = tx.board.front().and_then(|s| s.map);
        let whole = oldest.map_or(self.sent_to(), |m| m.offset) <= self.send.una;
        (one && whole && self.scheduling.reinjections.is_empty()).then_some(delta)
    }

    /// The infinite mapping for a data segment, while the peer may not know it.
    pub(super) fn infinite_mapping(&self, i: usize) -> Option<Dss> {
        let mapping = self.fallback_signals.mapping?;
        let unknown = self.subflows[i].tx.una <= self.fallback_signals.before;
        unknown.then_some(Dss {
            data_ack: None,
            mapping: Some(mapping),
            data_fin: false,
        })
    }

    /// Delivers held data, at the offset that their mapping gives or, without a mapping, linearly.
    #[cold] // fallback
    pub(super) fn release_unmapped(&mut self, i: usize) -> u64 {
        let mut fresh = 0;
        while let Some((place, (at, payload))) = self.subflows[i].rx.next_held() {
            let offset = match place {
                Mapped::Run { offset, .. } => offset,
                Mapped::Unmapped => self.unmapped_delta.offset_of(at),
            };
            fresh += self.recv.insert(offset, payload);
        }
        fresh
    }

    /// Plain TCP from here on. Arriving positions plus `delta` are data offsets.
    #[cold] // fallback
    pub(super) fn fall_back(&mut self, delta: MappingDelta) {
        self.mp = None;
        self.end_scatter();
        self.teardown.data_fin_due = false;
        self.unmapped_delta = delta;
        let first = self.subflows.remaining().next();
        let window = first.map(|s| s.peer_window.current);
        if let Some(window) = window {
            let edge = self.send.una + window;
            // The edge may end a closed window, and so make room in the send buffer.
            self.move_right_edge(edge.max(self.send.right_edge));
        }
        if self.teardown.data_fin_sent {
            self.teardown.data_fin_acked = true;
        }
    }

    /// Records that a subflow carries data, in either direction.
    pub(super) fn note_carrier(&mut self, id: SubflowId, data: bool) {
        if let Some(mp) = self.mp.as_mut().filter(|_| data && id != SubflowId::FIRST) {
            mp.apart = true;
        }
    }

    /// Records whether a segment has an MPTCP option. If acknowledgements show that options no longer pass, the
    /// only subflow falls back. One of several subflows is reset, and false is returned.
    pub(super) fn process_options(
        &mut self,
        now: Instant,
        i: usize,
        seg: &Segment,
        a: &Arrival,
    ) -> bool {
        let waiting = self.send.una < self.sent_to();
        let Some(mp) = self.mp.as_mut().filter(|m| m.confirmed) else {
            return true;
        };
        let sf = &mut self.subflows[i];
        if seg.options.has_mptcp() {
            sf.activity.silent_acks = 0;
            return true;
        }
        mp.bare_data |= a.had_data;
        if sf.origin != Origin::Initial {
            // "on an additional subflow [...] the host MUST close the subflow with a RST": done at the first
            // acknowledgement without an option.
            let of_data = a.ack.acked > 0 && sf.state.may_send();
            return !of_data || self.options_vanished(now, i);
        }
        if waiting && a.ack.acked > 0 {
            sf.activity.silent_acks = sf.activity.silent_acks.saturating_add(1);
        }
        sf.activity.silent_acks < SILENT_ACKS || self.options_vanished(now, i)
    }

    /// The data-level timer expires although the only subflow delivered its bytes. Falls back if they were
    /// acknowledged without an option. Returns whether this was so.
    pub(super) fn silence_at_timeout(&mut self, now: Instant) -> bool {
        let Some(i) = self.subflows.only() else {
            return false;
        };
        let sf = &self.subflows[i];
        let silent = sf.activity.silent_acks > 0 && sf.tx.board.is_empty();
        if silent {
            self.options_vanished(now, i);
        }
        silent
    }

    /// Falls back if the peer's FIN arrived without an option (`fin`), or if data without an option have
    /// arrived and the next in-order data have no mapping. On a connection that ever had data on a second
    /// subflow, the mapping is awaited as long as there is room. If parities of blocks are agreed on, a single
    /// subflow is reset instead.
    pub(super) fn mapping_vanished(&mut self, now: Instant, i: usize, fin: bool) {
        let rx = &self.subflows[i].rx;
        let bare = self.mp.as_ref().is_some_and(|m| m.bare_data);
        let missing = rx.misses_mapping();
        let confirmed = self.mp.as_ref().is_some_and(|m| m.confirmed);
        let alone = self.subflows.remaining_count() == 1 && self.extensions.parities.in_blocks();
        if confirmed && (fin || (bare && missing)) && (alone || self.is_linear()) {
            self.options_vanished(now, i);
        }
    }

    /// Options no longer pass on this subflow. Falls back if it is the only subflow and is linear. Otherwise
    /// resets it and returns false.
    #[cold] // fallback
    fn options_vanished(&mut self, now: Instant, i: usize) -> bool {
        if !self.is_linear() {
            self.reset_subflow(now, i, SubflowEnd::Middlebox);
            return false;
        }
        self.revert(now, i, None)
    }

    /// Whether there is only the first subflow, it alone carried data, and it carried each byte of ours once
    /// and in order. With parities of blocks this is false, because the peer may have sent a parity that
    /// arrived without its option. Such a parity cannot be distinguished from data.
    pub(super) fn is_linear(&self) -> bool {
        let Some(sf) = self.subflows.only().map(|i| &self.subflows[i]) else {
            return false;
        };
        if self.extensions.parities.in_blocks() {
            return false;
        }
        let fin = u64::from(sf.tx.board.back().is_some_and(|s| s.fin));
        let apart = self.mp.as_ref().is_some_and(|m| m.apart);
        !apart && self.sent_to() == MappingDelta::WHOLE_STREAM.offset_of(sf.tx.nxt - fin)
    }

    /// Before the peer has sent a DSS, data without a DSS mean that options do not pass. So the connection
    /// falls back (RFC 8684, section 3.7). If parities of blocks are agreed on, subflow `i` is reset instead,
    /// because bytes that arrive without options need not be data.
    #[inline(never)] // only under MPTCP
    pub(super) fn fallback_at_start(
        &mut self,
        now: Instant,
        i: usize,
        seg: &Segment,
        arrival: &Arrival,
    ) {
        let unconfirmed = self
            .mp
            .as_ref()
            .is_some_and(|m| m.negotiated && !m.confirmed);
        let telling = arrival.in_true_window && (arrival.had_data || arrival.ack.acked > 0);
        if !unconfirmed || seg.options.has_mptcp() || !telling || seg.flags.contains(Flags::SYN) {
            return;
        }
        if self.extensions.parities.in_blocks() {
            self.reset_subflow(now, i, SubflowEnd::Middlebox);
            return;
        }
        self.fall_back(MappingDelta::WHOLE_STREAM);
        self.plain_progress(0);
    }
}

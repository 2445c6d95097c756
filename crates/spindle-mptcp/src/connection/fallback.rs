//! Back to plain TCP (RFC 8684, section 3.7): where options do not pass, or no longer, or where a
//! middlebox changes payload on the only subflow.

use spindle_units::Instant;
use spindle_wire::{Dss, Flags, Mapping, Payload, Segment};

use super::ended::SubflowEnd;
use super::input::expand;
use super::{Connection, MpState};
use crate::subflow::input::Arrival;
use crate::subflow::receiver::{Mapped, ReceivedMap};
use crate::subflow::scoreboard::Sent;
use crate::subflow::{Origin, SubflowId};

/// A checksum failed on the only subflow: MP_FAIL goes out until the peer falls back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failing {
    /// Data sequence number of the mapping that failed.
    dsn: u64,
    /// Its data offset minus its position: what unmapped data will be taken at.
    delta: u64,
}

/// So many acknowledgements of data in a row without an option of MPTCP, and the options do not pass
/// any more on the first subflow: as many as duplicates make a loss (RFC 5681, section 3.2), since one
/// alone may be that of a stack short of option space.
const SILENT_ACKS: u8 = 3;

/// What still has to be said after falling back in the middle of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Farewell {
    /// MP_FAIL in answer to the peer's.
    pub(super) fail: Option<u64>,
    /// The infinite mapping, on all data until something sent with it is acknowledged.
    mapping: Option<Mapping>,
    /// What had been sent without it ends here.
    before: u64,
    /// The peer's initial data sequence number: its infinite mapping may be still to come.
    idsn_remote: Option<u64>,
    /// A mapping that came since has settled where its data belong.
    settled: bool,
}

impl Connection {
    /// Whether the peer has been told of a failed checksum and has not fallen back yet.
    pub(super) fn awaits_fallback(&self) -> bool {
        self.mp.as_ref().is_some_and(|m| m.failing.is_some())
    }

    /// Whether arriving mappings are checked by their checksums.
    pub(super) fn verifies(&self) -> bool {
        self.mp
            .as_ref()
            .is_some_and(|m| m.checksum && m.failing.is_none())
    }

    /// The MP_FAIL may have been lost: data with a mapping show that it was not acted on.
    pub(super) fn say_again_that_it_failed(&mut self) {
        if let Some(mp) = &mut self.mp
            && let Some(f) = mp.failing
        {
            mp.fail_due = Some(f.dsn);
        }
    }

    /// With other subflows this one is reset; alone, MP_FAIL asks the peer to fall back, and from
    /// here on the bytes are what TCP vouches for. Returns the bytes new to the data level.
    pub(super) fn on_checksum_failure(
        &mut self,
        now: Instant,
        i: usize,
        dsn: u64,
        map: &ReceivedMap,
        payload: Payload,
    ) -> u64 {
        let alone = self.subflows.len() == 1;
        if let Some(mp) = &mut self.mp {
            mp.fail_due = Some(dsn);
            mp.failing = alone.then(|| Failing {
                dsn,
                delta: map.offset.wrapping_sub(map.start),
            });
        }
        if !alone {
            self.reset_subflow(now, i, SubflowEnd::Middlebox);
            return 0;
        }
        self.subflows[i].rx.ack_now = true;
        self.recv.insert(map.offset, payload)
    }

    /// The peer's MP_FAIL: falls back, and says so unless the peer only answers ours (RFC 8684, section 3.7).
    pub(super) fn answer_failure(&mut self, now: Instant, i: usize) -> bool {
        let Some(mp) = self.multipath().copied() else {
            return true;
        };
        if !self.revert(now, i, None) {
            return false;
        }
        if mp.failing.is_none() {
            let first = mp.idsn_remote.wrapping_add(1);
            self.farewell.fail = Some(first.wrapping_add(self.recv.next()));
            self.subflows[i].rx.ack_now = true;
        }
        true
    }

    /// The peer has fallen back: from here on positions map linearly.
    pub(super) fn on_infinite_mapping(
        &mut self,
        now: Instant,
        i: usize,
        mp: &MpState,
        m: &Mapping,
    ) -> bool {
        if self.subflows.len() > 1 {
            return true;
        }
        let delta = self.delta_of(i, mp.idsn_remote, m);
        self.revert(now, i, Some(delta))
    }

    /// After falling back, while the peer may not have: what its mappings still say goes. Data that
    /// are not in one piece by them cannot be taken without; returns false if the subflow was reset.
    #[inline]
    pub(super) fn on_late_mapping(&mut self, now: Instant, i: usize, seg: &Segment) -> bool {
        match self.farewell.idsn_remote {
            Some(idsn) => self.take_late_mapping(now, i, seg, idsn),
            None => true,
        }
    }

    #[cold]
    fn take_late_mapping(&mut self, now: Instant, i: usize, seg: &Segment, idsn: u64) -> bool {
        let Some(m) = seg.options.dss.and_then(|d| d.mapping) else {
            return true;
        };
        if seg.payload.is_empty() {
            return true;
        }
        let delta = self.delta_of(i, idsn, &m);
        if m.len == 0 {
            self.farewell.idsn_remote = None;
        } else if std::mem::replace(&mut self.farewell.settled, true)
            && delta != self.unmapped_delta
        {
            self.reset_subflow(now, i, SubflowEnd::Middlebox);
            return false;
        }
        self.unmapped_delta = delta;
        self.keep_to_edge(i);
        true
    }

    /// Data offset minus position by a mapping.
    fn delta_of(&self, i: usize, idsn: u64, m: &Mapping) -> u64 {
        let first = idsn.wrapping_add(1);
        let offset = expand(m.dsn, first.wrapping_add(self.recv.next())).wrapping_sub(first);
        let nxt = self.subflows[i].rx.nxt;
        let start = nxt as i64 + i64::from(m.ssn.wrapping_sub(nxt as u32) as i32);
        offset.wrapping_sub(start as u64)
    }

    /// The window was the data level's; what it let in is what TCP has to keep to now.
    fn keep_to_edge(&mut self, i: usize) {
        let sf = &mut self.subflows[i];
        let edge = self.recv.edge().wrapping_sub(self.unmapped_delta);
        let window = self.recv.edge().saturating_sub(self.recv.next());
        sf.announced_to = edge.clamp(sf.rx.nxt, sf.rx.nxt + window);
    }

    /// Falls back in the middle of a connection, both ways; `delta` is data offset minus position of
    /// what arrives, if the peer said. What a linear subflow acknowledged, the peer has. Only what is
    /// outstanding in one piece can do without mappings: else the subflow is reset, and false
    /// returned.
    pub(super) fn revert(&mut self, now: Instant, i: usize, delta: Option<u64>) -> bool {
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
            .or(linear.then(|| 1u64.wrapping_neg()))
            .unwrap_or_else(|| self.recv.next().wrapping_sub(sf.rx.nxt));
        let dsn = mp.dsn(self.send.una);
        self.farewell = Farewell {
            fail: None,
            mapping: Some(Mapping {
                dsn: self.numbers.sent.number(dsn),
                ssn: self.send.una.wrapping_sub(sent_delta) as u32,
                len: 0,
                checksum: mp.checksum.then_some(0),
            }),
            before: sf.tx.nxt,
            idsn_remote: delta.is_none().then_some(mp.idsn_remote),
            settled: false,
        };
        self.fall_back(received_delta);
        self.keep_to_edge(i);
        true
    }

    /// Data offset minus position of what is outstanding and of what follows, if that is the same for
    /// all of it and nothing the subflow acknowledged is missing at the data level.
    fn outstanding_in_one_piece(&self, i: usize) -> Option<u64> {
        let tx = &self.subflows[i].tx;
        let fin = u64::from(tx.board.back().is_some_and(|s| s.fin));
        let delta = self.sent_to().wrapping_sub(tx.nxt - fin);
        // Without its option a parity is taken for data.
        if tx.board.iter().any(Sent::is_parity) {
            return None;
        }
        let one = tx
            .board
            .iter()
            .filter_map(|s| Some(s.map?.offset.wrapping_sub(s.start)))
            .all(|d| d == delta);
        let oldest = tx.board.front().and_then(|s| s.map);
        let whole = oldest.map_or(self.sent_to(), |m| m.offset) <= self.send.una;
        (one && whole && self.reinjections.is_empty()).then_some(delta)
    }

    /// The infinite mapping for a data segment, as long as the peer may not know it.
    pub(super) fn infinite_mapping(&self, i: usize) -> Option<Dss> {
        let mapping = self.farewell.mapping?;
        let unknown = self.subflows[i].tx.una <= self.farewell.before;
        unknown.then_some(Dss {
            data_ack: None,
            mapping: Some(mapping),
            data_fin: false,
        })
    }

    /// Hands up what was held: where its mapping says, or without one where it follows.
    #[cold]
    pub(super) fn release_unmapped(&mut self, i: usize) -> u64 {
        let mut fresh = 0;
        while let Some((at, payload)) = self.subflows[i].rx.take_held() {
            match self.subflows[i].rx.locate(at) {
                Mapped::Run { offset, len } => {
                    let n = (len as usize).min(payload.len());
                    fresh += self.recv.insert(offset, payload.slice(0, n));
                    if n < payload.len() {
                        let rest = payload.slice(n, payload.len() - n);
                        self.subflows[i].rx.hold((at + n as u64, rest));
                    }
                }
                Mapped::Unmapped => {
                    let offset = at.wrapping_add(self.unmapped_delta);
                    fresh += self.recv.insert(offset, payload);
                }
            }
        }
        fresh
    }

    /// Plain TCP from here on; arriving positions plus `delta` are data offsets.
    #[cold]
    pub(super) fn fall_back(&mut self, delta: u64) {
        self.mp = None;
        self.end_scatter();
        self.data_fin_due = false;
        self.unmapped_delta = delta;
        if let Some(sf) = self.subflows.first() {
            self.send.right_edge = self.send.right_edge.max(self.send.una + sf.send_window);
        }
        if self.data_fin_sent {
            self.data_fin_acked = true;
        }
    }

    /// Data are carried by this subflow, either way.
    pub(super) fn note_carrier(&mut self, id: SubflowId, data: bool) {
        if let Some(mp) = self.mp.as_mut().filter(|_| data && id != 0) {
            mp.apart = true;
        }
    }

    /// Books whether a segment has an option of MPTCP; where acknowledgements show that none passes
    /// any more, the only subflow falls back, and one of several is reset (false is returned then).
    pub(super) fn heed_options(
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
            sf.silent_acks = 0;
            return true;
        }
        mp.bare_data |= a.had_data;
        if sf.origin != Origin::Initial {
            // "on an additional subflow [...] the host MUST close the subflow with a RST": at the first.
            let of_data = a.ack.acked > 0 && sf.state.may_send();
            return !of_data || self.options_vanished(now, i);
        }
        if waiting && a.ack.acked > 0 {
            sf.silent_acks = sf.silent_acks.saturating_add(1);
        }
        sf.silent_acks < SILENT_ACKS || self.options_vanished(now, i)
    }

    /// The data level's timer runs out although the only subflow got its bytes through: falls back if
    /// it was acknowledged without an option. Returns whether that was so.
    pub(super) fn silence_at_timeout(&mut self, now: Instant) -> bool {
        let [sf] = &*self.subflows else {
            return false;
        };
        let silent = sf.silent_acks > 0 && sf.tx.board.is_empty();
        if silent {
            self.options_vanished(now, 0);
        }
        silent
    }

    /// Falls back where the next data in order came without a mapping, and data without an option
    /// have come, or the end of the data (`fin`); on a connection that ever had data on a second
    /// subflow, the mapping is waited for as long as there is room. A lone subflow is reset where parities of
    /// blocks are agreed on.
    pub(super) fn mapping_vanished(&mut self, now: Instant, i: usize, fin: bool) {
        let rx = &self.subflows[i].rx;
        let bare = self.mp.as_ref().is_some_and(|m| m.bare_data);
        let missing = rx
            .first_held()
            .is_some_and(|(at, _)| at < rx.nxt && rx.map_at(at).is_none());
        let confirmed = self.mp.as_ref().is_some_and(|m| m.confirmed);
        let alone = self.subflows.len() == 1 && self.parities.in_blocks();
        if confirmed && (fin || (bare && missing)) && (alone || self.is_linear()) {
            self.options_vanished(now, i);
        }
    }

    /// Options pass no more on this subflow: falls back if it is the only one and linear, else resets
    /// it and returns false.
    #[cold]
    fn options_vanished(&mut self, now: Instant, i: usize) -> bool {
        if !self.is_linear() {
            self.reset_subflow(now, i, SubflowEnd::Middlebox);
            return false;
        }
        self.revert(now, i, None)
    }

    /// Whether there is only the first subflow, and it alone carried data, ours each byte once and in
    /// order. Where parities of blocks are agreed on, the peer may have sent one that came without its
    /// option: no telling it from data.
    fn is_linear(&self) -> bool {
        let [sf] = &*self.subflows else {
            return false;
        };
        if self.parities.in_blocks() {
            return false;
        }
        let fin = u64::from(sf.tx.board.back().is_some_and(|s| s.fin));
        let apart = self.mp.as_ref().is_some_and(|m| m.apart);
        // The SYN stands before the data.
        !apart && self.sent_to() == sf.tx.nxt.wrapping_sub(1 + fin)
    }

    /// Before the peer has shown DSS, data without it mean that options do not pass: fall back
    /// (RFC 8684, section 3.7); where parities of blocks are agreed on, subflow `i` is reset, since what
    /// comes without options need not be data.
    #[inline(never)]
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
        if self.parities.in_blocks() {
            self.reset_subflow(now, i, SubflowEnd::Middlebox);
            return;
        }
        self.fall_back(1u64.wrapping_neg());
        self.plain_progress(0);
    }
}

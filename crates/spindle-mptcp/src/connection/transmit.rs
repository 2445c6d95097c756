//! Selection of the next segment to transmit: the order of a transmission opportunity.
//!
//! Control segments come first. They are followed by a subflow's own retransmissions, data-level reinjection,
//! new data as the scheduler assigns them, and proactive recovery. Bare acknowledgements come last, because
//! every segment before them carries an acknowledgement.

use spindle_units::Instant;
use spindle_wire::{Dss, MpCapable, Options, Packet, Payload, Segment};

use super::Connection;
use super::subflow_table::{Marks, SubflowSummary};
use super::trace::TraceKind;
use crate::recovery::{SegmentView, SentView, Trigger, Window};
use crate::scheduler::{Assignment, Candidate, Portion};
use crate::subflow::output::OutputContext;
use crate::subflow::scoreboard::SentMap;
use crate::subflow::sender::SendKind;
use crate::subflow::{Origin, Subflow, TcpState};
use crate::types::{DataOffset, SubflowId, SubflowPosition};

/// The purpose of new sequence space, and whether the congestion window applies to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Purpose {
    kind: SendKind,
    /// For a recovery copy: the subflow whose segment it copies.
    copy_of: Option<SubflowId>,
    window: Window,
}

impl Purpose {
    /// Data sent for the first time.
    pub(super) const NEW: Self = Self {
        kind: SendKind::New,
        copy_of: None,
        window: Window::Inside,
    };

    /// Data that the data level sends again.
    pub(super) const AGAIN: Self = Self {
        kind: SendKind::Reinjection,
        ..Self::NEW
    };

    /// New data as a tail loss probe. The congestion window does not apply (RFC 8985, section 7.3).
    pub(super) const PROBE: Self = Self {
        window: Window::Outside,
        ..Self::NEW
    };

    /// A proactive copy of a segment of subflow `of`.
    pub(super) fn copy(of: SubflowId, window: Window) -> Self {
        Self {
            kind: SendKind::Recovery,
            copy_of: Some(of),
            window,
        }
    }
}

/// Largest payload of a burst in bytes. With its headers the burst must fit an IP packet, the form in which it
/// is passed to segmentation offload (65 535 bytes with 40 of IPv6 and 60 of TCP header).
const MAX_BURST: u64 = 65_535 - 40 - 60;

/// The segments of a burst of `len` bytes: the offset of each in the burst, and its length.
fn units(len: u32, unit: u32) -> impl Iterator<Item = (u32, u32)> {
    let unit = unit.max(1);
    (0..len.div_ceil(unit)).map(move |k| (k * unit, unit.min(len - k * unit)))
}

/// The first `most` bytes of `payload`, or all of it if it is shorter.
fn first_part(payload: Payload, most: u64) -> Payload {
    if payload.len() as u64 <= most {
        payload
    } else {
        payload.slice(0, most as usize)
    }
}

impl Connection {
    /// Returns the next packet to transmit, if there is one.
    pub(crate) fn transmit(&mut self, now: Instant) -> Option<Packet> {
        let mut next = Packet::blank();
        self.transmit_in_place(now, &mut next).then_some(next)
    }

    /// Writes the next packet to transmit into `next`. Returns whether there is one. If not, the content of
    /// `next` is meaningless.
    #[inline]
    pub(crate) fn transmit_in_place(&mut self, now: Instant, next: &mut Packet) -> bool {
        let found = self.put_next(now, next);
        self.mark(next);
        found
    }

    /// Marks a packet with the DSCP that the application requested, if any. It replaces a DSCP that a stage
    /// has set.
    #[inline]
    pub(super) fn mark(&self, packet: &mut Packet) {
        if self.dscp != 0 {
            packet.set_dscp(self.dscp);
        }
    }

    fn put_next(&mut self, now: Instant, next: &mut Packet) -> bool {
        loop {
            if self.take_made(next) {
                return true;
            }
            let segment = next.reuse_as_tcp();
            let Some(id) = self.next_segment(now, segment) else {
                self.outbox.opportunities += 1;
                self.settle(now);
                self.flush_stages(now);
                return self.take_made(next);
            };
            let at = match self.has_stages() {
                true => self.index(id).filter(|i| self.subflows[*i].stage.is_some()),
                false => None,
            };
            let Some(i) = at else { return true };
            self.pass_to_stage(now, i, segment);
        }
    }

    #[inline(never)] // only with a stage
    fn pass_to_stage(&mut self, now: Instant, i: usize, next: &mut Segment) {
        let seg = std::mem::replace(next, Segment::blank());
        self.emit(now, i, seg);
    }

    /// Whether a stage may be between a subflow and the wire.
    #[inline]
    fn has_stages(&self) -> bool {
        self.config.stage.is_some()
            || self.extensions.scatter.is_on()
            || self.extensions.coded.agreed
    }

    /// Transmits a segment of subflow `i` through its stage.
    pub(super) fn emit(&mut self, now: Instant, i: usize, seg: Segment) {
        let cx = self.subflows[i].stage_context(now, self.dscp);
        match &mut self.subflows[i].stage {
            None => self.outbox.packets.push_back(Packet::Tcp(seg)),
            Some(stage) => stage.output(&cx, seg, &mut self.outbox.packets),
        }
    }

    /// Nothing more can be sent now, so stages must transmit the segments that they hold back.
    fn flush_stages(&mut self, now: Instant) {
        if !self.has_stages() {
            return;
        }
        for i in 0..self.subflows.len() {
            let sf = &self.subflows[i];
            if !sf.stage.as_ref().is_some_and(|s| s.is_buffering()) {
                continue;
            }
            let cx = sf.stage_context(now, self.dscp);
            if let Some(stage) = &mut self.subflows[i].stage {
                stage.flush(&cx, &mut self.outbox.packets);
            }
        }
    }

    /// Takes a packet that was made out of order.
    #[inline]
    fn take_made(&mut self, next: &mut Packet) -> bool {
        !self.outbox.packets.is_empty() && self.put_made(next)
    }

    #[inline(never)] // rarer segments than new data
    fn put_made(&mut self, next: &mut Packet) -> bool {
        let made = self.outbox.packets.pop_front();
        let found = made.is_some();
        if let Some(packet) = made {
            *next = packet;
        }
        found
    }

    /// Writes the next segment in the order of a transmission opportunity into `next`. Most steps have nothing
    /// to do most of the time. A single check of the subflows' marks shows this.
    fn next_segment(&mut self, now: Instant, next: &mut Segment) -> Option<SubflowId> {
        // None of these can become due in the middle of an opportunity.
        let due = self.subflows.marks();
        if let Some((id, seg)) = self.before_new_data(now, due) {
            *next = seg;
            return Some(id);
        }
        if let found @ Some(_) = self.new_data(now, next) {
            return found;
        }
        if let Some((id, seg)) = self.after_new_data(now, due) {
            *next = seg;
            return Some(id);
        }
        self.bare_ack(now, next)
    }

    /// The segments that precede new data. The steps are tried one by one, so that a segment is moved only if
    /// there is one. New data and acknowledgements are most of the segments and are built in place.
    fn before_new_data(&mut self, now: Instant, due: Marks) -> Option<(SubflowId, Segment)> {
        if due.any(Marks::CONTROL)
            && let found @ Some(_) = self.control(now)
        {
            return found;
        }
        if due.any(Marks::REPEATS)
            && let found @ Some(_) = self.own_retransmission(now)
        {
            return found;
        }
        if let found @ Some(_) = self.immediate_recovery(now) {
            return found;
        }
        match self.may_reinject() {
            true => self.reinjection(now),
            false => None,
        }
    }

    /// The segments that are sent if there are no new data, or no room for them.
    fn after_new_data(&mut self, now: Instant, due: Marks) -> Option<(SubflowId, Segment)> {
        if due.any(Marks::FRTO)
            && let found @ Some(_) = self.after_frto(now)
        {
            return found;
        }
        if (due.any(Marks::CLOSING) || self.teardown.closing)
            && let found @ Some(_) = self.fin(now)
        {
            return found;
        }
        if due.any(Marks::RESCUES)
            && let found @ Some(_) = self.rescue(now)
        {
            return found;
        }
        self.proactive(now)
    }

    pub(super) fn context(&mut self, now: Instant, i: usize) -> OutputContext {
        let mss = self.subflows[i].tx.mss;
        OutputContext {
            now,
            window: self.recv.window(mss),
            data_level_window: self.is_multipath(),
        }
    }

    #[cold] // handshakes and probes
    fn control(&mut self, now: Instant) -> Option<(SubflowId, Segment)> {
        let i = self
            .subflows
            .summaries()
            .iter()
            .position(|o| o.is(Marks::CONTROL))?;
        let cx = self.context(now, i);
        let id = self.subflows[i].id;
        if self.subflows[i].syn_is_due() {
            let options = self.syn_options(i);
            return Some((id, self.subflows[i].build_syn(cx, options)));
        }
        let options = Options {
            dss: self.ack_dss(),
            ..Options::default()
        };
        Some((id, self.subflows[i].build_probe(cx, options)))
    }

    #[inline(never)] // a loss
    fn own_retransmission(&mut self, now: Instant) -> Option<(SubflowId, Segment)> {
        for i in 0..self.subflows.len() {
            let summary = self.subflows.summary(i);
            if !summary.is(Marks::REPEATS) {
                continue;
            }
            let s = match summary.is(Marks::GATED) {
                true => &mut self.subflows[i],
                false => self.subflows.untracked_at(i),
            };
            if !s.state.is_synchronized() || s.state == TcpState::TimeWait {
                continue;
            }
            if let Some(start) = s.tx.next_repeat(now) {
                return self.repeat(now, i, start, SendKind::Retransmission);
            }
        }
        None
    }

    /// RFC 6675's rules 3 and 4, for subflows in recovery if there is nothing new to send.
    #[inline(never)] // the end of a recovery
    fn rescue(&mut self, now: Instant) -> Option<(SubflowId, Segment)> {
        for i in 0..self.subflows.len() {
            if self.subflows.summary(i).is(Marks::RESCUES)
                && let Some(start) = self.subflows[i].tx.next_rescue()
            {
                return self.repeat(now, i, start, SendKind::Retransmission);
            }
        }
        None
    }

    /// Retransmits the segment at `start` of subflow `i` with the same mapping.
    pub(super) fn repeat(
        &mut self,
        now: Instant,
        i: usize,
        start: SubflowPosition,
        kind: SendKind,
    ) -> Option<(SubflowId, Segment)> {
        let sent = self.subflows[i].tx.on_repeat(now, start, kind)?;
        let (payload, fin, map) = (sent.payload.clone(), sent.fin, sent.map);
        let parity = sent.is_parity();
        let id = self.subflows[i].id;
        let coded = if parity { self.coded(id, start) } else { None };
        let offset = map.map_or(DataOffset::START, |m| m.offset);
        let len = payload.len() as u32;
        self.outbox.trace.add(
            now,
            id,
            TraceKind::Sent {
                kind,
                offset: coded.map_or(offset, |c| c.0),
                position: start,
                len,
                copy_of: None,
                parity: coded.map(|c| c.1),
            },
        );
        self.tell_policy(now, id, (start, offset, len), kind);
        let mut options = if parity {
            self.parity_options(id, start, &payload)
        } else {
            self.data_options(i, start, map)
        };
        let acknowledges = !self.leaves_out_data_ack(i, payload.len(), &mut options);
        let cx = self.context(now, i);
        let seg = self.subflows[i].build_repeat(cx, start, payload, fin, options);
        if !acknowledges {
            self.subflows[i].rx.ack_now = true;
        }
        Some((id, seg))
    }

    /// Sends `payload` as new sequence space of subflow `i`.
    pub(super) fn send_on(
        &mut self,
        now: Instant,
        i: usize,
        offset: DataOffset,
        payload: Payload,
        purpose: Purpose,
    ) -> (SubflowId, Segment) {
        let mut seg = Segment::blank();
        let id = self.put_on(now, i, (offset, payload), purpose, &mut seg);
        (id, seg)
    }

    /// Like [`Self::send_on`], but writes the segment into `next`.
    pub(super) fn put_on(
        &mut self,
        now: Instant,
        i: usize,
        (offset, payload): (DataOffset, Payload),
        purpose: Purpose,
        next: &mut Segment,
    ) -> SubflowId {
        let kind = purpose.kind;
        self.note_sent(now);
        let position = self.subflows[i].tx.nxt;
        let map = self.new_map(position, offset, &payload);
        self.put_data_options(&mut next.options, i, position, Some(map));
        let id = self.subflows[i].id;
        let len = payload.len() as u32;
        if self.outbox.trace.on {
            self.trace_burst(now, i, offset, len, purpose);
        }
        self.note_carrier(id, true);
        let cx = self.context(now, i);
        let sf = &mut self.subflows[i];
        sf.scheduling.redundant_next = sf.scheduling.redundant_next.max(offset + u64::from(len));
        let unit = sf.tx.mss as u32;
        sf.put_new(next, cx, (payload, false), Some(map), kind);
        debug_assert!(
            purpose.window == Window::Outside || sf.tx.in_flight() <= sf.tx.cc.cwnd(),
            "{purpose:?} of {len} bytes on subflow {id}: {} in flight, cwnd {}",
            sf.tx.in_flight(),
            sf.tx.cc.cwnd()
        );
        debug_assert!(
            sf.tx.is_inside_window(),
            "{purpose:?} of {len} bytes on subflow {id} ends beyond the peer's window"
        );
        self.counters.reinjections += u64::from(kind == SendKind::Reinjection);
        self.timers.stalled_since.get_or_insert(now);
        if self.policy.sender.is_some() {
            self.tell_policy_of_burst(now, id, position, offset, (len, unit), kind);
        }
        id
    }

    #[inline(never)] // only with a recovery policy
    fn tell_policy_of_burst(
        &mut self,
        now: Instant,
        id: SubflowId,
        position: SubflowPosition,
        offset: DataOffset,
        (len, unit): (u32, u32),
        kind: SendKind,
    ) {
        for (at, n) in units(len, unit) {
            let at = u64::from(at);
            self.tell_policy(now, id, (position + at, offset + at, n), kind);
        }
    }

    /// The mapping of new sequence space at `position` for `payload`, which begins at data offset `offset`.
    fn new_map(&self, position: SubflowPosition, offset: DataOffset, payload: &Payload) -> SentMap {
        let len = payload.len() as u16;
        let checksum = self.multipath().filter(|mp| mp.checksum).map(|mp| {
            spindle_wire::dss_checksum_of(
                mp.dsn(offset),
                position.relative_number(),
                len,
                [payload],
            )
        });
        SentMap {
            offset,
            before: 0,
            len,
            checksum,
        }
    }

    #[cold] // only for a recorded flow
    fn trace_burst(
        &mut self,
        now: Instant,
        i: usize,
        offset: DataOffset,
        len: u32,
        purpose: Purpose,
    ) {
        let sf = &self.subflows[i];
        let (id, position) = (sf.id, sf.tx.nxt);
        for (at, len) in units(len, sf.tx.mss as u32) {
            let sent = TraceKind::Sent {
                kind: purpose.kind,
                offset: offset + u64::from(at),
                position: position + u64::from(at),
                len,
                copy_of: purpose.copy_of,
                parity: None,
            };
            self.outbox.trace.add(now, id, sent);
        }
    }

    fn tell_policy(
        &mut self,
        now: Instant,
        subflow: SubflowId,
        (position, offset, len): (SubflowPosition, DataOffset, u32),
        kind: SendKind,
    ) {
        if let Some(r) = &mut self.policy.sender {
            let segment = SegmentView {
                position,
                len,
                offset,
                sent_at: now,
                retransmitted: kind == SendKind::Retransmission,
            };
            r.on_sent(&SentView {
                now,
                subflow,
                segment,
                new: kind == SendKind::New,
            });
            self.policy.triggers.insert(Trigger::Sent);
        }
    }

    /// Sends new data on the subflow that the scheduler picks, as a path MTU probe if one is due.
    fn new_data(&mut self, now: Instant, next: &mut Segment) -> Option<SubflowId> {
        if !self.connected || self.teardown.closed.is_some() {
            return None;
        }
        if !self.scheduling.assigned.is_empty()
            || self.is_multipath() && self.scheduling.scheduler.burst().is_some()
        {
            return self.put_assigned(now, next);
        }
        if self.send.unsent_bytes() == 0 && !self.scheduling.scheduler.repeats() {
            return None;
        }
        self.end_first_phase_if_due();
        if self.waits_for_a_join() {
            return None;
        }
        self.find_candidates(now, self.last_new());
        let Assignment { subflow, portion } = self.ask_scheduler(now, self.send.unsent_bytes())?;
        let i = self.index(subflow)?;
        match portion {
            Portion::Again(from) => return self.put_again(now, i, from, next),
            Portion::Last if self.may_send_last() => return self.put_last(now, i, next),
            Portion::Next | Portion::Last => {}
        }
        if let Some(len) = self.mtu_probe_len(now, i) {
            return Some(self.put_mtu_probe(now, i, len, next));
        }
        let len = self.next_len(now, i)?;
        if !self.subflows[i].tx.may_send(len as u64) {
            return None;
        }
        let len = self.burst_len(i, len);
        let unit = match self.most_data(i) as usize {
            most if len > most => self.subflows[i].tx.mss as usize,
            most => most,
        };
        let new = self.send.take(len, unit);
        Some(self.put_on(now, i, new, Purpose::NEW, next))
    }

    /// Sends data that wait on a subflow, or that the scheduler assigns to one ahead of its window.
    #[inline(never)] // only schedulers that assign ahead of windows
    fn put_assigned(&mut self, now: Instant, next: &mut Segment) -> Option<SubflowId> {
        let (id, seg) = self.assigned_data(now)?;
        *next = seg;
        Some(id)
    }

    /// Sends data again that were sent before, on subflow `i`.
    #[inline(never)] // only schedulers that send data again
    fn put_again(
        &mut self,
        now: Instant,
        i: usize,
        from: DataOffset,
        next: &mut Segment,
    ) -> Option<SubflowId> {
        let (offset, payload) = self.send.sent_at(from)?;
        let payload = first_part(payload, self.most_again(i));
        if payload.is_empty() {
            return None;
        }
        Some(self.put_on(now, i, (offset, payload), Purpose::AGAIN, next))
    }

    /// Whether data may be sent out of order over all subflows together: this connection can no longer become plain TCP.
    fn may_send_last(&self) -> bool {
        self.multipath().is_some_and(|m| m.apart)
    }

    /// Sends a segment from the end of the new data on subflow `i`.
    #[inline(never)] // only schedulers that send from the end
    fn put_last(&mut self, now: Instant, i: usize, next: &mut Segment) -> Option<SubflowId> {
        let most = self.most_new(i).min(self.subflows[i].tx.window_room());
        let len = most.min(self.send.last_bytes());
        if len == 0 || !self.subflows[i].tx.may_send(len) {
            return None;
        }
        let last = self.send.take_last(len as usize);
        Some(self.put_on(now, i, last, Purpose::NEW, next))
    }

    /// Bytes of the last new data, if they may be sent with [full windows](crate::SlowStart::full_windows). `u64::MAX` if all
    /// data need room for a full segment.
    fn last_new(&self) -> u64 {
        match self.config.tcp.slow_start.full_windows && !self.scheduling.scheduler.repeats() {
            true => self.send.unsent_bytes().max(1),
            false => u64::MAX,
        }
    }

    /// Lists the subflows that may take data, regular ones before backups. They have room for a full segment or, before any
    /// congestion, for `last` bytes.
    pub(super) fn find_candidates(&mut self, now: Instant, last: u64) {
        self.scheduling.candidates.clear();
        let by_rate = self.scheduling.scheduler.burst().is_some();
        let joins_wait = self.joins_wait();
        let summaries = self.subflows.summaries();
        let regular = summaries
            .iter()
            .any(|o| o.takes_data() && !o.is(Marks::BACKUP));
        for i in 0..self.subflows.len() {
            if joins_wait && self.subflows[i].origin != Origin::Initial {
                continue;
            }
            let o = self.subflows.summary(i);
            let listed = o.takes_data() && (!regular || joins_wait || !o.is(Marks::BACKUP));
            if !listed || o.is(Marks::REPAIRS_FIRST) {
                continue;
            }
            if !o.is(Marks::OUTSTANDING) && self.subflows[i].tx.restarts(now) {
                self.subflows[i].tx.check_idle(now);
            }
            let o = *self.subflows.summary(i);
            // Room for one byte is enough here. The actual segment size is checked once it is known.
            if o.window_room < u64::from(o.mss) && !self.window_lets_out(now, i) {
                continue;
            }
            let full = u64::from(o.mss).min(o.cwnd);
            let fills = last < full && self.subflows[i].tx.cc.ssthresh() == u64::MAX;
            if o.has_room(if fills { last } else { full })
                && (!o.is(Marks::GATED) || self.subflows[i].tx.is_paced_to(now))
            {
                let s = &self.subflows[i];
                if s.tx.is_full() {
                    continue;
                }
                self.scheduling.candidates.push(Candidate {
                    id: s.id,
                    srtt: s.tx.srtt(),
                    carried_to: s.scheduling.redundant_next,
                    queued: s.tx.board.outstanding(),
                    cwnd: s.tx.cc.cwnd(),
                    pacing_rate: if by_rate { s.tx.pacing_rate() } else { None },
                });
            }
        }
    }

    /// Whether the peer's window on subflow `i` allows new data. If not, the peer will be probed for its
    /// window. In plain TCP the window belongs to the data level, and [`Self::next_len`] respects it.
    #[inline]
    pub(super) fn window_lets_out(&mut self, now: Instant, i: usize) -> bool {
        let o = self.subflows.summary(i);
        o.window_room >= u64::from(o.mss)
            || !self.is_multipath()
            || self.small_window_lets_out(now, i)
    }

    #[cold] // a window smaller than a segment
    fn small_window_lets_out(&mut self, now: Instant, i: usize) -> bool {
        let open = self.subflows[i].window_is_open(self.timers.sws_override);
        let waits = self.send.unsent_bytes() > 0
            || !self.scheduling.assigned.is_empty()
            || !self.scheduling.reinjections.is_empty();
        if !open && waits {
            self.subflows[i].await_window(now);
            let idle = !self.subflows.marks().any(Marks::OUTSTANDING);
            self.arm_persist(now, idle);
        }
        open
    }

    /// Bytes of the next new segment on subflow `i`, or `None` if it must wait (window, SWS avoidance of RFC
    /// 9293 section 3.8.6.2.1, Nagle).
    #[inline]
    fn next_len(&mut self, now: Instant, i: usize) -> Option<usize> {
        let mss = self.most_new(i);
        let unsent = self.send.unsent_bytes();
        let window = self.send.window().min(self.subflows[i].tx.window_room());
        if mss <= unsent && mss <= window {
            self.timers.persist_at = None;
            return Some(mss as usize);
        }
        self.short_len(now, i, mss, window)
    }

    /// Like [`Self::next_len`], if no segment of `mss` bytes may be sent, because there are fewer data or the
    /// window has only `window` bytes.
    #[inline(never)] // the last segment of the data or of a window
    fn short_len(&mut self, now: Instant, i: usize, mss: u64, window: u64) -> Option<usize> {
        let unsent = self.send.unsent_bytes();
        let len = mss.min(unsent).min(window);
        let idle = !self.subflows.marks().any(Marks::OUTSTANDING);
        if len == 0 {
            self.arm_persist(now, idle);
            return None;
        }
        let cut_by_window = len < mss && len < unsent;
        if cut_by_window {
            let half = self.largest_window(i) / 2;
            if len < half && !std::mem::take(&mut self.timers.sws_override) {
                self.arm_persist(now, idle);
                return None;
            }
        }
        let nagle = self.config.tcp.nagle && len < mss && !idle && !self.teardown.closing;
        if nagle {
            return None;
        }
        self.timers.persist_at = None;
        Some(len as usize)
    }

    /// The largest window so far that the peer has offered for data on subflow `i`. The window of MPTCP belongs
    /// to the connection (RFC 8684, section 3.3.4), so it may have been announced on another subflow.
    fn largest_window(&self, i: usize) -> u64 {
        let own = self.subflows[i].peer_window.largest;
        if !self.is_multipath() {
            return own;
        }
        let all = self.subflows.iter().map(|s| s.peer_window.largest);
        all.fold(own, u64::max)
    }

    /// The length of a burst that begins with a segment of `len` bytes and has a single mapping. It consists of
    /// full segments, with a shorter one at the end of the data.
    fn burst_len(&self, i: usize, len: usize) -> usize {
        let sf = &self.subflows[i];
        let mss = sf.tx.mss;
        let most = u64::from(self.config.tcp.burst).min(MAX_BURST);
        if most < 2 * mss {
            return len;
        }
        let most = most.min(self.bytes_for_bursts());
        // CWR belongs to one segment (RFC 3168, section 6.1.2). A stage needs segments one by one. The keys on
        // the first data are not a mapping that can be repeated for each segment of a burst.
        let single = len as u64 != self.most_data(i)
            || most < 2 * mss
            || sf.tx.cwr_due
            || sf.stage.is_some()
            || self.scheduling.scheduler.repeats()
            || self.first_data_keys(i, sf.tx.nxt).is_some();
        if single {
            return len;
        }
        let contiguous = self.send.contiguous(mss as usize) as u64;
        let room = sf.tx.burst_room().min(self.send.window()).min(most);
        let room = room.min(contiguous);
        let unsent = self.send.unsent_bytes();
        let short = unsent % mss;
        if unsent <= room && (short == 0 || !self.config.tcp.nagle) {
            return unsent as usize;
        }
        (room.min(unsent) / mss * mss).max(len as u64) as usize
    }

    /// Bytes that may be sent in bursts. Parities need packets as they were sent, each with its own mapping. So
    /// one window of data is kept out of bursts. Data sent before it are acknowledged by the time parities have
    /// their turn, which is after the new data end. If they are not, they are copied.
    fn bytes_for_bursts(&self) -> u64 {
        if !self.extensions.parities.in_blocks() {
            return u64::MAX;
        }
        let add = |sum: (u64, u64), s: &Subflow| (sum.0 + s.tx.cc.cwnd(), sum.1 + s.tx.in_flight());
        let (cwnd, in_flight) = self.subflows.iter().fold((0, 0), add);
        let window = cwnd.min(in_flight + self.send.window());
        self.send.unsent_bytes().saturating_sub(window)
    }

    /// Payload bytes of a full data segment on subflow `i`. The header of a parity is left free.
    pub(super) fn most_data(&self, i: usize) -> u64 {
        let room = self.extensions.parities.header_room();
        self.subflows[i].tx.mss.saturating_sub(room).max(1)
    }

    /// Payload bytes of data sent again on subflow `i`: a full segment, or what the peer's window on the
    /// subflow allows if that is less.
    pub(super) fn most_again(&self, i: usize) -> u64 {
        self.most_data(i).min(self.subflows[i].tx.window_room())
    }

    /// Payload bytes of a full new segment on subflow `i`.
    pub(super) fn most_new(&self, i: usize) -> u64 {
        let most = self.most_data(i);
        if self.first_data_keys(i, self.subflows[i].tx.nxt).is_some() {
            most - (MpCapable::WITH_DATA_LEN - Dss::MAPPED_LEN) as u64
        } else {
            most
        }
    }

    pub(super) fn arm_persist(&mut self, now: Instant, idle: bool) {
        if idle && self.timers.persist_at.is_none() {
            let rto = self
                .subflows
                .first()
                .map_or(self.config.tcp.min_rto, |s| s.tx.rtt.rto());
            self.timers.persist_at = Some(now + self.backed_off(rto, self.timers.persist_tries));
        }
    }

    /// There are no new data for F-RTO to send, so its subflow recovers as usual (RFC 5682, step 2b).
    #[cold] // after a timeout
    fn after_frto(&mut self, now: Instant) -> Option<(SubflowId, Segment)> {
        let mut waited = false;
        for s in self.subflows.iter_mut().filter(|s| s.tx.frto_waits()) {
            s.tx.frto_give_up();
            waited = true;
        }
        if waited {
            self.own_retransmission(now)
        } else {
            None
        }
    }

    /// Sends a bare acknowledgement, with the handshake or path-management signals that are due.
    fn bare_ack(&mut self, now: Instant, next: &mut Segment) -> Option<SubflowId> {
        self.sweep_signals();
        let acknowledges = |o: &SubflowSummary| o.is(Marks::ACKNOWLEDGES);
        let i = self.subflows.summaries().iter().position(acknowledges)?;
        self.put_ack_options(&mut next.options, now, i);
        let cx = self.context(now, i);
        let id = self.subflows[i].id;
        self.subflows.acknowledge(i, |s| s.put_ack(next, cx));
        if self.join_ack(i).is_some() {
            self.subflows[i].join_ack_sent(now);
        }
        Some(id)
    }

    /// Makes acknowledgements due for pending signals and window updates.
    #[inline]
    fn sweep_signals(&mut self) {
        if self.is_multipath() || self.teardown.data_fin_due {
            self.sweep_mptcp_signals();
        }
        if self.echo_due() || self.window_update_due {
            self.sweep_updates();
        }
    }

    #[inline(never)] // not for plain TCP
    fn sweep_mptcp_signals(&mut self) {
        if let Some(i) = self.signal_subflow() {
            self.subflows[i].rx.ack_now = true;
        }
        let failed = self.multipath().is_some_and(|m| m.fail_due.is_some());
        if (self.teardown.data_fin_due || failed)
            && let Some(i) = self.data_fin_subflow()
        {
            self.subflows[i].rx.ack_now = true;
        }
    }

    #[inline(never)] // a window update or an echo
    fn sweep_updates(&mut self) {
        if self.echo_due()
            && let Some(s) = self.subflows.first_mut()
        {
            s.rx.ack_now = true;
        }
        if std::mem::take(&mut self.window_update_due) {
            for s in self.subflows.iter_mut().filter(|s| s.state.may_receive()) {
                s.rx.ack_now = true;
            }
        }
    }
}

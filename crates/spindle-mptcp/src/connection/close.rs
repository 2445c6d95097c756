//! End of connections and subflows: FIN, DATA_FIN, fast close, resets, and the data of a lost subflow.

use spindle_units::Instant;
use spindle_wire::{Dss, Mapping, MpTcpRst, Options, Packet, RareOptions, Segment};

use super::ended::{SubflowEnd, is_known};
use super::subflow_table::Marks;
use super::{Connection, ConnectionEvent, Role};
use crate::recovery::Trigger;
use crate::subflow::sender::SendKind;
use crate::subflow::{Origin, TcpState};
use crate::types::{DataOffset, SubflowId};

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// Both ends closed and everything was delivered.
    #[error("closed by both ends")]
    Finished,
    /// The peer refused the connection.
    #[error("refused by the peer")]
    Refused,
    /// There is no path to the peer: this host cannot send to it, or a router reported this.
    #[error("no route to the peer")]
    NoRoute,
    /// The peer reset the last subflow, or closed it before the end of its data. With MPTCP, no other subflow
    /// was established within the close timeout (RFC 8684, section 3.3.3).
    #[error("reset by the peer")]
    Reset,
    /// The peer aborted the connection (MP_FASTCLOSE).
    #[error("aborted by the peer")]
    PeerAborted,
    /// The application aborted the connection.
    #[error("aborted here")]
    Aborted,
    /// No answer arrived to the SYN or its retransmissions.
    #[error("no answer to the connection request")]
    ConnectTimeout,
    /// Data stayed unacknowledged for the user timeout (RFC 9293, section 3.8.3): no path recovered.
    #[error("nothing acknowledged within the user timeout: no path to the peer")]
    UserTimeout,
    /// A middlebox changed data in the middle of the connection. Without MPTCP the arrived data cannot be
    /// completed.
    #[error("a middlebox interfered: data are missing that plain TCP cannot repeat")]
    Interference,
    /// The peer did not answer keepalive probes.
    #[error("keepalive probes went unanswered")]
    KeepaliveTimeout,
    /// The peer kept its window closed for the persist timeout ([`crate::TcpConfig::persist_timeout`]).
    #[error("the peer kept its window shut for the persist timeout")]
    PersistTimeout,
    /// The application had closed it, and the peer did not close its own side within
    /// [`crate::TcpConfig::fin_timeout`].
    #[error("the peer did not close its side within the FIN_WAIT_2 timeout")]
    FinTimeout,
    /// The stack's memory was used up, and this connection held much of it without progress.
    #[error("memory is short, and what the connection held did not move")]
    MemoryPressure,
}

/// How far the two ends have closed the connection.
#[derive(Debug, Default)]
pub(crate) struct Teardown {
    /// The application has closed its sending side.
    pub(super) closing: bool,
    /// The DATA_FIN has been sent. Its data offset is `send.written`.
    pub(super) data_fin_sent: bool,
    pub(super) data_fin_acked: bool,
    pub(super) data_fin_due: bool,
    pub(super) data_fin_tries: u32,
    pub(super) peer_closed: bool,
    /// The stack has been notified that the connection probably sends no more data.
    delivered: bool,
    /// The connection has ended.
    pub(crate) closed: Option<CloseReason>,
    /// The application has released the connection.
    pub(crate) released: bool,
}

impl Teardown {
    /// Whether the DATA_FIN was sent and its DATA_ACK is missing.
    pub(super) fn data_fin_is_outstanding(&self) -> bool {
        self.data_fin_sent && !self.data_fin_acked
    }
}

impl Connection {
    /// The application sends no more data.
    pub(crate) fn close(&mut self) {
        if self.teardown.closing || self.teardown.closed.is_some() {
            return;
        }
        self.teardown.closing = true;
        self.writer.blocked = false;
        self.writer.more_expected = false;
        self.policy.triggers.insert(Trigger::AppDrained);
        if !self.connected
            && self
                .subflows
                .first()
                .is_some_and(|s| s.state == TcpState::SynSent)
        {
            self.subflows.end_all();
            self.subflows.remove_ended();
            self.finish(CloseReason::Aborted);
        }
    }

    /// Ends the connection at the request of the application or of the stack. See [`Self::abort_with`].
    pub(crate) fn abort(&mut self, now: Instant, reason: CloseReason) {
        self.abort_with(now, reason);
        self.subflows.remove_ended();
    }

    /// Ends the connection in the middle of a step: RST on every subflow, with MP_FASTCLOSE (RFC 8684, section
    /// 3.5, option R).
    pub(super) fn abort_with(&mut self, now: Instant, reason: CloseReason) {
        let mut options = Options::default();
        if let Some(mp) = self.multipath()
            && reason != CloseReason::PeerAborted
        {
            options.rare = Some(Box::new(RareOptions {
                mp_fastclose: mp.key_remote,
                ..RareOptions::default()
            }));
        }
        for i in 0..self.subflows.len() {
            let state = self.subflows[i].state;
            if self.subflows.has_ended(i) {
                continue;
            }
            if state.is_synchronized() && state != TcpState::TimeWait
                || state == TcpState::SynReceived
            {
                let cx = self.context(now, i);
                let rst = self.subflows[i].build_rst(cx, options.clone());
                self.outbox.packets.push_back(Packet::Tcp(rst));
            }
            self.note_end(now, i, SubflowEnd::ConnectionEnded(reason));
            self.note_past(i);
        }
        self.subflows.end_all();
        self.finish(reason);
    }

    /// The stack needs memory. Ends the connection and drops its stored data.
    pub(crate) fn evict(&mut self, now: Instant) {
        self.abort(now, CloseReason::MemoryPressure);
        self.send.discard();
        self.recv.discard();
        self.scheduling.assigned = super::assigned::Assigned::default();
    }

    fn note_past(&mut self, i: usize) {
        self.ended.add(&self.subflows[i]);
        self.counters.challenge_acks += self.subflows[i].challenge_acks();
        self.keep_coding_counters(i);
        self.steps.add(self.subflows[i].steps() as usize);
    }

    pub(super) fn finish(&mut self, reason: CloseReason) {
        if self.teardown.closed.is_some() {
            return;
        }
        self.teardown.closed = Some(reason);
        if reason == CloseReason::Finished {
            self.note_delivered();
        }
        if self.role == Role::Server && !self.connected {
            // The application was never notified of the connection: back to LISTEN (RFC 9293, section 3.10.7.4,
            // RST in SYN-RECEIVED).
            self.teardown.released = true;
        } else {
            self.outbox.push_event(ConnectionEvent::Closed(reason));
        }
    }

    /// The peer sends no more data. If it has all data of this end, it has probably read what it asked for. Its next
    /// connection may begin before this one ends.
    #[cold] // the end of a connection
    pub(super) fn note_peer_closed(&mut self) {
        if std::mem::replace(&mut self.teardown.peer_closed, true) {
            return;
        }
        self.outbox.push_event(ConnectionEvent::PeerClosed);
        if self.send.una > DataOffset::START && self.send.una >= self.send.written {
            self.note_delivered();
        }
    }

    /// Notifies the stack, once, that the connection probably sends no more data.
    #[cold] // the end of a connection
    pub(super) fn note_delivered(&mut self) {
        if !std::mem::replace(&mut self.teardown.delivered, true) {
            self.outbox.push_event(ConnectionEvent::Delivered);
        }
    }

    /// Resets subflow `i` and reports the reason to the peer (RFC 8684, section 3.6). Its data are reinjected
    /// on other subflows.
    pub(super) fn reset_subflow(&mut self, now: Instant, i: usize, end: SubflowEnd) {
        let mut options = Options::default();
        if self.is_multipath() || matches!(self.subflows[i].origin, Origin::Join(_)) {
            let rare = options.rare_mut();
            rare.mp_tcprst = Some(MpTcpRst {
                transient: end.is_transient(),
                other_flags: 0,
                reason: end.reset_reason(),
            });
            rare.mp_fail = self.mp.as_mut().and_then(|m| m.fail_due.take());
        }
        let key = self.multipath().and_then(|m| m.key_remote);
        if self.subflows.remaining_count() == 1 && end.is_fatal() && key.is_some() {
            // The connection ends with this subflow. An RST alone would not indicate this (RFC 8684, section
            // 3.5).
            options.rare_mut().mp_fastclose = key;
        }
        let cx = self.context(now, i);
        let rst = self.subflows[i].build_rst(cx, options);
        self.outbox.packets.push_back(Packet::Tcp(rst));
        self.lose_subflow(now, i, end);
    }

    /// Subflow `i` is lost, and its data are reinjected. If no subflow is left, the connection waits for a
    /// further one or ends.
    pub(super) fn lose_subflow(&mut self, now: Instant, i: usize, end: SubflowEnd) {
        let initial = self.subflows[i].origin == Origin::Initial;
        let reason = end.close_reason(initial);
        if initial && self.role == Role::Server && !self.connected {
            self.forget_early_joins(now, reason);
        }
        self.end_subflow(now, i, end);
        if self.subflows.remaining_count() > 0 {
            self.note_cut_off(now, reason);
            return;
        }
        // If all data were delivered in both directions, only the closing exchange of the subflow is
        // incomplete.
        let said = self.teardown.data_fin_acked || self.mp.is_none() && self.is_delivered();
        if self.teardown.peer_closed && said {
            self.finish(CloseReason::Finished);
        } else if end.is_fatal() || !self.note_cut_off(now, reason) {
            self.finish(reason);
        }
    }

    /// Ends subflow `i`. Data that it did not deliver are reinjected on other subflows or wait for a further
    /// one.
    fn end_subflow(&mut self, now: Instant, i: usize, end: SubflowEnd) {
        let last = self.subflows.remaining_count() == 1;
        if !last {
            self.reinject_all_from(i);
        }
        self.record_end(now, i, end);
        if last && self.outlives_its_subflows() {
            self.reinject_all();
        }
    }

    /// Marks subflow `i` as ended and reports its end to all parts of the connection that know its identifier.
    pub(super) fn record_end(&mut self, now: Instant, i: usize, end: SubflowEnd) {
        self.announce_lost(now, i, end);
        self.note_end(now, i, end);
        self.note_past(i);
        self.subflows.end(i);
        let (id, known) = (self.subflows[i].id, is_known(&self.subflows[i]));
        self.coupling.deactivate(id.number());
        self.extensions.parities.forget(id);
        if self.connected && !matches!(self.teardown.closed, Some(CloseReason::Finished)) {
            self.outbox.push_event(match known {
                true => ConnectionEvent::SubflowDown(id),
                false => ConnectionEvent::JoinFailed(id),
            });
        }
        self.forget_signals_of(id);
        self.scheduling.reinjections.forget(id);
        self.scheduling.scheduler.forget(id);
        if let Some(r) = &mut self.policy.sender {
            r.on_subflow_ended(id);
        }
        self.identifiers.give_back(id, known);
        self.on_late_subflow();
    }

    /// Processes the peer's FIN on a subflow. In plain TCP it ends the peer's data. In MPTCP it only ends what
    /// the peer sends on that subflow (RFC 8684, section 3.3.3).
    pub(super) fn on_subflow_fin(&mut self, now: Instant) {
        if self.mp.is_none() {
            self.note_peer_closed();
            return;
        }
        self.answer_fins();
        self.note_cut_off(now, CloseReason::Reset);
    }

    /// Ends the stream at the peer's DATA_FIN, whatever else the peer sends. A DATA_FIN that lies before data
    /// that have arrived is ignored.
    pub(super) fn process_data_fin(&mut self) {
        let next = self.recv.next();
        if let Some(mp) = &mut self.mp
            && let Some(fin) = mp.fin_remote
        {
            if fin < next {
                mp.fin_remote = None;
            } else {
                self.recv.end_at(fin);
            }
        }
    }

    /// Sends FINs that are due. In plain TCP they are due after all data. In MPTCP they are due after both
    /// DATA_FINs, or in answer to a FIN if another subflow carries on.
    #[inline(never)] // the end of a connection
    pub(super) fn fin(&mut self, now: Instant) -> Option<(SubflowId, Segment)> {
        self.start_closing();
        let i = self
            .subflows
            .iter()
            .position(|s| s.closing && s.state.may_send() && !s.due.syn)?;
        let cx = self.context(now, i);
        let options = Options {
            dss: self.ack_dss(),
            ..Options::default()
        };
        let sf = &mut self.subflows[i];
        let seg = sf.build_new(cx, Default::default(), true, None, SendKind::New, options);
        Some((sf.id, seg))
    }

    /// Decides whether subflows must be closed now.
    fn start_closing(&mut self) {
        let waiting = self.send.unsent_bytes() > 0 || !self.scheduling.assigned.is_empty();
        if !self.teardown.closing || waiting || !self.connected {
            return;
        }
        if self.mp.is_none() {
            for s in self.subflows.iter_mut() {
                s.closing = true;
            }
            return;
        }
        if !self.teardown.data_fin_sent {
            self.teardown.data_fin_sent = true;
            self.teardown.data_fin_due = true;
            return;
        }
        let ended = || !self.subflows.iter().any(|s| s.state.may_receive());
        if self.teardown.data_fin_acked && (self.teardown.peer_closed || ended()) {
            for s in self.subflows.iter_mut().filter(|s| s.state.may_send()) {
                s.closing = true;
            }
        }
    }

    /// The subflow that carries a DATA_FIN without data. Each repetition uses another subflow.
    pub(super) fn data_fin_subflow(&self) -> Option<usize> {
        let usable = || {
            self.subflows
                .iter()
                .enumerate()
                .filter(|(_, s)| s.is_usable())
        };
        let n = usable().count();
        if n == 0 {
            return None;
        }
        usable()
            .nth(self.teardown.data_fin_tries as usize % n)
            .map(|(i, _)| i)
    }

    /// Adds the DATA_FIN to an acknowledgement: length 1, subflow sequence number 0 (RFC 8684,
    /// section 3.3.3).
    pub(super) fn add_data_fin(&mut self, now: Instant, dss: &mut Dss) {
        let Some(mp) = self.multipath() else { return };
        let dsn = mp.dsn(self.send.written);
        let empty = spindle_wire::Payload::EMPTY;
        let checksum = mp
            .checksum
            .then(|| spindle_wire::dss_checksum_of(dsn, 0, 1, [&empty]));
        dss.mapping = Some(Mapping {
            dsn: self.numbers.sent.number(dsn),
            ssn: 0,
            len: 1,
            checksum,
        });
        dss.data_fin = true;
        self.teardown.data_fin_due = false;
        self.teardown.data_fin_tries += 1;
        let rto = self
            .subflows
            .first()
            .map_or(self.config.tcp.min_rto, |s| s.tx.rtt.rto());
        self.timers.data_at = Some(now + self.backed_off(rto, self.teardown.data_fin_tries - 1));
        self.timers.stalled_since.get_or_insert(now);
    }

    /// Frees the memory that the transfer needed, when both applications are done with the connection.
    /// TIME_WAIT lasts long, and there may be many connections in this state.
    pub(crate) fn shed(&mut self) {
        for s in self.subflows.iter_mut() {
            s.tx.board.shed();
            s.rx.shed();
        }
        self.send.shed();
        self.recv.shed();
        self.subflows.forget_views();
        self.policy.changed_views = Vec::new();
        self.scheduling.candidates = Vec::new();
        self.scheduling.subflows = Vec::new();
        self.outbox.packets.shrink_to_fit();
        self.outbox.events.shrink_to_fit();
    }

    /// Ends subflow `i` in TIME_WAIT early, because its ports are reused.
    pub(crate) fn end_time_wait(&mut self, now: Instant, i: usize) {
        self.subflows[i].state = TcpState::Closed;
        self.reap(now);
    }

    /// The end of a step in which a subflow was closed or has ended. Removes these subflows. Ends the connection
    /// if every subflow is closed or in TIME_WAIT.
    #[cold] // the end of a subflow
    pub(super) fn reap(&mut self, now: Instant) {
        for i in 0..self.subflows.len() {
            if self.subflows[i].state == TcpState::Closed && !self.subflows.has_ended(i) {
                self.end_subflow(now, i, SubflowEnd::Closed);
            }
        }
        self.subflows.remove_ended();
        let ended = self.connected && !self.subflows.marks().any(Marks::GOES_ON);
        if ended && self.teardown.closed.is_none() {
            if self.is_delivered() && self.teardown.peer_closed {
                self.finish(CloseReason::Finished);
            } else if !self.note_cut_off(now, CloseReason::Reset) {
                self.finish(CloseReason::Reset);
            }
        }
    }
}

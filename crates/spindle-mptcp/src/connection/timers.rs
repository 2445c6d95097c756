//! The connection's timers.

use std::collections::VecDeque;

use spindle_units::{Duration, Instant};

use super::ended::SubflowEnd;
use super::subflow_table::Marks;
use super::trace::TraceKind;
use super::transmit::Purpose;
use super::{CloseReason, Connection};
use crate::config::MultipathConfig;
use crate::recovery::Trigger;
use crate::subflow::sender::SendKind;
use crate::subflow::{Due, Subflow, TcpState};
use crate::types::{SubflowId, earliest, or_far_future};

/// If a subflow with outstanding data times out, and no segment has arrived on it for this time and for a round
/// trip, it may be declared dead at its first timeout. The value is half of the smallest timeout in use outside
/// data centres (Linux `TCP_RTO_MIN`, 200 ms), because the timer may have been set again before the last
/// segment arrived. It is far above the timeouts within data centres, where three timeouts decide (mechanisms
/// A5.6).
const SILENCE: Duration = Duration::from_millis(100);

/// The connection's own timers, next to those of its subflows.
#[derive(Debug, Default)]
pub(super) struct Timers {
    /// The persist timer has expired while the window was open: a segment may be smaller than silly window
    /// avoidance allows (RFC 9293, section 3.8.6.2.1).
    pub(super) sws_override: bool,
    pub(super) persist_at: Option<Instant>,
    pub(super) persist_tries: u32,
    /// Since when the peer's window has been closed and probed.
    pub(super) shut_since: Option<Instant>,
    /// Since when only the peer's FIN or DATA_FIN is missing, on a connection that the application no longer
    /// reads.
    pub(super) fin_wait_since: Option<Instant>,
    /// Since when the connection has waited for the peer (RFC 9293, section 3.8.3).
    pub(super) stalled_since: Option<Instant>,
    /// The data level's retransmission timer.
    pub(super) data_at: Option<Instant>,
    pub(super) data_tries: u32,
    /// When a subflow that timed out soon after its last sign of life must be checked again, and which subflow.
    pub(super) path_check: Option<(Instant, SubflowId)>,
    /// When the scheduler must be asked again, if it waits until a certain time.
    pub(super) scheduler_at: Option<Instant>,
}

impl Timers {
    /// The timers of a connection that begins its handshake.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            stalled_since: Some(now),
            ..Self::default()
        }
    }
}

impl Connection {
    /// When the next timer of the connection is due.
    pub(crate) fn deadline(&mut self) -> Option<Instant> {
        let mut due = self.subflows.overview().deadline();
        due = due.min(or_far_future(self.timers.persist_at));
        due = due.min(or_far_future(self.timers.data_at));
        due = due.min(or_far_future(self.scheduling.undelivered.deadline()));
        if self.config.multipath.is_some() {
            due = due.min(or_far_future(self.paths.deadline()));
        }
        due = due.min(or_far_future(self.timers.path_check.map(|(t, _)| t)));
        due = due.min(or_far_future(self.timers.scheduler_at));
        due = due.min(or_far_future(self.policy_deadline()));
        due = due.min(or_far_future(self.cut_off_deadline()));
        due = due.min(or_far_future(
            self.timers
                .fin_wait_since
                .map(|t| t + self.config.tcp.fin_timeout),
        ));
        due = due.min(or_far_future(self.persist_ends()));
        let stalled = self
            .timers
            .stalled_since
            .map(|t| t + self.config.tcp.user_timeout);
        earliest(stalled, (due != Instant::FAR_FUTURE).then_some(due))
    }

    /// When the recovery policy must be asked next, if it may act at all. A time at which it was asked and
    /// requested nothing no longer counts. Otherwise it would be asked indefinitely, and a simulated clock
    /// would never advance.
    fn policy_deadline(&self) -> Option<Instant> {
        let acts = self.connected && self.teardown.closed.is_none();
        self.policy
            .sender
            .as_ref()
            .filter(|_| acts)
            .and_then(|r| r.next_timeout())
            .filter(|t| self.policy.rested.is_none_or(|rested| *t > rested))
    }

    /// Serves every timer that is due.
    pub(crate) fn timeout(&mut self, now: Instant) {
        for i in 0..self.subflows.len() {
            if !self.subflows.has_ended(i) {
                self.stage_timer(now, i);
            }
            self.subflow_timers(now, i);
        }
        if self.policy_deadline().is_some_and(|t| t <= now) {
            self.policy.triggers.insert(Trigger::Timer);
        }
        // The transmission that follows every timer asks the scheduler.
        self.timers.scheduler_at.take_if(|t| *t <= now);
        self.judge_again(now);
        let subflows = &self.subflows;
        let in_use = |addr| subflows.remaining().any(|s| s.local.addr == addr);
        self.paths.on_timer(now, in_use);
        self.removal_timers(now);
        self.persist_timer(now);
        self.data_timer(now);
        self.undelivered_timer(now);
        self.user_timer(now);
        self.cut_off_timer(now);
        self.peer_timers(now);
        self.settle(now);
    }

    fn stage_timer(&mut self, now: Instant, i: usize) {
        let stage = self.subflows[i].stage.as_ref();
        let due = stage.and_then(|s| s.next_timeout());
        if due.is_none_or(|t| t > now) {
            return;
        }
        let mut up = VecDeque::new();
        if let Some(stage) = &mut self.subflows[i].stage {
            stage.timeout(now, &mut up, &mut self.outbox.packets);
        }
        self.on_segments_of_stage(now, i, up);
    }

    fn subflow_timers(&mut self, now: Instant, i: usize) {
        // Each pass serves one timer and moves or clears it.
        while !self.subflows.has_ended(i) {
            if self.subflows[i].deadline().is_none_or(|t| t > now) {
                return;
            }
            match self.subflows[i].on_timer(now, &mut self.coupling) {
                Due::Nothing => {
                    if self.subflows[i].due.probe {
                        return;
                    }
                }
                Due::Syn => self.on_late_subflow(),
                Due::Over => return,
                Due::Rto => self.on_rto(now, i),
                Due::Probe => self.on_probe(now, i),
                Due::SynFailed => {
                    self.retry_later(now, i);
                    self.lose_subflow(now, i, SubflowEnd::NoAnswer);
                    return;
                }
                Due::KeepaliveFailed => {
                    self.retry_later(now, i);
                    self.lose_subflow(now, i, SubflowEnd::KeepaliveTimeout);
                    return;
                }
            }
        }
    }

    fn on_rto(&mut self, now: Instant, i: usize) {
        self.watch_repairs();
        let sf = &self.subflows[i];
        let (id, cwnd, in_flight, row) = (
            sf.id,
            sf.tx.cc.cwnd(),
            sf.tx.in_flight(),
            sf.tx.consecutive_timeouts,
        );
        self.outbox.trace.add(now, id, TraceKind::Timeout);
        self.outbox
            .trace
            .add(now, id, TraceKind::Window { cwnd, in_flight });
        if let Some(r) = &mut self.policy.sender {
            r.on_loss_hint(now, id, true);
        }
        self.judge(now, i, row);
    }

    /// Subflow `i` timed out for the `row`th time in a row. Decides whether it counts as dead. If it does, its
    /// outstanding data are reinjected on other subflows, and it gets no new data until it acknowledges
    /// something.
    fn judge(&mut self, now: Instant, i: usize, row: u32) {
        let multipath = self.config.multipath.as_ref();
        let judges = |m: &&MultipathConfig| !m.connection_timer && m.dead_after_timeouts < u32::MAX;
        let Some(m) = multipath.filter(|m| judges(m) && self.is_multipath()) else {
            return;
        };
        if self.subflows[i].dead && self.has_been_dead_for_long(now, i) {
            self.retry_later(now, i);
            self.reset_subflow(now, i, SubflowEnd::Dead);
            return;
        }
        let id = self.subflows[i].id;
        let others = || self.subflows.iter().filter(|s| s.id != id && s.is_usable());
        let (other, living) = (others().next().is_some(), others().any(|s| !s.dead));
        let (late, holds_back) = (row >= m.dead_after_timeouts, m.peer_holds_back);
        let black = living && self.has_gone_black(now, i);
        if late || black {
            self.subflows[i].dead = other;
            self.settle_draining();
            self.reinject_from(i, black || holds_back);
        } else if living && self.subflows[i].tx.rtt.rto() > SILENCE {
            // A segment arrived shortly before. Checks again when that is long ago, and not only at the next
            // timeout.
            let at = self.subflows[i].activity.last_heard + self.long_silence(i);
            self.timers.path_check = (at > now).then_some((at, id));
        }
        // If all subflows have timed out, none is known to be worse than another. Waiting for one that backs
        // off without bound would hold up the data that only it has.
        let probing = other && (self.subflows[i].dead || !living);
        self.subflows[i].tx.probe_dead_path(now, probing);
    }

    /// Subflow `up` is new. The others that have timed out no longer need to back off as if there were no
    /// alternative, and their outstanding data may be sent on the new subflow.
    pub(super) fn judge_others(&mut self, now: Instant, up: SubflowId) {
        let timed_out = |s: &Subflow| s.id != up && s.is_usable() && s.tx.consecutive_timeouts > 0;
        for i in 0..self.subflows.len() {
            if timed_out(&self.subflows[i]) {
                let row = self.subflows[i].tx.consecutive_timeouts;
                self.judge(now, i, row);
            }
        }
    }

    /// Whether no segment has arrived on subflow `i` for the user timeout while another subflow carries on.
    /// Subflow `i` must then be closed (RFC 9293, section 3.8.3, threshold R2).
    fn has_been_dead_for_long(&self, now: Instant, i: usize) -> bool {
        let silence = now.since(self.subflows[i].activity.last_heard);
        let mut others = self.subflows.iter().enumerate().filter(|(k, _)| *k != i);
        silence >= self.config.tcp.user_timeout && others.any(|(_, s)| s.is_usable() && !s.dead)
    }

    /// Checks a subflow again that timed out soon after its last sign of life, now that it had time for another
    /// one.
    fn judge_again(&mut self, now: Instant) {
        let Some((_, id)) = self.timers.path_check.take_if(|(t, _)| *t <= now) else {
            return;
        };
        if let Some(i) = self.index(id) {
            let (row, dead) = (
                self.subflows[i].tx.consecutive_timeouts,
                self.subflows[i].dead,
            );
            if row > 0 && !dead {
                self.judge(now, i, row);
            }
        }
    }

    /// How long no segment must have arrived on subflow `i` before its path counts as failed.
    fn long_silence(&self, i: usize) -> Duration {
        SILENCE.max(self.subflows[i].tx.srtt().unwrap_or_default())
    }

    /// Whether the first timeout of subflow `i` already shows that the path has failed, and not only that a
    /// tail was lost. This is so if the transfer continues but no segment has arrived on the subflow for a long
    /// time.
    fn has_gone_black(&self, now: Instant, i: usize) -> bool {
        let silence = now.since(self.subflows[i].activity.last_heard);
        let goes_on = self.has_new_data() || self.writable() == 0;
        goes_on && silence >= self.long_silence(i)
    }

    /// Sends a tail loss probe: new data if there are any, otherwise the last segment again (RFC 8985, section
    /// 7.3). The congestion window does not apply.
    fn on_probe(&mut self, now: Instant, i: usize) {
        let (id, mss) = (self.subflows[i].id, self.most_data(i));
        let most = mss.min(self.subflows[i].tx.window_room());
        let waiting = self.scheduling.assigned.bytes(id).min(most);
        let len = most.min(self.send.unsent_bytes()).min(self.send.window());
        let open = self.subflows[i].is_usable() && !self.subflows[i].scheduling.draining;
        let fresh = (waiting > 0 || len > 0) && open;
        if fresh && self.subflows[i].tx.defer_probe() {
            return;
        }
        let seg = if fresh {
            let assigned = self.scheduling.assigned.take(id, most);
            let (offset, payload) =
                assigned.unwrap_or_else(|| self.send.take(len as usize, mss as usize));
            Some(self.send_on(now, i, offset, payload, Purpose::PROBE))
        } else {
            self.subflows[i]
                .tx
                .last_segment()
                .and_then(|start| self.repeat(now, i, start, SendKind::Probe))
        };
        if let Some((_, seg)) = seg {
            self.subflows[i].tx.on_probe_sent(!fresh);
            self.emit(now, i, seg);
        }
    }

    /// Probes the peer's window if it has been closed for a long time (RFC 9293, section 3.8.6.1).
    fn persist_timer(&mut self, now: Instant) {
        if self.timers.persist_at.is_none_or(|t| t > now) {
            return;
        }
        self.timers.persist_at = None;
        self.timers.persist_tries += 1;
        if self.send.window() > 0 {
            self.timers.sws_override = true;
        } else if let Some(s) = self.subflows.iter_mut().find(|s| s.is_usable()) {
            s.due.probe = true;
        }
        self.timers.shut_since.get_or_insert(now);
        self.timers.stalled_since.get_or_insert(now);
        self.rearm_persist(now);
    }

    fn rearm_persist(&mut self, now: Instant) {
        let first = self.subflows.remaining().next();
        let rto = first.map_or(self.config.tcp.min_rto, |s| s.tx.rtt.rto());
        let wait = self.backed_off(rto, self.timers.persist_tries);
        if self.send.unsent_bytes() > 0 {
            self.timers.persist_at = Some(now + wait);
        }
    }

    /// Serves the data level's own timer. It runs for a DATA_FIN, and for data that subflows acknowledged and
    /// the data level did not.
    fn data_timer(&mut self, now: Instant) {
        if self.timers.data_at.is_none_or(|t| t > now) {
            return;
        }
        self.timers.data_at = None;
        if !self.is_multipath() {
            return;
        }
        if self.teardown.data_fin_is_outstanding() && self.send.una >= self.send.written {
            self.teardown.data_fin_due = true;
        } else if self.send.una < self.send.nxt {
            if self.silence_at_timeout(now) {
                return;
            }
            self.timers.data_tries += 1;
            // Linux: if no subflow is idle, the timer is only set again.
            if !self.reinjects_when_idle() || self.idle_subflow(None).is_some() {
                self.reinject_oldest();
            }
        }
    }

    fn user_timer(&mut self, now: Instant) {
        let limit = self.config.tcp.user_timeout;
        if self
            .timers
            .stalled_since
            .is_some_and(|t| now.since(t) >= limit)
        {
            let reason = if self.connected {
                CloseReason::UserTimeout
            } else {
                CloseReason::ConnectTimeout
            };
            self.abort_with(now, reason);
        }
    }

    /// When the peer will have kept its window closed for too long.
    fn persist_ends(&self) -> Option<Instant> {
        Some(self.timers.shut_since? + self.config.tcp.persist_timeout?)
    }

    /// Limits how long a peer may make this end wait for an open window or for its FIN.
    fn peer_timers(&mut self, now: Instant) {
        if self.persist_ends().is_some_and(|t| t <= now) {
            self.abort_with(now, CloseReason::PersistTimeout);
        }
        let limit = self.config.tcp.fin_timeout;
        if self
            .timers
            .fin_wait_since
            .is_some_and(|t| now.since(t) >= limit)
        {
            self.abort_with(now, CloseReason::FinTimeout);
        }
    }

    /// The application has closed the connection and reads no more data.
    pub(crate) fn release(&mut self, now: Instant) {
        self.close();
        self.teardown.released = true;
        self.note_fin_wait(now);
    }

    /// Checks whether only the peer's FIN or DATA_FIN is missing on a connection that the application no longer
    /// reads. In plain TCP this is FIN_WAIT_2 of a released connection (Linux: of an orphan). With MPTCP this
    /// end's DATA_FIN is acknowledged, and the connection is released or the peer's DATA_FIN has arrived.
    fn note_fin_wait(&mut self, now: Instant) {
        let unread = self.teardown.released || (self.mp.is_some() && self.teardown.peer_closed);
        let acked = self.connected && self.is_delivered();
        let ended = acked
            && match self.is_multipath() {
                true => self.teardown.data_fin_acked,
                false => self
                    .subflows
                    .first()
                    .is_some_and(|s| s.state == TcpState::FinWait2),
            };
        if !(unread && ended) || self.teardown.closed.is_some() {
            self.timers.fin_wait_since = None;
        } else {
            self.timers.fin_wait_since.get_or_insert(now);
        }
    }

    /// Updates the timers after a change. Must be called after every change.
    pub(super) fn settle(&mut self, now: Instant) {
        if self.mp.is_some() {
            self.process_data_fin();
        }
        let marks = self.subflows.marks();
        if marks.any(Marks::CLOSED) || !marks.any(Marks::GOES_ON) {
            self.reap(now);
        }
        if self.teardown.closed.is_some() {
            self.timers.persist_at = None;
            self.timers.data_at = None;
            self.scheduling.undelivered = Default::default();
            self.timers.path_check = None;
            self.timers.scheduler_at = None;
            self.timers.stalled_since = None;
            self.cut_off = None;
            self.timers.shut_since = None;
            self.timers.fin_wait_since = None;
            return;
        }
        if self.teardown.closing {
            self.note_fin_wait(now);
        }
        let marks = self.subflows.marks();
        let data_level = self.is_multipath();
        let fin_missing = data_level && self.teardown.data_fin_is_outstanding();
        let waiting = !self.connected
            || self.send.una < self.send.nxt
            || fin_missing
            || (self.timers.persist_at.is_some() && self.timers.persist_tries > 0)
            || marks.any(Marks::OUTSTANDING)
            || (self.send.unsent_bytes() > 0 && !marks.any(Marks::USABLE));
        if waiting {
            self.timers.stalled_since.get_or_insert(now);
        } else {
            self.timers.stalled_since = None;
        }
        if data_level {
            self.arm_data_timer(now);
        }
        #[cfg(debug_assertions)]
        self.check();
    }

    /// Arms the data-level timer. It runs while the data level waits for data that no subflow will retransmit
    /// by itself. For reinjection as in the Linux kernel it runs whenever data are outstanding.
    fn arm_data_timer(&mut self, now: Instant) {
        if self.send.una >= self.send.nxt {
            if !self.teardown.data_fin_is_outstanding() {
                self.timers.data_at = None;
            } else if self.timers.data_at.is_none() && !self.teardown.data_fin_due {
                self.timers.data_at =
                    Some(now + self.backed_off(self.slowest_rto(), self.teardown.data_fin_tries));
            }
            return;
        }
        let always = self.reinjects_when_idle();
        let orphaned = !self.subflows.marks().any(Marks::OUTSTANDING)
            && self.scheduling.reinjections.is_empty();
        if self.timers.data_at.is_none() && always {
            self.timers.data_at = Some(now + self.kernel_timeout());
        } else if self.timers.data_at.is_none() && orphaned {
            self.timers.data_at =
                Some(now + self.backed_off(self.slowest_rto(), self.timers.data_tries));
        }
    }

    /// The Linux kernel's connection-level timeout, which has no back-off. It is the longest retransmission
    /// timeout of the subflows that wait for one and have not timed out yet. If there are no such subflows, it
    /// is the minimum timeout.
    fn kernel_timeout(&self) -> Duration {
        let waiting = self
            .subflows
            .iter()
            .filter(|s| !s.tx.board.is_empty() && s.tx.consecutive_timeouts == 0);
        let longest = waiting.map(|s| s.tx.rtt.rto()).max();
        longest.unwrap_or(self.config.tcp.min_rto)
    }

    /// `rto` doubled `tries` times, but not above the maximum retransmission timeout.
    pub(super) fn backed_off(&self, rto: Duration, tries: u32) -> Duration {
        (rto * (1 << tries.min(16))).min(self.config.tcp.max_rto.max(rto))
    }

    pub(super) fn slowest_rto(&self) -> Duration {
        let rtos = self.subflows.remaining().map(|s| s.tx.rtt.rto());
        rtos.max().unwrap_or(self.config.tcp.initial_rto)
    }

    /// The invariants of a connection; debug builds only.
    #[cfg(debug_assertions)]
    fn check(&self) {
        self.subflows.check();
        for s in &self.subflows {
            s.tx.check();
        }
        assert!(self.send.una <= self.send.nxt && self.send.nxt <= self.send.written);
    }
}

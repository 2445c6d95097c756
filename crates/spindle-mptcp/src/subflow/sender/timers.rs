//! The sender's timers: retransmission timeout, tail loss probe, RACK's reordering timer, which also serves the wait
//! before Early Retransmit.

use spindle_units::{Duration, Instant};

use super::{Phase, Sender};
use crate::congestion::{Coupling, Signal};
use crate::subflow::loss::frto::Frto;
use crate::subflow::loss::tlp::Tlp;
use crate::subflow::scoreboard::Sent;
use crate::tcp_config::ReductionBase;
use crate::types::{SubflowPosition, or_far_future};

/// The action that an expired timer requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expired {
    /// No timer was due, or its expiry needs no further action.
    Nothing,
    /// The retransmission timer expired. Losses are already marked.
    Rto,
    /// A tail loss probe is due: new data if available, otherwise the last segment.
    Probe,
}

impl Sender {
    /// When the next timer is due. [`Instant::FAR_FUTURE`] if no timer is armed.
    #[inline]
    pub(crate) fn next_deadline(&self) -> Instant {
        let due = or_far_future(self.rto_at).min(or_far_future(self.tlp.at));
        let due = due.min(or_far_future(self.reorder_at));
        match self.is_gated() {
            true => due.min(self.gates.deadline()),
            false => due,
        }
    }

    /// Schedules the tail loss probe (RFC 8985, section 7.2), which is early if it has a margin. This happens only in
    /// the open phase and if no segment is SACKed.
    pub(crate) fn arm_tlp(&mut self, now: Instant) {
        let Some(config) = self.config.loss.tail_loss_probe else {
            return;
        };
        let wanted = matches!(self.phase, Phase::Open)
            && self.tlp.may_arm()
            && self.board.sacked_bytes() == 0
            && !self.board.is_empty();
        (self.tlp.at, self.tlp.regular_at) = (None, None);
        if !wanted {
            return;
        }
        let until_rto = self.rto_at.map_or(self.rtt.rto(), |t| t.since(now));
        let single = self.board.outstanding() <= self.mss;
        let srtt = self.rtt.smoothed();
        let expiry = |wait| {
            let at = self.expiry(now, wait);
            self.rto_at.map_or(at, |rto| at.min(rto))
        };
        let regular = expiry(Tlp::timeout(config, srtt, single, until_rto));
        let sent_ago = |s: &Sent| now.since(s.sent_at);
        let sent_ago = self.board.back().map_or(Duration::ZERO, sent_ago);
        let early = Tlp::early_timeout(config, srtt, sent_ago).map(expiry);
        let early = early.filter(|early| *early < regular);
        self.tlp.at = Some(early.unwrap_or(regular));
        self.tlp.regular_at = early.and(Some(regular));
    }

    /// Processes one expired timer.
    pub(crate) fn on_timer(&mut self, now: Instant, coupling: &mut Coupling) -> Expired {
        if self.gates.on_deadline(now) {
            return Expired::Nothing;
        }
        if self.reorder_at.is_some_and(|t| t <= now) {
            self.reorder_at = None;
            let before = self.in_recovery();
            match self.config.loss.rack {
                true => self.detect_by_time(now, self.flight_size(), coupling),
                false => self.retransmit_early(now, coupling),
            }
            if !before && self.in_recovery() {
                // No acknowledgement has arrived that would determine how much may be sent (RFC 6937,
                // section 3).
                self.reduce_proportionally(0);
            }
            self.settle_probe(now);
            self.counters.losses = self.board.losses();
            return Expired::Nothing;
        }
        // A scheduled probe replaces the retransmission timeout: only one of the two is armed (RFC 8985,
        // section 8; Linux: `tcp_schedule_loss_probe`). The probe is never later than the timeout.
        if self.tlp.at.is_some_and(|t| t <= now) {
            self.tlp.at = None;
            self.arm_rto(now);
            return Expired::Probe;
        }
        if self.rto_at.is_some_and(|t| t <= now) {
            self.on_rto(now, coupling);
            self.counters.losses = self.board.losses();
            return Expired::Rto;
        }
        Expired::Nothing
    }

    /// A probe is due although there are new data to send. Returns whether it is put off ([`Tlp::defer`]).
    pub(crate) fn defer_probe(&mut self) -> bool {
        self.tlp.defer()
    }

    /// A probe was sent: new data or (`repeat`) a retransmission of the last segment.
    pub(crate) fn on_probe_sent(&mut self, repeat: bool) {
        self.counters.probes += 1;
        self.tlp.on_probe(self.nxt, repeat);
    }

    /// The start of the last outstanding segment, for a probe.
    pub(crate) fn last_segment(&self) -> Option<SubflowPosition> {
        self.board.back().map(|s| s.start)
    }

    fn on_rto(&mut self, now: Instant, coupling: &mut Coupling) {
        self.counters.timeouts += 1;
        self.consecutive_timeouts += 1;
        let repeated_timeout = matches!(self.phase, Phase::Loss { .. });
        let flight = self.flight_size();
        self.cc.on_timeout(now, flight, !repeated_timeout, coupling);
        self.rtt.back_off();
        // A SACKed segment at the left edge shows that the receiver reneged (RFC 2018, section 8).
        let reneged = self.board.front().is_some_and(|s| s.sacked);
        self.board.mark_all_lost(reneged);
        self.duplicates.presumed = 0;
        self.duplicates.count = 0;
        self.marks.recover = self.nxt;
        self.marks.reduced_until = self.nxt;
        let frto = self.config.loss.frto && !repeated_timeout && self.sack;
        self.spurious.frto_probed = false;
        self.spurious.frto = if frto { Frto::Repeated } else { Frto::Off };
        self.phase = Phase::Loss { point: self.nxt };
        if repeated_timeout {
            self.spurious.undo.end();
        } else {
            self.spurious.undo.begin(self.una);
            self.reordering.on_recovery();
        }
        self.tlp.cancel();
        self.reorder_at = None;
        self.force_repeat = true;
        self.arm_rto(now);
        if self.search.is_some() {
            self.look_for_black_hole(now);
        }
    }

    /// Ends the back-off of former timeouts and lets the retransmission timer expire at once. Returns false if no data
    /// are outstanding.
    pub(crate) fn retry_now(&mut self, now: Instant) -> bool {
        self.rtt.end_back_off();
        self.consecutive_timeouts = 0;
        if self.board.is_empty() {
            return false;
        }
        self.tlp.cancel();
        self.rto_at = Some(now);
        true
    }

    /// Sets whether the path is probed at bounded intervals. If not, the usual back-off applies.
    pub(crate) fn probe_dead_path(&mut self, now: Instant, probing: bool) {
        self.rtt.set_probing(probing);
        self.arm_rto(now);
    }

    /// RACK's step 5 and its consequences. `flight` is as for [`Self::enter_recovery`].
    pub(super) fn detect_by_time(&mut self, now: Instant, flight: u64, coupling: &mut Coupling) {
        let settled = !matches!(self.phase, Phase::Open)
            || self.board.sacked_bytes()
                > u64::from(self.config.loss.dupack_threshold - 1) * self.mss;
        let (lost, again) = self.rack.detect(
            &mut self.board,
            now,
            settled,
            self.rtt.minimum(),
            self.rtt.smoothed(),
        );
        self.reorder_at = again;
        if lost > 0 && matches!(self.phase, Phase::Open) {
            self.enter_recovery(now, flight, coupling);
        }
    }

    /// FlightSize (RFC 5681, section 2) without the segments that Limited Transmit or SACK allowed beyond cwnd
    /// (section 3.2, step 2). Alternatively cwnd, if the configuration selects that.
    pub(crate) fn flight_size(&self) -> u64 {
        match self.config.loss.flight {
            ReductionBase::FlightSize => self.board.outstanding().min(self.cc.cwnd()),
            ReductionBase::CongestionWindow => self.cc.cwnd(),
        }
    }

    /// Begins fast recovery. The losses are already marked, or the caller marks them afterwards. `flight` is
    /// [`Self::flight_size`] when the sign of loss arrived, before the acknowledgement that carried it was
    /// processed.
    #[cold] // a loss
    pub(super) fn enter_recovery(&mut self, now: Instant, flight: u64, coupling: &mut Coupling) {
        self.counters.fast_retransmits += 1;
        let prior_cwnd = self.cc.cwnd();
        self.spurious.undo.begin(self.una);
        // One reduction per window of data, whatever announced the congestion (RFC 3168, 6.1.2).
        if self.una >= self.marks.reduced_until {
            self.cc.on_signal(now, flight, Signal::Loss, coupling);
            self.cwr_due = self.ecn;
        }
        self.marks.reduced_until = self.nxt;
        self.marks.recover = self.nxt;
        let prr = self.config.loss.prr.then(|| {
            let target = self.cc.cwnd();
            self.cc.set_cwnd(prior_cwnd);
            super::Prr::new(flight, target)
        });
        self.phase = Phase::Recovery {
            point: self.nxt,
            partial_acks: 0,
            prr,
            uncongested: false,
        };
        self.tlp.cancel();
        if !self.config.loss.rack {
            self.reorder_at = None;
        }
        self.force_repeat = true;
    }

    /// The peer repaired a loss with a parity. The window is reduced as after a retransmission, once per
    /// window.
    pub(crate) fn on_repaired(&mut self, now: Instant, flight: u64, coupling: &mut Coupling) {
        if self.una < self.marks.reduced_until || !matches!(self.phase, Phase::Open) {
            return;
        }
        self.cc.on_signal(now, flight, Signal::Loss, coupling);
        self.marks.reduced_until = self.nxt;
        self.cwr_due = self.ecn;
    }

    /// A parity whose block ends at `end` met more losses than it can repair. Segments below `end` that were
    /// transmitted once and have not arrived are lost. Returns whether fast recovery began.
    pub(crate) fn on_unrepaired(
        &mut self,
        now: Instant,
        end: SubflowPosition,
        flight: u64,
        coupling: &mut Coupling,
    ) -> bool {
        let lost = self.board.lose_fresh_below(end);
        let begins = matches!(self.phase, Phase::Open) && lost > 0;
        if begins {
            self.enter_recovery(now, flight, coupling);
        }
        self.counters.losses = self.board.losses();
        begins
    }

    /// An ECN echo: reduces once per window (RFC 3168, section 6.1.2). `flight` is the number of outstanding
    /// bytes before the acknowledgement was processed. An acknowledgement of the whole window would leave
    /// nothing to halve.
    #[inline(never)] // only with ECN
    pub(super) fn on_ecn_echo(&mut self, now: Instant, flight: u64, coupling: &mut Coupling) {
        if self.una < self.marks.reduced_until || !matches!(self.phase, Phase::Open) {
            return;
        }
        self.counters.ecn_reductions += 1;
        self.cc.on_signal(now, flight, Signal::Ecn, coupling);
        self.marks.reduced_until = self.nxt;
        self.cwr_due = true;
    }
}

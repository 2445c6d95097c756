//! The effects of an acknowledgement on the sender (RFC 5681, RFC 6582, RFC 6675).

use spindle_units::{Duration, Instant};

use super::{Phase, Sender};
use crate::congestion::{AckSample, Coupling, Signal};
use crate::subflow::loss::frto::{Frto, FrtoVerdict};
use crate::subflow::scoreboard::Acked;
use crate::types::{DataOffset, SubflowPosition};

/// An acknowledgement, in positions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckInput<'a> {
    /// The cumulative acknowledgement, at most `nxt`.
    pub(crate) ack: SubflowPosition,
    /// The data offset up to which the data level is acknowledged. [`DataOffset::MAX`] if the caller does not need
    /// the later data.
    pub(crate) data_acked: DataOffset,
    /// SACK blocks without D-SACK.
    pub(crate) sacks: &'a [(SubflowPosition, SubflowPosition)],
    /// A D-SACK block.
    pub(crate) dsack: Option<(SubflowPosition, SubflowPosition)>,
    /// It repeats the last acknowledgement: no data, no window change, no SYN or FIN (RFC 5681, section 2).
    pub(crate) repeats: bool,
    /// ECE is set.
    pub(crate) ece: bool,
    /// DCTCP's exact echo is in use: ECE means that the acknowledged data were marked.
    pub(crate) exact_echo: bool,
    /// The connection has data that were never sent.
    pub(crate) new_data: bool,
    /// Transmission opportunities before it.
    pub(crate) opportunities: u64,
    /// The echoed timestamp, in ticks of 1 ms, if timestamps are in use (RFC 7323).
    pub(crate) echo: Option<u32>,
}

/// The effect of an acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AckEffect {
    /// Bytes newly acknowledged cumulatively.
    pub(crate) acked: u64,
    /// Bytes newly SACKed.
    pub(crate) sacked: u64,
    /// Fast recovery was entered.
    pub(crate) entered_recovery: bool,
}

impl Sender {
    /// Processes an acknowledgement.
    pub(crate) fn on_ack(
        &mut self,
        now: Instant,
        a: &AckInput<'_>,
        coupling: &mut Coupling,
    ) -> AckEffect {
        self.spurious.acknowledgements += 1;
        let in_flight = self.in_flight();
        let prior_in_flight = self.window_use.on_ack(a.opportunities, in_flight);
        // The value that a congestion signal in this acknowledgement halves (RFC 5681, section 3.1), without
        // the segments that Limited Transmit sent beyond cwnd.
        let flight = self.flight_size();
        let prior_una = self.una;
        let (delivered, newly_sacked) = self.take_acknowledged(a);
        self.una = self.una.max(a.ack);
        let advanced = self.una > prior_una;
        let cumulative = self.una - prior_una;

        self.take_rtt(now, a, &delivered, advanced);
        if let Some(sent_at) = delivered.clean_sent_at.filter(|_| !advanced) {
            self.cc.on_selective_ack(now, now.since(sent_at));
        }
        let undos = self.counters.undos;
        if let Some((left, _)) = a.dsack {
            self.on_dsack(now, left);
        }
        self.rack
            .on_delivered(now, &delivered, self.rtt.minimum(), self.una);
        let duplicate = if self.sack {
            newly_sacked > 0 && !advanced
        } else {
            a.repeats && !advanced
        };
        self.count_duplicates(advanced, duplicate, newly_sacked > 0, cumulative);
        if self.spurious.frto != Frto::Off {
            self.frto_step(now, advanced, &delivered, duplicate || a.repeats);
        }
        let flight = match self.counters.undos > undos {
            // A loss that is found now reduces the restored window.
            true => flight.max(self.flight_size()),
            false => flight,
        };
        let entered = self.update_phase(now, a, advanced, flight, coupling);
        self.grow(
            now,
            a,
            advanced,
            cumulative,
            prior_in_flight,
            &delivered,
            coupling,
        );
        if a.ece && advanced && self.ecn {
            self.on_ecn_echo(now, flight, coupling);
        }
        if matches!(self.phase, Phase::Recovery { prr: Some(_), .. }) {
            self.reduce_proportionally(delivered.bytes);
        }
        if self.tlp.on_ack(self.una, a.dsack.is_some()) && matches!(self.phase, Phase::Open) {
            self.cc.on_signal(now, flight, Signal::Loss, coupling);
            self.marks.reduced_until = self.nxt;
        }
        self.rearm(now, advanced);
        if self.search.is_some() {
            self.settle_probe(now);
        }
        self.counters.losses = self.board.losses();
        AckEffect {
            acked: cumulative,
            sacked: newly_sacked,
            entered_recovery: entered,
        }
    }

    /// Applies an acknowledgement to the scoreboard. Returns what it acknowledged, and the bytes newly SACKed.
    #[inline]
    fn take_acknowledged(&mut self, a: &AckInput<'_>) -> (Acked, u64) {
        let sacked = (!a.sacks.is_empty()).then(|| self.take_sacks(a.sacks));
        let acked = if a.ack > self.una {
            if self.in_recovery() && self.config.loss.reordering.is_some() {
                self.note_reordering();
            }
            if self.search.is_some() {
                self.note_delivered_sizes(a.ack);
            }
            self.board.acknowledge(a.ack, a.data_acked)
        } else {
            Acked::default()
        };
        match sacked {
            Some(sacked) => (merge(sacked, acked), sacked.bytes),
            None => (acked, 0),
        }
    }

    /// Sets the window to permit as many bytes as RFC 6937 allows after `delivered` bytes have arrived.
    #[inline(never)] // a loss
    pub(super) fn reduce_proportionally(&mut self, delivered: u64) {
        if let Phase::Recovery { prr: Some(prr), .. } = &mut self.phase {
            let pipe = self.board.pipe();
            let cwnd = prr.on_ack(delivered, pipe, self.mss);
            self.cc.set_cwnd(cwnd);
        }
    }

    #[cold] // reordering
    fn note_reordering(&mut self) {
        let beyond = self.board.sacked_bytes().div_ceil(self.mss);
        self.reordering.on_closed(beyond as u32);
    }

    #[inline(never)] // only with SACK blocks
    fn take_sacks(&mut self, sacks: &[(SubflowPosition, SubflowPosition)]) -> Acked {
        let mut delivered = Acked::default();
        for &(left, right) in sacks {
            delivered = merge(delivered, self.board.sack(left, right));
        }
        delivered
    }

    /// Karn's rule: only segments that were transmitted once are measured, and no segment that waited behind a
    /// hole. The exception is an echoed timestamp that identifies the transmission (RFC 6298, section 3, and
    /// RFC 7323, section 4.1: if the left edge advances).
    fn take_rtt(&mut self, now: Instant, a: &AckInput<'_>, delivered: &Acked, advanced: bool) {
        if delivered.retransmitted {
            if advanced && let Some(ticks) = a.echo {
                self.take_echoed_rtt(now, delivered, ticks, a.dsack.is_some());
            }
            return;
        }
        if let Some(sent_at) = delivered.clean_sent_at {
            self.rtt.sample(now.since(sent_at));
        }
        if advanced {
            self.rtt.end_back_off();
        }
    }

    #[cold] // a retransmission
    fn take_echoed_rtt(&mut self, now: Instant, delivered: &Acked, ticks: u32, answers: bool) {
        let soonest = self.rtt.minimum().filter(|_| !answers).map(|m| m / 2);
        if let Some(rtt) = since_echoed(now, delivered, ticks, soonest) {
            self.rtt.sample(rtt);
        }
    }

    #[cold] // a spurious retransmission
    fn on_dsack(&mut self, now: Instant, left: SubflowPosition) {
        let (spurious, all) = self.spurious.undo.on_dsack(left);
        if spurious && self.counters.retransmissions > self.counters.spurious_retransmits {
            self.counters.spurious_retransmits += 1;
            self.rack.on_dsack(self.una, self.nxt);
            self.reordering.on_needless(self.config.loss.reordering);
        }
        if all && self.config.loss.dsack_undo {
            self.undo_reduction(now);
        }
    }

    #[cold] // a spurious retransmission
    fn undo_reduction(&mut self, now: Instant) {
        let recovers = !matches!(self.phase, Phase::Open);
        // After the recovery has ended an undo visits no segments.
        if recovers && !self.spurious.may_undo() {
            return;
        }
        self.cc.undo(now);
        self.counters.undos += 1;
        if recovers {
            self.spurious.credit.spend(self.board.clear_lost());
            self.phase = Phase::Open;
        }
        self.marks.reduced_until = self.una;
    }

    fn count_duplicates(&mut self, advanced: bool, duplicate: bool, sacked: bool, cumulative: u64) {
        if advanced {
            // RFC 6675, section 5: the count starts again with each cumulative advance.
            self.duplicates.count = 0;
            self.duplicates.presumed = match self.phase {
                Phase::Open => 0,
                _ => {
                    let segments = cumulative.div_ceil(self.mss);
                    self.duplicates
                        .presumed
                        .saturating_sub(segments.saturating_sub(1))
                }
            };
        } else if duplicate {
            self.count_duplicate(sacked);
        }
    }

    #[inline(never)] // a duplicate acknowledgement
    fn count_duplicate(&mut self, sacked: bool) {
        self.duplicates.count += 1;
        if !sacked {
            let segments = self.board.outstanding().div_ceil(self.mss);
            self.duplicates.presumed =
                (self.duplicates.presumed + 1).min(segments.saturating_sub(1));
        }
    }

    #[cold] // after a timeout
    fn frto_step(&mut self, now: Instant, advanced: bool, delivered: &Acked, duplicate: bool) {
        let complete = match self.phase {
            Phase::Loss { point } => self.una >= point,
            _ => true,
        };
        match self
            .spurious
            .frto
            .on_ack(advanced, complete, delivered.original, duplicate)
        {
            FrtoVerdict::Wait | FrtoVerdict::Genuine => {}
            FrtoVerdict::Spurious => self.undo_reduction(now),
        }
    }

    /// Moves between the phases. Returns whether fast recovery began.
    fn update_phase(
        &mut self,
        now: Instant,
        a: &AckInput<'_>,
        advanced: bool,
        flight: u64,
        coupling: &mut Coupling,
    ) -> bool {
        match self.phase {
            Phase::Open => return self.detect(now, a, flight, coupling),
            Phase::Recovery { point, .. } if self.una >= point => self.leave_recovery(),
            Phase::Recovery { .. } => self.continue_recovery(now, advanced, flight, coupling),
            Phase::Loss { point } if self.una >= point => {
                self.phase = Phase::Open;
                self.spurious.frto = Frto::Off;
                self.duplicates.presumed = 0;
                self.rack.on_recovered();
            }
            Phase::Loss { .. } => {
                if self.config.loss.rack {
                    self.detect_by_time(now, flight, coupling);
                }
            }
        }
        false
    }

    /// Looks for loss in the open phase.
    fn detect(
        &mut self,
        now: Instant,
        a: &AckInput<'_>,
        flight: u64,
        coupling: &mut Coupling,
    ) -> bool {
        if self.board.is_empty() {
            return false;
        }
        let threshold = self.threshold(a.new_data);
        let early = threshold < self.config.loss.dupack_threshold;
        if self.delays_early_retransmit() {
            self.reorder_at = None;
            if early {
                return self.detect_with_delay(now, threshold, flight, coupling);
            }
        }
        if self.config.loss.rack && self.sack {
            self.detect_by_time(now, flight, coupling);
            if self.in_recovery() || !early {
                return self.in_recovery();
            }
        }
        if self.sack {
            return self.detect_by_sack(now, threshold, flight, coupling);
        }
        if self.duplicates.count >= threshold && self.una > self.marks.recover {
            self.enter_recovery(now, flight, coupling);
            let front = self.board.start_of_first();
            self.board.mark_lost(front);
            return true;
        }
        false
    }

    /// Whether Early Retransmit waits. With RACK, the timer that it waits for is RACK's.
    fn delays_early_retransmit(&self) -> bool {
        self.config.loss.early_retransmit_delay.is_some() && !self.config.loss.rack && self.sack
    }

    /// Looks for loss if only Early Retransmit's threshold may be reached: it waits for a quarter of the smoothed
    /// RTT first, unless the retransmission timer expires before. Each acknowledgement starts the wait again
    /// (Linux `tcp_pause_early_retransmit`).
    #[cold] // only with the delay, at the end of data
    fn detect_with_delay(
        &mut self,
        now: Instant,
        threshold: u32,
        flight: u64,
        coupling: &mut Coupling,
    ) -> bool {
        if self.lost_by_sack(threshold).is_none() {
            return false;
        }
        let least = self.config.loss.early_retransmit_delay.unwrap_or_default();
        let due = self.rtt.smoothed();
        let due = due.map(|rtt| self.expiry(now, (rtt / 4).max(least)));
        match due.filter(|due| self.rto_at.is_none_or(|rto| rto > *due)) {
            Some(due) => self.reorder_at = Some(due),
            None => return self.detect_by_sack(now, threshold, flight, coupling),
        }
        false
    }

    /// Retransmits early, after the wait.
    pub(super) fn retransmit_early(&mut self, now: Instant, coupling: &mut Coupling) {
        let threshold = self.threshold(false);
        if matches!(self.phase, Phase::Open) && !self.board.is_empty() {
            self.detect_by_sack(now, threshold, self.flight_size(), coupling);
        }
    }

    /// The end of what SACK shows to be lost. `None` if nothing is.
    fn lost_by_sack(&self, threshold: u32) -> Option<SubflowPosition> {
        let frontier = self
            .board
            .loss_frontier(u64::from(threshold.max(1) - 1) * self.mss);
        let lost = frontier > self.board.start_of_first()
            || (self.duplicates.count >= threshold && self.board.sacked_bytes() > 0);
        lost.then_some(frontier)
    }

    #[inline(never)] // only with SACK blocks
    fn detect_by_sack(
        &mut self,
        now: Instant,
        threshold: u32,
        flight: u64,
        coupling: &mut Coupling,
    ) -> bool {
        let Some(frontier) = self.lost_by_sack(threshold) else {
            return false;
        };
        let front = self.board.start_of_first();
        self.enter_recovery(now, flight, coupling);
        self.board.mark_lost_below(frontier);
        self.board.mark_lost(front);
        true
    }

    #[inline(never)] // a loss
    fn continue_recovery(
        &mut self,
        now: Instant,
        advanced: bool,
        flight: u64,
        coupling: &mut Coupling,
    ) {
        if self.config.loss.rack && self.sack {
            self.detect_by_time(now, flight, coupling);
        } else if self.sack {
            let threshold = self
                .config
                .loss
                .dupack_threshold
                .max(self.reordering.raised);
            let frontier = self
                .board
                .loss_frontier(u64::from(threshold.max(1) - 1) * self.mss);
            self.board.mark_lost_below(frontier);
        } else if advanced {
            // RFC 6582, section 3.2, step 3: a partial acknowledgement reveals the next hole.
            let front = self.board.start_of_first();
            self.board.mark_lost(front);
            self.force_repeat = true;
        }
        if advanced && let Phase::Recovery { partial_acks, .. } = &mut self.phase {
            *partial_acks += 1;
        }
    }

    #[cold] // a loss
    fn leave_recovery(&mut self) {
        let Phase::Recovery {
            prr, uncongested, ..
        } = self.phase
        else {
            return;
        };
        self.phase = Phase::Open;
        if uncongested {
            // The window was not reduced and stays as it is.
        } else if !self.sack {
            // RFC 6582, section 3.2, step 3, in the variant that avoids a burst.
            let flight = self.board.outstanding();
            self.cc
                .set_cwnd(self.cc.ssthresh().min(flight.max(self.mss) + self.mss));
        } else if let Some(prr) = prr {
            // Without a reduction at its beginning, ssthresh may be above the target, or unlimited.
            self.cc.set_cwnd(self.cc.ssthresh().min(prr.target()));
        }
        self.duplicates.presumed = 0;
        self.duplicates.count = 0;
        self.force_repeat = false;
        self.rack.on_recovered();
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the facts of one acknowledgement"
    )]
    fn grow(
        &mut self,
        now: Instant,
        a: &AckInput<'_>,
        advanced: bool,
        cumulative: u64,
        prior_in_flight: u64,
        delivered: &Acked,
        coupling: &mut Coupling,
    ) {
        if !advanced {
            return;
        }
        self.consecutive_timeouts = 0;
        let cwnd = self.cc.cwnd();
        let slow_start = cwnd < self.cc.ssthresh();
        let limited = if slow_start {
            prior_in_flight * 2 >= cwnd
        } else {
            prior_in_flight + self.mss > cwnd
        };
        let rtt: Option<Duration> = if delivered.retransmitted {
            None
        } else {
            delivered.clean_sent_at.map(|t| now.since(t))
        };
        self.cc.on_ack(
            &AckSample {
                now,
                acked: cumulative,
                marked: if a.exact_echo && a.ece { cumulative } else { 0 },
                prior_in_flight,
                rtt,
                srtt: self.rtt.smoothed(),
                acked_to: self.una,
                next: self.nxt,
                cwnd_limited: limited,
                recovering: !matches!(self.phase, Phase::Open),
                losses: self.board.losses(),
            },
            coupling,
        );
    }

    /// RFC 6298, rules 5.2 and 5.3. In NewReno recovery only the first partial acknowledgement restarts the
    /// timer (RFC 6582, section 3.2, step 3).
    fn rearm(&mut self, now: Instant, advanced: bool) {
        if self.board.is_empty() {
            self.rto_at = None;
            self.reorder_at = None;
            self.tlp.at = None;
            return;
        }
        let later_partial = !self.sack
            && matches!(self.phase, Phase::Recovery { partial_acks, .. } if partial_acks > 1);
        if advanced && !later_partial {
            self.arm_rto(now);
        }
        if advanced || self.board.sacked_bytes() > 0 {
            self.arm_tlp(now);
        }
    }
}

/// An older echo is ignored. No segment waits this long for its acknowledgement, but a peer may echo any value
/// (RFC 9293's MSL is twice this).
const OLDEST_ECHO: Duration = Duration::from_secs(60);

/// Time since the transmission whose timestamp was echoed, if the echo identifies it. If it is the last
/// transmission of the newly acknowledged segments, the result is exact. If it is an earlier transmission, the
/// resolution is the 1 ms tick.
///
/// An earlier transmission is believed only if the last one was sent less than `soonest` ago, so that an answer to it
/// cannot have arrived yet. Later, the same echo may belong to an acknowledgement that was lost. The echo then arrives
/// with the answer to the retransmission, and the wait for the timer would be measured as round-trip time. `soonest` is
/// half of the smallest round-trip time, since a segment that is alone on the path may return sooner than any before.
/// It is `None` if a D-SACK block shows that the last transmission is what the peer answers.
fn since_echoed(
    now: Instant,
    delivered: &Acked,
    echo: u32,
    soonest: Option<Duration>,
) -> Option<Duration> {
    let (sent_at, ..) = delivered.newest?;
    let since_last = now.since(sent_at);
    if sent_at.as_millis() as u32 == echo {
        return Some(since_last);
    }
    let ticks = (now.as_millis() as u32).wrapping_sub(echo);
    let elapsed = Duration::from_millis(u64::from(ticks));
    let unanswered = since_last < soonest?;
    (unanswered && ticks > 0 && elapsed <= OLDEST_ECHO).then_some(elapsed)
}

#[inline(never)] // only with SACK blocks
fn merge(mut into: Acked, more: Acked) -> Acked {
    into.bytes += more.bytes;
    into.original |= more.original;
    into.retransmitted |= more.retransmitted;
    into.clean_sent_at = into.clean_sent_at.max(more.clean_sent_at);
    into.newest = match (into.newest, more.newest) {
        (Some(a), Some(b)) => Some(if (a.0, a.1) < (b.0, b.1) { b } else { a }),
        (a, b) => a.or(b),
    };
    into
}

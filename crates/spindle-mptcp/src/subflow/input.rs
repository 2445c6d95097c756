//! Processing of arriving segments at the subflow (RFC 9293, section 3.10.7, with RFC 5961 and RFC 7323).

use spindle_units::{Duration, Instant};
use spindle_wire::{Ecn, Flags, Segment, Timestamps};

use super::parts::{ChallengeLimit, TimestampState};
use super::path_entropy::PathEvent;
use super::receiver::{Pieces, part};
use super::sender::{AckEffect, AckInput};
use super::{Subflow, TcpState};
use crate::congestion::Coupling;
use crate::tcp_config::EcnMode;
use crate::types::{DataOffset, SubflowPosition};

/// The effects of a segment on the subflow.
#[derive(Debug, Default)]
pub(crate) struct Arrival {
    /// It passed the checks, so its acknowledgement and data are processed.
    pub(crate) acceptable: bool,
    /// It begins in the announced window, and its acknowledgement number is in the range of RFC 5961,
    /// section 5.2. Its sender therefore knows the connection, and its signals are processed, too.
    pub(crate) in_true_window: bool,
    /// It completed the three-way handshake.
    pub(crate) established: bool,
    /// The peer reset the subflow.
    pub(crate) reset: bool,
    /// The effect of its acknowledgement.
    pub(crate) ack: AckEffect,
    /// Payload received for the first time.
    pub(crate) pieces: Pieces,
    /// It carried payload, new or not, and the payload is data.
    pub(crate) had_data: bool,
    /// The end of its payload was not accepted because it lies beyond the window or because there was no room.
    cut: bool,
    /// Its payload was a parity of a block and is not part of any piece.
    pub(crate) parity: bool,
    /// The peer's FIN is now in order.
    pub(crate) fin: bool,
    /// The window it announced, in bytes.
    pub(crate) window: u64,
}

/// The connection's state that a subflow needs to process a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InputContext {
    pub(crate) now: Instant,
    /// The connection has data that were never sent.
    pub(crate) new_data: bool,
    /// Transmission opportunities of the connection so far.
    pub(crate) opportunities: u64,
    /// The receive window belongs to the data level. Windows in segments do not describe this subflow.
    pub(crate) data_level_window: bool,
    /// More payload may be stored.
    pub(crate) room: bool,
    /// The data offset up to which the data level is acknowledged, including this segment. [`DataOffset::MAX`]
    /// if the caller does not need the later data.
    pub(crate) data_acked: DataOffset,
    /// No data are accepted, not even the next in-order data.
    pub(crate) refuses: bool,
}

/// A dead path that was silent for this long is treated as a new path when it answers. RFC 6298, rule 2.1, uses
/// a timeout of one second if nothing is known about a path.
const OUTAGE: Duration = Duration::from_secs(1);

impl Subflow {
    /// Processes a segment from the peer. Sets `reset_due` if the peer must be answered with an RST.
    pub(crate) fn on_segment(
        &mut self,
        seg: &Segment,
        cx: InputContext,
        coupling: &mut Coupling,
        reset_due: &mut bool,
    ) -> Arrival {
        match self.state {
            TcpState::Closed => Arrival::default(),
            TcpState::SynSent => self.in_syn_sent(seg, cx, coupling, reset_due),
            _ => self.synchronized(seg, cx, coupling, reset_due),
        }
    }

    #[cold] // the handshake
    fn in_syn_sent(
        &mut self,
        seg: &Segment,
        cx: InputContext,
        coupling: &mut Coupling,
        reset_due: &mut bool,
    ) -> Arrival {
        let mut out = Arrival::default();
        let acks = seg.flags.contains(Flags::ACK);
        if acks && seg.ack != self.isn.iss + 1 {
            *reset_due = !seg.flags.contains(Flags::RST);
            return out;
        }
        if seg.flags.contains(Flags::RST) {
            if acks {
                self.state = TcpState::Closed;
                out.reset = true;
            }
            return out;
        }
        if !seg.flags.contains(Flags::SYN) {
            return out;
        }
        self.isn.irs = seg.seq;
        self.activity.last_heard = cx.now;
        self.rx.established();
        self.negotiate(seg, cx.now);
        if acks {
            self.complete_handshake(seg, cx.now, coupling);
            self.rx.ack_now = true;
            out.established = true;
            self.peer_window.current = u64::from(seg.window);
            self.peer_window.largest = self.peer_window.current;
            self.tx
                .on_window(SubflowPosition::FIRST_BYTE, self.peer_window.current);
            out.window = self.peer_window.current;
            self.peer_window.from = (SubflowPosition::SYN, SubflowPosition::FIRST_BYTE);
        } else {
            // Simultaneous open.
            self.state = TcpState::SynReceived;
            self.due.syn = true;
        }
        out.acceptable = true;
        out
    }

    /// Applies the options of the peer's SYN or SYN/ACK.
    pub(crate) fn negotiate(&mut self, seg: &Segment, now: Instant) {
        let t = &self.config.tcp;
        let none = Default::default();
        let rare = seg.options.rare.as_deref().unwrap_or(&none);
        // RFC 9293, section 3.7.1: without the option, 536 for IPv4 and 1220 for IPv6.
        let default_mss = if self.local.addr.is_ipv4() { 536 } else { 1220 };
        // A peer's MSS is respected down to 64 (Linux: `tcp_min_snd_mss`, 48). Even links with the smallest MTU
        // used in practice carry that. `Sender::is_full` bounds the cost of segments that small.
        let mss = rare
            .mss
            .map_or(default_mss, u32::from)
            .clamp(64, t.mss.max(64))
            .min(t.mss);
        self.scales.negotiated = t.window_scaling && rare.window_scale.is_some();
        self.scales.send = if self.scales.negotiated {
            rare.window_scale.unwrap_or(0).min(14)
        } else {
            0
        };
        if !self.scales.negotiated {
            self.scales.receive = 0;
        }
        self.tx.sack = t.sack && rare.sack_permitted;
        self.timestamps.state = match seg.options.timestamps {
            Some(ts) if t.timestamps => Some(TimestampState {
                recent: ts.value,
                recent_at: now,
            }),
            _ => None,
        };
        let syn_ack = seg.flags.contains(Flags::ACK);
        let peer_ecn =
            seg.flags.contains(Flags::ECE) && (syn_ack || seg.flags.contains(Flags::CWR));
        self.tx.ecn = t.ecn != EcnMode::Off && peer_ecn;
        let options = if self.timestamps.state.is_some() {
            12
        } else {
            0
        };
        self.segment.agreed = u64::from(mss);
        let sizes = (u64::from(mss) - options, u64::from(mss));
        self.tx.set_mss(sizes, self.id.number(), self.planned);
        self.watch_path();
        self.apply_path_mtu(now);
    }

    /// Subtracts room for MPTCP's options from the segment size.
    pub(crate) fn reserve_options(&mut self, bytes: u64) {
        let mss = self.tx.agreed_mss().saturating_sub(bytes).max(1);
        let sizes = (mss, self.segment.agreed);
        self.tx.set_mss(sizes, self.id.number(), self.planned);
        self.watch_path();
        self.apply_path_mtu(self.activity.last_heard);
    }

    /// The peer's `seg` acknowledges our SYN or SYN/ACK. If that segment was sent more than once, the RTT is
    /// measured only if the echoed timestamp is that of the last transmission (RFC 6298, section 3).
    #[cold] // the handshake
    fn complete_handshake(&mut self, seg: &Segment, now: Instant, coupling: &mut Coupling) {
        self.state = TcpState::Established;
        let echo = self.timestamps.state.and(seg.options.timestamps);
        let names =
            |sent: Instant| echo.is_some_and(|ts| self.echoed(ts) == sent.as_millis() as u32);
        let sent = self.syn.sent_at;
        let rtt = sent
            .filter(|&sent| self.syn.tries == 1 || names(sent))
            .map(|sent| now.since(sent));
        self.syn.at = None;
        self.due.syn = false;
        self.tx.established(self.syn.tries, rtt, coupling);
    }

    fn synchronized(
        &mut self,
        seg: &Segment,
        cx: InputContext,
        coupling: &mut Coupling,
        reset_due: &mut bool,
    ) -> Arrival {
        let mut out = Arrival::default();
        if self.lacks_timestamp(seg) {
            return out;
        }
        let position = self.receive_position(seg.seq);
        if !self.passes_paws(seg, cx.now) || !self.in_window(seg, position, cx) {
            self.refuse(seg, position, cx.now);
            return out;
        }
        if seg.flags.contains(Flags::RST) {
            self.on_rst(position, cx.now, &mut out);
            return out;
        }
        if seg.flags.contains(Flags::SYN) && !self.takes_late_syn(seg, position, cx.now) {
            return out;
        }
        if !seg.flags.contains(Flags::ACK) {
            return out;
        }
        if !self.check_ack(seg, cx, coupling, reset_due, &mut out) {
            return out;
        }
        out.acceptable = true;
        let announced = self.announced_to.max(self.rx.nxt).signed();
        out.in_true_window = position <= announced;
        self.activity.silence = cx.now.since(self.activity.last_heard);
        self.activity.last_heard = cx.now;
        self.activity.keepalive_probes = 0;
        self.note_timestamp(seg, position, cx.now);
        self.take_acknowledgement(seg, position, cx, coupling, &mut out);
        self.take_text(seg, position, cx, &mut out);
        self.take_fin(seg, position, cx.now, &mut out);
        out
    }

    /// Handles a SYN that arrives while our SYN is in flight or after the handshake. Returns whether its
    /// acknowledgement must be processed.
    #[cold] // the handshake
    fn takes_late_syn(&mut self, seg: &Segment, position: i64, now: Instant) -> bool {
        let repeated_syn = self.state == TcpState::SynReceived && position == 0;
        if repeated_syn {
            // The peer's timer cannot have expired if ours is far from it. Then the SYN is a copy, and so is the answer.
            let half = self.tx.rtt.rto() / 2;
            let is_copy = self.syn.sent_at.is_some_and(|t| now.since(t) < half);
            // Linux: `TCPACKSkippedSynRecv`. Our own timer retransmits the answer, too.
            if self.answers.probes.admit(now, ChallengeLimit::WINDOW) {
                self.syn.copy_due = is_copy && !self.due.syn;
                self.due.syn = true;
            }
            if !is_copy {
                self.note_path_event(now, PathEvent::DuplicateSyn);
            }
        } else {
            self.challenge(now);
        }
        // A SYN/ACK in answer to our SYN/ACK of a simultaneous open acknowledges our SYN/ACK.
        if !(repeated_syn && seg.flags.contains(Flags::ACK)) {
            return false;
        }
        self.due.syn = false;
        true
    }

    /// Whether a SYN that arrives in TIME_WAIT cannot be an old one, according to its timestamp or else its
    /// sequence number (RFC 6191, section 2).
    pub(crate) fn is_newer_connection(&self, syn: &Segment) -> bool {
        let beyond = self.receive_position(syn.seq) > self.rx.nxt.signed();
        match (self.timestamps.state, syn.options.timestamps) {
            (Some(last), Some(new)) => {
                let advance = new.value.wrapping_sub(last.recent) as i32;
                advance > 0 || advance == 0 && beyond
            }
            (None, Some(_)) if self.config.tcp.timestamps => true,
            _ => beyond,
        }
    }

    /// Whether timestamps were negotiated but this segment lacks the required one. Such a segment is dropped
    /// (RFC 7323, section 3.2).
    fn lacks_timestamp(&self, seg: &Segment) -> bool {
        self.timestamps.state.is_some()
            && seg.options.timestamps.is_none()
            && !seg.flags.intersects(Flags::RST | Flags::SYN)
    }

    /// RFC 7323, section 5.3.
    fn passes_paws(&self, seg: &Segment, now: Instant) -> bool {
        let (Some(state), Some(ts)) = (self.timestamps.state, seg.options.timestamps) else {
            return true;
        };
        if seg.flags.intersects(Flags::RST | Flags::SYN) {
            return true;
        }
        // 24 days: after that time a timestamp clock of 1 ms wraps its sign (RFC 7323, section 5.5).
        let stale = now.since(state.recent_at) > spindle_units::Duration::from_secs(24 * 86_400);
        stale || (ts.value.wrapping_sub(state.recent) as i32) >= 0
    }

    /// RFC 9293, section 3.10.7.4, first check.
    fn in_window(&self, seg: &Segment, position: i64, cx: InputContext) -> bool {
        let nxt = self.rx.nxt.signed();
        let window = self.receive_window(cx.data_level_window) as i64;
        // A FIN in its place needs no buffer, so it is acceptable even if the window is closed.
        let lone_fin = seg.payload.is_empty() && seg.flags.contains(Flags::FIN) && position == nxt;
        let len = i64::from(seg.seq_len());
        let syn_again = self.state == TcpState::SynReceived && seg.flags.contains(Flags::SYN);
        if lone_fin || syn_again && position == 0 {
            return true;
        }
        if len == 0 {
            // Copies of data take subflow sequence space that the data-level window does not include. An ACK
            // after such copies must be processed, otherwise two such ends wait for each other indefinitely.
            // 2^30 is TCP's largest window (RFC 7323, section 2.3). A reset must still match exactly, and
            // signals are processed only inside the window.
            let ahead = if cx.data_level_window {
                1 << 30
            } else {
                window
            };
            return position >= nxt && position <= nxt + ahead;
        }
        position < nxt + window && position + len > nxt
    }

    /// Answers an unacceptable segment with an acknowledgement, unless it is a reset.
    #[cold] // an unacceptable segment
    fn refuse(&mut self, seg: &Segment, position: i64, now: Instant) {
        if seg.flags.contains(Flags::RST)
            || self.state == TcpState::SynReceived
                && !seg.flags.contains(Flags::SYN)
                && seg.payload.is_empty()
        {
            return;
        }
        let len = seg.payload.len() as i64;
        let old_data = len > 0 && position >= 1 && position + len <= self.rx.nxt.signed();
        if old_data {
            // An unnecessary retransmission, reported by D-SACK.
            let _ = self.rx.accept(
                SubflowPosition::wrapping_from_signed(position),
                &seg.payload,
            );
            if seg.flags.contains(Flags::CWR) && self.config.tcp.ecn == EcnMode::Classic {
                self.rx.ece = false;
            }
            self.note_path_event(now, PathEvent::DuplicateData);
        } else if seg.seq_len() == 0 && position + 1 == self.rx.nxt.signed() {
            // A window probe or keepalive probe (RFC 9293, sections 3.8.4 and 3.8.6.1). Two ends that are one
            // byte apart take each other's answers for probes. The limit ends this loop.
            self.rx.ack_now |= self
                .answers
                .probes
                .admit(now, ChallengeLimit::PROBES_WINDOW);
        } else if seg.seq_len() > 0 || position < self.rx.nxt.signed() {
            self.challenge(now);
        }
        if self.state == TcpState::TimeWait && seg.flags.contains(Flags::FIN) {
            // A repeated FIN restarts the wait (RFC 9293, section 3.10.7.4).
            self.over_at = Some(now + self.config.tcp.msl * 2);
        }
    }

    /// Whether a segment that the handshake cannot accept may be answered with a reset now.
    #[cold] // a reset
    pub(crate) fn may_reset(&mut self, now: Instant) -> bool {
        self.answers.probes.admit(now, ChallengeLimit::WINDOW)
    }

    /// RFC 5961, section 3.2.
    #[cold] // a reset
    fn on_rst(&mut self, position: i64, now: Instant, out: &mut Arrival) {
        if position == self.rx.nxt.signed() {
            self.state = TcpState::Closed;
            out.reset = true;
        } else {
            self.challenge(now);
        }
    }

    #[cold] // an unacceptable segment
    fn challenge(&mut self, now: Instant) {
        if self.answers.challenges.admit(now, ChallengeLimit::WINDOW) {
            self.due.challenge = true;
        }
    }

    /// RFC 9293, section 3.10.7.4, fifth check, with RFC 5961, section 5.2.
    fn check_ack(
        &mut self,
        seg: &Segment,
        cx: InputContext,
        coupling: &mut Coupling,
        reset_due: &mut bool,
        out: &mut Arrival,
    ) -> bool {
        if self.state == TcpState::SynReceived {
            *reset_due = !self.takes_third_ack(seg, cx.now, coupling);
            out.established = !*reset_due;
            if *reset_due {
                return false;
            }
        }
        let ack = self.send_position(seg.ack);
        if ack > self.tx.nxt.signed() {
            self.challenge(cx.now);
            return false;
        }
        if ack < self.tx.una.signed() - self.peer_window.largest as i64 {
            self.challenge(cx.now);
            return false;
        }
        true
    }

    /// In SYN_RECEIVED: completes the handshake if `seg` acknowledges our SYN. Returns whether it does.
    #[cold] // the handshake
    fn takes_third_ack(&mut self, seg: &Segment, now: Instant, coupling: &mut Coupling) -> bool {
        if self.send_position(seg.ack) != SubflowPosition::FIRST_BYTE.signed() {
            return false;
        }
        self.complete_handshake(seg, now, coupling);
        self.peer_window.current = self.scaled(seg);
        self.peer_window.largest = self.peer_window.current;
        self.tx
            .on_window(SubflowPosition::FIRST_BYTE, self.peer_window.current);
        self.peer_window.from = (SubflowPosition::SYN, SubflowPosition::FIRST_BYTE);
        true
    }

    /// The window that a segment announces, in bytes.
    pub(crate) fn window_of(&self, seg: &Segment) -> u64 {
        self.scaled(seg)
    }

    fn scaled(&self, seg: &Segment) -> u64 {
        let shift = if seg.flags.contains(Flags::SYN) {
            0
        } else {
            self.scales.send
        };
        u64::from(seg.window) << shift
    }

    /// RFC 7323, section 4.3.
    fn note_timestamp(&mut self, seg: &Segment, position: i64, now: Instant) {
        if let (Some(state), Some(ts)) = (&mut self.timestamps.state, seg.options.timestamps)
            && position <= self.last_ack_sent.signed()
            && (ts.value.wrapping_sub(state.recent) as i32) >= 0
        {
            *state = TimestampState {
                recent: ts.value,
                recent_at: now,
            };
        }
    }

    fn take_acknowledgement(
        &mut self,
        seg: &Segment,
        position: i64,
        cx: InputContext,
        coupling: &mut Coupling,
        out: &mut Arrival,
    ) {
        let ack = SubflowPosition::from_signed(self.send_position(seg.ack)).unwrap_or_default();
        let window = self.scaled(seg);
        out.window = window;
        let same_window = cx.data_level_window || window == self.peer_window.current;
        let from = (
            SubflowPosition::from_signed(position).unwrap_or_default(),
            ack,
        );
        if ack >= self.tx.una
            && (from.0 > self.peer_window.from.0
                || from.0 == self.peer_window.from.0 && from.1 >= self.peer_window.from.1)
        {
            self.peer_window.current = window;
            self.peer_window.largest = self.peer_window.largest.max(window);
            self.peer_window.from = from;
        }
        if self.tx.on_window(ack, window) {
            self.persist.at = None;
            self.persist.tries = 0;
        }
        let mut sacks = [Default::default(); 4];
        let (count, dsack) = match self.tx.sack && !seg.options.sack.is_empty() {
            true => self.sack_positions(seg, ack, &mut sacks),
            false => (0, None),
        };
        // Segments with MPTCP signals other than DSS are not duplicate ACKs (RFC 8684, section 3).
        let repeats = ack == self.tx.una
            && seg.seq_len() == 0
            && same_window
            && seg.options.rare.is_none()
            && !self.tx.board.is_empty();
        let input = AckInput {
            ack: ack.max(self.tx.una),
            data_acked: cx.data_acked,
            sacks: &sacks[..count],
            dsack,
            repeats,
            ece: seg.flags.contains(Flags::ECE),
            exact_echo: self.config.tcp.ecn == EcnMode::Dctcp,
            new_data: cx.new_data,
            opportunities: cx.opportunities,
            echo: self
                .timestamps
                .state
                .and(seg.options.timestamps)
                .map(|ts| self.echoed(ts)),
        };
        out.ack = self.tx.on_ack(cx.now, &input, coupling);
        if self.entropy.is_some() {
            self.note_deliveries(cx.now, &sacks[..count], seg.flags.contains(Flags::ECE));
        }
        if out.ack.acked > 0 {
            if self.dead && self.activity.silence >= OUTAGE {
                self.tx.cc.on_return();
            }
            self.dead = false;
            self.after_ack(cx.now);
        }
    }

    /// Updates the state in case our FIN was acknowledged.
    fn after_ack(&mut self, now: Instant) {
        let all = self.tx.una == self.tx.nxt;
        match self.state {
            TcpState::FinWait1 if all => {
                self.state = TcpState::FinWait2;
            }
            TcpState::Closing if all => self.enter_time_wait(now),
            TcpState::LastAck if all => self.state = TcpState::Closed,
            _ => {}
        }
    }

    #[cold] // the end of a subflow
    pub(crate) fn enter_time_wait(&mut self, now: Instant) {
        self.state = TcpState::TimeWait;
        self.over_at = Some(now + self.config.tcp.msl * 2);
    }

    /// Puts the SACK blocks into `sacks` as positions. Returns their number, and the D-SACK block if the first
    /// block is one (RFC 2883, section 4).
    #[inline(never)] // only with SACK blocks
    fn sack_positions(
        &self,
        seg: &Segment,
        ack: SubflowPosition,
        sacks: &mut [(SubflowPosition, SubflowPosition); 4],
    ) -> (usize, Option<(SubflowPosition, SubflowPosition)>) {
        let mut count = 0;
        let mut dsack = None;
        let blocks = seg.options.sack.as_slice();
        for (i, &(left, right)) in blocks.iter().enumerate() {
            let (l, r) = (self.send_position(left), self.send_position(right));
            if l < 1 || r <= l || r > self.tx.nxt.signed() {
                continue;
            }
            let block = (
                SubflowPosition::wrapping_from_signed(l),
                SubflowPosition::wrapping_from_signed(r),
            );
            let inside_next = i == 0
                && blocks.get(1).is_some_and(|&(nl, nr)| {
                    self.send_position(nl) <= l && r <= self.send_position(nr)
                });
            if i == 0 && (block.1 <= ack.max(SubflowPosition::FIRST_BYTE) || inside_next) {
                dsack = Some(block);
            } else if block.1 > ack {
                sacks[count] = block;
                count += 1;
            }
        }
        (count, dsack)
    }

    fn take_text(&mut self, seg: &Segment, position: i64, cx: InputContext, out: &mut Arrival) {
        if seg.payload.is_empty() || !self.state.may_receive() {
            return;
        }
        out.had_data = true;
        if self.tx.ecn {
            self.echo_congestion(seg);
        }
        if let Some(ts) = seg.options.timestamps
            && self.config.tcp.autotune
            && ts.echo != 0
        {
            let echoed = self.echoed(ts);
            self.rx.measure_rtt(cx.now.as_millis() as u32, echoed);
        }
        // The bytes from the first expected byte to the edge of the window.
        let skip = (self.rx.nxt.signed() - position)
            .max(0)
            .min(seg.payload.len() as i64) as u64;
        let start = SubflowPosition::wrapping_from_signed(position + skip as i64);
        let edge = self.rx.nxt + self.receive_window(cx.data_level_window);
        let len = (seg.payload.len() as u64 - skip).min(edge.saturating_since(start));
        let in_order = start == self.rx.nxt;
        if cx.refuses || (!cx.room && !in_order) {
            out.cut = true;
            self.rx.ack_now = true;
            return;
        }
        let text = part(&seg.payload, skip as usize, len as usize);
        out.cut = len + skip < seg.payload.len() as u64;
        let holes = self.rx.holes_end();
        out.pieces = self.rx.accept(start, &text);
        if holes.is_some() || self.rx.holes_end().is_some() {
            let fills = holes.is_some_and(|end| start < end) && !out.pieces.is_empty();
            self.rx.watch_holes(cx.now, fills, self.tx.srtt());
        }
        if self.entropy.is_some() && !text.is_empty() {
            let event = match out.pieces.is_empty() {
                true => PathEvent::DuplicateData,
                false => PathEvent::NewData,
            };
            self.note_path_event(cx.now, event);
        }
        self.rx.schedule_ack(cx.now, self.config.tcp.delayed_ack);
    }

    /// The receiver's part of ECN: RFC 3168, section 6.1.3, or RFC 8257, section 3.2.
    #[inline(never)] // only with ECN
    fn echo_congestion(&mut self, seg: &Segment) {
        let ce = seg.ecn == Ecn::Ce;
        match self.config.tcp.ecn {
            EcnMode::Off => {}
            EcnMode::Classic => {
                if seg.flags.contains(Flags::CWR) {
                    self.rx.ece = false;
                }
                self.rx.ece |= ce;
            }
            EcnMode::Dctcp => {
                if ce != self.rx.ece {
                    self.rx.ack_now = true;
                }
                self.rx.ece = ce;
            }
        }
    }

    #[inline]
    fn take_fin(&mut self, seg: &Segment, position: i64, now: Instant, out: &mut Arrival) {
        if seg.flags.contains(Flags::FIN) || self.rx.knows_fin() {
            self.note_fin(seg, position, now, out);
        }
    }

    #[inline(never)] // the end of a subflow
    fn note_fin(&mut self, seg: &Segment, position: i64, now: Instant, out: &mut Arrival) {
        let before = self.rx.fin_reached();
        // If the window cut off the end of the payload, it cut off the FIN, too.
        if seg.flags.contains(Flags::FIN) && self.state.is_synchronized() && !out.cut {
            let fin = position + seg.payload.len() as i64;
            if fin >= self.rx.nxt.signed() {
                self.rx
                    .accept_fin(SubflowPosition::wrapping_from_signed(fin));
            }
        }
        self.rx.advance_over_fin();
        if before || !self.rx.fin_reached() {
            return;
        }
        out.fin = true;
        self.rx.ack_now = true;
        match self.state {
            TcpState::SynReceived | TcpState::Established => self.state = TcpState::CloseWait,
            TcpState::FinWait1 => self.state = TcpState::Closing,
            TcpState::FinWait2 => self.enter_time_wait(now),
            _ => {}
        }
    }

    /// Our clock, in ms, when the segment was sent whose timestamp the peer echoes.
    fn echoed(&self, timestamps: Timestamps) -> u32 {
        timestamps.echo.wrapping_sub(self.timestamps.offset)
    }

    /// The timestamps option of an outgoing segment. The clock ticks every 1 ms (RFC 7323, section 5.4) and
    /// starts at the subflow's own offset.
    pub(crate) fn timestamps_now(&self, now: Instant, syn: bool) -> Option<Timestamps> {
        let value = (now.as_millis() as u32).wrapping_add(self.timestamps.offset);
        match self.timestamps.state {
            Some(state) => Some(Timestamps {
                value,
                echo: state.recent,
            }),
            None if syn && self.config.tcp.timestamps && self.state == TcpState::SynSent => {
                Some(Timestamps { value, echo: 0 })
            }
            None => None,
        }
    }
}

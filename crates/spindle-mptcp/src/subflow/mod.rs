//! A subflow: a separate TCP connection (RFC 9293) with its own sequence space, windows, loss recovery and
//! timers. The connection decides what the subflow's bytes mean at the data level.

pub(crate) mod input;
pub(crate) mod loss;
pub(crate) mod output;
mod parts;
mod path_entropy;
pub(crate) mod receiver;
pub(crate) mod rtt;
pub(crate) mod scoreboard;
pub(crate) mod sender;

use std::sync::Arc;

use spindle_units::{Instant, prefetch};
use spindle_wire::{Endpoint, Flags, Segment, SeqNumber};

use crate::config::Config;
use crate::congestion::Coupling;
use crate::stage::{Stage, StageContext};
use crate::types::{SubflowId, SubflowPosition, or_far_future};
use parts::{
    AddressIds, AnswerLimits, Backup, ControlDue, InitialSequenceNumbers, LargestSegment,
    PeerActivity, PeerWindow, PersistTimer, Scheduling, SynTimer, Timestamps, WindowScales,
};
use path_entropy::{PathEntropy, PathEvent};
use receiver::Receiver;
use sender::Sender;

/// The states of RFC 9293, section 3.3.2. The stack itself represents LISTEN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpState {
    /// A SYN has been sent.
    SynSent,
    /// A SYN has been received and answered.
    SynReceived,
    /// Data may flow in both directions.
    Established,
    /// We have closed. Our FIN is not acknowledged yet.
    FinWait1,
    /// We have closed. Our FIN is acknowledged.
    FinWait2,
    /// The peer has closed.
    CloseWait,
    /// Both ends have closed at the same time. Our FIN is not acknowledged yet.
    Closing,
    /// The peer closed first, then we did. Our FIN is not acknowledged yet.
    LastAck,
    /// Both ends have closed. Old segments may still be in the network.
    TimeWait,
    /// The subflow has ended.
    Closed,
}

impl TcpState {
    /// Whether both ends have received each other's SYN.
    pub fn is_synchronized(self) -> bool {
        !matches!(self, Self::SynSent | Self::SynReceived | Self::Closed)
    }

    /// Whether we may still send data.
    pub fn may_send(self) -> bool {
        matches!(self, Self::Established | Self::CloseWait)
    }

    /// Whether data may still arrive.
    pub fn may_receive(self) -> bool {
        matches!(self, Self::Established | Self::FinWait1 | Self::FinWait2)
    }
}

/// How a subflow was created, and which part of the MPTCP handshake is still open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The connection's first subflow.
    Initial,
    /// The subflow joined an existing connection (RFC 8684, section 3.2).
    Join(JoinState),
}

/// State of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JoinState {
    pub(crate) nonce_local: u32,
    pub(crate) nonce_remote: u32,
    /// The server does not know the peer's key yet, which its answer needs.
    pub(crate) awaits_key: bool,
    /// The joining client has sent its third ACK and waits for the fourth ACK.
    pub(crate) awaits_fourth: bool,
    /// When the third ACK is retransmitted.
    pub(crate) repeat_at: Option<Instant>,
    pub(crate) repeats: u32,
}

/// Which of a subflow's timers expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Nothing,
    /// The SYN or SYN/ACK must be retransmitted.
    Syn,
    /// All SYN retransmissions are used up.
    SynFailed,
    /// The retransmission timer expired, and the sender has processed it.
    Rto,
    /// A tail loss probe must be sent.
    Probe,
    /// TIME_WAIT has ended.
    Over,
    /// The peer does not answer keepalive probes.
    KeepaliveFailed,
}

/// A subflow.
#[derive(Debug)]
pub(crate) struct Subflow {
    pub(crate) id: SubflowId,
    pub(crate) local: Endpoint,
    pub(crate) remote: Endpoint,
    pub(crate) state: TcpState,
    pub(crate) origin: Origin,
    pub(crate) config: Arc<Config>,
    pub(crate) tx: Sender,
    pub(crate) rx: Receiver,
    pub(crate) stage: Option<Box<dyn Stage>>,
    /// The policy that labels its segments, if one is configured.
    entropy: Option<Box<PathEntropy>>,
    isn: InitialSequenceNumbers,
    planned: usize,
    segment: LargestSegment,
    scales: WindowScales,
    pub(crate) peer_window: PeerWindow,
    /// Right edge of the window that we announced, as a position.
    pub(crate) announced_to: SubflowPosition,
    timestamps: Timestamps,
    last_ack_sent: SubflowPosition,
    /// Control segments that must be sent.
    pub(crate) due: ControlDue,
    persist: PersistTimer,
    pub(crate) syn: SynTimer,
    /// We want to close: a FIN follows all data.
    pub(crate) closing: bool,
    pub(crate) over_at: Option<Instant>,
    answers: AnswerLimits,
    /// The application has been notified of this subflow.
    pub(crate) reported_established: bool,
    pub(crate) activity: PeerActivity,
    pub(crate) backup: Backup,
    pub(crate) address_ids: AddressIds,
    /// Its data have been reinjected. No new data are sent here until it makes progress.
    pub(crate) dead: bool,
    pub(crate) scheduling: Scheduling,
}

/// Initial numbers of a subflow. An attacker who does not see its segments cannot guess them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InitialNumbers {
    /// The initial sequence number.
    pub(crate) sequence: SeqNumber,
    /// Offset of its timestamps from the host's clock.
    pub(crate) timestamp_offset: u32,
}

/// Parameters of a new subflow.
pub(crate) struct NewSubflow {
    pub(crate) id: SubflowId,
    pub(crate) local: Endpoint,
    pub(crate) remote: Endpoint,
    pub(crate) origin: Origin,
    pub(crate) initial: InitialNumbers,
    pub(crate) planned: usize,
}

impl Subflow {
    /// Creates a subflow that is about to send its SYN (`peer_isn` is `None`) or its SYN/ACK.
    pub(crate) fn new(
        now: Instant,
        config: &Arc<Config>,
        n: NewSubflow,
        peer_isn: Option<SeqNumber>,
    ) -> Self {
        let mut rx = Receiver::default();
        rx.segment = config.tcp.mss as usize;
        if peer_isn.is_some() {
            rx.established();
        }
        let buffer = config.tcp.receive_buffer as u64;
        let receive_scale = (0..14)
            .find(|s| buffer >> s <= u64::from(u16::MAX))
            .unwrap_or(14);
        let stage = config.stage.as_ref().map(|f| f.build(n.id));
        let entropy = PathEntropy::new(config, n.id, (n.local, n.remote), n.initial);
        Self {
            id: n.id,
            local: n.local,
            remote: n.remote,
            state: if peer_isn.is_some() {
                TcpState::SynReceived
            } else {
                TcpState::SynSent
            },
            origin: n.origin,
            tx: Sender::new(config.clone(), n.id.number(), n.planned),
            rx,
            stage,
            entropy,
            isn: InitialSequenceNumbers {
                iss: n.initial.sequence,
                irs: peer_isn.unwrap_or_default(),
            },
            planned: n.planned,
            segment: LargestSegment {
                agreed: u64::from(config.tcp.mss),
                path: None,
            },
            scales: WindowScales {
                receive: receive_scale,
                ..WindowScales::default()
            },
            peer_window: PeerWindow::default(),
            announced_to: SubflowPosition::SYN,
            timestamps: Timestamps {
                state: None,
                offset: n.initial.timestamp_offset,
            },
            last_ack_sent: SubflowPosition::SYN,
            due: ControlDue {
                syn: true,
                ..ControlDue::default()
            },
            persist: PersistTimer::default(),
            syn: SynTimer::default(),
            closing: false,
            over_at: None,
            answers: AnswerLimits::default(),
            reported_established: false,
            activity: PeerActivity::new(now),
            backup: Backup::default(),
            address_ids: AddressIds::default(),
            dead: false,
            scheduling: Scheduling::default(),
            config: config.clone(),
        }
    }

    /// From now on the subflow uses this configuration, with its own congestion control and loss detection. Its
    /// congestion control is not coupled with that of any other subflow. Must be called before the subflow has
    /// sent data.
    pub(crate) fn adopt(&mut self, config: Arc<Config>) {
        self.config = config.clone();
        self.tx.adopt(config);
    }

    /// Like [`Self::adopt`], but keeps the current congestion control.
    pub(crate) fn keep_to(&mut self, config: Arc<Config>) {
        self.config = config.clone();
        self.tx.keep_to(config);
    }

    /// Payload bytes that were received in order.
    pub(crate) fn bytes_received(&self) -> u64 {
        let positions = self.rx.nxt.saturating_since(SubflowPosition::FIRST_BYTE);
        positions.saturating_sub(u64::from(self.rx.fin_reached()))
    }

    /// The peer's data that were received in order, in full segments.
    pub(crate) fn received_segments(&self) -> u64 {
        let positions = self.rx.nxt.saturating_since(SubflowPosition::FIRST_BYTE);
        positions.div_ceil(self.tx.mss.max(1))
    }

    /// Holds the first SYN back until `until`, if that is in the future.
    pub(crate) fn hold_syn(&mut self, now: Instant, until: Instant) {
        if until > now {
            self.due.syn = false;
            self.syn.at = Some(until);
        }
    }

    /// Whether the SYN or SYN/ACK is to be sent, and can be.
    #[inline]
    pub(crate) fn syn_is_due(&self) -> bool {
        self.due.syn && !matches!(self.origin, Origin::Join(j) if j.awaits_key)
    }

    /// Sends the first SYN twice at once.
    pub(crate) fn double_syn(&mut self) {
        self.syn.doubled = true;
    }

    /// Sends something at once, because the path may work again: outstanding data without the back-off of former
    /// timeouts, a SYN that is due later, or a probe.
    pub(crate) fn retry_now(&mut self, now: Instant) {
        if self.state == TcpState::SynSent {
            self.syn.at = self.syn.at.map(|at| at.min(now));
            self.syn.tries = self.syn.tries.min(self.config.tcp.syn_retries);
        } else if self.state.is_synchronized() && self.state != TcpState::TimeWait {
            self.persist.tries = 0;
            self.due.probe |= !self.tx.retry_now(now);
        }
    }

    /// Whether `seg` is a SYN/ACK that acknowledges the subflow's SYN (RFC 9293, section 3.10.7.3).
    pub(crate) fn is_answered_by(&self, seg: &Segment) -> bool {
        let flags = Flags::SYN | Flags::ACK;
        self.state == TcpState::SynSent
            && seg.flags.contains(flags)
            && !seg.flags.contains(Flags::RST)
            && seg.ack == self.seq(SubflowPosition::FIRST_BYTE)
    }

    /// Exchanges the identifier, and the place in the coupling of congestion windows that belongs to it, with a subflow
    /// that is not established either.
    pub(crate) fn exchange_id(&mut self, other: &mut Self) {
        std::mem::swap(&mut self.id, &mut other.id);
        self.tx.exchange_place(&mut other.tx);
    }

    /// The subflow, which is not established, gets the identifier of the first subflow, which no longer exists.
    pub(crate) fn become_first(&mut self) {
        self.id = SubflowId::FIRST;
        self.tx.take_place(SubflowId::FIRST.number());
    }

    /// Prefetches memory that the subflow points to and that processing a segment will need.
    #[inline]
    pub(crate) fn prefetch(&self) {
        prefetch(&*self.tx.cc);
        let board = &self.tx.board;
        [board.front(), board.back()]
            .into_iter()
            .flatten()
            .for_each(prefetch);
        self.rx.prefetch();
    }

    /// Number of iterations of the loops whose length the peer can increase.
    pub(crate) fn steps(&self) -> u64 {
        let stage = self.stage.as_ref().map_or(0, |s| s.steps());
        self.tx.board.steps.get() + self.rx.steps.get() + stage
    }

    /// Challenge ACKs granted so far.
    pub(crate) fn challenge_acks(&self) -> u64 {
        self.answers.challenges.total
    }

    /// The SYN/ACK was sent as a SYN cookie at an unknown time (RFC 4987), so no RTT is measured from it.
    pub(crate) fn answered_by_cookie(&mut self) {
        self.syn.sent_at = None;
    }

    /// Whether data may be sent here now: both directions are established, and the MPTCP handshake is complete.
    pub(crate) fn is_usable(&self) -> bool {
        let joined = match self.origin {
            Origin::Initial => true,
            Origin::Join(j) => !j.awaits_fourth,
        };
        self.state.may_send() && joined && !self.closing
    }

    /// Whether the peer's window on this subflow allows new data. It must have room for a full segment or for
    /// half of the largest window that the peer announced (RFC 9293, section 3.8.6.2.1). With `any` a single
    /// byte is enough.
    pub(crate) fn window_is_open(&self, any: bool) -> bool {
        let least = match any {
            true => 1,
            false => self.tx.mss.min(self.peer_window.largest / 2).max(1),
        };
        self.tx.window_room() >= least
    }

    /// The peer's window on this subflow holds back new data. Schedules a window probe if no outstanding
    /// segment will elicit an acknowledgement.
    pub(crate) fn await_window(&mut self, now: Instant) {
        if self.persist.at.is_none() && self.tx.board.is_empty() && !self.due.probe {
            let rto = self.tx.rtt.rto();
            let wait = rto * (1 << self.persist.tries.min(16));
            self.persist.at = Some(now + wait.min(self.config.tcp.max_rto.max(rto)));
        }
    }

    /// Whether the subflow is a backup at the request of either end.
    pub(crate) fn is_backup(&self) -> bool {
        self.backup.local || self.backup.remote
    }

    /// The path carries IP packets of `mtu` bytes. With `floor`, smaller values than every path must carry are
    /// not believed. For IPv6 that minimum is 1280 bytes (RFC 8200, section 5). For IPv4, RFC 791 would allow
    /// 68 bytes, but the minimum is 552 bytes as in Linux (`min_pmtu`), which protects against forged messages.
    pub(crate) fn set_path_mtu(&mut self, now: Instant, mtu: u32, floor: bool) {
        let (header, least) = if self.local.addr.is_ipv4() {
            (20, 552)
        } else {
            (40, 1280)
        };
        // A TCP header without options: 20 bytes.
        let mtu = if floor { mtu.max(least) } else { mtu };
        self.segment.path = Some(mtu.saturating_sub(header + 20));
        self.apply_path_mtu(now);
    }

    /// Adapts the sender's segment size to the path after either of them changed.
    fn apply_path_mtu(&mut self, now: Instant) {
        let Some(path) = self.segment.path else {
            return;
        };
        let options = self.options_room();
        let mss = u64::from(path).saturating_sub(options).max(1);
        self.tx.limit_path_mss(now, mss);
    }

    /// Sets the two small segment sizes for black hole detection, now that the segment size is known. The first
    /// is the size that passes on nearly every path. The second is the size that no segment ever needs to be
    /// smaller than. Options are already subtracted from both. For IPv4 the sizes are `tcp_base_mss` and
    /// `min_pmtu` of Linux. IPv6 has no paths with less than 1280 bytes (RFC 8200, section 5).
    fn watch_path(&mut self) {
        let options = self.options_room();
        let (base, least) = match self.local.addr.is_ipv4() {
            true => (1024, 552 - 40 - options),
            false => (1220 - options, 1220 - options),
        };
        self.tx.watch_path(base, least);
    }

    /// Bytes subtracted from every segment for options.
    fn options_room(&self) -> u64 {
        self.segment.agreed.saturating_sub(self.tx.agreed_mss())
    }

    /// Wire sequence number of a position.
    pub(crate) fn seq(&self, position: SubflowPosition) -> SeqNumber {
        position.sequence_number(self.isn.iss)
    }

    /// The peer's sequence number at `position`.
    pub(crate) fn receive_number(&self, position: SubflowPosition) -> SeqNumber {
        position.sequence_number(self.isn.irs)
    }

    /// The sequence number expected next from the peer.
    pub(crate) fn expected(&self) -> SeqNumber {
        self.receive_number(self.rx.nxt)
    }

    /// Position of the peer's sequence number `seq`, which lies within 2^31 of the next expected one. It is
    /// negative if it lies before the SYN.
    pub(crate) fn receive_position(&self, seq: SeqNumber) -> i64 {
        self.rx.nxt.nearest_of(seq, self.isn.irs)
    }

    /// Position of an acknowledgement number, which lies within 2^31 of the lowest unacknowledged one. It is
    /// negative if it lies before the SYN.
    pub(crate) fn send_position(&self, ack: SeqNumber) -> i64 {
        self.tx.una.nearest_of(ack, self.isn.iss)
    }

    /// Whether the byte with this sequence number was sent and is not acknowledged yet.
    pub(crate) fn is_outstanding(&self, seq: SeqNumber) -> bool {
        let at = self.send_position(seq);
        at >= self.tx.una.signed() && at < self.tx.nxt.signed()
    }

    /// The information that the subflow's stage receives about it. `dscp` is the connection's code point.
    pub(crate) fn stage_context(&self, now: Instant, dscp: u8) -> StageContext {
        StageContext {
            now,
            cwnd: self.tx.cc.cwnd(),
            mss: self.tx.mss,
            dscp,
        }
    }

    /// When the subflow must act next if no segment arrives before.
    #[inline(never)] // computed once for each change
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let due = self.next_deadline();
        (due != Instant::FAR_FUTURE).then_some(due)
    }

    /// Like [`Self::deadline`], but [`Instant::FAR_FUTURE`] if there is no deadline. Every event calls this,
    /// nearly always from the same place.
    #[inline(always)]
    pub(crate) fn next_deadline(&self) -> Instant {
        let own = or_far_future(self.rx.ack_by).min(or_far_future(self.over_at));
        let own = own.min(or_far_future(self.persist.at));
        let mut due = self.tx.next_deadline().min(or_far_future(self.syn.at));
        due = due.min(own);
        if let Origin::Join(j) = &self.origin {
            due = due.min(or_far_future(j.repeat_at));
        }
        if self.config.tcp.keepalive.is_some() {
            due = due.min(or_far_future(self.keepalive_at()));
        }
        match &self.stage {
            Some(stage) => due.min(or_far_future(stage.next_timeout())),
            None => due,
        }
    }

    fn keepalive_at(&self) -> Option<Instant> {
        let k = self.config.tcp.keepalive?;
        let quiet =
            self.state.is_synchronized() && self.tx.board.is_empty() && self.over_at.is_none();
        quiet.then(|| {
            self.activity.last_heard
                + k.idle
                + k.interval * u64::from(self.activity.keepalive_probes)
        })
    }

    /// Processes one expired timer. Must be called until it returns [`Due::Nothing`].
    pub(crate) fn on_timer(&mut self, now: Instant, coupling: &mut Coupling) -> Due {
        if self.over_at.is_some_and(|t| t <= now) {
            self.over_at = None;
            self.state = TcpState::Closed;
            return Due::Over;
        }
        if self.syn.at.is_some_and(|t| t <= now) {
            self.syn.at = None;
            if self.syn.tries > self.config.tcp.syn_retries {
                self.state = TcpState::Closed;
                return Due::SynFailed;
            }
            self.due.syn = true;
            if self.syn.tries == 0 {
                return Due::Nothing;
            }
            self.tx.counters.timeouts += 1;
            self.tx.rtt.back_off();
            self.note_path_event(now, PathEvent::SynTimeout);
            return Due::Syn;
        }
        if self.rx.ack_by.is_some_and(|t| t <= now) {
            self.rx.ack_now = true;
            self.rx.ack_by = None;
        }
        if let Origin::Join(j) = &mut self.origin
            && j.repeat_at.is_some_and(|t| t <= now)
        {
            return self.repeat_join_ack();
        }
        if self.persist.at.is_some_and(|t| t <= now) {
            self.persist.at = None;
            self.persist.tries = self.persist.tries.saturating_add(1);
            self.due.probe = true;
        }
        if let Some(k) = self.config.tcp.keepalive
            && self.keepalive_at().is_some_and(|t| t <= now)
        {
            self.activity.keepalive_probes += 1;
            if self.activity.keepalive_probes > k.probes {
                return Due::KeepaliveFailed;
            }
            self.due.probe = true;
        }
        match self.tx.on_timer(now, coupling) {
            sender::Expired::Nothing => Due::Nothing,
            sender::Expired::Rto => {
                self.note_path_event(now, PathEvent::Timeout);
                Due::Rto
            }
            sender::Expired::Probe => Due::Probe,
        }
    }

    fn repeat_join_ack(&mut self) -> Due {
        let most = self.config.tcp.syn_retries;
        let Origin::Join(j) = &mut self.origin else {
            return Due::Nothing;
        };
        j.repeat_at = None;
        j.repeats += 1;
        if j.repeats > most {
            self.state = TcpState::Closed;
            return Due::SynFailed;
        }
        self.rx.ack_now = true;
        Due::Nothing
    }

    /// The window in which sequence numbers are acceptable. It is exactly the announced window, because the
    /// subflow must keep every byte that it acknowledges. A data-level window does not bound the subflow's
    /// sequence space (RFC 8684, section 3.3.5). The data level drops the data beyond its window.
    pub(crate) fn receive_window(&self, data_level_window: bool) -> u64 {
        let announced = self.announced_to.saturating_since(self.rx.nxt);
        if data_level_window {
            announced.max(self.config.tcp.receive_buffer as u64 / 2)
        } else {
            announced
        }
    }
}

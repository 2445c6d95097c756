//! The sending half of a subflow: windows, loss recovery and timers. It works on positions counted from the ISN
//! (the SYN is 0, the first byte 1).
//!
//! This module does not handle segments or options. `subflow` translates them.

mod ack;
mod gates;
mod last_window;
mod mtu_search;
mod output_queue;
mod pacing;
mod path_mtu;
mod timers;
mod window_use;

use std::sync::Arc;

use spindle_units::{Duration, Instant};
use spindle_wire::Payload;

pub(crate) use ack::{AckEffect, AckInput};
pub(crate) use last_window::Former;
pub use last_window::LastWindow;
pub(crate) use timers::Expired;

use crate::config::Config;
use crate::congestion::{Congestion, Coupling, Parameters};
use crate::subflow::loss::{
    detect::{self, DuplicateAcks},
    frto::Frto,
    prr::Prr,
    rack::Rack,
    reordering::Reordering,
    spurious::Spurious,
    tlp::Tlp,
};
use crate::subflow::rtt::RttEstimator;
use crate::subflow::scoreboard::{Scoreboard, Sent, SentMap, Uses};
use crate::tcp_config::IdleRestart;
use crate::types::SubflowPosition;
use gates::Gates;
use mtu_search::MtuSearch;
use pacing::PacingInput;
use window_use::WindowUse;

/// The current phase of loss recovery.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Phase {
    /// No unrepaired loss is known.
    Open,
    /// Fast recovery until everything up to `point` is acknowledged.
    Recovery {
        point: SubflowPosition,
        partial_acks: u32,
        prr: Option<Prr>,
        /// The losses were not a sign of congestion, and the window was not reduced.
        uncongested: bool,
    },
    /// After a retransmission timeout, until everything up to `point` is acknowledged.
    Loss { point: SubflowPosition },
}

/// Counters of a subflow's sending side, in bytes or events since the subflow began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendCounters {
    /// Data segments sent, of every kind (FUSO section 3.2.1, `tx`).
    pub segments: u64,
    /// Segments retransmitted by the subflow's own loss recovery (`retx`).
    pub retransmissions: u64,
    /// Segments sent since the last retransmission, including it (`since`).
    pub since_retransmission: u64,
    /// Payload bytes sent, of every kind.
    pub bytes: u64,
    /// Payload bytes retransmitted by the subflow's own loss recovery.
    pub bytes_retransmitted: u64,
    /// Payload bytes of proactive recovery (copies, verbatim repeats, parities).
    pub bytes_recovery: u64,
    /// Payload bytes reinjected by the data level.
    pub bytes_reinjected: u64,
    /// Segments of proactive recovery.
    pub recoveries: u64,
    /// Proactive copies of this subflow's segments whose data were acknowledged before the segment itself. The
    /// peer received these data from the copy.
    pub recoveries_useful: u64,
    /// Segments marked lost, once for each of their transmissions.
    pub losses: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Fast recoveries entered.
    pub fast_retransmits: u64,
    /// Tail loss probes sent.
    pub probes: u64,
    /// Own retransmissions that a D-SACK reported as unnecessary.
    pub spurious_retransmits: u64,
    /// Window reductions that D-SACK or F-RTO undid.
    pub undos: u64,
    /// Window reductions made for ECN.
    pub ecn_reductions: u64,
}

/// The purpose of a transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendKind {
    /// Data sent for the first time.
    New,
    /// The subflow's own retransmission.
    Retransmission,
    /// A tail loss probe that retransmits the last segment.
    Probe,
    /// Data reinjected by the data level on another subflow.
    Reinjection,
    /// A proactive recovery copy in new subflow sequence space.
    Recovery,
    /// A proactive verbatim repeat in the same sequence space.
    Repeat,
    /// A parity of a block in new subflow sequence space.
    Parity,
}

/// Positions that past events of loss recovery refer to.
#[derive(Clone, Copy, Debug, Default)]
struct Marks {
    /// RFC 6582's `recover`: no fast retransmit until data beyond this position are acknowledged.
    recover: SubflowPosition,
    /// The window is not reduced again until this is acknowledged (RFC 3168, section 6.1.2).
    reduced_until: SubflowPosition,
    /// RescueRxt (RFC 6675, section 2): at most one rescue retransmission until `una` is beyond this position.
    rescued_to: SubflowPosition,
}

/// The sender of a subflow.
#[derive(Debug)]
pub(crate) struct Sender {
    config: Arc<Config>,
    /// Payload bytes of a full segment, without options.
    pub(crate) mss: u64,
    /// The MSS that both ends agreed on, without options. The path may carry less.
    agreed_mss: u64,
    pub(crate) board: Scoreboard,
    pub(crate) rtt: RttEstimator,
    pub(crate) cc: Box<dyn Congestion>,
    /// Lowest unacknowledged position.
    pub(crate) una: SubflowPosition,
    /// Next position to send.
    pub(crate) nxt: SubflowPosition,
    /// Right edge of the window that the peer announced on this subflow: the highest sum of an
    /// acknowledgement and its window (RFC 8684, section 3.3.4).
    right_edge: SubflowPosition,
    pub(crate) phase: Phase,
    pub(crate) counters: SendCounters,
    /// SACK was negotiated.
    pub(crate) sack: bool,
    /// ECN was negotiated.
    pub(crate) ecn: bool,
    /// The next new data segment carries CWR (RFC 3168, section 6.1.2).
    pub(crate) cwr_due: bool,
    restart_window: u64,
    duplicates: DuplicateAcks,
    marks: Marks,
    spurious: Spurious,
    reordering: Reordering,
    tlp: Tlp,
    rack: Rack,
    rto_at: Option<Instant>,
    reorder_at: Option<Instant>,
    window_use: WindowUse,
    gates: Gates,
    /// Search for the largest segment size that the path carries, if the path is watched.
    search: Option<Box<MtuSearch>>,
    /// The next retransmission is sent regardless of the window (RFC 5681, section 3.2, step 3).
    force_repeat: bool,
    /// What former subflows learnt about its path.
    pub(crate) former: Former,
    /// Consecutive retransmission timeouts without progress.
    pub(crate) consecutive_timeouts: u32,
    coupling: CouplingPlace,
}

/// The subflow's place in the [`Coupling`] of the connection.
#[derive(Clone, Copy, Debug)]
struct CouplingPlace {
    row: usize,
    /// Its window is coupled with those of the connection's other subflows.
    coupled: bool,
}

/// Creates a controller for subflow `index` as configured.
fn controller(config: &Config, mss: u64, initial_window: u64, index: usize) -> Box<dyn Congestion> {
    let t = &config.tcp;
    config.congestion.build(&Parameters {
        mss,
        initial_window,
        subflow: index,
        max_window: t
            .max_window
            .congestion
            .map_or(u64::MAX, |w| u64::from(w) * mss),
        initial_ssthresh: t.slow_start.initial_ssthresh.unwrap_or(u64::MAX),
        slow_start_exit: t.slow_start.exit,
        through_ssthresh: t.slow_start.through_ssthresh,
        stretch_acks: config.coalesces(),
        timing_precision: config.timing_precision,
    })
}

/// When a timer expires whose clock counts ticks: the current tick and the rounded duration (Linux: `jiffies` and
/// `usecs_to_jiffies`).
#[cold] // only with ticks
fn expiry_at_tick(now: Instant, wait: Duration, tick: Duration) -> Instant {
    let tick = tick.as_nanos().max(1);
    let ticks = (now.as_nanos() / tick).saturating_add(wait.as_nanos().div_ceil(tick));
    Instant::from_nanos(ticks.saturating_mul(tick))
}

/// After more than one retransmission of the SYN or SYN/ACK the initial window is one segment. This is
/// RFC 5681, section 3.1, as relaxed by RFC 6928, section 2: a single retransmission may have been spurious.
const MOST_SYNS_FOR_INITIAL_WINDOW: u32 = 2;

/// The MSS of a peer that announces none (RFC 9293, section 3.7.1, for IPv4).
const LEAST_COMMON_MSS: usize = 536;
/// The expected share of losses counts as much as this number of segments that were sent (our choice: an initial
/// window, RFC 6928), so that one loss among the first few segments does not count as a high share.
const EXPECTED_SEGMENTS: u64 = 10;
/// This many segments may be outstanding whatever the send buffer: about 40 KB at the smallest MSS.
const LEAST_SEGMENTS: usize = 1024;

impl Sender {
    /// Creates a sender for subflow `index` of `planned` subflows.
    pub(crate) fn new(config: Arc<Config>, index: usize, planned: usize) -> Self {
        let t = &config.tcp;
        let mss = u64::from(t.mss);
        let initial = u64::from(t.initial_window.segments(index, planned)) * mss;
        let cc = controller(&config, mss, initial, index);
        let rtt = RttEstimator::new(t);
        Self {
            mss,
            agreed_mss: mss,
            board: Scoreboard::default(),
            rtt,
            cc,
            una: SubflowPosition::SYN,
            nxt: SubflowPosition::SYN,
            right_edge: SubflowPosition::SYN,
            phase: Phase::Open,
            counters: SendCounters::default(),
            sack: false,
            ecn: false,
            cwr_due: false,
            restart_window: initial,
            duplicates: DuplicateAcks::default(),
            marks: Marks::default(),
            spurious: Spurious::default(),
            reordering: Reordering::default(),
            tlp: Tlp::default(),
            rack: Rack::default(),
            rto_at: None,
            reorder_at: None,
            window_use: WindowUse::default(),
            gates: Gates::new(t.pacing, t.output_limit),
            search: None,
            force_repeat: false,
            former: Former::default(),
            consecutive_timeouts: 0,
            coupling: CouplingPlace {
                row: index,
                coupled: true,
            },
            config,
        }
    }

    /// An estimate of the share of segments that are lost, from 0 to 1. It begins with what is expected of the path, and
    /// follows the share of retransmissions.
    pub(crate) fn loss(&self) -> f64 {
        let expected = self.former.loss * EXPECTED_SEGMENTS as f64;
        let c = &self.counters;
        (expected + c.retransmissions as f64) / (EXPECTED_SEGMENTS + c.segments) as f64
    }

    /// Exchanges the place in the coupling, and what was made for it, with another sender that has sent nothing either.
    pub(crate) fn exchange_place(&mut self, other: &mut Self) {
        std::mem::swap(&mut self.coupling, &mut other.coupling);
        std::mem::swap(&mut self.cc, &mut other.cc);
        std::mem::swap(&mut self.restart_window, &mut other.restart_window);
    }

    /// The sender, which has sent nothing, gets place `row` in the coupling.
    pub(crate) fn take_place(&mut self, row: usize) {
        self.coupling.row = row;
        self.cc = controller(&self.config, self.mss, self.cc.cwnd(), row);
    }

    /// From now on the sender uses this configuration and is not coupled with other subflows. Must be called
    /// before data are sent.
    pub(crate) fn adopt(&mut self, config: Arc<Config>) {
        self.cc = controller(&config, self.mss, self.cc.cwnd(), self.coupling.row);
        self.coupling.coupled = false;
        self.config = config;
    }

    /// From now on the sender uses this configuration, but keeps its congestion control.
    pub(crate) fn keep_to(&mut self, config: Arc<Config>) {
        self.config = config;
    }

    /// Sets the MSS: the payload bytes of a full segment, `announced` bytes without options. The initial window keeps its
    /// number of segments, of this size or, with [full windows](crate::SlowStart::full_windows), of that without options.
    pub(crate) fn set_mss(&mut self, (mss, announced): (u64, u64), index: usize, planned: usize) {
        self.agreed_mss = mss;
        if mss == self.mss {
            return;
        }
        self.mss = mss;
        self.cc.set_mss(mss);
        let tcp = &self.config.tcp;
        let segment = match tcp.slow_start.full_windows {
            true => announced.max(mss),
            false => mss,
        };
        self.restart_window = u64::from(tcp.initial_window.segments(index, planned)) * segment;
        self.cc.on_idle(self.restart_window);
    }

    /// The SYN exchange is complete after `syns` transmissions. Everything up to and including the SYN is
    /// acknowledged. `rtt` is the round-trip time of the exchange, if it is known.
    pub(crate) fn established(
        &mut self,
        syns: u32,
        rtt: Option<Duration>,
        coupling: &mut Coupling,
    ) {
        self.una = SubflowPosition::FIRST_BYTE;
        self.nxt = self.nxt.max(self.una);
        self.rtt.establish();
        match (self.config.tcp.data_rto.fixed, rtt) {
            (Some(rto), _) => self.rtt.restart(rto),
            (None, Some(rtt)) => self.rtt.sample(rtt),
            (None, None) if syns > 1 && !self.rtt.expects() => {
                let tcp = &self.config.tcp;
                self.rtt
                    .restart(tcp.data_rto.after_syn_timeout.max(tcp.initial_rto));
            }
            (None, None) => self.rtt.end_back_off(),
        }
        if syns > MOST_SYNS_FOR_INITIAL_WINDOW {
            self.cc.set_cwnd(self.mss);
        }
        if self.coupling.coupled {
            coupling.activate(self.coupling.row, self.cc.cwnd());
        }
    }

    /// Bytes in flight: outstanding and believed to be neither lost nor delivered.
    pub(crate) fn in_flight(&self) -> u64 {
        let early = matches!(self.phase, Phase::Open) && !self.config.loss.limited_transmit;
        if early {
            return self.board.outstanding();
        }
        let pipe = self.board.pipe();
        if self.sack {
            pipe
        } else {
            pipe.saturating_sub(self.duplicates.presumed * self.mss)
        }
    }

    /// Whether `bytes` more bytes may be in flight.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        self.in_flight() + bytes <= self.cc.cwnd()
    }

    /// Whether too many segments are outstanding to send new ones. A full send buffer at a tiny MSS must cost
    /// no more memory and work than at the smallest MSS that every host accepts, 536 bytes (RFC 9293,
    /// section 3.7.1).
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        let outstanding = self.board.len();
        outstanding >= LEAST_SEGMENTS
            && outstanding >= self.config.tcp.send_buffer / LEAST_COMMON_MSS
    }

    /// The peer acknowledged everything below `ack` and announced a window of `window` bytes. The right edge
    /// never moves to the left, because data that an earlier window allowed may still be in flight. A configured
    /// [limit](crate::WindowLimits::send) makes the window smaller. Returns whether the edge moved.
    #[inline]
    pub(crate) fn on_window(&mut self, ack: SubflowPosition, window: u64) -> bool {
        let before = self.right_edge;
        let limit = self.config.tcp.max_window.send;
        let window = limit.map_or(window, |most| window.min(most.max(self.mss)));
        self.right_edge = before.max(ack + window);
        self.right_edge > before
    }

    /// Bytes of new sequence space that the peer's window on this subflow allows.
    #[inline]
    pub(crate) fn window_room(&self) -> u64 {
        self.right_edge.saturating_since(self.nxt)
    }

    /// Whether everything sent so far lies inside the peer's window on this subflow.
    pub(crate) fn is_inside_window(&self) -> bool {
        self.nxt <= self.right_edge
    }

    /// Whether `bytes` of new sequence space may be sent. Both the congestion window and the peer's window on
    /// this subflow must allow them (RFC 8684, section 3.3.4).
    #[inline]
    pub(crate) fn may_send(&self, bytes: u64) -> bool {
        self.has_room(bytes) && bytes <= self.window_room()
    }

    /// Bytes of new sequence space that may be sent in one burst now.
    pub(crate) fn burst_room(&self) -> u64 {
        let room = self.cc.cwnd().saturating_sub(self.in_flight());
        let room = room.min(self.window_room());
        if !self.gates.pace() {
            return room;
        }
        room.min(self.gates.quantum(&self.pacing()))
    }

    fn pacing(&self) -> PacingInput {
        PacingInput {
            cwnd: self.cc.cwnd(),
            ssthresh: self.cc.ssthresh(),
            srtt: self.rtt.smoothed(),
            mss: self.mss,
            sent: self.counters.segments,
            remembered_rate: self.remembered_rate(),
        }
    }

    /// The upper estimate of the slowest link's rate in bytes per second, for the first flight of a remembered window.
    fn remembered_rate(&self) -> Option<u64> {
        let window = self.former.window?.bytes;
        let is_first = self.counters.segments.saturating_mul(self.mss) < window;
        let rate = || self.cc.measurements().and_then(|m| m.upper_rate());
        (is_first && self.cc.ssthresh() == u64::MAX).then(rate)?
    }

    /// Whether [`Self::is_paced_to`] could ever return false.
    pub(crate) fn is_gated(&self) -> bool {
        self.gates.exist()
    }

    /// Whether pacing and the host's output queue allow a segment now. If not, [`Self::next_deadline`]
    /// returns when they do.
    pub(crate) fn is_paced_to(&mut self, now: Instant) -> bool {
        if !self.gates.exist() {
            return true;
        }
        let input = self.pacing();
        self.gates.are_open(now, &input)
    }

    /// `bytes` just sent will leave the host's output queue at time `leaves`.
    pub(crate) fn on_handed_over(&mut self, bytes: u64, leaves: Instant) {
        self.gates.on_handed_over(bytes, leaves);
    }

    fn pace(&mut self, now: Instant, bytes: u64) {
        if self.gates.pace() {
            let input = self.pacing();
            self.gates.on_sent(now, bytes, &input);
        }
    }

    /// The pacing rate in bytes per second, whether or not pacing is enabled. `None` before the first measured
    /// round trip.
    pub(crate) fn pacing_rate(&self) -> Option<u64> {
        self.pacing().bytes_per_second()
    }

    /// Whether new data should preferably be sent on another subflow: this one has unrepaired losses after a
    /// timeout.
    pub(crate) fn in_loss(&self) -> bool {
        matches!(self.phase, Phase::Loss { .. }) && !self.spurious.frto.holds_repeats()
    }

    /// Whether losses after a timeout must be repaired before new data are sent.
    pub(crate) fn repairs_first(&self) -> bool {
        self.in_loss() && self.sack && self.board.lost_bytes() > 0
    }

    pub(crate) fn in_recovery(&self) -> bool {
        matches!(self.phase, Phase::Recovery { .. })
    }

    /// Whether a retransmission of the segment at `start` repairs a loss that fast recovery found. It does not after a
    /// timeout, which presumes everything lost, and not if the retransmission is a probe.
    pub(crate) fn repairs_loss(&self, start: SubflowPosition) -> bool {
        self.in_recovery() && self.board.get(start).is_some_and(|s| s.lost)
    }

    /// Whether F-RTO waits for new data to be sent, and none have been sent yet.
    pub(crate) fn frto_waits(&self) -> bool {
        self.spurious.frto == Frto::Probing && !self.spurious.frto_probed
    }

    /// F-RTO has no new data to send: falls back to conventional recovery (RFC 5682, step 2b).
    pub(crate) fn frto_give_up(&mut self) {
        self.spurious.frto = Frto::Off;
    }

    /// Records a first transmission in sequence space: a segment, or a burst of several segments under one
    /// mapping. `payload` may be empty if `fin` is set. Returns the start position.
    pub(crate) fn on_sent(
        &mut self,
        now: Instant,
        payload: Payload,
        fin: bool,
        map: Option<SentMap>,
        kind: SendKind,
    ) -> SubflowPosition {
        let start = self.nxt;
        let len = payload.len();
        if len <= self.mss as usize {
            self.push_sent(now, payload, fin, map, kind);
        } else {
            self.push_burst(now, &payload, fin, map, kind);
        }
        self.pace(now, len as u64);
        self.window_use.last_sent = Some(now);
        if self.rto_at.is_none() {
            self.arm_rto(now);
        }
        self.arm_tlp(now);
        start
    }

    #[inline(never)] // only over links with segmentation offload
    fn push_burst(
        &mut self,
        now: Instant,
        payload: &Payload,
        fin: bool,
        map: Option<SentMap>,
        kind: SendKind,
    ) {
        let (len, unit) = (payload.len(), self.mss as usize);
        for at in (0..len).step_by(unit.max(1)) {
            let n = unit.min(len - at);
            let map = map.map(|m| m.advanced(at as u64));
            let last = at + n == len;
            self.push_sent(now, payload.slice(at, n), fin && last, map, kind);
        }
    }

    fn push_sent(
        &mut self,
        now: Instant,
        payload: Payload,
        fin: bool,
        map: Option<SentMap>,
        kind: SendKind,
    ) {
        let len = payload.len() as u64;
        let uses = match kind {
            SendKind::Recovery | SendKind::Parity => Uses::RECOVERY,
            _ => Uses::default(),
        };
        let sent = Sent {
            fin,
            map,
            uses,
            ..Sent::new(self.nxt, payload, now)
        };
        self.nxt = sent.end();
        if let Phase::Recovery { prr: Some(prr), .. } = &mut self.phase {
            prr.on_sent(len);
        }
        self.board.push(sent);
        if len > 0 {
            self.count(len, kind);
            self.spurious.frto_probed |= self.spurious.frto == Frto::Probing;
        }
    }

    fn count(&mut self, len: u64, kind: SendKind) {
        let c = &mut self.counters;
        c.segments += 1;
        c.bytes += len;
        match kind {
            SendKind::New => {}
            SendKind::Retransmission | SendKind::Probe => {
                c.retransmissions += 1;
                c.bytes_retransmitted += len;
                c.since_retransmission = 0;
            }
            SendKind::Reinjection => c.bytes_reinjected += len,
            SendKind::Recovery | SendKind::Repeat | SendKind::Parity => {
                c.recoveries += 1;
                c.bytes_recovery += len;
            }
        }
        c.since_retransmission += 1;
    }

    /// Records a parity of `len` bytes, which takes no sequence space.
    pub(crate) fn count_parity(&mut self, len: u64) {
        self.count(len, SendKind::Recovery);
    }

    /// Whether [`Self::check_idle`] would restart.
    pub(crate) fn restarts(&self, now: Instant) -> bool {
        let idle = self.window_use.last_sent.filter(|_| self.board.is_empty());
        idle.is_some_and(|t| now.since(t) > self.rtt.rto())
            && self.config.tcp.idle_restart != IdleRestart::Keep
    }

    /// Reduces cwnd as configured if the subflow was idle for a retransmission timeout (RFC 5681, section 4.1).
    /// Must be called before new data are sent.
    pub(crate) fn check_idle(&mut self, now: Instant) {
        if !self.restarts(now) {
            return;
        }
        let window = match self.config.tcp.idle_restart {
            IdleRestart::Decay => self.decay(now),
            IdleRestart::Keep | IdleRestart::InitialWindow => self.restart_window,
        };
        self.cc.on_idle(window);
        self.window_use.last_sent = None;
    }

    /// The window after an idle time: half of cwnd for each RTO, and at least the restart window. Raises ssthresh
    /// first (RFC 2861, section 3.1).
    #[cold] // only after an idle time
    fn decay(&mut self, now: Instant) -> u64 {
        self.cc.window_mut().raise_ssthresh();
        let idle = self
            .window_use
            .last_sent
            .map_or(Duration::ZERO, |t| now.since(t));
        let timeouts = idle.as_nanos() / self.rtt.rto().as_nanos().max(1);
        let halved = self.cc.cwnd() >> timeouts.min(u64::from(u64::BITS - 1));
        halved.max(self.restart_window)
    }

    /// Whether [`Self::next_repeat`] may return a segment.
    pub(crate) fn may_repeat(&self) -> bool {
        if self.board.unrepeated_bytes() == 0 || self.spurious.frto == Frto::Probing {
            return false;
        }
        let in_flight = self.in_flight();
        self.force_repeat || in_flight == 0 || in_flight < self.cc.cwnd()
    }

    /// The start of the next segment to retransmit, if the window allows it. Has no visible side effects unless
    /// pacing or an output queue is [in use](Self::is_gated).
    pub(crate) fn next_repeat(&mut self, now: Instant) -> Option<SubflowPosition> {
        if !self.may_repeat() {
            return None;
        }
        let start = self.board.next_lost()?;
        if self.spurious.frto == Frto::Repeated && start > self.una {
            return None;
        }
        let len = self.board.get(start)?.seq_len();
        let inside = self.has_room(len) && self.is_paced_to(now);
        (self.force_repeat || inside || self.in_flight() == 0).then_some(start)
    }

    /// Whether [`Self::next_rescue`] may return a segment.
    pub(crate) fn may_rescue(&self) -> bool {
        self.config.loss.rescue && self.sack && self.in_recovery()
    }

    /// RFC 6675, NextSeg rules 3 and 4. In recovery with nothing else to send: a segment below the highest
    /// SACKed one, otherwise, once per episode, the last outstanding segment.
    pub(crate) fn next_rescue(&mut self) -> Option<SubflowPosition> {
        if !self.may_rescue() {
            return None;
        }
        let (start, last_resort) = match self.board.next_unsacked_hole() {
            Some(start) => (start, false),
            None if self.una > self.marks.rescued_to => (self.board.last_unsacked()?, true),
            None => return None,
        };
        let len = self.board.get(start)?.seq_len();
        if !self.has_room(len) {
            return None;
        }
        if last_resort {
            self.marks.rescued_to = self.marks.recover;
        }
        Some(start)
    }

    /// Records a retransmission of the segment at `start` and returns the segment.
    pub(crate) fn on_repeat(
        &mut self,
        now: Instant,
        start: SubflowPosition,
        kind: SendKind,
    ) -> Option<&Sent> {
        let len = self.board.get(start)?.payload.len() as u64;
        self.force_repeat = false;
        if len > 0 {
            self.count(len, kind);
        }
        if kind == SendKind::Repeat {
            self.spurious.undo.on_deliberate_repeat();
        } else {
            self.spurious.undo.on_repeat();
        }
        if let Phase::Recovery { prr: Some(prr), .. } = &mut self.phase {
            prr.on_sent(len);
        }
        self.pace(now, len);
        self.window_use.last_sent = Some(now);
        if self.rto_at.is_none() {
            self.arm_rto(now);
        }
        if kind == SendKind::Repeat {
            return self.board.get(start);
        }
        self.board.repeat(start, now)
    }

    /// The current duplicate-ACK threshold.
    fn threshold(&self, new_data: bool) -> u32 {
        let segments = match self.config.loss.early_retransmit {
            true => self.board.outstanding().div_ceil(self.mss),
            false => 0,
        };
        detect::threshold(
            &self.config.loss,
            self.reordering.raised,
            segments,
            new_data,
        )
    }

    /// Checks that the counters are consistent. Debug builds only.
    #[cfg(debug_assertions)]
    pub(crate) fn check(&self) {
        self.board.check();
        let outstanding = self.board.outstanding();
        assert!(
            outstanding == 0 || outstanding == self.nxt - self.una,
            "the queue spans una..nxt"
        );
        assert!(self.cc.cwnd() > 0, "cwnd is at least a segment");
    }

    fn arm_rto(&mut self, now: Instant) {
        let rto = self.rtt.rto();
        let wait = self.config.loss.least_timer.map_or(rto, |t| t.max(rto));
        self.rto_at = (!self.board.is_empty()).then(|| self.expiry(now, wait));
    }

    /// When a timer that is set now and lasts for `wait` expires.
    #[inline]
    pub(super) fn expiry(&self, now: Instant, wait: Duration) -> Instant {
        match self.config.loss.timer_tick {
            None => now + wait,
            Some(tick) => expiry_at_tick(now, wait, tick),
        }
    }

    /// The current smoothed RTT, for metrics.
    pub(crate) fn srtt(&self) -> Option<Duration> {
        self.rtt.smoothed()
    }
}

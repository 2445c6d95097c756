//! A connection: the data level over one or more subflows (RFC 8684). Plain TCP is the special case of one
//! subflow whose positions map linearly to data offsets.

mod assigned;
mod autotune;
mod break_before_make;
pub(crate) mod close;
mod coding;
pub(crate) mod ended;
mod fallback;
mod handshake;
mod identifiers;
pub(crate) mod info;
mod input;
pub(crate) mod memory;
mod numbers;
mod options;
mod output;
mod parity;
mod path_manager;
mod path_probe;
mod reach;
mod reassembly;
mod recover;
mod reinjection;
mod scatter;
mod send_queue;
mod subflows;
mod timers;
pub(crate) mod trace;
mod undelivered;

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use spindle_units::{Instant, prefetch};
use spindle_wire::{Endpoint, Payload, Segment};

pub use close::CloseReason;
use path_manager::Paths;
pub(crate) use path_manager::Wanted;
pub use reach::PathError;
use reassembly::Reassembly;
use reinjection::Reinjections;
use send_queue::SendQueue;
use subflows::{Marks, Subflows};
use trace::Trace;

use crate::config::Config;
use crate::congestion::Coupling;
use crate::keys;
use crate::recovery::{Recovery, RecoveryReceiver, Triggers};
use crate::scheduler::{self, Scheduler};
use crate::secrets::Generator;
use crate::stage::coding::PathEstimates;
use crate::steps::Steps;
use crate::subflow::{InitialNumbers, NewSubflow, Origin, Subflow};
use crate::types::SubflowId;

/// Which end opened the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// This end opened the connection.
    Client,
    /// The peer opened the connection.
    Server,
}

/// An event on a connection that the application is notified of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionEvent {
    Connected,
    SubflowUp(SubflowId),
    SubflowDown(SubflowId),
    JoinFailed(SubflowId),
    Readable,
    Writable,
    /// All data that the application watches are acknowledged. The value is the acknowledged data offset: bytes
    /// from the beginning of the stream.
    Acknowledged(u64),
    PeerClosed,
    Closed(CloseReason),
}

/// MPTCP state of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MpState {
    pub(crate) key_local: u64,
    pub(crate) token_local: u32,
    idsn_local: u64,
    key_remote: Option<u64>,
    token_remote: u32,
    idsn_remote: u64,
    /// The MP_CAPABLE handshake is complete, so the peer's key is known.
    negotiated: bool,
    /// The peer has shown that it has our key (RFC 8684, section 3.1). It did so by a DSS or, in the client's
    /// first data, by MP_CAPABLE.
    confirmed: bool,
    /// The peer has sent a DATA_ACK, and so has announced a data-level window.
    window_announced: bool,
    checksum: bool,
    /// The peer allows no further subflows to its first address and port (flag C).
    no_more_to_remote: bool,
    /// Data offset of the peer's DATA_FIN.
    fin_remote: Option<u64>,
    /// A checksum failed on the only subflow.
    failing: Option<fallback::Failing>,
    /// Our MP_FAIL is due, with this data sequence number.
    fail_due: Option<u64>,
    /// Data have arrived in a segment without any MPTCP option.
    bare_data: bool,
    /// A subflow other than the first has carried data, in either direction.
    apart: bool,
}

impl MpState {
    fn new(key: u64) -> Self {
        Self {
            key_local: key,
            token_local: keys::token(key),
            idsn_local: keys::idsn(key),
            key_remote: None,
            token_remote: 0,
            idsn_remote: 0,
            negotiated: false,
            confirmed: false,
            window_announced: false,
            checksum: false,
            no_more_to_remote: false,
            fin_remote: None,
            failing: None,
            fail_due: None,
            bare_data: false,
            apart: false,
        }
    }

    fn set_remote_key(&mut self, key: u64) {
        self.key_remote = Some(key);
        self.token_remote = keys::token(key);
        self.idsn_remote = keys::idsn(key);
        self.negotiated = true;
    }

    /// Data sequence number on the wire for one of our data offsets. The first byte has the IDSN plus one,
    /// because the IDSN itself is the number of the SYN.
    fn dsn(&self, offset: u64) -> u64 {
        self.idsn_local.wrapping_add(1).wrapping_add(offset)
    }
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) config: Arc<Config>,
    pub(crate) role: Role,
    pub(crate) subflows: Subflows,
    identifiers: identifiers::Identifiers,
    coupling: Coupling,
    /// MPTCP state while MPTCP is offered or in use. `None` for plain TCP and after fallback.
    pub(crate) mp: Option<MpState>,
    /// Data offset minus subflow position of data that arrive without mappings (plain TCP, fallback).
    unmapped_delta: u64,
    buffers: autotune::Buffers,
    send: SendQueue,
    recv: Reassembly,
    scheduler: Box<dyn Scheduler>,
    /// Scratch list of the subflow views that are shown to the recovery policy.
    views: Vec<crate::recovery::SubflowView>,
    /// Scratch list of the scheduler's candidates.
    candidates: Vec<scheduler::Candidate>,
    reinjections: Reinjections,
    undelivered: undelivered::Undelivered,
    /// Data handed to subflows that have no room for them yet.
    assigned: assigned::Assigned,
    recovery: Option<Box<dyn Recovery>>,
    recovery_receiver: Option<Box<dyn RecoveryReceiver>>,
    triggers: Triggers,
    /// When the recovery policy was last asked and requested no action.
    policy_rested: Option<Instant>,
    copied: recover::Copied,
    parities: parity::Parities,
    scatter: scatter::Phases,
    coded: coding::Coded,
    farewell: fallback::PendingFallbackSignals,
    numbers: numbers::Numbers,
    /// Set while no subflow can complete the transfer and the connection waits for a further subflow.
    cut_off: Option<break_before_make::CutOff>,
    paths: Box<Paths>,
    rng: Generator,
    /// Segments that are ready for transmission, for example resets and the output of stages.
    out: VecDeque<Segment>,
    pending_events: VecDeque<ConnectionEvent>,
    pub(crate) trace: Trace,
    connected: bool,
    /// The application has closed its sending side.
    closing: bool,
    /// The DATA_FIN is due or has been sent. Its data offset is `send.written`.
    data_fin_sent: bool,
    data_fin_acked: bool,
    data_fin_due: bool,
    data_fin_tries: u32,
    peer_closed: bool,
    pub(crate) closed: Option<CloseReason>,
    /// The application has released the connection.
    pub(crate) released: bool,
    /// The application must be notified when the peer has acknowledged all data before this offset. `u64::MAX`
    /// if the application did not request a notification.
    watched: u64,
    /// The last write did not fit completely. The writer will provide the rest, which counts as new data (FUSO
    /// section 4.1).
    writer_blocked: bool,
    /// The application has announced that it will write more. Until it withdraws the announcement, the
    /// connection counts as having new data.
    more_expected: bool,
    /// The DSCP of all transmitted segments, if it is not the default (0).
    pub(crate) dscp: u8,
    sws_override: bool,
    persist_at: Option<Instant>,
    persist_tries: u32,
    /// Since when the peer's window has been closed and probed.
    shut_since: Option<Instant>,
    /// Since when only the peer's FIN or DATA_FIN is missing, on a connection that the application no longer
    /// reads.
    fin_wait_since: Option<Instant>,
    stalled_since: Option<Instant>,
    data_timer_at: Option<Instant>,
    data_timer_tries: u32,
    /// When a subflow that timed out soon after its last sign of life must be checked again, and which subflow.
    judge_at: Option<(Instant, SubflowId)>,
    window_update_due: bool,
    memory: memory::Memory,
    pub(crate) counters: info::DataCounters,
    /// Loop iterations at the data level and on subflows that no longer exist.
    steps: Steps,
    ended: ended::Ended,
    /// Bookkeeping of the stack: the deadline that is armed, and whether the connection is queued for
    /// transmission.
    pub(crate) armed: Option<Instant>,
    pub(crate) queued: bool,
}

/// The parameters of a new connection.
pub(crate) struct NewConnection {
    pub(crate) config: Arc<Config>,
    pub(crate) role: Role,
    pub(crate) local: Endpoint,
    pub(crate) remote: Endpoint,
    pub(crate) initial: InitialNumbers,
    /// Our key, if this end offers MPTCP or the peer requested it.
    pub(crate) key: Option<u64>,
    /// Random generator that no other connection uses.
    pub(crate) rng: Generator,
    pub(crate) addresses: Vec<IpAddr>,
    /// Local addresses that peers know by a different address: (inside, outside).
    pub(crate) outside: Arc<[(IpAddr, IpAddr)]>,
    /// What the host knows about the paths to its peers.
    pub(crate) path_estimates: PathEstimates,
}

impl Connection {
    /// Creates a connection that is about to send its SYN or, if `syn` is given, to answer it.
    pub(crate) fn new(now: Instant, n: NewConnection, syn: Option<&Segment>) -> Self {
        let planned = n.config.planned_subflows();
        let first = NewSubflow {
            id: 0,
            local: n.local,
            remote: n.remote,
            origin: Origin::Initial,
            initial: n.initial,
            planned,
        };
        let mut subflow =
            Subflow::new(now, &scatter::opening(&n.config), first, syn.map(|s| s.seq));
        if let Some(syn) = syn {
            subflow.negotiate(syn, now);
        }
        let mut rng = n.rng;
        let recovery = n.config.recovery.as_ref().map(|f| f.build(rng.next_u64()));
        let recovery_receiver = n.config.recovery.as_ref().and_then(|f| f.build_receiver());
        let scheduler = n
            .config
            .multipath
            .as_ref()
            .map_or_else(Default::default, |m| m.scheduler)
            .build();
        let (buffers, receive_buffer) = autotune::Buffers::new(&n.config.tcp);
        let mut this = Self {
            role: n.role,
            subflows: Subflows::default(),
            identifiers: identifiers::Identifiers::default(),
            coupling: Coupling::default(),
            mp: n.key.map(MpState::new),
            unmapped_delta: 1u64.wrapping_neg(),
            send: SendQueue::default(),
            recv: Reassembly::new(receive_buffer),
            buffers,
            scheduler,
            views: Vec::new(),
            candidates: Vec::new(),
            reinjections: Reinjections::default(),
            undelivered: undelivered::Undelivered::default(),
            assigned: assigned::Assigned::default(),
            recovery,
            recovery_receiver,
            triggers: Triggers::default(),
            policy_rested: None,
            copied: recover::Copied::default(),
            parities: parity::Parities::default(),
            scatter: scatter::Phases::default(),
            coded: coding::Coded::with(n.path_estimates),
            farewell: fallback::PendingFallbackSignals::default(),
            numbers: numbers::Numbers::default(),
            cut_off: None,
            paths: Box::new(Paths::new(n.local, n.remote, n.addresses, n.outside)),
            rng,
            out: VecDeque::new(),
            pending_events: VecDeque::new(),
            trace: Trace::default(),
            connected: false,
            closing: false,
            data_fin_sent: false,
            data_fin_acked: false,
            data_fin_due: false,
            data_fin_tries: 0,
            peer_closed: false,
            closed: None,
            released: false,
            watched: u64::MAX,
            writer_blocked: false,
            more_expected: false,
            dscp: 0,
            sws_override: false,
            persist_at: None,
            persist_tries: 0,
            shut_since: None,
            fin_wait_since: None,
            memory: memory::Memory::new(now),
            stalled_since: Some(now),
            data_timer_at: None,
            data_timer_tries: 0,
            judge_at: None,
            window_update_due: false,
            counters: info::DataCounters::default(),
            steps: Steps::default(),
            ended: ended::Ended::default(),
            armed: None,
            queued: false,
            config: n.config,
        };
        this.subflows.push(subflow);
        if let Some(syn) = syn {
            this.answer_capable(syn);
            this.agree_on_parities(syn);
            this.agree_on_scatter(syn);
            this.agree_on_coding(syn);
        }
        this
    }

    /// Returns the next event for the application.
    pub(crate) fn next_event(&mut self) -> Option<ConnectionEvent> {
        self.pending_events.pop_front()
    }

    /// A join is established.
    fn on_subflow_up(&mut self, now: Instant, id: SubflowId) {
        match self.role {
            Role::Client => self.counters.subflows_opened += 1,
            Role::Server => self.counters.subflows_accepted += 1,
        }
        if let Some(i) = self.index(id) {
            let sf = &mut self.subflows[i];
            sf.reported_established = true;
            let (local, remote) = (sf.local, sf.remote);
            self.paths.up(now, local, remote);
        }
        self.judge_others(now, id);
        self.on_further_subflow(id);
        self.answer_fins();
        self.review_cut_off();
        self.tell(ConnectionEvent::SubflowUp(id));
    }

    fn tell(&mut self, h: ConnectionEvent) {
        let repeated = matches!(h, ConnectionEvent::Readable | ConnectionEvent::Writable);
        if !(repeated && self.pending_events.contains(&h)) {
            self.pending_events.push_back(h);
        }
    }

    /// Whether MPTCP is in use (handshake done, not fallen back).
    pub(crate) fn is_multipath(&self) -> bool {
        self.mp.as_ref().is_some_and(|m| m.negotiated)
    }

    fn multipath(&self) -> Option<&MpState> {
        self.mp.as_ref().filter(|m| m.negotiated)
    }

    fn index(&self, id: SubflowId) -> Option<usize> {
        self.subflows.position_of(id)
    }

    /// Whether there are data that were never sent, or the application will provide more.
    fn has_new_data(&self) -> bool {
        let waiting = self.send.unsent_bytes() > 0 || !self.assigned.is_empty();
        waiting || self.writer_blocked || self.more_expected
    }

    /// Prefetches what a segment of subflow `id` needs. Step 0 prefetches the connection, step 1 the subflow
    /// and other parts of the connection, and later steps the memory that the subflow points to.
    #[inline]
    pub(crate) fn prefetch(&self, id: SubflowId, step: u32) {
        match step {
            0 => prefetch(self),
            1 => {
                self.subflows.prefetch(id);
                self.recovery.as_deref().into_iter().for_each(prefetch);
                self.coupling.prefetch();
                self.send.prefetch();
            }
            _ => {
                self.index(id)
                    .into_iter()
                    .for_each(|i| self.subflows[i].prefetch());
            }
        }
    }

    /// Whether the peer's window blocks data: the rest of the window is too small for the next segment.
    pub(super) fn window_blocks(&mut self) -> bool {
        let mss = self.subflows.overview().least_mss().map_or(1, u64::from);
        self.send.window() < self.send.unsent_bytes().min(mss)
    }

    /// Accepts data for sending. Returns how many bytes fitted.
    pub(crate) fn write(&mut self, now: Instant, data: Payload) -> usize {
        if self.closing || self.closed.is_some() {
            return 0;
        }
        let room = self.send_room() as usize;
        let n = data.len().min(room);
        self.writer_blocked = n < data.len();
        if n > 0 {
            if self.send.buffered() == 0 {
                self.memory.moved(now);
            }
            self.send.write(if n == data.len() {
                data
            } else {
                data.slice(0, n)
            });
            self.triggers.insert(crate::recovery::Trigger::AppDrained);
        }
        n
    }

    /// Requests one [`ConnectionEvent::Acknowledged`] event when all data before `offset` are acknowledged.
    pub(crate) fn watch_acknowledged(&mut self, offset: u64) {
        self.watched = offset;
        self.tell_acknowledged();
    }

    /// Notifies the application if the peer has acknowledged all watched data.
    fn tell_acknowledged(&mut self) {
        if self.send.una >= self.watched {
            self.watched = u64::MAX;
            self.tell(ConnectionEvent::Acknowledged(self.send.una));
        }
    }

    /// The application announces whether it will write more data.
    pub(crate) fn expect_more(&mut self, more: bool) {
        let ended = self.more_expected && !more;
        self.more_expected = more && !self.closing;
        if ended {
            self.triggers.insert(crate::recovery::Trigger::AppDrained);
        }
    }

    /// The writer whose write did not fit completely has given up on the rest.
    pub(crate) fn forget_blocked_writer(&mut self) {
        self.writer_blocked = false;
    }

    /// Bytes that the send buffer can accept now.
    pub(crate) fn writable(&self) -> usize {
        if self.closing || self.closed.is_some() {
            return 0;
        }
        self.send_room() as usize
    }

    /// Returns the next in-order bytes, at most `max`.
    pub(crate) fn read(&mut self, now: Instant, max: usize) -> Option<Payload> {
        let piece = self.recv.read(max)?;
        self.memory.moved(now);
        let mss = self.subflows.first().map_or(1460, |s| s.tx.mss);
        self.tune_receive_buffer(now, piece.len() as u64, mss);
        if self.recv.update_due(mss) {
            self.window_update_due = true;
        }
        Some(piece)
    }

    /// Whether a window update is due because the window has opened.
    pub(crate) fn has_window_update(&self) -> bool {
        self.window_update_due
    }

    /// The paths between these endpoints carry IP packets of `mtu` bytes. Port 0 stands for any port. With
    /// `floor`, values smaller than every path must carry are not believed.
    pub(crate) fn path_mtu(
        &mut self,
        now: Instant,
        (local, remote): (Endpoint, Endpoint),
        mtu: u32,
        floor: bool,
    ) {
        let fits = |e: Endpoint, of: Endpoint| e.addr == of.addr && [0, of.port].contains(&e.port);
        for s in self.subflows.iter_mut() {
            if fits(local, s.local) && fits(remote, s.remote) {
                s.set_path_mtu(now, mtu, floor);
            }
        }
        self.settle(now);
    }

    /// Bytes waiting to be read.
    pub(crate) fn readable(&self) -> u64 {
        self.recv.readable()
    }

    /// Whether the peer has closed its sending side and everything has been read.
    pub(crate) fn at_end(&self) -> bool {
        self.peer_closed && self.recv.readable() == 0
    }

    /// Whether nothing is left to do. The stack may then drop the connection once the application has released
    /// it.
    pub(crate) fn is_over(&self) -> bool {
        self.closed.is_some() && self.subflows.is_empty() && self.out.is_empty()
    }

    /// Whether [`Self::next_wanted`] may return a subflow or have other work to do.
    #[inline]
    pub(crate) fn may_want(&self) -> bool {
        self.mp.is_some() || self.scatter.is_on()
    }

    /// Whether the initial handshake was ever completed.
    pub(crate) fn is_established(&self) -> bool {
        self.connected
    }

    /// Index of subflow `id`, if it still has these endpoints (local, remote).
    pub(crate) fn position_of(&self, id: SubflowId, ends: &(Endpoint, Endpoint)) -> Option<usize> {
        let i = self.index(id)?;
        let s = &self.subflows[i];
        ((s.local, s.remote) == *ends).then_some(i)
    }

    /// Number of joins from the peer whose third ACK is still missing.
    pub(crate) fn half_open_joins(&mut self) -> usize {
        if !self.subflows.marks().any(Marks::HALF_OPEN) {
            return 0;
        }
        let n = self
            .subflows
            .summaries()
            .iter()
            .filter(|o| o.is(Marks::HALF_OPEN))
            .count();
        n.saturating_sub(usize::from(self.is_half_open()))
    }

    /// Whether the initial handshake is still in progress (a half-open connection).
    pub(crate) fn is_half_open(&self) -> bool {
        !self.connected && self.closed.is_none()
    }
}

//! A connection: the data level over one or more subflows (RFC 8684). Plain TCP is the special case of one
//! subflow whose positions map linearly to data offsets.

mod application;
mod assigned;
mod autotune;
mod break_before_make;
pub(crate) mod close;
pub(crate) mod ended;
mod extensions;
mod fallback;
mod handshake;
mod identifiers;
pub(crate) mod info;
pub(crate) mod memory;
mod numbers;
mod options;
mod outbox;
mod path_manager;
mod path_probe;
mod path_sample;
pub(crate) mod path_totals;
mod policy_driver;
mod prefetch;
mod reach;
mod reassembly;
mod receive;
mod reinjection;
mod scheduling;
mod send_queue;
mod subflow_table;
mod timers;
pub(crate) mod trace;
mod transmit;
mod undelivered;

use std::net::IpAddr;
use std::sync::Arc;

use spindle_units::Instant;
use spindle_wire::{Endpoint, Segment};

use application::Writer;
pub use close::CloseReason;
use close::Teardown;
use extensions::Extensions;
use outbox::Outbox;
use path_manager::Paths;
pub(crate) use path_manager::Wanted;
pub(crate) use path_sample::PathSample;
use policy_driver::PolicyDriver;
pub use reach::PathError;
use reassembly::Reassembly;
use scheduling::Scheduling;
use send_queue::SendQueue;
use subflow_table::{Marks, SubflowTable};
use timers::Timers;

use crate::config::Config;
use crate::congestion::Coupling;
use crate::keys;
use crate::secrets::Generator;
use crate::stage::coding::PathEstimates;
use crate::steps::Steps;
use crate::subflow::{InitialNumbers, NewSubflow, Origin, Subflow};
use crate::types::{DataOffset, MappingDelta, SubflowId};

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
    /// All data that the application watches are acknowledged. The value is the data-level acknowledgement.
    Acknowledged(DataOffset),
    PeerClosed,
    /// The connection probably sends no more data: the peer has closed and acknowledged all data, the DATA_FIN is
    /// acknowledged, or the connection has ended in order. Only the stack is notified.
    Delivered,
    Closed(CloseReason),
}

impl ConnectionEvent {
    /// Whether it occurs only a few times in the life of a connection or of a subflow.
    #[inline]
    pub(crate) fn is_rare(self) -> bool {
        !matches!(
            self,
            Self::Readable | Self::Writable | Self::Acknowledged(_)
        )
    }
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
    /// Both ends agreed on [early joins](crate::config::MultipathConfig::early_joins).
    early_joins: bool,
    /// The peer has sent a DATA_ACK, and so has announced a data-level window.
    window_announced: bool,
    checksum: bool,
    /// The peer allows no further subflows to its first address and port (flag C).
    no_more_to_remote: bool,
    /// Data offset of the peer's DATA_FIN.
    fin_remote: Option<DataOffset>,
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
            early_joins: false,
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
    fn dsn(&self, offset: DataOffset) -> u64 {
        offset.sequence_number(self.first_dsn())
    }

    /// Data sequence number of our first byte.
    fn first_dsn(&self) -> u64 {
        self.idsn_local.wrapping_add(1)
    }

    /// Data sequence number on the wire for one of the peer's data offsets.
    fn remote_dsn(&self, offset: DataOffset) -> u64 {
        offset.sequence_number(self.first_remote_dsn())
    }

    /// Data sequence number of the peer's first byte.
    fn first_remote_dsn(&self) -> u64 {
        self.idsn_remote.wrapping_add(1)
    }
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) config: Arc<Config>,
    pub(crate) role: Role,
    pub(crate) subflows: SubflowTable,
    identifiers: identifiers::Identifiers,
    coupling: Coupling,
    /// MPTCP state while MPTCP is offered or in use. `None` for plain TCP and after fallback.
    pub(crate) mp: Option<MpState>,
    /// Data offset minus subflow position of data that arrive without mappings (plain TCP, fallback).
    unmapped_delta: MappingDelta,
    buffers: autotune::Buffers,
    send: SendQueue,
    recv: Reassembly,
    window_update_due: bool,
    writer: Writer,
    scheduling: Scheduling,
    policy: PolicyDriver,
    pub(crate) extensions: Extensions,
    fallback_signals: fallback::PendingFallbackSignals,
    numbers: numbers::Numbers,
    /// Set while no subflow can complete the transfer and the connection waits for a further subflow.
    cut_off: Option<break_before_make::CutOff>,
    paths: Box<Paths>,
    rng: Generator,
    pub(crate) outbox: Outbox,
    /// The initial handshake is complete.
    connected: bool,
    pub(crate) teardown: Teardown,
    /// The DSCP of all transmitted segments, if it is not the default (0).
    pub(crate) dscp: u8,
    timers: Timers,
    memory: memory::Memory,
    pub(crate) counters: info::DataCounters,
    /// Loop iterations at the data level and on subflows that no longer exist.
    steps: Steps,
    ended: ended::Ended,
    pub(crate) stack: StackMarks,
}

/// Bookkeeping of the stack about a connection.
#[derive(Debug, Default)]
pub(crate) struct StackMarks {
    /// The deadline that is armed.
    pub(crate) armed: Option<Instant>,
    /// The connection is queued for transmission.
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
            id: SubflowId::FIRST,
            local: n.local,
            remote: n.remote,
            origin: Origin::Initial,
            initial: n.initial,
            planned,
        };
        let mut subflow = Subflow::new(
            now,
            &extensions::packet_scatter::opening(&n.config),
            first,
            syn.map(|s| s.seq),
        );
        if let Some(syn) = syn {
            subflow.negotiate(syn, now);
        }
        let mut rng = n.rng;
        let (buffers, receive_buffer) = autotune::Buffers::new(&n.config.tcp);
        let mut this = Self {
            role: n.role,
            subflows: SubflowTable::default(),
            identifiers: identifiers::Identifiers::default(),
            coupling: Coupling::default(),
            mp: n.key.map(MpState::new),
            unmapped_delta: MappingDelta::WHOLE_STREAM,
            buffers,
            send: SendQueue::default(),
            recv: Reassembly::new(receive_buffer),
            window_update_due: false,
            writer: Writer::default(),
            scheduling: Scheduling::new(&n.config),
            policy: PolicyDriver::new(&n.config, &mut rng),
            extensions: Extensions::new(n.path_estimates),
            fallback_signals: fallback::PendingFallbackSignals::default(),
            numbers: numbers::Numbers::default(),
            cut_off: None,
            paths: Box::new(Paths::new(n.local, n.remote, n.addresses, n.outside)),
            rng,
            outbox: Outbox::default(),
            connected: false,
            teardown: Teardown::default(),
            dscp: 0,
            timers: Timers::new(now),
            memory: memory::Memory::new(now),
            counters: info::DataCounters::default(),
            steps: Steps::default(),
            ended: ended::Ended::default(),
            stack: StackMarks::default(),
            config: n.config,
        };
        this.subflows.push(subflow);
        if let Some(syn) = syn {
            this.answer_capable(syn);
            this.agree_on_extensions(syn);
        }
        this
    }

    /// The join of subflow `i` is established.
    fn on_subflow_up(&mut self, now: Instant, i: usize) {
        match self.role {
            Role::Client => self.counters.subflows_opened += 1,
            Role::Server => self.counters.subflows_accepted += 1,
        }
        let sf = &mut self.subflows[i];
        sf.reported_established = true;
        let (id, local, remote) = (sf.id, sf.local, sf.remote);
        self.paths.up(now, local, remote);
        self.judge_others(now, id);
        self.on_further_subflow(id);
        self.leave_stranded(now, id);
        self.answer_fins();
        self.review_cut_off();
        self.outbox.push_event(ConnectionEvent::SubflowUp(id));
    }

    /// Whether MPTCP is in use (handshake done, not fallen back).
    pub(crate) fn is_multipath(&self) -> bool {
        self.mp.as_ref().is_some_and(|m| m.negotiated)
    }

    /// Whether a client may open further subflows.
    fn may_join(&self) -> bool {
        self.multipath()
            .is_some_and(|m| m.confirmed || m.early_joins)
    }

    fn multipath(&self) -> Option<&MpState> {
        self.mp.as_ref().filter(|m| m.negotiated)
    }

    fn index(&self, id: SubflowId) -> Option<usize> {
        self.subflows.position_of(id)
    }

    /// Whether the peer's window blocks data: the rest of the window is too small for the next segment.
    pub(super) fn window_blocks(&mut self) -> bool {
        let mss = self.subflows.overview().least_mss().map_or(1, u64::from);
        self.send.window() < self.send.unsent_bytes().min(mss)
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

    /// Whether nothing is left to do. The stack may then drop the connection once the application has released
    /// it.
    pub(crate) fn is_over(&self) -> bool {
        self.teardown.closed.is_some() && self.subflows.is_empty() && self.outbox.packets.is_empty()
    }

    /// Whether [`Self::next_wanted`] may return a subflow or have other work to do.
    #[inline]
    pub(crate) fn may_want(&self) -> bool {
        self.mp.is_some() || self.extensions.scatter.is_on()
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
        !self.connected && self.teardown.closed.is_none()
    }
}

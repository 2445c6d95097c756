//! The host stack: demultiplexing, listeners, keys and tokens, timers over all connections.
//!
//! [`Stack`] is sans-IO: segments and the time come in, segments and events go out.

mod accept;
mod account;
mod admission;
mod cookie;
mod counters;
mod event;
mod handover;
mod hashes;
mod local_addresses;
mod message;
mod path_memory;
mod path_mtu;
mod ports;
mod prefetch;
mod race;
mod reach;
mod ready;
mod resets;
mod sources;
mod table;
mod time_wait;
mod timers;

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use spindle_units::Instant;
use spindle_wire::{CodedPacket, Endpoint, Flags, Packet, Payload, Segment};

use account::Account;
pub use counters::{RepairTimes, StackCounters};
pub use event::{Event, StackError};
pub use path_memory::{LossShare, PathHistory, network_of};
pub use prefetch::Expected;
use sources::Sources;
pub use table::Handle;
use table::{FourTuple, Keyed, Table};

use crate::config::Config;
use crate::connection::info::ConnectionInfo;
use crate::connection::memory::Pressure;
use crate::connection::trace::TraceEvent;
use crate::connection::{Connection, NewConnection, Role, Wanted};
use crate::keys;
use crate::secrets::{Generator, Generators, Label, Secrets};
use crate::stage::coding::PathEstimates;
use crate::stage::coding::estimator::Periods;
use crate::types::{DataOffset, LocalAddress, SubflowId};
use hashes::KeyedHashes;
use path_memory::PathMemory;
use ports::Ports;
use ready::Ready;
use resets::ResetLimit;
use timers::Timers;

/// A listening endpoint's identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListenerId(u32);

/// The configuration of a stack.
#[derive(Clone, Debug)]
pub struct StackConfig {
    /// Most connections, without those of which only TIME_WAIT is left. Further SYNs are refused with RST.
    pub max_connections: usize,
    /// Most connections in TIME_WAIT. Beyond this limit the oldest are forgotten early.
    pub max_time_wait: usize,
    /// Most half-open connections. Further SYNs are answered with a cookie, for which nothing is stored here
    /// (RFC 4987, section 3.6).
    pub max_half_open: usize,
    /// Most joins of peers whose third ACK is missing, over all connections. Each connection may have as many
    /// of them as it plans subflows, and at least four. Further joins are reset for lack of resources (RFC
    /// 8684, section 3.6).
    pub max_half_open_joins: usize,
    /// Bytes of memory beyond which new connections are refused with RST, and connections that store data
    /// accept no more. What counts is what connections store ([`Stack::buffered`]), 8 KiB for each connection,
    /// 6 KiB for each connection in TIME_WAIT, 4 KiB for each further subflow, and what the driver holds
    /// ([`Stack::set_outside`]).
    ///
    /// From seven eighths of the limit on, no window is opened further, send buffers accept no more than 64
    /// KiB, and memory is freed until a quarter is free. The oldest connections in TIME_WAIT are forgotten
    /// first. Then connections that hold data and made no progress for two seconds are ended
    /// ([`CloseReason::MemoryPressure`](crate::CloseReason::MemoryPressure)), those that hold most for longest
    /// first. If the limit is reached, idle connections of sources that hold more than their share are ended
    /// too. No limit by default.
    pub max_memory: u64,
    /// The part of `max_connections`, `max_half_open` and `max_memory`, in per cent, that one source may take
    /// once half of the limit is in use; 1 to 100. Beyond this share, the source's connections are refused with
    /// RST, its SYNs are answered with cookies, and memory is short for its connections alone. A half-open
    /// connection counts only as half-open, so that a forged SYN does not use up the connections that its
    /// source may have established. A source is an IPv4 address or an IPv6 network.
    ///
    /// 25 by default. This is less than half, so that no two sources take everything, and more than a site
    /// behind one address needs if the limit suits the service.
    pub source_share: u8,
    /// The number of leading bits of an IPv6 address that identify a source. 64 by default, because a host may
    /// use all addresses of such a network (RFC 4291, section 2.5.1).
    pub source_prefix: u8,
    /// Further local addresses, beyond the one a connection starts from, that the path manager may
    /// use. [`Stack::set_local_addresses`] replaces them.
    pub addresses: Vec<IpAddr>,
    /// Local addresses that a NAT in front of this host translates: pairs of inside and outside address, with
    /// each inside address once. The outside address is announced to peers.
    pub outside: Vec<(IpAddr, IpAddr)>,
    /// The number of paths that the stack remembers for ten minutes (RFC 9040, section 6). For each local address and host of
    /// a peer it is the last congestion window of a subflow: the next one starts with it, at most 40 segments. What the
    /// controller measured of the path ([`PathMeasurements`](crate::congestion::PathMeasurements)) is used by subflows that
    /// begin within 10 s, its round-trip time also for other hosts of the network until it proves wrong. For each local address
    /// and network of peers it is what [`PathHistory`] contains: the timers of SYNs and SYN/ACKs expire after the timeout that
    /// the round-trip time gives, and policies and controllers begin with the losses. 0, the default, remembers nothing.
    pub remembered_paths: usize,
}

/// Each takes a few kilobytes: 100 MB at worst.
const MAX_TIME_WAIT: usize = 1 << 14;

impl Default for StackConfig {
    fn default() -> Self {
        Self {
            max_connections: 1 << 16,
            max_time_wait: MAX_TIME_WAIT,
            max_half_open: 4096,
            max_half_open_joins: 1024,
            max_memory: u64::MAX,
            source_share: 25,
            source_prefix: 64,
            addresses: Vec::new(),
            outside: Vec::new(),
            remembered_paths: 0,
        }
    }
}

#[derive(Debug)]
struct Listener {
    local: Endpoint,
    config: Arc<Config>,
    open: bool,
}

/// A host's transport stack: its connections, listeners and timers.
///
/// It does no input or output and has no clock. The program that owns it passes in what arrives
/// ([`Self::receive`]), calls [`Self::timeout`] when [`Self::next_timeout`] has come, sends what
/// [`Self::transmit`] returns, and reads [`Self::poll_event`]. Calls that depend on time get the current time.
// Fields that no segment of an established connection needs are boxed, because simulations prefetch the stack
// for each segment.
#[derive(Debug)]
pub struct Stack {
    config: StackConfig,
    hashes: Box<KeyedHashes>,
    /// Draws MPTCP keys.
    keys: Generator,
    /// The generators of random numbers for connections.
    generators: Generators,
    ports: Box<Ports>,
    table: Table,
    listeners: Vec<Listener>,
    /// [`StackConfig::outside`], shared with the connections.
    outside: Arc<[(IpAddr, IpAddr)]>,
    events: VecDeque<Event>,
    ready: Ready,
    timers: Timers,
    /// Connections in TIME_WAIT, the oldest first. Handles of connections that no longer exist are dropped when
    /// they are reached.
    time_wait: VecDeque<Handle>,
    stateless: VecDeque<Packet>,
    resets: ResetLimit,
    opened: u64,
    /// What is known about the paths to peers (CAPS).
    path_estimates: PathEstimates,
    /// What former subflows learnt about their paths.
    path_memory: Box<PathMemory>,
    half_open: usize,
    half_open_joins: usize,
    account: Account,
    /// Until when cookies that were sent may come back.
    cookies_until: Option<Instant>,
    /// Counters of connections that no longer exist, and of segments of no connection.
    counters: Box<StackCounters>,
    /// The survey in progress. It is boxed because simulations, which have a stack for each host, never make
    /// one.
    survey: Option<Box<counters::Survey>>,
    /// [`StackConfig::addresses`], or what replaced them.
    local_addresses: Vec<LocalAddress>,
}

/// Most answers to segments of no connection that wait for transmission. Further answers are dropped.
const MAX_STATELESS: usize = 1024;

impl Stack {
    /// Creates an empty stack. Its keys, initial sequence numbers, nonces, ports, cookies and timestamps come
    /// from `seed`, which must be random and secret: 256 bits from the operating system, drawn for this stack
    /// alone. Each use has its own key, derived from the seed. Numbers that leave the host come from ChaCha20
    /// or from keyed hashes.
    pub fn new(config: StackConfig, seed: [u8; 32]) -> Self {
        Self::from_secrets(config, &Secrets::System(seed))
    }

    /// Creates an empty stack for simulations and tests: the same `seed` and the same calls give the same
    /// segments. An observer of some of them can compute the keys of all others, so such a stack must not be
    /// connected to a network that others can reach.
    pub fn deterministic(config: StackConfig, seed: u64) -> Self {
        Self::from_secrets(config, &Secrets::Simulation(seed))
    }

    fn from_secrets(config: StackConfig, secrets: &Secrets) -> Self {
        let keyed = Keyed::new(secrets.sip_key(Label::Table));
        let sources = Sources::new(keyed, config.source_share, config.source_prefix);
        let account = Account::new(config.max_memory, sources);
        Self {
            table: Table::new(keyed),
            hashes: Box::new(KeyedHashes::new(secrets)),
            keys: secrets.generators(Label::MptcpKeys).generator(0),
            generators: secrets.generators(Label::Connections),
            ports: Box::new(Ports::new(secrets)),
            outside: config.outside.clone().into(),
            local_addresses: config.addresses.iter().copied().map(Into::into).collect(),
            path_memory: Box::new(PathMemory::new(keyed, config.remembered_paths)),
            config,
            listeners: Vec::new(),
            events: VecDeque::new(),
            ready: Ready::default(),
            timers: Timers::default(),
            time_wait: VecDeque::new(),
            stateless: VecDeque::new(),
            resets: ResetLimit::new(secrets.generators(Label::ResetCosts).generator(0)),
            opened: 0,
            path_estimates: PathEstimates::default(),
            half_open: 0,
            half_open_joins: 0,
            account,
            cookies_until: None,
            counters: Box::default(),
            survey: None,
        }
    }

    /// Accepts connections to `local` with this configuration. An unspecified address means any address.
    ///
    /// # Errors
    /// [`StackError::AddressInUse`] if there is a listener already.
    pub fn listen(
        &mut self,
        local: Endpoint,
        config: Arc<Config>,
    ) -> Result<ListenerId, StackError> {
        if self.listeners.iter().any(|l| l.open && l.local == local) {
            return Err(StackError::AddressInUse(local));
        }
        self.listeners.push(Listener {
            local,
            config,
            open: true,
        });
        Ok(ListenerId(self.listeners.len() as u32 - 1))
    }

    /// Stops accepting connections. Existing connections go on.
    pub fn stop_listening(&mut self, id: ListenerId) {
        if let Some(l) = self.listeners.get_mut(id.0 as usize) {
            l.open = false;
        }
    }

    /// Opens a connection from `local` to `remote`. If the port of `local` is 0, the stack chooses one.
    ///
    /// # Errors
    /// [`StackError::NotOneHost`] if `remote` is an unspecified or multicast address or the limited broadcast
    /// address (RFC 9293, section 3.9.1.1, MUST-46), [`StackError::AddressInUse`] if these two endpoints are
    /// connected already, [`StackError::NoPorts`] if no local port is free, [`StackError::TooManyConnections`]
    /// or [`StackError::NoMemory`] at the limits.
    pub fn connect(
        &mut self,
        now: Instant,
        local: Endpoint,
        remote: Endpoint,
        config: Arc<Config>,
    ) -> Result<Handle, StackError> {
        if !accept::is_one_host(remote.addr) {
            return Err(StackError::NotOneHost(remote.addr));
        }
        if self.table.live() >= self.config.max_connections {
            return Err(StackError::TooManyConnections(self.config.max_connections));
        }
        if !self.make_room(now) {
            return Err(StackError::NoMemory(self.config.max_memory));
        }
        self.opened += 1;
        let ordinal = self.opened;
        let local = self.choose_port(local, remote, ordinal, 0)?;
        let key = config.multipath.is_some().then(|| self.fresh_key());
        let initial = self.hashes.initial_numbers(now, local, remote);
        let new = NewConnection {
            path_estimates: self.path_estimates.clone(),
            config,
            role: Role::Client,
            local,
            remote,
            initial,
            key,
            rng: self.generators.generator(ordinal),
            addresses: self.addresses(),
            outside: self.outside.clone(),
        };
        let mut connection = Connection::new(now, new, None);
        connection.mark_backups(&self.local_addresses);
        self.path_memory
            .prepare(now, &mut connection, SubflowId::FIRST);
        let handle = self.table.insert(connection, ordinal, None, None);
        self.table
            .bind((local, remote), handle.slot, SubflowId::FIRST);
        self.half_open += 1;
        self.race(now, handle.slot);
        self.touch(now, handle.slot);
        Ok(handle)
    }

    /// A key whose token is not in use (RFC 8684, section 3.1).
    fn fresh_key(&mut self) -> u64 {
        loop {
            let key = self.keys.next_u64();
            if !self.table.has_token(keys::token(key)) {
                return key;
            }
        }
    }

    /// Processes a packet from the wire: a segment, or a packet of the coding layer.
    #[inline]
    pub fn receive(&mut self, now: Instant, packet: impl Into<Packet>) {
        self.receive_in_place(now, &mut packet.into());
    }

    /// Like [`Self::receive`], for callers that keep packets in place. The contents of `packet` are
    /// unspecified afterwards.
    pub fn receive_in_place(&mut self, now: Instant, packet: &mut Packet) {
        let segment = match packet {
            Packet::Tcp(segment) => segment,
            Packet::Coded(packet) => {
                self.receive_coded(now, packet);
                return;
            }
        };
        if let Some((slot, i)) = self.scattered(segment) {
            self.deliver(now, slot, i, segment);
            return;
        }
        match self.find_subflow(&(segment.dst, segment.src)) {
            Some((slot, i)) => self.deliver(now, slot, i, segment),
            None => self.on_stray(now, segment),
        }
    }

    /// The connection with this tuple, and the index of the subflow.
    #[inline]
    fn find_subflow(&mut self, tuple: &FourTuple) -> Option<(u32, usize)> {
        let (slot, subflow) = self.table.find(tuple)?;
        let connection = self.table.connection(slot);
        let found = connection.and_then(|c| c.position_of(subflow, tuple));
        if found.is_none() {
            self.table.unbind(tuple);
        }
        found.map(|i| (slot, i))
    }

    /// Processes a packet of the coding layer. If it belongs to no connection, it is ignored. TCP does not reset
    /// it, because it may be a redundant packet of a unit that arrives late.
    #[inline(never)] // only with coding
    fn receive_coded(&mut self, now: Instant, packet: &CodedPacket) {
        let Some((slot, i)) = self.find_subflow(&(packet.dst, packet.src)) else {
            self.counters.unknown_segments += 1;
            return;
        };
        let accepting = self.table.is_half_open(slot) && self.table.source(slot).is_some();
        self.press_if_stale(slot);
        if let Some(c) = self.table.connection_mut(slot) {
            c.receive_coded(now, i, packet);
        }
        self.touch(now, slot);
        // A decoded segment may have completed the handshake.
        if accepting && !self.table.is_half_open(slot) {
            self.promise(now);
        }
    }

    /// The connection of a segment with a connection's token, and the index of the subflow. The segment's
    /// source becomes that subflow's remote endpoint, because the ports of a scattered segment only select its
    /// path. The segment must come from the peer's own address, and both ends must have agreed on scattering.
    fn scattered(&mut self, segment: &mut Segment) -> Option<(u32, usize)> {
        let slot = self.table.by_token(segment.options.token?.get())?;
        let c = self.table.connection(slot)?;
        let i = c.takes_scattered(segment)?;
        segment.src = c.subflows[i].remote;
        Some((slot, i))
    }

    /// Reports that a packet from [`Self::transmit`] will have left the host's egress queue at `leaves`. Only
    /// configurations with an `output_limit` need this.
    pub fn handed_over(&mut self, packet: &Packet, leaves: Instant) {
        if packet.payload().is_empty() {
            return;
        }
        let tuple: FourTuple = (packet.src(), packet.dst());
        let known = self.table.find(&tuple);
        let Some((slot, subflow)) = known else {
            return;
        };
        if let Some(c) = self.table.connection_mut(slot)
            && let Some(i) = c.position_of(subflow, &tuple)
        {
            c.subflows[i]
                .tx
                .on_handed_over(packet.payload().len() as u64, leaves);
        }
    }

    /// Reports that the network dropped a packet which this stack had sent. Only a simulation can know this.
    /// Returns the packet that must be sent in its place at once, if the connection's recovery needs to be
    /// notified of drops ([`crate::recovery::Capabilities::drops`]).
    pub fn dropped(&mut self, now: Instant, packet: &Packet) -> Option<Packet> {
        let tuple: FourTuple = (packet.src(), packet.dst());
        let (slot, subflow) = self.table.lookup(&tuple)?;
        let c = self.table.connection_mut(slot)?;
        let i = c.position_of(subflow, &tuple)?;
        let repair = c.on_drop(now, i, packet)?;
        self.touch(now, slot);
        Some(repair)
    }

    fn deliver(&mut self, now: Instant, slot: u32, i: usize, segment: &Segment) {
        if segment.flags.contains(Flags::SYN) && self.leaves_time_wait(now, slot, i, segment) {
            return;
        }
        if self.table.is_half_open(slot) {
            self.deliver_half_open(now, slot, i, segment);
            return;
        }
        self.hand_over(now, slot, i, segment);
    }

    /// Delivers a segment to a connection whose handshake is going on.
    #[cold] // the handshake
    fn deliver_half_open(&mut self, now: Instant, slot: u32, i: usize, segment: &Segment) {
        let accepted = self.table.source(slot).is_some();
        if accepted && self.comes_too_late(now, slot, segment) {
            return;
        }
        self.hand_over(now, slot, i, segment);
        if !accepted {
            self.table.rebind(slot);
        } else if !self.table.is_half_open(slot) {
            self.promise(now);
        }
    }

    #[inline]
    fn hand_over(&mut self, now: Instant, slot: u32, i: usize, segment: &Segment) {
        self.press_if_stale(slot);
        if let Some(c) = self.table.connection_mut(slot) {
            c.receive(now, i, segment);
        }
        self.touch(now, slot);
    }

    /// Returns the next packet for the wire. Call this until it returns `None`, after every call that may
    /// cause a transmission.
    pub fn transmit(&mut self, now: Instant) -> Option<Packet> {
        let mut next = Packet::blank();
        self.transmit_in_place(now, &mut next).then_some(next)
    }

    /// Like [`Self::transmit`], for callers that keep packets in place. Replaces `next` by the next packet
    /// and returns whether there is one. If there is none, the contents of `next` are unspecified.
    pub fn transmit_in_place(&mut self, now: Instant, next: &mut Packet) -> bool {
        let found = self.next_packet(now, next);
        if found && next.tcp().is_some_and(|s| s.flags.contains(Flags::RST)) {
            self.counters.resets_sent += 1;
        }
        found
    }

    fn next_packet(&mut self, now: Instant, next: &mut Packet) -> bool {
        if !self.stateless.is_empty()
            && let Some(packet) = self.stateless.pop_front()
        {
            *next = packet;
            return true;
        }
        while let Some(slot) = self.ready.first() {
            let Some(c) = self.table.connection_mut(slot) else {
                self.ready.remove_first();
                continue;
            };
            if c.transmit_in_place(now, next) {
                self.ready.on_sent(next.piece_count());
                return true;
            }
            if c.take_pending_joins() {
                self.open_wanted(now, slot);
                continue;
            }
            c.stack.queued = false;
            self.ready.remove_first();
            self.rearm(slot);
            self.collect(now, slot);
        }
        false
    }

    /// Returns the next event for the application.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Gives data to a connection, and returns how many bytes its send buffer accepted. If it accepted fewer
    /// bytes than offered, [`Event::Writable`] follows when there is room again. After [`Self::shutdown`] it
    /// accepts none.
    ///
    /// # Errors
    /// [`StackError::NotConnected`] if there is no such connection, or it has ended.
    pub fn send(&mut self, now: Instant, h: Handle, data: Payload) -> Result<usize, StackError> {
        self.press_if_stale(h.slot);
        let c = self.table.get_mut(h).ok_or(StackError::NotConnected)?;
        if c.teardown.closed.is_some() {
            return Err(StackError::NotConnected);
        }
        let n = c.write(now, data);
        self.touch(now, h.slot);
        Ok(n)
    }

    /// Sends an acknowledgement at once, even if none is due. Under MPTCP it shows a client that its key has
    /// arrived, so that the client may open further subflows before it has sent any data (RFC 8684, sections
    /// 3.1 and 3.2).
    pub fn acknowledge(&mut self, now: Instant, h: Handle) {
        if let Some(sf) = self.table.get_mut(h).and_then(|c| c.subflows.first_mut()) {
            sf.rx.ack_now = true;
            self.touch(now, h.slot);
        }
    }

    /// Reports whether the application will soon send more, like a proxy while its service answers. This counts
    /// as new data, so that proactive recovery waits (FUSO section 4.1). [`Self::close`], [`Self::shutdown`] or
    /// `false` end it.
    pub fn expect_more(&mut self, now: Instant, h: Handle, more: bool) {
        if let Some(c) = self.table.get_mut(h) {
            c.expect_more(more);
            self.touch(now, h.slot);
        }
    }

    /// Declares where a message ends: after `bytes` more bytes than were [sent](Self::send) so far. Schedulers
    /// may use it ([`View::message_left`](crate::scheduler::View::message_left)). Several messages may be
    /// declared ahead, in ascending order of their ends. An end that is not beyond the last declared one is
    /// ignored.
    pub fn message_ends_after(&mut self, h: Handle, bytes: u64) {
        if let Some(c) = self.table.get_mut(h) {
            c.message_ends_after(bytes);
        }
    }

    /// Reports that the application has given up the rest of a partial write, so that no more new data are
    /// expected.
    pub fn forget_blocked_write(&mut self, h: Handle) {
        if let Some(c) = self.table.get_mut(h) {
            c.forget_blocked_writer();
        }
    }

    /// Requests one [`Event::Acknowledged`] for when the peer has acknowledged all data before `offset` at the
    /// data level. If it has already, the event follows at once. The request replaces an earlier one.
    pub fn watch_acknowledged(&mut self, now: Instant, h: Handle, offset: DataOffset) {
        if let Some(c) = self.table.get_mut(h) {
            c.watch_acknowledged(offset);
            self.touch(now, h.slot);
        }
    }

    /// Bytes that the send buffer accepts now.
    pub fn writable(&self, h: Handle) -> usize {
        self.table.get(h).map_or(0, Connection::writable)
    }

    /// Returns the next in-order bytes, at most `max`, or `None` if there are none now.
    ///
    /// # Errors
    /// [`StackError::NotConnected`] if there is no such connection.
    pub fn recv(
        &mut self,
        now: Instant,
        h: Handle,
        max: usize,
    ) -> Result<Option<Payload>, StackError> {
        let c = self.table.get_mut(h).ok_or(StackError::NotConnected)?;
        let piece = c.read(now, max);
        match (&piece, c.has_window_update()) {
            (None, _) => {}
            (Some(_), true) => self.touch(now, h.slot),
            (Some(_), false) => self.collect(now, h.slot),
        }
        Ok(piece)
    }

    /// Bytes that [`Self::recv`] would return now.
    pub fn readable(&self, h: Handle) -> u64 {
        self.table.get(h).map_or(0, Connection::readable)
    }

    /// Whether the peer has closed and everything has been read.
    pub fn at_end(&self, h: Handle) -> bool {
        self.table.get(h).is_none_or(Connection::at_end)
    }

    /// Ends sending. Data that were given before are still delivered. The connection stays known after its end,
    /// until [`Self::close`].
    pub fn shutdown(&mut self, now: Instant, h: Handle) {
        if let Some(c) = self.table.get_mut(h) {
            c.close();
            self.touch(now, h.slot);
        }
    }

    /// Ends sending and releases the connection. Data that were given before are still delivered. The
    /// connection is forgotten once it has ended.
    pub fn close(&mut self, now: Instant, h: Handle) {
        if let Some(c) = self.table.get_mut(h) {
            c.release(now);
            self.touch(now, h.slot);
        }
    }

    /// Ends the connection at once: RST, with MP_FASTCLOSE under MPTCP.
    pub fn abort(&mut self, now: Instant, h: Handle) {
        if let Some(c) = self.table.get_mut(h) {
            c.abort(now, crate::connection::CloseReason::Aborted);
            c.teardown.released = true;
            self.touch(now, h.slot);
        }
    }

    /// Announces a further local address to the peer (ADD_ADDR). `addr` is the address as the peer sees it
    /// ([`StackConfig::outside`]). `port` is given if the address listens on another port than the
    /// connection's. Returns whether the address is announced. It is not announced on a connection without
    /// MPTCP, or if all 256 address identifiers are in use.
    pub fn announce_address(
        &mut self,
        now: Instant,
        h: Handle,
        addr: IpAddr,
        port: Option<u16>,
    ) -> bool {
        let announced = self
            .table
            .get_mut(h)
            .is_some_and(|c| c.announce(addr, port));
        if announced {
            self.touch(now, h.slot);
        }
        announced
    }

    /// Withdraws a local address, given as the peer sees it, from the peer (REMOVE_ADDR) and closes its
    /// subflows.
    pub fn withdraw_address(&mut self, now: Instant, h: Handle, addr: IpAddr) {
        if let Some(c) = self.table.get_mut(h) {
            c.withdraw(now, addr);
            self.touch(now, h.slot);
        }
    }

    /// Asks the peer to use a subflow as backup only, or no longer (MP_PRIO).
    pub fn set_backup(&mut self, now: Instant, h: Handle, subflow: SubflowId, backup: bool) {
        if let Some(c) = self.table.get_mut(h) {
            c.set_backup(subflow, backup);
            self.touch(now, h.slot);
        }
    }

    /// Sets the code point of everything that this end of the connection sends from now on, like the socket
    /// options IP_TOS and IPV6_TCLASS. It is the differentiated services code point, 0 to 63, without the ECN
    /// bits (RFC 2474, section 3). Of a larger number the lower six bits count. 0, the initial value, is the
    /// default forwarding behaviour, and does not change what a scattering configuration marks itself.
    ///
    /// If it is set right after [`Self::connect`], the SYN has it too. The peer's end has its own code point.
    /// Its application cannot set it before [`Event::Accepted`], so its SYN/ACK has none.
    pub fn set_dscp(&mut self, h: Handle, dscp: u8) {
        if let Some(c) = self.table.get_mut(h) {
            c.dscp = dscp & 0x3f;
        }
    }

    /// The state of a connection and its subflows.
    pub fn info(&self, h: Handle) -> Option<ConnectionInfo> {
        self.table.get(h).map(Connection::info)
    }

    /// Sending totals of a connection: cheaper than [`Self::info`].
    pub fn totals(&self, h: Handle) -> Option<crate::SendCounters> {
        self.table.get(h).map(Connection::totals)
    }

    /// Starts or stops recording what a connection does.
    pub fn set_trace(&mut self, h: Handle, on: bool) {
        if let Some(c) = self.table.get_mut(h) {
            c.outbox.trace.on = on;
        }
    }

    /// Returns what was recorded since the last call.
    pub fn take_trace(&mut self, h: Handle) -> Vec<TraceEvent> {
        self.table
            .get_mut(h)
            .map(|c| std::mem::take(&mut c.outbox.trace.events))
            .unwrap_or_default()
    }

    /// The counters since the stack began, over existing and former connections.
    pub fn counters(&self) -> StackCounters {
        let mut total = (*self.counters).clone();
        let live = self.table.handles().filter_map(|h| self.table.get(h));
        live.for_each(|c| total.add(c));
        total
    }

    /// Like [`Self::counters`], but in parts. Each call visits up to `most` connections, and the call that
    /// visits the last one returns the totals. Connections that open in the meantime may be missing.
    pub fn survey_counters(&mut self, most: u32) -> Option<StackCounters> {
        let survey = self.survey.get_or_insert_default();
        let totals = survey.go_on(&self.table, most, &mut self.counters);
        if totals.is_some() {
            self.survey = None;
        }
        totals
    }

    /// Totals of the sampling periods on the paths to peers, as far as the stack still keeps estimates for
    /// these paths. They are zero without coding.
    pub fn coding_periods(&self) -> Periods {
        self.path_estimates.periods()
    }

    /// Congestion window and size of a full segment, in bytes, of the subflow from `local` to `remote`.
    pub fn window(&self, local: Endpoint, remote: Endpoint) -> Option<(u64, u64)> {
        let (slot, _) = self.table.lookup(&(local, remote))?;
        let mut subflows = self.table.connection(slot)?.subflows.iter();
        let subflow = subflows.find(|s| s.local == local && s.remote == remote)?;
        Some((subflow.tx.cc.cwnd(), subflow.tx.mss))
    }

    /// Connections whose handshake is going on.
    pub fn half_open(&self) -> usize {
        self.half_open
    }

    /// All connections, including those in TIME_WAIT.
    pub fn handles(&self) -> impl Iterator<Item = Handle> {
        self.table.handles()
    }

    /// Must be called after anything happened to a connection. Opens the subflows that its path manager
    /// requests, collects its events, and queues it for transmission, after which its timer is set.
    fn touch(&mut self, now: Instant, slot: u32) {
        let wants = self.table.connection(slot).is_some_and(|c| c.may_want());
        if wants {
            self.open_wanted(now, slot);
        }
        if let Some(c) = self.table.connection_mut(slot)
            && !std::mem::replace(&mut c.stack.queued, true)
        {
            self.ready.push(slot);
        }
        self.collect(now, slot);
    }

    #[inline(never)] // only under MPTCP
    fn open_wanted(&mut self, now: Instant, slot: u32) {
        while let Some(w) = self
            .table
            .connection_mut(slot)
            .and_then(|c| c.next_wanted(now))
        {
            if !self.open_subflow(now, slot, &w) {
                if let Some(c) = self.table.connection_mut(slot) {
                    c.on_late_subflow();
                }
                return;
            }
        }
    }

    fn open_subflow(&mut self, now: Instant, slot: u32, w: &Wanted) -> bool {
        let ordinal = self.table.ordinal(slot);
        let next = self.table.connection(slot).map_or(0, |c| {
            let next = c.subflows.len() as u8;
            // The path of a rival may be joined before the peer knows that the rival lost the race.
            if c.is_half_open() {
                ports::of_rival(next)
            } else {
                next
            }
        });
        let local = Endpoint::new(w.local, 0);
        let Ok(local) = self.choose_port(local, w.remote, ordinal, next) else {
            return false;
        };
        let initial = self.hashes.initial_numbers(now, local, w.remote);
        let Some(c) = self.table.connection_mut(slot) else {
            return false;
        };
        let opened = match c.is_half_open() {
            true => c.add_rival(now, local, w.remote, initial),
            false => c.join(now, local, w.remote, w.address_ids, initial),
        };
        if !opened {
            return false;
        }
        let id = c.subflows.last().map_or(SubflowId::FIRST, |s| s.id);
        self.path_memory.prepare(now, c, id);
        self.table.bind((local, w.remote), slot, id);
        true
    }

    /// Collects a connection's events for the application, and updates the stack's totals.
    fn collect(&mut self, now: Instant, slot: u32) {
        let Some(entry) = self.table.slot_mut(slot) else {
            return;
        };
        let (handle, listener) = (entry.handle(slot), entry.listener);
        let Some(c) = entry.connection.as_deref_mut() else {
            return;
        };
        let mut settled = false;
        while let Some(happened) = c.next_event() {
            if happened.is_rare() {
                settled |= self.counters.settled(happened, c.role);
                self.path_memory.on_event(now, c, happened);
            }
            if let Some(event) = event::from_connection_event(handle, listener, happened) {
                self.events.push_back(event);
            }
        }
        for took in c.outbox.repair_times.drain(..) {
            self.counters.repair_times.add(took);
        }
        let token = c.mp.as_ref().map(|m| m.token_local);
        let renamed = entry.token != token || entry.tuples.len() > c.subflows.len();
        let half_open = settled && c.is_half_open();
        let holds = (c.half_open_joins(), c.buffered());
        let memory_pressure = self.account.is_limited() && c.pressure() > Pressure::None;
        let before = std::mem::replace(&mut entry.booked, holds);
        let done = c.teardown.closed.is_some() && c.teardown.released && c.readable() == 0;
        let over = done && c.is_over();
        if settled && self.table.settle(slot, half_open, &mut self.half_open) {
            self.account.sources.settle(self.table.source(slot));
            if self.account.is_limited() {
                self.judge_source(slot);
            }
        }
        if renamed {
            self.table.set_token(slot, token);
            self.table.prune(slot);
        }
        if holds != before || memory_pressure {
            self.account_for(slot, before, holds);
        }
        if over {
            self.forget(slot);
        } else if done {
            self.rest(slot);
        }
    }

    fn forget(&mut self, slot: u32) {
        let source = self.table.source(slot);
        if self.table.settle(slot, false, &mut self.half_open) {
            self.account.sources.settle(source);
        }
        let mut outside = 0;
        if let Some(c) = self.table.connection(slot) {
            outside = c.outside() + c.overhead();
        }
        if let Some(c) = self.table.connection(slot)
            && !self.survey.as_mut().is_some_and(|s| s.takes(slot, c))
        {
            self.counters.add(c);
            self.counters.closed += 1;
        }
        let before = self.table.unbook(slot);
        self.account.sources.hold(source, outside, 0);
        self.account_for(slot, before, (0, 0));
        self.timers.clear(slot);
        self.account.sources.forget(source, self.table.rests(slot));
        self.table.remove(slot);
    }
}

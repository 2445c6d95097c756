//! The client's end: a UDP socket for each subflow.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use polling::{Event, PollMode, Poller};
use spindle_mptcp::PathError;
use spindle_units::{Duration, Instant};
use spindle_wire::{Ecn, EncapsulationHeader, EncapsulationKind, Endpoint, Flags, Packet};

use super::bindings::Bindings;
use super::common::{Output, Secret, Timers};
use super::keepalive::{Mappings, NatKeepalive};
use super::merge::{self, Merge};
use super::path::{BURST, Path};
use super::pool::{self, Extra, Pool, Pools};
use super::socket::{Buffers, PathFailure, Socket, is_no_route};
use super::{UdpCounters, clamp_mss, is_scattered, mss_for, payload_for};
use crate::error::NetError;
use crate::file_limit::raise_file_limit;
use crate::link::{Arrival, FIRST_KEY, Link, LinkCounters, LocalPath};

/// How long the socket of a subflow that ended is kept. 2 MSL of RFC 9293 is 4 minutes. A later segment opens
/// the socket again.
const LINGER: Duration = Duration::from_secs(30);
/// How often to search for old sockets.
const SWEEP: Duration = Duration::from_secs(5);
/// File descriptors left for the rest of the process.
const OTHER_FILES: u64 = 64;
/// Most keepalives of one turn.
const KEEPALIVES: usize = 128;

/// Options of a client's end.
#[derive(Clone, Debug)]
pub struct UdpClientOptions {
    /// The peer's UDP port. If it is `None`, segments are sent to the UDP port whose number is that of their TCP
    /// port.
    pub remote_port: Option<u16>,
    /// The interfaces to which sockets of these local addresses must be bound, until
    /// [`Link::set_local_paths`] replaces them.
    pub interfaces: Vec<(IpAddr, String)>,
    /// Whether sockets are bound to the address that the system chooses when they are opened, not to the
    /// subflow's own address. If that address disappears, the sockets are opened again with another address,
    /// which the server sees as a NAT rebinding. Connections live on.
    pub follow_system: bool,
    /// Most bytes of an outer IP packet, at least 1280. The interface's MTU limits it, too.
    pub max_mtu: u16,
    /// Most sockets. The limit of open files may lower this number.
    pub max_sockets: usize,
    /// A socket is closed if nothing was sent or received for this long. The next segment opens a new socket
    /// with the same id.
    pub idle: Duration,
    /// When idle subflows send keepalives, so that NATs keep their mappings. Sockets of live subflows stay open then.
    pub keepalive: NatKeepalive,
}

impl UdpClientOptions {
    /// The defaults, for this UDP port of the peer.
    pub fn new(remote_port: u16) -> Self {
        Self {
            remote_port: Some(remote_port),
            ..Self::default()
        }
    }
}

impl Default for UdpClientOptions {
    /// Segments to the UDP port of the same number, sockets at the subflows' own addresses, outer packets of at
    /// most 1500 bytes, 16 384 sockets, and five minutes until an idle socket is closed.
    fn default() -> Self {
        Self {
            remote_port: None,
            interfaces: Vec::new(),
            follow_system: false,
            max_mtu: 1500,
            max_sockets: 16_384,
            idle: Duration::from_secs(300),
            keepalive: NatKeepalive::Learn,
        }
    }
}

struct Flow {
    path: Path,
    socket: Socket,
    to: SocketAddr,
    dirty: bool,
    /// The further sockets from which its packets are scattered.
    pool: Pool,
}

type Ends = (Endpoint, Endpoint);

/// The link of a client.
pub struct UdpClient {
    options: UdpClientOptions,
    secret: Secret,
    flows: Vec<Option<Flow>>,
    free: Vec<usize>,
    slots: HashMap<Ends, usize>,
    pools: Pools,
    dirty: Vec<usize>,
    poller: Option<Arc<Poller>>,
    buffers: Buffers,
    merge: Merge,
    timers: Timers,
    out: Output,
    udp: UdpCounters,
    next_sweep: Option<Instant>,
    bindings: Bindings,
    mappings: Mappings,
    /// Slots of subflows that have paused for long enough to need a keepalive.
    paused: VecDeque<usize>,
    /// Local addresses from which nothing can be sent, and the reason. Each was logged once.
    failures: HashMap<IpAddr, io::ErrorKind>,
}

impl UdpClient {
    /// A link without any socket yet. Raises the soft limit of open files to the hard limit.
    ///
    /// # Errors
    /// [`NetError::System`] if the system has no randomness.
    pub fn new(mut options: UdpClientOptions) -> Result<Self, NetError> {
        let files = raise_file_limit().saturating_sub(OTHER_FILES).max(1);
        options.max_sockets = options.max_sockets.min(files as usize);
        let bindings = Bindings::new(&options.interfaces, options.follow_system);
        let mappings = Mappings::new(options.keepalive);
        Ok(Self {
            options,
            secret: Secret::new()?,
            flows: Vec::new(),
            free: Vec::new(),
            slots: HashMap::new(),
            pools: Pools::default(),
            dirty: Vec::new(),
            poller: None,
            buffers: Buffers::new(),
            merge: Merge::default(),
            timers: Timers::default(),
            out: Output::default(),
            udp: UdpCounters::default(),
            next_sweep: None,
            bindings,
            mappings,
            paused: VecDeque::new(),
            failures: HashMap::new(),
        })
    }

    /// The slot of a subflow. Opens a socket if the subflow has none.
    fn slot(&mut self, now: Instant, ends: Ends) -> io::Result<usize> {
        if let Some(slot) = self.slots.get(&ends) {
            return Ok(*slot);
        }
        if self.sockets() >= self.options.max_sockets {
            self.sweep(now, Duration::ZERO);
        }
        if self.sockets() >= self.options.max_sockets {
            let text = format!(
                "all {} UDP sockets are in use; raise the limit of open files or max_sockets",
                self.options.max_sockets
            );
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, text));
        }
        let (local, remote) = ends;
        let port = self.options.remote_port.unwrap_or(remote.port);
        let to = SocketAddr::new(remote.addr, port);
        let next = self.free.last().copied().unwrap_or(self.flows.len());
        let socket = self.open(local.addr, to, FIRST_KEY + next)?;
        let most = payload_for(u32::from(self.options.max_mtu), local.addr.is_ipv4());
        let most = socket.payload_limit().map_or(most, |m| m.min(most));
        let slot = self.free.pop().unwrap_or(self.flows.len());
        let id = self.secret.hash(b'i', &ends);
        let mut path = Path::new(now, id, ends, most as u16);
        path.keepalive.at = self.mappings.pause(local.addr, to.ip()).map(|p| now + p);
        self.timers.arm(&mut path, slot as u64);
        let flow = Flow {
            path,
            socket,
            to,
            dirty: false,
            pool: Pool::default(),
        };
        if slot == self.flows.len() {
            self.flows.push(Some(flow));
        } else {
            self.flows[slot] = Some(flow);
        }
        self.slots.insert(ends, slot);
        self.next_sweep.get_or_insert(now + SWEEP);
        Ok(slot)
    }

    /// Number of open sockets.
    fn sockets(&self) -> usize {
        self.slots.len() + self.pools.len()
    }

    /// Opens a socket for a subflow from `local` and adds it to the poller under `key`.
    fn open(&self, local: IpAddr, to: SocketAddr, key: usize) -> io::Result<Socket> {
        let socket = self.bindings.open(local, to)?;
        if let Some(poller) = &self.poller {
            let interest = Event::readable(key);
            // SAFETY: the source is deleted from the poller before it is closed (`close`), or both are dropped
            // together when the data path ends.
            unsafe { poller.add_with_mode(socket.source(), interest, PollMode::Level)? };
        }
        Ok(socket)
    }

    /// Opens a subflow's socket again, because nothing can be sent any more from the address that it is bound
    /// to.
    fn reopen(&mut self, now: Instant, slot: usize) -> io::Result<()> {
        let Some(flow) = self.flows.get(slot).and_then(Option::as_ref) else {
            return Ok(());
        };
        let socket = self.open(flow.path.local.addr, flow.to, FIRST_KEY + slot)?;
        let (pools, poller) = (&mut self.pools, self.poller.as_ref());
        if let Some(flow) = self.flows[slot].as_mut() {
            pools.close(&mut flow.pool, poller);
            flow.pool.used = None;
            flow.path.no_route = false;
            flow.path.search.moved(now);
            let old = std::mem::replace(&mut flow.socket, socket);
            if let Some(poller) = poller {
                // Closing the socket removes it from the poller as well.
                let _ = poller.delete(old.source());
            }
        }
        Ok(())
    }

    /// The slot of a subflow, with a socket from which the system may have a route. If there is none, this is
    /// reported to the stack, and logged once.
    fn ready(&mut self, now: Instant, ends: Ends) -> Option<usize> {
        let local = self.bindings.address(ends.0.addr);
        let opened = self.slot(now, ends).and_then(|slot| {
            let flow = self.flows.get(slot).and_then(Option::as_ref);
            if flow.is_some_and(|f| f.path.no_route) {
                self.reopen(now, slot)?;
            }
            Ok(slot)
        });
        match opened {
            Ok(slot) => {
                if !self.failures.is_empty() && self.failures.remove(&local).is_some() {
                    tracing::info!(%local, "there is a way again");
                }
                Some(slot)
            }
            Err(error) => {
                self.out.counters.dropped_out += 1;
                self.udp.refused += 1;
                if self.failures.insert(local, error.kind()) != Some(error.kind()) {
                    let (local, remote) = ends;
                    tracing::warn!(%error, %local, %remote, "no UDP socket; not logged again until there is one");
                }
                if is_no_route(&error) {
                    let (local, remote) = ends;
                    let why = PathError::NoRoute;
                    self.out
                        .reports
                        .push(Arrival::Unreachable { local, remote, why });
                }
                None
            }
        }
    }

    /// Opens further sockets for a subflow whose packets are scattered. A probe from each informs the server of
    /// its address. If there is not enough room, fewer sockets or none are opened.
    fn scatters(&mut self, now: Instant, slot: usize) {
        let Some(flow) = self.flows.get_mut(slot).and_then(Option::as_mut) else {
            return;
        };
        if flow.pool.used.replace(now).is_some() {
            return;
        }
        let (id, local, to) = (flow.path.id, flow.path.local.addr, flow.to);
        for _ in 0..pool::SOCKETS {
            // The server can cause this, so half of the sockets are reserved for subflows.
            let most = self.options.max_sockets;
            if self.sockets() >= most || self.pools.len() >= most / 2 {
                return;
            }
            let Ok(socket) = self.open(local, to, self.pools.next_key()) else {
                return;
            };
            self.out.scratch.clear();
            let kind = EncapsulationKind::Probe(self.secret.draw());
            EncapsulationHeader { id, kind }.encode(&mut self.out.scratch);
            self.out.message(&socket, (to, None));
            let number = self.pools.add(Extra { slot, socket });
            if let Some(flow) = self.flows[slot].as_mut() {
                flow.pool.members.push(number);
            }
        }
    }

    /// Sends a packet that must be scattered, from any of its subflow's sockets.
    fn scatter(&mut self, now: Instant, slot: usize, packet: Packet) {
        let Some(flow) = self.flows[slot].as_mut() else {
            return;
        };
        let members = &flow.pool.members;
        let drawn = self.secret.draw() as usize % (members.len() + 1);
        let extra = members.get(drawn).and_then(|n| self.pools.get(*n));
        let way = (flow.to, None);
        // Earlier packets are sent from the subflow's own socket.
        self.out.train(now, &mut flow.path, &flow.socket, way);
        let socket = extra.map_or(&flow.socket, |e| &e.socket);
        self.out.packet(now, (&mut flow.path, socket, way), packet);
        self.out.train(now, &mut flow.path, socket, way);
        self.out.reclaim(&mut flow.path);
    }

    fn close(&mut self, slot: usize) {
        let Some(mut flow) = self.flows.get_mut(slot).and_then(Option::take) else {
            return;
        };
        self.timers.disarm(&mut flow.path, slot as u64);
        self.pools.close(&mut flow.pool, self.poller.as_ref());
        if let Some(poller) = &self.poller {
            // Closing the socket removes it from the poller as well.
            let _ = poller.delete(flow.socket.source());
        }
        self.slots.remove(&(flow.path.local, flow.path.remote));
        self.free.push(slot);
    }

    /// Closes idle sockets and those of subflows that ended `linger` ago.
    fn sweep(&mut self, now: Instant, linger: Duration) {
        let idle = self.options.idle;
        let old = |f: &Flow| {
            let quiet = now.since(f.path.used);
            !f.dirty && (quiet >= idle || (f.path.ended() && quiet >= linger))
        };
        let slots = 0..self.flows.len();
        let old: Vec<_> = slots
            .filter(|s| self.flows[*s].as_ref().is_some_and(old))
            .collect();
        for slot in old {
            self.close(slot);
        }
        let (pools, poller) = (&mut self.pools, self.poller.as_ref());
        for flow in self.flows.iter_mut().flatten() {
            if flow.pool.is_idle(now) {
                pools.close(&mut flow.pool, poller);
                flow.pool.used = None;
            }
        }
    }

    /// Processes one datagram.
    fn datagram(
        &mut self,
        now: Instant,
        (slot, extra, outer): (usize, Option<usize>, Ecn),
        datagram: &[u8],
        sink: &mut dyn FnMut(Arrival),
    ) {
        let mut scattered = false;
        let Some(flow) = self.flows.get_mut(slot).and_then(Option::as_mut) else {
            return;
        };
        let header = match EncapsulationHeader::parse(datagram) {
            Ok(h) if h.id == flow.path.id => h,
            _ => {
                self.out.counters.dropped_in += 1;
                return;
            }
        };
        let mut answer = None;
        match header.kind {
            EncapsulationKind::Data(inner) | EncapsulationKind::Coded(inner) => {
                let ends = (flow.path.remote.addr, flow.path.local.addr);
                let read = Ecn::decapsulated(inner, outer)
                    .and_then(|ecn| merge::read(ends, ecn, datagram).ok());
                match read {
                    Some((packet, at))
                        if (packet.src(), packet.dst()) == (flow.path.remote, flow.path.local) =>
                    {
                        flow.path.on_received(now, &packet);
                        scattered = is_scattered(&packet);
                        let mut sink = |p| sink(Arrival::Packet(p));
                        self.merge.push(packet, &datagram[at..], &mut sink);
                    }
                    _ => self.out.counters.dropped_in += 1,
                }
            }
            EncapsulationKind::Challenge(n) => {
                if extra.is_none() {
                    flow.path.challenged(now, &mut self.mappings);
                }
                answer = Some(EncapsulationKind::ChallengeReply(n));
            }
            EncapsulationKind::Probe(number) => {
                let size = datagram.len() as u16;
                flow.path
                    .search
                    .offered(now, size.min(self.options.max_mtu));
                answer = Some(EncapsulationKind::ProbeAck { number, size });
            }
            EncapsulationKind::ProbeAck { number, size } => {
                flow.path.answered(number, &mut self.mappings);
                if flow.path.search.acknowledged(now, number, size) {
                    sink(flow.path.report());
                }
            }
            EncapsulationKind::ChallengeReply(_) => self.out.counters.dropped_in += 1,
        }
        if let Some(kind) = answer {
            self.out.scratch.clear();
            EncapsulationHeader {
                id: header.id,
                kind,
            }
            .encode(&mut self.out.scratch);
            flow.path.sent = now;
            // Answer from the address that the server has asked about.
            let extra = extra.and_then(|n| self.pools.get(n));
            let socket = extra.map_or(&flow.socket, |e| &e.socket);
            self.out.message(socket, (flow.to, None));
        }
        self.timers.arm(&mut flow.path, slot as u64);
        if scattered {
            self.scatters(now, slot);
        }
    }

    /// Notes that a subflow needs a keepalive if it has sent nothing for long enough.
    fn note_pause(&mut self, now: Instant, slot: usize) {
        let Some(flow) = self.flows.get_mut(slot).and_then(Option::as_mut) else {
            return;
        };
        let path = &mut flow.path;
        if path.keepalive.at.is_none_or(|at| at > now) {
            return;
        }
        let pause = self.mappings.pause(path.local.addr, flow.to.ip());
        path.keepalive.at = pause.map(|pause| {
            let due = path.sent + pause;
            if due > now {
                return due;
            }
            self.paused.push_back(slot);
            now + pause
        });
    }

    /// Sends a keepalive. A subflow that the stack no longer has needs none, nor its socket.
    fn keep_alive(
        &mut self,
        now: Instant,
        slot: usize,
        known: &dyn Fn(Endpoint, Endpoint) -> bool,
    ) {
        let Some(flow) = self.flows.get_mut(slot).and_then(Option::as_mut) else {
            return;
        };
        if flow.path.no_route || flow.path.ended() {
            return;
        }
        if !known(flow.path.local, flow.path.remote) {
            self.close(slot);
            return;
        }
        let number = self.secret.draw();
        flow.path
            .encode_keepalive(now, number, &mut self.out.scratch);
        self.out.message(&flow.socket, (flow.to, None));
    }

    fn errors(&mut self, now: Instant, slot: usize, sink: &mut dyn FnMut(Arrival)) {
        let Some(flow) = self.flows.get_mut(slot).and_then(Option::as_mut) else {
            return;
        };
        let Flow { path, socket, .. } = flow;
        let v4 = path.local.addr.is_ipv4();
        socket.errors(|e| {
            if !super::quotes(&e.quoted, path.id) {
                return;
            }
            match e.kind {
                PathFailure::TooBig(mtu) => {
                    if path.search.too_big(now, payload_for(mtu, v4) as u16) {
                        sink(path.report());
                    }
                }
                PathFailure::Path(why) => sink(path.unreachable(why)),
            }
        });
        self.timers.arm(&mut flow.path, slot as u64);
    }
}

impl Link for UdpClient {
    fn register(&mut self, poller: &Arc<Poller>) -> io::Result<()> {
        self.poller = Some(poller.clone());
        Ok(())
    }

    fn receive(
        &mut self,
        now: Instant,
        key: usize,
        sink: &mut dyn FnMut(Arrival),
    ) -> io::Result<bool> {
        self.out.deliver_reports(sink);
        let extra = Pools::of_key(key);
        let of_pool = extra.map(|n| self.pools.get(n));
        let slot = match of_pool {
            Some(Some(extra)) => extra.slot,
            Some(None) => return Ok(false),
            None => key - FIRST_KEY,
        };
        let Some(flow) = self.flows.get(slot).and_then(Option::as_ref) else {
            return Ok(false);
        };
        let socket = of_pool.flatten().map_or(&flow.socket, |e| &e.socket);
        let Some(n) = socket.receive(&mut self.buffers) else {
            match extra {
                // The subflow's own socket receives the same errors about the path.
                Some(_) => socket.errors(|_| ()),
                None => self.errors(now, slot, sink),
            }
            return Ok(false);
        };
        let buffers = std::mem::replace(&mut self.buffers, Buffers::empty());
        for (bytes, meta) in buffers.messages(n) {
            let outer = Ecn::from_bits(meta.ecn.map_or(0, |e| e as u8));
            self.merge.expect = bytes.len();
            for datagram in bytes.chunks(meta.stride.max(1)) {
                self.out.counters.packets_in += 1;
                self.out.counters.bytes_in += datagram.len() as u64;
                self.datagram(now, (slot, extra, outer), datagram, sink);
            }
        }
        self.buffers = buffers;
        self.merge.flush(&mut |p| sink(Arrival::Packet(p)));
        Ok(false)
    }

    fn send(&mut self, now: Instant, mut packet: Packet) {
        let ends = (packet.src(), packet.dst());
        // No peer knows this subflow, so a reset would only open a socket.
        let reset = packet.tcp().is_some_and(|s| s.flags.contains(Flags::RST));
        if reset && !self.slots.contains_key(&ends) {
            self.out.counters.dropped_out += 1;
            return;
        }
        let Some(slot) = self.ready(now, ends) else {
            return;
        };
        if is_scattered(&packet) {
            self.scatters(now, slot);
            self.scatter(now, slot, packet);
            return;
        }
        let Some(flow) = self.flows[slot].as_mut() else {
            return;
        };
        clamp_mss(&mut packet, self.options.max_mtu, ends.0.addr.is_ipv4());
        if !std::mem::replace(&mut flow.dirty, true) {
            self.dirty.push(slot);
        }
        let way = (&mut flow.path, &flow.socket, (flow.to, None));
        self.out.packet(now, way, packet);
    }

    fn flush(&mut self, now: Instant) -> io::Result<()> {
        for slot in self.dirty.drain(..) {
            let Some(flow) = self.flows[slot].as_mut() else {
                continue;
            };
            flow.dirty = false;
            let way = (flow.to, None);
            self.out.train(now, &mut flow.path, &flow.socket, way);
            self.out.reclaim(&mut flow.path);
            // The first probe is sent right after the SYN.
            let whole = (&mut flow.path, &flow.socket, way);
            self.out.probe(now, whole, &mut self.secret);
            self.timers.arm(&mut flow.path, slot as u64);
        }
        Ok(())
    }

    fn reconcile(&mut self, now: Instant, known: &dyn Fn(Endpoint, Endpoint) -> bool) {
        for _ in 0..KEEPALIVES {
            let Some(slot) = self.paused.pop_front() else {
                return;
            };
            self.keep_alive(now, slot, known);
        }
    }

    fn set_local_paths(&mut self, _now: Instant, paths: &[LocalPath]) {
        let flows = self.flows.iter().flatten();
        let in_use: HashSet<IpAddr> = flows.map(|f| f.path.local.addr).collect();
        let moved = self.bindings.replace(paths, &in_use);
        let stays = |addr| paths.iter().any(|p| p.addr == addr) && !moved.contains(&addr);
        self.mappings.retain(stays);
        for flow in self.flows.iter_mut().flatten() {
            // The next packet opens the socket again.
            flow.path.no_route |= moved.contains(&flow.path.local.addr);
        }
    }

    fn next_timeout(&self) -> Option<Instant> {
        if !self.out.reports.is_empty() || !self.paused.is_empty() {
            return Some(Instant::ZERO);
        }
        [self.timers.next(), self.next_sweep]
            .into_iter()
            .flatten()
            .min()
    }

    fn timeout(&mut self, now: Instant, sink: &mut dyn FnMut(Arrival)) {
        self.out.deliver_reports(sink);
        while let Some(key) = self.timers.pop(now) {
            let slot = key as usize;
            let Some(flow) = self.flows.get_mut(slot).and_then(Option::as_mut) else {
                continue;
            };
            flow.path.armed = None;
            if flow.path.ended() {
                continue;
            }
            let way = (&mut flow.path, &flow.socket, (flow.to, None));
            self.out.probe(now, way, &mut self.secret);
            self.note_pause(now, slot);
            if let Some(flow) = self.flows.get_mut(slot).and_then(Option::as_mut) {
                self.timers.arm(&mut flow.path, key);
            }
        }
        if self.next_sweep.is_some_and(|at| at <= now) {
            self.sweep(now, LINGER);
            self.next_sweep = (!self.slots.is_empty()).then(|| now + SWEEP);
        }
    }

    fn mss(&self) -> u32 {
        mss_for(self.options.max_mtu, true)
    }

    fn burst(&self) -> u32 {
        BURST
    }

    fn keeps_ports(&self) -> bool {
        true
    }

    fn counters(&self) -> LinkCounters {
        self.out.counters
    }

    fn udp(&self) -> Option<UdpCounters> {
        Some(UdpCounters {
            ids: self.slots.len() as u64,
            ..self.udp
        })
    }
}

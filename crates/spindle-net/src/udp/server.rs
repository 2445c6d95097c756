//! The server's end: a few bound sockets. Subflows are distinguished by their encapsulation ids.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use polling::Poller;
use spindle_mptcp::network_of;
use spindle_units::{Duration, Instant};
use spindle_wire::{Ecn, EncapsulationHeader, EncapsulationKind, Endpoint, Flags, Packet};

use super::common::{Output, Route, Secret, Timers};
use super::handover::{self, MESSAGES, Passed, Place, Sharing, Stray};
use super::ids::{AMPLIFICATION, Bounds, Entry, Ids, Source};
use super::merge::{self, Merge};
use super::path::BURST;
use super::socket::{Buffers, PathFailure, Socket};
use super::{UdpCounters, clamp_mss, is_scattered, mss_for, payload_for, quoted_id};
use crate::error::NetError;
use crate::handover::{Channel, Predecessor, opens_connection};
use crate::link::{Arrival, FIRST_KEY, Handover, Link, LinkCounters, PacketSink};

/// The network of the virtual addresses: a unique local prefix (RFC 4193) whose bytes spell "Udp". A peer's
/// address continues with 32 bits that stand for its source (a keyed hash of its outer IPv4 address or IPv6
/// /64) and with the id. The server's own end has the number of the service there, and 0 for the id. The stack
/// therefore counts the connections of a source as those of one network. An acknowledgement from another source
/// than the SYN's belongs to no connection and matches no cookie.
pub const PREFIX: [u16; 2] = [0xfd55, 0x6470];

/// Lifetime of a challenge: it is accepted in the slot in which it was made and in the next.
const CHALLENGE_SLOT: Duration = Duration::from_secs(10);
/// Most ids that the stack is asked about in one turn, in addition to new ones.
const CHECKS: usize = 256;
/// Bytes of an id with its path, in the table and the timers: 1.3 kB as measured.
const ID_COST: u64 = 1300;

/// Options of a server's end.
#[derive(Clone, Debug)]
pub struct UdpServerOptions {
    /// Addresses and UDP ports to bind. A socket with an IPv6 address accepts IPv6 only.
    pub bind: Vec<SocketAddr>,
    /// The number of the service that clients of each address in `bind` reach ([`UdpServer::listener_of`]); 0 for
    /// addresses without an entry.
    pub services: Vec<u32>,
    /// Most bytes of an outer IP packet.
    pub max_mtu: u16,
    /// Most ids with a proven address.
    pub max_ids: usize,
    /// Most ids without a proven address. Beyond it, the oldest one makes room, and its handshake then needs a
    /// challenge.
    pub max_half_open: usize,
    /// Most ids of one source: of an IPv4 address, or an IPv6 /64. Beyond it, its ids without a proven address
    /// make room, the oldest first. Ids of other sources never do.
    pub max_per_source: usize,
    /// Most ids of one source without a proven address. Beyond it, the oldest one makes room.
    pub max_half_open_per_source: usize,
}

impl UdpServerOptions {
    /// The defaults, for these addresses.
    pub fn new(bind: Vec<SocketAddr>) -> Self {
        Self {
            bind,
            services: Vec::new(),
            max_mtu: 1500,
            max_ids: 65_536,
            max_half_open: 16_384,
            max_per_source: 32_768,
            max_half_open_per_source: 1024,
        }
    }
}

/// The link of a server.
pub struct UdpServer {
    options: UdpServerOptions,
    secret: Secret,
    sockets: Vec<Socket>,
    /// The server's own virtual address for the clients of each socket.
    own: Vec<IpAddr>,
    ids: Ids,
    dirty: Vec<u64>,
    buffers: Buffers,
    merge: Merge,
    timers: Timers,
    out: Output,
    udp: UdpCounters,
    sharing: Sharing,
}

/// The virtual address of an id whose first segment arrived from a source.
fn virtual_addr(source: u32, id: u64) -> IpAddr {
    let [a, b] = PREFIX.map(u128::from);
    let bits = a << 112 | b << 96 | u128::from(source) << 64 | u128::from(id);
    Ipv6Addr::from_bits(bits).into()
}

/// What stands for the source of a datagram in virtual addresses: 16 bits for its network, and 16 for the source in it. The
/// stack's memory of paths thus finds what it knows of the same host and of its network. Networks with the same bits share
/// what is remembered of them.
fn source_bits(secret: &Secret, way: Route) -> u32 {
    let network = secret.hash(b'w', &network_of(way.0.ip())) >> 48;
    let source = secret.hash(b's', &Source::of(way)) >> 48;
    (network << 16 | source) as u32
}

/// The id of a virtual address.
fn id_of(addr: IpAddr) -> Option<u64> {
    let IpAddr::V6(v6) = addr else { return None };
    let s = v6.segments();
    let id = (v6.to_bits() & u128::from(u64::MAX)) as u64;
    (s[..2] == PREFIX && id != 0).then_some(id)
}

/// Whether this is an address by which a server's stack knows a client.
pub(crate) fn is_virtual(addr: IpAddr) -> bool {
    id_of(addr).is_some()
}

/// Where a datagram came from, and how long it is.
#[derive(Clone, Copy)]
pub(super) struct Origin {
    pub(super) socket: usize,
    pub(super) way: Route,
    pub(super) ecn: Ecn,
    bytes: usize,
}

impl UdpServer {
    /// Binds the sockets.
    ///
    /// # Errors
    /// [`NetError::System`], which names the address that could not be bound.
    pub fn bind(options: UdpServerOptions) -> Result<Self, NetError> {
        let open = |a: &SocketAddr| {
            Socket::open(*a, None, None).map_err(NetError::system(format!("UDP on {a}")))
        };
        let sockets = options.bind.iter().map(open).collect::<Result<_, _>>()?;
        Self::on(options, sockets, Sharing::default())
    }

    /// Takes the sockets of another server, which [`Step::Offer`](crate::handover::Step::Offer) has returned there. They are
    /// read from [`Step::Begin`](crate::handover::Step::Begin) on.
    ///
    /// # Errors
    /// [`NetError::System`] if a descriptor is not a UDP socket; [`NetError::Handover`] if they are not bound to
    /// exactly the addresses of the options.
    pub fn from_descriptors(
        options: UdpServerOptions,
        descriptors: Vec<OwnedFd>,
    ) -> Result<Self, NetError> {
        let what = "cannot use the sockets of the other process";
        let sockets: io::Result<Vec<_>> = descriptors.into_iter().map(Socket::adopt).collect();
        let sockets = sockets.map_err(NetError::system(what))?;
        let bound: io::Result<Vec<_>> = sockets.iter().map(Socket::local_addr).collect();
        let bound = bound.map_err(NetError::system(what))?;
        handover::same(&options.bind, &bound)?;
        Self::on(options, sockets, Sharing::waiting())
    }

    fn on(
        options: UdpServerOptions,
        sockets: Vec<Socket>,
        sharing: Sharing,
    ) -> Result<Self, NetError> {
        let own = sockets.iter().enumerate().map(|(i, socket)| {
            // The sockets of another process may be in another order.
            let bound = socket.local_addr().ok();
            let listed = options.bind.iter().position(|a| Some(*a) == bound);
            let service = options.services.get(listed.unwrap_or(i));
            virtual_addr(service.copied().unwrap_or(0), 0)
        });
        Ok(Self {
            own: own.collect(),
            ids: Ids::new(Bounds {
                max: options.max_ids,
                unproven: options.max_half_open.max(1),
                per_source: options.max_per_source.max(1),
                unproven_per_source: options.max_half_open_per_source.max(1),
            }),
            options,
            secret: Secret::new()?,
            sockets,
            dirty: Vec::new(),
            buffers: Buffers::new(),
            merge: Merge::default(),
            timers: Timers::default(),
            out: Output::default(),
            udp: UdpCounters::default(),
            sharing,
        })
    }

    /// The addresses of the sockets, in the order of the options or of the descriptors.
    ///
    /// # Errors
    /// The system's error.
    pub fn local_addrs(&self) -> io::Result<Vec<SocketAddr>> {
        self.sockets.iter().map(Socket::local_addr).collect()
    }

    /// The address on which a listener of the stack must listen, so that it accepts clients of this link that
    /// connect to TCP port `port`, whatever outer address they used.
    pub fn listener_addr(port: u16) -> SocketAddr {
        Self::listener_of(0, port)
    }

    /// Like [`Self::listener_addr`], for clients that connect to an address of this service
    /// ([`UdpServerOptions::services`]). An inner port alone would not tell services apart: a client may send
    /// any port to the address of any service.
    pub fn listener_of(service: u32, port: u16) -> SocketAddr {
        SocketAddr::new(virtual_addr(service, 0), port)
    }

    /// The address by which the stack knows the peer of an id. The id's first segment came from `way`.
    fn addr_of(&self, id: u64, way: Route) -> IpAddr {
        virtual_addr(source_bits(&self.secret, way), id)
    }

    /// The addresses, the peer's and the own one, by which the stack knows the ends of a subflow whose first segment
    /// this is.
    fn ends_of(&self, id: u64, origin: &Origin) -> (IpAddr, IpAddr) {
        let own = self.own.get(origin.socket).copied();
        let own = own.unwrap_or_else(|| virtual_addr(0, 0));
        (self.addr_of(id, origin.way), own)
    }

    fn challenge(&self, id: u64, from: SocketAddr, slot: u64) -> u64 {
        self.secret.hash(b'c', &(id, from, slot))
    }

    /// Answers a datagram with a message. An address that is not proven gets at most three times the bytes that
    /// arrived from it. If no id has the address, only this datagram counts.
    fn answer(&mut self, id: u64, kind: EncapsulationKind, origin: &Origin) {
        self.out.scratch.clear();
        EncapsulationHeader { id, kind }.encode(&mut self.out.scratch);
        let bytes = self.out.scratch.len();
        let may = match self.ids.get(id).filter(|e| e.way.0 == origin.way.0) {
            Some(entry) => entry.pays(bytes),
            None => bytes <= AMPLIFICATION * origin.bytes,
        };
        if may {
            let socket = &self.sockets[origin.socket];
            self.out.message(socket, origin.way);
        } else {
            self.out.counters.dropped_out += 1;
        }
    }

    fn send_challenge(&mut self, now: Instant, id: u64, origin: &Origin) {
        let slot = now.as_nanos() / CHALLENGE_SLOT.as_nanos();
        let number = self.challenge(id, origin.way.0, slot);
        self.udp.challenges += 1;
        self.answer(id, EncapsulationKind::Challenge(number), origin);
    }

    /// Processes the reply to a challenge, which proves that the address is the peer's. The reply is ignored if
    /// the stack has no subflow for the id.
    fn adopt(&mut self, now: Instant, id: u64, number: u64, origin: &Origin) {
        let slot = now.as_nanos() / CHALLENGE_SLOT.as_nanos();
        let fits = |slot| self.challenge(id, origin.way.0, slot) == number;
        let fits = fits(slot) || fits(slot.saturating_sub(1));
        let Some(entry) = self.ids.get(id).filter(|_| fits) else {
            self.out.counters.dropped_in += 1;
            return;
        };
        let other = entry.way.0 != origin.way.0;
        let moves = other && entry.is_silent(now) || entry.moving == Some(origin.way.0);
        // If there is no room for one more address, the peer has no more sockets: some of them have moved.
        let stays = entry.scatters && !entry.unproven && !moves;
        if stays && (entry.knows(origin.way.0) || entry.widen(origin.way, origin.socket)) {
            return;
        }
        self.moves(now, id, origin);
    }

    /// Makes a proven address the subflow's own.
    fn moves(&mut self, now: Instant, id: u64, origin: &Origin) {
        let moved = self.ids.moves(now, id, origin.way, origin.socket);
        self.udp.rebindings += u64::from(moved);
        if let Some(entry) = self.ids.get(id) {
            self.timers.arm(&mut entry.path, id);
        }
    }

    /// Processes a packet with an unknown id. The stack must decide about it, and has this turn to do so. Its
    /// answer is sent to where the packet came from. Returns whether there is room for the id.
    fn unknown(&mut self, now: Instant, id: u64, packet: &Packet, origin: &Origin) -> bool {
        let (src, dst) = (packet.src(), packet.dst());
        let flags = packet.tcp().map_or(Flags::NONE, |s| s.flags);
        let plausible = src.port != 0
            && dst.port != 0
            && !flags.contains(Flags::RST)
            && !flags.contains(Flags(Flags::SYN.0 | Flags::FIN.0));
        if !plausible {
            self.out.counters.dropped_in += 1;
            return false;
        }
        let entry = Entry::new(now, (id, (dst, src)), origin.way, origin.socket);
        let room = self.ids.insert(id, entry);
        self.udp.refused += u64::from(!room);
        room
    }

    fn packet(
        &mut self,
        now: Instant,
        (id, inner): (u64, Ecn),
        (datagram, origin): (&[u8], &Origin),
        sink: &mut dyn FnMut(Arrival),
    ) {
        let known = self.ids.get(id).map(|e| &e.path);
        let known = known.map(|p| (p.remote.addr, p.local.addr));
        let ends = known.unwrap_or_else(|| self.ends_of(id, origin));
        let read = Ecn::decapsulated(inner, origin.ecn)
            .and_then(|ecn| merge::read(ends, ecn, datagram).ok());
        let Some((packet, at)) = read else {
            self.out.counters.dropped_in += 1;
            return;
        };
        if known.is_none() && !self.unknown(now, id, &packet, origin) {
            return;
        }
        let Some(entry) = self.ids.get(id) else {
            return;
        };
        if (packet.src(), packet.dst()) != (entry.path.remote, entry.path.local) {
            // An id belongs to one subflow only.
            self.out.counters.dropped_in += 1;
            return;
        }
        let elsewhere = entry.unproven && Source::of(entry.way) != Source::of(origin.way);
        if entry.way.0 == origin.way.0 {
            entry.credit(datagram.len());
            entry.way = origin.way;
            entry.heard();
            if entry.completes(&packet) {
                self.ids.prove(id);
            } else if entry.wants_challenge_for(&packet) && entry.may_challenge(now) {
                self.send_challenge(now, id, origin);
            }
        } else if is_scattered(&packet) {
            // This is one of several addresses. The challenge is smaller than the packet that arrived.
            entry.begins_to_scatter();
            if !entry.knows(origin.way.0) {
                self.send_challenge(now, id, origin);
            } else if entry.is_silent(now) {
                self.moves(now, id, origin);
            }
        } else if entry.may_challenge(now) {
            entry.moving = Some(origin.way.0);
            self.send_challenge(now, id, origin);
        }
        let Some(entry) = self.ids.get(id).filter(|_| !elsewhere) else {
            // The handshake must be completed from where it began. Another address is challenged first.
            self.out.counters.dropped_in += u64::from(elsewhere);
            return;
        };
        if entry.path.on_received(now, &packet) {
            self.timers.arm(&mut entry.path, id);
        }
        let mut sink = |p| sink(Arrival::Packet(p));
        self.merge.push(packet, &datagram[at..], &mut sink);
    }

    fn datagram(
        &mut self,
        now: Instant,
        (datagram, origin): (&[u8], &Origin),
        sink: &mut dyn FnMut(Arrival),
    ) {
        let Ok(EncapsulationHeader { id, kind }) = EncapsulationHeader::parse(datagram) else {
            self.out.counters.dropped_in += 1;
            return;
        };
        if self.sharing.neighbours.predecessor().is_some()
            && self.ids.peek(id).is_none()
            && self.put_aside((id, kind), datagram, origin)
        {
            return;
        }
        match kind {
            EncapsulationKind::Data(inner) | EncapsulationKind::Coded(inner) => {
                self.packet(now, (id, inner), (datagram, origin), sink);
            }
            EncapsulationKind::ChallengeReply(n) => self.adopt(now, id, n, origin),
            EncapsulationKind::Probe(number) => {
                let most = payload_for(u32::from(self.options.max_mtu), origin.way.0.is_ipv4());
                let size = datagram.len() as u16;
                let Some(entry) = self.ids.get(id) else {
                    self.out.counters.dropped_in += 1;
                    return;
                };
                let unknown = !entry.knows(origin.way.0);
                if entry.way.0 == origin.way.0 {
                    entry.credit(datagram.len());
                    entry.path.search.offered(now, size.min(most as u16));
                    self.timers.arm(&mut entry.path, id);
                }
                if unknown {
                    // This is one of several addresses, or a NAT has another mapping for a keepalive.
                    let scatters = entry.scatters;
                    if scatters || entry.may_challenge(now) {
                        entry.moving = (!scatters).then_some(origin.way.0).or(entry.moving);
                        self.send_challenge(now, id, origin);
                    }
                    return;
                }
                self.answer(id, EncapsulationKind::ProbeAck { number, size }, origin);
            }
            EncapsulationKind::ProbeAck { number, size } => {
                if let Some(entry) = self.ids.get(id)
                    && entry.path.search.acknowledged(now, number, size)
                {
                    sink(entry.path.report());
                    self.timers.arm(&mut entry.path, id);
                }
            }
            EncapsulationKind::Challenge(_) => self.out.counters.dropped_in += 1,
        }
    }

    /// Removes an id.
    fn forget(&mut self, id: u64) {
        if let Some(mut entry) = self.ids.remove(id) {
            self.timers.disarm(&mut entry.path, id);
        }
    }

    /// Challenges the address of an id.
    fn challenge_own(&mut self, now: Instant, id: u64) {
        let Some(entry) = self.ids.get(id) else {
            return;
        };
        if entry.may_challenge(now) {
            let origin = Origin {
                socket: entry.socket,
                way: entry.way,
                ecn: Ecn::NotEct,
                bytes: 0,
            };
            self.send_challenge(now, id, &origin);
        }
    }

    /// Puts a datagram with an unknown id aside, or passes it on, if the predecessor may know the id. Returns false
    /// if it belongs to this process.
    fn put_aside(
        &mut self,
        (id, kind): (u64, EncapsulationKind),
        datagram: &[u8],
        origin: &Origin,
    ) -> bool {
        let (EncapsulationKind::Data(inner) | EncapsulationKind::Coded(inner)) = kind else {
            self.sharing.pass(Place::from(origin), datagram);
            return true;
        };
        let ends = self.ends_of(id, origin);
        let ecn = Ecn::decapsulated(inner, origin.ecn);
        let Some((packet, _)) = ecn.and_then(|ecn| merge::read(ends, ecn, datagram).ok()) else {
            return false;
        };
        if opens_connection(&packet) && !self.sharing.has_answered(id) {
            return false;
        }
        self.sharing.strays.push(Stray {
            id,
            inner,
            packet,
            datagram: datagram.to_vec(),
            origin: *origin,
        });
        true
    }

    fn errors(&mut self, now: Instant, socket: usize, sink: &mut dyn FnMut(Arrival)) {
        let mut found = Vec::new();
        self.sockets[socket].errors(|e| found.push(e));
        for e in found {
            self.failed(now, socket, (e.kind, &e.quoted), sink);
        }
    }

    /// Handles an ICMP error about a datagram that is quoted.
    fn failed(
        &mut self,
        now: Instant,
        socket: usize,
        (kind, quoted): (PathFailure, &[u8]),
        sink: &mut dyn FnMut(Arrival),
    ) {
        let Some(id) = quoted_id(quoted) else { return };
        let Some(entry) = self.ids.get(id) else {
            self.sharing.pass_error(socket, kind, quoted);
            return;
        };
        let path = &mut entry.path;
        match kind {
            PathFailure::TooBig(mtu) => {
                let size = payload_for(mtu, entry.way.0.is_ipv4()) as u16;
                if path.search.too_big(now, size) {
                    sink(path.report());
                }
            }
            PathFailure::Path(why) => sink(path.unreachable(why)),
        }
        self.timers.arm(path, id);
    }

    /// Handles datagrams of one train, of `size` bytes each.
    fn train(
        &mut self,
        now: Instant,
        (bytes, size): (&[u8], usize),
        place: Place,
        sink: &mut dyn FnMut(Arrival),
    ) {
        let mut origin = Origin {
            socket: place.socket,
            way: place.way,
            ecn: place.ecn,
            bytes: 0,
        };
        self.merge.expect = bytes.len();
        for datagram in bytes.chunks(size.max(1)) {
            origin.bytes = datagram.len();
            self.out.counters.packets_in += 1;
            self.out.counters.bytes_in += datagram.len() as u64;
            self.datagram(now, (datagram, &origin), sink);
        }
    }

    /// Handles what the successor has passed on.
    fn passed_on(&mut self, now: Instant, sink: &mut dyn FnMut(Arrival)) {
        let mut buffer = self.sharing.take_buffer();
        for _ in 0..MESSAGES {
            match self.sharing.next(&mut buffer) {
                Some(Passed::Datagrams(place, size, bytes))
                    if place.socket < self.sockets.len() =>
                {
                    self.train(now, (bytes, size), place, sink);
                }
                Some(Passed::Error(socket, kind, quoted)) => {
                    self.failed(now, socket, (kind, quoted), sink);
                }
                Some(Passed::Datagrams(..)) => self.out.counters.dropped_in += 1,
                None => break,
            }
        }
        self.sharing.put_buffer(buffer);
        self.merge.flush(&mut |p| sink(Arrival::Packet(p)));
    }
}

impl Handover for UdpServer {
    fn offer(&self) -> io::Result<Vec<OwnedFd>> {
        handover::duplicates(&self.sockets)
    }

    fn leave(&mut self, successor: Channel) -> io::Result<()> {
        let wire = handover::wire(&self.sockets);
        self.sharing.neighbours.leave(&wire, successor)
    }

    fn resume(&mut self) -> io::Result<()> {
        let wire = handover::wire(&self.sockets);
        self.sharing.neighbours.resume(&wire)
    }

    fn begin(&mut self, predecessor: Predecessor) -> io::Result<()> {
        // The predecessor knows a peer by another virtual address, since its keys are others, but by the same id.
        let answered = predecessor
            .half_open()
            .iter()
            .filter_map(|e| id_of(e.1.addr));
        self.sharing.set_answered(answered.collect());
        let wire = handover::wire(&self.sockets);
        self.sharing.neighbours.begin(&wire, predecessor)
    }

    fn close(&mut self) {
        self.sharing.neighbours.close();
    }

    fn has_predecessor(&mut self) -> bool {
        self.sharing.neighbours.has_predecessor()
    }

    fn half_open(&mut self) -> Vec<(Endpoint, Endpoint)> {
        self.sharing.neighbours.half_open()
    }

    fn settle(&mut self, now: Instant, stack: &mut dyn PacketSink) {
        for stray in std::mem::take(&mut self.sharing.strays) {
            let own = self.ids.peek(stray.id).is_some() || stack.expects(&stray.packet);
            if own || self.sharing.neighbours.predecessor().is_none() {
                let datagram = (stray.datagram.as_slice(), &stray.origin);
                let mut sink = |arrival| stack.take(arrival);
                self.packet(now, (stray.id, stray.inner), datagram, &mut sink);
            } else {
                let place = Place::from(&stray.origin);
                self.sharing.pass(place, &stray.datagram);
            }
        }
        self.sharing.flush();
        self.out.counters.dropped_out += self.sharing.neighbours.take_dropped();
        self.merge.flush(&mut |p| stack.take(Arrival::Packet(p)));
    }
}

impl Link for UdpServer {
    fn register(&mut self, poller: &Arc<Poller>) -> io::Result<()> {
        let wire = handover::wire(&self.sockets);
        self.sharing.neighbours.register(poller, FIRST_KEY, &wire)
    }

    fn receive(
        &mut self,
        now: Instant,
        key: usize,
        sink: &mut dyn FnMut(Arrival),
    ) -> io::Result<bool> {
        self.out.deliver_reports(sink);
        let at = key - FIRST_KEY;
        let Some(socket) = self.sockets.get(at) else {
            if at == self.sockets.len() {
                self.passed_on(now, sink);
            } else {
                self.sharing.neighbours.has_predecessor();
            }
            return Ok(false);
        };
        let Some(n) = socket.receive(&mut self.buffers) else {
            self.errors(now, at, sink);
            return Ok(false);
        };
        let buffers = std::mem::replace(&mut self.buffers, Buffers::empty());
        for (bytes, meta) in buffers.messages(n) {
            let place = Place {
                socket: at,
                way: (meta.addr, meta.dst_ip),
                ecn: Ecn::from_bits(meta.ecn.map_or(0, |e| e as u8)),
            };
            self.train(now, (bytes, meta.stride), place, sink);
        }
        self.buffers = buffers;
        self.merge.flush(&mut |p| sink(Arrival::Packet(p)));
        Ok(false)
    }

    fn send(&mut self, now: Instant, mut packet: Packet) {
        let id = id_of(packet.dst().addr).unwrap_or(0);
        let Some(entry) = self.ids.get(id) else {
            self.out.counters.dropped_out += 1;
            return;
        };
        clamp_mss(&mut packet, self.options.max_mtu, entry.way.0.is_ipv4());
        if !entry.pays_for(&packet) {
            self.out.counters.dropped_out += 1;
            if entry.wants_challenge_for(&packet) {
                self.challenge_own(now, id);
            }
            return;
        }
        if is_scattered(&packet) {
            entry.begins_to_scatter();
            let (way, socket) = entry.any_way(self.secret.draw());
            // Earlier packets are sent to the subflow's own address.
            let own = &self.sockets[entry.socket];
            self.out.train(now, &mut entry.path, own, entry.way);
            let socket = &self.sockets[socket];
            self.out.packet(now, (&mut entry.path, socket, way), packet);
            self.out.train(now, &mut entry.path, socket, way);
            self.out.reclaim(&mut entry.path);
            return;
        }
        if !std::mem::replace(&mut entry.dirty, true) {
            self.dirty.push(id);
        }
        let whole = (&mut entry.path, &self.sockets[entry.socket], entry.way);
        self.out.packet(now, whole, packet);
    }

    fn flush(&mut self, now: Instant) -> io::Result<()> {
        for id in self.dirty.drain(..) {
            let Some(entry) = self.ids.get(id) else {
                continue;
            };
            entry.dirty = false;
            let socket = &self.sockets[entry.socket];
            self.out.train(now, &mut entry.path, socket, entry.way);
            self.out.reclaim(&mut entry.path);
            self.timers.arm(&mut entry.path, id);
        }
        Ok(())
    }

    fn reconcile(&mut self, now: Instant, known: &dyn Fn(Endpoint, Endpoint) -> bool) {
        let has_subflow = |e: &Entry| known(e.path.local, e.path.remote);
        for id in self.ids.take_new() {
            if !self.ids.peek(id).is_some_and(has_subflow) {
                self.forget(id);
                continue;
            }
            self.ids.keep(now, id);
            if self.ids.peek(id).is_some_and(Entry::wants_challenge) {
                self.challenge_own(now, id);
            }
        }
        for _ in 0..CHECKS {
            let Some(id) = self.ids.due(now) else { break };
            if self.ids.peek(id).is_some_and(has_subflow) {
                self.ids.check_later(now, id);
            } else {
                self.forget(id);
            }
        }
    }

    fn next_timeout(&self) -> Option<Instant> {
        if !self.out.reports.is_empty() {
            return Some(Instant::ZERO);
        }
        let due = [self.timers.next(), self.ids.next_check()];
        due.into_iter().flatten().min()
    }

    fn timeout(&mut self, now: Instant, sink: &mut dyn FnMut(Arrival)) {
        self.out.deliver_reports(sink);
        while let Some(id) = self.timers.pop(now) {
            let Some(entry) = self.ids.get(id) else {
                continue;
            };
            entry.path.armed = None;
            // A probe must not exceed what an unproven address may get. It is sent later.
            let size = usize::from(entry.path.search.most());
            if entry.path.ended() || !entry.pays(size) {
                continue;
            }
            let whole = (&mut entry.path, &self.sockets[entry.socket], entry.way);
            self.out.probe(now, whole, &mut self.secret);
            self.timers.arm(&mut entry.path, id);
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

    fn outside(&self, remote: Endpoint) -> SocketAddr {
        let entry = id_of(remote.addr).and_then(|id| self.ids.peek(id));
        entry.map_or(remote.into(), |e| e.way.0)
    }

    fn held(&self) -> u64 {
        ID_COST * self.ids.len() as u64
    }

    fn handover(&mut self) -> Option<&mut dyn Handover> {
        Some(self)
    }

    fn counters(&self) -> LinkCounters {
        self.out.counters
    }

    fn udp(&self) -> Option<UdpCounters> {
        Some(UdpCounters {
            ids: self.ids.len() as u64,
            half_open: self.ids.half_open() as u64,
            evicted: self.ids.evicted(),
            ..self.udp
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_addresses_have_48_bits_of_a_network_and_64_of_a_host() {
        let secret = Secret::fixed();
        let from = |ip: &str| {
            let way = (SocketAddr::new(ip.parse().unwrap(), 4711), None);
            virtual_addr(source_bits(&secret, way), 7)
        };
        let bits = |a: IpAddr, n: usize| match a {
            IpAddr::V6(a) => a.to_bits() >> (128 - n),
            IpAddr::V4(_) => unreachable!("virtual addresses are of IPv6"),
        };
        let shared = |a, b| [48, 64].map(|n| bits(from(a), n) == bits(from(b), n));
        assert_eq!(shared("192.0.2.1", "192.0.2.2"), [true, false]);
        assert_eq!(shared("2001:db8:1:2::3", "2001:db8:1:2::4"), [true, true]);
        assert_eq!(shared("2001:db8:1:2::3", "2001:db8:1:5::3"), [true, false]);
        assert_eq!(shared("2001:db8:1::", "2001:db8:2::"), [false, false]);
        assert_eq!(id_of(from("192.0.2.1")), Some(7));
    }
}

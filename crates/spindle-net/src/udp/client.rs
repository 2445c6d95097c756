//! The client's end: a UDP socket for each subflow.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use polling::{Event, PollMode, Poller};
use spindle_units::{Duration, Instant};
use spindle_wire::{Ecn, EncapsulationHeader, EncapsulationKind, Endpoint, Flags, Segment};

use super::common::{Output, Secret, Timers};
use super::merge::{self, Merge};
use super::path::{BURST, Path};
use super::socket::{Buffers, Socket};
use super::{UdpCounters, clamp_mss, mss_for, payload_for};
use crate::error::NetError;
use crate::link::{Arrival, FIRST_KEY, Link, LinkCounters};
use crate::service::raise_file_limit;

/// How long the socket of a subflow that ended is kept: 2 MSL of RFC 9293 is 4 minutes; what comes
/// later opens it again.
const LINGER: Duration = Duration::from_secs(30);
/// How often old sockets are looked for.
const SWEEP: Duration = Duration::from_secs(5);
/// File descriptors left for the rest of the process.
const OTHER_FILES: u64 = 64;

/// How a client's end works.
#[derive(Clone, Debug)]
pub struct UdpClientOptions {
    /// The gateway's UDP port.
    pub remote_port: u16,
    /// The interface of a local address, if sockets are to be bound to one.
    pub interfaces: Vec<(IpAddr, String)>,
    /// Bytes of an outer IP packet at most, 1280 and more; what the interface takes limits it too.
    pub max_mtu: u16,
    /// Sockets at most; those that the limit of open files allows, if fewer.
    pub max_sockets: usize,
    /// A socket is closed when nothing was sent or received for this long; a segment opens a new one
    /// with the same id.
    pub idle: Duration,
}

impl UdpClientOptions {
    /// The defaults, towards a gateway's UDP port.
    pub fn new(remote_port: u16) -> Self {
        Self {
            remote_port,
            interfaces: Vec::new(),
            max_mtu: 1500,
            max_sockets: 16_384,
            idle: Duration::from_secs(300),
        }
    }
}

struct Flow {
    path: Path,
    socket: Socket,
    to: SocketAddr,
    dirty: bool,
}

type Ends = (Endpoint, Endpoint);

/// The link of a client.
pub struct UdpClient {
    options: UdpClientOptions,
    secret: Secret,
    flows: Vec<Option<Flow>>,
    free: Vec<usize>,
    slots: HashMap<Ends, usize>,
    dirty: Vec<usize>,
    poller: Option<Arc<Poller>>,
    buffers: Buffers,
    merge: Merge,
    timers: Timers,
    out: Output,
    udp: UdpCounters,
    next_sweep: Option<Instant>,
}

impl UdpClient {
    /// A link without any socket yet. The soft limit of open files is raised to the hard one.
    ///
    /// # Errors
    /// [`NetError::System`] if there is no randomness.
    pub fn new(mut options: UdpClientOptions) -> Result<Self, NetError> {
        let files = raise_file_limit().saturating_sub(OTHER_FILES).max(1);
        options.max_sockets = options.max_sockets.min(files as usize);
        Ok(Self {
            options,
            secret: Secret::new()?,
            flows: Vec::new(),
            free: Vec::new(),
            slots: HashMap::new(),
            dirty: Vec::new(),
            poller: None,
            buffers: Buffers::new(),
            merge: Merge::default(),
            timers: Timers::default(),
            out: Output::default(),
            udp: UdpCounters::default(),
            next_sweep: None,
        })
    }

    /// What only this kind of link counts.
    pub fn udp_counters(&self) -> UdpCounters {
        UdpCounters {
            ids: self.slots.len() as u64,
            ..self.udp
        }
    }

    /// The slot of a subflow, with a new socket if it has none.
    fn slot(&mut self, now: Instant, ends: Ends) -> io::Result<usize> {
        if let Some(slot) = self.slots.get(&ends) {
            return Ok(*slot);
        }
        if self.slots.len() >= self.options.max_sockets {
            self.sweep(now, Duration::ZERO);
        }
        if self.slots.len() >= self.options.max_sockets {
            let text = format!(
                "all {} UDP sockets are in use; raise the limit of open files or max_sockets",
                self.options.max_sockets
            );
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, text));
        }
        let (local, remote) = ends;
        let to = SocketAddr::new(remote.addr, self.options.remote_port);
        let named = self.options.interfaces.iter();
        let interface = named.clone().find(|(a, _)| *a == local.addr);
        let from = SocketAddr::new(local.addr, 0);
        let socket = Socket::open(from, interface.map(|(_, name)| name.as_str()), Some(to))?;
        let most = payload_for(u32::from(self.options.max_mtu), local.addr.is_ipv4());
        let most = socket.payload_limit().map_or(most, |m| m.min(most));
        let slot = self.free.pop().unwrap_or(self.flows.len());
        if let Some(poller) = &self.poller {
            let interest = Event::readable(FIRST_KEY + slot);
            // SAFETY: the source is deleted from the poller before it is closed (`close`), or both
            // go together when the data path ends.
            unsafe { poller.add_with_mode(socket.source(), interest, PollMode::Level)? };
        }
        let id = self.secret.hash(b'i', &ends);
        let mut path = Path::new(now, id, ends, most as u16);
        self.timers.arm(&mut path, slot as u64);
        let flow = Flow {
            path,
            socket,
            to,
            dirty: false,
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

    fn close(&mut self, slot: usize) {
        let Some(flow) = self.flows.get_mut(slot).and_then(Option::take) else {
            return;
        };
        if let Some(poller) = &self.poller {
            // Closing it takes it out as well.
            let _ = poller.delete(flow.socket.source());
        }
        self.slots.remove(&(flow.path.local, flow.path.remote));
        self.free.push(slot);
    }

    /// Closes the sockets of subflows that ended `linger` ago, and idle ones.
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
    }

    /// What one datagram says.
    fn datagram(
        &mut self,
        now: Instant,
        (slot, outer): (usize, Ecn),
        datagram: &[u8],
        sink: &mut dyn FnMut(Arrival),
    ) {
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
            EncapsulationKind::Data(inner) => {
                let ends = (flow.path.remote.addr, flow.path.local.addr);
                let read = Ecn::decapsulated(inner, outer)
                    .and_then(|ecn| merge::read(ends, ecn, datagram).ok());
                match read {
                    Some((s, at)) if (s.src, s.dst) == (flow.path.remote, flow.path.local) => {
                        flow.path.came(now, &s);
                        let mut sink = |s| sink(Arrival::Segment(s));
                        self.merge.push(s, &datagram[at..], &mut sink);
                    }
                    _ => self.out.counters.dropped_in += 1,
                }
            }
            EncapsulationKind::Challenge(n) => answer = Some(EncapsulationKind::ChallengeReply(n)),
            EncapsulationKind::Probe(number) => {
                let size = datagram.len() as u16;
                flow.path
                    .search
                    .offered(now, size.min(self.options.max_mtu));
                answer = Some(EncapsulationKind::ProbeAck { number, size });
            }
            EncapsulationKind::ProbeAck { number, size } => {
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
            self.out.message(&flow.socket, (flow.to, None));
        }
        self.timers.arm(&mut flow.path, slot as u64);
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
            match e.mtu {
                Some(mtu) => {
                    if path.search.too_big(now, payload_for(mtu, v4) as u16) {
                        sink(path.report());
                    }
                }
                None => sink(Arrival::Unreachable {
                    local: path.local,
                    remote: path.remote,
                }),
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
        let slot = key - FIRST_KEY;
        let Some(flow) = self.flows.get(slot).and_then(Option::as_ref) else {
            return Ok(false);
        };
        let Some(n) = flow.socket.receive(&mut self.buffers) else {
            self.errors(now, slot, sink);
            return Ok(false);
        };
        let buffers = std::mem::replace(&mut self.buffers, Buffers::empty());
        for (bytes, meta) in buffers.messages(n) {
            let outer = Ecn::from_bits(meta.ecn.map_or(0, |e| e as u8));
            self.merge.expect = bytes.len();
            for datagram in bytes.chunks(meta.stride.max(1)) {
                self.out.counters.packets_in += 1;
                self.out.counters.bytes_in += datagram.len() as u64;
                self.datagram(now, (slot, outer), datagram, sink);
            }
        }
        self.buffers = buffers;
        self.merge.flush(&mut |s| sink(Arrival::Segment(s)));
        Ok(false)
    }

    fn send(&mut self, now: Instant, mut segment: Segment) {
        let ends = (segment.src, segment.dst);
        // Nobody knows of the subflow: a reset would only open a socket.
        if segment.flags.contains(Flags::RST) && !self.slots.contains_key(&ends) {
            self.out.counters.dropped_out += 1;
            return;
        }
        let slot = match self.slot(now, ends) {
            Ok(slot) => slot,
            Err(error) => {
                self.out.counters.dropped_out += 1;
                self.udp.refused += 1;
                tracing::warn!(%error, local = %ends.0, remote = %ends.1, "no UDP socket");
                let (local, remote) = ends;
                self.out.news.push(Arrival::Unreachable { local, remote });
                return;
            }
        };
        let Some(flow) = self.flows[slot].as_mut() else {
            return;
        };
        clamp_mss(&mut segment, self.options.max_mtu, ends.0.addr.is_ipv4());
        if !std::mem::replace(&mut flow.dirty, true) {
            self.dirty.push(slot);
        }
        let way = (&mut flow.path, &flow.socket, (flow.to, None));
        self.out.segment(now, way, segment);
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
            // The first probe leaves right after the SYN.
            let whole = (&mut flow.path, &flow.socket, way);
            self.out.probe(now, whole, &mut self.secret);
            self.timers.arm(&mut flow.path, slot as u64);
        }
        Ok(())
    }

    fn next_timeout(&self) -> Option<Instant> {
        if !self.out.news.is_empty() {
            return Some(Instant::ZERO);
        }
        [self.timers.next(), self.next_sweep]
            .into_iter()
            .flatten()
            .min()
    }

    fn timeout(&mut self, now: Instant, sink: &mut dyn FnMut(Arrival)) {
        self.out.news.drain(..).for_each(&mut *sink);
        while let Some((at, key)) = self.timers.pop(now) {
            let slot = key as usize;
            let Some(flow) = self.flows.get_mut(slot).and_then(Option::as_mut) else {
                continue;
            };
            if flow.path.armed != Some(at) {
                continue;
            }
            flow.path.armed = None;
            if flow.path.ended() {
                continue;
            }
            let way = (&mut flow.path, &flow.socket, (flow.to, None));
            self.out.probe(now, way, &mut self.secret);
            self.timers.arm(&mut flow.path, key);
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
}

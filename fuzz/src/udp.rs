//! A server's link over UDP with a live stack above it, and hosts that send it arbitrary datagrams.
//!
//! Half of the hosts never prove their address. Like a sender with a forged address, they answer no challenge
//! and acknowledge no SYN/ACK that they have received. These invariants must always hold:
//!
//! - There is no panic.
//! - A host that never proves its address gets at most three times the bytes that it sent.
//! - The number of ids stays within its bounds.
//! - Timers make progress.
//! - No id is left once all connections are closed.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::num::NonZeroU32;
use std::sync::Arc;

use arbitrary::Arbitrary;
use spindle_mptcp::{Event, Stack, StackConfig, preset};
use spindle_net::udp::{UdpServer, UdpServerOptions};
use spindle_net::{Arrival, FIRST_KEY, Link};
use spindle_units::{Duration, Instant};
use spindle_wire::{
    Ecn, EncapsulationHeader, EncapsulationKind, Endpoint, Flags, Packet, Payload, Segment,
    SeqNumber,
};

use crate::steps::steps;

/// The script of one run.
#[derive(Arbitrary, Clone, Debug)]
pub struct Script {
    half_open: u8,
    bounds: u8,
    #[arbitrary(with = steps)]
    steps: Vec<Step>,
}

#[derive(Arbitrary, Clone, Debug)]
enum Step {
    Junk(u8, [u8; 24], u8),
    Message(u8, Message),
    Syn(u8, u8),
    Segment(u8, Sent),
    /// A challenge that one host received is answered, by that host or by another.
    Echo(u8, u8),
    Flood(u8, u8, bool),
    /// Waits this many milliseconds.
    Wait(u16),
    Abort(u8),
}

#[derive(Arbitrary, Clone, Debug)]
struct Message {
    id: u8,
    kind: u8,
    number: u64,
    size: u16,
}

/// A segment. Its acknowledgement number answers the last SYN/ACK of its id, unless `ack` is set.
#[derive(Arbitrary, Clone, Debug)]
struct Sent {
    id: u8,
    flags: u8,
    seq: u8,
    ack: Option<u32>,
    len: u16,
    other_port: bool,
    token: bool,
}

/// Number of UDP hosts. Hosts with an even number never prove their address.
const HOSTS: usize = 6;
const IDS: u8 = 10;
const PORT: u16 = 80;
const MAX_IDS: usize = 12;
/// Bytes that the service writes to each connection.
const RESPONSE: usize = 40_000;
const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

struct Host {
    socket: UdpSocket,
    bytes_in: usize,
    bytes_out: usize,
    /// Challenges that it received.
    challenges: Vec<Vec<u8>>,
}

impl Host {
    /// Creates host `n`. Two hosts each share an address.
    fn new(n: usize, server: SocketAddr) -> Self {
        let address: SocketAddr = ([127, 0, 0, 1 + n as u8 / 2], 0).into();
        let socket = UdpSocket::bind(address).expect("a loopback address");
        socket.connect(server).expect("a loopback address");
        socket.set_nonblocking(true).expect("a mode");
        Self {
            socket,
            bytes_in: 0,
            bytes_out: 0,
            challenges: Vec::new(),
        }
    }
}

struct World {
    link: UdpServer,
    stack: Stack,
    now: Instant,
    hosts: Vec<Host>,
    /// For each id, the sequence and acknowledgement numbers that answer the last SYN/ACK received by a host
    /// that proves its address.
    answers: HashMap<u64, (SeqNumber, SeqNumber)>,
    most_ids: usize,
}

fn id(n: u8) -> u64 {
    u64::from(n % IDS + 1) << 40 | 7
}

/// The client's inner port of an id's subflow.
fn port(id: u64) -> u16 {
    4000 + (id >> 40) as u16
}

impl World {
    fn new(script: &Script) -> Self {
        let mut options = UdpServerOptions::new(vec![(LOOPBACK, 0).into()]);
        let bound = 1 + usize::from(script.bounds % 8);
        options.max_ids = MAX_IDS;
        options.max_half_open = bound + 2;
        options.max_per_source = bound + 4;
        options.max_half_open_per_source = bound;
        let link = UdpServer::bind(options).expect("a loopback address");
        let outer = link.local_addrs().expect("its address")[0];
        let limits = StackConfig {
            max_half_open: usize::from(script.half_open % 8),
            ..StackConfig::default()
        };
        let mut stack = Stack::deterministic(limits, 0);
        let config = preset("tcp").expect("a preset").config;
        let at: Endpoint = UdpServer::listener_addr(PORT).into();
        stack.listen(at, Arc::new(config)).expect("a free endpoint");
        Self {
            link,
            stack,
            now: Instant::ZERO + Duration::from_secs(50),
            hosts: (0..HOSTS).map(|n| Host::new(n, outer)).collect(),
            answers: HashMap::new(),
            // An id with a proven address replaces one without, so both bounds may be reached.
            most_ids: MAX_IDS + 2 * (bound + 2),
        }
    }

    fn say(&mut self, who: u8, datagram: &[u8]) {
        let host = &mut self.hosts[usize::from(who) % HOSTS];
        host.bytes_in += host.socket.send(datagram).expect("the loopback takes it");
    }

    fn segment(&mut self, who: u8, id: u64, change: impl FnOnce(&mut Segment)) {
        let from = Endpoint::new(LOOPBACK, port(id));
        let mut s = Segment::new(from, Endpoint::new(LOOPBACK, PORT));
        s.window = 60_000;
        change(&mut s);
        let mut bytes = Vec::new();
        if s.encapsulate(id, &mut bytes).is_ok() {
            self.say(who, &bytes);
        }
    }

    /// Runs one turn of the data path.
    fn turn(&mut self) {
        let (link, stack, now) = (&mut self.link, &mut self.stack, self.now);
        let mut before = None;
        // Reads until no packet is left.
        while before != Some(link.counters().packets_in) {
            before = Some(link.counters().packets_in);
            let mut sink = |arrival| {
                if let Arrival::Packet(packet) = arrival {
                    stack.receive(now, packet);
                }
            };
            link.receive(now, FIRST_KEY, &mut sink).expect("a socket");
        }
        if stack.next_timeout().is_some_and(|at| at <= now) {
            stack.timeout(now);
        }
        link.timeout(now, &mut |_| ());
        while let Some(event) = stack.poll_event() {
            match event {
                Event::Accepted { handle, .. } => {
                    let response = Payload::Bytes(vec![7; RESPONSE].into());
                    // The connection may have been reset since.
                    let _ = stack.send(now, handle, response);
                }
                Event::Closed { handle, .. } => stack.close(now, handle),
                _ => {}
            }
        }
        while let Some(packet) = stack.transmit(now) {
            link.send(now, packet);
        }
        link.flush(now).expect("a socket");
        link.reconcile(now, &|local, remote| stack.has_subflow(local, remote));
        for n in 0..HOSTS {
            self.hear(n);
        }
        self.check();
    }

    /// Reads the datagrams that a host has received.
    fn hear(&mut self, n: usize) {
        let mut buffer = [0; 2048];
        while let Ok(len) = self.hosts[n].socket.recv(&mut buffer) {
            let datagram = &buffer[..len];
            self.hosts[n].bytes_out += len;
            let header = EncapsulationHeader::parse(datagram).expect("the server's own format");
            match header.kind {
                EncapsulationKind::Challenge(_) => self.hosts[n].challenges.push(datagram.to_vec()),
                EncapsulationKind::Data(_) if n % 2 == 1 => {
                    let bytes = datagram.to_vec().into();
                    let read = Packet::decapsulate((LOOPBACK, LOOPBACK), Ecn::NotEct, &bytes);
                    let packet = read.expect("the server's own format");
                    let s = packet.into_tcp().expect("data is a segment");
                    if s.flags.contains(Flags::SYN) {
                        self.answers.insert(header.id, (s.ack, s.seq + 1));
                    }
                }
                _ => {}
            }
        }
    }

    fn ids(&self) -> usize {
        self.link.udp().map_or(0, |u| u.ids as usize)
    }

    fn check(&self) {
        assert!(self.ids() <= self.most_ids, "{} ids", self.ids());
        for (n, h) in self.hosts.iter().enumerate().filter(|(n, _)| n % 2 == 0) {
            let (given, got) = (h.bytes_in, h.bytes_out);
            assert!(got <= 3 * given, "host {n} got {got} bytes for {given}");
        }
    }

    fn wait(&mut self, span: Duration) {
        let until = self.now + span;
        let mut turns = 0;
        loop {
            let due = [self.stack.next_timeout(), self.link.next_timeout()];
            let due = due.into_iter().flatten().min();
            let Some(at) = due.filter(|at| *at <= until) else {
                break;
            };
            self.now = self.now.max(at);
            self.turn();
            turns += 1;
            assert!(turns < 50_000, "timers never move on");
        }
        self.now = until;
    }

    fn message(&mut self, who: u8, m: &Message) {
        let (number, size) = (m.number, m.size);
        let kind = match m.kind % 6 {
            0 => EncapsulationKind::Challenge(number),
            1 => EncapsulationKind::ChallengeReply(number),
            2 => EncapsulationKind::ProbeAck { number, size },
            _ => EncapsulationKind::Probe(number),
        };
        let mut bytes = Vec::new();
        EncapsulationHeader { id: id(m.id), kind }.encode(&mut bytes);
        if matches!(kind, EncapsulationKind::Probe(_)) {
            bytes.resize(bytes.len().max(usize::from(size % 1473)), 0);
        }
        self.say(who, &bytes);
    }

    fn sent(&mut self, who: u8, m: &Sent) {
        let answer = self.answers.get(&id(m.id)).copied();
        let (seq, ack) = answer.unwrap_or((SeqNumber(0), SeqNumber(0)));
        self.segment(who, id(m.id), |s| {
            s.flags = Flags(u16::from(m.flags) | Flags::ACK.0);
            s.seq = seq + u32::from(m.seq / 32);
            s.ack = m.ack.map_or(ack, SeqNumber);
            s.payload = vec![1; usize::from(m.len % 1400)].into();
            s.src.port += u16::from(m.other_port) * 100;
            s.options.token = NonZeroU32::new(u32::from(m.token));
        });
    }

    /// Sends segments with ids that no other step uses.
    fn flood(&mut self, who: u8, n: u8, syn: bool) {
        let flags = if syn { Flags::SYN } else { Flags::ACK };
        for k in 0..u64::from(n % 64) {
            self.segment(who, k << 20 | 3, |s| s.flags = flags);
        }
    }

    /// Host `by` answers the last challenge that host `of` received. A host that does not prove its address
    /// never answers its own challenge.
    fn echo(&mut self, of: u8, by: u8) {
        let (of, by) = (usize::from(of) % HOSTS, usize::from(by) % HOSTS);
        if of == by && of % 2 == 0 {
            return;
        }
        if let Some(mut reply) = self.hosts[of].challenges.pop() {
            // Type 2 is the reply to type 1 (docs/wire/encapsulation.md).
            reply[1] = 2;
            self.say(by as u8, &reply);
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Junk(who, bytes, len) => {
                let len = usize::from(*len) % (bytes.len() + 1);
                self.say(*who, &bytes[..len]);
            }
            Step::Message(who, m) => self.message(*who, m),
            Step::Syn(who, n) => self.segment(*who, id(*n), |s| s.flags = Flags::SYN),
            Step::Segment(who, m) => self.sent(*who, m),
            Step::Echo(of, by) => self.echo(*of, *by),
            Step::Flood(who, n, syn) => self.flood(*who, *n, *syn),
            Step::Wait(ms) => self.wait(Duration::from_millis(u64::from(*ms))),
            Step::Abort(n) => {
                let handles: Vec<_> = self.stack.handles().collect();
                if let Some(h) = handles.get(usize::from(*n) % handles.len().max(1)) {
                    self.stack.abort(self.now, *h);
                }
            }
        }
        self.turn();
    }
}

/// Plays a script and checks the invariants.
///
/// # Panics
/// If the link violates an invariant.
pub fn play(script: &Script) {
    let mut w = World::new(script);
    for s in &script.steps {
        w.step(s);
    }
    // Only time passes from here on.
    let handles: Vec<_> = w.stack.handles().collect();
    for h in handles {
        w.stack.abort(w.now, h);
    }
    w.wait(Duration::from_secs(1_000));
    assert_eq!(w.ids(), 0);
    assert_eq!(w.link.next_timeout(), None);
}

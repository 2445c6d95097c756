//! Two stacks and a network between them that loses, delays, reorders, duplicates, marks and corrupts packets,
//! all from one seed.

pub(crate) mod apps;
#[path = "../budget/mod.rs"]
pub(crate) mod budget;
pub(crate) mod judge;
pub(crate) mod networks;
pub(crate) mod scenario;
pub(crate) mod transfer;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::{IpAddr, Ipv4Addr};

use budget::Budget;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use spindle_mptcp::{Event, Stack, StackConfig};
use spindle_units::{Duration, Instant};
use spindle_wire::{
    Checksums, CodedKind, CodedPacket, Ecn, Endpoint, IpFields, Packet, Payload, Segment,
};

pub(crate) const CLIENT: usize = 0;
pub(crate) const SERVER: usize = 1;

/// One path. The path of a segment depends on its addresses and ports, as with ECMP.
#[derive(Clone, Debug, Default)]
pub(crate) struct Path {
    pub(crate) delay: Duration,
    pub(crate) jitter: Duration,
    /// Probability of loss from the client and from the server.
    pub(crate) loss: [f64; 2],
    pub(crate) duplicate: f64,
    /// Probability of a CE mark on an ECN-capable segment.
    pub(crate) mark: f64,
    /// Probability that a middlebox changes a payload byte and corrects the TCP checksum.
    pub(crate) corrupt: f64,
    /// Times at which the path goes down and up again, in turn.
    pub(crate) flips: Vec<Instant>,
    /// IP packets of up to this size pass from these times on. The sender of two in three larger packets is
    /// notified.
    pub(crate) mtu: Vec<(Instant, u32)>,
}

impl Path {
    pub(crate) fn clean(delay: Duration) -> Self {
        Self {
            delay,
            ..Self::default()
        }
    }

    pub(crate) fn is_up(&self, now: Instant) -> bool {
        self.flips.iter().filter(|t| **t <= now).count() % 2 == 0
    }

    /// Bytes of the largest IP packet that passes.
    pub(crate) fn mtu_at(&self, now: Instant) -> Option<u32> {
        let before = self.mtu.iter().rev().find(|(t, _)| *t <= now);
        before.map(|(_, mtu)| *mtu)
    }

    /// Whether the path is up throughout the time from `from` to `to`.
    pub(crate) fn is_up_throughout(&self, from: Instant, to: Instant) -> bool {
        self.is_up(from) && !self.flips.iter().any(|t| *t > from && *t <= to)
    }
}

/// Decides about a segment in transit, which it may change. Returns false to drop it.
pub(crate) type Hook = Box<dyn FnMut(Instant, usize, &mut Segment) -> bool>;

/// Like [`Hook`], for a packet of the coding layer.
pub(crate) type CodedHook = Box<dyn FnMut(Instant, usize, &mut CodedPacket) -> bool>;

/// Chooses a path for a packet.
pub(crate) type Route = Box<dyn FnMut(&Packet) -> usize>;

/// A segment as it was put on the wire.
#[derive(Clone, Debug)]
pub(crate) struct Logged {
    /// The number of packets of both kinds that were logged before.
    pub(crate) number: usize,
    pub(crate) at: Instant,
    pub(crate) side: usize,
    pub(crate) segment: Segment,
    pub(crate) arrives: bool,
}

/// A packet of the coding layer as it was put on the wire. The fields are those of [`Logged`].
#[derive(Clone, Debug)]
pub(crate) struct LoggedCoded {
    pub(crate) number: usize,
    pub(crate) at: Instant,
    pub(crate) side: usize,
    pub(crate) packet: CodedPacket,
    pub(crate) arrives: bool,
}

pub(crate) struct Net {
    pub(crate) now: Instant,
    pub(crate) stacks: [Stack; 2],
    pub(crate) paths: Vec<Path>,
    pub(crate) events: Vec<(Instant, usize, Event)>,
    /// All segments put on the wire, if `keep_log`.
    pub(crate) log: Vec<Logged>,
    /// All packets of the coding layer put on the wire, if `keep_log`.
    pub(crate) coded_log: Vec<LoggedCoded>,
    pub(crate) keep_log: bool,
    pub(crate) hook: Option<Hook>,
    pub(crate) coded_hook: Option<CodedHook>,
    /// Segments with payload and their bytes put on the wire without coding, per side.
    pub(crate) data_sent: [(u64, u64); 2],
    /// Encoded packets put on the wire, per side.
    pub(crate) coded_sent: [u64; 2],
    /// Payload bytes changed in transit to each side.
    pub(crate) corrupted: [u64; 2],
    /// Whether every packet is encoded, parsed again and compared.
    pub(crate) check_encoding: bool,
    /// Chooses the path instead of the hash, if present.
    pub(crate) route: Option<Route>,
    /// Whether all packets that arrive at one moment are received before any packet is sent.
    pub(crate) batch: bool,
    /// Whether bursts travel as one segment, as between two ends on one machine.
    pub(crate) whole_bursts: bool,
    /// The budget of work that each stack may have done so far.
    budgets: [Budget; 2],
    flying: BinaryHeap<Reverse<(Instant, u64)>>,
    packets: HashMap<u64, (usize, Packet)>,
    serial: u64,
    rng: Xoshiro256PlusPlus,
}

/// Limit of segments that a stack may send at one moment. A stack that reaches it sends without end.
const BURST: usize = 5_000;

pub(crate) fn endpoint(last: u8, port: u16) -> Endpoint {
    Endpoint::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)), port)
}

impl Net {
    pub(crate) fn new(seed: u64, paths: Vec<Path>) -> Self {
        Self::with_addresses(seed, paths, [Vec::new(), Vec::new()])
    }

    /// Like [`Self::new`], with further local addresses for the path managers of both stacks.
    pub(crate) fn with_addresses(seed: u64, paths: Vec<Path>, more: [Vec<IpAddr>; 2]) -> Self {
        let mut more = more.into_iter();
        let mut stack = |k: u64| {
            let config = StackConfig {
                addresses: more.next().unwrap_or_default(),
                ..StackConfig::default()
            };
            Stack::deterministic(config, seed.wrapping_mul(2).wrapping_add(k))
        };
        Self {
            now: Instant::from_nanos(1_000_000_000),
            stacks: [stack(0), stack(1)],
            paths,
            events: Vec::new(),
            log: Vec::new(),
            coded_log: Vec::new(),
            keep_log: false,
            hook: None,
            coded_hook: None,
            data_sent: [(0, 0); 2],
            coded_sent: [0; 2],
            corrupted: [0; 2],
            check_encoding: true,
            route: None,
            batch: false,
            whole_bursts: false,
            budgets: [Budget::default(); 2],
            flying: BinaryHeap::new(),
            packets: HashMap::new(),
            serial: 0,
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
        }
    }

    fn chance(&mut self, p: f64) -> bool {
        // One random number is drawn for any `p`, so that runs that differ in one probability stay comparable.
        ((self.rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64) < p
    }

    fn path_of(&mut self, packet: &Packet) -> usize {
        if let Some(route) = &mut self.route {
            return route(packet);
        }
        let side = |e: &Endpoint| match e.addr {
            IpAddr::V4(a) => u64::from(a.to_bits()) << 16 | u64::from(e.port),
            IpAddr::V6(a) => (a.to_bits() as u64) << 16 | u64::from(e.port),
        };
        let (a, b) = (side(&packet.src()), side(&packet.dst()));
        let mut h = a.wrapping_add(b).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        h = (h ^ (h >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((h >> 40) as usize) % self.paths.len()
    }

    /// Lets both stacks send all packets that they can.
    pub(crate) fn pump(&mut self) {
        for side in [CLIENT, SERVER] {
            let mut burst = 0;
            while let Some(packet) = self.stacks[side].transmit(self.now) {
                burst += 1;
                assert!(burst < BURST, "side {side} sends without end: {packet:?}");
                self.budgets[side].on_sent(packet.piece_count());
                if self.whole_bursts {
                    self.launch(side, packet);
                } else {
                    packet.for_each_piece(|piece| self.launch(side, piece));
                }
            }
            self.budgets[side].on_event();
            self.budgets[side].check(&self.stacks[side]);
            while let Some(event) = self.stacks[side].poll_event() {
                self.events.push((self.now, side, event));
            }
        }
    }

    fn launch(&mut self, side: usize, mut packet: Packet) {
        if self.check_encoding {
            check_encoding(&packet);
        }
        self.count(side, &packet);
        let path = self.path_of(&packet);
        let path = self.paths[path].clone();
        let lost = self.chance(path.loss[side]);
        let doubled = self.chance(path.duplicate);
        let marked = self.chance(path.mark);
        let corrupt = self.chance(path.corrupt);
        let pass = self.pass(side, &mut packet);
        let fits = self.fits(side, &packet, &path);
        let arrives = pass && !lost && fits && path.is_up(self.now);
        if self.keep_log {
            self.record(side, &packet, arrives);
        }
        if !arrives {
            // Recovery that is notified of drops repairs at once, and the repair is not lost.
            if let Some(repair) = self.stacks[side].dropped(self.now, &packet) {
                self.count(side, &repair);
                if path.is_up(self.now) {
                    self.fly(side, repair, &path);
                }
            }
            return;
        }
        if marked && packet.ecn() != Ecn::NotEct {
            packet.set_ecn(Ecn::Ce);
        }
        if corrupt {
            self.corrupt(side, &mut packet);
        }
        for _ in 0..1 + usize::from(doubled) {
            self.fly(side, packet.clone(), &path);
        }
    }

    /// Whether the hook for the packet's kind lets it pass.
    fn pass(&mut self, side: usize, packet: &mut Packet) -> bool {
        let now = self.now;
        match packet {
            Packet::Tcp(s) => self.hook.as_mut().is_none_or(|h| h(now, side, s)),
            Packet::Coded(c) => self.coded_hook.as_mut().is_none_or(|h| h(now, side, c)),
        }
    }

    fn record(&mut self, side: usize, packet: &Packet, arrives: bool) {
        let (number, at) = (self.log.len() + self.coded_log.len(), self.now);
        match packet.clone() {
            Packet::Tcp(segment) => self.log.push(Logged {
                number,
                at,
                side,
                segment,
                arrives,
            }),
            Packet::Coded(packet) => self.coded_log.push(LoggedCoded {
                number,
                at,
                side,
                packet,
                arrives,
            }),
        }
    }

    fn count(&mut self, side: usize, packet: &Packet) {
        let bytes = packet.payload().len() as u64;
        match packet {
            _ if bytes == 0 => {}
            Packet::Coded(_) => self.coded_sent[side] += 1,
            Packet::Tcp(segment) => {
                self.data_sent[side].0 += u64::from(segment.piece_count());
                self.data_sent[side].1 += bytes;
            }
        }
    }

    fn fly(&mut self, side: usize, packet: Packet, path: &Path) {
        let span = path.jitter.as_nanos().max(1);
        let jitter = self.rng.next_u64() % span;
        let at = self.now + path.delay + Duration::from_nanos(jitter);
        self.serial += 1;
        self.flying.push(Reverse((at, self.serial)));
        self.packets.insert(self.serial, (1 - side, packet));
    }

    /// Whether the path carries a packet of this size. If not, its sender may be notified (RFC 1191).
    fn fits(&mut self, side: usize, packet: &Packet, path: &Path) -> bool {
        let Some(mtu) = path.mtu_at(self.now) else {
            return true;
        };
        if packet.wire_len() <= mtu as usize {
            return true;
        }
        if !self.chance(1.0 / 3.0) {
            self.stacks[side].path_mtu(self.now, packet.src(), packet.dst(), mtu);
        }
        false
    }

    fn corrupt(&mut self, side: usize, packet: &mut Packet) {
        let at = self.rng.next_u64() as usize;
        let payload = match packet {
            Packet::Tcp(segment) => &mut segment.payload,
            Packet::Coded(packet) => &mut packet.payload,
        };
        if let Payload::Bytes(b) = payload
            && !b.is_empty()
        {
            let mut bytes = b.to_vec();
            let at = at % bytes.len();
            bytes[at] ^= 0x20;
            self.corrupted[1 - side] += 1;
            *payload = Payload::from(bytes);
        }
    }

    /// Time of the next arrival or timer.
    pub(crate) fn next(&self) -> Option<Instant> {
        let arrival = self.flying.peek().map(|Reverse((t, _))| *t);
        let timer = self.stacks.iter().filter_map(Stack::next_timeout).min();
        [arrival, timer].into_iter().flatten().min()
    }

    /// Runs to the next arrival or timer. Returns false if there is none until `until`.
    pub(crate) fn step(&mut self, until: Instant) -> bool {
        let halfway = self.batch && self.next().is_some_and(|t| t <= self.now);
        if !halfway {
            self.pump();
        }
        let arrival = self.flying.peek().map(|Reverse((t, _))| *t);
        let Some(next) = self.next().filter(|t| *t <= until) else {
            return false;
        };
        self.now = self.now.max(next);
        if arrival == Some(next) {
            let Some(Reverse((_, serial))) = self.flying.pop() else {
                return false;
            };
            if let Some((side, packet)) = self.packets.remove(&serial) {
                self.budgets[side].on_event();
                self.stacks[side].receive(self.now, packet);
            }
            let more = self.flying.peek().is_some_and(|Reverse((t, _))| *t == next);
            if self.batch && more {
                return true;
            }
        } else {
            for s in &mut self.stacks {
                s.timeout(self.now);
            }
        }
        self.pump();
        true
    }
}

/// Checks that a packet can be encoded, and that the encoding parses as the same packet.
fn check_encoding(packet: &Packet) {
    let bytes = match packet.to_bytes(&IpFields::default()) {
        Ok(bytes) => bytes,
        Err(e) => panic!("{e}: {packet:?}"),
    };
    match packet {
        Packet::Tcp(segment) => check_segment(segment, bytes),
        Packet::Coded(coded) => {
            let mut whole = coded.clone();
            whole.payload = coded.payload.to_bytes().into();
            // These are not on the wire.
            whole.first_seq = None;
            if let CodedKind::Encoded { twin, .. } = &mut whole.header.kind {
                *twin = None;
            }
            let mut read = match CodedPacket::from_ip(&bytes.into(), Checksums::Verify) {
                Ok(read) => read,
                Err(e) => panic!("{e}: {packet:?}"),
            };
            read.payload = read.payload.to_bytes().into();
            assert_eq!(read, whole);
        }
    }
}

fn check_segment(seg: &Segment, packet: Vec<u8>) {
    let mut whole = seg.clone();
    let mut bytes = seg.payload.to_bytes().to_vec();
    if let Some(rare) = &mut whole.options.rare {
        let head = std::mem::take(&mut rare.payload_head);
        bytes[..head.len()].copy_from_slice(&head);
    }
    whole.payload = Payload::from(bytes);
    let read = Segment::from_ip(&packet.into(), Checksums::Verify);
    match read {
        Ok(read) => {
            let same = read.payload.to_bytes() == whole.payload.to_bytes()
                && read.options == whole.options
                && (read.flow_label == whole.flow_label || whole.src.addr.is_ipv4())
                && (read.seq, read.ack, read.flags, read.window)
                    == (whole.seq, whole.ack, whole.flags, whole.window);
            assert!(same, "reads back as {read:?}, was {whole:?}");
        }
        Err(e) => panic!("{e}: {seg:?}"),
    }
}

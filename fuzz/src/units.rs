//! Two stacks that send coded units, and a network that loses, repeats and delays their packets. The network
//! may also lie about packets of the coding layer. A second connection has a server that does not code. These
//! invariants must hold:
//!
//! - There is no panic, and stored data stay within limits.
//! - No connection ends that no application closed.
//! - The data read are the data written, byte for byte.
//! - All data arrive once the network delivers every packet.
//!
//! Lies never change a TCP segment, since a network that can write its checksum can write its data. But a
//! checksum has 16 bits, and a changed unit may match its checksums by chance. If a lie was believed, the
//! script is played again with other data. It is a failure only if the lie is believed again.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::Arc;

use arbitrary::Arbitrary;
use bytes::Bytes;
use spindle_mptcp::stage::coding::formulas::Blocking;
use spindle_mptcp::stage::coding::{
    CodeKind, CodingConfig, CodingCounters, LONG, Redundancy, Samples, Short, UnitSize,
};
use spindle_mptcp::{CloseReason, Config, Event, Handle, Stack, StackConfig, preset};
use spindle_units::{Duration, Instant};
use spindle_wire::{
    CODING_CLOCK, Checksums, CodedKind, CodedPacket, CodingHeader, Ecn, Endpoint, ExperimentId,
    Experimental, Flags, IpFields, Options, Packet, Payload, Segment,
};

use crate::budget::Budget;
use crate::steps::steps;

/// The script of one run.
#[derive(Arbitrary, Clone, Debug)]
pub struct Script {
    kind: Kind,
    #[arbitrary(with = steps)]
    steps: Vec<Step>,
}

#[derive(Arbitrary, Clone, Debug)]
struct Kind {
    /// Whether payloads are real bytes, or only lengths.
    bytes: bool,
    lies: bool,
    /// How packets with real bytes are encoded in transit.
    carrier: Carrier,
    code: u8,
    coders: [Coder; 2],
    buffer: u8,
    timestamps: bool,
    /// Whether the stacks' memory is short.
    pressed: bool,
    /// Number of packets delivered before the script begins.
    peace: u8,
}

/// The coding settings that an end may choose.
#[derive(Arbitrary, Clone, Debug)]
struct Coder {
    unit: u8,
    redundancy: u8,
    short: u8,
    samples: bool,
    hold: u8,
}

#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
enum Carrier {
    /// Packets are not encoded.
    Nothing,
    Ip,
    Udp,
}

#[derive(Arbitrary, Clone, Debug)]
enum Step {
    Deliver(u8),
    /// Two bits for each of the next packets choose its fate. One of four is lost or delayed to the end.
    Fates(u32),
    Drop(u8),
    /// The next packet arrives now and again later.
    Repeat(u8),
    /// The `n`-th packet in transit overtakes the others.
    Overtake(u8),
    /// The next packet is overtaken by `n` others.
    Delay(u8),
    Mark,
    Write(Whose, u16),
    WriteMore(Whose, u16),
    Read(Whose, u16),
    Shutdown(Whose),
    /// Waits tens of microseconds and serves timers when they expire.
    Wait(u16),
    /// The `n`-th packet of the coding layer in transit is changed, or a changed copy of it arrives next.
    Lie {
        which: u8,
        copy: bool,
        lie: Lie,
    },
    /// The next TCP segment gets an echo.
    Echo(u32),
    Forge(Forged),
    /// One packet each of many units, forged.
    Flood(Forged),
    /// The last encoded packet again, as a packet of many units.
    Renumber(i16),
}

/// One end of a connection.
#[derive(Arbitrary, Clone, Copy, Debug)]
struct Whose {
    server: bool,
    plain: bool,
}

/// The false field of an encoded packet.
#[derive(Arbitrary, Clone, Debug)]
enum Lie {
    Unit(i8),
    UnitFar(u16),
    Shape(u8, u8),
    Index(u8),
    Time(u32),
    Length(u16),
    Symbol(u16, u8),
    Cut(u16),
    Longer(u16),
    Junk(u16, u8),
    Ack(u32, u32),
    NoTwin,
    Ports(u8),
    /// Any byte after the IP header.
    Byte(u16, u8),
}

/// A forged encoded packet or acknowledgement.
#[derive(Arbitrary, Clone, Debug)]
struct Forged {
    server: bool,
    to: u8,
    far: bool,
    unit: u16,
    sources: u8,
    total: u8,
    index: u8,
    timestamp: u32,
    len: u16,
    symbol: u16,
    byte: u8,
}

/// Limit of segments in one drain: both send buffers in the smallest pieces, and as many segments again.
const MOST_SENT: usize = 60_000;
/// Limit of packets in transit. Further packets are lost.
const MOST_ON_THE_WAY: usize = 4_000;
/// Packets of a flood.
const FLOOD: u16 = 64;
/// Time between two arrivals.
const APART: Duration = Duration::from_micros(20);
/// Limit of a decoder's memory (docs/wire/coding.md): incomplete units, units that wait for others with the
/// last unit that arrived, and 64 bytes for each of their packets.
const MOST_CODED: u64 = 2 * ((4 << 20) + 64 * 255 * 64) + 127 * 65_535;
/// Memory of other pieces, at both levels and on both connections.
const MOST_PIECES: u64 = 2 * 3 * 8192 * 64;
/// Ports of the server that codes, and of the server that does not.
const PORTS: [u16; 2] = [80, 81];

/// Results of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Units decoded.
    pub decoded: u64,
    /// Packets and units refused.
    pub refused: u64,
    /// Runs in which a changed unit matched its checksums.
    pub passed: u64,
}

/// A connection and the data transferred on it, from the client and from the server.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    ends: [Option<Handle>; 2],
    written: [u64; 2],
    read: [u64; 2],
    shut: [bool; 2],
}

struct World<'a> {
    kind: &'a Kind,
    /// Value that the data depend on.
    salt: u64,
    stacks: [Stack; 2],
    flows: [Flow; 2],
    now: Instant,
    way: VecDeque<Packet>,
    /// The last encoded packet that arrived.
    last: Option<CodedPacket>,
    receive_buffer: usize,
    send_buffer: usize,
    /// Whether a lie was believed.
    fooled: bool,
    budgets: [Budget; 2],
}

fn end(side: usize, port: u16) -> Endpoint {
    Endpoint::new(Ipv4Addr::new(10, 0, side as u8, 1).into(), port)
}

fn byte_at(salt: u64, offset: u64) -> u8 {
    (offset * (31 + 2 * salt) + offset / 251 + 77 * salt) as u8
}

fn coding(k: &Kind, c: &Coder) -> CodingConfig {
    let share = || Blocking::new(u32::from(c.redundancy >> 4), 32).unwrap_or(Blocking::NONE);
    CodingConfig {
        code: CodeKind::ALL[usize::from(k.code) % CodeKind::ALL.len()].1,
        unit: match c.unit % 8 {
            0 => UnitSize::Window,
            1 => UnitSize::Optimal,
            2 => UnitSize::Fixed(1 + c.unit / 2),
            _ => UnitSize::Fixed(1 + c.unit / 8 % 12),
        },
        redundancy: match c.redundancy % 4 {
            0 => Redundancy::Estimated,
            1 => Redundancy::Blocking(share()),
            _ => Redundancy::Packets(c.redundancy / 4 % 6),
        },
        short: match c.short % 8 {
            0 => Short::UpTo(5_000),
            1 => Short::UpTo(LONG),
            _ => Short::UpTo(1 << 40),
        },
        samples: match c.samples {
            true => Samples::Echoes,
            false => Samples::TcpAcks,
        },
        hold: match c.hold % 4 {
            0 => Some(Duration::from_millis(1)),
            1 => Some(Duration::from_millis(50)),
            _ => None,
        },
        ..CodingConfig::default()
    }
}

fn config(k: &Kind, coder: Option<&Coder>) -> Config {
    let mut config = preset("caps-dark").expect("a preset").config;
    config.coding = coder.map(|c| Arc::new(coding(k, c)));
    config.tcp.min_rto = Duration::from_millis(5);
    config.tcp.timestamps = k.timestamps;
    config.tcp.receive_buffer = [4_000, 40_000, 300_000][usize::from(k.buffer) % 3];
    config.tcp.send_buffer = [5_000, 50_000, 200_000][usize::from(k.buffer / 3) % 3];
    config
}

impl<'a> World<'a> {
    fn new(kind: &'a Kind, salt: u64) -> Self {
        let configs = [&kind.coders[0], &kind.coders[1]].map(|c| config(kind, Some(c)));
        let (receive_buffer, send_buffer) =
            (configs[0].tcp.receive_buffer, configs[0].tcp.send_buffer);
        // Memory is short only if the packets that complete both handshakes are delivered before the script.
        // Otherwise a late SYN would be refused.
        let pressed = kind.pressed && kind.peace % 16 >= 6;
        let stacks = [0, 1].map(|seed| {
            let config = StackConfig {
                // More than all data written and not acknowledged, since otherwise no window opens again. There
                // is also room for the second connection, in addition to the 80 KiB reserved for the first.
                max_memory: match pressed {
                    true => 4 * send_buffer as u64 + 150_000,
                    false => u64::MAX,
                },
                ..StackConfig::default()
            };
            Stack::deterministic(config, seed)
        });
        let mut w = Self {
            kind,
            salt,
            stacks,
            flows: [Flow::default(); 2],
            now: Instant::ZERO + Duration::from_secs(1),
            way: VecDeque::new(),
            last: None,
            receive_buffer,
            send_buffer,
            fooled: false,
            budgets: [Budget::default(); 2],
        };
        let [ours, theirs] = configs;
        let ours = Arc::new(ours);
        for (f, server) in [theirs, config(kind, None)].into_iter().enumerate() {
            let to = end(1, PORTS[f]);
            let listens = w.stacks[1].listen(to, Arc::new(server));
            listens.expect("a free endpoint");
            let h = w.stacks[0].connect(w.now, end(0, 0), to, ours.clone());
            w.flows[f].ends[0] = Some(h.expect("there is room"));
        }
        w.drain();
        w
    }

    fn drain(&mut self) {
        for side in 0..2 {
            let mut sent = 0;
            while let Some(packet) = self.stacks[side].transmit(self.now) {
                sent += 1;
                assert!(sent < MOST_SENT, "sending never ends");
                self.budgets[side].on_sent(packet.piece_count());
                if self.way.len() < MOST_ON_THE_WAY {
                    self.way.push_back(packet);
                }
            }
            self.budgets[side].on_event();
            self.budgets[side].check(&self.stacks[side]);
            while let Some(event) = self.stacks[side].poll_event() {
                self.on_event(event);
            }
        }
    }

    fn on_event(&mut self, event: Event) {
        let Event::Accepted { handle, .. } = event else {
            return;
        };
        let info = self.stacks[1].info(handle).expect("it is there");
        let port = info.subflows[0].local.port;
        let f = usize::from(port == PORTS[1]);
        assert_eq!(self.flows[f].ends[1], None, "no other client connects");
        self.flows[f].ends[1] = Some(handle);
    }

    /// The packet as it is parsed on arrival. `None` if it cannot be parsed.
    fn carried(&self, packet: Packet) -> Option<Packet> {
        if !self.kind.bytes || self.kind.carrier == Carrier::Nothing {
            return Some(packet);
        }
        let read = match self.kind.carrier {
            Carrier::Udp => {
                let mut out = Vec::new();
                packet.encapsulate(1, &mut out).ok()?;
                let ends = (packet.src().addr, packet.dst().addr);
                let read = Packet::decapsulate(ends, packet.ecn(), &Bytes::from(out));
                read.ok().map(|mut read| {
                    read.set_dscp(packet.dscp());
                    read
                })
            }
            _ => from_ip(packet.to_bytes(&IpFields::default()).ok()?),
        };
        if !self.kind.lies {
            let mut sent = packet;
            if let Packet::Coded(coded) = &mut sent {
                // The sequence number is only for links and is not on the wire.
                coded.first_seq = None;
            }
            assert_eq!(read.as_ref(), Some(&sent), "it travels as it is");
        }
        read
    }

    fn arrive(&mut self, packet: Packet) {
        self.wait(APART);
        if let Packet::Coded(coded) = &packet
            && coded.is_encoded()
        {
            self.last = Some(coded.clone());
        }
        if let Some(packet) = self.carried(packet) {
            let side = usize::from(packet.dst().addr == end(1, 0).addr);
            self.stacks[side].receive(self.now, packet);
        }
        self.drain();
    }

    fn next(&mut self) {
        if let Some(packet) = self.way.pop_front() {
            self.arrive(packet);
        }
    }

    fn wait(&mut self, span: Duration) {
        let until = self.now + span;
        let mut served = 0;
        while let Some(due) = self.due().filter(|t| *t <= until) {
            self.now = self.now.max(due);
            self.serve();
            served += 1;
            assert!(served < 200_000, "timers never move on");
        }
        self.now = until;
    }

    fn due(&self) -> Option<Instant> {
        self.stacks.iter().filter_map(Stack::next_timeout).min()
    }

    fn serve(&mut self) {
        for stack in &mut self.stacks {
            stack.timeout(self.now);
        }
        self.drain();
    }

    fn check(&self) {
        let buffers = 2 * (self.receive_buffer + self.send_buffer) as u64;
        let most = 2 * buffers + MOST_CODED + MOST_PIECES;
        for (side, stack) in self.stacks.iter().enumerate() {
            let buffered = stack.buffered();
            assert!(buffered <= most, "{buffered} bytes are stored");
            assert!(stack.handles().count() <= self.flows.len());
            for h in self.flows.iter().filter_map(|f| f.ends[side]) {
                let info = stack.info(h).expect("the handle stays valid");
                let well = matches!(info.closed, None | Some(CloseReason::Finished));
                assert!(well, "it ends: {info:#?}");
                assert!(info.subflows.len() <= 1);
                assert!(info.acknowledged <= info.sent && info.sent <= info.written);
                assert!(stack.readable(h) as usize <= self.receive_buffer);
            }
        }
    }

    /// Both ends' counters of the connection that is coded.
    fn counters(&self) -> [CodingCounters; 2] {
        [0, 1].map(|side| {
            let info = self.flows[0].ends[side].and_then(|h| self.stacks[side].info(h));
            info.map_or_else(CodingCounters::default, |i| i.coding)
        })
    }
}

fn from_ip(packet: Vec<u8>) -> Option<Packet> {
    Packet::from_ip(&Bytes::from(packet), Checksums::Verify).ok()
}

/// The applications.
impl World<'_> {
    fn data(&self, from: u64, n: usize) -> Payload {
        match self.kind.bytes {
            false => Payload::Length(n as u32),
            true => {
                let bytes = (from..from + n as u64).map(|o| byte_at(self.salt, o));
                Payload::from(bytes.collect::<Vec<_>>())
            }
        }
    }

    fn write(&mut self, whose: Whose, n: usize) {
        let (f, side) = (usize::from(whose.plain), usize::from(whose.server));
        let flow = self.flows[f];
        if let Some(h) = flow.ends[side].filter(|_| n > 0 && !flow.shut[side]) {
            let data = self.data(flow.written[side], n);
            let taken = self.stacks[side].send(self.now, h, data);
            self.flows[f].written[side] += taken.expect("it is open") as u64;
            self.drain();
        }
    }

    fn shutdown(&mut self, whose: Whose) {
        let (f, side) = (usize::from(whose.plain), usize::from(whose.server));
        // A shutdown aborts a connection that is not established.
        let up = |h: &Handle| self.stacks[side].info(*h).is_some_and(|i| i.established);
        if let Some(h) = self.flows[f].ends[side].filter(up) {
            self.flows[f].shut[side] = true;
            self.stacks[side].shutdown(self.now, h);
            self.drain();
        }
    }

    /// Reads data and checks that they are the data written.
    fn read(&mut self, f: usize, side: usize, most: usize) {
        let Some(h) = self.flows[f].ends[side] else {
            return;
        };
        while let Ok(Some(got)) = self.stacks[side].recv(self.now, h, most) {
            let (from, n) = (self.flows[f].read[side], got.len());
            let right = from + n as u64 <= self.flows[f].written[1 - side]
                && (!self.kind.bytes || got == self.data(from, n));
            assert!(
                right || self.may_be_fooled(f),
                "other data than were written, or more"
            );
            self.fooled |= !right;
            self.flows[f].read[side] += n as u64;
        }
        self.drain();
    }

    /// Whether a changed unit may match its checksums by chance. This needs real bytes on a connection that
    /// codes.
    fn may_be_fooled(&self, f: usize) -> bool {
        self.kind.lies && self.kind.bytes && f == 0
    }

    fn read_all(&mut self) {
        for (f, side) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            self.read(f, side, usize::MAX / 2);
        }
    }

    /// Whether all written data are read, and the end of the stream if there is one.
    fn is_done(&self) -> bool {
        self.flows.iter().all(|f| {
            [0, 1].into_iter().all(|side| {
                let ended = f.ends[side].is_some_and(|h| self.stacks[side].at_end(h));
                f.read[side] == f.written[1 - side] && (ended || !f.shut[1 - side])
            })
        })
    }

    /// Delivers every packet in order until all data are read.
    fn finish(&mut self) {
        let until = self.now + Duration::from_secs(200);
        while !self.is_done() && self.now < until {
            while !self.way.is_empty() {
                self.next();
                self.read_all();
            }
            if let Some(due) = self.due().filter(|_| !self.is_done()) {
                self.now = self.now.max(due);
                self.serve();
            }
            self.read_all();
            self.check();
        }
        let counters = self.counters();
        assert!(
            self.is_done(),
            "not all arrives: {:#?} {counters:#?}",
            self.flows
        );
        if !self.kind.lies {
            for c in counters {
                assert_eq!((c.packets_refused, c.units_refused), (0, 0), "{c:?}");
            }
        }
    }
}

/// The network.
impl World<'_> {
    /// Index of the `n`-th packet in transit for which `of` is true.
    fn place(&self, n: u8, of: fn(&Packet) -> bool) -> Option<usize> {
        let all: Vec<usize> = (0..self.way.len()).filter(|i| of(&self.way[*i])).collect();
        all.get(usize::from(n) % all.len().max(1)).copied()
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Deliver(n) => (0..=n % 32).for_each(|_| self.next()),
            Step::Fates(fates) => (0..16).for_each(|k| match fates >> (2 * k) & 3 {
                0 if k % 2 == 0 => drop(self.way.pop_front()),
                0 => self.way.rotate_left(1.min(self.way.len())),
                _ => self.next(),
            }),
            Step::Drop(n) => (0..=n % 4).for_each(|_| drop(self.way.pop_front())),
            Step::Repeat(n) => {
                if let Some(packet) = self.way.front().cloned() {
                    let at = usize::from(*n).min(self.way.len());
                    self.way.insert(at, packet);
                    self.next();
                }
            }
            Step::Overtake(n) => {
                let at = usize::from(*n) % self.way.len().max(1);
                if let Some(packet) = self.way.remove(at) {
                    self.arrive(packet);
                }
            }
            Step::Delay(n) => {
                if let Some(packet) = self.way.pop_front() {
                    self.way.insert(usize::from(*n).min(self.way.len()), packet);
                }
            }
            Step::Mark => {
                let capable = |p: &&mut Packet| p.ecn() != Ecn::NotEct;
                if let Some(packet) = self.way.iter_mut().find(capable) {
                    packet.set_ecn(Ecn::Ce);
                }
            }
            Step::Write(whose, n) => self.write(*whose, usize::from(*n) % 3_000),
            Step::WriteMore(whose, n) => self.write(*whose, usize::from(*n)),
            Step::Read(whose, n) => {
                let (f, side) = (usize::from(whose.plain), usize::from(whose.server));
                self.read(f, side, 1 + usize::from(*n));
            }
            // Only one in eight is executed, since a connection without writes is of little use.
            Step::Shutdown(whose) if self.now.as_micros() % 8 == 0 => self.shutdown(*whose),
            Step::Shutdown(_) => {}
            Step::Wait(n) => self.wait(Duration::from_micros(10 * u64::from(n % 3_000))),
            other if self.kind.lies => self.lie(other),
            _ => {}
        }
    }

    fn lie(&mut self, step: &Step) {
        match step {
            Step::Lie { which, copy, lie } => {
                let at = self.place(*which, |p| p.coded().is_some());
                let in_transit = at.and_then(|at| self.way[at].coded());
                let true_one = in_transit.or(self.last.as_ref()).cloned();
                let Some(coded) = true_one.and_then(|coded| changed(coded, lie)) else {
                    return;
                };
                match at.filter(|_| !copy) {
                    Some(at) => self.way[at] = coded.into(),
                    None => self.arrive(coded.into()),
                }
            }
            Step::Echo(time) => {
                if let Some(segment) = self.way.iter_mut().find_map(Packet::tcp_mut) {
                    echo(segment, *time);
                }
            }
            Step::Forge(forged) => {
                let packet = self.forged(forged, 0);
                self.arrive(packet.into());
            }
            Step::Flood(forged) => (0..FLOOD).for_each(|n| {
                let packet = self.forged(forged, n);
                self.arrive(packet.into());
            }),
            Step::Renumber(by) => {
                let Some(last) = self.last.clone() else {
                    return;
                };
                for n in 1..=FLOOD as i16 {
                    let mut packet = last.clone();
                    let unit = &mut packet.header.unit;
                    *unit = unit.wrapping_add_signed(by.wrapping_mul(n));
                    self.arrive(packet.into());
                }
            }
            _ => {}
        }
    }

    /// A forged packet, of the unit `n` after the one that `f` names.
    fn forged(&self, f: &Forged, n: u16) -> CodedPacket {
        let side = usize::from(f.server);
        let port = match f.to % 8 {
            0 => PORTS[1],
            1 => 4_000,
            _ => PORTS[0],
        };
        // The client's endpoint on that connection, if it is open.
        let flow = usize::from(port == PORTS[1]);
        let client = self.flows[flow].ends[0].and_then(|h| self.stacks[0].info(h));
        let client = client.and_then(|i| i.subflows.first().map(|s| s.local));
        let ends = [client.unwrap_or(end(0, 5_000)), end(1, port)];
        let near = self.last.as_ref().map_or(0, |l| l.header.unit);
        let base = if f.far {
            f.unit
        } else {
            near.wrapping_add(f.unit % 64)
        };
        let header = CodingHeader {
            unit: base.wrapping_add(n),
            index: f.index,
            timestamp: f.timestamp % CODING_CLOCK,
            kind: match f.sources {
                0 => CodedKind::Ack {
                    arrived: f.timestamp,
                    decoded: u32::from(f.unit),
                },
                sources => CodedKind::Encoded {
                    sources,
                    total: f.total.max(f.index),
                    len: f.len,
                    twin: None,
                },
            },
        };
        let mut packet = CodedPacket::new(ends[1 - side], ends[side], header);
        if f.sources > 0 {
            packet.payload = Payload::from(vec![f.byte; usize::from(f.symbol % 60_000)]);
        }
        packet
    }
}

/// A packet of the coding layer changed by the lie. `None` if it cannot be parsed.
fn changed(mut packet: CodedPacket, lie: &Lie) -> Option<CodedPacket> {
    let at_of = |at: u16, len: usize| usize::from(at) % len.max(1);
    if let Lie::Byte(at, x) = *lie {
        let mut bytes = packet.to_bytes(&IpFields::default()).ok()?;
        let at = 20 + at_of(at, bytes.len() - 20);
        bytes[at] ^= x;
        return CodedPacket::from_ip(&bytes.into(), Checksums::Verify).ok();
    }
    if let Lie::Ports(n) = *lie {
        let there = if packet.dst.port < 1_024 {
            &mut packet.dst
        } else {
            &mut packet.src
        };
        there.port = PORTS[0] + u16::from(n % 3);
        if n > 200 {
            (packet.src, packet.dst) = (packet.dst, packet.src);
        }
        return Some(packet);
    }
    let symbol = packet.payload.clone();
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = symbol.to_bytes().to_vec();
        change(&mut bytes);
        Payload::from(bytes)
    };
    match *lie {
        Lie::Symbol(at, x) if !symbol.is_empty() => {
            packet.payload = with(&|b| b[at_of(at, symbol.len())] ^= x);
        }
        Lie::Cut(n) => packet.payload = with(&|b| b.truncate(at_of(n, symbol.len()))),
        Lie::Longer(n) => packet.payload = with(&|b| b.resize(b.len() + usize::from(n % 2_000), 9)),
        Lie::Junk(n, x) => packet.payload = with(&|b| *b = vec![x; usize::from(n % 60_000)]),
        _ => {}
    }
    let header = &mut packet.header;
    match (lie, &mut header.kind) {
        (Lie::Unit(by), _) => header.unit = header.unit.wrapping_add_signed(i16::from(*by)),
        (Lie::UnitFar(n), _) => header.unit = *n,
        (Lie::Index(n), _) => header.index = *n,
        (Lie::Time(n), _) => header.timestamp = n % CODING_CLOCK,
        (Lie::Ack(arrived, decoded), kind) => {
            let (arrived, decoded) = (*arrived, *decoded);
            *kind = CodedKind::Ack { arrived, decoded };
        }
        (Lie::Shape(k, n), CodedKind::Encoded { sources, total, .. }) => {
            (*sources, *total) = (k.max(&1).to_owned(), *n);
        }
        (Lie::Length(x), CodedKind::Encoded { len, .. }) => *len ^= x,
        (Lie::NoTwin, CodedKind::Encoded { twin, .. }) => *twin = None,
        _ => {}
    }
    Some(packet)
}

/// Adds an echo of an encoded packet to a segment.
fn echo(seg: &mut Segment, time: u32) {
    const ROOM: usize = 8;
    let fits = seg.options.encoded_len() + ROOM <= Options::MAX_LEN;
    if fits && !seg.flags.intersects(Flags::SYN | Flags::RST) {
        let [_, time @ ..] = time.to_be_bytes();
        seg.options
            .rare_mut()
            .experimental
            .push(Experimental::of(ExperimentId::Coding, time.to_vec()));
    }
}

/// Plays a script with data that depend on `salt`. Returns its results and whether a lie was believed.
fn run(script: &Script, salt: u64) -> (Outcome, bool) {
    let mut w = World::new(&script.kind, salt);
    (0..script.kind.peace % 16).for_each(|_| w.next());
    for step in &script.steps {
        w.step(step);
        w.check();
    }
    w.finish();
    let [a, b] = w.counters();
    let sum = a.plus(&b);
    // Only time passes from here on.
    w.wait(Duration::from_secs(1_000));
    let outcome = Outcome {
        decoded: sum.units_decoded,
        refused: sum.packets_refused + sum.units_refused,
        passed: u64::from(w.fooled),
    };
    (outcome, w.fooled)
}

/// Plays a script and checks the invariants.
///
/// # Panics
/// If a stack violates an invariant.
pub fn play(script: &Script) -> Outcome {
    let (outcome, fooled) = run(script, 0);
    if fooled {
        for salt in 1..4 {
            assert!(!run(script, salt).1, "a lie is believed whatever the data");
        }
    }
    outcome
}

//! A receiver that agreed to decode parities of blocks, and a peer whose packets and parities arrive, are lost,
//! are repeated and are cut in any order. The peer may lie about parities. These invariants must hold:
//!
//! - There is no panic, and stored data stay within limits.
//! - If the parities are honest, the data read are the data sent, byte for byte, and the connection stays open.
//! - If the parities are honest, all data have arrived once all of them have been retransmitted.

use std::ops::Range;
use std::sync::Arc;

use arbitrary::Arbitrary;
use spindle_codes::{Body, Content, ErasureCode, ReedSolomon, Shape, Source};
use spindle_mptcp::path_manager::Passive;
use spindle_mptcp::{Handle, Stack, StackConfig, keys, preset};
use spindle_units::{Duration, Instant};
use spindle_wire::{
    DataNumber, Dss, Endpoint, ExperimentId, Experimental, Flags, Mapping, MpCapable, MpJoin,
    Payload, Segment, SeqNumber,
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
    two_subflows: bool,
    buffer: u8,
}

#[derive(Arbitrary, Clone, Debug)]
enum Step {
    /// The next data, on the first subflow or the second.
    Packet {
        second: bool,
        len: u16,
        fate: u8,
    },
    /// Eight full packets.
    Packets {
        second: bool,
        fates: u8,
    },
    Parity(Parity),
    Lie(Parity, Lie),
    /// An earlier segment again, unchanged.
    Again {
        second: bool,
        which: u16,
    },
    Read(u16),
    /// Waits this many milliseconds and serves timers when they expire.
    Wait(u16),
}

/// A parity of packets of one subflow, sent on the same subflow or the other.
#[derive(Arbitrary, Clone, Debug)]
struct Parity {
    of_second: bool,
    on_second: bool,
    /// Number of packets sent after the end of the block.
    back: u8,
    packets: u8,
    parities: u8,
    index: u8,
    fate: u8,
    /// If present, the parity arrives in two pieces.
    cut: Option<u16>,
}

/// The false field of a parity.
#[derive(Arbitrary, Clone, Debug)]
enum Lie {
    Name(u8),
    First(i32),
    End(i32),
    Packets(u8),
    Parities(u8),
    Index(u8),
    Lengths(u32),
    Numbers(u32),
    Body(u16, u8),
    Longer(u16),
    Shorter(u16),
    MarkedStart(i32),
    MarkedLen(u16),
    NoMarker,
    Mapped(u16),
}

/// Limit of a packet's payload in bytes: an MSS of 1460 less DSS and the coding header.
const MOST_PAYLOAD: u16 = 1420;
/// First bytes of the option's data (docs/wire/parities.md).
const OFFER_BLOCKS: u8 = 3;
const NAME: u8 = 4;
const BLOCK: u8 = 5;
const HEADER_LEN: usize = 20;
/// The peer's name for its second subflow.
const SECOND: u8 = 9;
const PEER_KEY: u64 = 0x0102_0304_0506_0708;
const PEER_NONCE: u32 = 0x1122_3344;

/// Results of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Packets recovered from parities.
    pub decoded: u64,
    /// Parities refused.
    pub refused: u64,
}

/// Data that were sent: position in the subflow, offset in the stream, and length.
#[derive(Clone, Copy, Debug)]
struct Packet {
    position: u32,
    offset: u64,
    len: u16,
}

/// One subflow of the peer.
struct Flow {
    there: Endpoint,
    name: u8,
    isn: SeqNumber,
    seq: SeqNumber,
    ack: SeqNumber,
    /// The highest acknowledgement from the stack.
    acked: SeqNumber,
    packets: Vec<Packet>,
    /// All segments sent.
    sent: Vec<Segment>,
}

impl Flow {
    fn new(there: Endpoint, name: u8, isn: u32) -> Self {
        let isn = SeqNumber(isn);
        Self {
            there,
            name,
            isn,
            seq: isn,
            ack: SeqNumber(0),
            acked: isn,
            packets: Vec::new(),
            sent: Vec::new(),
        }
    }

    /// Position of the next byte to send. The first byte's position is 1.
    fn position(&self) -> u32 {
        self.seq.0.wrapping_sub(self.isn.0)
    }

    fn segment(&self, flags: Flags) -> Segment {
        let mut seg = Segment::new(self.there, here());
        seg.seq = self.seq;
        seg.ack = self.ack;
        seg.flags = flags;
        seg.window = 60_000;
        seg
    }

    fn syn(&self) -> Segment {
        let mut seg = self.segment(Flags::SYN);
        let rare = seg.options.rare_mut();
        rare.mss = Some(1460);
        rare.sack_permitted = true;
        seg
    }
}

struct World {
    stack: Stack,
    handle: Option<Handle>,
    now: Instant,
    key: u64,
    flows: Vec<Flow>,
    kind: Kind,
    buffer: usize,
    /// Bytes sent and read so far.
    written: u64,
    read: u64,
    was_reset: bool,
    budget: Budget,
}

fn end(text: &str) -> Endpoint {
    let parsed = text.parse::<std::net::SocketAddr>();
    parsed.expect("an address is written down").into()
}

fn here() -> Endpoint {
    end("10.0.0.1:4000")
}

fn byte_at(offset: u64) -> u8 {
    ((offset * 31 + offset / 251) % 251) as u8
}

fn content(of: Range<u64>) -> Vec<u8> {
    of.map(byte_at).collect()
}

fn dsn(offset: u64) -> u64 {
    keys::idsn(PEER_KEY).wrapping_add(1).wrapping_add(offset)
}

fn say(seg: &mut Segment, data: Vec<u8>) {
    let option = Experimental::of(ExperimentId::Parity, data);
    seg.options.add_experiment(option);
}

/// Whether a segment arrives. One of four is lost.
fn arrives(fate: u8) -> bool {
    fate & 3 != 0
}

impl World {
    fn new(kind: &Kind) -> Self {
        let mut config = preset("cofuso").expect("a preset").config;
        let buffer = [20_000, 60_000, 400_000][usize::from(kind.buffer) % 3];
        config.tcp.receive_buffer = buffer;
        if let Some(m) = &mut config.multipath {
            m.path_manager = Arc::new(Passive);
        }
        let mut stack = Stack::deterministic(StackConfig::default(), 0);
        stack
            .listen(here(), Arc::new(config))
            .expect("a free endpoint");
        let mut w = Self {
            stack,
            handle: None,
            now: Instant::ZERO + Duration::from_secs(1),
            key: 0,
            flows: Vec::new(),
            kind: kind.clone(),
            buffer,
            written: 0,
            read: 0,
            was_reset: false,
            budget: Budget::default(),
        };
        w.open();
        if kind.two_subflows {
            w.join();
        }
        w
    }

    /// The first subflow, on which both ends agree on parities of blocks.
    fn open(&mut self) {
        let mut flow = Flow::new(end("10.0.0.2:80"), 0, 5000);
        let capable = |sender, receiver| MpCapable {
            version: 1,
            hmac_sha256: true,
            sender_key: sender,
            receiver_key: receiver,
            ..MpCapable::default()
        };
        let mut syn = flow.syn();
        syn.options.rare_mut().mp_capable = Some(capable(None, None));
        say(&mut syn, vec![OFFER_BLOCKS]);
        let answer = self.push(syn).swap_remove(0);
        let rare = answer
            .options
            .rare
            .as_ref()
            .expect("an answer to MP_CAPABLE");
        assert_eq!(rare.experimental[0].data, [OFFER_BLOCKS], "it agrees");
        let key = rare.mp_capable.and_then(|c| c.sender_key);
        self.key = key.expect("a SYN/ACK has a key");
        (flow.seq, flow.ack) = (flow.seq + 1, answer.seq + 1);
        let mut third = flow.segment(Flags::ACK);
        third.options.rare_mut().mp_capable = Some(capable(Some(PEER_KEY), Some(self.key)));
        self.push(third);
        self.handle = self.stack.handles().next();
        let first = self.bare(&flow);
        self.push(first);
        self.flows.push(flow);
    }

    fn join(&mut self) {
        let mut flow = Flow::new(end("10.0.1.2:81"), SECOND, u32::MAX - 20_000);
        let mut syn = flow.syn();
        syn.options.rare_mut().mp_join = Some(MpJoin::Syn {
            backup: false,
            address_id: 1,
            token: keys::token(self.key),
            nonce: PEER_NONCE,
        });
        say(&mut syn, vec![NAME, SECOND]);
        let answer = self.push(syn).swap_remove(0);
        let join = answer.options.rare.as_ref().and_then(|r| r.mp_join);
        let Some(MpJoin::SynAck { nonce, .. }) = join else {
            panic!("no answer to MP_JOIN");
        };
        (flow.seq, flow.ack) = (flow.seq + 1, answer.seq + 1);
        let hmac = keys::join_hmac(PEER_KEY, self.key, PEER_NONCE, nonce);
        let mut third = flow.segment(Flags::ACK);
        third.options.rare_mut().mp_join = Some(MpJoin::Ack {
            hmac: keys::leftmost_160(&hmac),
        });
        self.push(third);
        self.flows.push(flow);
    }

    /// The stack receives a segment. Returns the segments that it sends.
    fn push(&mut self, seg: Segment) -> Vec<Segment> {
        self.now += Duration::from_micros(200);
        self.stack.receive(self.now, seg);
        self.drain()
    }

    fn drain(&mut self) -> Vec<Segment> {
        let mut out = Vec::new();
        while let Some(packet) = self.stack.transmit(self.now) {
            let seg = packet.into_tcp().expect("no coding");
            for flow in self.flows.iter_mut().filter(|f| f.there == seg.dst) {
                if flow.acked.before(seg.ack) {
                    flow.acked = seg.ack;
                }
            }
            self.was_reset |= seg.flags.contains(Flags::RST);
            self.budget.on_sent(seg.piece_count());
            out.push(seg);
            assert!(out.len() < 1_000, "sending never ends");
        }
        while self.stack.poll_event().is_some() {}
        self.budget.on_event();
        self.budget.check(&self.stack);
        out
    }

    fn flow(&self, second: bool) -> usize {
        usize::from(second && self.flows.len() > 1)
    }

    /// An acknowledgement at both levels without payload.
    fn bare(&self, flow: &Flow) -> Segment {
        let ack = keys::idsn(self.key).wrapping_add(1);
        let mut seg = flow.segment(Flags::ACK);
        seg.options.dss = Some(Dss {
            data_ack: Some(DataNumber::Low(ack as u32)),
            ..Dss::default()
        });
        seg
    }

    /// Sends a segment with this payload as the next one of a subflow. It arrives or not.
    fn send(&mut self, f: usize, mut seg: Segment, payload: Payload, fate: u8) {
        let flow = &mut self.flows[f];
        flow.seq = flow.seq + payload.len() as u32;
        seg.payload = payload;
        flow.sent.push(seg.clone());
        if arrives(fate) {
            self.push(seg);
        }
    }

    /// Sends the next data on a subflow. An honest peer keeps to the window.
    fn packet(&mut self, f: usize, len: u16, fate: u8) {
        let (len, offset) = (1 + len % MOST_PAYLOAD, self.written);
        let end = offset + u64::from(len);
        if self.kind.lies || end <= self.read + self.buffer as u64 {
            self.written = end;
            self.map(f, offset, len, fate);
        }
    }

    /// Sends data as new sequence space of a subflow.
    fn map(&mut self, f: usize, offset: u64, len: u16, fate: u8) {
        let flow = &self.flows[f];
        let mut seg = self.bare(flow);
        let packet = Packet {
            position: flow.position(),
            offset,
            len,
        };
        if let Some(dss) = &mut seg.options.dss {
            dss.mapping = Some(Mapping {
                dsn: DataNumber::Low(dsn(offset) as u32),
                ssn: packet.position,
                len,
                checksum: None,
            });
        }
        let payload = match self.kind.bytes {
            true => Payload::from(content(offset..offset + u64::from(len))),
            false => Payload::Length(u32::from(len)),
        };
        self.flows[f].packets.push(packet);
        self.send(f, seg, payload, fate);
    }

    /// The packets that a parity protects: contiguous in their subflow, with no parity between them.
    fn block(&self, p: &Parity) -> Vec<Packet> {
        let all = &self.flows[self.flow(p.of_second)].packets;
        let all = &all[..all.len().saturating_sub(usize::from(p.back % 8))];
        let mut run: Vec<Packet> = Vec::new();
        for packet in all.iter().rev() {
            let next = packet.position.wrapping_add(u32::from(packet.len));
            let adjoins = run.last().is_none_or(|later| later.position == next);
            if !adjoins || run.len() >= 1 + usize::from(p.packets % 40) {
                break;
            }
            run.push(*packet);
        }
        run.reverse();
        run
    }

    fn parity(&mut self, p: &Parity, lie: Option<&Lie>) {
        let block = self.block(p);
        let (Some(first), Some(last)) = (block.first(), block.last()) else {
            return;
        };
        let bodies: Vec<Vec<u8>> = block
            .iter()
            .map(|b| content(b.offset..b.offset + u64::from(b.len)))
            .collect();
        let sources = block.iter().zip(&bodies).map(|(b, bytes)| Source {
            dsn: dsn(b.offset) as u32,
            body: match self.kind.bytes {
                true => Body::Bytes(bytes),
                false => Body::Length(u32::from(b.len)),
            },
        });
        let sources: Vec<_> = sources.collect();
        let shape = Shape::new(block.len(), 1 + usize::from(p.parities % 4));
        let index = usize::from(p.index) % shape.parities;
        let symbol = ReedSolomon::new().encode(shape, index, &sources);
        let symbol = symbol.expect("within the limits of the code");
        let on = self.flow(p.on_second);
        let mut said = Said {
            name: self.flows[self.flow(p.of_second)].name,
            first: first.position,
            end: last.position.wrapping_add(u32::from(last.len)),
            sources: shape.sources as u8,
            parities: shape.parities as u8,
            index: index as u8,
            lengths: symbol.label.len,
            numbers: symbol.label.dsn,
            body: symbol.content,
            start: self.flows[on].position(),
            marked: Some((HEADER_LEN + bodies.iter().map(Vec::len).max().unwrap_or(0)) as u16),
            mapped: None,
        };
        if let Some(lie) = lie {
            said.lie(lie);
        }
        let (seg, payload) = said.written(self.bare(&self.flows[on]));
        let cut = p.cut.map(|c| usize::from(c) % payload.len());
        match cut.filter(|c| *c > 0) {
            None => self.send(on, seg, payload, p.fate),
            Some(cut) => {
                let mut seg = seg;
                if let Some(rare) = &mut seg.options.rare {
                    rare.payload_head = Vec::new();
                }
                let (head, tail) = (
                    payload.slice(0, cut),
                    payload.slice(cut, payload.len() - cut),
                );
                self.send(on, seg.clone(), head, p.fate);
                seg.seq = self.flows[on].seq;
                self.send(on, seg, tail, p.fate >> 2);
            }
        }
    }

    fn read(&mut self, most: usize) {
        let Some(h) = self.handle else { return };
        let before = self.read;
        while self.read < before + most as u64
            && let Ok(Some(got)) = self.stack.recv(self.now, h, most)
        {
            let range = self.read..self.read + got.len() as u64;
            self.read = range.end;
            if self.kind.lies {
                continue;
            }
            assert!(self.read <= self.written, "more is read than was sent");
            if let Payload::Bytes(bytes) = &got {
                assert!(
                    bytes[..] == content(range)[..],
                    "other bytes than were sent"
                );
            }
        }
        self.drain();
    }

    fn wait(&mut self, span: Duration) {
        let until = self.now + span;
        while let Some(due) = self.stack.next_timeout().filter(|t| *t <= until) {
            self.now = self.now.max(due);
            self.stack.timeout(self.now);
            self.drain();
        }
        self.now = until;
    }

    fn check(&self) {
        // In-order and out-of-order data at both levels, and packets and parities of each subflow.
        let most = (2 + 2 * self.flows.len()) * self.buffer + 300_000;
        assert!(self.stack.buffered() <= most as u64);
        if !self.kind.lies {
            assert!(!self.was_reset, "an honest peer is reset");
        }
    }

    /// Repeats every segment that is not acknowledged until all data are read. Data that were beyond the window
    /// are mapped again, on new sequence space.
    fn finish(&mut self) {
        let packets: Vec<Packet> = self.flows.iter().flat_map(|f| f.packets.clone()).collect();
        for _ in 0..=packets.len() {
            for f in 0..self.flows.len() {
                for k in 0..self.flows[f].sent.len() {
                    let flow = &self.flows[f];
                    let seg = &flow.sent[k];
                    if flow.acked.before(seg.seq + seg.payload.len() as u32) {
                        self.push(seg.clone());
                        self.read(usize::MAX / 2);
                    }
                }
            }
            self.check();
            let next = packets
                .iter()
                .find(|p| (p.offset..p.offset + u64::from(p.len)).contains(&self.read));
            match next {
                Some(next) => {
                    self.map(0, next.offset, next.len, u8::MAX);
                    self.read(usize::MAX / 2);
                }
                None => return assert_eq!(self.read, self.written, "all is there"),
            }
        }
        let info = self.handle.and_then(|h| self.stack.info(h));
        panic!(
            "only {} bytes of {} ever arrive: {info:#?}",
            self.read, self.written
        );
    }
}

/// A parity as the peer announces it.
struct Said {
    name: u8,
    first: u32,
    end: u32,
    sources: u8,
    parities: u8,
    index: u8,
    lengths: u32,
    numbers: u32,
    body: Content,
    start: u32,
    marked: Option<u16>,
    mapped: Option<u16>,
}

impl Said {
    fn lie(&mut self, lie: &Lie) {
        let shifted = |n: u32, by: i32| n.wrapping_add_signed(by % 4000);
        match *lie {
            Lie::Name(n) => self.name = n % 12,
            Lie::First(by) => self.first = shifted(self.first, by),
            Lie::End(by) => self.end = shifted(self.end, by),
            Lie::Packets(n) => self.sources = n,
            Lie::Parities(n) => self.parities = n,
            Lie::Index(n) => self.index = n,
            Lie::Lengths(x) => self.lengths ^= x,
            Lie::Numbers(x) => self.numbers ^= x,
            Lie::Body(at, x) => {
                if let Content::Bytes(bytes) = &mut self.body {
                    let at = usize::from(at) % bytes.len();
                    bytes[at] ^= x;
                }
            }
            Lie::Longer(n) => self.resize(self.body.len() + usize::from(n % 2000)),
            Lie::Shorter(n) => self.resize(self.body.len().saturating_sub(usize::from(n % 2000))),
            Lie::MarkedStart(by) => self.start = shifted(self.start, by),
            Lie::MarkedLen(n) => self.marked = Some(n),
            Lie::NoMarker => self.marked = None,
            Lie::Mapped(len) => self.mapped = Some(len),
        }
    }

    /// The marker has the same length, since the lie is about the block.
    fn resize(&mut self, len: usize) {
        match &mut self.body {
            Content::Bytes(bytes) => bytes.resize(len, 7),
            Content::Length(n) => *n = len as u32,
        }
        self.marked = Some((HEADER_LEN + len) as u16);
    }

    /// The segment that carries the parity, and its payload.
    fn written(self, mut seg: Segment) -> (Segment, Payload) {
        let mut header = vec![self.name];
        header.extend(self.first.to_be_bytes());
        header.extend(self.end.to_be_bytes());
        header.extend([self.sources, self.parities, self.index]);
        header.extend(self.lengths.to_be_bytes());
        header.extend(self.numbers.to_be_bytes());
        if let Some(len) = self.marked {
            let mut marker = vec![BLOCK];
            marker.extend(self.start.to_be_bytes());
            marker.extend(len.to_be_bytes());
            say(&mut seg, marker);
        }
        let payload = match self.body {
            Content::Bytes(body) => Payload::from([header, body].concat()),
            Content::Length(len) => {
                seg.options.rare_mut().payload_head = header;
                Payload::Length(HEADER_LEN as u32 + len)
            }
        };
        if let (Some(len), Some(dss)) = (self.mapped, &mut seg.options.dss) {
            dss.mapping = Some(Mapping {
                dsn: DataNumber::Low(dsn(u64::from(self.first)) as u32),
                ssn: self.start,
                len,
                checksum: None,
            });
        }
        (seg, payload)
    }
}

/// Plays a script and checks the invariants.
///
/// # Panics
/// If the receiver violates an invariant.
pub fn play(script: &Script) -> Outcome {
    let mut w = World::new(&script.kind);
    for step in &script.steps {
        match step {
            Step::Packet { second, len, fate } => w.packet(w.flow(*second), *len, *fate),
            Step::Packets { second, fates } => {
                for bit in 0..8 {
                    w.packet(w.flow(*second), MOST_PAYLOAD - 1, fates >> bit & 1);
                }
            }
            Step::Parity(p) => w.parity(p, None),
            Step::Lie(p, lie) => w.parity(p, Some(lie).filter(|_| script.kind.lies)),
            Step::Again { second, which } => {
                let sent = &w.flows[w.flow(*second)].sent;
                if let Some(seg) = sent.get(usize::from(*which) % sent.len().max(1)).cloned() {
                    w.push(seg);
                }
            }
            Step::Read(most) => w.read(1 + usize::from(*most)),
            Step::Wait(ms) => w.wait(Duration::from_millis(u64::from(*ms) % 1_000)),
        }
        w.check();
    }
    let info = w.handle.and_then(|h| w.stack.info(h));
    if !script.kind.lies {
        w.finish();
    }
    // Only time passes from here on.
    w.wait(Duration::from_secs(1_000));
    info.map_or_else(Outcome::default, |info| Outcome {
        decoded: info.data.packets_decoded,
        refused: info.data.parities_refused,
    })
}

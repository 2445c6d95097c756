//! One stack with plain TCP, and a peer whose segments are all written by hand.

use std::sync::Arc;

use spindle_mptcp::{Config, Handle, Stack, StackConfig, SubflowInfo};
use spindle_units::{Duration, Instant};
use spindle_wire::{Endpoint, Flags, Packet, Payload, Segment, SeqNumber};

/// Bytes of a full segment in these tests.
pub(crate) const MSS: u32 = 1000;
/// The peer's initial sequence number.
pub(crate) const PEER_ISS: SeqNumber = SeqNumber(5000);
/// The path's round-trip time, as the handshake measures it.
pub(crate) const RTT: Duration = Duration::from_millis(100);
/// Limit of segments that the stack may send at once in a test.
const MOST: usize = 2_000;

fn end(s: &str) -> Endpoint {
    s.parse::<std::net::SocketAddr>().unwrap().into()
}

/// Plain TCP without the options that make numbers hard to read.
pub(crate) fn plain() -> Config {
    let mut config = Config::default();
    config.tcp.mss = MSS;
    config.tcp.timestamps = false;
    config.tcp.window_scaling = false;
    config
}

/// The stack, the time, and the state of the peer.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) stack: Stack,
    pub(crate) now: Instant,
    pub(crate) handle: Option<Handle>,
    /// The peer's next sequence number.
    pub(crate) seq: SeqNumber,
    /// The peer's acknowledgement number.
    pub(crate) ack: SeqNumber,
    /// The unscaled window that the peer announces.
    pub(crate) window: u16,
}

impl Peer {
    /// A stack without a connection, one second after the beginning.
    pub(crate) fn new() -> Self {
        Self {
            stack: Stack::deterministic(StackConfig::default(), 0),
            now: Instant::ZERO + Duration::from_secs(1),
            handle: None,
            seq: PEER_ISS,
            ack: SeqNumber(0),
            window: 60_000,
        }
    }

    /// A stack that has sent its SYN, and that SYN.
    pub(crate) fn connecting(config: Config) -> (Self, Segment) {
        let mut p = Self::new();
        let (here, there) = (end("10.0.0.1:4000"), end("10.0.0.2:80"));
        let h = p.stack.connect(p.now, here, there, Arc::new(config));
        p.handle = Some(h.unwrap());
        let syn = one(p.drain());
        p.ack = syn.seq + 1;
        (p, syn)
    }

    /// A connection opened by the stack, over a path of [`RTT`].
    pub(crate) fn establish(config: Config) -> Self {
        let (mut p, _) = Self::connecting(config);
        let answer = p.syn(Flags::SYN | Flags::ACK);
        p.seq = p.seq + 1;
        p.after(RTT, answer);
        p
    }

    /// A segment with the peer's current sequence and acknowledgement numbers.
    pub(crate) fn segment(&self, flags: Flags) -> Segment {
        let mut seg = Segment::new(end("10.0.0.2:80"), end("10.0.0.1:4000"));
        seg.seq = self.seq;
        seg.ack = self.ack;
        seg.flags = flags;
        seg.window = self.window;
        seg
    }

    /// A SYN or SYN/ACK with the MSS and SACK options.
    pub(crate) fn syn(&self, flags: Flags) -> Segment {
        let mut seg = self.segment(flags);
        let rare = seg.options.rare_mut();
        rare.mss = Some(1460);
        rare.sack_permitted = true;
        seg
    }

    /// The peer's next `len` bytes.
    pub(crate) fn data(&mut self, len: u32) -> Segment {
        let mut seg = self.segment(Flags::ACK);
        seg.payload = Payload::Length(len);
        self.seq = self.seq + len;
        seg
    }

    /// Everything the stack sends now.
    pub(crate) fn drain(&mut self) -> Vec<Segment> {
        let out: Vec<_> = std::iter::from_fn(|| self.stack.transmit(self.now))
            .filter_map(Packet::into_tcp)
            .take(MOST)
            .collect();
        assert!(out.len() < MOST, "the stack never stops sending");
        out
    }

    /// The stack receives a segment after `wait`, without serving timers in between. Returns the segments that
    /// it sends.
    pub(crate) fn after(&mut self, wait: Duration, seg: Segment) -> Vec<Segment> {
        self.now += wait;
        self.stack.receive(self.now, seg);
        self.drain()
    }

    /// The stack receives a segment. Returns the segments that it sends.
    pub(crate) fn push(&mut self, seg: Segment) -> Vec<Segment> {
        self.after(Duration::from_millis(1), seg)
    }

    /// Serves timers up to the first that makes the stack send. Returns the time this took and the segments
    /// that it sends.
    pub(crate) fn wait(&mut self) -> (Duration, Vec<Segment>) {
        let start = self.now;
        for _ in 0..1000 {
            let Some(due) = self.stack.next_timeout() else {
                return (self.now.since(start), Vec::new());
            };
            self.now = self.now.max(due);
            self.stack.timeout(self.now);
            let out = self.drain();
            if !out.is_empty() {
                return (self.now.since(start), out);
            }
        }
        panic!("a thousand timers and nothing sent");
    }

    /// The application writes `len` bytes. Returns the segments that are sent.
    pub(crate) fn send(&mut self, len: u32) -> Vec<Segment> {
        let h = self.handle.unwrap();
        let n = self.stack.send(self.now, h, Payload::Length(len)).unwrap();
        assert_eq!(n, len as usize);
        self.drain()
    }

    /// The only subflow.
    pub(crate) fn info(&self) -> SubflowInfo {
        let info = self.stack.info(self.handle.unwrap()).unwrap();
        info.subflows[0].clone()
    }
}

/// The only segment of `out`.
pub(crate) fn one(out: Vec<Segment>) -> Segment {
    assert_eq!(out.len(), 1, "{out:#?}");
    out.into_iter().next().unwrap()
}

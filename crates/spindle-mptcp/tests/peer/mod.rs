//! One stack and a peer whose segments are all written by hand.

#[path = "../budget/mod.rs"]
pub(crate) mod budget;

use std::sync::Arc;

use budget::Budget;
use spindle_mptcp::path_manager::PathManager;
use spindle_mptcp::{Config, Handle, MultipathConfig, Stack, StackConfig, keys};
use spindle_units::{Duration, Instant};
use spindle_wire::{
    DataNumber, Dss, Endpoint, Flags, Mapping, MpCapable, MpJoin, Packet, Payload, Segment,
    SeqNumber,
};

/// The peer's key.
pub(crate) const PEER_KEY: u64 = 0x0102_0304_0506_0708;
/// The peer's nonce in joins.
pub(crate) const PEER_NONCE: u32 = 0x1122_3344;
/// The unscaled window in every segment of the peer.
const PEER_WINDOW: u16 = 60_000;
/// Limit of segments that the stack may send at once in a test.
const MOST: usize = 2_000;

pub(crate) fn end(s: &str) -> Endpoint {
    s.parse::<std::net::SocketAddr>().unwrap().into()
}

/// The stack's first address.
pub(crate) fn here() -> Endpoint {
    end("10.0.0.1:4000")
}

/// The peer's first address.
pub(crate) fn there() -> Endpoint {
    end("10.0.0.2:80")
}

/// MPTCP without the TCP options that these tests do not check.
pub(crate) fn config(path_manager: impl PathManager + 'static) -> Config {
    let mut config = Config {
        multipath: Some(MultipathConfig {
            path_manager: Arc::new(path_manager),
            ..MultipathConfig::default()
        }),
        ..Config::default()
    };
    config.tcp.timestamps = false;
    config.tcp.window_scaling = false;
    config
}

/// One TCP subflow as the peer sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    /// The stack's end.
    pub(crate) here: Endpoint,
    /// The peer's end.
    pub(crate) there: Endpoint,
    isn: SeqNumber,
    /// The peer's next sequence number.
    pub(crate) seq: SeqNumber,
    /// The end of the stack's sequence numbers that the peer has received.
    pub(crate) ack: SeqNumber,
}

impl Flow {
    /// A flow about to send the peer's first segment, which acknowledges `ack`.
    pub(crate) fn new(here: Endpoint, there: Endpoint, isn: u32, ack: SeqNumber) -> Self {
        Self {
            here,
            there,
            isn: SeqNumber(isn),
            seq: SeqNumber(isn),
            ack,
        }
    }

    /// The peer's next subflow sequence number as mappings count it (RFC 8684, section 3.3.1).
    pub(crate) fn ssn(&self) -> u32 {
        self.seq.0.wrapping_sub(self.isn.0)
    }

    /// A segment of the peer with the flow's current sequence and acknowledgement numbers.
    pub(crate) fn segment(&self, flags: Flags) -> Segment {
        let mut seg = Segment::new(self.there, self.here);
        seg.seq = self.seq;
        seg.ack = self.ack;
        seg.flags = flags;
        seg.window = PEER_WINDOW;
        seg
    }

    /// Records that the peer received those of these segments that belong to this flow.
    pub(crate) fn take(&mut self, segments: &[Segment]) {
        let own = |s: &&Segment| (s.src, s.dst) == (self.here, self.there);
        for s in segments.iter().filter(own) {
            let after = s.seq + s.seq_len();
            if self.ack.before(after) {
                self.ack = after;
            }
        }
    }
}

/// A SYN or SYN/ACK with the usual options.
pub(crate) fn syn(flow: &Flow, flags: Flags) -> Segment {
    let mut seg = flow.segment(flags);
    let rare = seg.options.rare_mut();
    rare.mss = Some(1460);
    rare.sack_permitted = true;
    seg
}

pub(crate) fn capable(sender: Option<u64>, receiver: Option<u64>) -> MpCapable {
    MpCapable {
        version: 1,
        hmac_sha256: true,
        sender_key: sender,
        receiver_key: receiver,
        ..MpCapable::default()
    }
}

/// The stack, the time, a connection, and the stack's key once it has sent it.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) stack: Stack,
    pub(crate) now: Instant,
    pub(crate) handle: Option<Handle>,
    pub(crate) key: u64,
    /// The budget of work that the stack may have done so far.
    pub(crate) budget: Budget,
}

impl Bench {
    /// A stack that listens at [`here`].
    pub(crate) fn listening(config: Config, stack: StackConfig) -> Self {
        let mut stack = Stack::deterministic(stack, 0);
        stack.listen(here(), Arc::new(config)).unwrap();
        Self {
            stack,
            now: Instant::ZERO + Duration::from_secs(1),
            handle: None,
            key: 0,
            budget: Budget::default(),
        }
    }

    /// Everything that the stack sends now, after one segment, timer or call of the application since the last
    /// drain. Checks that its work stays within the [budget](Budget).
    pub(crate) fn drain(&mut self) -> Vec<Segment> {
        let out: Vec<_> = std::iter::from_fn(|| self.stack.transmit(self.now))
            .filter_map(Packet::into_tcp)
            .take(MOST)
            .collect();
        assert!(out.len() < MOST, "the stack never stops sending");
        self.budget.on_event();
        out.iter()
            .for_each(|seg| self.budget.on_sent(seg.piece_count()));
        self.budget.check(&self.stack);
        out
    }

    /// The stack receives a segment. Returns the segments that it sends.
    pub(crate) fn push(&mut self, seg: Segment) -> Vec<Segment> {
        self.now += Duration::from_millis(1);
        self.stack.receive(self.now, seg);
        self.drain()
    }

    /// Serves timers up to the first that makes the stack send. Returns the segments that it sends.
    pub(crate) fn wait(&mut self) -> Vec<Segment> {
        for _ in 0..1000 {
            let Some(due) = self.stack.next_timeout() else {
                return Vec::new();
            };
            self.now = self.now.max(due);
            self.stack.timeout(self.now);
            let out = self.drain();
            if !out.is_empty() {
                return out;
            }
        }
        panic!("a thousand timers and nothing sent");
    }

    /// A connection opened by the stack, and what it sends at once.
    pub(crate) fn opening(config: Config, stack: StackConfig) -> (Self, Vec<Segment>) {
        let mut bench = Self {
            stack: Stack::deterministic(stack, 0),
            now: Instant::ZERO + Duration::from_secs(1),
            handle: None,
            key: 0,
            budget: Budget::default(),
        };
        let handle = bench
            .stack
            .connect(bench.now, here(), there(), Arc::new(config));
        bench.handle = Some(handle.unwrap());
        let out = bench.drain();
        (bench, out)
    }

    /// A connection opened by the stack: its SYN, and the peer's flow that would answer it.
    pub(crate) fn connecting(config: Config, stack: StackConfig) -> (Self, Flow, Segment) {
        let (bench, out) = Self::opening(config, stack);
        assert_eq!(out.len(), 1, "{out:?}");
        let mut flow = Flow::new(here(), there(), 5000, out[0].seq);
        flow.take(&out);
        (bench, flow, out[0].clone())
    }

    /// The stack as MPTCP client after its third ACK. The peer has shown that it has the key.
    pub(crate) fn client(config: Config, stack: StackConfig) -> (Self, Flow, Vec<Segment>) {
        let (mut bench, mut flow, _) = Self::connecting(config, stack);
        let mut answer = syn(&flow, Flags::SYN | Flags::ACK);
        answer.options.rare_mut().mp_capable = Some(capable(Some(PEER_KEY), None));
        flow.seq = flow.seq + 1;
        let third = bench.push(answer);
        let keys = third[0].options.rare.as_ref().unwrap().mp_capable.unwrap();
        bench.key = keys.sender_key.unwrap();
        let seg = bench.data_ack(&flow, 0);
        let out = bench.push(seg);
        (bench, flow, out)
    }

    /// The stack as MPTCP server, with its key confirmed.
    pub(crate) fn server(config: Config, stack: StackConfig) -> (Self, Flow) {
        let mut bench = Self::listening(config, stack);
        let mut flow = Flow::new(here(), there(), 5000, SeqNumber(0));
        let mut first = syn(&flow, Flags::SYN);
        first.options.rare_mut().mp_capable = Some(capable(None, None));
        flow.seq = flow.seq + 1;
        let out = bench.push(first);
        flow.ack = out[0].seq + 1;
        let answer = out[0].options.rare.as_ref().unwrap().mp_capable.unwrap();
        bench.key = answer.sender_key.unwrap();
        let mut third = flow.segment(Flags::ACK);
        third.options.rare_mut().mp_capable = Some(capable(Some(PEER_KEY), Some(bench.key)));
        bench.push(third);
        bench.handle = bench.stack.handles().next();
        let seg = bench.data_ack(&flow, 0);
        bench.push(seg);
        (bench, flow)
    }

    /// The peer's data sequence number at a data offset.
    pub(crate) fn peer_dsn(offset: u64) -> u64 {
        keys::idsn(PEER_KEY).wrapping_add(1).wrapping_add(offset)
    }

    /// An acknowledgement without payload of the stack's data up to `offset`.
    pub(crate) fn data_ack(&self, flow: &Flow, offset: u64) -> Segment {
        let dsn = keys::idsn(self.key).wrapping_add(1).wrapping_add(offset);
        let mut seg = flow.segment(Flags::ACK);
        seg.options.dss = Some(Dss {
            data_ack: Some(DataNumber::Low(dsn as u32)),
            ..Dss::default()
        });
        seg
    }

    /// The flow's next segment, with `len` bytes of the peer at data offset `offset`.
    pub(crate) fn data(&self, flow: &mut Flow, offset: u64, len: u16) -> Segment {
        let mut seg = self.data_ack(flow, 0);
        seg.payload = Payload::Length(u32::from(len));
        if let Some(dss) = &mut seg.options.dss {
            dss.mapping = Some(Mapping {
                dsn: DataNumber::Low(Self::peer_dsn(offset) as u32),
                ssn: flow.ssn(),
                len,
                checksum: None,
            });
        }
        flow.seq = flow.seq + u32::from(len);
        seg
    }

    /// The peer's SYN that joins from `there`.
    pub(crate) fn join_syn(&self, there: Endpoint, address_id: u8, token: u32) -> (Flow, Segment) {
        let flow = Flow::new(here(), there, 9000, SeqNumber(0));
        let mut seg = syn(&flow, Flags::SYN);
        seg.options.rare_mut().mp_join = Some(MpJoin::Syn {
            backup: false,
            address_id,
            token,
            nonce: PEER_NONCE,
        });
        (flow, seg)
    }

    /// The peer joins from `there`. Returns its flow and the stack's answer to the third ACK. The last byte of
    /// the HMAC is XORed with `wrong`.
    pub(crate) fn join(&mut self, there: Endpoint, id: u8, wrong: u8) -> (Flow, Vec<Segment>) {
        self.join_at(here(), there, id, wrong)
    }

    /// Like [`Self::join`], but at another endpoint of the stack.
    pub(crate) fn join_at(
        &mut self,
        at: Endpoint,
        there: Endpoint,
        id: u8,
        wrong: u8,
    ) -> (Flow, Vec<Segment>) {
        let (mut flow, mut seg) = self.join_syn(there, id, keys::token(self.key));
        (flow.here, seg.dst) = (at, at);
        let out = self.push(seg);
        flow.seq = flow.seq + 1;
        flow.ack = out[0].seq + 1;
        let theirs = out[0].options.rare.as_ref().unwrap().mp_join;
        let Some(MpJoin::SynAck { nonce, hmac, .. }) = theirs else {
            panic!("no MP_JOIN on the SYN/ACK: {out:?}");
        };
        let expected = keys::join_hmac(self.key, PEER_KEY, nonce, PEER_NONCE);
        assert_eq!(hmac, keys::leftmost_64(&expected));
        let mut hmac = keys::leftmost_160(&keys::join_hmac(PEER_KEY, self.key, PEER_NONCE, nonce));
        hmac[19] ^= wrong;
        let mut third = flow.segment(Flags::ACK);
        third.options.rare_mut().mp_join = Some(MpJoin::Ack { hmac });
        (flow, self.push(third))
    }
}

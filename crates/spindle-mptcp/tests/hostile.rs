//! Whatever a peer sends, the stack does not panic, does not send endlessly, its timers advance, and its memory
//! stays within bounds.
//!
//! `SPINDLE_HOSTILE` sets how many attacks are tried on each state of a connection.

mod peer;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use peer::{Bench, Flow, PEER_KEY, config, end, here, syn, there};
use proptest::prelude::*;
use spindle_mptcp::path_manager::{FullMesh, Passive, Ports};
use spindle_mptcp::{Config, StackConfig, preset};
use spindle_units::Duration;
use spindle_wire::{
    AddAddr, DataNumber, Dss, Ecn, Experimental, Flags, Mapping, MpCapable, MpJoin, MpPrio,
    MpTcpRst, Payload, RareOptions, RemoveAddr, ResetReason, SackBlocks, Segment, SeqNumber,
    Timestamps,
};

/// A number in an attack: close to what the connection expects, or arbitrary.
#[derive(Clone, Copy, Debug)]
enum Number {
    Near(i32),
    Any(u64),
}

fn number() -> impl Strategy<Value = Number> {
    prop_oneof![
        12 => Just(Number::Near(0)),
        2 => (-3i32..4).prop_map(Number::Near),
        2 => (-70_000i32..70_000).prop_map(Number::Near),
        1 => any::<u64>().prop_map(Number::Any),
        1 => prop_oneof![Just(0), Just(u64::MAX), Just(1 << 31), Just(1 << 63)].prop_map(Number::Any),
    ]
}

impl Number {
    fn around(self, expected: u64) -> u64 {
        match self {
            Self::Near(d) => expected.wrapping_add(i64::from(d) as u64),
            Self::Any(n) => n,
        }
    }

    fn data(self, expected: u64, full: bool) -> DataNumber {
        let n = self.around(expected);
        if full {
            DataNumber::Full(n)
        } else {
            DataNumber::Low(n as u32)
        }
    }
}

#[derive(Clone, Debug)]
struct Signal {
    ack: Option<(Number, bool)>,
    map: Option<(Number, bool, Number, u16, Option<u16>)>,
    fin: bool,
}

/// The options of an attack. Keys and tokens may be correct.
#[derive(Clone, Debug)]
enum Extra {
    Capable(MpCapable, u8),
    JoinSyn(u8, u32),
    JoinSynAck(u8, u64, u32),
    JoinAck([u8; 20]),
    Add(u8, IpAddr, Option<u16>, Option<u64>, bool),
    Remove(Vec<u8>),
    Prio(bool),
    Fail(Number),
    FastClose(bool),
    Reset(u8),
    Syn(u16, Option<u8>, bool),
    Other(u16, Vec<u8>),
}

#[derive(Clone, Debug)]
struct Attack {
    flow: usize,
    flags: u16,
    seq: Number,
    ack: Number,
    window: u16,
    len: u32,
    ce: bool,
    timestamps: Option<(u32, u32)>,
    sack: Vec<(Number, Number)>,
    signal: Option<Signal>,
    extras: Vec<Extra>,
}

#[derive(Clone, Debug)]
enum Step {
    Segment(Attack),
    /// This many milliseconds pass. Timers are served when they expire.
    Wait(u64),
    Write(u32),
    Read,
    Close,
}

fn len() -> impl Strategy<Value = u32> {
    prop_oneof![3 => Just(0), 3 => 1u32..10, 3 => 1u32..1461, 1 => 1u32..65_000]
}

fn flags() -> impl Strategy<Value = u16> {
    prop_oneof![
        8 => Just(Flags::ACK.0),
        1 => Just(Flags::SYN.0),
        1 => Just((Flags::SYN | Flags::ACK).0),
        1 => Just((Flags::FIN | Flags::ACK).0),
        2 => 0u16..512,
    ]
}

fn signal() -> impl Strategy<Value = Signal> {
    let map = (
        number(),
        any::<bool>(),
        number(),
        map_len(),
        any::<Option<u16>>(),
    );
    let ack = (number(), any::<bool>());
    (prop::option::of(ack), prop::option::of(map), any::<bool>()).prop_map(|(ack, map, fin)| {
        Signal {
            ack,
            map,
            fin: fin && map.is_some(),
        }
    })
}

fn map_len() -> impl Strategy<Value = u16> {
    prop_oneof![Just(0u16), Just(1), 1u16..1461, any::<u16>()]
}

fn addr() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<u32>().prop_map(|a| Ipv4Addr::from_bits(a).into()),
        any::<u128>().prop_map(|a| Ipv6Addr::from_bits(a).into()),
        Just(there().addr),
    ]
}

fn capable() -> impl Strategy<Value = MpCapable> {
    (
        0u8..3,
        any::<[bool; 3]>(),
        any::<u8>(),
        any::<[Option<u64>; 2]>(),
        any::<[Option<u16>; 2]>(),
    )
        .prop_map(
            |(version, [a, c, h], other_flags, keys, [data_len, checksum])| MpCapable {
                version,
                checksum_required: a,
                no_more_to_source: c,
                hmac_sha256: h,
                other_flags,
                sender_key: keys[0],
                receiver_key: keys[1],
                data_len,
                checksum,
            },
        )
}

fn extra() -> impl Strategy<Value = Extra> {
    prop_oneof![
        3 => (capable(), any::<u8>()).prop_map(|(c, k)| Extra::Capable(c, k)),
        2 => (any::<u8>(), any::<u32>()).prop_map(|(i, t)| Extra::JoinSyn(i, t)),
        1 => (any::<u8>(), any::<u64>(), any::<u32>()).prop_map(|(i, h, n)| Extra::JoinSynAck(i, h, n)),
        1 => any::<[u8; 20]>().prop_map(Extra::JoinAck),
        2 => (any::<u8>(), addr(), any::<Option<u16>>(), any::<Option<u64>>(), any::<bool>())
            .prop_map(|(i, a, p, h, e)| Extra::Add(i, a, p, h, e)),
        1 => prop::collection::vec(0u8..4, 1..5).prop_map(Extra::Remove),
        1 => any::<bool>().prop_map(Extra::Prio),
        1 => number().prop_map(Extra::Fail),
        1 => prop::bool::weighted(0.1).prop_map(Extra::FastClose),
        1 => any::<u8>().prop_map(Extra::Reset),
        1 => (any::<u16>(), any::<Option<u8>>(), any::<bool>()).prop_map(|(m, w, s)| Extra::Syn(m, w, s)),
        1 => (any::<u16>(), prop::collection::vec(any::<u8>(), 0..30)).prop_map(|(x, d)| Extra::Other(x, d)),
    ]
}

fn attack() -> impl Strategy<Value = Attack> {
    let tcp = (
        0usize..3,
        flags(),
        number(),
        number(),
        any::<u16>(),
        len(),
        any::<bool>(),
    );
    let sack = prop::collection::vec((number(), number()), 0..4);
    let options = (
        prop::option::weighted(0.5, (0u32..3000, any::<u32>())),
        sack,
        prop::option::weighted(0.7, signal()),
        prop::collection::vec(extra(), 0..3),
    );
    (tcp, options).prop_map(|(tcp, (timestamps, sack, signal, extras))| {
        let (flow, flags, seq, ack, window, len, ce) = tcp;
        Attack {
            flow,
            flags,
            seq,
            ack,
            window,
            len,
            ce,
            timestamps,
            sack,
            signal,
            extras,
        }
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => attack().prop_map(Step::Segment),
        2 => (0u64..3000).prop_map(Step::Wait),
        2 => (1u32..30_000).prop_map(Step::Write),
        1 => Just(Step::Read),
        1 => prop::bool::weighted(0.2).prop_map(|c| if c { Step::Close } else { Step::Read }),
    ]
}

impl Extra {
    fn add_to(&self, rare: &mut RareOptions, b: &Bench) {
        match self.clone() {
            Self::Capable(mut c, right) => {
                if right & 1 == 0 {
                    c.receiver_key = Some(b.key);
                }
                if right & 2 == 0 {
                    c.sender_key = Some(PEER_KEY);
                }
                if right & 4 == 0 {
                    c.sender_key = None;
                }
                rare.mp_capable = Some(c);
            }
            Self::JoinSyn(id, token) => {
                let token = if token & 1 == 0 {
                    spindle_mptcp::keys::token(b.key)
                } else {
                    token
                };
                rare.mp_join = Some(MpJoin::Syn {
                    backup: id & 1 == 0,
                    address_id: id,
                    token,
                    nonce: token,
                });
            }
            Self::JoinSynAck(address_id, hmac, nonce) => {
                rare.mp_join = Some(MpJoin::SynAck {
                    backup: false,
                    address_id,
                    hmac,
                    nonce,
                });
            }
            Self::JoinAck(hmac) => rare.mp_join = Some(MpJoin::Ack { hmac }),
            Self::Add(address_id, addr, port, hmac, echo) => {
                let right =
                    spindle_mptcp::keys::add_addr_hmac(PEER_KEY, b.key, address_id, addr, port);
                rare.add_addr.push(AddAddr {
                    echo,
                    address_id,
                    addr,
                    port,
                    hmac: hmac.map(|h| if h & 1 == 0 { right } else { h }),
                });
            }
            Self::Remove(address_ids) => rare.remove_addr = Some(RemoveAddr { address_ids }),
            Self::Prio(backup) => rare.mp_prio = Some(MpPrio { backup }),
            Self::Fail(n) => rare.mp_fail = Some(n.around(Bench::peer_dsn(0))),
            Self::FastClose(right) => rare.mp_fastclose = Some(if right { b.key } else { !b.key }),
            Self::Reset(code) => {
                rare.mp_tcprst = Some(MpTcpRst {
                    transient: code & 1 == 0,
                    other_flags: 0,
                    reason: ResetReason::Other(code),
                });
            }
            Self::Syn(mss, scale, sack) => {
                rare.mss = Some(mss);
                rare.window_scale = scale;
                rare.sack_permitted = sack;
            }
            Self::Other(exid, data) => rare.experimental.push(Experimental {
                kind: Experimental::KIND,
                exid,
                data,
            }),
        }
    }
}

impl Attack {
    fn segment(&self, b: &Bench, flows: &[Flow]) -> Segment {
        let flow = flows[self.flow % flows.len()];
        let mut seg = flow.segment(Flags(self.flags));
        seg.seq = SeqNumber(self.seq.around(u64::from(flow.seq.0)) as u32);
        seg.ack = SeqNumber(self.ack.around(u64::from(flow.ack.0)) as u32);
        seg.window = self.window;
        seg.payload = Payload::Length(self.len);
        if self.ce {
            seg.ecn = Ecn::Ce;
        }
        seg.options.timestamps = self
            .timestamps
            .map(|(value, echo)| Timestamps { value, echo });
        let mut sack = SackBlocks::default();
        for (l, r) in &self.sack {
            let near = |n: &Number| SeqNumber(n.around(u64::from(flow.ack.0)) as u32);
            sack.push(near(l), near(r));
        }
        seg.options.sack = sack;
        let received = b
            .handle
            .and_then(|h| b.stack.info(h))
            .map_or((0, 0), |i| (i.received, i.sent));
        seg.options.dss = self.signal.as_ref().map(|s| Dss {
            data_ack: s.ack.map(|(n, full)| {
                n.data(
                    spindle_mptcp::keys::idsn(b.key).wrapping_add(1 + received.1),
                    full,
                )
            }),
            mapping: s.map.map(|(n, full, ssn, len, checksum)| Mapping {
                dsn: n.data(Bench::peer_dsn(received.0), full),
                ssn: ssn.around(u64::from(flow.ssn())) as u32,
                // The correct value in half of the cases.
                len: if len & 1 == 0 { self.len as u16 } else { len },
                checksum,
            }),
            data_fin: s.fin,
        });
        if !self.extras.is_empty() {
            for e in &self.extras {
                e.add_to(seg.options.rare_mut(), b);
            }
        }
        seg
    }
}

/// Serves timers until no timer is due before `until`. Each timer must make progress.
fn run_timers(b: &mut Bench, until: spindle_units::Instant) -> usize {
    let mut served = 0;
    while let Some(due) = b.stack.next_timeout().filter(|t| *t <= until) {
        b.now = b.now.max(due);
        b.stack.timeout(b.now);
        b.drain();
        served += 1;
        assert!(served < 20_000, "a timer at {due:?} never goes away");
    }
    b.now = b.now.max(until);
    served
}

fn play(b: &mut Bench, mut flows: Vec<Flow>, steps: &[Step]) {
    for step in steps {
        match step {
            Step::Segment(a) => {
                let seg = a.segment(b, &flows);
                let len = seg.seq_len();
                let exact = matches!(a.seq, Number::Near(0));
                let out = b.push(seg);
                learn(b, &out);
                let flow = a.flow % flows.len();
                if exact && out.iter().any(|s| s.ack == flows[flow].seq + len) {
                    flows[flow].seq = flows[flow].seq + len;
                }
                for f in &mut flows {
                    f.take(&out);
                }
            }
            Step::Wait(ms) => {
                let until = b.now + Duration::from_millis(*ms);
                run_timers(b, until);
            }
            Step::Write(n) => {
                if let Some(h) = b.handle {
                    let _ = b.stack.send(b.now, h, Payload::Length(*n));
                    let out = b.drain();
                    flows.iter_mut().for_each(|f| f.take(&out));
                }
            }
            Step::Read => {
                if let Some(h) = b.handle {
                    while let Ok(Some(_)) = b.stack.recv(b.now, h, 100_000) {}
                    b.drain();
                }
            }
            Step::Close => {
                if let Some(h) = b.handle {
                    b.stack.close(b.now, h);
                    b.drain();
                }
            }
        }
        while b.stack.poll_event().is_some() {}
        check_bounds(b);
    }
    let until = b.now + Duration::from_secs(3600);
    run_timers(b, until);
}

/// The peer learns the stack's key from its segments. There may be a connection now.
fn learn(b: &mut Bench, out: &[Segment]) {
    let rare = out.iter().filter_map(|s| s.options.rare.as_ref());
    if let Some(key) = rare.filter_map(|r| r.mp_capable?.sender_key).next() {
        b.key = key;
    }
    if b.handle.is_none() {
        b.handle = b.stack.handles().next();
    }
}

/// Bounds on what a peer may make the stack store.
fn check_bounds(b: &Bench) {
    for h in b.stack.handles() {
        let info = b.stack.info(h).unwrap();
        assert!(info.subflows.len() <= 8);
        assert!(b.stack.readable(h) <= 4 << 20);
        assert!(info.acknowledged <= info.sent && info.sent <= info.written);
    }
    assert!(b.stack.handles().count() <= stack().max_connections);
}

fn stack() -> StackConfig {
    StackConfig {
        max_half_open: 16,
        max_connections: 64,
        addresses: vec!["10.0.1.1".parse().unwrap()],
        ..StackConfig::default()
    }
}

/// Various MPTCP configurations. Timestamps must be disabled, since the test's own handshake does not use them.
fn kinds() -> impl Strategy<Value = Config> {
    let plain = prop_oneof![
        Just(config(Passive)),
        Just(config(Ports(3))),
        Just(config(FullMesh))
    ];
    let names = prop::sample::select(vec!["mptcp", "mptcp-linux", "fuso", "fuso-8"]);
    let buffer = prop_oneof![Just(4usize << 20), Just(3000)];
    (plain, any::<[bool; 4]>(), buffer, names).prop_map(|(plain, on, buffer, name)| {
        let scheme = preset(name).unwrap().config;
        let mut c = Config {
            multipath: plain.multipath,
            tcp: plain.tcp,
            ..scheme
        };
        if let Some(m) = &mut c.multipath {
            m.checksum = on[0];
            m.early_dsn_delivery = on[1];
            m.connection_timer = name == "mptcp-linux";
        }
        c.tcp.delayed_ack = on[2].then_some(Duration::from_millis(40));
        c.tcp.receive_buffer = buffer;
        c.loss.rack = on[3];
        c
    })
}

fn closed_flow() -> Flow {
    Flow::new(here(), there(), 5000, SeqNumber(0))
}

/// Number of attacks in the ordinary test run.
fn cases() -> u32 {
    let asked = std::env::var("SPINDLE_HOSTILE").ok();
    asked.and_then(|n| n.parse().ok()).unwrap_or(400)
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn listening_stack_survives_hostile_segments(c in kinds(), steps in steps()) {
        let mut b = Bench::listening(c, stack());
        play(&mut b, vec![closed_flow(), Flow::new(here(), end("10.0.0.3:81"), 5000, SeqNumber(0))], &steps);
    }

    #[test]
    fn connecting_stack_survives_hostile_segments(c in kinds(), steps in steps()) {
        let (mut b, flow, _) = Bench::connecting(c, stack());
        play(&mut b, vec![flow], &steps);
    }

    #[test]
    fn stack_in_syn_received_survives_hostile_segments(c in kinds(), steps in steps()) {
        let mut b = Bench::listening(c, stack());
        let mut flow = closed_flow();
        let mut first = syn(&flow, Flags::SYN);
        first.options.rare_mut().mp_capable = Some(peer::capable(None, None));
        flow.seq = flow.seq + 1;
        let out = b.push(first);
        flow.take(&out);
        flow.ack = out[0].seq + 1;
        b.key = out[0].options.rare.as_ref().unwrap().mp_capable.unwrap().sender_key.unwrap();
        b.handle = b.stack.handles().next();
        play(&mut b, vec![flow], &steps);
    }

    #[test]
    fn plain_tcp_connection_survives_hostile_segments(c in kinds(), steps in steps()) {
        let (mut b, mut flow, _) = Bench::connecting(c, stack());
        let answer = syn(&flow, Flags::SYN | Flags::ACK);
        flow.seq = flow.seq + 1;
        b.push(answer);
        play(&mut b, vec![flow], &steps);
    }

    #[test]
    fn mptcp_client_survives_hostile_segments(c in kinds(), steps in steps()) {
        let (mut b, flow, out) = Bench::client(c, stack());
        let mut flows = vec![flow];
        flows.extend(out.iter().filter(|s| s.flags == Flags::SYN).map(|s| Flow::new(s.src, s.dst, 9000, s.seq + 1)));
        play(&mut b, flows, &steps);
    }

    #[test]
    fn mptcp_server_with_two_subflows_survives_hostile_segments(c in kinds(), steps in steps()) {
        let (mut b, mut flow) = Bench::server(c, stack());
        let (second, _) = b.join(end("10.0.1.2:999"), 1, 0);
        let seg = b.data(&mut flow, 0, 10);
        let out = b.push(seg);
        flow.take(&out);
        play(&mut b, vec![flow, second], &steps);
    }
}

/// RFC 4987: a SYN flood takes no more than the configured number of half-open connections.
#[test]
fn syn_flood_creates_only_the_configured_number_of_half_open_connections() {
    let mut b = Bench::listening(config(Passive), stack());
    for port in 1..10_000u16 {
        let from = end(&format!("10.9.{}.{}:9", port / 250, port % 250));
        let flow = Flow::new(here(), from, 5000, SeqNumber(0));
        b.push(syn(&flow, Flags::SYN));
    }
    assert_eq!(b.stack.handles().count(), 16);
    assert!(!b.wait().is_empty());
    let until = b.now + Duration::from_secs(3600);
    run_timers(&mut b, until);
    assert_eq!(
        b.stack.handles().count(),
        0,
        "half-open connections that are not completed expire"
    );
    let out = b.push(syn(&closed_flow(), Flags::SYN));
    assert_eq!(out.len(), 1, "and there is room again");
}

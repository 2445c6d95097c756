//! Values that a stack sends must not reveal its secrets: keys, initial sequence numbers, nonces and ports.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod peer;
mod secrets_data;

use std::collections::HashSet;
use std::sync::Arc;

use peer::{Flow, PEER_KEY, capable, config, end, here, syn, there};
use secrets_data::linear::predict;
use spindle_mptcp::path_manager::{Passive, PathManager, Ports};
use spindle_mptcp::{Stack, StackConfig};
use spindle_units::{Duration, Instant};
use spindle_wire::{Endpoint, Flags, MpJoin, Packet, Segment};

const START: Instant = Instant::from_nanos(1_000_000_000);

fn drain(stack: &mut Stack, now: Instant) -> Vec<Segment> {
    std::iter::from_fn(|| stack.transmit(now))
        .filter_map(Packet::into_tcp)
        .collect()
}

fn answer(stack: &mut Stack, now: Instant, seg: Segment) -> Segment {
    stack.receive(now, seg);
    let mut out = drain(stack, now);
    assert_eq!(out.len(), 1, "{out:?}");
    out.remove(0)
}

fn listening(mut stack: Stack) -> Stack {
    let listens = stack.listen(here(), Arc::new(config(Passive)));
    listens.unwrap();
    stack
}

/// The MPTCP key that the stack sends in answer to a SYN from this port. The peer then resets the connection.
fn emitted_key(stack: &mut Stack, port: u16) -> u64 {
    let from = Endpoint { port, ..there() };
    let mut flow = Flow::new(here(), from, 5000, Default::default());
    let mut seg = syn(&flow, Flags::SYN);
    seg.options.rare_mut().mp_capable = Some(capable(None, None));
    flow.seq = flow.seq + 1;
    let out = answer(stack, START, seg);
    stack.receive(START, flow.segment(Flags::RST));
    assert_eq!(drain(stack, START), []);
    let capable = out.options.rare.unwrap().mp_capable.unwrap();
    capable.sender_key.unwrap()
}

fn emitted_keys(stack: Stack, count: u32) -> Vec<u64> {
    let mut stack = listening(stack);
    let port = |k: u32| 1024 + (k % 60_000) as u16;
    (0..count)
        .map(|k| emitted_key(&mut stack, port(k)))
        .collect()
}

/// Number of observed keys that are enough for the equations of [`predict`].
const WATCHED: u32 = 100_000;

#[test]
fn observed_keys_do_not_reveal_the_next_key() {
    let keys = emitted_keys(Stack::new(StackConfig::default(), [0x11; 32]), WATCHED + 1);
    let (next, watched) = keys.split_last().unwrap();
    assert_ne!(predict(watched), Some(*next));
}

/// Checks that the attack succeeds if the generator is not cryptographic.
#[test]
fn observed_keys_of_a_deterministic_stack_reveal_the_next_key() {
    let keys = emitted_keys(Stack::deterministic(StackConfig::default(), 1), WATCHED + 1);
    let (next, watched) = keys.split_last().unwrap();
    assert_eq!(predict(watched), Some(*next));
}

/// All unpredictable values that a stack sends in some connections: as client with joins, as server with a
/// join, and as listener with cookies.
#[derive(Debug, Default)]
struct Emitted {
    keys: Vec<u64>,
    isns: Vec<u32>,
    nonces: Vec<u32>,
    ports: Vec<u16>,
    timestamps: Vec<u32>,
    cookies: Vec<u32>,
}

impl Emitted {
    fn note(&mut self, seg: &Segment) {
        self.isns.push(seg.seq.0);
        self.timestamps
            .extend(seg.options.timestamps.map(|t| t.value));
        let rare = seg.options.rare.as_ref().unwrap();
        self.keys.extend(rare.mp_capable.and_then(|c| c.sender_key));
        if let Some(MpJoin::Syn { nonce, .. } | MpJoin::SynAck { nonce, .. }) = rare.mp_join {
            self.nonces.push(nonce);
        }
    }
}

fn with_timestamps(manager: impl PathManager + 'static) -> Arc<spindle_mptcp::Config> {
    let mut config = config(manager);
    config.tcp.timestamps = true;
    Arc::new(config)
}

fn stamped(mut seg: Segment) -> Segment {
    seg.options.timestamps = Some(spindle_wire::Timestamps { value: 7, echo: 0 });
    seg
}

/// A client with a join. The stack chooses the ports.
fn client_side(stack: &mut Stack, emitted: &mut Emitted, remote: Endpoint) {
    let local = Endpoint { port: 0, ..here() };
    let config = with_timestamps(Ports(2));
    stack.connect(START, local, remote, config).unwrap();
    let first = drain(stack, START).remove(0);
    emitted.note(&first);
    emitted.ports.push(first.src.port);
    let mut flow = Flow::new(first.src, remote, 5000, first.seq + 1);
    let mut seg = stamped(syn(&flow, Flags::SYN | Flags::ACK));
    seg.options.rare_mut().mp_capable = Some(capable(Some(PEER_KEY), None));
    flow.seq = flow.seq + 1;
    let third = answer(stack, START, seg);
    let keys = third.options.rare.as_ref().unwrap().mp_capable.unwrap();
    emitted.keys.extend(keys.sender_key);
    let mut seg = stamped(flow.segment(Flags::ACK));
    let dsn = spindle_mptcp::keys::idsn(keys.sender_key.unwrap()).wrapping_add(1);
    seg.options.dss = Some(spindle_wire::Dss {
        data_ack: Some(spindle_wire::DataNumber::Full(dsn)),
        ..Default::default()
    });
    stack.receive(START, seg);
    for seg in drain(stack, START) {
        if seg.flags.contains(Flags::SYN) {
            emitted.note(&seg);
            emitted.ports.push(seg.src.port);
        }
    }
}

/// A server with a join of the peer.
fn server_side(stack: &mut Stack, emitted: &mut Emitted, remote: Endpoint) {
    let mut flow = Flow::new(here(), remote, 5000, Default::default());
    let mut seg = stamped(syn(&flow, Flags::SYN));
    seg.options.rare_mut().mp_capable = Some(capable(None, None));
    flow.seq = flow.seq + 1;
    let out = answer(stack, START, seg);
    emitted.note(&out);
    flow.ack = out.seq + 1;
    let key = *emitted.keys.last().unwrap();
    let mut third = stamped(flow.segment(Flags::ACK));
    third.options.rare_mut().mp_capable = Some(capable(Some(PEER_KEY), Some(key)));
    stack.receive(START, third);
    drain(stack, START);
    let joins = Endpoint {
        port: remote.port + 1,
        ..remote
    };
    let mut seg = stamped(syn(
        &Flow::new(here(), joins, 9000, Default::default()),
        Flags::SYN,
    ));
    seg.options.rare_mut().mp_join = Some(MpJoin::Syn {
        backup: false,
        address_id: 0,
        token: spindle_mptcp::keys::token(key),
        nonce: 7,
    });
    emitted.note(&answer(stack, START, seg));
}

fn emitted(seed: [u8; 32]) -> Emitted {
    let mut emitted = Emitted::default();
    let mut stack = Stack::new(StackConfig::default(), seed);
    let server = with_timestamps(Passive);
    stack.listen(here(), server.clone()).unwrap();
    for k in 0..100 {
        let port = 2000 + 2 * k;
        let remote = |last: u8| Endpoint::new([192, 0, 2, last].into(), port);
        client_side(&mut stack, &mut emitted, remote(1));
        server_side(&mut stack, &mut emitted, remote(2));
    }
    let limits = StackConfig {
        max_half_open: 0,
        ..StackConfig::default()
    };
    let mut stack = Stack::new(limits, seed);
    stack.listen(here(), server).unwrap();
    for k in 0..100 {
        let flow = Flow::new(
            here(),
            end(&format!("192.0.2.3:{}", 2000 + k)),
            5000,
            Default::default(),
        );
        let cookie = answer(&mut stack, START, stamped(syn(&flow, Flags::SYN)));
        emitted.cookies.push(cookie.seq.0);
    }
    emitted
}

fn in_common<T: std::hash::Hash + Eq + Copy>(a: &[T], b: &[T]) -> usize {
    let a: HashSet<T> = a.iter().copied().collect();
    b.iter().filter(|x| a.contains(x)).count()
}

#[test]
fn stacks_whose_seeds_differ_in_one_bit_send_unrelated_values() {
    let seed = [0x5a; 32];
    let a = emitted(seed);
    assert_eq!(
        (a.keys.len(), a.nonces.len(), a.cookies.len()),
        (200, 200, 100)
    );
    for bit in [0, 100, 255] {
        let mut other = seed;
        other[bit / 8] ^= 1 << (bit % 8);
        let b = emitted(other);
        assert_eq!(in_common(&a.keys, &b.keys), 0, "bit {bit}");
        assert_eq!(in_common(&a.isns, &b.isns), 0, "bit {bit}");
        assert_eq!(in_common(&a.nonces, &b.nonces), 0, "bit {bit}");
        assert_eq!(in_common(&a.timestamps, &b.timestamps), 0, "bit {bit}");
        assert_eq!(in_common(&a.cookies, &b.cookies), 0, "bit {bit}");
        // Some of 28 232 ports are equal by chance. All would be equal if the seed had no effect.
        let same = a.ports.iter().zip(&b.ports).filter(|(a, b)| a == b).count();
        assert!(same < 5, "bit {bit}: {same} ports alike");
    }
}

#[test]
fn stacks_with_the_same_seed_send_the_same_values() {
    let (a, b) = (emitted([3; 32]), emitted([3; 32]));
    assert_eq!(format!("{a:?}"), format!("{b:?}"));
}

#[test]
fn timestamps_of_concurrent_connections_reveal_neither_uptime_nor_each_other() {
    let emitted = emitted([0x5a; 32]);
    let uptime = (START.since(Instant::ZERO).as_millis()) as u32;
    let near = |a: u32, b: u32| a.wrapping_sub(b).min(b.wrapping_sub(a)) < 1000;
    let values: HashSet<u32> = emitted.timestamps.iter().copied().collect();
    assert_eq!(values.len(), emitted.timestamps.len());
    assert!(emitted.timestamps.iter().all(|t| !near(*t, uptime)));
    let mut sorted: Vec<u32> = values.into_iter().collect();
    sorted.sort_unstable();
    // 400 numbers of 32 bits: two of them are within 1 s of each other in one of 27 runs with other seeds. With
    // this seed no two are.
    assert!(sorted.windows(2).all(|w| !near(w[0], w[1])));
}

#[test]
fn timestamps_advance_by_one_tick_per_millisecond() {
    let mut stack = Stack::new(StackConfig::default(), [9; 32]);
    stack
        .connect(START, here(), there(), with_timestamps(Passive))
        .unwrap();
    let first = drain(&mut stack, START).remove(0);
    let later = START + Duration::from_millis(1500);
    stack.timeout(later);
    let again = drain(&mut stack, later).remove(0);
    let value = |s: &Segment| s.options.timestamps.unwrap().value;
    assert_eq!(value(&again).wrapping_sub(value(&first)), 1500);
}

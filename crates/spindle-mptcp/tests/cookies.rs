//! SYN floods and the SYN cookies that protect against them (RFC 4987), with plain TCP and with MPTCP.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod peer;

use std::net::Ipv4Addr;
use std::sync::Arc;

use peer::{Bench, Flow, PEER_KEY, capable, config, here, syn, there};
use spindle_mptcp::path_manager::Passive;
use spindle_mptcp::recovery::CoFuso;
use spindle_mptcp::{Config, StackConfig, keys};
use spindle_units::Duration;
use spindle_wire::{
    DataNumber, Dss, Endpoint, Flags, Mapping, ParityOption, Payload, Segment, SeqNumber,
    Timestamps,
};

const HALF_OPEN: usize = 32;

fn stack() -> StackConfig {
    StackConfig {
        max_half_open: HALF_OPEN,
        ..StackConfig::default()
    }
}

/// Source addresses that never occur again.
fn source(k: u32) -> Endpoint {
    let addr = Ipv4Addr::from_bits(u32::from(Ipv4Addr::new(11, 0, 0, 0)) + k);
    Endpoint::new(addr.into(), 1024 + (k % 60_000) as u16)
}

/// Pushes a SYN from each of `sources`, every other one with MP_CAPABLE.
fn flood(b: &mut Bench, sources: std::ops::Range<u32>) {
    for k in sources {
        let flow = Flow::new(here(), source(k), k.wrapping_mul(77_777), SeqNumber(0));
        let mut seg = syn(&flow, Flags::SYN);
        if k % 2 == 0 {
            seg.options.rare_mut().mp_capable = Some(capable(None, None));
        }
        let out = b.push(seg);
        assert!(!out.is_empty() || b.stack.half_open() <= HALF_OPEN);
        assert!(b.stack.handles().count() <= HALF_OPEN + 8);
        assert!(b.stack.half_open() <= HALF_OPEN + 1);
    }
}

/// A bench under a SYN flood.
fn flooded(c: Config) -> Bench {
    let mut b = Bench::listening(c, stack());
    flood(&mut b, 0..200);
    assert!(b.stack.counters().cookies.sent >= 200 - HALF_OPEN as u64);
    b
}

/// Pushes `seg`, a SYN. Returns the SYN/ACK, and the flow after it.
fn ask(b: &mut Bench, mut flow: Flow, seg: Segment) -> (Flow, Segment) {
    let before = b.stack.handles().count();
    let out = b.push(seg);
    assert_eq!(b.stack.handles().count(), before, "nothing is stored");
    let answer = out.into_iter().find(|s| s.dst == flow.there).unwrap();
    assert_eq!(answer.flags, Flags::SYN | Flags::ACK);
    flow.seq = flow.seq + 1;
    assert_eq!(answer.ack, flow.seq);
    flow.ack = answer.seq + 1;
    (flow, answer)
}

fn ask_plainly(b: &mut Bench, from: Endpoint) -> Flow {
    let flow = Flow::new(here(), from, 5000, SeqNumber(0));
    ask(b, flow, syn(&flow, Flags::SYN)).0
}

/// Connects with MP_CAPABLE. Returns the third ACK.
fn ask_multipath(b: &mut Bench, from: Endpoint) -> (Flow, Segment, u64) {
    let flow = Flow::new(here(), from, 5000, SeqNumber(0));
    let mut seg = syn(&flow, Flags::SYN);
    seg.options.rare_mut().mp_capable = Some(capable(None, None));
    let (flow, answer) = ask(b, flow, seg);
    let key = answer.options.rare.unwrap().mp_capable.unwrap();
    let key = key.sender_key.unwrap();
    let mut third = flow.segment(Flags::ACK);
    third.options.rare_mut().mp_capable = Some(capable(Some(PEER_KEY), Some(key)));
    (flow, third, key)
}

/// The peer writes 1000 bytes, and the stack answers with 1000 bytes.
fn exchange(b: &mut Bench, flow: &mut Flow, multipath: bool, earlier: u16) {
    let h = b
        .stack
        .handles()
        .find(|h| b.stack.info(*h).unwrap().subflows[0].remote == flow.there)
        .unwrap();
    let seg = if multipath {
        b.data(flow, u64::from(earlier), 1000)
    } else {
        let mut seg = flow.segment(Flags::ACK);
        seg.payload = Payload::Length(1000);
        flow.seq = flow.seq + 1000;
        seg
    };
    b.push(seg);
    let info = b.stack.info(h).unwrap();
    assert!(info.established);
    assert_eq!(info.multipath, multipath);
    assert_eq!(info.received, 1000 + u64::from(earlier));
    assert_eq!(b.stack.send(b.now, h, Payload::Length(1000)), Ok(1000));
    let out = b.drain();
    let sent: usize = out.iter().map(|s| s.payload.len()).sum();
    assert_eq!(sent, 1000);
    assert_eq!(out.iter().any(|s| s.options.dss.is_some()), multipath);
}

#[test]
fn syn_flood_of_100000_sources_does_not_prevent_connections() {
    let mut b = Bench::listening(config(Passive), stack());
    flood(&mut b, 0..50_000);
    let mut plain = ask_plainly(&mut b, there());
    let (mut multi, third, key) = ask_multipath(&mut b, peer::end("10.0.0.3:81"));
    flood(&mut b, 50_000..100_000);
    let ack = plain.segment(Flags::ACK);
    b.push(ack);
    b.push(third);
    b.key = key;
    exchange(&mut b, &mut plain, false, 0);
    exchange(&mut b, &mut multi, true, 0);
    let c = b.stack.counters();
    assert_eq!((c.accepted, c.cookies.accepted, c.multipath), (2, 2, 1));
    assert!(
        c.cookies.sent >= 100_000 - 2 * HALF_OPEN as u64 - 2,
        "{c:?}"
    );
    assert!(b.stack.buffered() < 10_000);

    // The half-open connections are given up. After that, SYNs are stored again.
    b.now += Duration::from_secs(600);
    b.wait();
    for _ in 0..1000 {
        b.wait();
    }
    assert_eq!(b.stack.half_open(), 0);
    let sent = b.stack.counters().cookies.sent;
    let flow = Flow::new(here(), peer::end("10.0.0.9:9"), 5, SeqNumber(0));
    b.push(syn(&flow, Flags::SYN));
    assert_eq!(
        (b.stack.half_open(), b.stack.counters().cookies.sent),
        (1, sent)
    );
}

#[test]
fn first_data_segment_may_carry_the_cookie_and_the_keys() {
    let mut b = flooded(config(Passive));
    let (mut flow, mut third, key) = ask_multipath(&mut b, there());
    b.key = key;
    third.payload = Payload::Length(300);
    let c = third.options.rare_mut().mp_capable.as_mut().unwrap();
    c.data_len = Some(300);
    b.push(third);
    flow.seq = flow.seq + 300;
    exchange(&mut b, &mut flow, true, 300);
}

#[test]
fn third_ack_without_mptcp_makes_a_cookie_connection_plain_tcp() {
    let mut b = flooded(config(Passive));
    let (mut flow, mut third, _) = ask_multipath(&mut b, there());
    third.options.rare_mut().mp_capable = None;
    b.push(third);
    exchange(&mut b, &mut flow, false, 0);
}

#[test]
fn data_that_arrive_before_the_keys_are_ignored() {
    let mut b = flooded(config(Passive));
    let (mut flow, third, key) = ask_multipath(&mut b, there());
    b.key = key;
    let before = b.stack.handles().count();
    let mut early = flow.segment(Flags::ACK);
    early.payload = Payload::Length(10);
    early.options.dss = Some(Dss {
        data_ack: None,
        mapping: Some(Mapping {
            dsn: DataNumber::Full(Bench::peer_dsn(0)),
            ssn: 1,
            len: 10,
            checksum: None,
        }),
        data_fin: false,
    });
    assert!(b.push(early).is_empty(), "neither accepted nor refused");
    assert_eq!(b.stack.handles().count(), before);
    b.push(third);
    exchange(&mut b, &mut flow, true, 0);
}

#[test]
fn expired_cookies_are_refused() {
    let mut b = flooded(config(Passive));
    let flow = ask_plainly(&mut b, there());
    let before = b.stack.handles().count();
    b.now += Duration::from_secs(127);
    // Another SYN keeps the listener under pressure.
    flood(&mut b, 1000..1001);
    b.now += Duration::from_secs(2);
    let out = b.push(flow.segment(Flags::ACK));
    let rst = out.iter().find(|s| s.dst == there()).unwrap();
    assert_eq!((rst.flags, rst.seq), (Flags::RST, flow.ack));
    assert!(b.stack.handles().count() <= before);
    assert_eq!(b.stack.counters().accepted, 0);
}

#[test]
fn forged_cookie_acks_are_reset() {
    let mut b = flooded(config(Passive));
    let flow = ask_plainly(&mut b, there());
    let (_, multi, _) = ask_multipath(&mut b, peer::end("10.0.0.3:81"));
    for k in 1..2000u32 {
        let mut seg = flow.segment(Flags::ACK);
        seg.ack = seg.ack + k.wrapping_mul(0x0101_0101);
        let out = b.push(seg.clone());
        assert!(
            out.iter()
                .any(|s| s.flags == Flags::RST && s.seq == seg.ack)
        );
    }
    let mut wrong = multi;
    let c = wrong.options.rare_mut().mp_capable.as_mut().unwrap();
    c.receiver_key = c.receiver_key.map(|k| k ^ 1);
    let out = b.push(wrong);
    assert!(out.iter().any(|s| s.flags == Flags::RST));
    let c = b.stack.counters();
    assert_eq!((c.accepted, c.cookies.accepted), (0, 0));
    assert_eq!(c.cookies.refused, 2000);
}

/// Found by fuzzing: the third ACK ended the connection at once, and the stack then had no subflow by which to
/// index the connection.
#[test]
fn connection_that_its_third_ack_ends_is_reset_and_removed() {
    let mut b = flooded(config(Passive));
    let before = b.stack.handles().count();
    let (flow, mut third, key) = ask_multipath(&mut b, there());
    third.options.rare_mut().mp_fastclose = Some(key);
    let out = b.push(third);
    let rst = out.iter().find(|s| s.dst == flow.there).unwrap();
    assert!(rst.flags.contains(Flags::RST), "{rst:?}");
    assert_eq!(rst.seq, flow.ack);
    assert_eq!(b.stack.handles().count(), before);
    let c = b.stack.counters();
    assert_eq!((c.accepted, c.cookies.accepted), (0, 1));
}

#[test]
fn unexpected_ack_is_not_checked_as_a_cookie_if_no_cookies_were_sent() {
    let mut b = Bench::listening(config(Passive), stack());
    let flow = Flow::new(here(), there(), 5000, SeqNumber(77));
    let out = b.push(flow.segment(Flags::ACK));
    assert_eq!(out[0].flags, Flags::RST);
    assert_eq!(b.stack.counters().cookies.refused, 0);
}

/// Options of the SYN are preserved in the timestamp.
#[test]
fn cookie_timestamp_preserves_window_scale_and_sack() {
    let mut c = config(Passive);
    c.multipath = None;
    c.tcp.timestamps = true;
    c.tcp.window_scaling = true;
    let mut b = flooded(c);
    let flow = Flow::new(here(), there(), 5000, SeqNumber(0));
    let mut seg = syn(&flow, Flags::SYN);
    seg.options.rare_mut().window_scale = Some(6);
    seg.options.timestamps = Some(Timestamps {
        value: 1000,
        echo: 0,
    });
    let (mut flow, answer) = ask(&mut b, flow, seg);
    let granted = answer.options.rare.as_ref().unwrap();
    assert!(granted.window_scale.is_some() && granted.sack_permitted);
    let mut ack = flow.segment(Flags::ACK);
    ack.window = 100;
    ack.options.timestamps = Some(Timestamps {
        value: 1001,
        echo: answer.options.timestamps.unwrap().value,
    });
    b.push(ack.clone());
    let h = b.stack.handles().last().unwrap();
    // The peer's window is 100 << 6 bytes.
    assert_eq!(
        b.stack.send(b.now, h, Payload::Length(100_000)),
        Ok(100_000)
    );
    let sent: usize = b.drain().iter().map(|s| s.payload.len()).sum();
    assert!(sent > 100 && sent <= 6400, "{sent}");
    // A hole is reported by SACK.
    flow.seq = flow.seq + 10;
    let mut seg = flow.segment(Flags::ACK);
    (seg.payload, seg.window) = (Payload::Length(10), 100);
    seg.options.timestamps = ack.options.timestamps;
    let out = b.push(seg);
    assert!(out.iter().any(|s| s.options.sack != Default::default()));
}

/// Without timestamps the options cannot be preserved, so they are not granted.
#[test]
fn cookie_without_timestamps_grants_no_window_scale_or_sack() {
    let mut c = config(Passive);
    c.tcp.window_scaling = true;
    let mut b = flooded(c);
    let flow = Flow::new(here(), there(), 5000, SeqNumber(0));
    let mut seg = syn(&flow, Flags::SYN);
    seg.options.rare_mut().window_scale = Some(6);
    let (_, answer) = ask(&mut b, flow, seg);
    let granted = answer.options.rare.as_ref().unwrap();
    assert!(granted.window_scale.is_none() && !granted.sack_permitted);
    assert_eq!(granted.mss, Some(1460));
}

/// The key of a cookie belongs to no connection until the third ACK arrives.
#[test]
fn join_to_the_token_of_a_cookie_is_refused() {
    let mut b = flooded(config(Passive));
    let (_, _, key) = ask_multipath(&mut b, there());
    let (_, seg) = b.join_syn(peer::end("10.0.0.7:7"), 1, keys::token(key));
    let out = b.push(seg);
    assert!(out[0].flags.contains(Flags::RST));
    assert_eq!(b.stack.counters().joins.unknown, 1);
}

#[test]
fn cookie_syn_ack_accepts_no_experimental_options() {
    let mut c = config(Passive);
    c.recovery = Some(Arc::new(CoFuso::SIMULATION));
    c.tcp.timestamps = true;
    let mut b = flooded(c);
    let flow = Flow::new(here(), there(), 5000, SeqNumber(0));
    let mut seg = syn(&flow, Flags::SYN);
    seg.options.timestamps = Some(Timestamps { value: 1, echo: 0 });
    seg.options.rare_mut().mp_capable = Some(capable(None, None));
    seg.options
        .add_experiment(ParityOption::OfferBlocks { early_joins: true }.to_option());
    let (_, answer) = ask(&mut b, flow, seg);
    let rare = answer.options.rare.expect("MP_CAPABLE");
    assert!(rare.mp_capable.is_some() && rare.experimental.is_empty());
}

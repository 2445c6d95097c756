//! Peers that lie: their connection is refused, reset or bounded, and other connections continue.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod peer;

use peer::{Bench, Flow, PEER_KEY, config, end, here, syn, there};
use spindle_mptcp::path_manager::Passive;
use spindle_mptcp::{Event, StackConfig, keys};
use spindle_units::Duration;
use spindle_wire::{
    AddAddr, DataNumber, Flags, MpTcpRst, Payload, ResetReason, Segment, SeqNumber,
};

fn passive() -> (Bench, Flow) {
    Bench::server(config(Passive), StackConfig::default())
}

/// Checks that a second, plain TCP connection on the same stack receives 100 kB and closes.
fn others_go_on(b: &mut Bench) {
    let known: Vec<_> = b.stack.handles().collect();
    let mut flow = Flow::new(here(), end("10.0.0.99:99"), 1, SeqNumber(0));
    let out = b.push(syn(&flow, Flags::SYN));
    flow.seq = flow.seq + 1;
    flow.ack = out.iter().find(|s| s.dst == flow.there).unwrap().seq + 1;
    b.push(flow.segment(Flags::ACK));
    let h = b.stack.handles().find(|h| !known.contains(h)).unwrap();
    for _ in 0..100 {
        let mut seg = flow.segment(Flags::ACK);
        seg.payload = Payload::Length(1000);
        flow.seq = flow.seq + 1000;
        b.push(seg);
        while let Ok(Some(_)) = b.stack.recv(b.now, h, 10_000) {}
    }
    assert_eq!(b.stack.info(h).unwrap().received, 100_000);
    b.stack.close(b.now, h);
    let out = b.drain();
    flow.take(&out);
    b.push(flow.segment(Flags::FIN | Flags::ACK));
    let state = b.stack.info(h).and_then(|i| i.closed);
    assert_eq!(state, Some(spindle_mptcp::CloseReason::Finished));
}

fn reason(out: &[Segment]) -> Option<MpTcpRst> {
    let rst = out.iter().find(|s| s.flags.contains(Flags::RST))?;
    rst.options.rare.as_ref()?.mp_tcprst
}

fn subflows(b: &Bench) -> usize {
    b.handle
        .and_then(|h| b.stack.info(h))
        .map_or(0, |i| i.subflows.len())
}

#[test]
fn a_join_with_an_unknown_token_is_reset_with_mp_tcprst() {
    let (mut b, _) = passive();
    let (_, seg) = b.join_syn(end("10.0.1.2:9"), 1, keys::token(b.key) ^ 1);
    let out = b.push(seg);
    assert_eq!(reason(&out).unwrap().reason, ResetReason::MptcpSpecific);
    assert_eq!(b.stack.counters().joins.unknown, 1);
    others_go_on(&mut b);
}

#[test]
fn a_join_with_a_wrong_hmac_is_reset_without_a_subflow_down_event() {
    let (mut b, _) = passive();
    while b.stack.poll_event().is_some() {}
    let (_, out) = b.join(end("10.0.1.2:9"), 1, 1);
    assert_eq!(reason(&out).unwrap().reason, ResetReason::MptcpSpecific);
    assert_eq!(b.stack.counters().joins.hmac_failures, 1);
    let events: Vec<_> = std::iter::from_fn(|| b.stack.poll_event()).collect();
    let down = events
        .iter()
        .any(|e| matches!(e, Event::SubflowDown { .. }));
    assert!(!down, "the subflow was never up: {events:?}");
    assert_eq!(subflows(&b), 1);
    others_go_on(&mut b);
}

/// Half-open joins exhaust neither memory nor subflow identifiers. A valid join works afterwards.
#[test]
fn ten_thousand_half_open_joins_are_bounded() {
    let (mut b, _) = passive();
    let token = keys::token(b.key);
    for k in 0..10_000u16 {
        let (_, seg) = b.join_syn(end(&format!("10.0.1.2:{}", 1000 + k)), 1, token);
        b.push(seg);
        assert!(subflows(&b) <= 5);
    }
    let c = b.stack.counters();
    assert_eq!(c.joins.limit, 10_000 - 4);
    for round in 0..100u16 {
        b.now += Duration::from_secs(600);
        while subflows(&b) > 1 {
            b.wait();
        }
        for k in 0..4 {
            let (_, seg) = b.join_syn(end(&format!("10.0.1.3:{}", 1000 + 4 * round + k)), 1, token);
            b.push(seg);
        }
    }
    b.now += Duration::from_secs(600);
    while subflows(&b) > 1 {
        b.wait();
    }
    let (_, out) = b.join(end("10.0.1.2:9"), 1, 0);
    assert!(!out.iter().any(|s| s.flags.contains(Flags::RST)));
    assert_eq!(subflows(&b), 2);
    others_go_on(&mut b);
}

#[test]
fn an_add_addr_with_a_wrong_hmac_is_ignored() {
    let (mut b, flow) = passive();
    let (addr, id) = ("10.0.1.2".parse().unwrap(), 3);
    let right = keys::add_addr_hmac(PEER_KEY, b.key, id, addr, None);
    let echoed = |s: &Segment| {
        s.options
            .rare
            .as_ref()
            .is_some_and(|r| !r.add_addr.is_empty())
    };
    for (hmac, accepted) in [(right ^ 1, false), (right, true)] {
        let mut seg = b.data_ack(&flow, 0);
        seg.options.rare_mut().add_addr.push(AddAddr {
            echo: false,
            address_id: id,
            addr,
            port: None,
            hmac: Some(hmac),
        });
        let out = b.push(seg);
        assert_eq!(out.iter().any(echoed), accepted);
        assert_eq!(b.stack.counters().add_addr_hmac_failures, 1);
    }
    others_go_on(&mut b);
}

#[test]
fn a_contradicting_mapping_resets_its_subflow() {
    let (mut b, mut flow) = passive();
    let hole = b.data(&mut flow.clone(), 0, 100);
    let mut seg = hole.clone();
    seg.seq = seg.seq + 100;
    let m = seg.options.dss.as_mut().unwrap().mapping.as_mut().unwrap();
    (m.ssn, m.dsn) = (m.ssn + 100, DataNumber::Low(Bench::peer_dsn(100) as u32));
    b.push(seg.clone());
    let m = seg.options.dss.as_mut().unwrap().mapping.as_mut().unwrap();
    m.dsn = DataNumber::Low(Bench::peer_dsn(5000) as u32);
    let out = b.push(seg);
    assert!(out.iter().any(|s| s.flags.contains(Flags::RST)));
    flow.take(&out);
    others_go_on(&mut b);
}

#[test]
fn forged_resets_and_syns_are_challenged_at_a_limited_rate() {
    let (mut b, flow) = passive();
    let mut answers = 0;
    for k in 1..1000u32 {
        let mut seg = flow.segment(Flags::RST);
        seg.seq = seg.seq + k * 7;
        let out = b.push(seg);
        answers += out.len();
        let mut seg = flow.segment(Flags::SYN);
        seg.seq = seg.seq + k * 7;
        answers += b.push(seg).len();
    }
    assert_eq!(subflows(&b), 1, "alive");
    assert_eq!(answers, 10, "RFC 5961, section 7");
    assert_eq!(b.stack.counters().challenge_acks, 10);
    others_go_on(&mut b);
    b.push(flow.segment(Flags::RST));
    assert_eq!(subflows(&b), 0, "an exact reset is accepted");
}

#[test]
fn ack_and_sack_of_unsent_data_acknowledge_nothing() {
    let (mut b, mut flow) = passive();
    let h = b.handle.unwrap();
    assert_eq!(b.stack.send(b.now, h, Payload::Length(1000)), Ok(1000));
    let out = b.drain();
    for beyond in [1001, 5000, 1 << 20] {
        let seg = b.data_ack(&flow, beyond);
        b.push(seg);
        assert_eq!(b.stack.info(h).unwrap().acknowledged, 0);
    }
    let ack = b.data_ack(&flow, 0);
    for (l, r) in [(5000, 9000), (900, 100), (1 << 30, 1 << 31)] {
        let mut seg = ack.clone();
        seg.options.sack.push(flow.ack + l, flow.ack + r);
        b.push(seg);
        assert_eq!(b.stack.info(h).unwrap().acknowledged, 0);
    }
    flow.take(&out);
    let seg = b.data_ack(&flow, 1000);
    b.push(seg);
    assert_eq!(b.stack.info(h).unwrap().acknowledged, 1000);
    others_go_on(&mut b);
}

#[test]
fn data_beyond_the_window_are_not_stored() {
    let mut c = config(Passive);
    c.tcp.receive_buffer = 10_000;
    let (mut b, mut flow) = Bench::server(c, StackConfig::default());
    for k in 0..100 {
        let seg = b.data(&mut flow, 1000 * k, 1000);
        b.push(seg);
        assert!(b.stack.buffered() < 25_000);
    }
    others_go_on(&mut b);
}

/// Each byte needs its own entry, the entry is counted, and the number of entries is limited.
#[test]
fn one_byte_segments_out_of_order_are_bounded() {
    let (mut b, flow) = passive();
    let mut most = 0;
    for k in 0..30_000u32 {
        let mut f = flow;
        f.seq = f.seq + 2 + 2 * k;
        let seg = b.data(&mut f, u64::from(2 + 2 * k), 1);
        b.push(seg);
        most = most.max(b.stack.buffered());
    }
    assert!(most > 1000, "entries are not counted");
    assert!(most < 2 << 20, "{most}");
    others_go_on(&mut b);
}

#[test]
fn at_the_memory_limit_connections_are_refused_and_data_within_windows_accepted() {
    let stack = StackConfig {
        max_memory: 28_000,
        ..StackConfig::default()
    };
    let (mut b, mut flow) = Bench::server(config(Passive), stack);
    for k in 0..30 {
        let seg = b.data(&mut flow, 1000 * k, 1000);
        b.push(seg);
    }
    assert!(b.stack.memory() >= 28_000);
    let other = Flow::new(here(), end("10.0.0.99:99"), 1, SeqNumber(0));
    let out = b.push(syn(&other, Flags::SYN));
    assert!(
        out.iter()
            .any(|s| s.flags.contains(Flags::RST) && s.dst == other.there)
    );
    assert_eq!(b.stack.counters().refused.memory, 1);
    let h = b.handle.unwrap();
    while let Ok(Some(_)) = b.stack.recv(b.now, h, 10_000) {}
    b.drain();
    assert!(b.stack.buffered() < 1000);
    // The memory reserved for the first data of a new connection has been released.
    b.now += Duration::from_millis(500);
    others_go_on(&mut b);
}

/// The peer keeps its window closed. The stack probes the window, and the stored data stay within the send
/// buffer.
#[test]
fn a_peer_that_never_opens_its_window_uses_at_most_the_send_buffer() {
    let (mut b, mut flow) = passive();
    let h = b.handle.unwrap();
    let taken = b.stack.send(b.now, h, Payload::Length(1 << 30)).unwrap();
    let out = b.drain();
    flow.take(&out);
    let mut closed = b.data_ack(&flow, out.iter().map(|s| s.payload.len() as u64).sum());
    closed.window = 0;
    b.push(closed);
    for _ in 0..50 {
        b.wait();
        assert!(b.stack.buffered() <= taken as u64 / 4 * 5);
    }
    others_go_on(&mut b);
}

#[test]
fn a_fast_close_with_a_wrong_key_is_ignored() {
    let (mut b, flow) = passive();
    let mut seg = b.data_ack(&flow, 0);
    seg.options.rare_mut().mp_fastclose = Some(!b.key);
    b.push(seg);
    assert_eq!(subflows(&b), 1);
    others_go_on(&mut b);
}

/// The peer has all data and sends a reset instead of an ACK of our FIN. The data count as delivered.
#[test]
fn a_reset_in_last_ack_after_full_delivery_is_a_clean_close() {
    let mut c = config(Passive);
    c.multipath = None;
    let mut b = Bench::listening(c, StackConfig::default());
    let mut flow = Flow::new(here(), there(), 1, SeqNumber(0));
    let out = b.push(syn(&flow, Flags::SYN));
    flow.seq = flow.seq + 1;
    flow.ack = out[0].seq + 1;
    b.push(flow.segment(Flags::ACK));
    let h = b.stack.handles().next().unwrap();
    b.push(flow.segment(Flags::FIN | Flags::ACK));
    flow.seq = flow.seq + 1;
    assert_eq!(b.stack.send(b.now, h, Payload::Length(100)), Ok(100));
    let out = b.drain();
    flow.take(&out);
    b.stack.shutdown(b.now, h);
    b.drain();
    b.push(flow.segment(Flags::ACK));
    b.push(flow.segment(Flags::RST));
    let closed = b.stack.info(h).unwrap().closed;
    assert_eq!(closed, Some(spindle_mptcp::CloseReason::Finished));
}

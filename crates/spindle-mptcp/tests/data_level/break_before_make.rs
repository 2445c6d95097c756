//! A connection survives its last subflow for a while (RFC 8684, sections 3.3.3 and 3.5).

use spindle_mptcp::path_manager::{Endpoints, FullMesh, Passive, Ports};
use spindle_mptcp::{CloseReason, Config, StackConfig, keys};
use spindle_units::Duration;
use spindle_wire::{Flags, MpJoin, MpTcpRst, Payload, ResetReason, Segment, SeqNumber};

use crate::peer::{Bench, Flow, PEER_KEY, PEER_NONCE, config, end, here, syn, there};
use crate::{
    acknowledged, bytes, closed, data_fin, fin, joined, mapping, own_dsn, passive, reported_end,
    reset, server, subflows, write,
};

/// The default of `MultipathConfig::close_timeout`.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(60);

fn rst(flow: &Flow) -> Segment {
    flow.segment(Flags::RST | Flags::ACK)
}

/// Serves timers until the connection is closed. Returns how long that took.
fn time_to_end(b: &mut Bench) -> Duration {
    let start = b.now;
    for _ in 0..1000 {
        if closed(b).is_some() {
            return b.now.since(start);
        }
        let Some(due) = b.stack.next_timeout() else {
            break;
        };
        b.now = b.now.max(due);
        b.stack.timeout(b.now);
        b.drain();
    }
    panic!("it never ends: {:?}", closed(b));
}

/// The peer resets the last subflow while data are in flight. It joins again and receives all data.
#[test]
fn join_after_the_reset_of_the_last_subflow_receives_all_data() {
    let (mut b, flow) = server();
    let sent = write(&mut b, 3000);
    assert_eq!(bytes(&sent), 3000);
    b.push(rst(&flow));
    assert_eq!(
        (subflows(&b), closed(&b), reported_end(&mut b)),
        (0, None, None)
    );
    assert!(write(&mut b, 500).is_empty(), "no subflow to send on");
    let (mut second, out) = joined(&mut b, "10.0.1.2:999", 1);
    let mut got = out;
    for _ in 0..10 {
        second.take(&got);
        let ranges = got.iter().filter(|s| !s.payload.is_empty());
        let end = ranges.map(|s| {
            let dsn = mapping(s).unwrap().dsn.expand(own_dsn(&b, 0));
            dsn.wrapping_sub(own_dsn(&b, 0)) + s.payload.len() as u64
        });
        let upto = end.max().unwrap_or_default().max(acknowledged(&b));
        let seg = b.data_ack(&second, upto);
        got = b.push(seg);
    }
    assert_eq!(acknowledged(&b), 3500);
    let mut flow = second;
    let seg = b.data(&mut flow, 0, 100);
    b.push(seg);
    assert_eq!(b.stack.readable(b.handle.unwrap()), 100);
    // It is an ordinary connection again and has no deadline any more.
    b.now += CLOSE_TIMEOUT * 2;
    b.stack.timeout(b.now);
    assert_eq!(closed(&b), None);
}

#[test]
fn data_acknowledged_only_by_the_subflow_are_resent_after_a_join() {
    let (mut b, mut flow) = server();
    let sent = write(&mut b, 20_000);
    // The peer has received all data on the subflow but none at its data level.
    flow.take(&sent);
    let seg = b.data_ack(&flow, 0);
    let out = b.push(seg);
    let all = bytes(&sent) + bytes(&out);
    b.push(rst(&flow));
    let (mut second, mut got) = joined(&mut b, "10.0.1.2:999", 1);
    let mut again = 0;
    for _ in 0..20 {
        again += bytes(&got);
        second.take(&got);
        let seg = b.data_ack(&second, again);
        got = b.push(seg);
    }
    assert!(again >= all, "{again} of {all}");
    assert_eq!(acknowledged(&b), 20_000);
}

#[test]
fn join_after_a_fin_of_the_last_subflow_continues_the_connection() {
    let (mut b, mut flow) = server();
    let seg = fin(&b, &mut flow, 0);
    b.push(seg);
    let (mut second, _) = joined(&mut b, "10.0.1.2:999", 1);
    let seg = b.data(&mut second, 0, 100);
    b.push(seg);
    assert_eq!(b.stack.readable(b.handle.unwrap()), 100);
    let out = write(&mut b, 100);
    assert_eq!((bytes(&out), out[0].dst), (100, second.there));
}

#[test]
fn connection_without_a_join_ends_with_reset_after_the_close_timeout() {
    for by_fin in [false, true] {
        let (mut b, mut flow) = server();
        let seg = match by_fin {
            true => fin(&b, &mut flow, 0),
            false => rst(&flow),
        };
        b.push(seg);
        let taken = time_to_end(&mut b);
        assert!(
            taken >= CLOSE_TIMEOUT && taken < CLOSE_TIMEOUT + Duration::from_secs(1),
            "{taken:?}"
        );
        assert_eq!(closed(&b), Some(CloseReason::Reset));
        assert_eq!(reported_end(&mut b), Some(CloseReason::Reset));
        // A connection that has ended cannot be joined.
        let (_, seg) = b.join_syn(end("10.0.1.2:999"), 1, keys::token(b.key));
        assert!(reset(&b.push(seg)));
    }
}

/// A join that is never completed does not keep the connection open.
#[test]
fn half_open_joins_do_not_keep_the_connection_alive() {
    let (mut b, flow) = server();
    b.push(rst(&flow));
    b.now += Duration::from_secs(50);
    let (_, seg) = b.join_syn(end("10.0.1.2:999"), 1, keys::token(b.key));
    b.push(seg);
    let taken = time_to_end(&mut b);
    assert!(taken < Duration::from_secs(11), "{taken:?}");
    assert_eq!(closed(&b), Some(CloseReason::Reset));
}

#[test]
fn close_timeout_is_configurable_and_zero_ends_the_connection_at_once() {
    for seconds in [0, 5] {
        let mut c: Config = passive();
        c.multipath.as_mut().unwrap().close_timeout = Duration::from_secs(seconds);
        let (mut b, flow) = Bench::server(c, StackConfig::default());
        b.push(rst(&flow));
        let taken = time_to_end(&mut b);
        let expected = Duration::from_secs(seconds);
        assert!(taken >= expected && taken < expected + Duration::from_secs(1));
        assert_eq!(closed(&b), Some(CloseReason::Reset));
    }
}

#[test]
fn connection_with_both_data_fins_acknowledged_needs_no_further_subflow() {
    let (mut b, flow) = server();
    b.stack.shutdown(b.now, b.handle.unwrap());
    b.drain();
    let seg = data_fin(&b, &flow, 0, 1);
    b.push(seg);
    let mut at = flow;
    at.ack = at.ack + 1;
    b.push(rst(&at));
    assert_eq!(closed(&b), Some(CloseReason::Finished));
}

#[test]
fn fast_close_ends_the_connection_without_the_close_timeout() {
    let (mut b, flow) = server();
    let mut seg = rst(&flow);
    seg.options.rare_mut().mp_fastclose = Some(b.key);
    b.push(seg);
    assert_eq!(closed(&b), Some(CloseReason::PeerAborted));
}

#[test]
fn reset_ends_plain_tcp_and_fallback_connections_at_once() {
    for offers in [false, true] {
        let mut b = Bench::listening(passive(), StackConfig::default());
        let mut flow = Flow::new(here(), there(), 5000, SeqNumber(0));
        let mut first = syn(&flow, Flags::SYN);
        if offers {
            first.options.rare_mut().mp_capable = Some(crate::peer::capable(None, None));
        }
        flow.seq = flow.seq + 1;
        let out = b.push(first);
        flow.ack = out[0].seq + 1;
        b.push(flow.segment(Flags::ACK));
        b.handle = b.stack.handles().next();
        b.push(rst(&flow));
        assert_eq!(closed(&b), Some(CloseReason::Reset), "offers: {offers}");
    }
}

/// The stack is the client. Returns its join after the reset of its only subflow, with the nonce of the join.
fn rejoining(c: Config) -> (Bench, Flow, u32) {
    let (mut b, flow, _) = Bench::client(c, StackConfig::default());
    b.push(rst(&flow));
    let start = b.now;
    let out = b.wait();
    assert!(b.now.since(start) <= Duration::from_secs(2));
    let seg = out.iter().find(|s| s.flags == Flags::SYN).expect("a join");
    assert_eq!(seg.dst, there());
    let Some(MpJoin::Syn { token, nonce, .. }) = seg.options.rare.as_ref().unwrap().mp_join else {
        panic!("{seg:?}");
    };
    assert_eq!(token, keys::token(PEER_KEY));
    (b, Flow::new(seg.src, seg.dst, 9000, seg.seq + 1), nonce)
}

#[test]
fn client_reopens_its_only_subflow_with_any_path_manager() {
    let configs = [
        config(Passive),
        config(Ports(1)),
        config(FullMesh),
        config(Endpoints(Vec::new())),
    ];
    for config in configs {
        let (mut b, mut flow, nonce) = rejoining(config);
        let hmac = keys::join_hmac(PEER_KEY, b.key, PEER_NONCE, nonce);
        let mut answer = syn(&flow, Flags::SYN | Flags::ACK);
        answer.options.rare_mut().mp_join = Some(MpJoin::SynAck {
            backup: false,
            address_id: 0,
            hmac: keys::leftmost_64(&hmac),
            nonce: PEER_NONCE,
        });
        flow.seq = flow.seq + 1;
        b.push(answer);
        let fourth = b.data_ack(&flow, 0);
        b.push(fourth);
        let out = write(&mut b, 1000);
        assert_eq!((bytes(&out), out[0].src), (1000, flow.here));
        b.now += CLOSE_TIMEOUT * 2;
        b.stack.timeout(b.now);
        assert_eq!(closed(&b), None);
    }
}

/// The peer no longer knows the connection. The application is notified at once.
#[test]
fn client_with_a_refused_join_ends_with_reset_at_once() {
    let (mut b, flow, _) = rejoining(passive());
    let mut refusal = Segment::new(flow.there, flow.here);
    refusal.flags = Flags::RST | Flags::ACK;
    refusal.ack = flow.ack;
    b.push(refusal);
    assert_eq!(closed(&b), Some(CloseReason::Reset));
    assert_eq!(reported_end(&mut b), Some(CloseReason::Reset));
}

/// RFC 8684, section 3.6: without flag T another attempt is useless.
#[test]
fn client_that_must_not_rejoin_ends_with_reset_at_once() {
    let (mut b, flow, _) = Bench::client(passive(), StackConfig::default());
    let mut seg = rst(&flow);
    seg.options.rare_mut().mp_tcprst = Some(MpTcpRst {
        transient: false,
        other_flags: 0,
        reason: ResetReason::Prohibited,
    });
    b.push(seg);
    assert_eq!(closed(&b), Some(CloseReason::Reset));
}

/// The peer is no longer reachable. The connection ends in bounded time.
#[test]
fn client_with_unanswered_joins_ends_after_the_close_timeout() {
    let (mut b, flow, _) = Bench::client(passive(), StackConfig::default());
    b.stack
        .send(b.now, b.handle.unwrap(), Payload::Length(1000))
        .unwrap();
    b.drain();
    b.push(rst(&flow));
    let taken = time_to_end(&mut b);
    assert!(taken >= CLOSE_TIMEOUT && taken < CLOSE_TIMEOUT + Duration::from_secs(1));
    assert_eq!(closed(&b), Some(CloseReason::Reset));
}

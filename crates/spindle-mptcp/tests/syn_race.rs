//! Raced SYNs, segment by segment: one stack with two addresses, and a peer whose segments are written by hand.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod peer;

use std::net::IpAddr;
use std::sync::Arc;

use peer::{Bench, Flow, PEER_KEY, capable, config, end, here, syn};
use spindle_mptcp::path_manager::{Endpoints, FullMesh, PathManager};
use spindle_mptcp::{CloseReason, Config, Event, StackConfig, SubflowEnd, SubflowId, keys, preset};
use spindle_units::Duration;
use spindle_wire::{Flags, MpCapable, MpJoin, Payload, Segment, SeqNumber};

fn second() -> IpAddr {
    end("10.1.0.1:0").addr
}

fn racing(manager: impl PathManager + 'static, after: Duration) -> Config {
    let mut config = config(manager);
    if let Some(m) = &mut config.multipath {
        m.syn_race = Some(after);
    }
    config
}

/// A stack that opens a connection, and what it sends at once.
fn connecting(config: Config) -> (Bench, Vec<Segment>) {
    let addresses = vec![second()];
    let stack = StackConfig {
        addresses,
        ..StackConfig::default()
    };
    Bench::opening(config, stack)
}

fn offer(seg: &Segment) -> Option<MpCapable> {
    seg.options.rare.as_ref().and_then(|r| r.mp_capable)
}

fn join_of(seg: &Segment) -> Option<MpJoin> {
    seg.options.rare.as_ref().and_then(|r| r.mp_join)
}

/// The peer answers a SYN with MP_CAPABLE and this key. Returns its flow and what the stack sends.
fn answer(bench: &mut Bench, to: &Segment, key: Option<u64>) -> (Flow, Vec<Segment>) {
    let mut flow = Flow::new(to.src, to.dst, 5000, to.seq + 1);
    let mut seg = syn(&flow, Flags::SYN | Flags::ACK);
    if let Some(key) = key {
        seg.options.rare_mut().mp_capable = Some(capable(Some(key), None));
    }
    flow.seq = flow.seq + 1;
    let out = bench.push(seg);
    if let Some(keys) = out.first().and_then(offer) {
        bench.key = keys.sender_key.unwrap();
    }
    (flow, out)
}

fn events(bench: &mut Bench) -> Vec<Event> {
    std::iter::from_fn(|| bench.stack.poll_event()).collect()
}

/// The local addresses of the subflows and their identifiers, and why others ended.
fn subflows(bench: &Bench) -> (Vec<(IpAddr, u8)>, Vec<SubflowEnd>) {
    let info = bench.stack.info(bench.handle.unwrap()).unwrap();
    let of = info.subflows.iter().map(|s| (s.local.addr, s.id.0));
    (of.collect(), info.ended.iter().map(|e| e.end).collect())
}

#[test]
fn connection_begins_where_a_syn_is_answered_first_and_joins_the_other_path() {
    for manager in [true, false] {
        let (mut b, out) = match manager {
            true => connecting(racing(FullMesh, Duration::ZERO)),
            false => connecting(racing(Endpoints(vec![second()]), Duration::ZERO)),
        };
        let [first, rival] = &out[..] else {
            panic!("two SYNs: {out:?}");
        };
        assert_eq!((first.src.addr, rival.src.addr), (here().addr, second()));
        let offers = [first, rival].map(|s| (s.flags, offer(s).map(|o| o.sender_key)));
        assert_eq!(offers, [(Flags::SYN, Some(None)); 2]);

        let (flow, third) = answer(&mut b, rival, Some(PEER_KEY));
        assert_eq!((third.len(), third[0].src.addr), (1, second()));
        assert_eq!(offer(&third[0]).unwrap().receiver_key, Some(PEER_KEY));
        let winner = vec![(second(), SubflowId::FIRST.0)];
        assert_eq!(subflows(&b), (winner, vec![SubflowEnd::Outrun]));
        assert!(matches!(events(&mut b)[..], [Event::Connected { .. }]));

        let (_, late) = answer(&mut b, first, Some(PEER_KEY + 1));
        assert_eq!((late.len(), late[0].flags), (1, Flags::RST));

        let confirmed = b.data_ack(&flow, 0);
        let out = b.push(confirmed);
        let join = out.iter().find(|s| join_of(s).is_some()).unwrap();
        let Some(MpJoin::Syn {
            address_id, token, ..
        }) = join_of(join)
        else {
            panic!("{join:?}");
        };
        assert_eq!((join.src.addr, token), (here().addr, keys::token(PEER_KEY)));
        assert_ne!(address_id, 0, "the winner's address has identifier 0");
        // The peer may not have seen the RST yet. A SYN to its half-open connection would be refused.
        assert_ne!(join.src.port, first.src.port);
    }
}

#[test]
fn first_path_that_answers_in_time_keeps_the_connection() {
    let (mut b, out) = connecting(racing(FullMesh, Duration::ZERO));
    let (flow, third) = answer(&mut b, &out[0], Some(PEER_KEY));
    assert_eq!(third[0].src, here());
    let (live, ended) = subflows(&b);
    assert_eq!(live, [(here().addr, 0)]);
    assert_eq!(ended, [SubflowEnd::Outrun]);
    let confirmed = b.data_ack(&flow, 0);
    let out = b.push(confirmed);
    let join = out.iter().find(|s| join_of(s).is_some()).unwrap();
    assert_eq!(join.src.addr, second());
    // The peer may join at the first endpoint.
    b.join(end("10.0.0.3:5000"), 1, 0);
}

#[test]
fn later_syns_wait_and_are_not_sent_after_an_answer() {
    let after = Duration::from_millis(250);
    let (mut b, out) = connecting(racing(FullMesh, after));
    assert_eq!(out.len(), 1);
    let begun = b.now;
    let out = b.wait();
    assert_eq!((b.now.since(begun), out.len()), (after, 1));
    assert_eq!(out[0].src.addr, second());
    let info = b.stack.info(b.handle.unwrap()).unwrap();
    assert!(info.subflows.iter().all(|s| s.counters.timeouts == 0));

    let (mut b, out) = connecting(racing(FullMesh, after));
    answer(&mut b, &out[0], Some(PEER_KEY));
    assert_eq!(b.wait().len(), 0, "the other SYN is given up");
}

#[test]
fn rival_of_a_refused_syn_goes_on_and_the_last_refusal_ends_the_connection() {
    let (mut b, out) = connecting(racing(FullMesh, Duration::ZERO));
    let refusal = |to: &Segment| {
        let flow = Flow::new(to.src, to.dst, 0, to.seq + 1);
        flow.segment(Flags::RST | Flags::ACK)
    };
    b.push(refusal(&out[0]));
    assert_eq!(subflows(&b).1, [SubflowEnd::Refused(None)]);
    assert_eq!(events(&mut b), []);
    let (flow, third) = answer(&mut b, &out[1], Some(PEER_KEY));
    assert_eq!(third[0].src.addr, second());
    assert_eq!(subflows(&b).0, [(second(), 0)]);
    let confirmed = b.data_ack(&flow, 0);
    let joins = b.push(confirmed);
    assert!(
        joins
            .iter()
            .any(|s| join_of(s).is_some() && s.src.addr == here().addr)
    );
    // The two subflows have places of their own in the coupling of their windows.
    assert_eq!(subflows(&b).0, [(second(), 0), (here().addr, 1)]);

    let (mut b, out) = connecting(racing(FullMesh, Duration::ZERO));
    b.push(refusal(&out[1]));
    b.push(refusal(&out[0]));
    let all = events(&mut b);
    let refused =
        |e: &Event| matches!(e, Event::Closed { reason, .. } if *reason == CloseReason::Refused);
    assert!(all.len() == 1 && refused(&all[0]), "{all:?}");
}

#[test]
fn peer_without_mptcp_gets_plain_tcp_on_the_path_that_it_answered_first() {
    let (mut b, out) = connecting(racing(FullMesh, Duration::ZERO));
    let (flow, third) = answer(&mut b, &out[1], None);
    assert_eq!((third.len(), third[0].src.addr), (1, second()));
    let sent = b
        .stack
        .send(b.now, b.handle.unwrap(), Payload::Length(1000));
    assert_eq!(sent, Ok(1000));
    let out = b.drain();
    assert_eq!((out[0].src, out[0].payload.len()), (flow.here, 1000));
    assert!(out[0].options.dss.is_none());
}

#[test]
fn unanswered_syns_end_the_connection_once() {
    let mut c = racing(FullMesh, Duration::ZERO);
    c.tcp.syn_retries = 2;
    let (mut b, _) = connecting(c);
    while !b.wait().is_empty() {}
    let all = events(&mut b);
    assert_eq!(all.len(), 1);
    let expired = |e: &Event| matches!(e, Event::Closed { reason, .. } if *reason == CloseReason::ConnectTimeout);
    assert!(expired(&all[0]), "{all:?}");
    assert_eq!(b.stack.half_open(), 0);
}

#[test]
fn connection_that_is_given_up_during_the_race_leaves_nothing() {
    let (mut b, out) = connecting(racing(FullMesh, Duration::ZERO));
    let h = b.handle.unwrap();
    b.stack.abort(b.now, h);
    b.drain();
    assert_eq!((b.stack.handles().count(), b.stack.half_open()), (0, 0));
    let (_, late) = answer(&mut b, &out[1], Some(PEER_KEY));
    assert_eq!(late[0].flags, Flags::RST);
}

#[test]
fn syn_of_a_backup_follows_the_timeout_of_the_first() {
    let mut c = racing(FullMesh, Duration::ZERO);
    if let Some(m) = &mut c.multipath {
        m.backup_addresses = vec![second()];
    }
    let (mut b, out) = connecting(c);
    assert_eq!(out.len(), 1);
    let begun = b.now;
    let out = b.wait();
    let from: Vec<_> = out.iter().map(|s| s.src.addr).collect();
    assert_eq!(from, [here().addr, second()]);
    assert_eq!(b.now.since(begun), Duration::from_secs(1), "RFC 6298");
}

/// A fat tree with a dead link between its switches took one SYN in eight. Its flow began a second later.
#[test]
fn syn_without_a_rival_is_sent_twice_at_once_and_counts_as_one() {
    let spindle = preset("spindle").unwrap().config;
    let (mut b, out) = Bench::opening(spindle, StackConfig::default());
    let [first, copy] = &out[..] else {
        panic!("two SYNs: {out:?}");
    };
    assert_eq!((first.src, first.seq), (copy.src, copy.seq));
    assert_ne!(first.flow_label, copy.flow_label, "another path");
    let flow = Flow::new(here(), first.dst, 5000, first.seq + 1);
    let answer = syn(&flow, Flags::SYN | Flags::ACK);
    assert_eq!(b.push(answer.clone()).len(), 1);
    let info = b.stack.info(b.handle.unwrap()).unwrap();
    let subflow = &info.subflows[0];
    assert_eq!(subflow.srtt, Some(Duration::from_millis(1)));
    assert_eq!(subflow.counters.timeouts, 0);
    assert!(subflow.cwnd >= 10 * subflow.mss);
    let out = b.push(answer);
    assert!(out.iter().all(|s| s.flags == Flags::ACK), "{out:?}");
}

#[test]
fn unanswered_syn_and_its_copy_are_followed_by_one_syn_per_timeout() {
    let spindle = preset("spindle").unwrap().config;
    let (mut b, _) = Bench::opening(spindle, StackConfig::default());
    let begun = b.now;
    for seconds in [1, 3, 7] {
        let out = b.wait();
        let since = b.now.since(begun);
        assert_eq!((since, out.len()), (Duration::from_secs(seconds), 1));
    }
}

#[test]
fn copy_of_a_syn_is_answered_by_a_copy_which_is_no_sign_of_a_loss() {
    let mut c = preset("spindle").unwrap().config;
    c.tcp.timestamps = false;
    let mut b = Bench::listening(c, StackConfig::default());
    let mut flow = Flow::new(here(), end("10.0.0.2:7000"), 5000, SeqNumber(0));
    let first = syn(&flow, Flags::SYN);
    flow.seq = flow.seq + 1;
    let answers = [b.push(first.clone()), b.push(first.clone())].concat();
    let [answer, copy] = &answers[..] else {
        panic!("two SYN/ACKs: {answers:?}");
    };
    assert_eq!((answer.seq, answer.flags), (copy.seq, copy.flags));
    flow.ack = answer.seq + 1;
    b.push(flow.segment(Flags::ACK));
    let info = b.stack.info(b.stack.handles().next().unwrap()).unwrap();
    let subflow = &info.subflows[0];
    assert_eq!(subflow.srtt, Some(Duration::from_millis(2)), "of the first");
    assert!(subflow.cwnd >= 10 * subflow.mss);
}

#[test]
fn only_transports_with_a_race_send_two_syns() {
    assert_eq!(connecting(config(FullMesh)).1.len(), 1);
    let mut spindle = preset("spindle").unwrap().config;
    if let Some(m) = &mut spindle.multipath {
        m.path_manager = Arc::new(FullMesh);
    }
    assert_eq!(connecting(spindle).1.len(), 2);
}

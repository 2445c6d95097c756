//! The path manager, segment by segment: one stack, and a peer whose segments are written by hand.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod peer;

use peer::{Bench, Flow, PEER_KEY, PEER_NONCE, capable, config, end, here, syn};
use spindle_mptcp::path_manager::{Endpoints, FullMesh, Passive, PathManager, PathView, Ports};
use spindle_mptcp::{
    AnnouncedAddresses, Config, JoinPolicy, MultipathConfig, StackConfig, SubflowEnd, keys,
};
use spindle_units::Duration;
use spindle_wire::{
    AddAddr, Endpoint, Flags, MpJoin, RareOptions, RemoveAddr, ResetReason, Segment,
};

fn rare(seg: &Segment) -> RareOptions {
    seg.options.rare.as_deref().cloned().unwrap_or_default()
}

fn multipath(change: impl FnOnce(&mut MultipathConfig)) -> Config {
    let mut config = config(Passive);
    config
        .multipath
        .as_mut()
        .into_iter()
        .for_each(change_once(change));
    config
}

fn change_once(change: impl FnOnce(&mut MultipathConfig)) -> impl FnMut(&mut MultipathConfig) {
    let mut change = Some(change);
    move |m| {
        if let Some(change) = change.take() {
            change(m);
        }
    }
}

fn subflows(b: &Bench) -> usize {
    b.stack.info(b.handle.unwrap()).unwrap().subflows.len()
}

fn ends(b: &Bench) -> Vec<SubflowEnd> {
    let info = b.stack.info(b.handle.unwrap()).unwrap();
    info.ended.iter().map(|e| e.end).collect()
}

/// The SYN of a join among these segments.
fn join_in(out: &[Segment]) -> Option<Segment> {
    let join = |s: &&Segment| matches!(rare(s).mp_join, Some(MpJoin::Syn { .. }));
    out.iter().find(join).cloned()
}

/// Establishes a join of the stack with the peer's answers.
fn establish(b: &mut Bench, join: &Segment) -> Flow {
    let Some(MpJoin::Syn { nonce, .. }) = rare(join).mp_join else {
        panic!("no join: {join:?}");
    };
    let mut flow = Flow::new(join.src, join.dst, 9000, join.seq + 1);
    let mut answer = syn(&flow, Flags::SYN | Flags::ACK);
    let hmac = keys::join_hmac(PEER_KEY, b.key, PEER_NONCE, nonce);
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
    flow
}

/// The segments that the stack sends within this many seconds.
fn within(b: &mut Bench, seconds: u64) -> Vec<Segment> {
    let until = b.now + Duration::from_secs(seconds);
    let mut out = Vec::new();
    while let Some(due) = b.stack.next_timeout().filter(|t| *t <= until) {
        b.now = b.now.max(due);
        b.stack.timeout(b.now);
        out.extend(b.drain());
    }
    b.now = until;
    out
}

/// The peer announces `end` as address `id`.
fn announce(b: &mut Bench, flow: &Flow, id: u8, end: Endpoint) -> Vec<Segment> {
    let port = (end.port != 80).then_some(end.port);
    let mut seg = b.data_ack(flow, 0);
    seg.options.rare_mut().add_addr = vec![AddAddr {
        echo: false,
        address_id: id,
        addr: end.addr,
        port,
        hmac: Some(keys::add_addr_hmac(PEER_KEY, b.key, id, end.addr, port)),
    }];
    b.push(seg)
}

/// Answers a SYN with a RST.
fn refuse(b: &mut Bench, join: &Segment) -> Vec<Segment> {
    let flow = Flow::new(join.src, join.dst, 0, join.seq + 1);
    b.push(flow.segment(Flags::RST | Flags::ACK))
}

fn full_mesh() -> (Bench, Flow) {
    let (b, flow, _) = Bench::client(config(FullMesh), StackConfig::default());
    (b, flow)
}

#[test]
fn a_server_accepts_hundreds_of_joins_that_are_opened_and_reset() {
    let (mut b, _) = Bench::server(config(Passive), StackConfig::default());
    for k in 0..700u16 {
        let (flow, out) = b.join(end(&format!("10.0.1.2:{}", 1000 + k)), 1, 0);
        assert_eq!((out[0].flags, subflows(&b)), (Flags::ACK, 2), "join {k}");
        b.push(flow.segment(Flags::RST | Flags::ACK));
        assert_eq!(subflows(&b), 1, "join {k}");
    }
    let counters = b.stack.counters();
    assert_eq!((counters.subflows_accepted, counters.joins.limit), (700, 0));
}

#[test]
fn a_client_joins_again_after_each_of_hundreds_of_subflow_losses() {
    let (mut b, _, out) = Bench::client(config(Ports(2)), StackConfig::default());
    let mut join = join_in(&out).expect("the first join");
    for k in 0..400 {
        let flow = establish(&mut b, &join);
        assert_eq!(subflows(&b), 2, "join {k}");
        b.push(flow.segment(Flags::RST | Flags::ACK));
        join = join_in(&within(&mut b, 60)).unwrap_or_else(|| panic!("no join after {k}"));
    }
}

#[test]
fn a_subflow_lost_soon_after_its_join_is_joined_again_with_back_off() {
    let (mut b, _, out) = Bench::client(config(Ports(2)), StackConfig::default());
    let mut join = join_in(&out).expect("the first join");
    let mut waits = Vec::new();
    for _ in 0..8 {
        let flow = establish(&mut b, &join);
        b.push(flow.segment(Flags::RST | Flags::ACK));
        let lost = b.now;
        join = loop {
            if let Some(join) = join_in(&b.wait()) {
                break join;
            }
        };
        waits.push(b.now.since(lost).as_nanos() / 1_000_000_000);
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
}

/// A path manager of another crate that ignores flag C.
#[derive(Debug)]
struct Stubborn;

impl PathManager for Stubborn {
    fn name(&self) -> &str {
        "stubborn"
    }

    fn summary(&self) -> &str {
        "another subflow at the first endpoint"
    }

    fn next(&self, paths: &dyn PathView) -> Option<(std::net::IpAddr, Endpoint)> {
        Some(paths.first())
    }
}

/// RFC 8684, section 3.1, flag C.
#[test]
fn no_path_manager_joins_the_first_address_of_a_peer_that_forbids_it() {
    let second = "10.0.0.9".parse().unwrap();
    for config in [
        config(Ports(2)),
        config(FullMesh),
        config(Endpoints(vec![second])),
        config(Stubborn),
    ] {
        let manager = config.multipath.clone().map(|m| m.path_manager);
        let stack = StackConfig {
            addresses: vec![second],
            ..StackConfig::default()
        };
        let (mut b, mut flow, _) = Bench::connecting(config, stack);
        let mut answer = syn(&flow, Flags::SYN | Flags::ACK);
        let mut option = capable(Some(PEER_KEY), None);
        option.no_more_to_source = true;
        answer.options.rare_mut().mp_capable = Some(option);
        flow.seq = flow.seq + 1;
        let third = b.push(answer);
        b.key = rare(&third[0]).mp_capable.unwrap().sender_key.unwrap();
        let seg = b.data_ack(&flow, 0);
        let mut out = b.push(seg);
        out.extend(within(&mut b, 100));
        assert_eq!(join_in(&out), None, "{manager:?}");
    }
}

/// RFC 8684, section 3.4.1: "SHOULD NOT perform further connection attempts to this address/port
/// combination for this connection".
#[test]
fn an_announced_address_that_refuses_is_not_retried_until_announced_again() {
    let (mut b, flow) = full_mesh();
    let at = end("10.0.2.2:80");
    let join = join_in(&announce(&mut b, &flow, 5, at)).expect("a join");
    assert_eq!(join.dst, at);
    refuse(&mut b, &join);
    assert_eq!(join_in(&within(&mut b, 600)), None);
    let again = join_in(&announce(&mut b, &flow, 5, at)).expect("another attempt");
    assert_eq!(again.dst, at);
}

#[test]
fn an_announced_address_that_does_not_answer_is_not_retried() {
    let (mut b, flow) = full_mesh();
    announce(&mut b, &flow, 5, end("10.0.2.2:80"));
    while ends(&b).is_empty() {
        b.wait();
    }
    assert_eq!(ends(&b), [SubflowEnd::NoAnswer]);
    assert_eq!(join_in(&within(&mut b, 600)), None);
}

#[test]
fn an_announced_address_whose_subflow_was_established_is_joined_again() {
    let (mut b, flow) = full_mesh();
    let join = join_in(&announce(&mut b, &flow, 5, end("10.0.2.2:80"))).expect("a join");
    let second = establish(&mut b, &join);
    b.push(second.segment(Flags::RST | Flags::ACK));
    for _ in 0..5 {
        let join = join_in(&within(&mut b, 60)).expect("another attempt");
        refuse(&mut b, &join);
    }
}

#[test]
fn an_address_announced_again_is_joined_within_a_second() {
    let (mut b, flow) = full_mesh();
    let at = end("10.0.2.2:80");
    let join = join_in(&announce(&mut b, &flow, 5, at)).expect("a join");
    let second = establish(&mut b, &join);
    b.push(second.segment(Flags::RST | Flags::ACK));
    for _ in 0..5 {
        let join = join_in(&within(&mut b, 60)).expect("another attempt");
        refuse(&mut b, &join);
    }
    // The next attempt would be half a minute away.
    assert_eq!(join_in(&within(&mut b, 2)), None);
    announce(&mut b, &flow, 5, at);
    assert!(join_in(&within(&mut b, 1)).is_some());
}

/// Only an address with the same scope as the peer's own address is joined, unless the configuration allows
/// others.
#[test]
fn a_loopback_address_that_a_peer_announces_is_joined_only_if_configured() {
    for (policy, expected) in [
        (AnnouncedAddresses::Ignore, false),
        (AnnouncedAddresses::SameScope, false),
        (AnnouncedAddresses::Any, true),
    ] {
        let mut config = config(FullMesh);
        for m in config.multipath.iter_mut() {
            m.announced = policy;
        }
        let (mut b, flow, _) = Bench::client(config, StackConfig::default());
        let out = announce(&mut b, &flow, 5, end("127.0.0.1:22"));
        assert_eq!(join_in(&out).is_some(), expected, "{policy:?}");
        assert!(out.iter().any(|s| rare(s).add_addr.len() == 1), "the echo");
        let refused = b.stack.counters().add_addr_refused;
        assert_eq!(refused, u64::from(!expected));
    }
}

/// The peer's SYN/ACK and ADD_ADDR have arrived, and no DSS. The echo is sent at once (RFC 8684, section
/// 3.4.1), and a join only after a DSS has arrived (section 3.1).
#[test]
fn an_add_addr_before_the_first_dss_is_echoed_at_once_and_joined_after_the_dss() {
    let (mut b, mut flow, _) = Bench::connecting(config(FullMesh), StackConfig::default());
    let mut answer = syn(&flow, Flags::SYN | Flags::ACK);
    answer.options.rare_mut().mp_capable = Some(capable(Some(PEER_KEY), None));
    flow.seq = flow.seq + 1;
    let third = b.push(answer);
    b.key = rare(&third[0]).mp_capable.unwrap().sender_key.unwrap();
    let option = AddAddr {
        echo: false,
        address_id: 5,
        addr: end("10.0.2.2:80").addr,
        port: None,
        hmac: Some(keys::add_addr_hmac(
            PEER_KEY,
            b.key,
            5,
            end("10.0.2.2:80").addr,
            None,
        )),
    };
    let mut seg = flow.segment(Flags::ACK);
    seg.options.rare_mut().add_addr = vec![option];
    let out = b.push(seg);
    let echo = AddAddr {
        echo: true,
        hmac: None,
        ..option
    };
    assert_eq!(out.len(), 1, "{out:?}");
    assert_eq!(rare(&out[0]).add_addr, [echo]);
    let seg = b.data_ack(&flow, 0);
    let join = join_in(&b.push(seg)).expect("a join");
    assert_eq!(join.dst.addr, option.addr);
}

#[test]
fn a_remove_addr_is_repeated_on_alternating_subflows() {
    let (mut b, first) = Bench::server(config(Passive), StackConfig::default());
    let (second, _) = b.join(end("10.0.1.2:999"), 1, 0);
    let addr = "10.0.3.1".parse().unwrap();
    b.stack
        .announce_address(b.now, b.handle.unwrap(), addr, None);
    let id = rare(&b.drain()[0]).add_addr[0].address_id;
    b.stack.withdraw_address(b.now, b.handle.unwrap(), addr);
    let mut out = b.drain();
    out.extend(within(&mut b, 20));
    let removals = out
        .iter()
        .filter_map(|s| Some((s.dst, rare(s).remove_addr?)));
    let option = RemoveAddr {
        address_ids: vec![id],
    };
    let on = [first.there, second.there, first.there];
    let expected = on.map(|at| (at, option.clone()));
    assert_eq!(removals.collect::<Vec<_>>(), expected);
}

#[test]
fn a_remove_addr_is_not_repeated_once_the_address_is_announced_again() {
    let (mut b, _) = Bench::server(config(Passive), StackConfig::default());
    let addr = "10.0.3.1".parse().unwrap();
    let handle = b.handle.unwrap();
    b.stack.announce_address(b.now, handle, addr, None);
    b.drain();
    b.stack.withdraw_address(b.now, handle, addr);
    assert!(b.drain().iter().any(|s| rare(s).remove_addr.is_some()));
    b.stack.announce_address(b.now, handle, addr, None);
    let out = within(&mut b, 20);
    assert!(out.iter().all(|s| rare(s).remove_addr.is_none()), "{out:?}");
}

/// RFC 8684, section 3.4.2: a keepalive is sent first. "if a response is received, the path SHOULD NOT be
/// removed".
#[test]
fn a_subflow_that_answers_a_probe_survives_remove_addr_of_its_address() {
    let (mut b, first) = Bench::server(config(Passive), StackConfig::default());
    let (second, _) = b.join(end("10.0.1.2:999"), 3, 0);
    let mut seg = b.data_ack(&first, 0);
    seg.options.rare_mut().remove_addr = Some(RemoveAddr {
        address_ids: vec![3],
    });
    let out = b.push(seg);
    let probe = out.iter().find(|s| s.dst == second.there).expect("a probe");
    assert_eq!((probe.flags, probe.seq + 1), (Flags::ACK, second.ack));
    b.now += Duration::from_millis(5);
    let answer = b.data_ack(&second, 0);
    b.push(answer);
    within(&mut b, 20);
    assert_eq!(subflows(&b), 2);
}

#[test]
fn a_subflow_that_answers_no_probe_ends_after_remove_addr_of_its_address() {
    let (mut b, first) = Bench::server(config(Passive), StackConfig::default());
    let (second, _) = b.join(end("10.0.1.2:999"), 3, 0);
    let mut seg = b.data_ack(&first, 0);
    seg.options.rare_mut().remove_addr = Some(RemoveAddr {
        address_ids: vec![3],
    });
    let mut out = b.push(seg);
    out.extend(within(&mut b, 20));
    let on_second: Vec<_> = out.iter().filter(|s| s.dst == second.there).collect();
    let resets = on_second.iter().filter(|s| s.flags.contains(Flags::RST));
    assert_eq!((on_second.len(), resets.count()), (4, 1), "{on_second:?}");
    assert_eq!(ends(&b), [SubflowEnd::PeerRemovedAddress]);
}

#[test]
fn data_are_sent_on_other_subflows_while_a_removed_address_is_probed() {
    let (mut b, first) = Bench::server(config(Passive), StackConfig::default());
    let (second, _) = b.join(end("10.0.1.2:999"), 3, 0);
    let mut seg = b.data_ack(&first, 0);
    seg.options.rare_mut().remove_addr = Some(RemoveAddr {
        address_ids: vec![3],
    });
    b.push(seg);
    let handle = b.handle.unwrap();
    let data = spindle_wire::Payload::Length(20_000);
    b.stack.send(b.now, handle, data).unwrap();
    let out = b.drain();
    let on_second = |s: &&Segment| s.dst == second.there && !s.payload.is_empty();
    assert!(!out.is_empty() && out.iter().find(on_second).is_none());
}

/// The peer sends a join to `to`, another endpoint of the stack. Returns the answer.
fn join_elsewhere(b: &mut Bench, to: Endpoint) -> Segment {
    let (_, mut seg) = b.join_syn(end("10.0.1.2:999"), 1, keys::token(b.key));
    seg.dst = to;
    let out = b.push(seg);
    assert_eq!(out.len(), 1, "{out:?}");
    out[0].clone()
}

#[test]
fn a_join_to_an_endpoint_without_a_listener_is_reset_as_prohibited() {
    let (mut b, _) = Bench::server(config(Passive), StackConfig::default());
    for to in ["10.0.0.7:4000", "10.0.0.1:22"] {
        let answer = join_elsewhere(&mut b, end(to));
        assert!(answer.flags.contains(Flags::RST), "{to}");
        let reason = rare(&answer).mp_tcprst.map(|r| r.reason);
        assert_eq!(reason, Some(ResetReason::Prohibited));
    }
    assert_eq!(b.stack.counters().joins.prohibited, 2);
}

#[test]
fn joins_are_accepted_at_announced_endpoints_or_anywhere_if_configured() {
    let flags = |answer: Segment| answer.flags;
    let both = Flags::SYN | Flags::ACK;
    let (mut b, _) = Bench::server(config(Passive), StackConfig::default());
    let handle = b.handle.unwrap();
    let addr = end("10.0.0.7:0").addr;
    b.stack.announce_address(b.now, handle, addr, Some(81));
    b.drain();
    assert_eq!(flags(join_elsewhere(&mut b, end("10.0.0.7:81"))), both);
    assert_ne!(flags(join_elsewhere(&mut b, end("10.0.0.7:4000"))), both);
    let anywhere = multipath(|m| m.joins = JoinPolicy::Anywhere);
    let (mut b, _) = Bench::server(anywhere, StackConfig::default());
    assert_eq!(flags(join_elsewhere(&mut b, end("10.0.0.8:22"))), both);
}

#[test]
fn an_address_behind_nat_is_announced_by_its_outside_address_with_one_id() {
    let (inside, outside) = (end("198.18.0.1:4000"), end("10.0.0.7:4000"));
    let stack = StackConfig {
        outside: vec![(inside.addr, outside.addr)],
        ..StackConfig::default()
    };
    let (mut b, _) = Bench::server(config(Passive), stack);
    let handle = b.handle.unwrap();
    b.stack.announce_address(b.now, handle, outside.addr, None);
    let announced = rare(&b.drain()[0]).add_addr[0];
    assert_eq!(announced.addr, outside.addr);
    let answer = join_elsewhere(&mut b, inside);
    let Some(MpJoin::SynAck { address_id, .. }) = rare(&answer).mp_join else {
        panic!("no join: {answer:?}");
    };
    assert_eq!(address_id, announced.address_id);
    assert_eq!(subflows(&b), 2);
    b.stack.withdraw_address(b.now, handle, outside.addr);
    assert_eq!((subflows(&b), ends(&b)), (1, vec![SubflowEnd::Withdrawn]));
}

#[test]
fn a_listener_address_is_announced_again_when_its_subflow_is_lost() {
    let again = multipath(|m| m.announce_again = true);
    let (mut b, _) = Bench::server(again, StackConfig::default());
    let (second, _) = b.join(end("10.0.1.2:999"), 3, 0);
    b.push(second.segment(Flags::RST | Flags::ACK));
    let lost = b.now;
    let mut at = Vec::new();
    while b
        .stack
        .next_timeout()
        .is_some_and(|t| t.since(lost) < Duration::from_secs(200))
    {
        for s in b.wait() {
            for a in rare(&s).add_addr {
                assert_eq!((a.address_id, a.addr, a.port), (0, here().addr, None));
                at.push(b.now.since(lost).as_nanos() / 1_000_000_000);
            }
        }
    }
    // Each is sent three times, since the peer echoes none.
    assert_eq!(at[..6], [1, 2, 3, 4, 5, 7], "{at:?}");
    assert!(at.len() <= 8 * 3, "{at:?}");
}

/// A middlebox's reset may reach only this end. A peer that still has its end of the lost subflow joins the
/// address again only after the address was removed.
#[test]
fn an_address_without_subflows_is_removed_before_it_is_announced_again() {
    let again = multipath(|m| m.announce_again = true);
    let (mut b, first) = Bench::server(again, StackConfig::default());
    let at = end("10.0.0.7:4000");
    let handle = b.handle.unwrap();
    b.stack.announce_address(b.now, handle, at.addr, None);
    let announced = rare(&b.drain()[0]).add_addr[0];
    let (second, _) = b.join_at(at, end("10.0.1.2:999"), 3, 0);
    let mut out = b.push(second.segment(Flags::RST | Flags::ACK));
    let lost = b.now;
    let mut signals = Vec::new();
    while b.now.since(lost) < Duration::from_secs(20) {
        for s in &out {
            let options = rare(s);
            let seconds = b.now.since(lost).as_nanos() / 1_000_000_000;
            for a in options.add_addr {
                assert_eq!((a.address_id, a.addr), (announced.address_id, at.addr));
                signals.push((seconds, "announced"));
                let mut echo = b.data_ack(&first, 0);
                echo.options.rare_mut().add_addr = vec![AddAddr {
                    echo: true,
                    hmac: None,
                    ..a
                }];
                b.push(echo);
            }
            if let Some(r) = options.remove_addr {
                assert_eq!(r.address_ids, [announced.address_id]);
                signals.push((seconds, "removed"));
            }
        }
        out = b.wait();
    }
    let expected = [0, 1, 2, 3, 6, 7, 14, 15].into_iter();
    let expected = expected.zip(["removed", "announced"].into_iter().cycle());
    assert_eq!(signals, expected.collect::<Vec<_>>());
    // The subflow is joined again, and no further signal is sent for its address.
    b.join_at(at, end("10.0.1.2:1000"), 3, 0);
    let out = within(&mut b, 100);
    let said = |s: &Segment| !rare(s).add_addr.is_empty() || rare(s).remove_addr.is_some();
    assert!(!out.iter().any(said), "{out:?}");
}

#[test]
fn an_address_is_not_announced_again_after_a_fin_or_a_permanent_refusal() {
    for reason in [None, Some(ResetReason::Prohibited)] {
        let again = multipath(|m| m.announce_again = true);
        let (mut b, _) = Bench::server(again, StackConfig::default());
        let (mut second, _) = b.join(end("10.0.1.2:999"), 3, 0);
        let mut last = b.data_ack(&second, 0);
        match reason {
            Some(reason) => {
                last.flags = Flags::RST | Flags::ACK;
                last.options.rare_mut().mp_tcprst = Some(spindle_wire::MpTcpRst {
                    transient: false,
                    other_flags: 0,
                    reason,
                });
                b.push(last);
            }
            None => {
                last.flags = Flags::FIN | Flags::ACK;
                second.seq = second.seq + 1;
                let out = b.push(last);
                second.take(&out);
                let ack = b.data_ack(&second, 0);
                b.push(ack);
            }
        }
        assert_eq!(subflows(&b), 1);
        let out = within(&mut b, 100);
        assert!(out.iter().all(|s| rare(s).add_addr.is_empty()), "{out:?}");
    }
}

#[test]
fn subflows_of_a_backup_address_set_the_backup_flag_whichever_end_joins() {
    let address = "10.0.0.9".parse().unwrap();
    let mut client = config(FullMesh);
    for m in client.multipath.iter_mut() {
        m.backup_addresses = vec![address];
    }
    let stack = StackConfig {
        addresses: vec![address],
        ..StackConfig::default()
    };
    let (_, _, out) = Bench::client(client, stack);
    let join = join_in(&out).expect("a join");
    assert_eq!(join.src.addr, address);
    let backup = matches!(rare(&join).mp_join, Some(MpJoin::Syn { backup: true, .. }));
    assert!(backup, "{join:?}");
    let server = multipath(|m| m.backup_addresses = vec![here().addr]);
    let (mut b, _) = Bench::server(server, StackConfig::default());
    let (_, seg) = b.join_syn(end("10.0.1.2:999"), 1, keys::token(b.key));
    let answer = &b.push(seg)[0];
    let backup = matches!(
        rare(answer).mp_join,
        Some(MpJoin::SynAck { backup: true, .. })
    );
    assert!(backup, "{answer:?}");
}

#[test]
fn a_subflow_silent_for_the_user_timeout_ends_while_others_continue() {
    let mut config = config(Passive);
    config.tcp.user_timeout = Duration::from_secs(30);
    let (mut b, mut first) = Bench::server(config, StackConfig::default());
    let (second, _) = b.join(end("10.0.1.2:999"), 3, 0);
    let handle = b.handle.unwrap();
    let mut sent = 0;
    while ends(&b).is_empty() {
        let data = spindle_wire::Payload::Length(20_000);
        let n = b.stack.send(b.now, handle, data).unwrap_or_default();
        sent += n as u64;
        let mut out = b.drain();
        out.extend(within(&mut b, 1));
        assert!(sent < 10_000_000, "the silent subflow never ends");
        // The first path acknowledges all data, whichever path lost them.
        first.take(&out);
        let acked = b.stack.info(handle).unwrap().sent;
        let seg = b.data_ack(&first, acked);
        let more = b.push(seg);
        first.take(&more);
    }
    assert_eq!(ends(&b), [SubflowEnd::Dead]);
    assert_eq!((subflows(&b), second.there.port), (1, 999));
}

#[test]
fn a_join_that_ends_an_earlier_dead_subflow_completes() {
    let mut config = config(Passive);
    config.tcp.user_timeout = Duration::from_secs(30);
    let (mut b, mut first) = Bench::server(config, StackConfig::default());
    b.join(end("10.0.1.2:999"), 3, 0);
    let (heard, handle) = (b.now, b.handle.unwrap());
    while b.now.since(heard) < Duration::from_secs(28) {
        let data = spindle_wire::Payload::Length(20_000);
        b.stack.send(b.now, handle, data).unwrap();
        let mut out = b.drain();
        out.extend(within(&mut b, 1));
        first.take(&out);
        let acked = b.stack.info(handle).unwrap().sent;
        let seg = b.data_ack(&first, acked);
        let more = b.push(seg);
        first.take(&more);
    }
    assert_eq!(ends(&b), []);
    // The next retransmission timeout of the silent subflow would end it. The join is established before.
    b.now = heard + Duration::from_secs(31);
    let (third, answer) = b.join(end("10.0.1.2:1000"), 3, 0);
    assert_eq!(ends(&b), [SubflowEnd::Dead]);
    let fourth = |s: &Segment| (s.src, s.dst, s.ack) == (third.here, third.there, third.seq);
    assert!(answer.iter().any(fourth), "{answer:?}");
    let ids = b.stack.info(handle).unwrap().subflows;
    assert!(ids.iter().map(|s| s.id.0).eq([0, 2]));
}

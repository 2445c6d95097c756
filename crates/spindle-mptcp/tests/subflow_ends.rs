//! The reason for the end of each subflow is recorded, counted and reported.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod peer;

use peer::{Bench, Flow, config, end};
use spindle_mptcp::path_manager::{Passive, Ports};
use spindle_mptcp::{
    Config, EndedSubflow, Event, Keepalive, StackConfig, SubflowEnd, SubflowEnds, SubflowId,
};
use spindle_units::Duration;
use spindle_wire::{Flags, MpJoin, MpTcpRst, RemoveAddr, ResetReason};

fn passive() -> Config {
    config(Passive)
}

fn ended(b: &Bench) -> Vec<EndedSubflow> {
    let handle = b.handle.or_else(|| b.stack.handles().next());
    b.stack.info(handle.unwrap()).unwrap().ended
}

fn counted(b: &Bench) -> SubflowEnds {
    b.stack.counters().subflow_ends
}

/// A server with a second subflow, which the peer opened from its address 3.
fn joined() -> (Bench, Flow, Flow) {
    let (mut b, first) = Bench::server(passive(), StackConfig::default());
    let (second, _) = b.join(end("10.0.1.2:999"), 3, 0);
    while b.stack.poll_event().is_some() {}
    (b, first, second)
}

fn events(b: &mut Bench) -> Vec<Event> {
    std::iter::from_fn(|| b.stack.poll_event()).collect()
}

#[test]
fn a_reset_from_the_peer_is_recorded_with_its_mp_tcprst() {
    let (mut b, _, second) = joined();
    let why = MpTcpRst {
        transient: true,
        other_flags: 0,
        reason: ResetReason::LackOfResources,
    };
    let mut rst = second.segment(Flags::RST | Flags::ACK);
    rst.options.rare_mut().mp_tcprst = Some(why);
    b.push(rst);
    let expected = EndedSubflow {
        id: SubflowId(1),
        local: second.here,
        remote: second.there,
        established: true,
        at: b.now,
        end: SubflowEnd::PeerReset(Some(why)),
        last_window: ended(&b)[0].last_window,
        measured: None,
        rtt: ended(&b)[0].rtt,
        sent: 0,
        retransmitted: 0,
        received: 0,
        repaired: 0,
    };
    assert_eq!(ended(&b), [expected]);
    assert_eq!(counted(&b).of(SubflowEnd::PeerReset(None)), 1);
    let down = |e: &Event| {
        matches!(
            e,
            Event::SubflowDown {
                subflow: SubflowId(1),
                ..
            }
        )
    };
    assert!(events(&mut b).iter().any(down));
    let text = expected.end.to_string();
    assert_eq!(text, "reset by the peer: lack of resources, transient");
}

#[test]
fn a_reset_without_mp_tcprst_is_recorded_without_a_reason() {
    let (mut b, _, second) = joined();
    b.push(second.segment(Flags::RST | Flags::ACK));
    assert_eq!(ended(&b)[0].end, SubflowEnd::PeerReset(None));
}

#[test]
fn a_subflow_closed_by_fin_is_recorded_as_closed() {
    let (mut b, _, mut second) = joined();
    let mut fin = b.data_ack(&second, 0);
    fin.flags = Flags::ACK | Flags::FIN;
    second.seq = second.seq + 1;
    let out = b.push(fin);
    second.take(&out);
    let last = b.data_ack(&second, 0);
    b.push(last);
    assert_eq!(ended(&b)[0].end, SubflowEnd::Closed);
}

#[test]
fn a_join_with_a_wrong_hmac_is_recorded_as_an_invalid_join() {
    let (mut b, _) = Bench::server(passive(), StackConfig::default());
    b.join(end("10.0.1.2:999"), 3, 1);
    let last = ended(&b)[0];
    assert_eq!(
        (last.end, last.established),
        (SubflowEnd::InvalidJoin, false)
    );
    assert_eq!(counted(&b).of(SubflowEnd::InvalidJoin), 1);
    let failed = |e: &Event| {
        matches!(
            e,
            Event::JoinFailed {
                subflow: SubflowId(1),
                ..
            }
        )
    };
    assert!(events(&mut b).iter().any(failed));
}

#[test]
fn a_join_without_an_answer_is_recorded_as_unanswered() {
    let (mut b, _, out) = Bench::client(config(Ports(2)), StackConfig::default());
    assert!(out.iter().any(|s| s.flags == Flags::SYN));
    while ended(&b).is_empty() {
        assert!(!b.wait().is_empty());
    }
    assert_eq!(ended(&b)[0].end, SubflowEnd::NoAnswer);
}

#[test]
fn a_join_that_the_peer_refuses_is_recorded_as_refused() {
    let (mut b, _, out) = Bench::client(config(Ports(2)), StackConfig::default());
    let syn = out.iter().find(|s| s.flags == Flags::SYN).unwrap();
    assert!(matches!(
        syn.options.rare.as_ref().unwrap().mp_join,
        Some(MpJoin::Syn { .. })
    ));
    let flow = Flow::new(syn.src, syn.dst, 0, syn.seq + 1);
    b.push(flow.segment(Flags::RST | Flags::ACK));
    assert_eq!(ended(&b)[0].end, SubflowEnd::Refused(None));
}

#[test]
fn withdrawn_and_peer_removed_addresses_are_recorded_as_different_ends() {
    let (mut b, first, _) = joined();
    b.stack
        .withdraw_address(b.now, b.handle.unwrap(), first.here.addr);
    assert_eq!(ended(&b)[0].end, SubflowEnd::Withdrawn);
    let (mut b, first, _) = joined();
    let mut seg = b.data_ack(&first, 0);
    seg.options.rare_mut().remove_addr = Some(RemoveAddr {
        address_ids: vec![3],
    });
    b.push(seg);
    while ended(&b).is_empty() {
        assert!(!b.wait().is_empty());
    }
    assert_eq!(ended(&b)[0].end, SubflowEnd::PeerRemovedAddress);
}

#[test]
fn unanswered_keepalive_probes_are_recorded_as_a_keepalive_timeout() {
    let mut config = passive();
    config.tcp.keepalive = Some(Keepalive {
        idle: Duration::from_secs(10),
        interval: Duration::from_secs(1),
        probes: 2,
    });
    let (mut b, _) = Bench::server(config, StackConfig::default());
    b.join(end("10.0.1.2:999"), 3, 0);
    let handle = b.handle.unwrap();
    while b.stack.info(handle).is_some_and(|i| i.closed.is_none()) {
        b.wait();
    }
    let lost = counted(&b).of(SubflowEnd::KeepaliveTimeout);
    assert_eq!(lost, 2);
}

#[test]
fn a_connection_records_its_latest_eight_ended_subflows() {
    let (mut b, _) = Bench::server(passive(), StackConfig::default());
    for port in 1..=20 {
        b.join(end(&format!("10.0.1.2:{port}")), 3, 1);
    }
    let ports: Vec<u16> = ended(&b).iter().map(|e| e.remote.port).collect();
    assert_eq!(ports, (13..=20).collect::<Vec<u16>>());
    assert_eq!(counted(&b).of(SubflowEnd::InvalidJoin), 20);
}

#[test]
fn an_abort_records_every_subflow_as_ended_with_its_connection() {
    let (mut b, _, _) = joined();
    b.stack.abort(b.now, b.handle.unwrap());
    let total: u64 = counted(&b).iter().map(|(_, n)| n).sum();
    let names: Vec<_> = counted(&b).iter().filter(|(_, n)| *n > 0).collect();
    assert_eq!((total, names), (2, vec![("connection_ended", 2)]));
}

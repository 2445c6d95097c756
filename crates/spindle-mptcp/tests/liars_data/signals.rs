//! Floods of path-management signals (RFC 8684, sections 3.3.8, 3.4, 3.5).

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};

use spindle_mptcp::path_manager::{FullMesh, Passive};
use spindle_mptcp::{StackConfig, keys};
use spindle_wire::{AddAddr, Flags, MpPrio, RemoveAddr, Segment};

use crate::peer::{Bench, Flow, PEER_KEY, config};
use crate::support::{bytes, data, joined, others_go_on, passive, read, subflows, two_subflows};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Code {
    None,
    Wrong,
    Right,
}

/// An ADD_ADDR of the peer.
fn announce(b: &Bench, flow: &Flow, id: u8, addr: IpAddr, code: Code) -> Segment {
    let right = keys::add_addr_hmac(PEER_KEY, b.key, id, addr, None);
    let mut seg = b.data_ack(flow, 0);
    seg.options.rare_mut().add_addr.push(AddAddr {
        echo: false,
        address_id: id,
        addr,
        port: None,
        hmac: match code {
            Code::None => None,
            Code::Wrong => Some(!right),
            Code::Right => Some(right),
        },
    });
    seg
}

fn remove(b: &Bench, flow: &Flow, ids: Vec<u8>) -> Segment {
    let mut seg = b.data_ack(flow, 0);
    seg.options.rare_mut().remove_addr = Some(RemoveAddr { address_ids: ids });
    seg
}

fn victim(k: u32) -> IpAddr {
    Ipv4Addr::from_bits(u32::from(Ipv4Addr::new(12, 0, 0, 0)) + k).into()
}

/// The addresses to which the stack sends SYNs.
fn asked(out: &[Segment]) -> impl Iterator<Item = IpAddr> {
    let syns = out.iter().filter(|s| s.flags == Flags::SYN);
    syns.map(|s| s.dst.addr).collect::<Vec<_>>().into_iter()
}

#[test]
fn remove_addr_of_every_address_id_leaves_one_subflow() {
    let (mut b, first) = passive();
    let mut flows = vec![first];
    flows.extend((1..8).map(|k| joined(&mut b, &format!("10.0.1.{k}:9"), k)));
    assert_eq!(subflows(&b), 8);
    for _ in 0..100 {
        for start in 0..=255u8 {
            let ids = (0..30).map(|k| start.wrapping_add(k)).collect();
            let seg = remove(&b, &first, ids);
            b.push(seg);
        }
    }
    // Subflows on silent paths end once their probes stay unanswered (RFC 8684, section 3.4.2).
    for _ in 0..100 {
        b.wait();
    }
    assert!(subflows(&b) == 1);
    // The stack chooses which subflow stays.
    let info = b.stack.info(b.handle.unwrap()).unwrap();
    let left = |f: &&mut Flow| f.there == info.subflows[0].remote;
    let flow = flows.iter_mut().find(left).unwrap();
    let seg = data(&b, flow, 0, 1000, 0);
    b.push(seg);
    assert!(read(&mut b) == bytes(0, 0, 1000));
    others_go_on(&mut b);
}

/// 10 000 addresses are announced to a client with a full-mesh path manager.
#[test]
fn joins_to_ten_thousand_announced_addresses_are_limited() {
    for code in [Code::None, Code::Wrong, Code::Right] {
        let c = config(FullMesh);
        let (mut b, mut flow, _) = Bench::client(c, StackConfig::default());
        let mut victims = HashSet::new();
        for k in 0..10_000u32 {
            let seg = announce(&b, &flow, (k % 256) as u8, victim(k), code);
            let out = b.push(seg);
            assert!(out.len() <= 3, "{out:?}");
            victims.extend(asked(&out));
            assert!(subflows(&b) <= 8);
            assert!(b.stack.buffered() < 10_000);
        }
        let failures = b.stack.counters().add_addr_hmac_failures;
        if code == Code::Right {
            assert!((1..=32).contains(&victims.len()), "{}", victims.len());
            assert_eq!(failures, 0);
        } else {
            assert!(victims.is_empty());
            assert_eq!(failures, 10_000);
        }
        let seg = data(&b, &mut flow, 0, 1000, 0);
        b.push(seg);
        assert!(read(&mut b) == bytes(0, 0, 1000));
    }
}

/// An address identifier is announced, removed and announced with another address. The stack must not be a tool
/// that sends SYNs to arbitrary hosts.
#[test]
fn joins_to_addresses_announced_and_removed_in_turn_are_limited() {
    let c = config(FullMesh);
    let (mut b, mut flow, _) = Bench::client(c, StackConfig::default());
    let mut victims = HashSet::new();
    for k in 0..5_000u32 {
        let seg = announce(&b, &flow, 7, victim(k), Code::Right);
        let out = b.push(seg);
        victims.extend(asked(&out));
        let seg = remove(&b, &flow, vec![7]);
        let out = b.push(seg);
        victims.extend(asked(&out));
        assert!(subflows(&b) <= 8);
    }
    assert!((1..=32).contains(&victims.len()), "{}", victims.len());
    let seg = data(&b, &mut flow, 0, 1000, 0);
    b.push(seg);
    assert!(read(&mut b) == bytes(0, 0, 1000));
}

/// Like the test before, but each join is refused.
#[test]
fn joins_to_announced_addresses_that_refuse_are_limited() {
    let c = config(FullMesh);
    let (mut b, flow, _) = Bench::client(c, StackConfig::default());
    let mut victims = HashSet::new();
    for k in 0..5_000u32 {
        let seg = announce(&b, &flow, 7, victim(k), Code::Right);
        let out = b.push(seg);
        victims.extend(asked(&out));
        for s in out.iter().filter(|s| s.flags == Flags::SYN) {
            let mut rst = Segment::new(s.dst, s.src);
            rst.flags = Flags::RST | Flags::ACK;
            rst.ack = s.seq + 1;
            b.push(rst);
        }
    }
    assert!((1..=32).contains(&victims.len()), "{}", victims.len());
}

#[test]
fn a_server_echoes_valid_add_addr_and_opens_no_joins() {
    let (mut b, mut flow) = passive();
    let mut echoes = 0;
    for k in 0..10_000u32 {
        let seg = announce(&b, &flow, (k % 256) as u8, victim(k), Code::Right);
        let out = b.push(seg);
        assert!(asked(&out).next().is_none());
        echoes += out.len();
        assert!(b.stack.buffered() < 1000);
    }
    assert_eq!(echoes, 10_000);
    let seg = data(&b, &mut flow, 0, 1000, 0);
    b.push(seg);
    assert!(read(&mut b) == bytes(0, 0, 1000));
    others_go_on(&mut b);
}

#[test]
fn thousands_of_mp_prio_are_accepted_without_an_answer() {
    let (mut b, mut first, second) = two_subflows(config(Passive));
    for k in 0..10_000 {
        let flow = if k % 2 == 0 { &first } else { &second };
        let mut seg = b.data_ack(flow, 0);
        seg.options.rare_mut().mp_prio = Some(MpPrio { backup: k % 3 == 0 });
        let out = b.push(seg);
        assert!(out.is_empty(), "{out:?}");
    }
    assert_eq!(subflows(&b), 2);
    let seg = data(&b, &mut first, 0, 1000, 0);
    b.push(seg);
    assert!(read(&mut b) == bytes(0, 0, 1000));
    others_go_on(&mut b);
}

/// Only our key is accepted, not the peer's and not the key of another connection. This also holds on a reset.
#[test]
fn a_fast_close_needs_our_key() {
    let (mut b, first, second) = two_subflows(config(Passive));
    for key in [0, PEER_KEY, !b.key, b.key ^ 1, b.key.swap_bytes(), u64::MAX] {
        for flags in [Flags::ACK, Flags::RST, Flags::RST | Flags::ACK] {
            let mut seg = b.data_ack(&first, 0);
            seg.flags = flags;
            seg.options.rare_mut().mp_fastclose = Some(key);
            // The sequence number is not the next one, so the subflow is not reset either.
            if flags.contains(Flags::RST) {
                seg.seq = seg.seq + 1000;
            }
            b.push(seg);
            assert_eq!(subflows(&b), 2, "{flags:?}");
        }
    }
    let mut seg = first.segment(Flags::RST | Flags::ACK);
    seg.options.rare_mut().mp_fastclose = Some(PEER_KEY);
    b.push(seg);
    assert_eq!(subflows(&b), 1, "only its own subflow is reset");
    let mut flow = second;
    let seg = data(&b, &mut flow, 0, 1000, 0);
    b.push(seg);
    assert!(read(&mut b) == bytes(0, 0, 1000));
    others_go_on(&mut b);
}

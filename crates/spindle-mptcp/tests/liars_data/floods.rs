//! A transfer during a flood: its bytes arrive in both directions and on both subflows.

use std::net::Ipv4Addr;

use spindle_mptcp::path_manager::Passive;
use spindle_mptcp::{StackConfig, keys};
use spindle_wire::{DataNumber, Endpoint, Flags, Payload, Segment, SeqNumber};

use crate::peer::{Bench, Flow, capable, config, here, syn};
use crate::support::{bytes, data, joined, of, others_go_on, subflows};

const SYNS: u32 = 100_000;
const JOINS: u32 = 10_000;
/// Rounds of the transfer. Each round processes an equal share of the flood.
const ROUNDS: u32 = 100;

/// A source endpoint that is used only once.
fn source(k: u32) -> Endpoint {
    let addr = Ipv4Addr::from_bits(u32::from(Ipv4Addr::new(11, 0, 0, 0)) + k);
    Endpoint::new(addr.into(), 1024 + (k % 60_000) as u16)
}

fn syn_flood(b: &mut Bench, round: u32) {
    let each = SYNS / ROUNDS;
    for k in round * each..(round + 1) * each {
        let flow = Flow::new(here(), source(k), k.wrapping_mul(77_777), SeqNumber(0));
        let mut seg = syn(&flow, Flags::SYN);
        if k % 2 == 0 {
            seg.options.rare_mut().mp_capable = Some(capable(None, None));
        }
        b.push(seg);
        assert!(b.stack.half_open() <= 65);
        assert!(b.stack.handles().count() <= 70);
    }
}

/// Joins with the right token, as from an on-path observer. Their third ACK never arrives.
fn join_flood(b: &mut Bench, round: u32) {
    let each = JOINS / ROUNDS;
    let token = keys::token(b.key);
    for k in round * each..(round + 1) * each {
        let (_, seg) = b.join_syn(source(1 << 20 | k), 1, token);
        b.push(seg);
        assert!(subflows(b) <= 6);
    }
}

/// Receives the stack's data of the transfer into `got` and advances the acknowledgements of both subflows.
/// Returns the end of the highest data received.
fn take(b: &mut Bench, flows: &mut [Flow; 2], got: &mut [u8], out: Vec<Segment>) -> u64 {
    let first = keys::idsn(b.key).wrapping_add(1);
    let mut taken = 0;
    for flow in flows {
        for s in of(flow, out.clone()) {
            let Some(m) = s.options.dss.and_then(|d| d.mapping) else {
                continue;
            };
            let DataNumber::Low(dsn) = m.dsn else {
                panic!("{m:?}")
            };
            if s.seq != flow.ack {
                continue;
            }
            let at = dsn.wrapping_sub(first as u32) as usize;
            let end = at + s.payload.len();
            got[at..end].copy_from_slice(&s.payload.to_bytes());
            taken = taken.max(end as u64);
            flow.ack = s.seq + s.seq_len();
        }
    }
    taken
}

#[test]
fn a_transfer_during_syn_and_join_floods_is_intact() {
    let stack = StackConfig {
        max_half_open: 64,
        ..StackConfig::default()
    };
    let (mut b, first) = Bench::server(config(Passive), stack);
    let second = joined(&mut b, "10.0.1.2:9", 1);
    let mut flows = [first, second];
    let h = b.handle.unwrap();
    let total = 2000 * u64::from(ROUNDS);
    let written = Payload::from(bytes(5, 0, total));
    assert_eq!(b.stack.send(b.now, h, written), Ok(total as usize));
    let (mut read, mut got, mut acked) = (Vec::new(), vec![0; total as usize], 0);
    for round in 0..ROUNDS {
        let out = b.drain();
        acked = take(&mut b, &mut flows, &mut got, out).max(acked);
        syn_flood(&mut b, round);
        join_flood(&mut b, round);
        for (k, flow) in flows.iter_mut().enumerate() {
            let offset = u64::from(2 * round) + k as u64;
            let mut seg = data(&b, flow, 1000 * offset, 1000, 6);
            let ack = b.data_ack(flow, acked).options.dss.unwrap();
            seg.options.dss.as_mut().unwrap().data_ack = ack.data_ack;
            b.stack.receive(b.now, seg);
        }
        while let Ok(Some(p)) = b.stack.recv(b.now, h, 10_000) {
            read.extend_from_slice(&p.to_bytes());
        }
        assert!(b.stack.buffered() <= total + 10_000);
    }
    for _ in 0..1000 {
        if acked == total {
            break;
        }
        let mut out = b.drain();
        for flow in flows {
            let seg = b.data_ack(&flow, acked);
            out.extend(b.push(seg));
        }
        if out.iter().all(|s| s.payload.is_empty()) {
            out.extend(b.wait());
        }
        acked = take(&mut b, &mut flows, &mut got, out).max(acked);
    }
    assert!(read == bytes(6, 0, total), "what the peer sent");
    assert_eq!(acked, total);
    assert!(got == bytes(5, 0, total), "what the peer got");
    let c = b.stack.counters();
    assert!(c.cookies.sent >= u64::from(SYNS) - 2 * 64, "{c:?}");
    assert!(c.joins.limit >= u64::from(JOINS) - 100, "{c:?}");
    assert_eq!(c.accepted, 1);
    assert!(b.stack.info(h).unwrap().multipath);
    others_cannot_be_stopped(b);
}

/// Checks that a new connection is accepted by its SYN cookie during the flood.
fn others_cannot_be_stopped(mut b: Bench) {
    assert!(b.stack.half_open() >= 60);
    others_go_on(&mut b);
}

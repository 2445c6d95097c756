//! Forged RST and SYN segments in a connection with several subflows (RFC 5961).

use spindle_mptcp::StackConfig;
use spindle_mptcp::path_manager::Passive;
use spindle_units::Duration;
use spindle_wire::{Flags, Payload, Segment};

use crate::peer::{Bench, Flow, config};
use crate::support::{bytes, data, joined, of, others_go_on, read, subflows, two_subflows};

/// The receive window of the stack, without window scaling.
const WINDOW: u32 = 65_535;

/// Distances from the next sequence number, and whether they are within the window.
const INEXACT: [(u32, bool); 9] = [
    (1, true),
    (1000, true),
    (WINDOW - 1, true),
    (WINDOW + 100_000, false),
    (1 << 30, false),
    (1 << 31, false),
    (3 << 30, false),
    (u32::MAX, false),
    (u32::MAX - 1000, false),
];

fn at(flow: &Flow, distance: u32, flags: Flags) -> Segment {
    let mut seg = flow.segment(flags);
    seg.seq = seg.seq + distance;
    seg
}

/// Lets time pass until the stack may send challenge ACKs again.
fn rest(b: &mut Bench) {
    b.now += Duration::from_secs(2);
}

#[test]
fn inexact_resets_are_challenged_or_dropped() {
    let (mut b, mut first, second) = two_subflows(config(Passive));
    let mut offset = 0;
    for flags in [Flags::RST, Flags::RST | Flags::ACK, Flags::RST | Flags::FIN] {
        for (distance, inside) in INEXACT {
            rest(&mut b);
            let out = b.push(at(&second, distance, flags));
            assert_eq!(subflows(&b), 2, "{distance}");
            let answers = of(&second, out);
            assert!(answers.len() <= 1);
            for a in &answers {
                assert_eq!((a.flags, a.ack), (Flags::ACK, second.seq));
            }
            if inside {
                assert_eq!(answers.len(), 1, "a challenge for {distance}");
            } else if distance > WINDOW && distance < 1 << 30 || distance == 1 << 31 {
                assert!(answers.is_empty() || distance < 1 << 30, "{distance}");
            }
            let seg = data(&b, &mut first, offset, 1000, 0);
            b.push(seg);
            assert!(read(&mut b) == bytes(0, offset, 1000));
            offset += 1000;
        }
    }
    others_go_on(&mut b);
}

/// A challenge ACK requires nothing from the true peer and ends no subflow.
#[test]
fn syns_on_an_established_subflow_are_challenged_at_any_sequence_number() {
    let (mut b, mut first, mut second) = two_subflows(config(Passive));
    let mut offset = 0;
    for flags in [Flags::SYN, Flags::SYN | Flags::ACK, Flags::SYN | Flags::FIN] {
        for (distance, _) in INEXACT.into_iter().chain([(0, true)]) {
            rest(&mut b);
            let mut seg = at(&second, distance, flags);
            seg.payload = Payload::Length(100);
            let out = b.push(seg);
            let answers = of(&second, out);
            assert_eq!(answers.len(), 1, "{distance}");
            assert_eq!((answers[0].flags, answers[0].ack), (Flags::ACK, second.seq));
            assert_eq!(subflows(&b), 2);
            for flow in [&mut first, &mut second] {
                let seg = data(&b, flow, offset, 1000, 0);
                b.push(seg);
                assert!(read(&mut b) == bytes(0, offset, 1000));
                offset += 1000;
            }
        }
    }
    others_go_on(&mut b);
}

/// Data in flight on the reset subflow are reinjected on the other. Only an exact reset of the last subflow
/// ends the connection.
#[test]
fn an_exact_reset_ends_its_subflow_and_loses_no_byte() {
    let (mut b, mut first, second) = two_subflows(config(Passive));
    let h = b.handle.unwrap();
    let content = Payload::from(bytes(8, 0, 40_000));
    assert_eq!(b.stack.send(b.now, h, content), Ok(40_000));
    let out = b.drain();
    let on_second: usize = of(&second, out.clone())
        .iter()
        .map(|s| s.payload.len())
        .sum();
    assert!(on_second > 0);
    let mut out = of(&first, out);
    let reply = b.push(at(&second, 0, Flags::RST));
    out.extend(of(&first, reply));
    assert_eq!(subflows(&b), 1);
    let dsn = spindle_mptcp::keys::idsn(b.key).wrapping_add(1) as u32;
    let mut got = vec![None; 40_000];
    for _ in 0..100 {
        for s in out
            .iter()
            .filter(|s| s.seq == first.ack || !s.payload.is_empty())
        {
            let Some(m) = s.options.dss.and_then(|d| d.mapping) else {
                continue;
            };
            let spindle_wire::DataNumber::Low(n) = m.dsn else {
                panic!("{m:?}")
            };
            for (k, x) in s.payload.to_bytes().iter().enumerate() {
                got[n.wrapping_sub(dsn) as usize + k] = Some(*x);
            }
        }
        first.take(&out);
        let acked = got.iter().take_while(|x| x.is_some()).count() as u64;
        if acked == 40_000 {
            break;
        }
        let seg = b.data_ack(&first, acked);
        let reply = b.push(seg);
        out = of(&first, reply);
    }
    let got: Vec<u8> = got.into_iter().flatten().collect();
    assert!(got == bytes(8, 0, 40_000));
    let ack = b.data_ack(&first, 40_000);
    b.push(ack);
    let seg = data(&b, &mut first, 0, 1000, 0);
    b.push(seg);
    assert!(read(&mut b) == bytes(0, 0, 1000));
    b.push(at(&first, 0, Flags::RST));
    assert_eq!(subflows(&b), 0);
    others_go_on(&mut b);
}

/// Each subflow has its own limit of challenge ACKs. Forged segments on one subflow do not use up the limit of
/// another.
#[test]
fn forged_segments_on_one_subflow_do_not_limit_answers_on_others() {
    let (mut b, mut first) = Bench::server(config(Passive), StackConfig::default());
    let second = joined(&mut b, "10.0.1.2:9", 1);
    let mut answers = 0;
    for k in 0..10_000u32 {
        b.stack
            .receive(b.now, at(&second, 1 + k * 7 % 60_000, Flags::RST));
        b.stack.receive(b.now, at(&second, k * 7919, Flags::SYN));
        answers += b.drain().len();
    }
    assert!(answers <= 10, "{answers} at once (RFC 5961, section 7)");
    assert_eq!(subflows(&b), 2);
    let out = b.push(at(&first, 100, Flags::RST));
    assert_eq!(of(&first, out).len(), 1);
    let seg = data(&b, &mut first, 0, 1000, 0);
    let out = b.push(seg);
    assert_eq!(
        of(&first, out).len(),
        1,
        "an acknowledgement is no challenge"
    );
    assert!(read(&mut b) == bytes(0, 0, 1000));
    others_go_on(&mut b);
}

/// Only a forger sends data with an acknowledgement that is far off. Such segments are discarded with their
/// data (RFC 5961, section 5.2).
#[test]
fn data_with_an_unacceptable_ack_are_discarded() {
    let (mut b, mut first, second) = two_subflows(config(Passive));
    for distance in [1u32, 70_000, 1 << 31, u32::MAX - 100_000] {
        rest(&mut b);
        let mut seg = data(&b, &mut second.clone(), 0, 100, 0x55);
        seg.ack = seg.ack + distance;
        b.push(seg);
        assert!(read(&mut b).is_empty(), "{distance}");
        assert_eq!(subflows(&b), 2);
    }
    let seg = data(&b, &mut first, 0, 1000, 0);
    b.push(seg);
    assert!(read(&mut b) == bytes(0, 0, 1000));
    others_go_on(&mut b);
}

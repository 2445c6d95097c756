//! Signals of an off-path attacker who knows the ports but no sequence numbers (RFC 5961). The stack acts only
//! on segments inside the receive window whose acknowledgement is in range.

use spindle_mptcp::SubflowInfo;
use spindle_wire::{DataNumber, Dss, Flags, Mapping, MpPrio, Payload, RemoveAddr, Segment};

use crate::peer::{Bench, Flow};
use crate::{acknowledged, closed, data_fin, joined, own_dsn, reset, server, subflows, write};

/// The stack's window without scaling.
const WINDOW: u32 = 65_535;
/// The window that the peer of [`Bench`] announces.
const PEER_WINDOW: u32 = 60_000;

/// Segments outside the window: sequence numbers ahead, and acknowledgement numbers ahead and behind.
fn misses(flow: &Flow) -> Vec<Segment> {
    let mut all = Vec::new();
    for ahead in [WINDOW + 1, 100_000, 1 << 20, 500_000_000, (1 << 30) - 1] {
        for (up, down) in [(0, 0), (0, 1000), (0, PEER_WINDOW)] {
            let mut seg = flow.segment(Flags::ACK);
            seg.seq = seg.seq + ahead;
            seg.ack = seg.ack + up - down;
            all.push(seg);
        }
    }
    for down in [PEER_WINDOW + 1, 65_000, 65_535, 1 << 20] {
        let mut seg = flow.segment(Flags::ACK);
        seg.ack = seg.ack - down;
        all.push(seg);
    }
    let mut seg = flow.segment(Flags::ACK);
    seg.ack = seg.ack + 100_000;
    all.push(seg);
    all
}

fn infos(b: &Bench) -> Vec<SubflowInfo> {
    b.stack.info(b.handle.unwrap()).unwrap().subflows
}

fn is_multipath(b: &Bench) -> bool {
    b.stack.info(b.handle.unwrap()).unwrap().multipath
}

#[test]
fn mp_fail_outside_the_window_is_ignored() {
    let (mut b, flow) = server();
    write(&mut b, 5000);
    let number = own_dsn(&b, 1000);
    for mut seg in misses(&flow) {
        seg.options.rare_mut().mp_fail = Some(number);
        let (seq, ack) = (seg.seq - flow.seq.0, seg.ack - flow.ack.0);
        let out = b.push(seg);
        assert!(!reset(&out) && is_multipath(&b), "{seq:?} {ack:?}");
    }
    let mut seg = b.data_ack(&flow, 0);
    seg.options.rare_mut().mp_fail = Some(number);
    b.push(seg);
    assert!(!is_multipath(&b), "accepted inside the window");
}

/// Only data that were sent and may still be in flight can have a wrong checksum.
#[test]
fn mp_fail_for_data_not_in_flight_is_ignored() {
    let (mut b, mut flow) = server();
    let out = write(&mut b, 5000);
    flow.take(&out);
    let seg = b.data_ack(&flow, 5000);
    b.push(seg);
    let sent = write(&mut b, 3000);
    let next = own_dsn(&b, 0);
    let wrong = [
        own_dsn(&b, 8000),
        own_dsn(&b, 1 << 20),
        next.wrapping_sub(1),
        own_dsn(&b, 6000).wrapping_add(1 << 32),
        own_dsn(&b, 6000).wrapping_sub(1 << 32),
        Bench::peer_dsn(0),
        0,
        u64::MAX,
    ];
    for dsn in wrong {
        let mut seg = b.data_ack(&flow, 5000);
        seg.options.rare_mut().mp_fail = Some(dsn);
        let out = b.push(seg);
        assert!(!reset(&out) && is_multipath(&b), "{dsn:x}");
    }
    flow.take(&sent);
    let mut seg = b.data_ack(&flow, 5000);
    seg.options.rare_mut().mp_fail = Some(own_dsn(&b, 5000));
    b.push(seg);
    assert!(!is_multipath(&b));
}

#[test]
fn path_management_options_outside_the_window_are_ignored() {
    let (mut b, first) = server();
    let (second, _) = joined(&mut b, "10.0.1.2:999", 3);
    for flow in [first, second] {
        for mut seg in misses(&flow) {
            let rare = seg.options.rare_mut();
            rare.remove_addr = Some(RemoveAddr {
                address_ids: vec![0, 3],
            });
            rare.mp_prio = Some(MpPrio { backup: true });
            rare.mp_fastclose = Some(b.key);
            let out = b.push(seg);
            assert!(!reset(&out) && subflows(&b) == 2, "{out:?}");
            assert!(infos(&b).iter().all(|s| !s.backup));
        }
    }
    let mut seg = b.data_ack(&second, 0);
    seg.options.rare_mut().mp_prio = Some(MpPrio { backup: true });
    b.push(seg);
    assert!(infos(&b)[1].backup, "accepted inside the window");
}

#[test]
fn dss_outside_the_window_is_ignored() {
    let (mut b, flow) = server();
    write(&mut b, 5000);
    let number = |b: &Bench, n| DataNumber::Full(own_dsn(b, n));
    for mut seg in misses(&flow) {
        // A DATA_ACK of everything sent, an infinite mapping, the end of the peer's data.
        let infinite = Mapping {
            dsn: DataNumber::Full(Bench::peer_dsn(0)),
            ssn: 1,
            len: 0,
            checksum: None,
        };
        let end = data_fin(&b, &flow, 0, 0).options.dss.unwrap();
        let lies = [
            Dss {
                data_ack: Some(number(&b, 5000)),
                ..Dss::default()
            },
            Dss {
                mapping: Some(infinite),
                ..Dss::default()
            },
            Dss {
                data_ack: None,
                ..end
            },
        ];
        for dss in lies {
            seg.options.dss = Some(dss);
            let out = b.push(seg.clone());
            assert!(!reset(&out), "{out:?}");
        }
        assert_eq!((acknowledged(&b), closed(&b)), (0, None));
        assert!(is_multipath(&b) && !b.stack.at_end(b.handle.unwrap()));
    }
}

/// An acknowledgement of data without any option would mean that options are removed on the path (section 3.7).
#[test]
fn acks_without_options_outside_the_window_cause_no_fallback() {
    let (mut b, mut flow) = server();
    let out = write(&mut b, 20_000);
    for s in &out {
        flow.take(std::slice::from_ref(s));
        let mut seg = flow.segment(Flags::ACK);
        seg.seq = seg.seq + 100_000_000;
        b.push(seg);
    }
    assert!(is_multipath(&b));
}

/// An acknowledgement without data that is beyond the subflow's window is still processed by TCP, because the
/// peer may have sent copies of data that no window bounds.
#[test]
fn ack_beyond_the_window_is_processed_on_its_subflow() {
    let (mut b, mut flow) = server();
    let out = write(&mut b, 5000);
    assert!(infos(&b)[0].in_flight >= 5000);
    flow.take(&out);
    let mut seg = b.data_ack(&flow, 0);
    seg.seq = seg.seq + 100_000;
    b.push(seg);
    assert_eq!((infos(&b)[0].in_flight, acknowledged(&b)), (0, 0));
}

/// One million blind guesses at an idle connection.
#[test]
fn million_blind_guesses_do_not_change_the_connection() {
    let (mut b, flow) = server();
    let mut x = 12_345u64;
    let mut guess = || {
        // Knuth's MMIX generator. Any generator with a good spread works.
        x = x
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (x >> 32) as u32
    };
    for _ in 0..1_000_000 {
        let mut seg = flow.segment(Flags::ACK);
        seg.seq = spindle_wire::SeqNumber(guess());
        seg.ack = spindle_wire::SeqNumber(guess());
        let rare = seg.options.rare_mut();
        rare.mp_fail = Some(u64::from(guess()));
        rare.remove_addr = Some(RemoveAddr {
            address_ids: vec![0],
        });
        rare.mp_prio = Some(MpPrio { backup: true });
        b.stack.receive(b.now, seg);
        b.drain();
    }
    assert!(is_multipath(&b) && subflows(&b) == 1 && !infos(&b)[0].backup);
    let mut flow = flow;
    let mut seg = b.data(&mut flow, 0, 100);
    seg.payload = Payload::Length(100);
    b.push(seg);
    assert_eq!(b.stack.readable(b.handle.unwrap()), 100);
}

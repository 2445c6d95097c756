//! Unsolicited MP_FAIL, and infinite mappings (RFC 8684, section 3.7).

use spindle_mptcp::keys;
use spindle_mptcp::path_manager::Passive;
use spindle_wire::Payload;

use crate::peer::{Bench, config};
use crate::support::{
    bytes, data, full, low, mapping, others_go_on, passive, read, reset, subflows, two_subflows,
    unmapped,
};

const ABSURD: [u64; 5] = [0, 1, 1 << 32, 1 << 63, u64::MAX];

fn is_multipath(b: &Bench) -> bool {
    let info = b.handle.and_then(|h| b.stack.info(h));
    info.is_some_and(|i| i.multipath)
}

/// On the only subflow, an MP_FAIL of any data in flight means a fallback to plain TCP.
#[test]
fn mp_fail_of_data_in_flight_on_the_only_subflow_means_plain_tcp() {
    for failed in [0, 1, 1000, 4999] {
        let (mut b, mut flow) = passive();
        let seg = data(&b, &mut flow, 0, 1000, 0);
        b.push(seg);
        let content = Payload::from(bytes(7, 0, 5000));
        assert_eq!(b.stack.send(b.now, b.handle.unwrap(), content), Ok(5000));
        let sent = b.drain();
        flow.take(&sent);
        let mut seg = b.data_ack(&flow, 0);
        let dsn = keys::idsn(b.key).wrapping_add(1).wrapping_add(failed);
        seg.options.rare_mut().mp_fail = Some(dsn);
        let out = b.push(seg);
        assert!(!reset(&out) && !is_multipath(&b), "{out:?}");
        for k in 1..20 {
            let mut seg = unmapped(&b, &mut flow, 1000 * k, 1000);
            seg.options.dss = None;
            b.push(seg);
        }
        assert!(read(&mut b) == bytes(0, 0, 20_000));
        others_go_on(&mut b);
    }
}

#[test]
fn ten_thousand_mp_fail_of_unsent_data_change_nothing() {
    let (mut b, mut flow) = passive();
    let mut answers = 0;
    for k in 0..10_000u64 {
        let mut seg = b.data_ack(&flow, 0);
        let dsn = ABSURD.get(k as usize).copied().unwrap_or(k << 40);
        seg.options.rare_mut().mp_fail = Some(dsn);
        answers += b.push(seg).len();
    }
    assert_eq!(answers, 0);
    assert!(is_multipath(&b) && b.stack.buffered() < 1000);
    let seg = data(&b, &mut flow, 0, 1000, 0);
    b.push(seg);
    assert!(read(&mut b) == bytes(0, 0, 1000));
    others_go_on(&mut b);
}

#[test]
fn mp_fail_on_one_of_several_subflows_changes_nothing() {
    let (mut b, mut first, mut second) = two_subflows(config(Passive));
    let mut answers = 0;
    for k in 0..10_000u64 {
        let flow = if k % 2 == 0 { &first } else { &second };
        let mut seg = b.data_ack(flow, 0);
        seg.options.rare_mut().mp_fail = Some(ABSURD[k as usize % 5]);
        answers += b.push(seg).len();
    }
    assert_eq!((answers, subflows(&b)), (0, 2));
    assert!(is_multipath(&b));
    let seg = data(&b, &mut second, 0, 1000, 0);
    b.push(seg);
    let seg = data(&b, &mut first, 1000, 1000, 0);
    b.push(seg);
    assert!(read(&mut b) == bytes(0, 0, 2000));
    others_go_on(&mut b);
}

/// Data that a subflow carries after the infinite mapping have no place in the stream. The subflow is reset
/// once it has stored too much, and the other subflow continues.
#[test]
fn an_infinite_mapping_on_one_of_several_subflows_is_ignored() {
    let (mut b, mut first, mut second) = two_subflows(config(Passive));
    let lie = mapping(&b, &second, second.ssn(), low(0), 0);
    b.push(lie);
    assert!(is_multipath(&b));
    let mut gone = false;
    for k in 0..100 {
        let seg = unmapped(&b, &mut second, 1000 * k, 1000);
        let out = b.push(seg);
        gone |= reset(&out);
        assert!(b.stack.buffered() < 100_000);
    }
    assert!(gone);
    assert_eq!((read(&mut b).len(), subflows(&b)), (0, 1));
    for k in 0..20 {
        let seg = data(&b, &mut first, 1000 * k, 1000, 0);
        b.push(seg);
    }
    assert!(read(&mut b) == bytes(0, 0, 20_000));
    others_go_on(&mut b);
}

/// The infinite mapping announces a wrong data sequence number. Delivered data stay, and later data continue
/// the same stream or lead to a reset.
#[test]
fn an_infinite_mapping_with_a_wrong_dsn_leaves_delivered_data_intact() {
    for at in [0, 500, 1001, 1 << 20, 1 << 31, 1 << 40, u64::MAX - 5] {
        let (mut b, mut flow) = passive();
        let seg = data(&b, &mut flow, 0, 1000, 0);
        b.push(seg);
        let lie = mapping(&b, &flow, flow.ssn(), full(at), 0);
        b.push(lie);
        for k in 1..20 {
            let mut seg = unmapped(&b, &mut flow, 1000 * k, 1000);
            seg.options.dss = None;
            b.push(seg);
            assert!(b.stack.buffered() < 25_000);
        }
        let got = read(&mut b);
        assert_eq!(got[..1000], bytes(0, 0, 1000), "{at}");
        others_go_on(&mut b);
    }
}

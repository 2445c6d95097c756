//! Mappings that overlap and contradict each other (RFC 8684, section 3.3.1): the first mapping counts, and no
//! delivered byte contradicts an earlier one.

use proptest::prelude::*;
use spindle_mptcp::StackConfig;
use spindle_mptcp::path_manager::Passive;
use spindle_wire::{Flags, Payload, Segment};

use crate::peer::{Bench, Flow, config};
use crate::support::{
    byte_at, bytes, data, joined, low, others_go_on, passive, read, reset, subflows, sum,
    two_subflows,
};

#[test]
fn other_bytes_for_received_offsets_on_another_subflow_are_ignored() {
    for delivered in [true, false] {
        let (mut b, mut first, mut second) = two_subflows(config(Passive));
        let mut got = Vec::new();
        // A hole at the start keeps all data from the application.
        let start = if delivered { 0 } else { 100 };
        let seg = data(&b, &mut first, start, 1000, 0);
        b.push(seg);
        got.extend(read(&mut b));
        let seg = data(&b, &mut second, start, 1000, 0x55);
        b.push(seg);
        let seg = data(&b, &mut second, start + 500, 1000, 0x55);
        b.push(seg);
        let seg = data(&b, &mut first, 0, start as u16, 0);
        if start > 0 {
            b.push(seg);
        }
        got.extend(read(&mut b));
        let mut wanted = bytes(0, 0, start + 1000);
        wanted.extend(bytes(0x55, start + 1000, 500));
        assert!(got == wanted, "delivered first: {delivered}");
        assert_eq!(subflows(&b), 2);
        others_go_on(&mut b);
    }
}

#[test]
fn a_second_mapping_of_the_same_subflow_bytes_resets_the_subflow() {
    // With another offset, with another length and offset, and with an overlap from either side.
    for (shift, at, len) in [
        (0, 5000, 1000),
        (0, 5000, 10),
        (500, 5000, 1000),
        (50, 5000, 100),
    ] {
        let (mut b, mut first, second) = two_subflows(config(Passive));
        let mut ahead = second;
        ahead.seq = ahead.seq + 100;
        let seg = data(&b, &mut ahead.clone(), 100, 1000, 0);
        b.push(seg);
        let mut lie = second;
        lie.seq = lie.seq + 100 + shift;
        let lie = data(&b, &mut lie, at, len, 0x55);
        let out = b.push(lie);
        assert!(reset(&out), "{shift} {at} {len}: {out:?}");
        assert_eq!(subflows(&b), 1);
        let seg = data(&b, &mut first, 0, 1100, 0);
        b.push(seg);
        assert!(read(&mut b) == bytes(0, 0, 1100));
        others_go_on(&mut b);
    }
}

/// The sequence numbers are the same and the bytes differ. TCP keeps the first bytes, and retransmissions
/// change nothing.
#[test]
fn a_retransmission_with_other_bytes_changes_nothing() {
    let (mut b, mut flow) = passive();
    let mut ahead = flow;
    ahead.seq = ahead.seq + 500;
    for flavour in [0, 0x55, 0x33] {
        let seg = data(&b, &mut ahead.clone(), 500, 1000, flavour);
        b.push(seg);
    }
    for flavour in [0, 0x55, 0x33] {
        let seg = data(&b, &mut flow.clone(), 0, 1200, flavour);
        b.push(seg);
    }
    flow.seq = flow.seq + 1500;
    let seg = data(&b, &mut flow, 1500, 500, 0);
    b.push(seg);
    assert!(read(&mut b) == bytes(0, 0, 2000));
    others_go_on(&mut b);
}

/// A mapping that extends a known mapping and agrees with it loses no data.
#[test]
fn a_longer_mapping_that_agrees_with_a_known_mapping_is_accepted() {
    let (mut b, mut flow) = passive();
    let seg = data(&b, &mut flow.clone(), 0, 500, 0);
    b.push(seg);
    let seg = data(&b, &mut flow, 0, 1000, 0);
    let out = b.push(seg);
    assert!(!reset(&out));
    let mut seg = data(&b, &mut flow, 1000, 500, 0);
    let m = seg.options.dss.as_mut().unwrap().mapping.as_mut().unwrap();
    m.ssn -= 1000;
    m.dsn = low(0);
    m.len += 1000;
    b.push(seg);
    assert!(read(&mut b) == bytes(0, 0, 1500));
    others_go_on(&mut b);
}

fn checked() -> spindle_mptcp::Config {
    let mut c = config(Passive);
    c.multipath.as_mut().unwrap().checksum = true;
    c
}

/// The subflow is reset with its reason, its bytes are not read, and the other subflow delivers the true bytes.
#[test]
fn a_wrong_checksum_resets_its_subflow_and_its_bytes_are_not_read() {
    for of_first in [true, false] {
        let (mut b, mut first, mut second) = two_subflows(checked());
        let (liar, honest) = if of_first {
            (&mut first, &mut second)
        } else {
            (&mut second, &mut first)
        };
        let mut lie = data(&b, liar, 0, 1000, 0x55);
        sum(&mut lie, 0, 1);
        let out = b.push(lie);
        let rst = out.iter().find(|s| s.flags.contains(Flags::RST)).unwrap();
        assert!(rst.options.rare.as_ref().unwrap().mp_fail.is_some());
        assert_eq!((subflows(&b), read(&mut b).len()), (1, 0));
        for k in 0..5 {
            let mut seg = data(&b, honest, 1000 * k, 1000, 0);
            sum(&mut seg, 1000 * k, 0);
            b.push(seg);
        }
        assert!(read(&mut b) == bytes(0, 0, 5000));
        assert_eq!(b.stack.counters().checksum_failures, 1);
        others_go_on(&mut b);
    }
}

/// The next segment on `flow`: the peer's bytes with their mapping and its right checksum.
fn summed(b: &Bench, flow: &mut Flow, offset: u64, len: u16) -> Segment {
    let mut seg = data(b, flow, offset, len, 0);
    sum(&mut seg, offset, 0);
    seg
}

/// A mapping is sent in two parts, out of order, and then again as a whole. All parts are true.
#[test]
fn overlapping_mappings_with_right_checksums_that_agree_are_accepted() {
    let (mut b, mut first, second) = two_subflows(checked());
    let mut half = second;
    half.seq = half.seq + 400;
    for (mut flow, offset, len) in [(half, 400, 600), (second, 0, 400), (second, 0, 1000)] {
        let seg = summed(&b, &mut flow, offset, len);
        b.push(seg);
    }
    assert!(read(&mut b) == bytes(0, 0, 1000));
    assert_eq!(subflows(&b), 2);
    let seg = summed(&b, &mut first, 1000, 500);
    b.push(seg);
    assert!(read(&mut b) == bytes(0, 1000, 500));
    assert_eq!(b.stack.counters().checksum_failures, 0);
    others_go_on(&mut b);
}

/// The checksum of a whole mapping does not validate a part of it. Data that only the whole mapping covers
/// wait, up to a limit, and the other subflow delivers them.
#[test]
fn a_checksummed_mapping_over_a_known_one_stalls_only_its_subflow() {
    let (mut b, mut first, mut second) = two_subflows(checked());
    let mut half = second;
    half.seq = half.seq + 400;
    let seg = summed(&b, &mut half, 400, 600);
    b.push(seg);
    let mut gone = false;
    for k in 0..100 {
        let seg = summed(&b, &mut second, 1000 * k, 1000);
        gone |= reset(&b.push(seg));
        assert!(b.stack.buffered() < 100_000);
    }
    assert!(gone);
    for k in 0..10 {
        let seg = summed(&b, &mut first, 1000 * k, 1000);
        b.push(seg);
    }
    assert!(read(&mut b) == bytes(0, 0, 10_000));
    others_go_on(&mut b);
}

/// A segment of a liar: subflow, data offset, bytes, flavour.
type Lie = (usize, u64, u16, u8);

fn lies() -> impl Strategy<Value = Vec<Lie>> {
    let lie = (0usize..3, 0u64..4000, 1u16..600, any::<u8>());
    prop::collection::vec(lie, 1..60)
}

/// The data that the application must read: at each offset the byte that arrived first.
fn model(stored: &mut Vec<Option<u8>>, (_, at, len, flavour): Lie) {
    for x in at..at + u64::from(len) {
        let place = x as usize;
        if stored.len() <= place {
            stored.resize(place + 1, None);
        }
        stored[place].get_or_insert(byte_at(flavour, x));
    }
}

fn follow(lies: &[Lie], early: bool) -> Result<(), TestCaseError> {
    let mut c = config(Passive);
    c.multipath.as_mut().unwrap().early_dsn_delivery = early;
    let (mut b, first) = Bench::server(c, StackConfig::default());
    let second = joined(&mut b, "10.0.1.2:9", 1);
    let third = joined(&mut b, "10.0.1.3:9", 2);
    let mut flows: [Flow; 3] = [first, second, third];
    let (mut stored, mut got) = (Vec::new(), Vec::new());
    for lie in lies {
        let seg = data(&b, &mut flows[lie.0], lie.1, lie.2, lie.3);
        b.push(seg);
        model(&mut stored, *lie);
        if lie.1 % 3 == 0 {
            got.extend(read(&mut b));
        }
        prop_assert!(b.stack.buffered() < 100_000);
    }
    got.extend(read(&mut b));
    let wanted: Vec<u8> = stored.into_iter().map_while(|x| x).collect();
    prop_assert!(got == wanted, "{} bytes of {}", got.len(), wanted.len());
    prop_assert_eq!(subflows(&b), 3);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_overlaps_deliver_the_first_byte_at_each_offset(lies in lies(), early in any::<bool>()) {
        follow(&lies, early)?;
    }
}

/// Payloads of length only may overlap with payloads of real bytes on two subflows.
#[test]
fn payload_lengths_and_real_bytes_may_overlap() {
    let (mut b, mut first, mut second) = two_subflows(config(Passive));
    let mut seg = data(&b, &mut second, 500, 1000, 0);
    seg.payload = Payload::Length(1000);
    b.push(seg);
    let seg = data(&b, &mut first, 0, 1000, 0);
    b.push(seg);
    let mut wanted = bytes(0, 0, 500);
    wanted.extend(vec![0; 1000]);
    let got = read(&mut b);
    assert_eq!(got.len(), 1500);
    assert!(got[..500] == wanted[..500]);
    others_go_on(&mut b);
}

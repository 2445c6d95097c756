//! Floods of mappings (RFC 8684, section 3.3.1): the memory they use is counted and limited.

use spindle_mptcp::path_manager::Passive;
use spindle_wire::DataNumber;

use crate::peer::{Bench, Flow, config};
use crate::support::{
    bytes, data, full, joined, low, mapping, others_go_on, passive, read, reset, subflows,
};

/// Memory for 4096 mappings of 64 bytes on each of 8 subflows, and for acknowledgements without payload.
const MOST: u64 = 8 * 4096 * 64 + 10_000;

/// Sends mappings without data until the subflow is reset. Returns how many were accepted.
fn flood(b: &mut Bench, flow: &Flow, step: u32, len: u16) -> u32 {
    for k in 0..20_000u32 {
        let at = 1 + k * step;
        let seg = mapping(b, flow, flow.ssn() + at, low(u64::from(at)), len);
        let out = b.push(seg);
        assert!(b.stack.buffered() <= MOST);
        if reset(&out) {
            return k;
        }
    }
    20_000
}

#[test]
fn one_byte_mappings_without_data_are_bounded() {
    let (mut b, flow) = passive();
    let taken = flood(&mut b, &flow, 2, 1);
    assert!((100..=4096).contains(&taken), "{taken}");
    assert_eq!(b.stack.buffered(), 0, "memory was not released");
    others_go_on(&mut b);
}

#[test]
fn long_mappings_without_data_are_bounded() {
    let (mut b, flow) = passive();
    let taken = flood(&mut b, &flow, 65_536, 65_535);
    assert!((100..=4096).contains(&taken), "{taken}");
    others_go_on(&mut b);
}

#[test]
fn mapping_floods_on_all_subflows_are_bounded() {
    let (mut b, first) = passive();
    let more: Vec<_> = (0..7)
        .map(|k| joined(&mut b, &format!("10.0.1.{k}:9"), k))
        .collect();
    assert_eq!(subflows(&b), 8);
    let mut most = 0;
    for k in 0..4096u32 {
        for flow in std::iter::once(&first).chain(&more) {
            let at = 1 + 2 * k;
            let seg = mapping(&b, flow, flow.ssn() + at, low(u64::from(at)), 1);
            b.push(seg);
        }
        most = most.max(b.stack.buffered());
    }
    assert!(most > 1 << 20, "not counted: {most}");
    assert!(most <= MOST, "{most}");
    others_go_on(&mut b);
}

/// Each mapping is new and no mapping is useful. The connection continues.
#[test]
fn mappings_of_past_and_far_future_data_are_not_stored() {
    let (mut b, mut flow) = passive();
    let seg = data(&b, &mut flow, 0, 1000, 0);
    b.push(seg);
    assert!(read(&mut b) == bytes(0, 0, 1000));
    for k in 0..10_000u64 {
        let ssn = (k % 999) as u32;
        let past = mapping(&b, &flow, ssn, low(k % 999), 1 + (k % 3) as u16);
        b.push(past);
        let before = mapping(&b, &flow, flow.ssn().wrapping_sub(5000), low(k), 100);
        b.push(before);
        let far = full((1 << 33) + (k << 34));
        let future = mapping(&b, &flow, flow.ssn() + k as u32, far, 100);
        b.push(future);
        let nowhere = DataNumber::Full(k << 48);
        let other = mapping(&b, &flow, flow.ssn() + k as u32, nowhere, 100);
        b.push(other);
        assert!(b.stack.buffered() < 1000);
    }
    let seg = data(&b, &mut flow, 1000, 1000, 0);
    b.push(seg);
    assert!(read(&mut b) == bytes(0, 1000, 1000));
    others_go_on(&mut b);
}

/// The mapped data are beyond the window and are dropped. Data within the window are accepted afterwards.
#[test]
fn data_mapped_beyond_the_window_are_dropped() {
    let mut c = config(Passive);
    c.tcp.receive_buffer = 20_000;
    let (mut b, mut flow) = Bench::server(c, Default::default());
    for k in 0..200 {
        let seg = data(&b, &mut flow, 100_000 + 1000 * k, 1000, 0);
        b.push(seg);
        assert!(b.stack.buffered() < 20_000 + 10_000);
    }
    for k in 0..50 {
        let seg = data(&b, &mut flow, 1000 * k, 1000, 0);
        b.push(seg);
        assert!(read(&mut b) == bytes(0, 1000 * k, 1000));
    }
    others_go_on(&mut b);
}

/// Each segment has 100 bytes, of which one is mapped. Bytes without a mapping are stored only up to their
/// limit.
#[test]
fn unmapped_bytes_of_partly_mapped_segments_are_bounded() {
    let (mut b, mut flow) = passive();
    let mut gone = false;
    for k in 0..2000u64 {
        let mut seg = data(&b, &mut flow, k, 100, 0);
        let m = seg.options.dss.as_mut().unwrap().mapping.as_mut().unwrap();
        m.len = 1;
        gone |= reset(&b.push(seg));
        assert!(b.stack.buffered() < 1 << 20);
    }
    assert!(gone);
    assert!(read(&mut b) == bytes(0, 0, 1));
    assert_eq!(b.stack.buffered(), 0);
    others_go_on(&mut b);
}

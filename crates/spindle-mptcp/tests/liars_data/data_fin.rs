//! DATA_FIN at wrong positions (RFC 8684, section 3.3.3) and DATA_ACK of data that were never sent.

use spindle_mptcp::keys;
use spindle_mptcp::path_manager::Passive;
use spindle_wire::{DataNumber, Mapping, Payload, Segment};

use crate::peer::{Bench, Flow, config};
use crate::support::{
    byte_at, bytes, data, full, key_before_wrap, low, of, others_go_on, passive, read, server_of,
    subflows, two_subflows,
};

/// A DATA_FIN without payload.
fn fin(b: &Bench, flow: &Flow, dsn: DataNumber) -> Segment {
    let mut seg = b.data_ack(flow, 0);
    let dss = seg.options.dss.as_mut().unwrap();
    dss.data_fin = true;
    dss.mapping = Some(Mapping {
        dsn,
        ssn: 0,
        len: 1,
        checksum: None,
    });
    seg
}

/// A DATA_FIN after `len` bytes, in the same mapping.
fn data_with_fin(b: &Bench, flow: &mut Flow, offset: u64, len: u16) -> Segment {
    let mut seg = data(b, flow, offset, len, 0);
    let dss = seg.options.dss.as_mut().unwrap();
    dss.data_fin = true;
    dss.mapping.as_mut().unwrap().len += 1;
    seg
}

fn at_end(b: &Bench) -> bool {
    b.handle.is_none_or(|h| b.stack.at_end(h))
}

#[test]
fn a_data_fin_beyond_the_received_data_waits_for_the_missing_data() {
    let (mut b, mut flow) = passive();
    let seg = data(&b, &mut flow, 0, 100, 0);
    b.push(seg);
    let seg = fin(&b, &flow, low(5000));
    b.push(seg);
    assert!(read(&mut b) == bytes(0, 0, 100));
    assert!(!at_end(&b));
    for k in 0..49 {
        let seg = data(&b, &mut flow, 100 + 100 * k, 100, 0);
        b.push(seg);
    }
    assert!(read(&mut b) == bytes(0, 100, 4900));
    assert!(at_end(&b));
    others_go_on(&mut b);
}

#[test]
fn a_data_fin_below_received_data_does_not_discard_them() {
    for with_payload in [false, true] {
        let (mut b, mut flow) = passive();
        let seg = data(&b, &mut flow, 0, 1000, 0);
        b.push(seg);
        let seg = if with_payload {
            data_with_fin(&b, &mut flow, 300, 200)
        } else {
            fin(&b, &flow, low(500))
        };
        b.push(seg);
        let seg = data(&b, &mut flow, 1000, 1000, 0);
        b.push(seg);
        let got = read(&mut b);
        assert!(got == bytes(0, 0, got.len() as u64), "one stream");
        assert!(got.len() >= 1000, "received data were lost");
        assert!(b.stack.buffered() < 1000);
        others_go_on(&mut b);
    }
}

/// The first DATA_FIN counts. No data are read beyond the end of the stream.
#[test]
fn no_data_are_read_beyond_an_accepted_data_fin() {
    for with_payload in [false, true] {
        let (mut b, mut flow) = passive();
        if with_payload {
            let seg = data_with_fin(&b, &mut flow, 0, 1000);
            b.push(seg);
        } else {
            let seg = data(&b, &mut flow, 0, 1000, 0);
            b.push(seg);
            let seg = fin(&b, &flow, low(1000));
            b.push(seg);
        }
        assert!(read(&mut b) == bytes(0, 0, 1000));
        assert!(at_end(&b));
        for (k, again) in [1000, 2000, 900].into_iter().enumerate() {
            let seg = data(&b, &mut flow, again, 1000, 0);
            b.push(seg);
            let seg = fin(&b, &flow, low(again + 1000));
            b.push(seg);
            assert!(at_end(&b), "{k}");
            assert!(read(&mut b).is_empty());
            assert!(b.stack.buffered() < 1000);
        }
        others_go_on(&mut b);
    }
}

/// The end of the stream is within a segment, or within data that wait for a hole to be filled.
#[test]
fn a_data_fin_within_a_segment_truncates_the_segment() {
    let (mut b, mut flow) = passive();
    let seg = fin(&b, &flow, low(400));
    b.push(seg);
    let seg = data(&b, &mut flow, 0, 1000, 0);
    b.push(seg);
    assert!(read(&mut b) == bytes(0, 0, 400));
    assert!(at_end(&b));
    others_go_on(&mut b);

    let (mut b, mut flow) = passive();
    for at in [100, 600] {
        let seg = data(&b, &mut flow, at, 500, 0);
        b.push(seg);
    }
    let seg = fin(&b, &flow, low(200));
    b.push(seg);
    let seg = data(&b, &mut flow, 0, 100, 0);
    b.push(seg);
    assert!(read(&mut b) == bytes(0, 0, 200));
    assert!(at_end(&b));
    assert!(b.stack.buffered() < 1000);
    others_go_on(&mut b);
}

/// A false DATA_FIN is ignored, and the true DATA_FIN is accepted.
#[test]
fn a_false_data_fin_does_not_hide_the_true_data_fin() {
    let (mut b, mut flow) = passive();
    let seg = data(&b, &mut flow, 0, 1000, 0);
    b.push(seg);
    for offset in [0, 500, 999] {
        let seg = fin(&b, &flow, low(offset));
        b.push(seg);
        assert!(!at_end(&b));
    }
    let seg = data_with_fin(&b, &mut flow, 1000, 500);
    b.push(seg);
    assert!(read(&mut b) == bytes(0, 0, 1500));
    assert!(at_end(&b));
    others_go_on(&mut b);
}

/// Each subflow announces a different end of the stream. The first announcement counts, once the data reach it.
#[test]
fn conflicting_data_fins_on_two_subflows_end_the_stream_once() {
    let (mut b, mut first, mut second) = two_subflows(config(Passive));
    let seg = fin(&b, &first, low(2000));
    b.push(seg);
    for other in [1500, 2001, 5000, 0] {
        let seg = fin(&b, &second, low(other));
        b.push(seg);
    }
    let seg = data(&b, &mut first, 0, 1000, 0);
    b.push(seg);
    let seg = data(&b, &mut second, 1000, 1000, 0);
    b.push(seg);
    assert!(!at_end(&b), "at the end before the data are read");
    assert!(read(&mut b) == bytes(0, 0, 2000));
    assert!(at_end(&b));
    let seg = data(&b, &mut first, 2000, 1000, 0);
    b.push(seg);
    assert!(read(&mut b).is_empty() && at_end(&b));
    others_go_on(&mut b);
}

#[test]
fn data_fins_far_outside_the_window_are_ignored() {
    let (mut b, mut flow) = passive();
    let seg = data(&b, &mut flow, 0, 100, 0);
    b.push(seg);
    for far in [
        1u64 << 31,
        (1 << 32) - 1,
        1 << 32,
        (1 << 32) + 100,
        1 << 63,
        (1 << 63) + 100,
        u64::MAX,
        u64::MAX - 1000,
    ] {
        let seg = fin(&b, &flow, full(far));
        b.push(seg);
        assert!(!at_end(&b), "{far}");
    }
    for number in [DataNumber::Full(0), DataNumber::Full(u64::MAX)] {
        let seg = fin(&b, &flow, number);
        b.push(seg);
        assert!(!at_end(&b));
    }
    let seg = data(&b, &mut flow, 100, 100, 0);
    b.push(seg);
    assert!(read(&mut b) == bytes(0, 0, 200));
    others_go_on(&mut b);
}

/// The 32-bit data sequence numbers wrap within the transfer. True numbers are understood, and false numbers
/// end nothing.
#[test]
fn data_sequence_numbers_that_wrap_at_32_bits_are_followed() {
    let key = key_before_wrap(3000);
    let (mut b, mut flow) = server_of(key);
    let first = keys::idsn(key).wrapping_add(1);
    let mut sent = 0;
    let mut got = Vec::new();
    while sent < 8000 {
        let mut seg = data(&b, &mut flow, sent, 500, 0);
        let m = seg.options.dss.as_mut().unwrap().mapping.as_mut().unwrap();
        m.dsn = DataNumber::Low(first.wrapping_add(sent) as u32);
        b.push(seg);
        sent += 500;
        // Its low 32 bits are those of the next byte, but the full 64-bit number is 2^32 away.
        let dsn = first.wrapping_add(sent).wrapping_sub(1 << 32);
        let lie = fin(&b, &flow, DataNumber::Full(dsn));
        b.push(lie);
        got.extend(read(&mut b));
        assert!(!at_end(&b));
    }
    assert!(got == bytes(0, 0, 8000));
    let seg = fin(&b, &flow, DataNumber::Low(first.wrapping_add(8000) as u32));
    b.push(seg);
    assert!(at_end(&b));
    others_go_on(&mut b);
}

#[test]
fn a_data_ack_of_unsent_data_acknowledges_nothing() {
    let (mut b, mut flow) = passive();
    let h = b.handle.unwrap();
    let content = Payload::from(bytes(7, 0, 5000));
    assert_eq!(b.stack.send(b.now, h, content), Ok(5000));
    let out = b.drain();
    let next = keys::idsn(b.key).wrapping_add(1);
    for beyond in [
        5001u64,
        1 << 31,
        1 << 32,
        (1 << 32) + 1000,
        1 << 63,
        u64::MAX,
    ] {
        let mut seg = b.data_ack(&flow, 0);
        let number = DataNumber::Full(next.wrapping_add(beyond));
        seg.options.dss.as_mut().unwrap().data_ack = Some(number);
        b.push(seg);
        assert_eq!(b.stack.info(h).unwrap().acknowledged, 0, "{beyond}");
    }
    flow.take(&of(&flow, out));
    let seg = b.data_ack(&flow, 5000);
    b.push(seg);
    assert_eq!(b.stack.info(h).unwrap().acknowledged, 5000);
    others_go_on(&mut b);
}

/// The peer acknowledges data at the data level that it has not acknowledged on the subflow. TCP retransmits
/// them all the same, and later data are intact.
#[test]
fn a_data_ack_ahead_of_the_subflow_ack_loses_no_byte() {
    let (mut b, mut flow) = passive();
    let h = b.handle.unwrap();
    let content = Payload::from(bytes(7, 0, 5000));
    assert_eq!(b.stack.send(b.now, h, content), Ok(5000));
    b.drain();
    let seg = b.data_ack(&flow, 5000);
    b.push(seg);
    assert!(b.stack.buffered() <= 5000);
    for _ in 0..5 {
        for s in of(&flow, b.wait()) {
            let start = u64::from(s.seq.0.wrapping_sub(flow.ack.0));
            let payload = s.payload.to_bytes();
            let right = (start..).zip(&payload).all(|(x, y)| byte_at(7, x) == *y);
            assert!(right, "a retransmission has other bytes");
        }
    }
    flow.ack = flow.ack + 5000;
    let seg = b.data_ack(&flow, 5000);
    b.push(seg);
    let more = Payload::from(bytes(7, 5000, 1000));
    assert_eq!(b.stack.send(b.now, h, more), Ok(1000));
    let mut out = of(&flow, b.drain());
    out.retain(|s| !s.payload.is_empty());
    assert_eq!(out[0].payload.to_bytes(), bytes(7, 5000, 1000));
    assert_eq!(subflows(&b), 1);
    others_go_on(&mut b);
}

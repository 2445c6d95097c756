//! Numbers of 32 or 64 bits (RFC 8684, sections 3.3.1 and 3.3.2).

use spindle_mptcp::StackConfig;
use spindle_units::Duration;
use spindle_wire::{DataNumber, Options, Payload, Segment};

use crate::peer::{Bench, Flow};
use crate::{acknowledged, bytes, data_ack, data_fin, mapping, own_dsn, passive, server, write};

/// The segment size of both ends, including options.
const SEGMENT: usize = 1460;

/// The same segment with all 64 bits of its data sequence number.
fn wide(mut seg: Segment, offset: u64) -> Segment {
    let m = seg.options.dss.as_mut().unwrap().mapping.as_mut().unwrap();
    m.dsn = DataNumber::Full(Bench::peer_dsn(offset));
    seg
}

fn is_full(seg: &Segment) -> bool {
    matches!(data_ack(seg), Some(DataNumber::Full(_)))
}

#[test]
fn data_with_a_64_bit_number_are_acknowledged_with_64_bits() {
    for client in [false, true] {
        let (mut b, mut flow) = match client {
            true => {
                let (b, flow, _) = Bench::client(passive(), StackConfig::default());
                (b, flow)
            }
            false => server(),
        };
        let seg = b.data(&mut flow, 0, 50);
        let out = b.push(wide(seg, 0));
        let acked = |n| Some(DataNumber::Full(Bench::peer_dsn(n)));
        assert_eq!(data_ack(&out[0]), acked(50), "client: {client}");
        let out = write(&mut b, 10);
        assert_eq!(data_ack(&out[0]), acked(50), "with data");
        // Later data with a 32-bit number are also acknowledged with 64 bits.
        let seg = b.data(&mut flow, 50, 50);
        let out = b.push(seg);
        assert_eq!(data_ack(&out[0]), acked(100));
    }
}

#[test]
fn data_with_a_32_bit_number_are_acknowledged_with_32_bits() {
    let (mut b, mut flow) = server();
    let seg = b.data(&mut flow, 0, 50);
    let out = b.push(seg);
    let expected = DataNumber::Low(Bench::peer_dsn(50) as u32);
    assert_eq!(data_ack(&out[0]), Some(expected));
}

#[test]
fn a_64_bit_data_fin_is_acknowledged_with_64_bits() {
    let (mut b, flow) = server();
    let out = b.push(wide(data_fin(&b, &flow, 0, 0), 0));
    let expected = DataNumber::Full(Bench::peer_dsn(1));
    assert_eq!(data_ack(&out[0]), Some(expected));
}

/// Data that were sent before the numbers became wide are retransmitted after that.
#[test]
fn segments_with_64_bit_data_acks_do_not_exceed_the_agreed_mss() {
    let (mut b, mut flow) = server();
    let before = write(&mut b, 100_000);
    let longest = before.iter().map(|s| s.payload.len()).max();
    assert_eq!(longest, Some(SEGMENT - 20), "full segments");
    let seg = b.data(&mut flow, 0, 50);
    b.push(wide(seg, 0));
    let fits = |s: &Segment| s.payload.len() + s.options.encoded_len() <= SEGMENT;
    let again = b.wait();
    assert_eq!(bytes(&again), (SEGMENT - 20) as u64, "a retransmission");
    assert!(again.iter().all(fits), "{again:?}");
    flow.take(&before);
    let seg = b.data_ack(&flow, bytes(&before));
    let out = b.push(seg);
    let data: Vec<&Segment> = out.iter().filter(|s| !s.payload.is_empty()).collect();
    assert!(data.len() > 1);
    for s in data {
        assert!(fits(s) && is_full(s), "{s:?}");
        assert!(s.options.encoded_len() <= Options::MAX_LEN);
    }
}

/// Sends `total` bytes of data, acknowledged window by window every `step`. Returns the offset of the first
/// segment with a 64-bit number.
fn first_wide(total: u64, step: Duration) -> Option<u64> {
    let (mut b, mut flow): (Bench, Flow) = server();
    let h = b.handle.unwrap();
    let mut sent = 0;
    while acknowledged(&b) < total {
        let _ = b.stack.send(b.now, h, Payload::Length(1 << 20));
        let mut out = b.drain();
        while !out.is_empty() {
            for s in &out {
                let Some(m) = mapping(s) else { continue };
                if matches!(m.dsn, DataNumber::Full(_)) {
                    assert_eq!(m.dsn, DataNumber::Full(own_dsn(&b, sent)));
                    return Some(sent);
                }
                assert_eq!(m.dsn, DataNumber::Low(own_dsn(&b, sent) as u32));
                sent += s.payload.len() as u64;
            }
            flow.take(&out);
            b.now += step;
            let seg = b.data_ack(&flow, sent);
            out = b.push(seg);
        }
    }
    None
}

/// RFC 8684, section 3.3.1: if the 32 bits could wrap within the maximum segment lifetime of two minutes
/// (RFC 9293, section 3.4.2), all 64 bits are sent.
#[test]
fn fast_transfer_uses_64_bit_dsns_before_32_bits_become_ambiguous() {
    // 60 000 bytes per millisecond: 480 Mbit/s.
    let at = first_wide(1 << 31, Duration::ZERO);
    assert!(at.is_some_and(|at| at < 1 << 31), "{at:?}");
}

#[test]
fn slow_transfer_uses_only_32_bit_dsns() {
    // 60 000 bytes in 10 ms: a gigabyte takes longer than two minutes.
    assert_eq!(first_wide(3 << 29, Duration::from_millis(10)), None);
}

#[test]
fn fast_peer_gets_64_bit_data_acks_before_32_bits_become_ambiguous() {
    let (mut b, mut flow) = server();
    let (mut offset, h) = (0u64, b.handle.unwrap());
    while offset < 1 << 31 {
        let seg = b.data(&mut flow, offset, 60_000);
        offset += 60_000;
        let out = b.push(seg);
        while let Ok(Some(_)) = b.stack.recv(b.now, h, 1 << 20) {}
        if out.iter().any(is_full) {
            return;
        }
    }
    panic!("no 64-bit DATA_ACK");
}

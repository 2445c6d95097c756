//! MPTCP options of every length and subtype as raw bytes on an established connection.

use bytes::Bytes;
use spindle_mptcp::StackConfig;
use spindle_mptcp::path_manager::Passive;
use spindle_wire::{Checksums, Flags, IpFields, Segment};

use crate::peer::{Bench, Flow, config};
use crate::support::{bytes, data, joined, others_go_on, read, subflows};

/// The segment with these bytes as its options, padded with NOPs and parsed as if it came from a device.
fn with_options(seg: &Segment, options: &[u8]) -> Result<Segment, spindle_wire::ParseError> {
    let mut bare = seg.clone();
    bare.options = Default::default();
    let mut packet = bare.to_packet(&IpFields::default()).unwrap();
    let mut options = options.to_vec();
    options.resize(options.len().next_multiple_of(4), 1);
    assert!(options.len() <= 40);
    packet[32] = (((20 + options.len()) / 4) << 4) as u8 | packet[32] & 0x0f;
    packet.splice(40..40, options);
    let len = packet.len() as u16;
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    Segment::from_ip(&Bytes::from(packet), Checksums::Trust)
}

/// Whether an option of this subtype can have this length on an ACK (RFC 8684, section 3, figures 4 to 16).
fn is_well_formed(subtype: u8, len: usize, flags: u8) -> bool {
    match subtype {
        0x0 => matches!(len, 20 | 22 | 24),
        0x1 => len == 24,
        0x2 => {
            let number = |on: u8, long: u8| match (flags & on != 0, flags & long != 0) {
                (false, _) => 0,
                (true, false) => 4,
                (true, true) => 8,
            };
            let map = if flags & 4 == 0 { 0 } else { 6 };
            let least = 4 + number(1, 2) + number(4, 8) + map;
            len == least || map > 0 && len == least + 2
        }
        0x3 => matches!(len, 8 | 10 | 16 | 18 | 20 | 22 | 28 | 30),
        0x4 => len >= 4,
        0x5 => matches!(len, 3 | 4),
        0x6 | 0x7 => len == 12,
        0x8 => len == 4,
        _ => false,
    }
}

fn three_subflows() -> (Bench, [Flow; 3]) {
    let (mut b, first) = Bench::server(config(Passive), StackConfig::default());
    let second = joined(&mut b, "10.0.1.2:9", 1);
    let third = joined(&mut b, "10.0.1.3:9", 2);
    (b, [first, second, third])
}

/// An option with `said` in its length field and `there` bytes in total.
fn option(subtype: u8, said: usize, there: usize, flags: u8, fill: u8) -> Vec<u8> {
    let mut o = vec![30, said as u8, subtype << 4 | fill & 0x0f, flags];
    o.resize(there.max(4), fill);
    o.truncate(there);
    o
}

/// Options without a meaning are ignored. Later data are accepted by their mapping.
#[test]
fn malformed_mptcp_options_are_ignored() {
    let (mut b, mut flows) = three_subflows();
    let mut offset = 0;
    let mut tried = 0;
    for subtype in 0..16 {
        for len in 2..=40 {
            for (flags, fill) in [(0, 0), (0xff, 0xff), (0x05, 0x11), (0x0f, 0x80), (0x15, 1)] {
                let flags = if len < 4 { 0 } else { flags };
                if is_well_formed(subtype, len, flags) {
                    continue;
                }
                let flow = &mut flows[tried % 3];
                let ack = flow.segment(Flags::ACK);
                let lie = option(subtype, len, len, flags, fill);
                let seg = with_options(&ack, &lie).unwrap();
                b.push(seg);
                assert_eq!(subflows(&b), 3, "subtype {subtype}, {len} bytes");
                tried += 1;
            }
        }
        let flow = &mut flows[usize::from(subtype) % 3];
        let seg = data(&b, flow, offset, 1000, 0);
        b.push(seg);
        assert!(read(&mut b) == bytes(0, offset, 1000), "subtype {subtype}");
        offset += 1000;
    }
    assert!(tried > 2000);
    others_go_on(&mut b);
}

/// The length field announces more or fewer bytes than there are.
#[test]
fn truncated_mptcp_options_are_ignored_or_their_segment_is_rejected() {
    let (mut b, mut flows) = three_subflows();
    for subtype in 0..16 {
        for there in 2..=24usize {
            for said in [0, 1, there + 1, there + 20, 41, 255] {
                let lie = option(subtype, said, there, 0x05, 0x11);
                let ack = flows[there % 3].segment(Flags::ACK);
                if let Ok(seg) = with_options(&ack, &lie) {
                    b.push(seg);
                }
            }
        }
        assert!(b.stack.buffered() < 10_000);
    }
    assert!(subflows(&b) > 0);
    let at = flows.iter().position(|f| {
        let info = b.stack.info(b.handle.unwrap()).unwrap();
        info.subflows.iter().any(|s| s.remote == f.there)
    });
    let seg = data(&b, &mut flows[at.unwrap()], 0, 1000, 0);
    b.push(seg);
    assert!(read(&mut b) == bytes(0, 0, 1000));
    others_go_on(&mut b);
}

/// Existing forms with any content, each on its own connection, with and without payload.
#[test]
fn well_formed_options_with_any_content_affect_only_their_connection() {
    let mut alive = 0;
    for subtype in 0..9 {
        for len in 3..=40 {
            for flags in 0..32u8 {
                let some = subtype == 2 || flags % 8 == 0;
                if !some || !is_well_formed(subtype, len, flags) {
                    continue;
                }
                let (mut b, mut flows) = three_subflows();
                for fill in [0, 1, 0x7f, 0x80, 0xff] {
                    let mut seg = data(&b, &mut flows[1], 0, 100, 0);
                    seg.options = Default::default();
                    let lie = option(subtype, len, len, flags, fill);
                    let seg = with_options(&seg, &lie).unwrap();
                    b.push(seg);
                    let empty = flows[2].segment(Flags::ACK);
                    let seg = with_options(&empty, &lie).unwrap();
                    b.push(seg);
                    assert!(b.stack.buffered() < 100_000);
                }
                alive += usize::from(subflows(&b) > 0);
                let seg = data(&b, &mut flows[0], 0, 1000, 0);
                b.push(seg);
                assert_eq!(b.stack.counters().accepted, 1);
                if flags == 0 {
                    others_go_on(&mut b);
                }
            }
        }
    }
    assert!(alive > 100, "{alive}");
}

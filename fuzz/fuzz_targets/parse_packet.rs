//! Any bytes as an IP packet: a value or an error. What was read as a segment is written and read
//! again as the same segment.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use spindle_wire::{Checksums, IpFields, Options, Segment, UdpDatagram, mark_ce};

fuzz_target!(|data: &[u8]| {
    let packet = Bytes::copy_from_slice(data);
    let _ = Segment::from_ip(&packet, Checksums::Verify);
    let _ = UdpDatagram::from_ip(&packet, Checksums::Verify);
    let _ = UdpDatagram::from_ip(&packet, Checksums::Trust);
    mark_ce(&mut data.to_vec());
    let Ok(mut segment) = Segment::from_ip(&packet, Checksums::Trust) else { return };
    let _ = segment.options.fit();
    assert!(segment.options.encoded_len() <= Options::MAX_LEN);
    // A header with fewer NOPs than ours may carry more data than ours can.
    let Ok(written) = segment.to_packet(&IpFields::default()) else { return };
    assert_eq!(written.len(), segment.wire_len());
    let again = Segment::from_ip(&written.into(), Checksums::Verify);
    let foreign = |s: &Segment| {
        s.options.rare.as_ref().and_then(|r| r.mp_capable).is_some_and(|c| c.version != 1)
    };
    if !foreign(&segment) {
        assert_eq!(again.as_ref(), Ok(&segment));
    }
});

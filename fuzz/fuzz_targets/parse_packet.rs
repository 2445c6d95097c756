//! Parses any bytes as an IP packet, of TCP or of the coding layer, and as a datagram that contains one. The
//! result must be a value or an error. A parsed segment is written and must parse as the same segment again.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use spindle_wire::{
    Checksums, EncapsulationHeader, EncapsulationKind, IpFields, Options, Segment, UdpDatagram,
    mark_ce,
};

/// Checks a packet of the coding layer, as an IP packet and as a datagram.
fn coded(packet: &Bytes) {
    let _ = Segment::from_coded_ip(packet, Checksums::Verify);
    if let Ok(segment) = Segment::from_coded_ip(packet, Checksums::Trust) {
        let written = segment
            .to_packet(&IpFields::default())
            .expect("no longer than it was");
        assert_eq!(written.len(), segment.wire_len());
        assert_eq!(
            Segment::from_coded_ip(&written.into(), Checksums::Verify).as_ref(),
            Ok(&segment)
        );
    }
    let ends = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let Ok(EncapsulationHeader { id, kind }) = EncapsulationHeader::parse(packet) else {
        return;
    };
    let (EncapsulationKind::Data(ecn) | EncapsulationKind::Coded(ecn)) = kind else {
        return;
    };
    let Ok(segment) = Segment::decapsulate(ends, ecn, packet) else {
        return;
    };
    assert_eq!(
        segment.coded().is_some(),
        matches!(kind, EncapsulationKind::Coded(_))
    );
    if segment.coded().is_some() {
        let mut written = Vec::new();
        segment
            .encapsulate(id, &mut written)
            .expect("it has no options of TCP's");
        assert_eq!(written.len(), segment.encapsulated_len());
        // The second zero of an acknowledgement may have any value.
        assert_eq!(
            Segment::decapsulate(ends, ecn, &written.into()).as_ref(),
            Ok(&segment)
        );
    }
}

fuzz_target!(|data: &[u8]| {
    let packet = Bytes::copy_from_slice(data);
    let _ = Segment::from_ip(&packet, Checksums::Verify);
    let _ = UdpDatagram::from_ip(&packet, Checksums::Verify);
    let _ = UdpDatagram::from_ip(&packet, Checksums::Trust);
    mark_ce(&mut data.to_vec());
    coded(&packet);
    let Ok(mut segment) = Segment::from_ip(&packet, Checksums::Trust) else {
        return;
    };
    let _ = segment.options.fit();
    assert!(segment.options.encoded_len() <= Options::MAX_LEN);
    // A header with fewer NOPs than our encoding may carry more data than our encoding can.
    let Ok(written) = segment.to_packet(&IpFields::default()) else {
        return;
    };
    assert_eq!(written.len(), segment.wire_len());
    let again = Segment::from_ip(&written.into(), Checksums::Verify);
    let foreign = |s: &Segment| {
        s.options
            .rare
            .as_ref()
            .and_then(|r| r.mp_capable)
            .is_some_and(|c| c.version != 1)
    };
    if !foreign(&segment) {
        assert_eq!(again.as_ref(), Ok(&segment));
    }
});

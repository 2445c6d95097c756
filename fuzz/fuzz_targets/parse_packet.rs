//! Parses any bytes as an IP packet, of TCP or of the coding layer, and as a datagram that contains one. The
//! result must be a value or an error. A parsed segment is written and must parse as the same segment again.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use spindle_wire::{
    Checksums, CodedPacket, EncapsulationHeader, EncapsulationKind, IpFields, Options, Packet,
    Segment, UdpDatagram, mark_ce,
};

/// Checks a packet of the coding layer, as an IP packet and as a datagram.
fn coded(packet: &Bytes) {
    let _ = CodedPacket::from_ip(packet, Checksums::Verify);
    if let Ok(coded) = CodedPacket::from_ip(packet, Checksums::Trust) {
        let read = Packet::from_ip(packet, Checksums::Trust);
        assert_eq!(read, Ok(Packet::Coded(coded.clone())));
        let written = coded
            .to_bytes(&IpFields::default())
            .expect("no longer than it was");
        assert_eq!(written.len(), coded.wire_len());
        assert_eq!(
            CodedPacket::from_ip(&written.into(), Checksums::Verify).as_ref(),
            Ok(&coded)
        );
    }
    let ends = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let Ok(EncapsulationHeader { id, kind }) = EncapsulationHeader::parse(packet) else {
        return;
    };
    let (EncapsulationKind::Data(ecn) | EncapsulationKind::Coded(ecn)) = kind else {
        return;
    };
    let Ok(inner) = Packet::decapsulate(ends, ecn, packet) else {
        return;
    };
    assert_eq!(
        inner.coded().is_some(),
        matches!(kind, EncapsulationKind::Coded(_))
    );
    if let Packet::Coded(coded) = &inner {
        let mut written = Vec::new();
        coded.encapsulate(id, &mut written);
        assert_eq!(written.len(), coded.encapsulated_len());
        // The second zero of an acknowledgement may have any value.
        assert_eq!(
            Packet::decapsulate(ends, ecn, &written.into()).as_ref(),
            Ok(&inner)
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
    assert_eq!(
        Packet::from_ip(&packet, Checksums::Trust),
        Ok(Packet::Tcp(segment.clone()))
    );
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

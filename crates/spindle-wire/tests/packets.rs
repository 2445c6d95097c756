//! Whole packets: headers and checksums checked by hand and against another implementation, and broken packets.

use bytes::Bytes;
use etherparse::{PacketBuilder, SlicedPacket, TransportSlice};
use spindle_wire::{
    Checksum, Checksums, Ecn, EncodeError, Endpoint, Flags, IpFields, IpHeader, ParseError,
    Payload, Segment, SeqNumber, Timestamps, UdpDatagram, dss_checksum, dss_checksum_of, flow_hash,
    mark_ce, mix64, protocol, same_checksum,
};

fn end(text: &str) -> Endpoint {
    text.parse::<std::net::SocketAddr>().unwrap().into()
}

fn segment(src: &str, dst: &str) -> Segment {
    let mut s = Segment::new(end(src), end(dst));
    s.seq = SeqNumber(0x1122_3344);
    s.ack = SeqNumber(0x5566_7788);
    s.flags = Flags::ACK | Flags::PSH;
    s.window = 0x7210;
    s.ecn = Ecn::Ect0;
    s.options.timestamps = Some(Timestamps { value: 1, echo: 2 });
    s.payload = Bytes::from_static(b"odd").into();
    s
}

fn v4() -> Segment {
    segment("10.0.0.1:4660", "10.0.0.2:80")
}

fn v6() -> Segment {
    segment("[2001:db8::1]:4660", "[2001:db8::2]:80")
}

fn packet(s: &Segment) -> Vec<u8> {
    let p = s.to_packet(&IpFields::default()).unwrap();
    assert_eq!(p.len(), s.wire_len());
    p
}

#[test]
fn ipv4_packet_has_the_expected_bytes() {
    #[rustfmt::skip]
    let expected = [
        0x45, 0x02, 0x00, 0x37, 0x00, 0x00, 0x40, 0x00, 0x40, 0x06, 0x26, 0xbd,
        10, 0, 0, 1, 10, 0, 0, 2,
        0x12, 0x34, 0x00, 0x50, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88,
        0x80, 0x18, 0x72, 0x10, 0x00, 0x00, 0x00, 0x00,
        1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2,
        b'o', b'd', b'd',
    ];
    let mut p = packet(&v4());
    let checksum = [p[36], p[37]];
    // The TCP checksum computed the slow way: pseudo-header and segment, word by word.
    let words = [0x0a00, 0x0001, 0x0a00, 0x0002, 0x0006, 35]
        .into_iter()
        .chain(
            expected[20..]
                .chunks(2)
                .map(|w| u32::from(w[0]) << 8 | w.get(1).map_or(0, |b| u32::from(*b))),
        );
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    assert_eq!(u32::from(u16::from_be_bytes(checksum)), !sum & 0xffff);
    p[36..38].fill(0);
    // Header checksum: 0x4502 + 0x0037 + 0x4000 + 0x4006 + 0x0a00 + 1 + 0x0a00 + 2 = 0xd942.
    assert_eq!(p, expected);
}

#[test]
fn etherparse_reads_the_same_fields_and_checksums() {
    for s in [v4(), v6()] {
        let p = packet(&s);
        let sliced = SlicedPacket::from_ip(&p).unwrap();
        let Some(TransportSlice::Tcp(tcp)) = &sliced.transport else {
            panic!("not TCP")
        };
        let sum = match sliced.net.as_ref().unwrap() {
            etherparse::NetSlice::Ipv4(ip) => {
                let header = ip.header().to_header();
                assert_eq!(header.header_checksum, header.calc_header_checksum());
                assert_eq!(
                    (header.ecn.value(), header.time_to_live),
                    (Ecn::Ect0.bits(), 64)
                );
                tcp.calc_checksum_ipv4(header.source, header.destination)
                    .unwrap()
            }
            etherparse::NetSlice::Ipv6(ip) => {
                let header = ip.header().to_header();
                assert_eq!(header.traffic_class & 3, Ecn::Ect0.bits());
                assert_eq!(header.hop_limit, 64);
                tcp.calc_checksum_ipv6(header.source, header.destination)
                    .unwrap()
            }
            _ => panic!("not IP"),
        };
        assert_eq!(tcp.checksum(), sum);
        assert_eq!((tcp.source_port(), tcp.destination_port()), (4660, 80));
        assert_eq!(tcp.sequence_number(), s.seq.0);
        assert_eq!(tcp.acknowledgment_number(), s.ack.0);
        assert_eq!(
            (tcp.ack(), tcp.psh(), tcp.syn(), tcp.fin()),
            (true, true, false, false)
        );
        assert_eq!(tcp.window_size(), s.window);
        assert_eq!(tcp.payload(), b"odd");
    }
}

#[test]
fn packets_written_by_etherparse_are_read() {
    let built = |udp: bool| {
        let ip = PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 33);
        let mut out = Vec::new();
        if udp {
            ip.udp(5, 6).write(&mut out, b"hello").unwrap();
        } else {
            ip.tcp(5, 6, 77, 999)
                .ack(3)
                .fin()
                .write(&mut out, b"hello")
                .unwrap();
        }
        Bytes::from(out)
    };
    let s = Segment::from_ip(&built(false), Checksums::Verify).unwrap();
    assert_eq!(
        (s.src, s.dst, s.seq, s.ack),
        (
            end("10.0.0.1:5"),
            end("10.0.0.2:6"),
            SeqNumber(77),
            SeqNumber(3)
        )
    );
    assert_eq!(
        (s.flags, s.window, s.payload),
        (
            Flags::ACK | Flags::FIN,
            999,
            Payload::Bytes(Bytes::from_static(b"hello"))
        )
    );
    let d = UdpDatagram::from_ip(&built(true), Checksums::Verify).unwrap();
    assert_eq!(
        (d.src, d.payload),
        (s.src, Bytes::from_static(b"hello").into())
    );
}

#[test]
fn bit_flip_is_detected_wherever_a_checksum_covers_it() {
    for s in [v4(), v6()] {
        let good = packet(&s);
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            // IPv6 has no header checksum: only the fields in the pseudo-header are protected.
            let unprotected = s.src.addr.is_ipv6()
                && (bit < 4 || (8..32).contains(&bit) || (56..64).contains(&bit));
            let read = Segment::from_ip_slice(&bad, Checksums::Verify);
            assert_eq!(read.is_ok(), unprotected, "bit {bit}: {read:?}");
        }
    }
}

#[test]
fn checksum_error_reports_the_found_and_the_expected_value() {
    let mut p = packet(&v4());
    let right = u16::from_be_bytes([p[36], p[37]]);
    p[36] ^= 0x55;
    let found = u16::from_be_bytes([p[36], p[37]]);
    let error = ParseError::Checksum {
        what: "TCP",
        offset: 36,
        found,
        expected: right,
    };
    assert_eq!(Segment::from_ip_slice(&p, Checksums::Verify), Err(error));
    assert_eq!(Segment::from_ip_slice(&p, Checksums::Trust), Ok(v4()));
}

#[test]
fn truncated_packet_is_an_error_and_padding_is_ignored() {
    for s in [v4(), v6()] {
        let p = packet(&s);
        for len in 0..p.len() {
            let read = Segment::from_ip_slice(&p[..len], Checksums::Verify);
            assert!(
                matches!(read, Err(ParseError::Truncated { .. })),
                "{len}: {read:?}"
            );
        }
        let padded = [&p[..], &[0; 6]].concat();
        assert_eq!(
            Segment::from_ip_slice(&padded, Checksums::Verify),
            Ok(s),
            "padding is not data"
        );
    }
}

#[test]
fn broken_header_error_names_the_field_and_its_offset() {
    let read = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut p = packet(&v4());
        change(&mut p);
        Segment::from_ip_slice(&p, Checksums::Trust).map_err(|e| e.to_string())
    };
    let err = |text: &str| Err(text.to_string());
    assert_eq!(
        read(&|p| p[0] = 0x55),
        err("IP version 5 at byte 0; expected 4 or 6")
    );
    assert_eq!(
        read(&|p| p[0] = 0x44),
        err("IPv4 header length at byte 0 is 16; expected at least 20")
    );
    assert_eq!(
        read(&|p| p[3] = 19),
        err("IPv4 total length at byte 2 is 19; expected at least 20")
    );
    assert_eq!(
        read(&|p| p[9] = 17),
        err("protocol 17 at byte 9; expected 6")
    );
    assert_eq!(
        read(&|p| p[6] = 0x20),
        err("a fragment (fields at byte 6); expected a whole packet")
    );
    assert_eq!(
        read(&|p| p[32] = 0x40),
        err("TCP data offset at byte 32 is 16; expected at least 20")
    );
    assert_eq!(
        read(&|p| p[32] = 0xf0),
        err("TCP header with options at byte 20 needs 60 bytes, but only 35 are there")
    );
    assert_eq!(
        read(&|p| p[43] = 11),
        err("TCP option 8 at byte 42 has length 11; expected 2 to 10 (the header's end)")
    );
}

#[test]
fn ipv6_extension_headers_are_skipped() {
    let plain = packet(&v6());
    let with = |kind: u8, header: [u8; 8]| {
        let mut p = [&plain[..40], &header, &plain[40..]].concat();
        p[6] = kind;
        p[5] += 8;
        Segment::from_ip_slice(&p, Checksums::Verify)
    };
    assert_eq!(with(0, [6, 0, 1, 4, 0, 0, 0, 0]), Ok(v6()), "hop by hop");
    assert_eq!(
        with(60, [6, 0, 1, 4, 0, 0, 0, 0]),
        Ok(v6()),
        "destination options"
    );
    assert_eq!(
        with(44, [6, 0, 0, 0, 1, 2, 3, 4]),
        Ok(v6()),
        "atomic fragment"
    );
    assert_eq!(
        with(44, [6, 0, 0, 1, 1, 2, 3, 4]),
        Err(ParseError::Fragment { offset: 42 })
    );
    let error = ParseError::Protocol {
        offset: 6,
        found: 43,
        expected: 6,
    };
    assert_eq!(
        with(43, [6, 0, 0, 1, 0, 0, 0, 0]),
        Err(error),
        "routing header"
    );
    let endless = with(0, [0, 255, 0, 0, 0, 0, 0, 0]);
    assert!(matches!(
        endless,
        Err(ParseError::Truncated { offset: 40, .. })
    ));
}

#[test]
fn unwritable_packet_is_an_error_and_appends_nothing() {
    let mixed = segment("10.0.0.1:1", "[::1]:2");
    let mut out = Vec::new();
    assert_eq!(
        mixed.encode_ip(&IpFields::default(), &mut out),
        Err(EncodeError::MixedFamilies)
    );
    assert_eq!(mixed.encode_tcp(&mut out), Err(EncodeError::MixedFamilies));
    let mut long = v4();
    long.payload = Payload::Length(65_535 - 20 - 32);
    assert!(long.to_packet(&IpFields::default()).is_ok());
    long.payload = Payload::Length(65_535 - 20 - 32 + 1);
    let error = Err(EncodeError::PacketTooLong {
        len: 65_536,
        max: 65_535,
    });
    assert_eq!(long.encode_ip(&IpFields::default(), &mut out), error);
    assert_eq!(long.encode_tcp(&mut out), error);
    assert!(out.is_empty());
}

#[test]
fn length_payload_is_written_as_zeros() {
    for n in [0, 1, 7, 1400] {
        let (mut length, mut zeros) = (v4(), v4());
        length.payload = Payload::Length(n);
        zeros.payload = vec![0; n as usize].into();
        assert_eq!(packet(&length), packet(&zeros));
        let (a, b) = (Payload::Length(n), Payload::from(vec![0; n as usize]));
        let tail = Payload::from(vec![1, 2, 3]);
        assert_eq!(
            dss_checksum_of(9, 1, 5, [&a, &tail]),
            dss_checksum_of(9, 1, 5, [&b, &tail])
        );
    }
}

#[test]
fn dss_checksum_matches_figure_10() {
    // 64-bit DSN, SSN, length, zeros, then the data; its odd byte is padded.
    let words = [
        0x0102u32, 0x0304, 0x0506, 0x0708, 0x0000, 0x0001, 0x0003, 0x0000, 0xaabb, 0xcc00,
    ];
    let sum: u32 = words.iter().sum();
    let expected = !((sum & 0xffff) + (sum >> 16)) as u16;
    let whole: [&[u8]; 1] = [&[0xaa, 0xbb, 0xcc]];
    let pieces: [&[u8]; 4] = [&[0xaa], &[], &[0xbb], &[0xcc]];
    assert_eq!(dss_checksum(0x0102_0304_0506_0708, 1, 3, whole), expected);
    assert_eq!(dss_checksum(0x0102_0304_0506_0708, 1, 3, pieces), expected);
    assert!(same_checksum(0, 0xffff) && !same_checksum(1, 0xfffe));
}

#[test]
fn ce_mark_keeps_the_header_checksum_valid() {
    for (mut s, from) in [
        (v4(), Ecn::Ect0),
        (v6(), Ecn::Ect0),
        (v4(), Ecn::Ect1),
        (v6(), Ecn::Ce),
    ] {
        s.ecn = from;
        let mut p = packet(&s);
        assert!(mark_ce(&mut p));
        s.ecn = Ecn::Ce;
        assert_eq!(Segment::from_ip_slice(&p, Checksums::Verify), Ok(s.clone()));
        s.ecn = Ecn::NotEct;
        let before = packet(&s);
        let mut after = before.clone();
        assert!(!mark_ce(&mut after));
        assert_eq!(before, after);
    }
    assert!(!mark_ce(&mut [0x45; 3]));
    assert!(!mark_ce(&mut []));
}

#[test]
fn ip_fields_survive_encoding_and_parsing() {
    let fields = IpFields {
        ttl: 3,
        identification: 0xabcd,
        dont_fragment: false,
        flow_label: 0,
    };
    let class = |mut s: Segment| {
        s.dscp = 46;
        s
    };
    let p = class(v4()).to_packet(&fields).unwrap();
    let h = IpHeader::parse(&p, Checksums::Verify).unwrap();
    assert_eq!(
        (h.fields, h.dscp, h.ecn, h.protocol),
        (fields, 46, Ecn::Ect0, protocol::TCP)
    );
    assert_eq!((h.header_len, h.payload_len()), (20, 35));
    let fields = IpFields {
        ttl: 3,
        flow_label: 0xf_edcb,
        ..IpFields::default()
    };
    let p = class(v6()).to_packet(&fields).unwrap();
    let h = IpHeader::parse(&p, Checksums::Verify).unwrap();
    assert_eq!((h.fields, h.dscp), (fields, 46));
}

#[test]
fn flow_label_of_a_segment_is_sent_over_ipv6_and_not_over_ipv4() {
    let label = 0xa_bcde;
    let labelled = |mut s: Segment| {
        s.flow_label = label;
        s
    };
    let fields = IpFields {
        flow_label: 7,
        ..IpFields::default()
    };
    let label_in = |s: &Segment| {
        let p = s.to_packet(&fields).unwrap();
        Segment::from_ip_slice(&p, Checksums::Verify)
            .unwrap()
            .flow_label
    };
    assert_eq!(label_in(&labelled(v6())), label);
    assert_eq!(label_in(&v6()), 7, "label of the fields");
    assert_eq!(label_in(&labelled(v4())), 0);
    assert_eq!(packet(&labelled(v4())), packet(&v4()));
}

#[test]
fn udp_datagrams_are_written_parsed_and_verified() {
    for (src, dst) in [("10.0.0.1:9", "10.0.0.2:10"), ("[::1]:9", "[::2]:10")] {
        let payload: Payload = Bytes::from_static(b"segment").into();
        let d = UdpDatagram {
            src: end(src),
            dst: end(dst),
            ecn: Ecn::Ce,
            payload,
        };
        let mut p = Vec::new();
        d.encode_ip(&IpFields::default(), &mut p).unwrap();
        assert_eq!(p.len(), d.wire_len());
        let sliced = SlicedPacket::from_ip(&p).unwrap().transport;
        assert!(matches!(sliced, Some(TransportSlice::Udp(_))));
        assert_eq!(
            UdpDatagram::from_ip(&p.clone().into(), Checksums::Verify),
            Ok(d.clone())
        );
        let at = p.len() - 1;
        p[at] ^= 1;
        let read = UdpDatagram::from_ip(&p.clone().into(), Checksums::Verify);
        assert!(matches!(
            read,
            Err(ParseError::Checksum { what: "UDP", .. })
        ));
        // A missing checksum is allowed over IPv4 and an error over IPv6.
        let udp = p.len() - 15;
        p[udp + 6..udp + 8].fill(0);
        let read = UdpDatagram::from_ip(&p.into(), Checksums::Verify);
        assert_eq!(read.is_ok(), d.src.addr.is_ipv4());
    }
}

#[test]
fn checksum_over_pieces_equals_checksum_over_the_whole() {
    let bytes: Vec<u8> = (0..1000u32).map(|i| mix64(u64::from(i)) as u8).collect();
    let mut whole = Checksum::new();
    whole.add(&bytes);
    for step in 1..40 {
        let mut pieces = Checksum::new();
        bytes.chunks(step).for_each(|c| pieces.add(c));
        assert_eq!(pieces.finish(), whole.finish(), "pieces of {step}");
    }
}

#[test]
fn flow_hash_spreads_ports_and_differs_by_direction() {
    let (a, b) = (v4().src, v4().dst);
    assert_ne!(flow_hash(a, b, 6), flow_hash(b, a, 6));
    assert_ne!(flow_hash(a, b, 6), flow_hash(a, b, 17));
    assert_ne!(v6().flow_hash(), v4().flow_hash());
    let mut labelled = v4();
    labelled.flow_label = 1;
    assert_ne!(labelled.flow_hash(), v4().flow_hash());
    assert_eq!(labelled.flow_key(), v4().flow_key());
    // Consecutive ports over 8 next hops, by low bits and by high bits: 1000 each, within five standard
    // deviations (of a binomial: 29.6).
    for shift in [0, 61] {
        let mut count = [0i32; 8];
        for port in 0..8000 {
            let h = flow_hash(Endpoint::new(a.addr, port), b, 6);
            count[(h >> shift) as usize & 7] += 1;
        }
        assert!(count.iter().all(|c| (c - 1000).abs() < 148), "{count:?}");
    }
}

//! parse(encode(x)) == x for arbitrary segments. Parsing arbitrary and mutated bytes returns a value or an
//! error.

use std::net::IpAddr;
use std::num::NonZeroU32;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use spindle_wire::{
    AddAddr, Checksums, DataNumber, Dss, Ecn, EncodeError, Endpoint, Experimental, Flags, IpFields,
    Mapping, MpCapable, MpJoin, MpPrio, MpTcpRst, Options, Payload, RareOptions, RemoveAddr,
    ResetReason, SackBlocks, Segment, SeqNumber, Timestamps, UdpDatagram,
};

fn data_number() -> impl Strategy<Value = DataNumber> {
    prop_oneof![
        any::<u32>().prop_map(DataNumber::Low),
        any::<u64>().prop_map(DataNumber::Full)
    ]
}

fn mapping() -> impl Strategy<Value = Mapping> {
    (
        data_number(),
        any::<u32>(),
        any::<u16>(),
        any::<Option<u16>>(),
    )
        .prop_map(|(dsn, ssn, len, checksum)| Mapping {
            dsn,
            ssn,
            len,
            checksum,
        })
}

fn dss() -> impl Strategy<Value = Dss> {
    (
        option::of(data_number()),
        option::of(mapping()),
        any::<bool>(),
    )
        .prop_map(|(data_ack, mapping, data_fin)| Dss {
            data_ack,
            mapping,
            data_fin,
        })
}

/// An MP_CAPABLE of the form that belongs on a segment with these control bits.
fn mp_capable(flags: Flags) -> impl Strategy<Value = MpCapable> {
    let syn = flags.contains(Flags::SYN);
    let syn_ack = syn && flags.contains(Flags::ACK);
    (
        any::<[bool; 3]>(),
        any::<u8>(),
        any::<[u64; 2]>(),
        any::<Option<u16>>(),
        any::<Option<u16>>(),
    )
        .prop_map(
            move |([a, c, h], other, [sender, receiver], data_len, checksum)| MpCapable {
                version: 1,
                checksum_required: a,
                no_more_to_source: c,
                hmac_sha256: h,
                other_flags: other & 0x5e,
                sender_key: (!syn || syn_ack).then_some(sender),
                receiver_key: (!syn).then_some(receiver),
                data_len: data_len.filter(|_| !syn),
                checksum: checksum.filter(|_| !syn && data_len.is_some()),
            },
        )
}

fn mp_join(flags: Flags) -> impl Strategy<Value = MpJoin> {
    (
        any::<bool>(),
        any::<u8>(),
        any::<u32>(),
        any::<u32>(),
        any::<[u8; 20]>(),
    )
        .prop_map(move |(backup, address_id, token, nonce, hmac)| {
            match (flags.contains(Flags::SYN), flags.contains(Flags::ACK)) {
                (true, false) => MpJoin::Syn {
                    backup,
                    address_id,
                    token,
                    nonce,
                },
                (true, true) => MpJoin::SynAck {
                    backup,
                    address_id,
                    hmac: u64::from(token) << 7,
                    nonce,
                },
                _ => MpJoin::Ack { hmac },
            }
        })
}

fn add_addr() -> impl Strategy<Value = AddAddr> {
    (
        any::<bool>(),
        any::<u8>(),
        any::<IpAddr>(),
        any::<Option<u16>>(),
        any::<Option<u64>>(),
    )
        .prop_map(|(echo, address_id, addr, port, hmac)| AddAddr {
            echo,
            address_id,
            addr,
            port,
            hmac,
        })
}

fn reset() -> impl Strategy<Value = MpTcpRst> {
    (any::<bool>(), any::<u8>(), any::<u8>()).prop_map(|(transient, other, code)| MpTcpRst {
        transient,
        other_flags: other & 0x0e,
        reason: ResetReason::from_code(code),
    })
}

fn experimental() -> impl Strategy<Value = Experimental> {
    (253u8..=254, any::<u16>(), vec(any::<u8>(), 0..16))
        .prop_map(|(kind, exid, data)| Experimental { kind, exid, data })
}

fn sack() -> impl Strategy<Value = SackBlocks> {
    vec(any::<(u32, u32)>(), 0..=4).prop_map(|blocks| {
        let mut s = SackBlocks::default();
        for (left, right) in blocks {
            s.push(SeqNumber(left), SeqNumber(right));
        }
        s
    })
}

/// Mostly empty, as in real traffic; sometimes more than fits.
fn rare(flags: Flags) -> impl Strategy<Value = RareOptions> {
    fn some<S: Strategy>(s: S) -> impl Strategy<Value = Option<S::Value>> {
        option::weighted(0.15, s)
    }
    let tcp = (
        some(any::<u16>()),
        some(any::<u8>()),
        prop::bool::weighted(0.15),
    );
    let mptcp = (
        some(mp_capable(flags)),
        some(mp_join(flags)),
        vec(add_addr(), 0..2),
    );
    let small = (
        some(vec(any::<u8>(), 1..12)),
        some(any::<bool>()),
        some(any::<u64>()),
        some(any::<u64>()),
        some(reset()),
    );
    (tcp, mptcp, small, vec(experimental(), 0..2)).prop_map(|(t, m, s, experimental)| RareOptions {
        mss: t.0,
        window_scale: t.1,
        sack_permitted: t.2,
        mp_capable: m.0,
        mp_join: m.1,
        add_addr: m.2,
        remove_addr: s.0.map(|address_ids| RemoveAddr { address_ids }),
        mp_prio: s.1.map(|backup| MpPrio { backup }),
        mp_fail: s.2,
        mp_fastclose: s.3,
        mp_tcprst: s.4,
        experimental,
        payload_head: Vec::new(),
    })
}

/// Options that may or may not fit the option space.
fn options(flags: Flags) -> impl Strategy<Value = Options> {
    let timestamps = any::<(u32, u32)>().prop_map(|(value, echo)| Timestamps { value, echo });
    (
        option::of(timestamps),
        sack(),
        option::of(dss()),
        option::of(any::<NonZeroU32>()),
        option::of(rare(flags)),
    )
        .prop_map(|(timestamps, sack, dss, token, rare)| {
            let rare = rare.filter(|r| *r != RareOptions::default()).map(Box::new);
            Options {
                timestamps,
                sack,
                dss,
                token,
                rare,
            }
        })
}

fn payload() -> impl Strategy<Value = Payload> {
    prop_oneof![
        vec(any::<u8>(), 1..200).prop_map(Payload::from),
        (0u32..2000).prop_map(Payload::Length),
    ]
}

fn endpoints() -> impl Strategy<Value = (Endpoint, Endpoint)> {
    let v4 = any::<[[u8; 4]; 2]>().prop_map(|a| a.map(IpAddr::from));
    let v6 = any::<[[u8; 16]; 2]>().prop_map(|a| a.map(IpAddr::from));
    (prop_oneof![v4, v6], any::<[u16; 2]>())
        .prop_map(|([s, d], [p, q])| (Endpoint::new(s, p), Endpoint::new(d, q)))
}

/// A segment whose options may not fit the option space.
fn segment() -> impl Strategy<Value = Segment> {
    let flags = prop_oneof![
        (0u16..0x200).prop_map(Flags),
        Just(Flags::SYN),
        Just(Flags::SYN | Flags::ACK),
        Just(Flags::ACK)
    ];
    let numbers = any::<(u32, u32, u16, u16, u8, u8)>();
    let labels = prop_oneof![Just(0), 0u32..1 << 20];
    flags.prop_flat_map(move |flags| {
        let label = labels.clone();
        (endpoints(), numbers, label, options(flags), payload()).prop_map(
            move |((src, dst), (seq, ack, window, urgent, ecn, dscp), label, options, payload)| {
                Segment {
                    src,
                    dst,
                    seq: SeqNumber(seq),
                    ack: SeqNumber(ack),
                    flags,
                    window,
                    urgent,
                    ecn: Ecn::from_bits(ecn),
                    dscp: dscp & 0x3f,
                    // IPv4 has no flow label.
                    flow_label: if src.addr.is_ipv6() { label } else { 0 },
                    options,
                    payload,
                    segment_size: 0,
                }
            },
        )
    })
}

/// Converts the payload to real bytes, so that payloads with the same bytes are equal values.
fn with_real_bytes(mut s: Segment) -> Segment {
    if !s.payload.is_empty() {
        s.payload = s.payload.to_bytes().into();
    }
    s
}

/// The number of options plus the number of SACK blocks.
fn count(o: &Options) -> usize {
    let rare = o.rare.as_ref().map_or(0, |r| {
        usize::from(r.mss.is_some())
            + usize::from(r.window_scale.is_some())
            + usize::from(r.sack_permitted)
            + usize::from(r.mp_capable.is_some())
            + usize::from(r.mp_join.is_some())
            + r.add_addr.len()
            + usize::from(r.remove_addr.is_some())
            + usize::from(r.mp_prio.is_some())
            + usize::from(r.mp_fail.is_some())
            + usize::from(r.mp_fastclose.is_some())
            + usize::from(r.mp_tcprst.is_some())
            + r.experimental.len()
    });
    usize::from(o.timestamps.is_some()) + usize::from(o.dss.is_some()) + o.sack.len() + rare
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn segments_survive_encoding_and_parsing(mut s in segment()) {
        let fields = IpFields::default();
        if s.options.encoded_len() > Options::MAX_LEN {
            let too_long = matches!(s.to_packet(&fields), Err(EncodeError::OptionsTooLong { .. }));
            prop_assert!(too_long);
        }
        let _ = s.options.fit();
        let packet = s.to_packet(&fields).unwrap();
        prop_assert_eq!(packet.len(), s.wire_len());
        let read = Segment::from_ip(&packet.clone().into(), Checksums::Verify);
        prop_assert_eq!(read.as_ref(), Ok(&with_real_bytes(s.clone())));
        prop_assert_eq!(Segment::from_ip_slice(&packet, Checksums::Verify), read);
        let mut tcp = Vec::new();
        s.encode_tcp(&mut tcp).unwrap();
        prop_assert!(packet.ends_with(&tcp));
        let read = Segment::from_tcp((s.src.addr, s.dst.addr), s.ecn, &tcp.into(), Checksums::Verify);
        (s.dscp, s.flow_label) = (0, 0);
        prop_assert_eq!(read, Ok(with_real_bytes(s)));
    }

    #[test]
    fn fit_keeps_or_returns_every_option(before in options(Flags::ACK)) {
        let mut o = before.clone();
        let left_out = o.fit();
        prop_assert!(o.encoded_len() <= Options::MAX_LEN);
        prop_assert_eq!(count(&o) + count(&left_out), count(&before));
        if before.dss.is_some_and(|d| d.mapping.is_some()) {
            prop_assert_eq!(o.dss, before.dss);
        }
        if before.encoded_len() <= Options::MAX_LEN {
            prop_assert_eq!(&o, &before);
        }
        let again = o.fit();
        prop_assert!(again.is_empty());
    }

    #[test]
    fn udp_datagrams_survive_encoding_and_parsing((src, dst) in endpoints(), payload in payload(), ecn in any::<u8>()) {
        let d = UdpDatagram { src, dst, ecn: Ecn::from_bits(ecn), payload };
        let mut packet = Vec::new();
        d.encode_ip(&IpFields::default(), &mut packet).unwrap();
        let read = UdpDatagram::from_ip(&packet.into(), Checksums::Verify).unwrap();
        prop_assert_eq!((read.src, read.dst, read.ecn), (d.src, d.dst, d.ecn));
        prop_assert_eq!(read.payload.to_bytes(), d.payload.to_bytes());
    }

    #[test]
    fn parsing_arbitrary_bytes_returns_a_value_or_an_error(
        bytes in vec(any::<u8>(), 0..120),
        version in 0u8..8,
        flags in any::<u16>(),
    ) {
        let mut packet = bytes.clone();
        if let Some(first) = packet.first_mut() {
            // Mostly plausible first bytes. Otherwise the parser would hardly get past the version.
            *first = [0x45, 0x45, 0x46, 0x4f, 0x60, 0x60, 0x60, *first][usize::from(version)];
        }
        if packet.len() > 10 && version < 4 {
            packet[2] = 0;
            packet[6] = 0x40;
            packet[9] = 6;
        } else if packet.len() > 7 {
            packet[4] = 0;
        }
        everything(&packet);
        let _ = Options::parse(&bytes, Flags(flags));
    }

    #[test]
    fn parsing_mutated_packets_returns_a_value_or_an_error(
        mut s in segment(),
        flips in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let _ = s.options.fit();
        let mut packet = s.to_packet(&IpFields::default()).unwrap();
        for (at, to) in flips {
            // Changes the headers rather than the payload.
            let at = at.index(packet.len().min(100));
            packet[at] = to;
        }
        everything(&packet);
        packet.truncate(cut.index(packet.len() + 1));
        everything(&packet);
    }

    #[test]
    fn parsed_options_survive_encoding_and_parsing(
        bytes in vec(prop_oneof![0u8..9, 28u8..32, any::<u8>()], 0..40),
        flags in prop_oneof![Just(Flags::SYN), Just(Flags::SYN | Flags::ACK), Just(Flags::ACK)],
    ) {
        if let Ok(o) = Options::parse(&bytes, flags) {
            let mut out = Vec::new();
            // The NOPs that writing adds may exceed the option space.
            if o.encode(&mut out).is_ok() && o.rare.as_ref().and_then(|r| r.mp_capable).is_none_or(|c| c.version == 1) {
                prop_assert_eq!(Options::parse(&out, flags), Ok(o));
            }
        }
    }
}

/// Passes the bytes to everything that parses packets and checks that the parsed values are consistent.
fn everything(packet: &[u8]) {
    let bytes = Bytes::copy_from_slice(packet);
    for checksums in [Checksums::Trust, Checksums::Verify] {
        if let Ok(s) = Segment::from_ip(&bytes, checksums) {
            assert!(s.payload.len() < packet.len());
            let mut fitting = s.options.clone();
            let _ = fitting.fit();
            assert!(fitting.encode(&mut Vec::new()).is_ok());
        }
        let _ = UdpDatagram::from_ip(&bytes, checksums);
        let addr = IpAddr::from([10, 0, 0, 1]);
        let _ = Segment::from_tcp((addr, addr), Ecn::NotEct, &bytes, checksums);
    }
    let mut marked = packet.to_vec();
    spindle_wire::mark_ce(&mut marked);
}

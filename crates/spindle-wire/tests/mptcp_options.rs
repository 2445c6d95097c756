//! Every form of every MPTCP option, compared byte by byte with the figures of RFC 8684.

use spindle_wire::{
    AddAddr, DataNumber, Dss, Flags, Mapping, MpCapable, MpJoin, MpPrio, MpTcpRst, Options,
    RemoveAddr, ResetReason,
};

const SYN: Flags = Flags::SYN;
const SYN_ACK: Flags = Flags(Flags::SYN.0 | Flags::ACK.0);
const ACK: Flags = Flags::ACK;

/// Asserts that the bytes parse to the options, and that the options are written as these bytes.
#[track_caller]
fn both_ways(bytes: &[u8], flags: Flags, options: &Options) {
    assert_eq!(
        Options::parse(bytes, flags).as_ref(),
        Ok(options),
        "reading"
    );
    let mut out = Vec::new();
    options.encode(&mut out).unwrap();
    assert_eq!(out, bytes, "writing");
    assert_eq!(options.encoded_len(), bytes.len(), "length");
}

fn capable(c: MpCapable) -> Options {
    let mut o = Options::default();
    o.rare_mut().mp_capable = Some(c);
    o
}

const KEY_A: u64 = 0x0102_0304_0506_0708;
const KEY_B: u64 = 0x1112_1314_1516_1718;
const A: [u8; 8] = KEY_A.to_be_bytes();
const B: [u8; 8] = KEY_B.to_be_bytes();

#[test]
fn mp_capable_matches_figure_4() {
    let syn = MpCapable {
        version: 1,
        hmac_sha256: true,
        ..MpCapable::default()
    };
    both_ways(&[30, 4, 0x01, 0x01], SYN, &capable(syn));
    let syn_ack = MpCapable {
        sender_key: Some(KEY_B),
        checksum_required: true,
        no_more_to_source: true,
        ..syn
    };
    let bytes = [&[30, 12, 0x01, 0xa1], &B[..]].concat();
    both_ways(&bytes, SYN_ACK, &capable(syn_ack));
    let ack = MpCapable {
        sender_key: Some(KEY_A),
        receiver_key: Some(KEY_B),
        ..syn
    };
    both_ways(
        &[&[30, 20, 0x01, 0x01], &A[..], &B].concat(),
        ACK,
        &capable(ack),
    );
    let data = MpCapable {
        data_len: Some(0x0203),
        ..ack
    };
    let bytes = [&[30, 22, 0x01, 0x01], &A[..], &B, &[2, 3, 1, 1]].concat();
    both_ways(&bytes, ACK, &capable(data));
    let summed = MpCapable {
        checksum: Some(0xbeef),
        checksum_required: true,
        ..data
    };
    let bytes = [&[30, 24, 0x01, 0x81], &A[..], &B, &[2, 3, 0xbe, 0xef]].concat();
    both_ways(&bytes, ACK, &capable(summed));
    assert!(syn.is_acceptable());
    assert!(
        !MpCapable {
            other_flags: 0x40,
            ..syn
        }
        .is_acceptable(),
        "bit B is set"
    );
}

#[test]
fn mp_capable_of_other_versions_is_kept() {
    let read = |bytes: &[u8], flags| {
        Options::parse(bytes, flags)
            .unwrap()
            .rare
            .and_then(|r| r.mp_capable)
    };
    // RFC 6824: the SYN carries the sender's key.
    let v0 = read(&[&[30, 12, 0x00, 0x81], &A[..]].concat(), SYN).unwrap();
    assert_eq!(
        (v0.version, v0.sender_key, v0.receiver_key),
        (0, Some(KEY_A), None)
    );
    // An unknown version with an unknown length.
    let v7 = read(&[&[30, 17, 0x07, 0x3f], &[9; 13][..]].concat(), SYN).unwrap();
    assert_eq!((v7.version, v7.sender_key, v7.other_flags), (7, None, 0x1e));
    assert!(!v7.is_acceptable());
    let v2 = read(&[30, 4, 0x02, 0x01], SYN).unwrap();
    assert!(v2.is_acceptable_offer() && !v2.is_acceptable());
    assert!(!v0.is_acceptable_offer());
}

#[test]
fn mp_join_matches_figures_5_to_7() {
    let join = |j| {
        let mut o = Options::default();
        o.rare_mut().mp_join = Some(j);
        o
    };
    let syn = MpJoin::Syn {
        backup: true,
        address_id: 3,
        token: 0xa1a2_a3a4,
        nonce: 0xb1b2_b3b4,
    };
    let bytes = [
        30, 12, 0x11, 3, 0xa1, 0xa2, 0xa3, 0xa4, 0xb1, 0xb2, 0xb3, 0xb4,
    ];
    both_ways(&bytes, SYN, &join(syn));
    let syn_ack = MpJoin::SynAck {
        backup: false,
        address_id: 4,
        hmac: KEY_A,
        nonce: 0xb1b2_b3b4,
    };
    let bytes = [&[30, 16, 0x10, 4], &A[..], &[0xb1, 0xb2, 0xb3, 0xb4]].concat();
    both_ways(&bytes, SYN_ACK, &join(syn_ack));
    let hmac: [u8; 20] = std::array::from_fn(|i| i as u8);
    let bytes = [&[30, 24, 0x10, 0], &hmac[..]].concat();
    both_ways(&bytes, ACK, &join(MpJoin::Ack { hmac }));
    // The form of a SYN/ACK is not valid on an ACK.
    let bytes = [&[30, 16, 0x10, 4], &[0; 12][..]].concat();
    assert_eq!(Options::parse(&bytes, ACK), Ok(Options::default()));
}

#[test]
fn dss_matches_figure_9() {
    let dss = |d| Options {
        dss: Some(d),
        ..Options::default()
    };
    let ack4 = Dss {
        data_ack: Some(DataNumber::Low(0x0a0b_0c0d)),
        ..Dss::default()
    };
    both_ways(&[30, 8, 0x20, 0x01, 10, 11, 12, 13], ACK, &dss(ack4));
    let ack8 = Dss {
        data_ack: Some(DataNumber::Full(KEY_A)),
        ..Dss::default()
    };
    both_ways(&[&[30, 12, 0x20, 0x03], &A[..]].concat(), ACK, &dss(ack8));
    let low = Mapping {
        dsn: DataNumber::Low(0x21),
        ssn: 1,
        len: 1400,
        checksum: None,
    };
    let mapped = Dss {
        mapping: Some(low),
        ..ack4
    };
    let tail = [0, 0, 0, 0x21, 0, 0, 0, 1, 0x05, 0x78, 1, 1];
    both_ways(
        &[&[30, 18, 0x20, 0x05, 10, 11, 12, 13], &tail[..]].concat(),
        ACK,
        &dss(mapped),
    );
    let full = Mapping {
        dsn: DataNumber::Full(KEY_B),
        checksum: Some(0xcafe),
        ..low
    };
    let longest = Dss {
        mapping: Some(full),
        ..ack8
    };
    let tail = [0, 0, 0, 1, 0x05, 0x78, 0xca, 0xfe];
    both_ways(
        &[&[30, 28, 0x20, 0x0f], &A[..], &B, &tail].concat(),
        ACK,
        &dss(longest),
    );
    let only = Dss {
        mapping: Some(Mapping {
            checksum: None,
            ..full
        }),
        ..Dss::default()
    };
    let tail = [0, 0, 0, 1, 0x05, 0x78, 1, 1];
    both_ways(
        &[&[30, 18, 0x20, 0x0c], &B[..], &tail].concat(),
        ACK,
        &dss(only),
    );
    let end = Mapping {
        dsn: DataNumber::Full(KEY_B),
        ssn: 0,
        len: 1,
        checksum: None,
    };
    let fin = Dss {
        mapping: Some(end),
        data_fin: true,
        ..ack4
    };
    let tail = [0, 0, 0, 0, 0, 1];
    let bytes = [
        &[30, 22, 0x20, 0x1d, 10, 11, 12, 13],
        &B[..],
        &tail,
        &[1, 1],
    ]
    .concat();
    both_ways(&bytes, ACK, &dss(fin));
}

#[test]
fn low_data_number_expands_to_the_nearest_full_number() {
    assert_eq!(DataNumber::Low(5).expand(0x1_ffff_fff0), 0x2_0000_0005);
    assert_eq!(
        DataNumber::Low(0xffff_fff0).expand(0x2_0000_0005),
        0x1_ffff_fff0
    );
    assert_eq!(DataNumber::Low(7).expand(3), 7);
    assert_eq!(DataNumber::Full(9).expand(1 << 40), 9);
    assert_eq!(DataNumber::Low(1).expand(u64::MAX), 1, "wraps at 2^64");
}

#[test]
fn add_addr_matches_figure_12() {
    let add = |a| {
        let mut o = Options::default();
        o.rare_mut().add_addr.push(a);
        o
    };
    let v4 = AddAddr {
        echo: false,
        address_id: 5,
        addr: "192.0.2.7".parse().unwrap(),
        port: None,
        hmac: Some(KEY_A),
    };
    both_ways(
        &[&[30, 16, 0x30, 5, 192, 0, 2, 7], &A[..]].concat(),
        ACK,
        &add(v4),
    );
    let port = AddAddr {
        port: Some(0x1f90),
        ..v4
    };
    let bytes = [
        &[30, 18, 0x30, 5, 192, 0, 2, 7, 0x1f, 0x90],
        &A[..],
        &[1, 1],
    ]
    .concat();
    both_ways(&bytes, ACK, &add(port));
    let echo = AddAddr {
        echo: true,
        hmac: None,
        ..v4
    };
    both_ways(&[30, 8, 0x31, 5, 192, 0, 2, 7], ACK, &add(echo));
    let echo_port = AddAddr {
        echo: true,
        hmac: None,
        ..port
    };
    both_ways(
        &[30, 10, 0x31, 5, 192, 0, 2, 7, 0x1f, 0x90, 1, 1],
        ACK,
        &add(echo_port),
    );
    let a6 = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
    let v6 = AddAddr {
        addr: "2001:db8::9".parse().unwrap(),
        ..v4
    };
    both_ways(&[&[30, 28, 0x30, 5], &a6[..], &A].concat(), ACK, &add(v6));
    let v6_port = AddAddr {
        port: Some(443),
        ..v6
    };
    let bytes = [&[30, 30, 0x30, 5], &a6[..], &[1, 0xbb], &A, &[1, 1]].concat();
    both_ways(&bytes, ACK, &add(v6_port));
    let v6_echo = AddAddr {
        echo: true,
        hmac: None,
        ..v6
    };
    both_ways(&[&[30, 20, 0x31, 5], &a6[..]].concat(), ACK, &add(v6_echo));
    let v6_echo_port = AddAddr {
        port: Some(443),
        ..v6_echo
    };
    let bytes = [&[30, 22, 0x31, 5], &a6[..], &[1, 0xbb, 1, 1]].concat();
    both_ways(&bytes, ACK, &add(v6_echo_port));
}

#[test]
fn every_add_addr_of_a_segment_is_kept() {
    let bytes = [30, 8, 0x31, 1, 10, 0, 0, 1, 30, 8, 0x31, 2, 10, 0, 0, 2];
    let o = Options::parse(&bytes, ACK).unwrap();
    let ids: Vec<u8> = o
        .rare
        .iter()
        .flat_map(|r| &r.add_addr)
        .map(|a| a.address_id)
        .collect();
    assert_eq!(ids, [1, 2]);
}

#[test]
fn short_mptcp_options_match_figures_11_and_13_to_16() {
    let with = |set: &dyn Fn(&mut spindle_wire::RareOptions)| {
        let mut o = Options::default();
        set(o.rare_mut());
        o
    };
    let one = with(&|r| {
        r.remove_addr = Some(RemoveAddr {
            address_ids: vec![7],
        })
    });
    both_ways(&[30, 4, 0x40, 7], ACK, &one);
    let three = with(&|r| {
        r.remove_addr = Some(RemoveAddr {
            address_ids: vec![7, 8, 9],
        })
    });
    both_ways(&[30, 6, 0x40, 7, 8, 9, 1, 1], ACK, &three);
    both_ways(
        &[30, 3, 0x51, 1],
        ACK,
        &with(&|r| r.mp_prio = Some(MpPrio { backup: true })),
    );
    both_ways(
        &[30, 3, 0x50, 1],
        ACK,
        &with(&|r| r.mp_prio = Some(MpPrio { backup: false })),
    );
    let fail = with(&|r| r.mp_fail = Some(KEY_A));
    both_ways(&[&[30, 12, 0x60, 0], &A[..]].concat(), ACK, &fail);
    let fastclose = with(&|r| r.mp_fastclose = Some(KEY_B));
    both_ways(&[&[30, 12, 0x70, 0], &B[..]].concat(), ACK, &fastclose);
    let reset = MpTcpRst {
        transient: true,
        other_flags: 0x0a,
        reason: ResetReason::Middlebox,
    };
    both_ways(
        &[30, 4, 0x8b, 6],
        Flags::RST,
        &with(&|r| r.mp_tcprst = Some(reset)),
    );
    let reset = MpTcpRst {
        transient: false,
        other_flags: 0,
        reason: ResetReason::Other(99),
    };
    both_ways(
        &[30, 4, 0x80, 99],
        Flags::RST,
        &with(&|r| r.mp_tcprst = Some(reset)),
    );
    for code in 0..=255 {
        assert_eq!(ResetReason::from_code(code).code(), code);
    }
}

#[test]
fn malformed_and_unknown_mptcp_options_are_ignored() {
    let malformed: [(&[u8], Flags); 12] = [
        (&[30, 2], ACK),
        (&[30, 3, 0x00], SYN),
        (&[30, 12, 0x01, 0x01, 0, 0, 0, 0, 0, 0, 0, 0], SYN),
        (&[30, 4, 0x01, 0x01], SYN_ACK),
        (&[30, 4, 0x20, 0x01], ACK),
        (&[30, 9, 0x20, 0x01, 0, 0, 0, 0, 0], ACK),
        (&[30, 7, 0x30, 0, 0, 0, 0], ACK),
        (&[30, 3, 0x40], ACK),
        (&[30, 4, 0x50, 0], ACK),
        (&[30, 11, 0x60, 0, 0, 0, 0, 0, 0, 0, 0], ACK),
        (&[30, 3, 0x80], ACK),
        (&[30, 4, 0xf0, 0], ACK),
    ];
    for (bytes, flags) in malformed {
        assert_eq!(
            Options::parse(bytes, flags),
            Ok(Options::default()),
            "{bytes:02x?}"
        );
    }
    // A malformed option does not affect the options around it.
    let bytes = [
        30, 8, 0x20, 0x01, 0, 0, 0, 9, 30, 4, 0x20, 0x01, 30, 3, 0x51,
    ];
    let o = Options::parse(&bytes, ACK).unwrap();
    assert_eq!(o.dss.and_then(|d| d.data_ack), Some(DataNumber::Low(9)));
    assert_eq!(
        o.rare.and_then(|r| r.mp_prio),
        Some(MpPrio { backup: true })
    );
}

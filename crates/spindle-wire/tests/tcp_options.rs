//! TCP's own options and the option space.

use spindle_wire::{
    AddAddr, DataNumber, Dss, EncodeError, Experimental, Flags, Mapping, MpPrio, Options,
    ParseError, RemoveAddr, SackBlocks, SeqNumber, Timestamps,
};

const TS: Timestamps = Timestamps {
    value: 0x0102_0304,
    echo: 0x0506_0708,
};

#[track_caller]
fn written(o: &Options) -> Vec<u8> {
    let mut out = Vec::new();
    o.encode(&mut out).unwrap();
    assert_eq!(out.len(), o.encoded_len());
    out
}

fn sack(n: u32) -> SackBlocks {
    let mut s = SackBlocks::default();
    for i in 0..n {
        assert!(s.push(SeqNumber(100 * i), SeqNumber(100 * i + 50)));
    }
    s
}

fn mapping(checksum: Option<u16>) -> Dss {
    let dsn = DataNumber::Full(77);
    Dss {
        data_ack: Some(DataNumber::Full(5)),
        mapping: Some(Mapping {
            dsn,
            ssn: 1,
            len: 1400,
            checksum,
        }),
        data_fin: false,
    }
}

fn add_addr(addr: &str) -> AddAddr {
    let addr = addr.parse().unwrap();
    AddAddr {
        echo: false,
        address_id: 2,
        addr,
        port: None,
        hmac: Some(9),
    }
}

#[test]
fn syn_options_have_the_layout_of_linux() {
    let mut o = Options {
        timestamps: Some(TS),
        ..Options::default()
    };
    let r = o.rare_mut();
    (r.mss, r.window_scale, r.sack_permitted) = (Some(1460), Some(7), true);
    let bytes = [
        2, 4, 0x05, 0xb4, 4, 2, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 3, 3, 7,
    ];
    assert_eq!(written(&o), bytes);
    assert_eq!(Options::parse(&bytes, Flags::SYN), Ok(o.clone()));
    o.timestamps = None;
    assert_eq!(written(&o), [2, 4, 0x05, 0xb4, 1, 1, 4, 2, 1, 3, 3, 7]);
}

#[test]
fn timestamps_and_sack_have_the_layout_of_linux() {
    let o = Options {
        timestamps: Some(TS),
        sack: sack(2),
        ..Options::default()
    };
    let bytes = [
        1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 1, 5, 18, 0, 0, 0, 0, 0, 0, 0, 50, 0, 0, 0, 100, 0,
        0, 0, 150,
    ];
    assert_eq!(written(&o), bytes);
    assert_eq!(Options::parse(&bytes, Flags::ACK), Ok(o));
}

#[test]
fn experimental_options_follow_rfc_6994() {
    let mut o = Options::default();
    let e = Experimental {
        kind: 253,
        exid: 0xf989,
        data: vec![1, 2, 3],
    };
    o.rare_mut().experimental.push(e);
    o.rare_mut().experimental.push(Experimental {
        kind: 254,
        exid: 1,
        data: vec![],
    });
    assert_eq!(written(&o), [253, 7, 0xf9, 0x89, 1, 2, 3, 1, 254, 4, 0, 1]);
    assert_eq!(Options::parse(&written(&o), Flags::ACK), Ok(o.clone()));
    // An option too short for an identifier is skipped.
    assert_eq!(
        Options::parse(&[253, 3, 0xf9, 1], Flags::ACK),
        Ok(Options::default())
    );
    o.rare_mut().experimental[0].kind = 30;
    assert_eq!(
        o.encode(&mut Vec::new()),
        Err(EncodeError::ExperimentalKind { kind: 30 })
    );
}

#[test]
fn unknown_and_wrongly_sized_options_are_skipped() {
    // A Fast Open cookie, an MSS of five bytes, a SACK of half a block; then window scale, end of list, and
    // bytes that must be ignored.
    let bytes = [
        34, 4, 9, 9, 2, 5, 0, 0, 0, 5, 6, 0, 0, 0, 0, 3, 3, 9, 0, 77, 0,
    ];
    let o = Options::parse(&bytes, Flags::SYN).unwrap();
    let mut expected = Options::default();
    expected.rare_mut().window_scale = Some(9);
    assert_eq!(o, expected);
}

#[test]
fn option_length_below_2_or_beyond_the_header_is_an_error() {
    let error = |offset, kind, length, room| {
        Err(ParseError::OptionLength {
            offset,
            kind,
            length,
            room,
        })
    };
    assert_eq!(
        Options::parse(&[1, 1, 8, 10, 0], Flags::ACK),
        error(2, 8, 10, 3)
    );
    assert_eq!(Options::parse(&[77, 0], Flags::ACK), error(0, 77, 0, 2));
    assert_eq!(Options::parse(&[77, 1], Flags::ACK), error(0, 77, 1, 2));
    assert_eq!(Options::parse(&[1, 30], Flags::ACK), error(1, 30, 0, 1));
}

#[test]
fn fit_removes_sack_blocks_first() {
    let ack = Dss {
        data_ack: Some(DataNumber::Full(5)),
        ..Dss::default()
    };
    let mut o = Options {
        timestamps: Some(TS),
        sack: sack(3),
        dss: Some(ack),
        ..Options::default()
    };
    let left_out = o.fit();
    assert_eq!(o.sack, sack(1));
    assert_eq!(left_out.sack.as_slice(), &sack(3).as_slice()[1..]);
    assert_eq!(written(&o).len(), 36);
    assert!(o.fit().is_empty(), "options that fit are kept");

    // Removing the SACK blocks alone makes room for an IPv4 ADD_ADDR.
    o.sack = sack(2);
    o.rare_mut().add_addr.push(add_addr("192.0.2.1"));
    let left_out = o.fit();
    assert!(o.sack.is_empty() && left_out.sack == sack(2) && left_out.rare.is_none());
    assert_eq!(o.encoded_len(), 40);
}

#[test]
fn fit_never_drops_a_mapping() {
    let mut o = Options {
        timestamps: Some(TS),
        sack: sack(4),
        dss: Some(mapping(Some(1))),
        ..Options::default()
    };
    let r = o.rare_mut();
    r.add_addr = vec![add_addr("192.0.2.1"), add_addr("2001:db8::1")];
    r.remove_addr = Some(RemoveAddr {
        address_ids: vec![1, 2],
    });
    r.mp_prio = Some(MpPrio { backup: true });
    let before = o.clone();
    let left_out = o.fit();
    assert_eq!(
        (o.dss, o.timestamps, o.encoded_len()),
        (before.dss, before.timestamps, 40)
    );
    assert_eq!((left_out.rare, left_out.sack), (before.rare, before.sack));
    assert_eq!((left_out.dss, left_out.timestamps), (None, None));
}

#[test]
fn fit_drops_a_bare_data_ack_for_an_ipv6_add_addr() {
    let ack = Dss {
        data_ack: Some(DataNumber::Full(5)),
        ..Dss::default()
    };
    let mut o = Options {
        timestamps: Some(TS),
        sack: sack(1),
        dss: Some(ack),
        ..Options::default()
    };
    o.rare_mut().add_addr.push(add_addr("2001:db8::1"));
    let left_out = o.fit();
    assert_eq!((o.dss, left_out.dss), (None, Some(ack)));
    assert_eq!(o.rare.as_ref().map(|r| r.add_addr.len()), Some(1));
    assert_eq!(o.encoded_len(), 40);
}

#[test]
fn options_over_40_bytes_are_an_error_and_append_nothing() {
    let o = Options {
        timestamps: Some(TS),
        sack: sack(1),
        dss: Some(mapping(None)),
        ..Options::default()
    };
    let mut out = vec![1, 2];
    assert_eq!(
        o.encode(&mut out),
        Err(EncodeError::OptionsTooLong { len: 52, max: 40 })
    );
    assert_eq!(out, [1, 2]);
}

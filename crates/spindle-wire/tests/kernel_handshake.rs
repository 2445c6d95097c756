//! Packets of the Linux kernel are parsed and written back byte for byte. Their keys, tokens, HMACs, initial
//! data sequence numbers and checksums agree with RFC 8684; this file computes them independently of the crate.
//!
//! The captures come from `scripts/capture-kernel-handshake.sh` (Linux 6.18).

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use bytes::Bytes;
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use spindle_wire::{
    AddAddr, Checksums, DataNumber, Endpoint, Flags, IpHeader, Mapping, MpJoin, Options, Segment,
    dss_checksum, same_checksum,
};

const PLAIN: &[u8] = include_bytes!("data/kernel-plain.pcap");
const CHECKSUMS: &[u8] = include_bytes!("data/kernel-checksums.pcap");
const IPV6: &[u8] = include_bytes!("data/kernel-ipv6.pcap");

/// The IP packets of a classic pcap file with LINUX_SLL (113) or LINUX_SLL2 (276) framing.
fn packets(file: &'static [u8]) -> Vec<Bytes> {
    let u32_at = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
    assert_eq!(u32_at(0), 0xa1b2_c3d4, "little endian, microseconds");
    let framing = match u32_at(20) {
        113 => 16,
        276 => 20,
        other => panic!("link type {other}"),
    };
    let mut at = 24;
    let mut out = Vec::new();
    while at < file.len() {
        let len = u32_at(at + 8);
        assert_eq!(len, u32_at(at + 12), "the packet is captured whole");
        out.push(Bytes::from_static(&file[at + 16 + framing..at + 16 + len]));
        at += 16 + len;
    }
    out
}

fn segments(file: &'static [u8]) -> Vec<Segment> {
    packets(file)
        .iter()
        .map(|p| Segment::from_ip(p, Checksums::Verify).unwrap())
        .collect()
}

#[test]
fn kernel_packets_are_reproduced_byte_for_byte() {
    let mut seen = [0; 10];
    for file in [PLAIN, CHECKSUMS, IPV6] {
        for (i, packet) in packets(file).iter().enumerate() {
            let segment = Segment::from_ip(packet, Checksums::Verify);
            let segment = segment.unwrap_or_else(|e| panic!("packet {}: {e}", i + 1));
            let fields = IpHeader::parse(packet, Checksums::Verify).unwrap().fields;
            let again = segment.to_packet(&fields).unwrap();
            assert_eq!(Bytes::from(again), packet, "packet {}: {segment:?}", i + 1);
            assert_eq!(segment.wire_len(), packet.len());
            for (count, there) in seen.iter_mut().zip(kinds(&segment.options)) {
                *count += usize::from(there);
            }
        }
    }
    // A capture without one of these options would test less than expected.
    assert!(seen.iter().all(|n| *n > 0), "{seen:?}");
}

/// For each option that the captures must contain, whether it is present.
fn kinds(o: &Options) -> [bool; 10] {
    let rare = o.rare.as_deref().cloned().unwrap_or_default();
    [
        rare.mp_capable.is_some_and(|c| c.data_len.is_some()),
        rare.mp_capable
            .is_some_and(|c| c.data_len.is_some() && c.checksum.is_some()),
        rare.mp_join.is_some(),
        o.dss.is_some_and(|d| d.data_fin),
        o.dss
            .and_then(|d| d.mapping)
            .is_some_and(|m| m.checksum.is_some()),
        rare.add_addr.iter().any(|a| a.hmac.is_some()) && rare.add_addr.iter().all(|a| !a.echo),
        rare.add_addr.iter().any(|a| a.echo && a.port.is_some()),
        rare.remove_addr.is_some() && o.dss.is_some(),
        rare.mp_prio.is_some() && o.dss.is_some(),
        rare.mp_fastclose.is_some() && rare.mp_tcprst.is_some(),
    ]
}

#[test]
fn captures_contain_a_sack_block_for_duplicate_data() {
    for file in [PLAIN, CHECKSUMS, IPV6] {
        assert!(
            segments(file)
                .iter()
                .any(|s| s.options.sack.len() == 1 && s.options.dss.is_some())
        );
    }
}

/// One MPTCP connection of a capture with its endpoints and keys.
#[derive(Debug)]
struct Connection {
    client: Endpoint,
    server: Endpoint,
    client_key: u64,
    server_key: u64,
}

impl Connection {
    /// The key of the host that has this address.
    fn key_of(&self, addr: IpAddr) -> u64 {
        // Links 1 and 2; the client has the addresses that end in 1.
        let last = match addr {
            IpAddr::V4(a) => a.octets()[3],
            IpAddr::V6(a) => a.octets()[15],
        };
        if last == 1 {
            self.client_key
        } else {
            self.server_key
        }
    }
}

/// The connections in the order of their third ACKs.
fn connections(segments: &[Segment]) -> Vec<Connection> {
    let mut out: Vec<Connection> = Vec::new();
    for s in segments {
        let Some(c) = s.options.rare.as_ref().and_then(|r| r.mp_capable) else {
            continue;
        };
        assert!(c.is_acceptable());
        if let (Some(client_key), Some(server_key)) = (c.sender_key, c.receiver_key)
            && !out.iter().any(|o| o.client == s.src)
        {
            out.push(Connection {
                client: s.src,
                server: s.dst,
                client_key,
                server_key,
            });
        }
    }
    out
}

fn sha256(key: u64) -> [u8; 32] {
    Sha256::digest(key.to_be_bytes()).into()
}

/// RFC 8684, section 3.2: "the most significant 32 bits of the SHA-256 hash of the key".
fn token(key: u64) -> u32 {
    u32::from_be_bytes(*sha256(key).first_chunk().unwrap())
}

/// RFC 8684, section 3.1: "the least significant 64 bits of the SHA-256 hash of the key".
fn idsn(key: u64) -> u64 {
    u64::from_be_bytes(*sha256(key).last_chunk().unwrap())
}

fn hmac(first_key: u64, second_key: u64, message: &[&[u8]]) -> [u8; 32] {
    let key = [first_key.to_be_bytes(), second_key.to_be_bytes()].concat();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
    message.iter().for_each(|m| mac.update(m));
    mac.finalize().into_bytes().into()
}

/// The handshake of the first connection of `kernel-plain.pcap` as plain numbers, for use in other
/// computations. A new capture needs new numbers.
mod plain {
    pub(crate) const CLIENT_KEY: u64 = 0x9097_6304_aa5e_72e3;
    pub(crate) const SERVER_KEY: u64 = 0x1b7f_cbb5_4a93_db99;
    pub(crate) const CLIENT_TOKEN: u32 = 0x2a75_f11c;
    pub(crate) const SERVER_TOKEN: u32 = 0xdc2f_f9f9;
    pub(crate) const CLIENT_IDSN: u64 = 0x8935_f2b8_5e87_6306;
    pub(crate) const SERVER_IDSN: u64 = 0xb178_a61e_2569_e6e4;
    pub(crate) const JOIN_CLIENT_NONCE: u32 = 0x95f4_0b06;
    pub(crate) const JOIN_SERVER_NONCE: u32 = 0x849d_9c40;
    pub(crate) const JOIN_SERVER_HMAC: u64 = 0x296e_b73d_1f16_5775;
    pub(crate) const JOIN_CLIENT_HMAC: [u8; 20] = [
        0x65, 0xed, 0x52, 0xb6, 0xbe, 0x0b, 0xdd, 0x96, 0xf2, 0xd0, 0xf2, 0xdc, 0xa6, 0x9d, 0xd5,
        0xc4, 0xf0, 0xb0, 0x8a, 0xbc,
    ];
}

#[test]
fn recorded_handshake_numbers_match_the_capture() {
    let segments = segments(PLAIN);
    let c = &connections(&segments)[0];
    let join = joins(&segments)
        .into_iter()
        .find(|j| j.token == token(c.server_key))
        .unwrap();
    assert_eq!(
        (c.client_key, c.server_key),
        (plain::CLIENT_KEY, plain::SERVER_KEY)
    );
    let tokens = (token(c.client_key), token(c.server_key));
    assert_eq!(tokens, (plain::CLIENT_TOKEN, plain::SERVER_TOKEN));
    assert_eq!(
        (idsn(c.client_key), idsn(c.server_key)),
        (plain::CLIENT_IDSN, plain::SERVER_IDSN)
    );
    assert_eq!(
        join.nonces,
        (plain::JOIN_CLIENT_NONCE, plain::JOIN_SERVER_NONCE)
    );
    assert_eq!(
        (join.server_hmac, join.client_hmac),
        (plain::JOIN_SERVER_HMAC, plain::JOIN_CLIENT_HMAC)
    );
}

/// A joined subflow: the contents of its three handshake segments.
struct Join {
    token: u32,
    nonces: (u32, u32),
    server_hmac: u64,
    client_hmac: [u8; 20],
}

/// The joins whose handshakes are complete.
fn joins(segments: &[Segment]) -> Vec<Join> {
    let mut begun: HashMap<(Endpoint, Endpoint), (u32, u32)> = HashMap::new();
    let mut answered: HashMap<(Endpoint, Endpoint), Join> = HashMap::new();
    let mut out = Vec::new();
    for s in segments {
        match s.options.rare.as_ref().and_then(|r| r.mp_join) {
            Some(MpJoin::Syn { token, nonce, .. }) => {
                begun.insert((s.src, s.dst), (token, nonce));
            }
            Some(MpJoin::SynAck { hmac, nonce, .. }) => {
                let (token, first) = begun[&(s.dst, s.src)];
                let nonces = (first, nonce);
                let join = Join {
                    token,
                    nonces,
                    server_hmac: hmac,
                    client_hmac: [0; 20],
                };
                answered.insert((s.dst, s.src), join);
            }
            Some(MpJoin::Ack { hmac }) => {
                if let Some(join) = answered.remove(&(s.src, s.dst)) {
                    out.push(Join {
                        client_hmac: hmac,
                        ..join
                    });
                }
            }
            None => {}
        }
    }
    out
}

#[test]
fn joins_carry_the_tokens_and_hmacs_derived_from_the_keys() {
    for file in [PLAIN, CHECKSUMS, IPV6] {
        let segments = segments(file);
        let connections = connections(&segments);
        assert!(!connections.is_empty());
        let joins = joins(&segments);
        assert!(!joins.is_empty());
        for j in joins {
            let c = connections
                .iter()
                .find(|c| token(c.server_key) == j.token)
                .unwrap();
            let (a, b) = (j.nonces.0.to_be_bytes(), j.nonces.1.to_be_bytes());
            let server = hmac(c.server_key, c.client_key, &[&b, &a]);
            assert_eq!(j.server_hmac.to_be_bytes(), server[..8], "leftmost 64 bits");
            let client = hmac(c.client_key, c.server_key, &[&a, &b]);
            assert_eq!(j.client_hmac, client[..20], "leftmost 160 bits");
        }
    }
}

#[test]
fn announced_addresses_carry_the_hmac_derived_from_the_keys() {
    let hmac_of = |from: u64, to: u64, a: &AddAddr| {
        let addr = match a.addr {
            IpAddr::V4(a) => a.octets().to_vec(),
            IpAddr::V6(a) => a.octets().to_vec(),
        };
        let port = a.port.unwrap_or(0).to_be_bytes();
        let mac = hmac(from, to, &[&[a.address_id], &addr, &port]);
        u64::from_be_bytes(*mac.last_chunk().unwrap())
    };
    for file in [PLAIN, CHECKSUMS, IPV6] {
        let segments = segments(file);
        let connections = connections(&segments);
        let mut checked = 0;
        for a in segments
            .iter()
            .flat_map(|s| &s.options.rare)
            .flat_map(|r| &r.add_addr)
        {
            assert_eq!(a.hmac.is_none(), a.echo);
            let Some(found) = a.hmac else { continue };
            // Only the server announces addresses.
            assert!(
                connections
                    .iter()
                    .any(|c| hmac_of(c.server_key, c.client_key, a) == found),
                "{a:?}"
            );
            checked += 1;
        }
        assert!(checked > 0);
    }
}

#[test]
fn fast_close_carries_the_peers_key() {
    for file in [PLAIN, CHECKSUMS, IPV6] {
        let segments = segments(file);
        let connections = connections(&segments);
        let mut closes = segments.iter().filter_map(|s| {
            let key = s.options.rare.as_ref()?.mp_fastclose?;
            Some((key, s.dst.addr))
        });
        assert!(closes.clone().count() > 0);
        assert!(closes.all(|(key, to)| connections.iter().any(|c| c.key_of(to) == key)));
    }
}

/// One direction of one subflow: its ISN and its bytes by subflow sequence number.
#[derive(Default)]
struct Stream {
    isn: u32,
    pieces: BTreeMap<u32, Bytes>,
}

impl Stream {
    /// The `len` bytes from the relative sequence number `ssn` on, as far as they were sent.
    fn bytes(&self, ssn: u32, len: usize) -> Vec<u8> {
        let mut out = Vec::new();
        for (&at, piece) in &self.pieces {
            let next = ssn + out.len() as u32;
            if at <= next && next < at + piece.len() as u32 && out.len() < len {
                out.extend_from_slice(&piece[(next - at) as usize..]);
            }
        }
        out.truncate(len);
        out
    }
}

fn streams(segments: &[Segment]) -> HashMap<(Endpoint, Endpoint), Stream> {
    let mut out: HashMap<_, Stream> = HashMap::new();
    for s in segments {
        let stream = out.entry((s.src, s.dst)).or_default();
        if s.flags.contains(Flags::SYN) {
            stream.isn = s.seq.0;
        } else if !s.payload.is_empty() {
            stream
                .pieces
                .insert(s.seq.0.wrapping_sub(stream.isn), s.payload.to_bytes());
        }
    }
    out
}

/// The mapping of a segment, from an MP_CAPABLE or a DSS, with all 64 bits of its DSN.
fn mapping(s: &Segment, c: &Connection) -> Option<(u64, Mapping)> {
    let start = idsn(c.key_of(s.src.addr)).wrapping_add(1);
    if let Some(m) = s.options.dss.and_then(|d| d.mapping) {
        return Some((m.dsn.expand(start), m));
    }
    let capable = s.options.rare.as_ref()?.mp_capable?;
    let dsn = DataNumber::Full(start);
    Some((
        start,
        Mapping {
            dsn,
            ssn: 1,
            len: capable.data_len?,
            checksum: capable.checksum,
        },
    ))
}

#[test]
fn data_starts_one_past_the_idsn_and_dss_checksums_match() {
    for (file, with_checksums) in [(PLAIN, false), (CHECKSUMS, true), (IPV6, false)] {
        let segments = segments(file);
        let streams = streams(&segments);
        for c in &connections(&segments) {
            let own = |s: &&Segment| {
                (s.src, s.dst) == (c.client, c.server) || (s.dst, s.src) == (c.client, c.server)
            };
            let mut first: HashMap<Endpoint, u64> = HashMap::new();
            let mut mapped = 0;
            for s in segments.iter().filter(own) {
                let Some((dsn, m)) = mapping(s, c) else {
                    continue;
                };
                first.entry(s.src).or_insert(dsn);
                assert_eq!(m.checksum.is_some(), with_checksums);
                mapped += 1;
                let Some(found) = m.checksum else { continue };
                let fin = usize::from(s.options.dss.is_some_and(|d| d.data_fin));
                let data = streams[&(s.src, s.dst)].bytes(m.ssn, usize::from(m.len) - fin);
                assert_eq!(data.len(), usize::from(m.len) - fin);
                let computed = dss_checksum(dsn, m.ssn, m.len, [&data[..]]);
                assert!(same_checksum(computed, found), "{computed:#06x} {s:?}");
            }
            assert!(mapped >= 6, "{mapped} mappings");
            assert_eq!(first[&c.client], idsn(c.client_key).wrapping_add(1));
            assert_eq!(first[&c.server], idsn(c.server_key).wrapping_add(1));
        }
    }
}

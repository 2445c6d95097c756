//! Helpers that the tests of lying peers share: real bytes, a stack under attack, and an honest connection next
//! to it.

use spindle_mptcp::path_manager::Passive;
use spindle_mptcp::{CloseReason, Config, StackConfig, keys};
use spindle_wire::{DataNumber, Flags, Mapping, Payload, Segment, SeqNumber};

use crate::peer::{Bench, Flow, PEER_KEY, capable, config, end, here, syn, there};

/// The byte at `offset` of an honest peer's stream. Lying peers send other `flavour`s of it.
pub(crate) fn byte_at(flavour: u8, offset: u64) -> u8 {
    ((offset * 31 + offset / 251) % 251) as u8 ^ flavour
}

/// Real bytes of a flavour.
pub(crate) fn bytes(flavour: u8, from: u64, len: u64) -> Vec<u8> {
    (from..from + len).map(|x| byte_at(flavour, x)).collect()
}

/// An MPTCP server with a connection to the liar.
pub(crate) fn passive() -> (Bench, Flow) {
    Bench::server(config(Passive), StackConfig::default())
}

/// Like [`passive`], with configuration `c` and a second subflow.
pub(crate) fn two_subflows(c: Config) -> (Bench, Flow, Flow) {
    let (mut b, first) = Bench::server(c, StackConfig::default());
    let second = joined(&mut b, "10.0.1.2:9", 1);
    assert_eq!(subflows(&b), 2);
    (b, first, second)
}

/// A further subflow of the peer, with its handshake complete.
pub(crate) fn joined(b: &mut Bench, from: &str, id: u8) -> Flow {
    let (flow, out) = b.join(end(from), id, 0);
    assert!(!reset(&out), "{out:?}");
    let seg = b.data_ack(&flow, 0);
    b.push(seg);
    flow
}

/// A server whose peer uses `key` instead of the usual key.
pub(crate) fn server_of(key: u64) -> (Bench, Flow) {
    let mut b = Bench::listening(config(Passive), StackConfig::default());
    let mut flow = Flow::new(here(), there(), 5000, SeqNumber(0));
    let mut first = syn(&flow, Flags::SYN);
    first.options.rare_mut().mp_capable = Some(capable(None, None));
    flow.seq = flow.seq + 1;
    let out = b.push(first);
    flow.ack = out[0].seq + 1;
    let answer = out[0].options.rare.as_ref().unwrap().mp_capable.unwrap();
    b.key = answer.sender_key.unwrap();
    let mut third = flow.segment(Flags::ACK);
    third.options.rare_mut().mp_capable = Some(capable(Some(key), Some(b.key)));
    b.push(third);
    b.handle = b.stack.handles().next();
    let seg = b.data_ack(&flow, 0);
    b.push(seg);
    (b, flow)
}

/// The next segment on `flow`, with the peer's bytes `[offset, offset + len)` of a flavour.
pub(crate) fn data(b: &Bench, flow: &mut Flow, offset: u64, len: u16, flavour: u8) -> Segment {
    let mut seg = b.data(flow, offset, len);
    seg.payload = Payload::from(bytes(flavour, offset, u64::from(len)));
    seg
}

/// The next segment on `flow`, with bytes but without a mapping.
pub(crate) fn unmapped(b: &Bench, flow: &mut Flow, offset: u64, len: u16) -> Segment {
    let mut seg = data(b, flow, offset, len, 0);
    if let Some(d) = seg.options.dss.as_mut() {
        d.mapping = None;
    }
    seg
}

/// An acknowledgement without payload, with a mapping.
pub(crate) fn mapping(b: &Bench, flow: &Flow, ssn: u32, dsn: DataNumber, len: u16) -> Segment {
    let mut seg = b.data_ack(flow, 0);
    seg.options.dss.as_mut().unwrap().mapping = Some(Mapping {
        dsn,
        ssn,
        len,
        checksum: None,
    });
    seg
}

/// The peer's data sequence number at a data offset, as the low 32 bits that an option contains.
pub(crate) fn low(offset: u64) -> DataNumber {
    DataNumber::Low(Bench::peer_dsn(offset) as u32)
}

pub(crate) fn full(offset: u64) -> DataNumber {
    DataNumber::Full(Bench::peer_dsn(offset))
}

pub(crate) fn reset(out: &[Segment]) -> bool {
    out.iter().any(|s| s.flags.contains(Flags::RST))
}

pub(crate) fn subflows(b: &Bench) -> usize {
    let info = b.handle.and_then(|h| b.stack.info(h));
    info.map_or(0, |i| i.subflows.len())
}

/// Reads everything that is readable on the liar's connection.
pub(crate) fn read(b: &mut Bench) -> Vec<u8> {
    let mut got = Vec::new();
    let Some(h) = b.handle else { return got };
    while let Ok(Some(p)) = b.stack.recv(b.now, h, 10_000) {
        got.extend_from_slice(&p.to_bytes());
    }
    got
}

/// The segments of `out` that belong to `flow`.
pub(crate) fn of(flow: &Flow, out: Vec<Segment>) -> Vec<Segment> {
    let mine = |s: &Segment| s.src == flow.here && s.dst == flow.there;
    out.into_iter().filter(mine).collect()
}

/// Checks that a further, plain TCP connection on the same stack transfers 50 kB of real bytes each way and
/// ends cleanly.
pub(crate) fn others_go_on(b: &mut Bench) {
    let known: Vec<_> = b.stack.handles().collect();
    let mut flow = Flow::new(here(), end("10.0.0.99:99"), 1, SeqNumber(0));
    let out = b.push(syn(&flow, Flags::SYN));
    flow.seq = flow.seq + 1;
    flow.ack = of(&flow, out)[0].seq + 1;
    b.push(flow.segment(Flags::ACK));
    let h = b.stack.handles().find(|h| !known.contains(h)).unwrap();
    let mut got = Vec::new();
    for k in 0..50 {
        let mut seg = flow.segment(Flags::ACK);
        seg.payload = Payload::from(bytes(3, 1000 * k, 1000));
        flow.seq = flow.seq + 1000;
        b.push(seg);
        while let Ok(Some(p)) = b.stack.recv(b.now, h, 10_000) {
            got.extend_from_slice(&p.to_bytes());
        }
    }
    assert!(got == bytes(3, 0, 50_000), "what the honest peer sent");
    let sent = b.stack.send(b.now, h, Payload::from(bytes(4, 0, 50_000)));
    assert_eq!(sent, Ok(50_000));
    let mut got = Vec::new();
    let mut out = b.drain();
    for _ in 0..100 {
        for s in of(&flow, out) {
            assert_eq!(s.seq, flow.ack);
            got.extend_from_slice(&s.payload.to_bytes());
            flow.ack = s.seq + s.seq_len();
        }
        if got.len() == 50_000 {
            break;
        }
        out = b.push(flow.segment(Flags::ACK));
    }
    assert!(got == bytes(4, 0, 50_000), "what the honest peer got");
    b.push(flow.segment(Flags::ACK));
    b.stack.close(b.now, h);
    let out = b.drain();
    flow.take(&of(&flow, out));
    b.push(flow.segment(Flags::FIN | Flags::ACK));
    let state = b.stack.info(h).and_then(|i| i.closed);
    assert_eq!(state, Some(CloseReason::Finished));
}

/// A peer's key whose first data sequence number is within `span` before a multiple of 2^32.
pub(crate) fn key_before_wrap(span: u32) -> u64 {
    let near = |k: &u64| u32::MAX - (keys::idsn(*k) as u32) < span;
    (PEER_KEY..).find(near).unwrap()
}

/// Sets the checksum on the mapping of `seg`, XORed with `wrong` (RFC 8684, section 3.3.1).
pub(crate) fn sum(seg: &mut Segment, offset: u64, wrong: u16) {
    let m = seg.options.dss.as_mut().unwrap().mapping.as_mut().unwrap();
    let dsn = Bench::peer_dsn(offset);
    let right = spindle_wire::dss_checksum_of(dsn, m.ssn, m.len, [&seg.payload]);
    m.checksum = Some(right ^ wrong);
}

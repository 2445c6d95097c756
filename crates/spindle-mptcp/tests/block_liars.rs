//! Peers that lie about parities of blocks. No false data are passed up, and the memory used for their parities
//! is bounded.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod peer;

use std::sync::Arc;

use peer::{Bench, Flow, PEER_KEY, capable, config, end, here, syn, there};
use spindle_codes::{Body, ErasureCode, ReedSolomon, Shape, Source};
use spindle_mptcp::path_manager::Passive;
use spindle_mptcp::recovery::CoFuso;
use spindle_mptcp::{Config, DataCounters, StackConfig};
use spindle_wire::{DataNumber, ExperimentId, Experimental, Flags, Payload, Segment, SeqNumber};

/// Payload bytes of a packet.
const PACKET: u16 = 1000;
/// First byte of the experimental option's data.
const OFFER_BLOCKS: u8 = 3;
const BLOCK: u8 = 5;

fn byte_at(offset: u64) -> u8 {
    ((offset * 31 + offset / 251) % 251) as u8
}

fn bytes(from: u64, len: u64) -> Vec<u8> {
    (from..from + len).map(byte_at).collect()
}

fn say(seg: &mut Segment, data: Vec<u8>) {
    let option = Experimental::of(ExperimentId::Parity, data);
    seg.options.add_experiment(option);
}

fn said(seg: &Segment) -> Option<Vec<u8>> {
    let rare = seg.options.rare.as_ref()?;
    Some(rare.experimental.first()?.data.clone())
}

fn decoding() -> Config {
    let mut c = config(Passive);
    c.recovery = Some(Arc::new(CoFuso::SIMULATION));
    if let Some(m) = &mut c.multipath {
        m.early_dsn_delivery = true;
    }
    c
}

/// A server that agreed to decode, and its peer's first subflow.
fn agreed() -> (Bench, Flow) {
    let mut b = Bench::listening(decoding(), StackConfig::default());
    let mut flow = Flow::new(here(), there(), 5000, SeqNumber(0));
    let mut first = syn(&flow, Flags::SYN);
    first.options.rare_mut().mp_capable = Some(capable(None, None));
    say(&mut first, vec![OFFER_BLOCKS]);
    let out = b.push(first);
    assert_eq!(said(&out[0]), Some(vec![OFFER_BLOCKS]));
    flow.seq = flow.seq + 1;
    flow.ack = out[0].seq + 1;
    let answer = out[0].options.rare.as_ref().unwrap().mp_capable.unwrap();
    b.key = answer.sender_key.unwrap();
    let mut third = flow.segment(Flags::ACK);
    third.options.rare_mut().mp_capable = Some(capable(Some(PEER_KEY), Some(b.key)));
    b.push(third);
    b.handle = b.stack.handles().next();
    let seg = b.data_ack(&flow, 0);
    b.push(seg);
    (b, flow)
}

/// The fields of a coding header.
#[derive(Clone, Copy, Debug)]
struct Header {
    name: u8,
    first: u32,
    end: u32,
    k: u8,
    m: u8,
    index: u8,
    lengths: u32,
    dsns: u32,
}

/// The parity `index`, one of two, of the peer's packets `packets`, which are contiguous in its subflow and in
/// its data.
fn parity(packets: std::ops::Range<u64>, index: usize) -> (Header, Vec<u8>) {
    let len = u64::from(PACKET);
    let bodies: Vec<_> = packets.clone().map(|k| bytes(k * len, len)).collect();
    let sources = packets.clone().zip(&bodies).map(|(k, body)| Source {
        dsn: Bench::peer_dsn(k * len) as u32,
        body: Body::Bytes(body),
    });
    let shape = Shape::new(bodies.len(), 2);
    let sources: Vec<_> = sources.collect();
    let symbol = ReedSolomon::new().encode(shape, index, &sources).unwrap();
    let header = Header {
        name: 0,
        first: 1 + (packets.start * len) as u32,
        end: 1 + (packets.end * len) as u32,
        k: bodies.len() as u8,
        m: 2,
        index: index as u8,
        lengths: symbol.label.len,
        dsns: symbol.label.dsn,
    };
    let spindle_codes::Content::Bytes(body) = symbol.content else {
        panic!("bytes stay bytes");
    };
    (header, body)
}

/// A parity as the next segment of `flow`.
fn carry(b: &Bench, flow: &mut Flow, h: Header, body: &[u8]) -> Segment {
    let mut seg = b.data_ack(flow, 0);
    let mut payload = vec![h.name];
    payload.extend(h.first.to_be_bytes());
    payload.extend(h.end.to_be_bytes());
    payload.extend([h.k, h.m, h.index]);
    payload.extend(h.lengths.to_be_bytes());
    payload.extend(h.dsns.to_be_bytes());
    payload.extend(body);
    let mut marker = vec![BLOCK];
    marker.extend(flow.ssn().to_be_bytes());
    marker.extend((payload.len() as u16).to_be_bytes());
    say(&mut seg, marker);
    flow.seq = flow.seq + payload.len() as u32;
    seg.payload = Payload::from(payload);
    seg
}

/// The peer's packet `k`, as the next segment of `flow`.
fn packet(b: &Bench, flow: &mut Flow, k: u64) -> Segment {
    let offset = k * u64::from(PACKET);
    let mut seg = b.data(flow, offset, PACKET);
    seg.payload = Payload::from(bytes(offset, u64::from(PACKET)));
    seg
}

fn read(b: &mut Bench) -> Vec<u8> {
    let mut got = Vec::new();
    let Some(h) = b.handle else { return got };
    while let Ok(Some(p)) = b.stack.recv(b.now, h, 10_000) {
        got.extend_from_slice(&p.to_bytes());
    }
    got
}

fn counters(b: &Bench) -> DataCounters {
    let info = b.handle.and_then(|h| b.stack.info(h));
    info.expect("open").data
}

/// Pushes packets 0 to 3 without those in `lost`.
fn most_of_four(b: &mut Bench, flow: &mut Flow, lost: &[u64]) {
    for k in 0..4 {
        let seg = packet(b, flow, k);
        if !lost.contains(&k) {
            b.push(seg);
        }
    }
}

#[test]
fn decoded_data_are_acknowledged_only_at_the_data_level() {
    let (mut b, mut flow) = agreed();
    most_of_four(&mut b, &mut flow, &[1]);
    assert_eq!(read(&mut b), bytes(0, 1000));
    let (h, body) = parity(0..4, 0);
    let seg = carry(&b, &mut flow, h, &body);
    let out = b.push(seg);
    assert_eq!(read(&mut b), bytes(1000, 3000));
    let last = out.last().expect("an acknowledgement");
    let ack = last.options.dss.and_then(|d| d.data_ack);
    assert_eq!(ack, Some(DataNumber::Low(Bench::peer_dsn(4000) as u32)));
    assert_eq!(
        last.ack,
        SeqNumber(5000) + 1 + 1000,
        "the hole is still there"
    );
    let c = counters(&b);
    assert_eq!(
        (c.packets_decoded, c.bytes_received, c.bytes_duplicate),
        (1, 4000, 0)
    );
    // The original and another parity change nothing.
    let mut late = Flow::new(flow.here, flow.there, 5000, flow.ack);
    late.seq = SeqNumber(5000) + 1 + 1000;
    let seg = packet(&b, &mut late, 1);
    b.push(seg);
    let (h, body) = parity(0..4, 1);
    let seg = carry(&b, &mut flow, h, &body);
    b.push(seg);
    assert_eq!(read(&mut b), []);
    let c = counters(&b);
    assert_eq!((c.parities_received, c.parities_refused), (2, 0));
    assert_eq!((c.bytes_received, c.bytes_duplicate), (4000, 1000));
    // Data that follow the parities in their subflow are passed up.
    let seg = packet(&b, &mut flow, 4);
    b.push(seg);
    assert_eq!(read(&mut b), bytes(4000, 1000));
}

#[test]
fn packet_that_arrives_after_the_parity_completes_its_block() {
    let (mut b, mut flow) = agreed();
    let two = flow;
    most_of_four(&mut b, &mut flow, &[1, 2]);
    let (h, body) = parity(0..4, 1);
    let seg = carry(&b, &mut flow, h, &body);
    b.push(seg);
    assert_eq!(read(&mut b), bytes(0, 1000));
    let mut late = two;
    late.seq = two.seq + 2000;
    let seg = packet(&b, &mut late, 2);
    b.push(seg);
    assert_eq!(read(&mut b), bytes(1000, 3000));
    assert_eq!(counters(&b).packets_decoded, 1);
}

#[test]
fn false_parity_headers_are_counted_and_deliver_no_data() {
    let (true_header, body) = parity(0..4, 0);
    let h = true_header;
    let lies = [
        Header { name: 1, ..h },
        Header { k: 0, ..h },
        Header { k: 3, ..h },
        Header {
            k: 255,
            m: 255,
            ..h
        },
        Header { m: 0, ..h },
        Header {
            m: 1,
            index: 1,
            ..h
        },
        Header { index: 255, ..h },
        Header { end: h.first, ..h },
        Header {
            end: h.first.wrapping_sub(1000),
            ..h
        },
        Header {
            end: h.end + 1,
            ..h
        },
        Header {
            first: h.first.wrapping_add(1 << 31),
            end: h.end.wrapping_add(1 << 31),
            ..h
        },
        Header {
            first: h.first + 100_000_000,
            end: h.end + 100_000_000,
            ..h
        },
        Header {
            first: h.first.wrapping_sub(10),
            ..h
        },
        Header {
            lengths: h.lengths ^ 1,
            ..h
        },
        Header {
            lengths: h.lengths ^ 0x8000_0000,
            ..h
        },
        Header {
            dsns: h.dsns ^ 0x4000_0000,
            ..h
        },
        Header {
            dsns: h.dsns.wrapping_add(500_000_000),
            ..h
        },
    ];
    for lie in lies {
        let (mut b, mut flow) = agreed();
        most_of_four(&mut b, &mut flow, &[1]);
        let seg = carry(&b, &mut flow, lie, &body);
        let out = b.push(seg);
        assert!(!out.iter().any(|s| s.flags.contains(Flags::RST)), "{lie:?}");
        assert_eq!(read(&mut b), bytes(0, 1000), "{lie:?}");
        assert_eq!(counters(&b).parities_refused, 1, "{lie:?}");
        // The retransmission repairs the loss, and the parity's bytes are not taken for data.
        let mut late = Flow::new(flow.here, flow.there, 5000, flow.ack);
        late.seq = SeqNumber(5000) + 1 + 1000;
        let seg = packet(&b, &mut late, 1);
        b.push(seg);
        let seg = packet(&b, &mut flow, 4);
        b.push(seg);
        assert_eq!(read(&mut b), bytes(1000, 4000), "{lie:?}");
    }
}

#[test]
fn partial_parities_are_refused_and_deliver_no_data() {
    let (mut b, mut flow) = agreed();
    most_of_four(&mut b, &mut flow, &[1]);
    let (h, body) = parity(0..4, 0);
    let whole = carry(&b, &mut flow, h, &body);
    for (at, len) in [(0, 500), (500, 520)] {
        let mut piece = whole.clone();
        piece.seq = whole.seq + at as u32;
        piece.payload = whole.payload.slice(at, len);
        b.push(piece);
    }
    let mut short = carry(&b, &mut flow, h, &body);
    short.payload = short.payload.slice(0, 7);
    b.push(short);
    assert_eq!(read(&mut b), bytes(0, 1000));
    assert_eq!(counters(&b).parities_refused, 3);
}

#[test]
fn resegmented_packets_are_not_used_for_decoding() {
    let (mut b, mut flow) = agreed();
    let whole = [0, 1].map(|k| packet(&b, &mut flow, k));
    for at in [0, 500] {
        let mut piece = whole[0].clone();
        piece.seq = piece.seq + at as u32;
        piece.payload = piece.payload.slice(at, 500);
        b.push(piece);
    }
    let (h, body) = parity(0..2, 0);
    let seg = carry(&b, &mut flow, h, &body);
    b.push(seg);
    assert_eq!(read(&mut b), bytes(0, 1000));
    let c = counters(&b);
    assert_eq!((c.packets_decoded, c.parities_refused), (0, 0), "it waits");
}

#[test]
fn million_false_parities_use_bounded_memory() {
    let (mut b, mut flow) = agreed();
    most_of_four(&mut b, &mut flow, &[1, 2]);
    let (h, _) = parity(0..4, 0);
    let most = decoding().tcp.receive_buffer as u64;
    let body = [7; 30];
    for n in 0..1_000_000u32 {
        // In turn: blocks that overlap, blocks that contradict each other, and valid blocks.
        let first = 4001 + n.wrapping_mul(2_654_435_761) % 1_000_000;
        let k = 1 + (n % 200) as u8;
        let lie = Header {
            first,
            end: first + u32::from(k) * 30,
            k,
            m: 2,
            index: (n % 2) as u8,
            ..h
        };
        let at = flow;
        let seg = carry(&b, &mut flow, lie, &body);
        // The sequence number is reused, as in a repetition, so that the subflow's window does not end the
        // test.
        flow = at;
        b.push(seg);
    }
    assert!(b.stack.buffered() < most, "{}", b.stack.buffered());
    assert!(b.stack.buffered() < 100_000, "{}", b.stack.buffered());
    let c = counters(&b);
    assert_eq!((c.parities_received, c.packets_decoded), (1_000_000, 0));
    assert_eq!(read(&mut b), bytes(0, 1000));
}

#[test]
fn parity_identifies_a_subflow_by_the_peers_name_for_it() {
    let (mut b, mut flow) = agreed();
    let (mut second, mut seg) = b.join_syn(end("10.0.1.2:9"), 1, spindle_mptcp::keys::token(b.key));
    say(&mut seg, vec![4, 77]);
    let out = b.push(seg);
    second.seq = second.seq + 1;
    second.ack = out[0].seq + 1;
    let Some(spindle_wire::MpJoin::SynAck { nonce, .. }) =
        out[0].options.rare.as_ref().and_then(|r| r.mp_join)
    else {
        panic!("no MP_JOIN: {out:?}");
    };
    let hmac = spindle_mptcp::keys::join_hmac(PEER_KEY, b.key, peer::PEER_NONCE, nonce);
    let mut third = second.segment(Flags::ACK);
    third.options.rare_mut().mp_join = Some(spindle_wire::MpJoin::Ack {
        hmac: spindle_mptcp::keys::leftmost_160(&hmac),
    });
    b.push(third);
    most_of_four(&mut b, &mut second, &[1]);
    let (h, body) = parity(0..4, 0);
    // Over the other subflow, identified by our own identifier and by the peer's name.
    for name in [1, 77] {
        let seg = carry(&b, &mut flow, Header { name, ..h }, &body);
        b.push(seg);
    }
    assert_eq!(read(&mut b), bytes(0, 4000));
    let c = counters(&b);
    assert_eq!((c.packets_decoded, c.parities_refused), (1, 1));
}

#[test]
fn possible_parities_without_options_are_not_taken_for_data() {
    let (mut b, mut flow) = agreed();
    let seg = packet(&b, &mut flow, 0);
    b.push(seg);
    let (h, body) = parity(0..1, 0);
    let reset = |out: &[Segment]| out.iter().any(|s| s.flags.contains(Flags::RST));
    let mut n = 0;
    loop {
        let mut seg = carry(&b, &mut flow, h, &body);
        seg.options = Default::default();
        n += 1;
        if reset(&b.push(seg)) {
            break;
        }
        assert!(n < 100, "no reset after 100 unmapped segments");
    }
    assert_eq!(read(&mut b), bytes(0, 1000));
}

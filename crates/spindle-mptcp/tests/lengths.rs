//! A run with real bytes and a run with payload lengths only produce the same segments.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod support;

use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use spindle_wire::{CodedKind, CodedPacket, Payload, Segment};
use support::scenario::{NAMES, Scenario, scenario};
use support::{Logged, LoggedCoded};

/// Returns the segment with only the length of its payload, and without the checksum of its content.
fn outline(s: &Segment) -> Segment {
    let mut s = s.clone();
    s.payload = Payload::Length(s.payload.len() as u32);
    if let Some(rare) = &mut s.options.rare {
        rare.payload_head.clear();
    }
    if let Some(m) = s.options.dss.as_mut().and_then(|d| d.mapping.as_mut()) {
        m.checksum = m.checksum.map(|_| 0);
    }
    if let Some(c) = s.options.rare.as_mut().and_then(|r| r.mp_capable.as_mut()) {
        c.checksum = c.checksum.map(|_| 0);
    }
    s
}

/// Returns the packet with only the length of its symbol, and without the fields that depend on its content.
fn coded_outline(packet: &CodedPacket) -> CodedPacket {
    let mut packet = packet.clone();
    packet.payload = Payload::Length(packet.payload.len() as u32);
    if let CodedKind::Encoded { twin, len, .. } = &mut packet.header.kind {
        (*twin, *len) = (None, 0);
    }
    packet
}

/// Returns every segment, and every packet of the coding layer, that a run puts on the wire.
fn wire(s: &Scenario, real: bool) -> (Vec<Logged>, Vec<LoggedCoded>) {
    let mut run = s.prepare(real);
    run.net.keep_log = true;
    run.net.check_encoding = false;
    s.finish(&mut run);
    (run.net.log, run.net.coded_log)
}

/// Whether a payload is real bytes or empty.
fn is_real(payload: &Payload) -> bool {
    matches!(payload, Payload::Bytes(_)) || payload.is_empty()
}

fn compare(s: &Scenario) {
    let ((bytes, coded_bytes), (lengths, coded_lengths)) = (wire(s, true), wire(s, false));
    for (b, l) in bytes.iter().zip(&lengths) {
        let head = l.segment.payload_head::<20>();
        let same = (b.number, b.at, b.side, b.arrives) == (l.number, l.at, l.side, l.arrives)
            && (head.is_none() || head == b.segment.payload_head())
            && outline(&b.segment) == outline(&l.segment);
        assert!(same, "with bytes: {b:?}\nwith a length: {l:?}");
    }
    for (b, l) in coded_bytes.iter().zip(&coded_lengths) {
        let same = (b.number, b.at, b.side, b.arrives) == (l.number, l.at, l.side, l.arrives)
            && coded_outline(&b.packet) == coded_outline(&l.packet);
        assert!(same, "with bytes: {b:?}\nwith a length: {l:?}");
    }
    assert_eq!(bytes.len(), lengths.len(), "segments");
    assert_eq!(coded_bytes.len(), coded_lengths.len(), "coded packets");
    let real = bytes.iter().all(|b| is_real(&b.segment.payload))
        && coded_bytes.iter().all(|b| is_real(&b.packet.payload));
    let none = lengths.iter().map(|l| &l.segment.payload);
    let none = none
        .chain(coded_lengths.iter().map(|l| &l.packet.payload))
        .all(|p| matches!(p, Payload::Length(_)));
    assert!(real && none, "a payload changed its kind");
}

#[test]
fn real_bytes_and_payload_lengths_produce_the_same_segments() {
    let per_preset = 25;
    let mut rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    for (preset, name) in NAMES.iter().enumerate() {
        let config = Config {
            cases: per_preset,
            failure_persistence: None,
            ..Config::default()
        };
        let mut runner = TestRunner::new_with_rng(config, rng.clone());
        let result = runner.run(&scenario(false), |mut s| {
            s.preset = preset;
            compare(&s);
            Ok(())
        });
        match result {
            Ok(()) => {}
            Err(TestError::Fail(reason, s)) => {
                panic!("{}: {reason}\nSmallest: {s:?}", name)
            }
            Err(e) => panic!("{e}"),
        }
        rng = runner.new_rng();
    }
}

//! A run with real bytes and a run with payload lengths only produce the same segments.

mod support;

use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use spindle_wire::{CodedKind, Payload, Segment};
use support::scenario::{NAMES, Scenario, scenario};
use support::{Logged, coded_mut};

/// Returns the segment with only the length of its payload, and without the checksum of its content.
fn outline(s: &Segment) -> Segment {
    let mut s = s.clone();
    s.payload = Payload::Length(s.payload.len() as u32);
    if let Some(rare) = &mut s.options.rare {
        rare.payload_head.clear();
    }
    if let Some(CodedKind::Encoded { twin, len, .. }) = coded_mut(&mut s) {
        (*twin, *len) = (None, 0);
    }
    if let Some(m) = s.options.dss.as_mut().and_then(|d| d.mapping.as_mut()) {
        m.checksum = m.checksum.map(|_| 0);
    }
    if let Some(c) = s.options.rare.as_mut().and_then(|r| r.mp_capable.as_mut()) {
        c.checksum = c.checksum.map(|_| 0);
    }
    s
}

/// Returns every segment that a run puts on the wire.
fn wire(s: &Scenario, real: bool) -> Vec<Logged> {
    let mut run = s.prepare(real);
    run.net.keep_log = true;
    run.net.check_encoding = false;
    s.finish(&mut run);
    run.net.log
}

fn compare(s: &Scenario) {
    let (bytes, lengths) = (wire(s, true), wire(s, false));
    for (k, (b, l)) in bytes.iter().zip(&lengths).enumerate() {
        let head = l.segment.payload_head::<20>();
        let same = (b.at, b.side, b.arrives) == (l.at, l.side, l.arrives)
            && (head.is_none() || head == b.segment.payload_head())
            && outline(&b.segment) == outline(&l.segment);
        assert!(same, "segment {k} with bytes: {b:?}\nwith a length: {l:?}");
    }
    assert_eq!(bytes.len(), lengths.len(), "segments");
    let real = bytes
        .iter()
        .all(|b| matches!(b.segment.payload, Payload::Bytes(_)) || b.segment.payload.is_empty());
    let none = lengths
        .iter()
        .all(|l| matches!(l.segment.payload, Payload::Length(_)));
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

//! Lengths behave like bytes: they decode in the same cases, to the same lengths and DSNs, and are refused
//! alike.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod common;

use common::Packets;
use proptest::prelude::*;
use spindle_codes::{
    Body, CodeError, Content, ErasureCode, Ideal, Ldpc, Parity, Recovered, ReedSolomon, Shape,
    Source, Symbol, Xor,
};

/// The index, DSN and length of each packet, without its bytes.
fn outline(
    recovered: Result<Vec<Recovered>, CodeError>,
) -> Result<Vec<(usize, u32, usize)>, CodeError> {
    let of = |r: Recovered| (r.index, r.dsn, r.content.len());
    recovered.map(|packets| packets.into_iter().map(of).collect())
}

fn encode(code: &dyn ErasureCode, shape: Shape, sources: &[Source<'_>]) -> Vec<Symbol> {
    (0..shape.parities)
        .map(|row| code.encode(shape, row, sources).expect("a block"))
        .collect()
}

/// A fault of a parity in transit that a parity with only a length can have, too.
#[derive(Clone, Copy, Debug)]
enum Fault {
    None,
    /// The coded length is changed.
    Len(u32),
    /// The parity's body has another length.
    Width(u32),
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        3 => Just(Fault::None),
        1 => any::<u32>().prop_map(Fault::Len),
        1 => (0u32..200).prop_map(Fault::Width),
    ]
}

fn damage(symbol: &mut Symbol, fault: Fault) {
    match fault {
        Fault::None => {}
        Fault::Len(flip) => symbol.label.len ^= flip,
        Fault::Width(width) => match &mut symbol.content {
            Content::Bytes(bytes) => bytes.resize(width as usize, 0),
            Content::Length(len) => *len = width,
        },
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn block_of_lengths_decodes_like_a_block_of_zeros(
        k in 1usize..20, m in 1usize..5, lost in any::<u32>(), seed in 0usize..1000,
        fault in fault(), faulty in 0usize..5, which in 0usize..5,
    ) {
        let m = if which == 0 { 1 } else { m };
        let codes: [&dyn ErasureCode; 5] = [
            &Xor::new(), &ReedSolomon::new(), &Ldpc::systematic(1), &Ldpc::non_systematic(1), &Ideal::new(),
        ];
        let code = codes[which];
        let mut packets = Packets::new(k, |i| (i * 31 + seed) % 97);
        for packet in &mut packets.bytes {
            packet.fill(0);
        }
        let shape = Shape::new(k, m);
        let outlines = [packets.sources(), packets.lengths()].map(|sources| {
            let mut made = encode(code, shape, &sources);
            damage(&mut made[faulty % m], fault);
            let arrived: Vec<_> = sources
                .iter()
                .enumerate()
                .map(|(i, s)| (lost >> i & 1 == 0).then_some(*s))
                .collect();
            let have: Vec<Parity<'_>> = made
                .iter()
                .enumerate()
                .filter(|(i, _)| lost >> (k + i) & 1 == 0)
                .map(|(i, s)| s.as_parity(i))
                .collect();
            outline(code.decode(shape, &arrived, &have))
        });
        prop_assert_eq!(&outlines[0], &outlines[1]);
    }

    #[test]
    fn without_faults_bytes_decode_like_lengths(
        k in 1usize..20, m in 1usize..5, lost in any::<u32>(), seed in 0usize..1000,
    ) {
        let code = ReedSolomon::new();
        let packets = Packets::new(k, |i| (i * 31 + seed) % 97);
        let shape = Shape::new(k, m);
        let outlines = [packets.sources(), packets.lengths()].map(|sources| {
            let made = encode(&code, shape, &sources);
            let arrived: Vec<_> = sources
                .iter()
                .enumerate()
                .map(|(i, s)| (lost >> i & 1 == 0).then_some(*s))
                .collect();
            let have: Vec<_> = made.iter().enumerate().map(|(i, s)| s.as_parity(i)).collect();
            outline(code.decode(shape, &arrived, &have))
        });
        prop_assert_eq!(&outlines[0], &outlines[1]);
    }
}

#[test]
fn lengths_stay_lengths_and_mix_with_bytes() {
    let code = ReedSolomon::new();
    let shape = Shape::new(3, 2);
    let source = |dsn, body| Source { dsn, body };
    let lengths = [60_000, 12, 0].map(|len| source(len, Body::Length(len)));
    let made = encode(&code, shape, &lengths);
    assert_eq!(made[1].content, Content::Length(60_000));
    let parities = [made[0].as_parity(0), made[1].as_parity(1)];
    let recovered = code.decode(shape, &[None, Some(lengths[1]), None], &parities);
    let contents: Vec<_> = recovered
        .expect("decodes")
        .into_iter()
        .map(|r| r.content)
        .collect();
    assert_eq!(contents, [Content::Length(60_000), Content::Length(0)]);

    // A length among bytes counts as zeros.
    let mixed = [
        source(1, Body::Bytes(b"bytes")),
        source(6, Body::Length(8)),
        source(14, Body::Length(0)),
    ];
    let zeros = [
        mixed[0],
        source(6, Body::Bytes(&[0; 8])),
        source(14, Body::Bytes(&[])),
    ];
    let made = encode(&code, shape, &mixed);
    assert_eq!(made, encode(&code, shape, &zeros));
    let arrived = [None, Some(mixed[1]), Some(mixed[2])];
    let recovered = code.decode(shape, &arrived, &[made[1].as_parity(1)]);
    assert_eq!(
        recovered.expect("decodes")[0].content,
        Content::Bytes(b"bytes".to_vec())
    );
    assert_eq!(
        code.agrees(
            shape,
            &zeros,
            &Parity {
                body: Body::Length(8),
                ..made[0].as_parity(0)
            }
        ),
        Ok(false)
    );
}

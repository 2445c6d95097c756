//! Every loss pattern of small blocks, and random patterns of large blocks, with every kernel.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod common;

use common::{Packets, bytes};
use proptest::prelude::*;
use spindle_codes::{
    CodeError, Combination, ErasureCode, Kernel, ReedSolomon, Shape, Source, Symbol, Xor,
};

/// All parities of a block.
fn parities(code: &dyn ErasureCode, shape: Shape, sources: &[Source<'_>]) -> Vec<Symbol> {
    (0..shape.parities)
        .map(|row| code.encode(shape, row, sources).expect("a block"))
        .collect()
}

/// Loses the packets and parities whose bits are set, and checks the result: all packets if the number of
/// symbols suffices, the typed error otherwise. `made` are the block's parities.
fn lose(code: &dyn ErasureCode, shape: Shape, packets: &Packets, made: &[Symbol], lost: u32) {
    let gone = |i: usize| lost >> i & 1 == 1;
    let sources = packets.sources();
    let arrived: Vec<_> = sources
        .iter()
        .enumerate()
        .map(|(i, source)| (!gone(i)).then_some(*source))
        .collect();
    let missing: Vec<_> = (0..shape.sources).filter(|i| gone(*i)).collect();
    let indices: Vec<_> = (0..shape.parities)
        .filter(|i| !gone(shape.sources + i))
        .collect();
    let have: Vec<_> = indices.iter().map(|i| made[*i].as_parity(*i)).collect();

    let enough = missing.len() <= have.len();
    assert_eq!(code.decodable(shape, &missing, &indices), enough);
    match code.decode(shape, &arrived, &have) {
        Ok(recovered) => {
            assert!(enough, "{shape:?} {lost:b}: decoded from too little");
            packets.check(&missing, &recovered);
        }
        Err(error) => {
            let expected = CodeError::Undecodable {
                missing: missing.len(),
                parities: have.len(),
            };
            assert_eq!(error, expected, "{shape:?} {lost:b}");
            assert!(!enough, "{shape:?} {lost:b}: not decoded");
        }
    }
}

#[test]
fn every_loss_of_up_to_12_packets_and_4_parities_is_repaired_or_reported() {
    for kernel in Kernel::available() {
        let code = ReedSolomon::with_kernel(kernel);
        for sources in 1..=12 {
            let packets = Packets::new(sources, |i| (i * 37 + 11) % 50);
            for parities_ in 1..=4 {
                let shape = Shape::new(sources, parities_);
                let made = parities(&code, shape, &packets.sources());
                for lost in 0..1 << (sources + parities_) {
                    lose(&code, shape, &packets, &made, lost);
                }
            }
        }
    }
}

#[test]
fn every_loss_of_an_xor_block_is_repaired_or_reported() {
    for kernel in Kernel::available() {
        let code = Xor::with_kernel(kernel);
        for sources in 1..=12 {
            let packets = Packets::new(sources, |i| (i * 37 + 11) % 90);
            let shape = Shape::new(sources, 1);
            let made = parities(&code, shape, &packets.sources());
            for lost in 0..1 << (sources + 1) {
                lose(&code, shape, &packets, &made, lost);
            }
        }
    }
}

#[test]
fn parity_0_is_the_xor_of_bytes_lengths_and_dsns() {
    let packets = Packets::new(9, |i| 1460 - 13 * i);
    let sources = packets.sources();
    let code = ReedSolomon::new();
    let found = code.encode(Shape::new(9, 3), 0, &sources).expect("a block");
    let mut expected = vec![0; 1460];
    let (mut len, mut dsn) = (0, 0);
    for (source, bytes) in sources.iter().zip(&packets.bytes) {
        len ^= bytes.len() as u32;
        dsn ^= source.dsn;
        for (e, b) in expected.iter_mut().zip(bytes) {
            *e ^= b;
        }
    }
    assert_eq!((found.label.len, found.label.dsn), (len, dsn));
    assert_eq!(found.content, spindle_codes::Content::Bytes(expected));
    let xor = Xor::new().encode(Shape::new(9, 1), 0, &sources);
    assert_eq!(xor, Ok(found));
}

#[test]
fn largest_reed_solomon_blocks_are_decoded() {
    let code = ReedSolomon::new();
    for (k, m) in [(256, 1), (255, 2), (250, 7), (129, 128), (2, 255), (1, 256)] {
        let packets = Packets::new(k, |i| i % 7);
        let shape = Shape::new(k, m);
        let sources = packets.sources();
        let made = parities(&code, shape, &sources);
        let lost = k.min(m);
        let mut arrived: Vec<_> = sources.iter().copied().map(Some).collect();
        arrived[k - lost..].fill(None);
        let last = made.iter().enumerate().skip(m - lost);
        let have: Vec<_> = last.map(|(i, symbol)| symbol.as_parity(i)).collect();
        let recovered = code.decode(shape, &arrived, &have).expect("decodes");
        let missing: Vec<_> = (k - lost..k).collect();
        packets.check(&missing, &recovered);
    }
}

#[test]
fn reed_solomon_rows_do_not_depend_on_the_shape() {
    let packets = Packets::new(5, |i| 30 + i);
    let code = ReedSolomon::new();
    for row in 0..3 {
        let of = |m| code.encode(Shape::new(5, m), row, &packets.sources());
        assert_eq!(of(3), of(200));
    }
}

fn block() -> impl Strategy<Value = (Packets, Shape, Vec<usize>, Vec<usize>)> {
    (1usize..60, 1usize..12)
        .prop_flat_map(|(k, m)| {
            let lens = prop::collection::vec(prop_oneof![0usize..80, 0usize..2000], k);
            let all = (0..k + m).collect::<Vec<_>>();
            let lost = prop::sample::subsequence(all, 0..=m);
            (Just(Shape::new(k, m)), lens, lost)
        })
        .prop_map(|(shape, lens, lost)| {
            let k = shape.sources;
            let packets = Packets::new(k, |i| lens[i]);
            let missing = lost.iter().copied().filter(|i| *i < k).collect();
            let have = (0..shape.parities).filter(|i| !lost.contains(&(k + i)));
            (packets, shape, missing, have.collect())
        })
}

proptest! {
    #[test]
    fn random_blocks_are_decoded_alike_with_every_kernel((packets, shape, missing, have) in block()) {
        let sources = packets.sources();
        let model = ReedSolomon::with_kernel(Kernel::SCALAR);
        let expected = parities(&model, shape, &sources);
        let mut arrived: Vec<_> = sources.iter().copied().map(Some).collect();
        for lost in &missing {
            arrived[*lost] = None;
        }
        // Out of order, as parities may arrive.
        let have: Vec<_> = have.iter().rev().map(|i| expected[*i].as_parity(*i)).collect();
        for kernel in Kernel::available() {
            let code = ReedSolomon::with_kernel(kernel);
            prop_assert_eq!(&parities(&code, shape, &sources), &expected, "{:?}", kernel);
            let recovered = code.decode(shape, &arrived, &have);
            packets.check(&missing, &recovered.expect("at most M symbols are lost"));
        }
    }

    #[test]
    fn incremental_combination_equals_the_encoded_parity((packets, shape, ..) in block(), rows in 0usize..3) {
        let row = rows % shape.parities;
        let code = ReedSolomon::new();
        let sources = packets.sources();
        let mut sum = Combination::new(code.kernel());
        for (index, source) in sources.iter().enumerate() {
            sum.add(code.coefficient(shape, row, index), source).expect("short enough");
        }
        prop_assert_eq!(Ok(sum.finish()), code.encode(shape, row, &sources));
    }

    #[test]
    fn parity_agrees_only_with_its_own_block(
        (packets, shape, ..) in block(), flip in any::<prop::sample::Index>(), in_label in any::<bool>(),
    ) {
        let code = ReedSolomon::new();
        let sources = packets.sources();
        let row = shape.parities - 1;
        let mut made = code.encode(shape, row, &sources).expect("a block");
        prop_assert_eq!(code.agrees(shape, &sources, &made.as_parity(row)), Ok(true));
        match &mut made.content {
            spindle_codes::Content::Bytes(b) if !in_label => {
                let at = flip.index(b.len());
                b[at] ^= 1;
            }
            _ => made.label.dsn ^= 1,
        }
        prop_assert_eq!(code.agrees(shape, &sources, &made.as_parity(row)), Ok(false));
    }
}

#[test]
fn test_bytes_differ_between_seeds() {
    assert_ne!(bytes(1, 40), bytes(2, 40));
}

//! Comparison with `reed-solomon-erasure`, an independent implementation of another Reed-Solomon code over the
//! same field.
//!
//! Its generator is a Vandermonde matrix over the points 0, 1, .. made systematic. Its parity at point `x` is
//! the polynomial through the packets at 0..K, evaluated at `x`. By Lagrange this is
//! `a(x) * sum of b(j) / (x + j) * packet j`, where `a(x)` is the product of all `x + m`, and `b(j)` is the
//! inverse of the product of all `j + m` with `m` other than `j`. Our parity is `sum of 1 / (x + j) * packet j`
//! at the points `256 - i`. If the packets are divided by `b(j)` before encoding, and its parity at that point
//! is divided by `a(x)` afterwards, both must agree byte for byte. In the same way its decoder must read our
//! parities. It has no point for parity 0, the XOR, which other tests compare with its definition.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod common;

use common::Packets;
use proptest::prelude::*;
use reed_solomon_erasure::galois_8::{self, ReedSolomon as Other};
use spindle_codes::{Content, ErasureCode, ReedSolomon, Shape, gf_inv, gf_mul};

/// All points of its code.
const POINTS: usize = 256;

/// `a(x)` for `k` packets.
fn a(x: u8, k: usize) -> u8 {
    (0..k).fold(1, |product, m| galois_8::mul(product, x ^ m as u8))
}

/// `b(j)` for `k` packets.
fn b(j: usize, k: usize) -> u8 {
    let others = (0..k).filter(|m| *m != j);
    let product = others.fold(1, |product, m| galois_8::mul(product, (j ^ m) as u8));
    galois_8::div(1, product)
}

fn scaled(bytes: &[u8], factor: u8) -> Vec<u8> {
    bytes.iter().map(|x| galois_8::mul(*x, factor)).collect()
}

/// The point of our parity `row`.
fn point(row: usize) -> u8 {
    (POINTS - row) as u8
}

/// The packets in the form that its code requires: all of the same length, and divided by `b(j)`.
fn shards(packets: &Packets, width: usize) -> Vec<Vec<u8>> {
    let k = packets.bytes.len();
    let padded = packets.bytes.iter().map(|packet| {
        let mut packet = packet.clone();
        packet.resize(width, 0);
        packet
    });
    padded
        .enumerate()
        .map(|(j, packet)| scaled(&packet, galois_8::div(1, b(j, k))))
        .collect()
}

#[test]
fn products_and_inverses_match_reed_solomon_erasure() {
    for x in 0..=255 {
        for y in 0..=255 {
            assert_eq!(gf_mul(x, y), galois_8::mul(x, y));
        }
        assert_eq!(gf_inv(x), (x != 0).then(|| galois_8::div(1, x)));
    }
}

#[test]
fn parities_match_reed_solomon_erasure() {
    for k in [1, 2, 3, 7, 12, 20, 64, 200] {
        let packets = Packets::new(k, |i| (i * 29 + 17) % 61 + 1);
        let width = packets.bytes.iter().map(Vec::len).max().expect("packets");
        let mut all = shards(&packets, width);
        all.resize(POINTS, vec![0; width]);
        Other::new(k, POINTS - k)
            .and_then(|other| other.encode(&mut all))
            .expect("a block");
        let rows = (POINTS - k).min(20);
        let shape = Shape::new(k, rows + 1);
        for row in 1..=rows {
            let ours = ReedSolomon::new()
                .encode(shape, row, &packets.sources())
                .expect("a block");
            let x = point(row);
            let theirs = scaled(&all[x as usize], galois_8::div(1, a(x, k)));
            assert_eq!(ours.content, Content::Bytes(theirs), "K = {k}, row {row}");
        }
    }
}

/// The packets `lost`, decoded by its decoder from the other packets and our parities `rows`.
fn decode_there(other: &Other, packets: &Packets, lost: &[usize], rows: &[usize]) -> Vec<Vec<u8>> {
    let k = packets.bytes.len();
    let width = packets.bytes.iter().map(Vec::len).max().expect("packets");
    let mut all: Vec<_> = shards(packets, width).into_iter().map(Some).collect();
    all.resize(POINTS, None);
    for lost in lost {
        all[*lost] = None;
    }
    let shape = Shape::new(k, POINTS - k);
    for row in rows {
        let ours = ReedSolomon::new()
            .encode(shape, *row, &packets.sources())
            .expect("a block");
        let Content::Bytes(bytes) = ours.content else {
            panic!("real bytes give a real parity");
        };
        all[point(*row) as usize] = Some(scaled(&bytes, a(point(*row), k)));
    }
    other.reconstruct_data(&mut all).expect("enough symbols");
    lost.iter()
        .map(|lost| scaled(all[*lost].as_ref().expect("reconstructed"), b(*lost, k)))
        .collect()
}

/// The packets `lost`, with the padding of their block.
fn padded(packets: &Packets, lost: &[usize]) -> Vec<Vec<u8>> {
    let width = packets.bytes.iter().map(Vec::len).max().expect("packets");
    let padded = lost.iter().map(|lost| {
        let mut packet = packets.bytes[*lost].clone();
        packet.resize(width, 0);
        packet
    });
    padded.collect()
}

fn members(set: u32) -> Vec<usize> {
    (0..32).filter(|i| set >> i & 1 == 1).collect()
}

#[test]
fn reed_solomon_erasure_decodes_our_parities_for_every_loss() {
    for k in 1..=12 {
        let packets = Packets::new(k, |i| (i * 29 + 17) % 23 + 1);
        let other = Other::new(k, POINTS - k).expect("a block");
        for lost in (1u32..1 << k).filter(|lost| lost.count_ones() <= 4) {
            // Every choice of parities 1 to 4.
            let choices = (1u32..1 << 4).filter(|rows| rows.count_ones() == lost.count_ones());
            for rows in choices {
                let (lost, rows) = (members(lost), members(rows << 1));
                let found = decode_there(&other, &packets, &lost, &rows);
                assert_eq!(
                    found,
                    padded(&packets, &lost),
                    "K = {k}, {lost:?} by {rows:?}"
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn reed_solomon_erasure_decodes_our_parities_of_large_blocks(
        k in 13usize..200,
        lost in prop::sample::subsequence((0..13).collect::<Vec<usize>>(), 1..=13),
        stride in 1usize..16,
        rows in prop::sample::subsequence((1..=40).collect::<Vec<usize>>(), 13),
    ) {
        let packets = Packets::new(k, |i| (i * 29 + 17) % 23 + 1);
        // Spread over the block; each index occurs once.
        let lost: Vec<usize> = lost.iter().map(|i| i * stride.min(k / 13)).collect();
        let other = Other::new(k, POINTS - k).expect("a block");
        let found = decode_there(&other, &packets, &lost, &rows[..lost.len()]);
        prop_assert_eq!(found, padded(&packets, &lost));
    }
}

#[test]
fn both_codes_repair_the_same_losses() {
    for (k, m) in (1..=12).flat_map(|k| (1..=4).map(move |m| (k, m))) {
        let packets = Packets::new(k, |i| 24 - i);
        let sources = packets.sources();
        let (ours, shape) = (ReedSolomon::new(), Shape::new(k, m));
        let theirs = Other::new(k, m).expect("a block");
        let mut encoded = packets.bytes.clone();
        encoded.iter_mut().for_each(|packet| packet.resize(24, 0));
        encoded.resize(k + m, vec![0; 24]);
        theirs.encode(&mut encoded).expect("a block");
        let made: Vec<_> = (0..m)
            .map(|row| ours.encode(shape, row, &sources).expect("a block"))
            .collect();
        for lost in 0u32..1 << (k + m) {
            let gone = |i: usize| lost >> i & 1 == 1;
            let arrived: Vec<_> = (0..k).map(|i| (!gone(i)).then_some(sources[i])).collect();
            let have: Vec<_> = (0..m)
                .filter(|i| !gone(k + i))
                .map(|i| made[i].as_parity(i))
                .collect();
            let mut shards: Vec<_> = (0..k + m)
                .map(|i| (!gone(i)).then(|| encoded[i].clone()))
                .collect();
            let there = theirs.reconstruct_data(&mut shards).is_ok();
            let missing: Vec<_> = (0..k).filter(|i| gone(*i)).collect();
            match ours.decode(shape, &arrived, &have) {
                Ok(recovered) => {
                    assert!(there || missing.is_empty());
                    packets.check(&missing, &recovered);
                    for packet in recovered {
                        let there = shards[packet.index].as_ref().expect("reconstructed");
                        let Content::Bytes(here) = packet.content else {
                            panic!("real bytes give real bytes");
                        };
                        assert_eq!(there[..here.len()], here);
                    }
                }
                Err(_) => assert!(!there),
            }
        }
    }
}

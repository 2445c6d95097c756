//! The trait supports codes that are not MDS. A binary code with random rows, like an LDPC code, gets its
//! decoder and `decodable` from its coefficients alone.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod common;

use common::Packets;
use proptest::prelude::*;
use spindle_codes::{CodeError, ErasureCode, Kernel, Limits, Shape};

/// Each parity is the XOR of a random half of the packets.
#[derive(Debug)]
struct RandomBinary {
    seed: u64,
}

impl ErasureCode for RandomBinary {
    fn name(&self) -> &'static str {
        "random-binary"
    }

    fn limits(&self) -> Limits {
        Limits {
            max_sources: 64,
            max_parities: 64,
            max_total: 128,
        }
    }

    fn kernel(&self) -> Kernel {
        Kernel::best()
    }

    fn coefficient(&self, _: Shape, parity: usize, source: usize) -> u8 {
        let mixed = (self.seed ^ ((parity as u64) << 32) ^ source as u64)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
            .wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed >> 63) as u8
    }
}

/// The rank over GF(2) of the parities' rows in the missing packets. Each row is a word.
fn rank(mut rows: Vec<u64>) -> usize {
    let mut rank = 0;
    while let Some(row) = rows.pop() {
        if row != 0 {
            rank += 1;
            let low = row & row.wrapping_neg();
            for other in rows.iter_mut().filter(|other| **other & low != 0) {
                *other ^= row;
            }
        }
    }
    rank
}

proptest! {
    #[test]
    fn binary_code_decodes_exactly_when_its_rank_is_full(
        seed in any::<u64>(), k in 1usize..20, m in 1usize..12, lost in any::<u32>(),
    ) {
        let code = RandomBinary { seed };
        let shape = Shape::new(k, m);
        let packets = Packets::new(k, |i| (i * 13 + 5) % 40);
        let sources = packets.sources();
        let made: Vec<_> = (0..m)
            .map(|row| code.encode(shape, row, &sources).expect("a block"))
            .collect();
        let missing: Vec<_> = (0..k).filter(|i| lost >> i & 3 == 0).collect();
        let rows: Vec<_> = (0..m).filter(|i| lost >> (20 + i) & 1 == 0).collect();
        let mut arrived: Vec<_> = sources.iter().copied().map(Some).collect();
        for lost in &missing {
            arrived[*lost] = None;
        }
        let have: Vec<_> = rows.iter().map(|i| made[*i].as_parity(*i)).collect();

        let bits = |row: &usize| {
            let set = missing.iter().enumerate();
            set.fold(0, |bits, (at, i)| bits | u64::from(code.coefficient(shape, *row, *i)) << at)
        };
        let full = rank(rows.iter().map(bits).collect()) == missing.len();
        prop_assert_eq!(code.decodable(shape, &missing, &rows), full);
        match code.decode(shape, &arrived, &have) {
            Ok(recovered) => {
                prop_assert!(full);
                packets.check(&missing, &recovered);
            }
            Err(error) => {
                prop_assert!(!full);
                let (missing, parities) = (missing.len(), have.len());
                prop_assert_eq!(error, CodeError::Undecodable { missing, parities });
            }
        }
    }
}

//! The binary code needs as few symbols as its documentation states.

#[path = "common/overhead.rs"]
mod overhead;

use overhead::Unit;
use spindle_codes::{ErasureCode, Ideal, Ldpc, ReedSolomon};

/// Packets, redundant packets, and three columns of the documentation of `Ldpc`: the mean number of symbols
/// beyond k and the share of units for which k symbols are not enough, in random order; the mean in order with
/// losses.
const DOCUMENTED: &[(usize, usize, f64, f64, f64)] = &[
    (4, 1, 0.00, 0.00, 0.00),
    (4, 2, 0.20, 0.20, 0.19),
    (4, 4, 0.20, 0.20, 0.21),
    (8, 1, 0.00, 0.00, 0.00),
    (8, 2, 0.27, 0.27, 0.25),
    (8, 4, 0.43, 0.36, 0.52),
    (8, 8, 0.72, 0.49, 0.88),
    (12, 1, 0.00, 0.00, 0.00),
    (12, 3, 0.49, 0.41, 0.55),
    (12, 6, 0.69, 0.50, 0.87),
    (12, 12, 1.11, 0.61, 1.35),
    (16, 2, 0.29, 0.29, 0.29),
    (16, 4, 0.64, 0.47, 0.79),
    (16, 8, 0.86, 0.55, 0.95),
    (16, 16, 1.49, 0.70, 1.54),
    (24, 3, 0.56, 0.45, 0.64),
    (24, 6, 0.72, 0.51, 0.92),
    (24, 12, 1.19, 0.64, 1.35),
    (24, 24, 1.59, 0.71, 1.53),
    (32, 4, 0.77, 0.53, 0.85),
    (32, 8, 1.01, 0.60, 1.19),
    (32, 16, 1.46, 0.69, 1.59),
    (32, 32, 1.58, 0.71, 1.63),
    (48, 6, 0.94, 0.59, 1.19),
    (48, 12, 1.36, 0.68, 1.55),
    (48, 24, 1.63, 0.71, 1.69),
    (48, 48, 1.59, 0.71, 1.66),
    (64, 8, 1.12, 0.64, 1.43),
    (64, 16, 1.47, 0.69, 1.69),
    (64, 32, 1.59, 0.70, 1.66),
    (64, 64, 1.61, 0.71, 1.60),
];

/// The number of units in a mean. Their standard deviation is below 1.6, that of a mean below 0.04.
const UNITS: usize = 2000;

#[test]
fn overheads_match_the_documented_table() {
    let codes: [(&dyn ErasureCode, bool); 2] = [
        (&Ldpc::systematic(Ldpc::SEED), true),
        (&Ldpc::non_systematic(Ldpc::SEED), false),
    ];
    for &(k, r, extra, fail, with_losses) in DOCUMENTED {
        for (code, systematic) in codes {
            let n = k + r;
            let unit = Unit {
                code,
                systematic,
                k,
                n,
            };
            let found = unit.in_any_order(UNITS, 11);
            let near = |found: f64, expected: f64, by: f64| (found - expected).abs() <= by;
            assert!(near(found.extra, extra, 0.12), "{k} {r}: {found:?}");
            assert!(near(found.fail[0], fail, 0.05), "{k} {r}: {found:?}");
            assert!(found.fail.is_sorted_by(|a, b| a >= b), "{found:?}");
            let found = unit.with_losses(UNITS, 12);
            assert!(near(found.extra, with_losses, 0.15), "{k} {r}: {found:?}");
        }
    }
}

#[test]
fn other_seeds_have_a_similar_overhead() {
    for seed in 2..10 {
        for (k, r, most) in [
            (8, 4, 0.5),
            (16, 4, 0.75),
            (16, 8, 1.1),
            (32, 8, 1.25),
            (64, 16, 1.65),
        ] {
            let code = &Ldpc::systematic(seed);
            let (systematic, n) = (true, k + r);
            let unit = Unit {
                code,
                systematic,
                k,
                n,
            };
            let found = unit.in_any_order(UNITS, seed);
            assert!(found.extra < most, "seed {seed}, {k} {r}: {found:?}");
        }
    }
}

#[test]
fn mds_codes_have_no_overhead() {
    let codes: [(&dyn ErasureCode, bool); 3] = [
        (&ReedSolomon::new(), true),
        (&ReedSolomon::new(), false),
        (&Ideal::new(), false),
    ];
    for (code, systematic) in codes {
        for (k, r) in [(1, 1), (8, 4), (64, 16)] {
            let n = k + r;
            let unit = Unit {
                code,
                systematic,
                k,
                n,
            };
            for found in [unit.in_any_order(50, 3), unit.with_losses(50, 4)] {
                assert_eq!((found.extra, found.fail), (0.0, [0.0; 4]));
            }
        }
    }
}

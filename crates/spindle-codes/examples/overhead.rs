//! How many symbols beyond k the codes' units need: the tables in `Ldpc`'s documentation.
//!
//!     cargo run --release -p spindle-codes --example overhead [UNITS [SEED]]
//!
//! UNITS is the number of units decoded for each line (default 20000). SEED is the seed of the code (default:
//! that of the documentation).

#[path = "../tests/common/overhead.rs"]
mod overhead;

use overhead::{Overhead, Unit};
use spindle_codes::{ErasureCode, Ldpc, ReedSolomon};

fn main() {
    let mut arguments = std::env::args().skip(1).map_while(|a| a.parse().ok());
    let units = arguments.next().unwrap_or(20_000);
    let seed = arguments.next().unwrap_or(Ldpc::SEED);
    let codes: [(&str, &dyn ErasureCode, bool); 3] = [
        ("systematic", &Ldpc::systematic(seed), true),
        ("not", &Ldpc::non_systematic(seed), false),
        ("rs", &ReedSolomon::new(), true),
    ];
    println!("in any order, and with losses: mean extra; share of failures with 0, 1, 2, 3 extra");
    for k in [4, 8, 12, 16, 24, 32, 48, 64] {
        for r in [(k / 8).max(1), k / 4, k / 2, k] {
            for (name, code, systematic) in codes {
                let n = k + r;
                let unit = Unit {
                    code,
                    systematic,
                    k,
                    n,
                };
                let (any, lossy) = (
                    unit.in_any_order(units as usize, 7),
                    unit.with_losses(units as usize, 8),
                );
                println!("{k:3} {r:3} {name:10} {} | {}", line(any), line(lossy));
            }
        }
    }
}

fn line(Overhead { extra, fail }: Overhead) -> String {
    let [a, b, c, d] = fail;
    format!("{extra:5.2}  {a:.3} {b:.3} {c:.3} {d:.3}")
}

//! The harness of `live_stack` fed by a seeded generator: `live_loop SECONDS [SEED]`. For compilers
//! without coverage-guided fuzzing; a failure prints the seed that repeats it as `live_loop 0 SEED`.

use std::time::{Duration, Instant};

use arbitrary::{Arbitrary, Unstructured};
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use spindle_fuzz::live::{Script, play};

/// Bytes of one script at most.
const MOST: u64 = 2048;

fn script(seed: u64) -> Option<Script> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut bytes = vec![0; (64 + rng.next_u64() % MOST) as usize];
    rng.fill_bytes(&mut bytes);
    Script::arbitrary(&mut Unstructured::new(&bytes)).ok()
}

fn main() {
    let mut args = std::env::args()
        .skip(1)
        .filter_map(|a| a.parse::<u64>().ok());
    let seconds = args.next().unwrap_or(60);
    let first = args.next().unwrap_or(1);
    let until = Instant::now() + Duration::from_secs(seconds);
    let mut runs = 0u64;
    loop {
        let seed = first.wrapping_add(runs);
        if let Some(s) = script(seed) {
            let outcome = std::panic::catch_unwind(|| play(&s));
            if outcome.is_err() {
                eprintln!("seed {seed} fails after {runs} scripts");
                std::process::exit(1);
            }
        }
        runs += 1;
        if Instant::now() >= until {
            break;
        }
    }
    println!("{runs} scripts, none failed");
}

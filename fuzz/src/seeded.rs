//! Harnesses with input from a seeded generator, for compilers without coverage-guided fuzzing: `PROGRAM
//! SECONDS [SEED]`. A failure prints the seed. `PROGRAM 0 SEED` repeats it.

use std::time::{Duration, Instant};

use arbitrary::{Arbitrary, Unstructured};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Limit of the random part of a script's length in bytes.
const MOST: u64 = 2048;

/// The bytes from which the script of this seed is read.
pub fn bytes(seed: u64) -> Vec<u8> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut bytes = vec![0; (64 + rng.next_u64() % MOST) as usize];
    rng.fill_bytes(&mut bytes);
    bytes
}

fn script<S: for<'a> Arbitrary<'a>>(seed: u64) -> Option<S> {
    S::arbitrary(&mut Unstructured::new(&bytes(seed))).ok()
}

/// Plays scripts for as long as the command line requests, and returns their number. Exits at the first failing
/// script.
pub fn run<S: for<'a> Arbitrary<'a> + std::panic::UnwindSafe>(mut play: impl FnMut(&S)) -> u64 {
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
            let mut play = std::panic::AssertUnwindSafe(&mut play);
            if std::panic::catch_unwind(move || play(&s)).is_err() {
                eprintln!("seed {seed} fails after {runs} scripts");
                std::process::exit(1);
            }
        }
        runs += 1;
        if Instant::now() >= until {
            return runs;
        }
    }
}

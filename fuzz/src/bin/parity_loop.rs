//! The harness of `block_parities` with input from a seeded generator. See [`spindle_fuzz::seeded`].

use spindle_fuzz::{parities, seeded};

fn main() {
    let (mut decoded, mut refused) = (0, 0);
    let runs = seeded::run(|script| {
        let outcome = parities::play(script);
        decoded += outcome.decoded;
        refused += outcome.refused;
    });
    println!("{runs} scripts, none failed: {decoded} packets decoded, {refused} parities refused");
}

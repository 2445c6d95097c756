//! The harness of `coded_units` with input from a seeded generator. See [`spindle_fuzz::seeded`].

use spindle_fuzz::{seeded, units};

fn main() {
    let mut sum = units::Outcome::default();
    let runs = seeded::run(|script| {
        let outcome = units::play(script);
        sum.decoded += outcome.decoded;
        sum.refused += outcome.refused;
        sum.passed += outcome.passed;
    });
    println!(
        "{runs} scripts, none failed: {} units decoded, {} packets and units refused, {} changed units with the right checksums",
        sum.decoded, sum.refused, sum.passed
    );
}

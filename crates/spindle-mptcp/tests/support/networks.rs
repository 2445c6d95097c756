//! Trying what is drawn at random: the same in every run unless asked otherwise, and the smallest that goes
//! wrong.
//!
//! `SPINDLE_NETWORKS` sets how many random networks are tried, `SPINDLE_NETWORKS_SEED` which.

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

use super::scenario::{Scenario, scenario};

/// Steps towards a smaller one that goes wrong as well, at most.
const SHRINKS: u32 = 4000;

fn number(name: &str) -> Option<u32> {
    std::env::var(name).ok()?.parse().ok()
}

/// How many networks are tried: as many as the environment says, or else as in the ordinary test run.
pub(crate) fn asked_for(ordinary: u32) -> u32 {
    number("SPINDLE_NETWORKS").unwrap_or(ordinary)
}

/// Tries `count` networks that `drawn` draws; tests of different `stream`s try different ones.
pub(crate) fn try_networks(
    count: u32,
    stream: u8,
    drawn: &impl Strategy<Value = Scenario>,
    check: impl Fn(Scenario),
) {
    let mut seed = [stream; 32];
    seed[..4].copy_from_slice(&number("SPINDLE_NETWORKS_SEED").unwrap_or(1).to_le_bytes());
    try_all(count, seed, drawn, check);
}

/// As [`try_networks`], as many as are [asked for](asked_for), of nothing but [`scenario`]'s.
pub(crate) fn try_scenarios(ordinary: u32, stream: u8, check: impl Fn(Scenario)) {
    try_networks(asked_for(ordinary), stream, &scenario(false), check);
}

/// Tries `count` of what `drawn` draws from this seed; panics with the smallest that goes wrong.
pub(crate) fn try_all<S: Strategy>(
    count: u32,
    seed: [u8; 32],
    drawn: &S,
    check: impl Fn(S::Value),
) {
    let config = Config {
        cases: count,
        max_shrink_iters: SHRINKS,
        failure_persistence: None,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let result = runner.run(drawn, |value| {
        check(value);
        Ok(())
    });
    match result {
        Ok(()) => {}
        Err(TestError::Fail(reason, smallest)) => panic!("{reason}\nSmallest: {smallest:?}"),
        Err(e) => panic!("{e}"),
    }
}

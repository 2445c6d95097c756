//! Runs checks on random values: the same values in every run unless the environment says otherwise. A failure
//! reports the smallest failing value.
//!
//! `SPINDLE_NETWORKS` sets the number of random networks, and `SPINDLE_NETWORKS_SEED` their seed.

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

use super::scenario::{Scenario, scenario};

/// Limit of steps to shrink a failing value.
const SHRINKS: u32 = 4000;

fn number(name: &str) -> Option<u32> {
    std::env::var(name).ok()?.parse().ok()
}

/// Number of networks to try: the number in the environment, or else `ordinary`.
pub(crate) fn asked_for(ordinary: u32) -> u32 {
    number("SPINDLE_NETWORKS").unwrap_or(ordinary)
}

/// Tries `count` networks that `drawn` generates. Tests with different `stream`s try different networks.
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

/// Like [`try_networks`] with the networks of [`scenario`], and the number that is [asked for](asked_for).
pub(crate) fn try_scenarios(ordinary: u32, stream: u8, check: impl Fn(Scenario)) {
    try_networks(asked_for(ordinary), stream, &scenario(false), check);
}

/// Tries `count` values that `drawn` generates from this seed. Panics with the smallest failing value.
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

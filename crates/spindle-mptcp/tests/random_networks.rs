//! Whole connections over random networks: exactly once, in order, to a fitting end.
//!
//! `SPINDLE_NETWORKS` sets how many are tried, `SPINDLE_NETWORKS_SEED` which.

mod support;

use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

/// So many networks in the ordinary test run.
const NETWORKS: u32 = 300;

fn number(name: &str) -> Option<u32> {
    std::env::var(name).ok()?.parse().ok()
}

/// Tries networks of which one in `share` is counted; panics with the smallest that goes wrong.
fn try_networks(share: u32, corrupt: bool) {
    let cases = number("SPINDLE_NETWORKS").unwrap_or(NETWORKS);
    let config = Config {
        cases: cases.div_ceil(share),
        max_shrink_iters: 4000,
        failure_persistence: None,
        ..Config::default()
    };
    // The same networks in every run unless asked otherwise.
    let mut seed = [0; 32];
    seed[..4].copy_from_slice(&number("SPINDLE_NETWORKS_SEED").unwrap_or(1).to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let result = runner.run(&support::scenario::scenario(corrupt), |s| {
        s.run(true);
        Ok(())
    });
    match result {
        Ok(()) => {}
        Err(TestError::Fail(reason, smallest)) => panic!("{reason}\nSmallest: {smallest:?}"),
        Err(e) => panic!("{e}"),
    }
}

#[test]
fn every_byte_arrives_once_and_in_order_or_the_connection_ends_with_a_reason() {
    try_networks(1, false);
}

#[test]
fn so_it_does_where_a_middlebox_changes_payload_and_checksums_are_on() {
    try_networks(6, true);
}

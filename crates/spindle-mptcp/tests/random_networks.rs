//! Whole connections over random networks: exactly once, in order, to a fitting end.
//!
//! `SPINDLE_NETWORKS` sets how many are tried, `SPINDLE_NETWORKS_SEED` which.

mod support;

use support::networks::{asked_for, try_networks};
use support::scenario::scenario;

/// So many networks in the ordinary test run.
const NETWORKS: u32 = 300;

#[test]
fn every_byte_arrives_once_and_in_order_or_the_connection_ends_with_a_reason() {
    try_networks(asked_for(NETWORKS), 0, &scenario(false), |s| {
        s.run(true);
    });
}

#[test]
fn so_it_does_where_a_middlebox_changes_payload_and_checksums_are_on() {
    let one_in_six = asked_for(NETWORKS).div_ceil(6);
    try_networks(one_in_six, 0, &scenario(true), |s| {
        s.run(true);
    });
}

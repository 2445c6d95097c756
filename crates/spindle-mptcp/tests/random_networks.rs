//! Whole connections over random networks: each byte arrives exactly once and in order, and the connection ends
//! with a fitting reason.
//!
//! `SPINDLE_NETWORKS` sets the number of networks, and `SPINDLE_NETWORKS_SEED` their seed.

mod support;

use support::networks::{asked_for, try_networks};
use support::scenario::scenario;

/// Number of networks in the ordinary test run.
const NETWORKS: u32 = 300;

#[test]
fn every_byte_arrives_once_and_in_order_or_the_connection_ends_with_a_reason() {
    try_networks(asked_for(NETWORKS), 0, &scenario(false), |s| {
        s.run(true);
    });
}

#[test]
fn with_checksums_every_byte_arrives_once_although_a_middlebox_changes_payload() {
    let one_in_six = asked_for(NETWORKS).div_ceil(6);
    try_networks(one_in_six, 0, &scenario(true), |s| {
        s.run(true);
    });
}

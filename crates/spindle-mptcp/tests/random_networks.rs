//! Whole connections over random networks: each byte arrives exactly once and in order, and the connection ends
//! with a fitting reason.
//!
//! `SPINDLE_NETWORKS` sets the number of networks, and `SPINDLE_NETWORKS_SEED` the seed.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod support;

use proptest::prelude::*;
use spindle_mptcp::entropy;
use spindle_mptcp::recovery::RecoveryBudget;
use spindle_mptcp::scheduler;
use spindle_units::Duration;
use support::networks::{asked_for, try_networks};
use support::scenario::{NAMES, scenario};

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

#[test]
fn recovery_bytes_stay_within_the_share_of_new_bytes_and_the_depth_at_any_time() {
    let one_in_three = asked_for(NETWORKS).div_ceil(3);
    try_networks(one_in_three, 31, &scenario(false), |s| {
        let budget = RecoveryBudget {
            per_mille: [0, 10, 50, 200][s.paths.len() - 1],
            depth: [0, 1460, 9_000, 60_000][s.ends[0].loss_bits as usize % 4],
        };
        let mut run = s.prepare_with(true, |_, config| config.recovery_budget = Some(budget));
        s.finish(&mut run);
    });
}

#[test]
fn with_each_policy_of_flow_labels_every_byte_arrives_once_and_in_order() {
    let one_in_six = asked_for(NETWORKS).div_ceil(6);
    for (stream, factory) in (1..).zip(entropy::built_in()) {
        try_networks(one_in_six, stream, &scenario(false), |s| {
            let mut run = s.prepare_with(true, |_, config| config.entropy = Some(factory.clone()));
            let paths = run.net.paths.len() as u64;
            // The network chooses the path by the label as well, as switches do.
            run.net.route = Some(Box::new(move |p| (p.flow_hash() % paths) as usize));
            s.finish(&mut run);
        });
    }
}

#[test]
fn with_raced_syns_every_byte_arrives_once_and_in_order() {
    let one_in_three = asked_for(NETWORKS).div_ceil(3);
    let base = prop::sample::select(&MULTIPATH[..]);
    let drawn = (scenario(false), base, 1..=2usize).prop_map(|(mut s, base, more)| {
        s.preset = NAMES.iter().position(|n| *n == base).expect("listed");
        s.more_addresses[0] = more;
        s
    });
    try_networks(one_in_three, 37, &drawn, |s| {
        let after = Duration::from_millis(20 * (s.seed % 3));
        let mut run = s.prepare_with(true, |_, config| {
            if let Some(m) = &mut config.multipath {
                m.syn_race = Some(after);
            }
        });
        s.finish(&mut run);
    });
}

/// The presets of [`NAMES`] whose scheduler each run replaces.
const MULTIPATH: [&str; 5] = ["mptcp", "mptcp-2", "mptcp-linux", "fuso", "fuso-8"];

#[test]
fn with_each_built_in_scheduler_every_byte_arrives_once_and_in_order() {
    let one_in_ten = asked_for(NETWORKS).div_ceil(10);
    for index in 0..scheduler::built_in().len() as u8 {
        let base = prop::sample::select(&MULTIPATH[..]);
        let drawn = (scenario(false), base).prop_map(move |(mut s, base)| {
            s.preset = NAMES.iter().position(|n| *n == base).expect("listed");
            s.multi.scheduler = index;
            // Slower applications can take longer than the FIN timeout to read everything.
            for app in &mut s.apps {
                app.read_size = app.read_size.max(20_000);
                app.read_delay = app.read_delay.min(10_000);
            }
            s
        });
        try_networks(one_in_ten, 40 + index, &drawn, |s| {
            s.run(true);
        });
    }
}

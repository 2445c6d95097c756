//! Runs that once went wrong, as small as they could be made.

mod support;

use support::scenario::{AppSpec, EndSpec, MultiSpec, NAMES, PathSpec, Scenario};

/// A clean path, ordinary ends, nothing written; each test says what is different.
fn calm(preset: &str) -> Scenario {
    let path = PathSpec {
        delay: 100,
        jitter: 0,
        loss: [0, 0],
        duplicate: 0,
        mark: 0,
        flips: Vec::new(),
    };
    let end = EndSpec {
        options: [true; 4],
        nagle: false,
        delayed_ack: false,
        ecn: 0,
        mss: 1460,
        receive_segments: 100,
        send_segments: 100,
        initial_window: 10,
        loss_bits: 1,
        keepalive: false,
    };
    let app = AppSpec {
        writes: Vec::new(),
        read_size: 1_000_000,
        read_delay: 0,
        end: None,
    };
    Scenario {
        seed: 1,
        preset: NAMES.iter().position(|n| *n == preset).expect("a preset"),
        congestion: None,
        multi: MultiSpec {
            manager: 0,
            scheduler: 0,
            checksum: false,
            early: None,
            opportunistic: None,
            backup: false,
            subflows: 1,
        },
        v6: false,
        paths: vec![path],
        ends: [end.clone(), end],
        apps: [app.clone(), app],
        more_addresses: [0, 0],
        ops: Vec::new(),
        corrupt: 0,
    }
}

#[test]
fn address_signals_wait_until_the_peer_has_the_keys() {
    let mut s = calm("mptcp");
    s.more_addresses = [1, 0];
    s.ops = vec![(20, 0, 0, 0)];
    s.apps[0].writes = vec![(50_000, 1)];
    s.run(true);
}

#[test]
fn a_half_open_connection_that_is_reset_leaves_nothing_behind() {
    let mut s = calm("tcp");
    s.apps[0].end = Some((0, false));
    s.run(true);
}

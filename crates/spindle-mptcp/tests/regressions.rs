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

fn path(delay: u64, loss: [u32; 2], flips: &[u64]) -> PathSpec {
    PathSpec {
        delay,
        loss,
        flips: flips.to_vec(),
        ..calm("tcp").paths.remove(0)
    }
}

/// An end without options, with buffers of so many segments.
fn tiny(receive_segments: u32, send_segments: u32) -> EndSpec {
    let [end, _] = calm("tcp").ends;
    EndSpec {
        options: [false; 4],
        receive_segments,
        send_segments,
        initial_window: 1,
        loss_bits: 0,
        ..end
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

#[test]
fn reinjected_data_are_not_copied_a_second_time() {
    // Found as drawn: a path dies under a copy, and what it held is reinjected.
    let s = Scenario {
        seed: 0,
        preset: 8,
        congestion: None,
        multi: MultiSpec {
            scheduler: 1,
            subflows: 3,
            ..calm("fuso").multi
        },
        paths: vec![
            path(2212, [0, 0], &[83]),
            path(10, [0, 0], &[]),
            path(10, [0, 0], &[]),
            path(10, [75, 43], &[]),
        ],
        ends: [tiny(73, 2), tiny(3, 2)],
        apps: [
            AppSpec {
                writes: vec![(0, 1)],
                read_size: 20_000,
                read_delay: 116_720,
                end: Some((50_330, false)),
            },
            AppSpec {
                writes: vec![(0, 1), (0, 91_961), (931_699, 5338), (0, 12_202), (1262, 5841)],
                read_size: 1,
                read_delay: 0,
                end: None,
            },
        ],
        more_addresses: [1, 0],
        ops: vec![(50_180, 0, 0, 2)],
        ..calm("fuso")
    };
    s.run(true);
}

//! Runs that failed once, as small as they could be made.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod support;

use support::scenario::{AppSpec, EndSpec, MultiSpec, NAMES, PathSpec, Scenario};

/// A clean path, ordinary ends, and no writes. Each test changes what it needs.
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

/// An end without options, with buffers of this many segments.
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

fn writer(writes: &[(u64, u32)]) -> AppSpec {
    AppSpec {
        writes: writes.to_vec(),
        ..calm("tcp").apps[0].clone()
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
fn a_half_open_connection_that_is_reset_leaves_no_state() {
    let mut s = calm("tcp");
    s.apps[0].end = Some((0, false));
    s.run(true);
}

#[test]
fn reinjected_data_are_not_copied_a_second_time() {
    // Found as a random network: a path dies while it carries a copy, and the data it held are reinjected.
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
                writes: vec![
                    (0, 1),
                    (0, 91_961),
                    (931_699, 5338),
                    (0, 12_202),
                    (1262, 5841),
                ],
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

#[test]
fn mp_prio_for_a_subflow_waits_until_its_join_is_complete() {
    let s = Scenario {
        seed: 1293,
        multi: MultiSpec {
            subflows: 4,
            ..calm("mptcp").multi
        },
        paths: vec![path(1426, [0, 0], &[])],
        ends: [tiny(2, 2), tiny(2, 2)],
        apps: [writer(&[(3113, 2921)]), writer(&[(261, 1)])],
        ops: vec![(7391, 0, 2, 1)],
        ..calm("mptcp")
    };
    s.run(true);
}

#[test]
fn plain_tcp_does_not_acknowledge_data_beyond_its_window() {
    // Lost acknowledgements move the sender's view of the window ahead of the receiver's view.
    let mut ends = [tiny(12, 8), tiny(2, 2)];
    ends[0].options = [true, true, false, false];
    ends[0].delayed_ack = true;
    ends[0].mss = 1133;
    ends[0].initial_window = 8;
    ends[1].options = [false, true, false, false];
    ends[1].mss = 8960;
    ends[1].initial_window = 7;
    ends[1].loss_bits = 85;
    let mut apps = [
        writer(&[(0, 10_198), (213, 7723)]),
        writer(&[(0, 4533), (0, 7932)]),
    ];
    apps[0].read_size = 1;
    apps[1].read_size = 1;
    apps[1].read_delay = 4;
    let s = Scenario {
        seed: 15_022_186,
        paths: vec![path(884, [13, 205], &[])],
        ends,
        apps,
        ..calm("tcp")
    };
    s.run(true);
}

#[test]
fn address_signals_are_discarded_after_fallback() {
    let s = Scenario {
        seed: 395_369_214,
        paths: vec![path(10, [145, 0], &[])],
        ends: [tiny(2, 2), tiny(2, 2)],
        more_addresses: [1, 0],
        ops: vec![(0, 0, 0, 2)],
        ..calm("mptcp")
    };
    s.run(true);
}

#[test]
fn the_data_fin_timer_does_not_exceed_max_rto() {
    let mut ends = [tiny(10, 3), tiny(5, 8)];
    ends[0].options = [false, true, false, false];
    ends[0].delayed_ack = true;
    ends[0].mss = 1414;
    ends[0].initial_window = 6;
    ends[1].options = [false, true, false, false];
    ends[1].loss_bits = 5;
    let mut apps = [
        writer(&[(1235, 1), (0, 2574), (968, 544), (159071, 5368), (0, 12718)]),
        writer(&[(967, 9003), (0, 14539), (0, 10612)]),
    ];
    apps[0].read_size = 20000;
    apps[0].read_delay = 2001;
    apps[1].read_size = 20000;
    apps[1].read_delay = 170519;
    let s = Scenario {
        seed: 2582633888,
        multi: MultiSpec {
            manager: 1,
            ..calm("mptcp").multi
        },
        paths: vec![path(967, [0, 385], &[])],
        ends,
        apps,
        more_addresses: [1, 0],
        ..calm("fuso")
    };
    s.run(true);
}

#[test]
fn a_wrong_checksum_on_the_only_subflow_causes_fallback_in_both_directions() {
    for (seed, early) in [(1, false), (2, true), (3, false), (4, true)] {
        let mut s = calm("mptcp");
        s.seed = seed;
        s.multi.early = Some(early);
        s.corrupt = 20;
        s.apps = [writer(&[(0, 300_000)]), writer(&[(3000, 300_000)])];
        let run = s.run(true);
        assert_ne!(run.net.corrupted, [0, 0], "something to find");
        for side in &run.sides {
            let closed = side.closed.map(|c| c.1);
            assert_eq!(closed, Some(spindle_mptcp::CloseReason::Finished));
            assert!(side.last.as_ref().is_some_and(|i| !i.multipath));
            assert_eq!(side.got, 300_000);
        }
    }
}

#[test]
fn data_received_before_a_wrong_checksum_are_counted_and_reported() {
    let mut paths = vec![path(382, [0, 57], &[])];
    paths[0].jitter = 32;
    let mut ends = [tiny(64, 4), tiny(8, 21)];
    for e in &mut ends {
        e.options = [false, true, false, false];
    }
    ends[0].initial_window = 14;
    ends[0].loss_bits = 92;
    ends[1].initial_window = 2;
    ends[1].loss_bits = 117;
    let mut s = Scenario {
        seed: 599_669_552,
        paths,
        ends,
        apps: [
            writer(&[(823, 200), (0, 24_601)]),
            writer(&[(0, 1), (61, 39_952), (0, 369), (6661, 91_561)]),
        ],
        corrupt: 16,
        ..calm("mptcp")
    };
    s.multi.subflows = 3;
    s.apps[0].read_size = 1;
    s.apps[1].read_size = 1;
    s.run(true);
}

#[test]
fn data_acked_on_a_subflow_but_missing_at_the_data_level_are_sent_again() {
    let mut ends = [tiny(29, 64), tiny(6, 80)];
    for e in &mut ends {
        e.options = [true, false, false, false];
        e.delayed_ack = true;
    }
    ends[0].initial_window = 6;
    ends[0].loss_bits = 169;
    ends[1].mss = 549;
    ends[1].initial_window = 9;
    ends[1].loss_bits = 99;
    let mut apps = [writer(&[(0, 54991)]), writer(&[(0, 49633)])];
    apps[0].read_size = 1;
    apps[1].read_size = 1;
    apps[0].end = Some((123727, false));
    let mut paths = vec![path(4452, [204, 337], &[])];
    paths[0].jitter = 47;
    let mut s = Scenario {
        seed: 3927231245,
        congestion: Some(6),
        paths,
        ends,
        apps,
        corrupt: 21,
        ops: vec![(220732, 1, 3, 4)],
        ..calm("mptcp")
    };
    s.multi.subflows = 8;
    s.multi.scheduler = 1;
    s.run(true);
}

#[test]
fn a_repeated_third_ack_of_a_join_is_answered_with_the_fourth_ack() {
    let mut ends = [tiny(5, 3), tiny(2, 2)];
    for e in &mut ends {
        e.delayed_ack = true;
    }
    ends[0].mss = 536;
    ends[0].initial_window = 4;
    ends[1].initial_window = 5;
    let mut apps = [
        writer(&[(0, 5857)]),
        writer(&[(0, 1), (0, 98), (0, 1), (0, 2581)]),
    ];
    apps[0].read_size = 20000;
    apps[0].read_delay = 4900;
    apps[1].read_size = 1;
    let mut paths = vec![path(1225, [0, 0], &[]), path(2589, [0, 122], &[])];
    paths[1].jitter = 24;
    let mut s = Scenario {
        seed: 2536963932,
        v6: true,
        congestion: Some(2),
        paths,
        ends,
        apps,
        corrupt: 13,
        ..calm("mptcp-linux")
    };
    s.multi.subflows = 3;
    s.run(true);
}

#[test]
fn acks_that_arrive_after_copies_beyond_the_window_are_processed() {
    let mut ends = [tiny(5, 24), tiny(7, 3)];
    ends[0].delayed_ack = true;
    ends[0].mss = 758;
    ends[0].initial_window = 19;
    ends[0].loss_bits = 237;
    ends[1].initial_window = 13;
    let mut apps = [
        writer(&[(0, 47_468), (0, 8), (0, 122)]),
        writer(&[(0, 14_123)]),
    ];
    apps[0].read_size = 738;
    apps[0].read_delay = 849;
    apps[1].read_size = 1;
    let mut paths = vec![path(4078, [0, 0], &[]), path(4560, [61, 202], &[])];
    paths[0].jitter = 18;
    paths[1].jitter = 27;
    paths[1].duplicate = 89;
    let mut s = Scenario {
        seed: 4_069_896_746,
        v6: true,
        paths,
        ends,
        apps,
        ..calm("fuso")
    };
    s.multi.subflows = 7;
    s.multi.scheduler = 2;
    s.run(true);
}

/// Data that the data level dropped beyond its window had been acknowledged by TCP. They were missing after a
/// fallback, and the connection ended as if finished.
#[test]
fn a_fallback_does_not_finish_without_data_dropped_beyond_the_window() {
    let mut ends = [tiny(6, 2), tiny(2, 16)];
    ends[0].options = [true, false, false, false];
    ends[0].mss = 1460;
    ends[0].initial_window = 1;
    ends[0].loss_bits = 0;
    ends[1].options = [false; 4];
    ends[1].mss = 568;
    ends[1].initial_window = 12;
    ends[1].loss_bits = 67;
    let mut apps = [writer(&[(5063, 1)]), writer(&[(0, 9857)])];
    for app in &mut apps {
        app.read_size = 1;
        app.read_delay = 0;
    }
    apps[1].end = Some((5073, false));
    let mut paths = vec![path(10, [38, 23], &[])];
    paths[0].jitter = 1;
    let mut s = Scenario {
        seed: 822_311_620,
        paths,
        ends,
        apps,
        more_addresses: [1, 0],
        corrupt: 15,
        ..calm(NAMES[6])
    };
    s.multi.manager = 1;
    s.multi.early = Some(true);
    s.run(true);
}

/// Silly window avoidance compared a short segment with the largest window that was announced on the same
/// subflow. A subflow without traffic knew only the small window of its handshake. New data that had to wait on
/// one subflow were therefore sent on another one, after a recovery copy that must not precede new data.
#[test]
fn short_segment_waits_for_the_window_on_every_subflow() {
    let mut ends = [tiny(6, 4), tiny(2, 2)];
    for end in &mut ends {
        end.options = [true, false, false, false];
        end.loss_bits = 0;
        end.nagle = false;
        end.delayed_ack = false;
        end.ecn = 0;
    }
    ends[0].mss = 1460;
    ends[0].initial_window = 4;
    ends[1].mss = 8960;
    ends[1].initial_window = 6;
    let mut apps = [
        writer(&[(0, 6929), (0, 19_838), (0, 12_426)]),
        writer(&[(0, 11_617)]),
    ];
    apps[0].read_size = 20_000;
    apps[0].read_delay = 21_954;
    apps[1].read_size = 357;
    apps[1].read_delay = 0;
    let mut paths = vec![path(1636, [193, 193], &[]), path(1737, [0, 80], &[])];
    paths[0].jitter = 3904;
    paths[0].duplicate = 33;
    paths[1].jitter = 0;
    paths[1].duplicate = 160;
    let mut s = Scenario {
        seed: 1_712_415_501,
        v6: true,
        paths,
        ends,
        apps,
        ..calm(NAMES[12])
    };
    s.multi.subflows = 6;
    s.run(true);
}

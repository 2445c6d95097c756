//! Paths whose MTU changes during a connection (RFC 1191, RFC 8201).

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod support;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use spindle_mptcp::preset;
use spindle_units::Duration;
use spindle_wire::Segment;
use support::apps::{App, End, Run};
use support::scenario::{NAMES, scenario};
use support::{Net, Path, SERVER, endpoint, judge};

/// Number of random networks.
const NETWORKS: u32 = 80;
/// MTU of the paths in the scripted runs after it is reduced.
const SMALL: u32 = 1300;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// The server sends 1 MB. The MTU of every path changes according to `mtu`, with times in milliseconds.
fn bulk(name: &str, burst: u32, mtu: &[(u64, u32)]) -> Run {
    let mut net = Net::new(3, vec![Path::clean(ms(5)); 2]);
    let start = net.now;
    for p in &mut net.paths {
        p.mtu = mtu.iter().map(|(t, m)| (start + ms(*t), *m)).collect();
    }
    net.keep_log = true;
    let app = |writes| App {
        writes,
        read_size: 1 << 20,
        read_delay: Duration::ZERO,
        end: End::AfterWrites,
    };
    let apps = [app(vec![]), app(vec![(ms(20), 1_000_000)])];
    let mut config = preset(name).expect("a preset").config;
    config.tcp.burst = burst;
    config.tcp.msl = ms(10);
    let ends = (endpoint(1, 0), endpoint(2, 80));
    Run::new(net, apps, [config.clone(), config], ends, true)
}

fn arrived(run: &Run) -> impl Iterator<Item = (Duration, &Segment)> {
    let log = run.net.log.iter();
    log.filter(|l| l.side == SERVER && l.arrives && !l.segment.payload.is_empty())
        .map(|l| (l.at.since(run.start), &l.segment))
}

#[test]
fn oversized_segments_are_resent_in_pieces_without_reducing_cwnd() {
    for name in ["tcp", "newreno", "mptcp-2", "fuso", "rack"] {
        for burst in [0, 40_000] {
            let mut run = bulk(name, burst, &[(45, SMALL)]);
            run.finish(Duration::from_secs(60));
            judge::at_the_end(&run, Duration::from_secs(300));
            judge::mappings_are_repeated_verbatim(&run);
            let after = arrived(&run).filter(|(t, _)| *t >= ms(45));
            let sizes: Vec<usize> = after.map(|(_, s)| s.wire_len()).collect();
            assert!(sizes.len() > 100, "{name}");
            assert_eq!(sizes.iter().max(), Some(&(SMALL as usize)));
            let total = run.sides[SERVER].last.as_ref().expect("ran").total;
            assert!(total.retransmissions > 0, "{name}: {total:?}");
            assert_eq!((total.timeouts, total.fast_retransmits), (0, 0), "{name}");
            // A megabyte takes at most ten round trips from an initial window of ten segments. One of these
            // round trips is lost.
            let end = arrived(&run).map(|(t, _)| t).max().unwrap_or_default();
            assert!(end < ms(160), "{name}: the last arrived at {end:?}");
        }
    }
}

#[test]
fn a_larger_path_mtu_is_used_up_to_the_negotiated_mss() {
    let mut run = bulk("mptcp-2", 0, &[(0, SMALL), (50, 9000)]);
    run.until(run.start + ms(50));
    let (now, ends) = (run.net.now, (endpoint(2, 0), endpoint(1, 0)));
    run.net.stacks[SERVER].path_mtu(now, ends.0, ends.1, 9000);
    run.finish(Duration::from_secs(60));
    judge::at_the_end(&run, Duration::from_secs(300));
    let late = arrived(&run).filter(|(t, _)| *t > ms(50));
    assert_eq!(late.map(|(_, s)| s.wire_len()).max(), Some(1500));
}

#[test]
fn a_forged_mtu_does_not_reduce_packets_below_552_bytes() {
    let mut run = bulk("mptcp-2", 0, &[]);
    run.until(run.start + ms(15));
    let (now, ends) = (run.net.now, (endpoint(2, 0), endpoint(1, 0)));
    run.net.stacks[SERVER].path_mtu(now, ends.0, ends.1, 68);
    run.finish(Duration::from_secs(60));
    judge::at_the_end(&run, Duration::from_secs(300));
    let largest = arrived(&run).map(|(_, s)| s.wire_len()).max();
    assert_eq!(largest, Some(552), "RFC 791's 68 bytes are not accepted");
}

/// Like [`bulk`], but with PLPMTUD. If `hole`, the paths silently drop packets larger than [`SMALL`] bytes.
/// Otherwise they carry all packets. `writes` lists how long the server waits before each write, and its size.
fn watched(name: &str, burst: u32, hole: bool, writes: &[(u64, u32)]) -> Run {
    let mut net = Net::new(3, vec![Path::clean(ms(5)); 2]);
    net.keep_log = true;
    if hole {
        net.hook = Some(Box::new(|_, _, seg| seg.wire_len() <= SMALL as usize));
    }
    let writes = writes.iter().map(|(t, n)| (ms(*t), *n)).collect();
    let app = |writes| App {
        writes,
        read_size: 1 << 20,
        read_delay: Duration::ZERO,
        end: End::AfterWrites,
    };
    let mut config = preset(name).expect("a preset").config;
    config.tcp.burst = burst;
    config.tcp.msl = ms(10);
    // The client closes at once, and the server continues to write for up to twenty minutes.
    config.tcp.fin_timeout = ms(3_600_000);
    config.tcp.mtu_probing = true;
    let ends = (endpoint(1, 0), endpoint(2, 80));
    let apps = [app(vec![]), app(writes)];
    Run::new(net, apps, [config.clone(), config], ends, true)
}

#[test]
fn a_black_hole_costs_three_timeouts_per_subflow_and_the_search_finds_its_mtu() {
    for name in ["tcp", "newreno", "mptcp-2", "fuso", "rack"] {
        for burst in [0, 40_000] {
            let mut run = watched(name, burst, true, &[(200, 150_000); 30]);
            run.finish(Duration::from_secs(60));
            judge::at_the_end(&run, Duration::from_secs(300));
            judge::mappings_are_repeated_verbatim(&run);
            let total = run.sides[SERVER].last.as_ref().expect("ran").total;
            // Without SACK the loss of a probe may be detected only by a timeout.
            let probes = if name == "newreno" { 12 } else { 0 };
            assert!(total.timeouts <= 2 * 3 + probes, "{name}: {total:?}");
            let largest = arrived(&run).map(|(_, s)| s.wire_len()).max();
            let near = SMALL as usize - 8..=SMALL as usize;
            assert!(
                largest.is_some_and(|l| near.contains(&l)),
                "{name}: {largest:?}"
            );
        }
    }
}

#[test]
fn a_dead_path_that_recovers_carries_full_segments_again() {
    let mut run = watched("tcp", 0, false, &[(20, 1_000_000)]);
    let (dies, returns) = (run.start + ms(45), run.start + ms(6_000));
    run.net.hook = Some(Box::new(move |now, _, _| now < dies || now >= returns));
    run.finish(Duration::from_secs(60));
    judge::at_the_end(&run, Duration::from_secs(300));
    let after: Vec<usize> = arrived(&run)
        .filter(|(t, _)| *t >= ms(6_000))
        .map(|(_, s)| s.wire_len())
        .collect();
    let full = after.iter().filter(|l| **l == 1500).count();
    assert!(
        full * 10 > after.len() * 9,
        "{full} of {} are full",
        after.len()
    );
}

#[test]
fn a_larger_mtu_is_found_ten_minutes_after_a_router_reported_a_smaller_one() {
    let raise = 601_000;
    let mut writes = vec![(20, 500_000), (raise, 300_000)];
    writes.extend([(200, 300_000); 20]);
    let mut run = watched("tcp", 0, false, &writes);
    let now = run.start;
    for p in &mut run.net.paths {
        p.mtu = vec![(now, SMALL), (now + ms(raise / 2), 1500)];
    }
    run.finish(Duration::from_secs(700));
    judge::at_the_end(&run, Duration::from_secs(300));
    let largest = |from, to| {
        let within = arrived(&run).filter(|(t, _)| (ms(from)..ms(to)).contains(t));
        within.map(|(_, s)| s.wire_len()).max()
    };
    assert_eq!(largest(0, raise), Some(SMALL as usize));
    assert_eq!(largest(raise, 2 * raise), Some(1500));
}

/// Random networks with paths whose MTU changes, for this preset or for any.
fn try_networks(name: Option<&str>) {
    let config = Config {
        cases: NETWORKS,
        max_shrink_iters: 2000,
        failure_persistence: None,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[5; 32]);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let changes = prop::collection::vec((0u64..100_000, 1280u32..9100), 1..5);
    let burst = prop_oneof![Just(0u32), 3000u32..60_000];
    let drawn = (scenario(false), changes, burst, any::<bool>());
    let result = runner.run(&drawn, |(mut s, changes, burst, probing)| {
        if let Some(name) = name {
            s.preset = NAMES.iter().position(|n| *n == name).expect("listed");
            s.multi.checksum = false;
        }
        let mut run = s.prepare_with(true, |_, c| {
            c.tcp.burst = burst;
            c.tcp.mtu_probing = probing;
        });
        let mut at = run.start;
        for (gap, mtu) in changes {
            run.net.paths.iter_mut().for_each(|p| p.mtu.push((at, mtu)));
            at += Duration::from_micros(gap);
        }
        run.net.keep_log = true;
        s.finish(&mut run);
        judge::mappings_are_repeated_verbatim(&run);
        Ok(())
    });
    match result {
        Ok(()) => {}
        Err(TestError::Fail(reason, smallest)) => panic!("{reason}\nSmallest: {smallest:?}"),
        Err(e) => panic!("{e}"),
    }
}

#[test]
fn every_byte_arrives_once_over_random_networks_with_changing_mtu() {
    try_networks(None);
}

#[test]
fn every_byte_arrives_once_when_parities_are_cut_for_a_smaller_mtu() {
    try_networks(Some("cofuso"));
}

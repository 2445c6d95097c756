//! Bursts: several new segments under one mapping, handed out as one segment.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod support;

use proptest::prelude::*;
use spindle_mptcp::preset;
use spindle_units::Duration;
use spindle_wire::Segment;
use support::apps::{App, End, Run};
use support::networks::try_all;
use support::scenario::{Scenario, scenario};
use support::{Net, Path, SERVER, endpoint, judge};

/// Number of networks of each kind.
const NETWORKS: u32 = 100;

fn bulk(name: &str, bytes: u32, burst: u32, paths: Vec<Path>) -> Run {
    let net = Net::new(7, paths);
    let app = |writes| App {
        writes,
        read_size: 1 << 20,
        read_delay: Duration::ZERO,
        end: End::AfterWrites,
    };
    let apps = [app(vec![]), app(vec![(Duration::from_millis(20), bytes)])];
    let mut config = preset(name).expect("a preset").config;
    config.tcp.burst = burst;
    config.tcp.msl = Duration::from_millis(10);
    let ends = (endpoint(1, 0), endpoint(2, 80));
    let mut run = Run::new(net, apps, [config.clone(), config], ends, true);
    run.net.keep_log = true;
    run
}

fn data(run: &Run) -> impl Iterator<Item = &Segment> {
    let sent = run.net.log.iter().filter(|l| l.side == SERVER);
    sent.map(|l| &l.segment).filter(|s| !s.payload.is_empty())
}

#[test]
fn new_data_sent_as_one_burst_share_a_mapping() {
    let mut run = bulk(
        "mptcp-2",
        500_000,
        64 << 10,
        vec![Path::clean(Duration::from_millis(5)); 2],
    );
    run.net.whole_bursts = true;
    run.finish(Duration::from_secs(60));
    judge::at_the_end(&run, Duration::from_secs(300));
    let longest = data(&run).map(|s| s.payload.len()).max().unwrap_or(0);
    assert!(longest > 60_000, "{longest} bytes are the longest burst");
    for s in data(&run) {
        let map = s.options.dss.and_then(|d| d.mapping).expect("a mapping");
        assert_eq!(usize::from(map.len), s.payload.len());
        assert!(s.payload.len() <= 1460 || s.is_burst());
    }
    assert!(data(&run).count() < 120, "{} segments", data(&run).count());
}

#[test]
fn retransmitted_part_of_a_burst_carries_the_whole_mapping() {
    let mut lossy = Path::clean(Duration::from_millis(5));
    lossy.loss = [0.0, 0.05];
    for name in ["mptcp-2", "fuso", "tcp", "rack"] {
        let mut run = bulk(name, 800_000, 64 << 10, vec![lossy.clone(); 2]);
        run.finish(Duration::from_secs(600));
        judge::at_the_end(&run, Duration::from_secs(300));
        judge::mappings_are_repeated_verbatim(&run);
        let counters = run.sides[SERVER].last.as_ref().expect("ran").total;
        assert!(counters.retransmissions > 0);
        let mss = data(&run)
            .map(|s| s.payload.len() as u64)
            .max()
            .unwrap_or(1);
        let least = counters.bytes / mss;
        assert!(
            counters.segments >= least,
            "segments are counted, not bursts"
        );
    }
}

fn whole(s: &Scenario, burst: u32, coalesce: bool) {
    let mut run = s.prepare_with(true, |_, c| {
        c.tcp.burst = burst;
        c.tcp.send_buffer = c.tcp.send_buffer.max(200_000);
        c.tcp.receive_buffer = c.tcp.receive_buffer.max(200_000);
    });
    run.net.whole_bursts = coalesce;
    run.net.keep_log = true;
    s.finish(&mut run);
    if s.corrupt == 0 {
        judge::mappings_are_repeated_verbatim(&run);
    }
}

fn try_networks(corrupt: bool) {
    let drawn = (scenario(corrupt), 2_000u32..70_000, any::<bool>());
    try_all(NETWORKS, [11; 32], &drawn, |(s, burst, coalesce)| {
        whole(&s, burst, coalesce);
    });
}

#[test]
fn every_byte_arrives_once_and_in_order_with_bursts_on_random_networks() {
    try_networks(false);
}

#[test]
fn every_byte_arrives_once_and_in_order_with_bursts_and_corrupted_payload() {
    try_networks(true);
}

//! Coded packets sprayed over six paths, on real hosts (CAPS section VIII-B). Runs as root only.

use spindle_experiment::metrics::RunResult;
use spindle_testbed::{Options, Row, run};

mod support;

use support::{able, experiment};

const NEEDS: [&str; 1] = ["/dev/net/tun"];

const TEXT: &str = r#"
transports = ["kernel-tcp@rps", "udp:tcp@rps", "udp:caps-dark@rps", "caps-dark@caps-dark"]
[topology]
name = "leaf-spine"
leaves = 2
spines = 6
hosts_per_leaf = 2
rate = "30Mbps"
rtt = "12ms"
buffer_packets = 200
ecn_threshold = "0B"
[traffic]
kind = "mix"
from = ["h0", "h1"]
to = ["h2", "h3"]
rate = 10.0
sizes = ["10KB", "90KB"]
ask = "at-once"
long_flows = 1
head_start = "300ms"
warm_up = "300ms"
flows = 12
[scenario]
initial_window_per_subflow = 10
min_rto = "200ms"
ecn = false
congestion = "cubic"
"#;

/// The least time of a flow in nanoseconds: half a round trip, and 10 KB at 30 Mbit/s. It begins with the open connection and
/// ends with the server's last byte.
const LEAST: u64 = 6_000_000 + 2_666_666;

/// Bytes from the first leaf to each spine.
fn up(row: &Row) -> Vec<u64> {
    let links = row.links.iter();
    let of_leaf = links.filter(|l| l.link.starts_with("leaf0-spine") && l.link.ends_with(".up"));
    of_leaf.map(|l| l.bytes).collect()
}

#[test]
fn short_flows_are_coded_and_arrive_intact_next_to_a_long_one() {
    if !able(&NEEDS) {
        return;
    }
    let (experiment, registry) = experiment(TEXT, None, &[]);
    let outcome = run(&experiment, &registry, &Options::default(), |_| {}).unwrap();
    for (row, result) in outcome.rows[0].iter().zip(&outcome.result.points[0]) {
        let name = row.name.to_string();
        for r in &result.runs {
            let RunResult {
                flows,
                completed,
                background,
                bytes_corrupted,
                ..
            } = *r;
            let all = (flows, completed, background.completed, bytes_corrupted);
            assert_eq!(all, (12, 12, 1, 0), "{name}");
            assert!(r.background.goodput_sum_bps > 1e6, "{name}: {r:?}");
            assert!(r.fct_ns.iter().all(|t| *t > LEAST), "{name}: {r:?}");
        }
        let coded = &row.coded;
        let runs = result.runs.len() as u64;
        if name.contains("caps-dark") {
            // One unit for each short flow and one for the beginning of the long flow.
            assert!(coded.units >= 13 * runs, "{name}: {coded:?}");
            assert!(coded.decoded >= 13 * runs, "{name}: {coded:?}");
            assert!(coded.packets >= coded.segments, "{name}: {coded:?}");
            assert_eq!(coded.refused, 0, "{name}");
        } else {
            assert_eq!(*coded, spindle_testbed::Coded::default(), "{name}");
        }
        let (shares, sum) = (up(row), up(row).iter().sum::<u64>());
        assert_eq!(shares.len(), 6, "{name}");
        if name.ends_with("@rps") {
            let fair = |b: &u64| b * 12 > sum;
            assert!(shares.iter().all(fair), "{name}: {shares:?}");
        }
    }
}

#[test]
fn a_run_with_a_fixed_end_cuts_off_flows_in_progress() {
    if !able(&NEEDS) {
        return;
    }
    let set = [
        "traffic.duration=1s",
        "traffic.flows=10000",
        "traffic.rate=100.0",
    ];
    let (mut experiment, registry) = experiment(TEXT, Some("kernel-tcp@rps"), &set);
    experiment.seeds = 1;
    let outcome = run(&experiment, &registry, &Options::default(), |_| {}).unwrap();
    let r = &outcome.result.points[0][0].runs[0];
    assert!(r.cut_off > 0 && r.completed > 0, "{r:?}");
    assert_eq!(r.flows, r.completed + r.cut_off, "{r:?}");
    assert_eq!((r.background.completed, r.bytes_corrupted), (1, 0));
    // All flows would take 100 seconds.
    assert!(r.sim_ns < 50_000_000_000, "{}", r.sim_ns);
}

#[test]
fn options_that_only_the_lab_supports_are_refused() {
    for (set, wanted) in [
        ("traffic.long_paths=\"distinct\"", "want hashed"),
        ("traffic.background=\"tcp\"", "leave `background` out"),
        ("traffic.observe=[\"timers\"]", "leave `observe` out"),
    ] {
        let (experiment, registry) = experiment(TEXT, None, &[set]);
        let run = run(&experiment, &registry, &Options::default(), |_| {});
        let error = run.unwrap_err().to_string();
        assert!(error.contains(wanted), "{set}: {error}");
    }
}

#[test]
fn coded_packets_over_a_tun_are_refused() {
    if !able(&NEEDS) {
        return;
    }
    let (experiment, registry) = experiment(TEXT, Some("tun:caps-dark"), &[]);
    let error = run(&experiment, &registry, &Options::default(), |_| {}).unwrap_err();
    assert!(error.to_string().contains("want udp:caps-dark"), "{error}");
}

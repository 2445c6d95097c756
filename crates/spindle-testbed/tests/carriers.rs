//! Spindle's hosts over every carrier: flows complete with intact bytes, and losses of data hit the same
//! packets over all carriers. Runs as root only.

use std::path::PathBuf;

use spindle_testbed::{Options, Outcome, Row, TestbedError, run};
use spindle_units::Duration;

mod support;

use support::{able, experiment};

const NEEDS: [&str; 1] = ["/proc/sys/net/mptcp"];

const TEXT: &str = r#"
transports = ["tcp"]
[topology]
name = "dual-homed"
paths = 2
rate = "100Mbps"
rtt = "10ms"
buffer = "500KB"
[loss]
rate = "2%"
on = ["P2"]
direction = "backward"
data_only = true
[traffic]
kind = "requests"
clients = ["client"]
servers = ["server"]
arrivals = "sequential"
sizes = "100KB"
connections = "new"
ask = "when-joined"
first_path = 2
flows = 10
[scenario]
min_rto = "200ms"
initial_window_per_subflow = 10
congestion = "cubic"
ecn = false
"#;

fn carried_out(transports: &str, set: &[&str]) -> Outcome {
    let (experiment, registry) = experiment(TEXT, Some(transports), set);
    let outcome = run(&experiment, &registry, &Options::default(), |_| {}).unwrap();
    for row in &outcome.result.points[0] {
        let sum = |f: fn(&spindle_experiment::metrics::RunResult) -> u64| {
            row.runs.iter().map(f).sum::<u64>()
        };
        assert_eq!(
            (sum(|r| r.flows), sum(|r| r.completed)),
            (10, 10),
            "{}",
            row.name
        );
        assert_eq!(sum(|r| r.bytes_corrupted), 0, "{}", row.name);
        assert_eq!(sum(|r| r.bytes_delivered), 1_000_000, "{}", row.name);
    }
    outcome
}

/// Packets and losses of a link in the last part.
fn link(row: &Row, name: &str) -> (u64, u64) {
    let link = row.links.iter().find(|l| l.link == name).unwrap();
    (link.packets + link.lost, link.lost)
}

#[test]
fn flows_complete_over_every_carrier_and_use_both_paths() {
    if !able(&NEEDS) {
        return;
    }
    let rows = "fuso,tun:fuso,udp:fuso,tun:fuso>kernel-mptcp,gateway:fuso>kernel-mptcp,\
                gateway:mptcp>kernel-tcp,gateway:fuso>tun:mptcp,tun:fuso>fuso,kernel-mptcp>tun:mptcp";
    let outcome = carried_out(rows, &[]);
    for row in &outcome.rows[0] {
        let name = row.name.to_string();
        let first = link(row, "P2.down").0;
        assert!(first > 5, "{name}: {first} packets on the first path");
        let second = link(row, "P1.down").0;
        assert_eq!(
            second > 5,
            name != "gateway:mptcp>kernel-tcp",
            "{name}: {second}"
        );
    }
}

#[test]
fn only_data_is_lost_over_every_carrier() {
    if !able(&NEEDS) {
        return;
    }
    // All packets of data on path 2 are lost, and the others are forwarded. The handshake and the join succeed,
    // and the server's segments of data arrive only over path 1.
    let rows = "fuso,tun:fuso,udp:fuso,gateway:fuso>kernel-mptcp";
    let outcome = carried_out(
        rows,
        &[
            "loss.rate=100%",
            "traffic.first_path=1",
            "traffic.ask=at-once",
        ],
    );
    for row in &outcome.rows[0] {
        let (packets, lost) = link(row, "P2.down");
        assert!(lost > 0, "{}: no data was lost", row.name);
        assert!(packets > lost, "{}: not only data was lost", row.name);
    }
    // A response has 70 segments with every carrier, and each is one packet. Fragments would double their number,
    // and merged segments would halve it. A busy machine adds probes and retransmissions, but not 30.
    let outcome = carried_out("tcp,tun:tcp,udp:tcp", &["loss.rate=0%"]);
    let down: Vec<u64> = outcome.rows[0]
        .iter()
        .map(|r| link(r, "P2.down").0)
        .collect();
    for n in &down {
        assert!((70..100).contains(n), "{down:?}");
    }
}

#[test]
fn finished_parts_are_taken_from_the_store() {
    if !able(&NEEDS) {
        return;
    }
    let (experiment, registry) = experiment(TEXT, Some("tun:fuso,tcp"), &[]);
    let name = format!("spindle-testbed-carriers-{}.jsonl", std::process::id());
    let path: PathBuf = std::env::temp_dir().join(name);
    let mut options = Options {
        store: Some(path.clone()),
        jobs: 4,
        // No packet is too late here.
        late_bound: Duration::from_secs(3600),
        ..Options::default()
    };
    let (mut parts, mut rows) = (0, 0);
    let first = run(&experiment, &registry, &options, |p| {
        parts += 1;
        rows += usize::from(p.row.is_some());
    });
    let first = first.unwrap();
    assert_eq!((parts, rows, first.result.resumed), (20, 2, 0));
    options.resume = true;
    let second = run(&experiment, &registry, &options, |_| {
        panic!("a part was run again")
    })
    .unwrap();
    let times = |o: &Outcome| -> Vec<Vec<u64>> {
        let rows = o.result.points[0].iter();
        rows.flat_map(|t| t.runs.iter().map(|r| r.fct_ns.clone()))
            .collect()
    };
    assert_eq!(times(&first), times(&second));
    assert_eq!(second.result.resumed, 20);
    // Every packet is too late now, so all parts are run again.
    options.late_bound = Duration::ZERO;
    let third = run(&experiment, &registry, &options, |_| {}).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(third.result.resumed, 0);
    assert!(third.rows[0].iter().all(|r| r.fell_behind));
}

#[test]
fn a_small_mss_is_too_small_for_udp() {
    if !able(&NEEDS) {
        return;
    }
    let (experiment, registry) = experiment(TEXT, Some("udp:fuso"), &["scenario.mss=536"]);
    let e = run(&experiment, &registry, &Options::default(), |_| {}).unwrap_err();
    assert!(matches!(e, TestbedError::Scenario(_)), "{e}");
    assert!(
        e.to_string().contains("found 536, want 1240 or more"),
        "{e}"
    );
}

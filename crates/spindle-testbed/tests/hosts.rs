//! All kinds of hosts over one small network in real time. Runs as root only.

use spindle_testbed::{Options, run};

mod support;

use support::{able, experiment};

const TEXT: &str = r#"
transports = ["kernel-tcp", "kernel-mptcp", "fuso", "mptcp>kernel-mptcp", "kernel-mptcp>mptcp"]
seeds = 10
parts = 1
[topology]
name = "dual-homed"
rate = "100Mbps"
rtt = "10ms"
buffer = "500KB"
[loss]
rate = "1%"
on = ["P2"]
direction = "backward"
data_only = true
[traffic]
kind = "requests"
clients = ["client"]
servers = ["server"]
arrivals = "sequential"
sizes = "50KB"
connections = "new"
ask = "when-joined"
first_path = 1
flows = 2
[scenario]
min_rto = "200ms"
initial_window_per_subflow = 10
congestion = "cubic"
ecn = false
"#;

#[test]
fn every_kind_of_host_serves_every_other() {
    if !able(&["/proc/sys/net/mptcp"]) {
        return;
    }
    let (experiment, registry) = experiment(TEXT, None, &[]);
    let outcome = run(&experiment, &registry, &Options::default(), |_| {}).unwrap();
    assert_eq!(outcome.result.points[0].len(), 5);
    for (row, real) in outcome.result.points[0].iter().zip(&outcome.rows[0]) {
        for r in &row.runs {
            assert_eq!((r.flows, r.completed), (2, 2), "{}", row.name);
            assert_eq!(r.bytes_corrupted, 0, "{}", row.name);
        }
        assert!(real.lateness.summary().packets > 100, "{}", row.name);
        // A multipath transport has used both of the client's paths.
        let used = |name: &str| real.links.iter().any(|l| l.link == name && l.packets > 5);
        let multipath = row.name.transport != "kernel-tcp";
        assert_eq!(
            used("P1.down") && used("P2.down"),
            multipath,
            "{}",
            row.name
        );
    }
}

//! Packets scattered over the four paths of a fat-tree, on real hosts (MMPTCP section 2). Runs as root only.

use spindle_testbed::{Options, Row, run};

mod support;

use support::{able, experiment};

const TEXT: &str = r#"
transports = ["ps", "udp:ps", "tun:ps", "udp:mmptcp", "tun:mmptcp", "tun:tcp"]
[topology]
name = "fat-tree"
k = 4
rate = "50Mbps"
rtt = "12ms"
buffer_packets = 200
ecn_threshold = "0B"
[traffic]
kind = "requests"
clients = ["h0"]
servers = ["h15"]
arrivals = "sequential"
sizes = "600KB"
connections = "new"
flows = 1
[scenario]
min_rto = "200ms"
initial_window_per_subflow = 10
ecn = false
"#;

/// Shares of the response's bytes on the four links from the server's pod to the core.
fn shares(row: &Row) -> Vec<f64> {
    let of_pod = row.links.iter().filter(|l| l.link.starts_with("pod3.agg"));
    let up = of_pod.filter(|l| l.link.ends_with(".up"));
    let bytes: Vec<u64> = up.map(|l| l.bytes).collect();
    let sum = bytes.iter().sum::<u64>() as f64;
    bytes.iter().map(|b| *b as f64 / sum).collect()
}

#[test]
fn scattered_packets_use_every_path_over_every_carrier() {
    if !able(&["/proc/sys/net/mptcp"]) {
        return;
    }
    let (experiment, registry) = experiment(TEXT, None, &[]);
    let outcome = run(&experiment, &registry, &Options::default(), |_| {}).unwrap();
    for (row, result) in outcome.rows[0].iter().zip(&outcome.result.points[0]) {
        let name = row.name.to_string();
        let done = |r: &spindle_experiment::metrics::RunResult| {
            (r.completed, r.bytes_delivered, r.bytes_corrupted) == (1, 600_000, 0)
        };
        assert!(result.runs.iter().all(done), "{name}");
        let shares = shares(row);
        assert_eq!(shares.len(), 4, "{name}");
        let used = shares.iter().filter(|s| **s > 0.02).count();
        match name.as_str() {
            "tun:tcp" => assert_eq!(used, 1, "{shares:?}"),
            // Each packet takes a separate path.
            "ps" | "tun:ps" => {
                assert!(shares.iter().all(|s| *s > 0.12), "{name}: {shares:?}");
            }
            // Sixteen ports, or the ports of eight subflows. They may all miss one path, but hardly two.
            _ => assert!(used >= 3, "{name}: {shares:?}"),
        }
    }
}

//! Policies of flow labels over paths of equal cost.

mod support;

use spindle_experiment::metrics::RunResult;
use spindle_experiment::registry::Registry;
use spindle_lab::driver::{RunRequest, run};
use support::experiment;

/// Eight flows between two leaves with four paths of equal cost, one of which fails while they run.
const ONE_PATH_FAILS: &str = r#"
[topology]
name = "leaf-spine"
spines = 4
hosts_per_leaf = 8
[scenario]
min_rto = "10ms"
user_timeout = "5s"
[loss]
model = "black-hole"
on = "leaf0-spine1"
direction = "both"
from = "2ms"
[traffic]
kind = "mix"
from = "h0-h7"
to = "h8-h15"
matrix = "one-to-one"
arrivals = "at-once"
flows = 8
sizes = "1MB"
"#;

/// A run of `transport` in which the path fails in `direction`.
fn go(transport: &str, direction: &str, seed: u64) -> RunResult {
    let text = ONE_PATH_FAILS.replace("\"both\"", &format!("\"{direction}\""));
    let e = experiment(transport, &text);
    let registry = Registry::standard();
    let mut request = RunRequest::new(&e.points[0].scenario, &e.transports[0], &registry);
    request.seed = seed;
    run(&request).expect("it runs").result
}

#[test]
fn prr_leaves_a_failed_path_after_a_timeout_and_tcp_does_not() {
    let (mut stuck, mut left_at_once) = (0, 0);
    for seed in 1..=4 {
        let tcp = go("tcp", "both", seed);
        assert_eq!(tcp.completed + tcp.aborted, 8, "seed {seed}");
        stuck += tcp.aborted;
        let prr = go("prr", "both", seed);
        assert_eq!((prr.completed, prr.aborted), (8, 0), "seed {seed}");
        // Flows that needed a single timeout, as far as the sums show.
        left_at_once += (2 * prr.flows_with_timeout).saturating_sub(prr.timeouts);
    }
    assert!(stuck > 0, "no flow of tcp was on the failed path");
    assert!(
        left_at_once > 0,
        "no flow of prr completed after its first timeout"
    );
}

#[test]
fn every_policy_completes_over_the_remaining_paths_if_the_direction_of_the_data_fails() {
    for transport in ["plb", "flowbender", "reps", "rack+path-table", "rack+spray"] {
        let r = go(transport, "forward", 1);
        assert_eq!((r.completed, r.aborted), (8, 0), "{transport}");
    }
}

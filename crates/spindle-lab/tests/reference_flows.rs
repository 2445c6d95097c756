//! Plain TCP agrees with other simulators on the reference flows.

use spindle_lab::experiment::flows::parse;
use spindle_lab::reference;

fn run(file: &str, k: u32, sack: bool) -> reference::FlowsReport {
    let path = format!(
        "{}/../../experiments/reference/{file}.flows",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = std::fs::read_to_string(path).expect("a reference file");
    reference::run(&parse(&text).expect("well formed"), k, sack).expect("runs")
}

/// htsim, ns-2 and ns-3 give 8319 to 8334 us; 0.3 % more or less is allowed.
#[test]
fn one_flow_takes_as_long_as_elsewhere() {
    for sack in [false, true] {
        let mean = run("one_k4", 4, sack).fct_us.mean;
        assert!(
            (8319.0 * 0.997..8334.0 * 1.003).contains(&mean),
            "{mean} us"
        );
    }
}

/// Sixteen colliding flows all finish, and again in the same time.
#[test]
fn a_permutation_finishes_and_repeats() {
    let (a, b) = (run("perm_k4", 4, true), run("perm_k4", 4, true));
    assert_eq!(a.completed, 16);
    assert_eq!(a.fct_us.mean.to_bits(), b.fct_us.mean.to_bits());
    assert!(
        (8_000.0..40_000.0).contains(&a.fct_us.mean),
        "{} us",
        a.fct_us.mean
    );
}

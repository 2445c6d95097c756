//! Prints how often 95 % intervals cover the true value, for the table of docs/numbers.md.
//!
//! `cargo run --release -p spindle-experiment --example coverage -- 2000`: the first argument is the number of
//! experiments per row. Further arguments are numbers of runs, in place of those of the table.

#[path = "../tests/support/coverage.rs"]
mod coverage;

use std::process::ExitCode;

use coverage::{ALIKE, DIFFERENT, Shape, Statistic, experiments};
use spindle_experiment::metrics::Metric;

/// Numbers of runs. Experiments of a paper that measure long flows have 2, 3 or 5 runs, all others 20 or more.
const RUNS: [usize; 7] = [2, 3, 5, 10, 20, 30, 50];

/// Flows per run.
const FLOWS: usize = 250;

/// Runs that differ by an order of magnitude.
const VERY_DIFFERENT: Shape = Shape {
    name: "runs that differ tenfold",
    between_runs: 1.0,
    within_runs: 1.0,
    timeouts: 0.0,
};

/// Rare timeouts of 200 times the median, more in some runs than in others.
const TIMEOUTS: Shape = Shape {
    name: "rare timeouts, more in some runs",
    between_runs: 0.2,
    within_runs: 0.5,
    timeouts: 0.015,
};

fn main() -> ExitCode {
    let arguments: Option<Vec<u32>> = std::env::args().skip(1).map(|n| n.parse().ok()).collect();
    let arguments = arguments.unwrap_or_default();
    let Some((&count, runs)) = arguments.split_first().filter(|(_, r)| !r.contains(&0)) else {
        eprintln!("usage: coverage EXPERIMENTS [RUNS]...");
        return ExitCode::from(2);
    };
    let runs: Vec<usize> = match runs {
        [] => RUNS.to_vec(),
        given => given.iter().map(|n| *n as usize).collect(),
    };
    let p99 = Metric::FctPercentile(0.99);
    let statistics = [
        Statistic::Of(Metric::FctMean),
        Statistic::Of(Metric::FctPercentile(0.5)),
        Statistic::Of(p99),
        Statistic::Difference(Metric::FctMean),
        Statistic::Decrease(Metric::FctMean),
        Statistic::Decrease(p99),
    ];
    println!("| runs | distribution | statistic | covered |\n|---|---|---|---|");
    for runs in runs {
        for shape in [ALIKE, DIFFERENT, VERY_DIFFERENT, TIMEOUTS] {
            for found in experiments(shape, (runs, FLOWS), &statistics, count) {
                let (name, share) = (found.statistic.name(), 100.0 * found.share());
                println!("| {runs} | {} | {name} | {share:.1} % |", shape.name);
            }
        }
    }
    ExitCode::SUCCESS
}

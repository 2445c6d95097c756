//! How often 95 % intervals cover the true value: many experiments of runs whose distribution is known. The
//! example `coverage` makes more of them, for the table of docs/numbers.md.

#[path = "support/coverage.rs"]
mod coverage;

use coverage::{ALIKE, DIFFERENT, Shape, Statistic, experiments};
use spindle_experiment::metrics::Metric;

/// Experiments per distribution. The standard error of a coverage of 95 % is then 1.3 points.
const EXPERIMENTS: u32 = 300;
/// The fewest runs on which verdicts may depend.
const RUNS: usize = 20;

/// Checks that intervals cover the true value in 91 to 99 of 100 experiments: 93 to 97, and two points for the
/// simulation's own error.
fn check(shape: Shape, statistic: Statistic) {
    check_with(RUNS, shape, statistic);
}

fn check_with(runs: usize, shape: Shape, statistic: Statistic) {
    for found in experiments(shape, (runs, 20), &[statistic], EXPERIMENTS) {
        let share = found.share();
        let name = found.statistic.name();
        assert!(
            (0.91..=0.99).contains(&share),
            "{runs} runs, {}, {name}: {share}",
            shape.name
        );
    }
}

#[test]
fn intervals_of_means_cover_the_true_mean() {
    check(ALIKE, Statistic::Of(Metric::FctMean));
    check(DIFFERENT, Statistic::Of(Metric::FctMean));
}

#[test]
fn intervals_of_two_three_and_five_runs_cover_the_true_mean() {
    for runs in [2, 3, 5] {
        check_with(runs, ALIKE, Statistic::Of(Metric::FctMean));
        check_with(runs, DIFFERENT, Statistic::Decrease(Metric::FctMean));
    }
}

#[test]
fn intervals_of_paired_comparisons_cover_the_true_difference() {
    check(DIFFERENT, Statistic::Difference(Metric::FctMean));
    check(DIFFERENT, Statistic::Decrease(Metric::FctPercentile(0.9)));
}

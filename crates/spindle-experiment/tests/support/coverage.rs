//! Experiments of runs whose distribution is known, and how often their 95 % intervals cover the true value.

use spindle_experiment::metrics::{Metric, RunResult};
use spindle_experiment::rng::Stream;
use spindle_experiment::stats::{Pool, Resamples};

/// How flows are distributed over runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    /// Standard deviation of the logarithm of a run's factor, which multiplies all of its completion times. The
    /// flows of a run share links and losses, so that their times are not independent.
    pub(crate) between_runs: f64,
    /// Standard deviation of the logarithm of completion times within a run.
    pub(crate) within_runs: f64,
    /// Mean share of flows with a timeout. The share of each run is exponentially distributed.
    pub(crate) timeouts: f64,
}

/// Runs that are much alike.
pub(crate) const ALIKE: Shape = Shape {
    name: "runs much alike",
    between_runs: 0.1,
    within_runs: 0.5,
    timeouts: 0.0,
};

/// Runs that differ, with long tails within them.
pub(crate) const DIFFERENT: Shape = Shape {
    name: "runs that differ, long tails",
    between_runs: 0.5,
    within_runs: 1.0,
    timeouts: 0.0,
};

/// The median completion time in nanoseconds.
const MEDIAN: f64 = 1e6;
/// A timeout, in units of the median completion time.
const TIMEOUT: f64 = 200.0;

impl Shape {
    /// A run under two transports. The second is 20 % slower on average, and both have the same luck.
    fn run(&self, rng: &mut Stream, flows: usize) -> [RunResult; 2] {
        let factor = MEDIAN * (self.between_runs * rng.normal()).exp();
        let timeouts = rng.exponential(self.timeouts).min(1.0);
        let mut results = [RunResult::default(), RunResult::default()];
        for _ in 0..flows {
            let common = factor * (self.within_runs * rng.normal()).exp();
            for (result, slower) in results.iter_mut().zip([1.0, 1.2]) {
                let mut time = common * slower * (0.3 * rng.normal()).exp();
                if rng.unit() < timeouts {
                    time += TIMEOUT * MEDIAN;
                    result.flows_with_timeout += 1;
                }
                result.flows += 1;
                result.completed += 1;
                result.fct_ns.push(time as u64);
            }
        }
        results
    }

    fn pools(&self, rng: &mut Stream, runs: usize, flows: usize) -> [Pool; 2] {
        let runs: Vec<[RunResult; 2]> = (0..runs).map(|_| self.run(rng, flows)).collect();
        [0, 1].map(|k| Pool::new(runs.iter().map(|r| &r[k])))
    }
}

/// A statistic of two transports' runs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Statistic {
    /// A metric of the first transport.
    Of(Metric),
    /// The second transport's value minus the first's.
    Difference(Metric),
    /// The share by which the first transport's value is lower than the second's.
    Decrease(Metric),
}

impl Statistic {
    /// The statistic's value over weighted runs.
    fn value(self, [a, b]: &[Pool; 2], w: &[u32]) -> Option<f64> {
        match self {
            Self::Of(m) => a.weighted(m, w),
            Self::Difference(m) => Some(b.weighted(m, w)? - a.weighted(m, w)?),
            Self::Decrease(m) => {
                let (a, b) = (a.weighted(m, w)?, b.weighted(m, w)?);
                (b > 0.0).then_some((b - a) / b)
            }
        }
    }

    pub(crate) fn name(self) -> String {
        match self {
            Self::Of(m) => m.title(),
            Self::Difference(m) => format!("difference in {}", m.title()),
            Self::Decrease(m) => format!("decrease of {}", m.title()),
        }
    }
}

/// Experiments of the same kind, and in how many the interval covered the true value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coverage {
    pub(crate) statistic: Statistic,
    pub(crate) covered: u32,
    pub(crate) experiments: u32,
}

impl Coverage {
    /// The share of experiments whose interval covered the true value.
    pub(crate) fn share(&self) -> f64 {
        f64::from(self.covered) / f64::from(self.experiments)
    }
}

/// Makes experiments of `runs` runs with `flows` flows each. The true values come from a pool of 20 000 runs.
pub(crate) fn experiments(
    shape: Shape,
    (runs, flows): (usize, usize),
    statistics: &[Statistic],
    count: u32,
) -> Vec<Coverage> {
    const TRUE_RUNS: usize = 20_000;
    let mut rng = Stream::from_seed(1);
    let all = shape.pools(&mut rng, TRUE_RUNS, flows);
    let weights = vec![1; TRUE_RUNS];
    let truth: Vec<Option<f64>> = statistics.iter().map(|s| s.value(&all, &weights)).collect();
    drop(all);
    let mut found: Vec<Coverage> = statistics
        .iter()
        .map(|s| Coverage {
            statistic: *s,
            covered: 0,
            experiments: 0,
        })
        .collect();
    for _ in 0..count {
        let pools = shape.pools(&mut rng, runs, flows);
        let resamples = Resamples::new(runs);
        for ((statistic, truth), found) in statistics.iter().zip(&truth).zip(&mut found) {
            let interval = resamples.interval(|w| statistic.value(&pools, w));
            if let (Some(i), Some(truth)) = (interval, *truth) {
                found.experiments += 1;
                found.covered += u32::from(i.low <= truth && truth <= i.high);
            }
        }
    }
    found
}

//! The runs of one transport at one point, ready to be resampled.

use crate::metrics::{Metric, RunResult, TooFewFlows};

use super::{Resamples, rank};
use crate::observed;

/// The runs of one transport at one point. Its metrics can be computed with any weight per run, so that one set
/// of resamples serves all transports.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    /// Completion times with the index of their run, in ascending order.
    sorted: Vec<(u64, u32)>,
    /// How many times of each run are in each [`BLOCK`] of `sorted`, so that a rank is found without visiting
    /// every time.
    blocks: Vec<Vec<u32>>,
    runs: Vec<RunSums>,
    results: Vec<RunResult>,
}

/// The number of completion times in a block.
const BLOCK: usize = 512;

#[derive(Clone, Copy, Debug, Default)]
struct RunSums {
    flows: f64,
    completed: f64,
    fct_us: f64,
    fct_squares: f64,
    flows_with_timeout: f64,
    extra: f64,
    payload: f64,
    goodput: f64,
    background_completed: f64,
    background_goodput: f64,
    background_squares: f64,
}

impl Pool {
    /// Pools `runs`. The order of runs must be the same for all transports of a comparison.
    pub fn new<'a>(runs: impl IntoIterator<Item = &'a RunResult>) -> Self {
        let mut pool = Self::default();
        for (index, run) in runs.into_iter().enumerate() {
            pool.sorted
                .extend(run.fct_ns.iter().map(|t| (*t, index as u32)));
            pool.results.push(run.clone());
            pool.runs.push(RunSums {
                flows: run.flows as f64,
                completed: run.completed as f64,
                fct_us: run.fct_ns.iter().map(|t| *t as f64 / 1e3).sum(),
                fct_squares: run.fct_ns.iter().map(|t| (*t as f64 / 1e3).powi(2)).sum(),
                flows_with_timeout: run.flows_with_timeout as f64,
                extra: run.extra_bytes as f64,
                payload: run.payload_bytes as f64,
                goodput: run.goodput_sum_bps,
                background_completed: run.background.completed as f64,
                background_goodput: run.background.goodput_sum_bps,
                background_squares: run.background.goodput_squares,
            });
        }
        pool.sorted.sort_unstable();
        let runs = pool.runs.len();
        let count = |block: &[(u64, u32)]| {
            let mut counts = vec![0; runs];
            block.iter().for_each(|(_, run)| counts[*run as usize] += 1);
            counts
        };
        pool.blocks = pool.sorted.chunks(BLOCK).map(count).collect();
        pool
    }

    /// The number of runs.
    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    /// Whether the numbers were computed and not measured. They are then the same for every seed.
    pub fn is_exact(&self) -> bool {
        !self.results.is_empty() && self.results.iter().all(|r| !r.computed.is_empty())
    }

    /// Resamples of the runs, or only the runs themselves if the numbers are exact.
    pub fn resamples(&self) -> Resamples {
        match self.is_exact() {
            true => Resamples::exact(self.runs()),
            false => Resamples::new(self.runs()),
        }
    }

    /// Completion times in microseconds, in ascending order.
    pub fn fct_us(&self) -> impl Iterator<Item = f64> + '_ {
        self.sorted.iter().map(|(t, _)| *t as f64 / 1e3)
    }

    /// Flows that completed, over all runs.
    pub fn completed(&self) -> u64 {
        self.sorted.len() as u64
    }

    /// Checks that enough flows completed for the metric to be shown or judged.
    ///
    /// # Errors
    /// If the metric is a high percentile that needs more flows ([`Metric::wanted_flows`]).
    pub fn check_flows(&self, metric: Metric) -> Result<(), TooFewFlows> {
        match self.is_exact() {
            true => Ok(()),
            false => metric.check_flows(self.flows_of(metric)),
        }
    }

    /// The number of flows that the metric is computed from, over all runs.
    fn flows_of(&self, metric: Metric) -> u64 {
        let samples = match metric {
            Metric::Spec(spec) => spec.samples(),
            _ => None,
        };
        match samples {
            Some((_, of)) => self.results.iter().map(|r| of(r).len() as u64).sum(),
            None => self.completed(),
        }
    }

    /// The metric over all runs, if enough flows completed for it to be shown.
    pub fn shown(&self, metric: Metric) -> Option<f64> {
        self.check_flows(metric).ok()?;
        self.value(metric)
    }

    /// Flows with a timeout and all flows.
    pub fn timeouts_of_flows(&self) -> (f64, f64) {
        let sum = |f: fn(&RunSums) -> f64| self.runs.iter().map(f).sum();
        (sum(|r| r.flows_with_timeout), sum(|r| r.flows))
    }

    /// The metric over all runs. `None` if no flow completed.
    pub fn value(&self, metric: Metric) -> Option<f64> {
        self.weighted(metric, &vec![1; self.runs.len()])
    }

    /// The metric with run i counted `weights[i]` times. `None` if there is nothing left to compute it from.
    pub fn weighted(&self, metric: Metric, weights: &[u32]) -> Option<f64> {
        let sum = |f: fn(&RunSums) -> f64| -> f64 {
            self.runs
                .iter()
                .zip(weights)
                .map(|(r, w)| f(r) * f64::from(*w))
                .sum()
        };
        let ratio = |a: f64, b: f64| (b > 0.0).then_some(a / b);
        let deviation = |squares: f64, sum: f64, n: f64| {
            let variance = ratio(squares, n)? - ratio(sum, n)?.powi(2);
            Some(variance.max(0.0).sqrt())
        };
        match metric {
            Metric::FctDeviation => deviation(
                sum(|r| r.fct_squares),
                sum(|r| r.fct_us),
                sum(|r| r.completed),
            ),
            Metric::GoodputBackgroundDeviation => deviation(
                sum(|r| r.background_squares),
                sum(|r| r.background_goodput),
                sum(|r| r.background_completed),
            ),
            Metric::FctMean => ratio(sum(|r| r.fct_us), sum(|r| r.completed)),
            Metric::FctPercentile(q) => self.percentile(q, weights),
            Metric::FctMax => self.percentile(1.0, weights),
            Metric::TimeoutFraction => ratio(sum(|r| r.flows_with_timeout), sum(|r| r.flows)),
            Metric::ExtraLoad => ratio(sum(|r| r.extra), sum(|r| r.payload)),
            Metric::GoodputAll => ratio(
                sum(|r| r.goodput + r.background_goodput),
                sum(|r| r.completed + r.background_completed),
            ),
            Metric::GoodputBackground => ratio(
                sum(|r| r.background_goodput),
                sum(|r| r.background_completed),
            ),
            Metric::Goodput => ratio(sum(|r| r.goodput), sum(|r| r.completed)),
            Metric::Spec(spec) => spec.value(&self.results, weights),
            Metric::Observed(metric) => observed::weighted(&self.results, metric, weights),
        }
    }

    /// The largest distance between this distribution of completion times and another's (Kolmogorov-Smirnov),
    /// with run i of both counted `weights[i]` times. `None` if either has no flows.
    pub fn ks(&self, other: &Self, weights: &[u32]) -> Option<f64> {
        let total = |p: &Self| -> f64 {
            let runs = p.runs.iter().zip(weights);
            runs.map(|(r, w)| r.completed * f64::from(*w)).sum()
        };
        let (n, m) = (total(self), total(other));
        if n < 1.0 || m < 1.0 {
            return None;
        }
        let weight = |run: u32| f64::from(weights[run as usize]);
        let (mut i, mut j, mut a, mut b, mut most) = (0, 0, 0.0, 0.0, 0f64);
        let time = |of: &Self, k: usize| of.sorted.get(k).map_or(u64::MAX, |(t, _)| *t);
        while i < self.sorted.len() || j < other.sorted.len() {
            let at = time(self, i).min(time(other, j));
            while i < self.sorted.len() && self.sorted[i].0 == at {
                a += weight(self.sorted[i].1);
                i += 1;
            }
            while j < other.sorted.len() && other.sorted[j].0 == at {
                b += weight(other.sorted[j].1);
                j += 1;
            }
            most = most.max((a / n - b / m).abs());
        }
        Some(most)
    }

    /// For each run, the number of flows whose time here is shorter than under the other transport by a share
    /// within `gain`, and the number of all flows. `None` if a flow has no time under one of the two.
    pub fn gains(&self, other: &Self, gain: (f64, f64)) -> Option<Vec<(u64, u64)>> {
        // Times are in the order of issue only if every flow completed.
        let whole = |r: &RunResult| r.completed == r.flows && !r.fct_ns.is_empty();
        let one = |(x, y): (&RunResult, &RunResult)| {
            let (a, b) = (&x.fct_ns, &y.fct_ns);
            let pairs = a.iter().zip(b).map(|(a, b)| 1.0 - *a as f64 / *b as f64);
            let within = pairs.filter(|g| (gain.0..=gain.1).contains(g)).count();
            let whole = whole(x) && whole(y) && a.len() == b.len();
            whole.then_some((within as u64, a.len() as u64))
        };
        self.results.iter().zip(&other.results).map(one).collect()
    }

    /// Walks over blocks, then within one block, until the rank is reached.
    fn percentile(&self, q: f64, weights: &[u32]) -> Option<f64> {
        let n: f64 = self
            .runs
            .iter()
            .zip(weights)
            .map(|(r, w)| r.completed * f64::from(*w))
            .sum();
        if n < 1.0 {
            return None;
        }
        let rank = rank(n as u64, q);
        let mut before = 0;
        for (block, counts) in self.sorted.chunks(BLOCK).zip(&self.blocks) {
            let pairs = counts.iter().zip(weights);
            let within: u64 = pairs.map(|(c, w)| u64::from(*c) * u64::from(*w)).sum();
            if before + within < rank {
                before += within;
                continue;
            }
            let mut seen = before;
            let found = block.iter().find(|(_, run)| {
                seen += u64::from(weights[*run as usize]);
                seen >= rank
            });
            return found.map(|(t, _)| *t as f64 / 1e3);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::nearest_rank;
    use proptest::prelude::*;

    fn run(fct: &[u64]) -> RunResult {
        RunResult {
            flows: fct.len() as u64,
            completed: fct.len() as u64,
            fct_ns: fct.to_vec(),
            ..RunResult::default()
        }
    }

    proptest! {
        #[test]
        fn weighted_percentiles_equal_those_of_the_repeated_data(
            runs in prop::collection::vec(prop::collection::vec(0u64..1000, 1..40), 1..6),
            weights in prop::collection::vec(0u32..4, 6),
            q in 0.0f64..=1.0,
        ) {
            let results: Vec<_> = runs.iter().map(|r| run(r)).collect();
            let mut all = Vec::new();
            for (r, w) in runs.iter().zip(&weights) {
                for _ in 0..*w {
                    all.extend(r.iter().map(|t| *t as f64 / 1e3));
                }
            }
            all.sort_by(f64::total_cmp);
            let got = Pool::new(&results).weighted(Metric::FctPercentile(q), &weights[..runs.len()]);
            prop_assert_eq!(got, (!all.is_empty()).then(|| nearest_rank(&all, q)));
        }
    }

    #[test]
    fn a_rank_is_found_in_every_block() {
        let runs: Vec<_> = (0..7u64)
            .map(|r| run(&(0..600).map(|i| 1000 * (7 * i + r)).collect::<Vec<_>>()))
            .collect();
        let pool = Pool::new(&runs);
        for i in [1, 511, 512, 513, 2100, 4199, 4200] {
            let q = f64::from(i) / 4200.0;
            let value = pool.value(Metric::FctPercentile(q));
            assert_eq!(value, Some(f64::from(i - 1)), "rank {i}");
        }
    }

    #[test]
    fn distances_compare_distributions_and_gains_compare_pairs() {
        let (a, b) = ([run(&[1, 2, 3, 4])], [run(&[3, 4, 5, 6])]);
        let pools = |x: &[RunResult], y: &[RunResult]| (Pool::new(x), Pool::new(y));
        let (p, q) = pools(&a, &b);
        assert_eq!(p.ks(&q, &[1]), Some(0.5));
        assert_eq!((p.ks(&p, &[1]), q.ks(&p, &[3])), (Some(0.0), Some(0.5)));
        assert_eq!(p.ks(&q, &[0]), None);
        // Swapped, the runs have the same distributions in total, but not individually.
        let (p, q) = pools(&[&a[..], &b].concat(), &[&b[..], &a].concat());
        assert_eq!(
            (p.ks(&q, &[1, 1]), p.ks(&q, &[1, 0])),
            (Some(0.0), Some(0.5))
        );
        let (p, q) = pools(&[run(&[10, 5, 20])], &[run(&[10, 10, 10])]);
        assert_eq!(p.gains(&q, (0.4, 0.6)), Some(vec![(1, 3)]));
        assert_eq!(p.gains(&q, (-1.0, 0.05)), Some(vec![(2, 3)]));
        let short = Pool::new(&[run(&[1, 2])]);
        assert_eq!(p.gains(&short, (0.0, 1.0)), None);
    }

    #[test]
    fn ratios_are_computed_from_sums() {
        let mut a = run(&[1000, 3000]);
        let mut b = run(&[2000]);
        (a.flows_with_timeout, b.extra_bytes, b.payload_bytes) = (1, 10, 40);
        a.payload_bytes = 60;
        let pool = Pool::new([&a, &b]);
        assert_eq!(pool.value(Metric::FctMean), Some(2.0));
        let deviation = pool.value(Metric::FctDeviation).unwrap();
        assert!((deviation - (2.0f64 / 3.0).sqrt()).abs() < 1e-9);
        assert_eq!(pool.value(Metric::TimeoutFraction), Some(1.0 / 3.0));
        assert_eq!(pool.value(Metric::ExtraLoad), Some(0.1));
        assert_eq!(pool.weighted(Metric::ExtraLoad, &[1, 0]), Some(0.0));
        assert_eq!(Pool::new([]).value(Metric::FctMean), None);
    }
}

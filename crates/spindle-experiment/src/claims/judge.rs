//! The points and runs that a test judges, and the statistics that several tests share.

use crate::metrics::Metric;
use crate::scenario::Scenario;
use crate::stats::{Interval, Pool, wilson};

use super::Test;

/// One point of a sweep as claims see it.
#[derive(Clone, Copy, Debug)]
pub struct PointView<'a> {
    /// The axes and values that the sweep set.
    pub set: &'a [(String, String)],
    /// The scenario.
    pub scenario: &'a Scenario,
    /// The transports' pooled runs. All transports have the same runs in the same order.
    pub pools: &'a [(String, Pool)],
}

impl PointView<'_> {
    /// The pooled runs of a transport. `None` if it was not run.
    pub fn pool(&self, transport: &str) -> Option<&Pool> {
        self.pools
            .iter()
            .find(|(name, _)| name == transport)
            .map(|(_, pool)| pool)
    }

    /// The point's settings as text, such as `loss 1%, rate 1Gbps`.
    pub fn label(&self) -> String {
        let parts: Vec<_> = self.set.iter().map(|(a, v)| format!("{a} {v}")).collect();
        if parts.is_empty() {
            "the point".to_owned()
        } else {
            parts.join(", ")
        }
    }
}

/// The metric and the points of a claim, from which a test makes its comparisons.
#[derive(Clone, Copy, Debug)]
pub struct Judge<'a> {
    /// The metric.
    pub metric: Metric,
    /// The points that meet the claim's conditions.
    pub points: &'a [PointView<'a>],
}

impl Judge<'_> {
    /// The runs of a transport at a point.
    ///
    /// # Errors
    /// If there are none, too few for an interval, or none that have a value of the metric.
    pub fn pool<'p>(&self, point: &PointView<'p>, transport: &str) -> Result<&'p Pool, String> {
        let pool = point
            .pools
            .iter()
            .find(|(name, _)| name == transport)
            .map(|(_, pool)| pool)
            .ok_or_else(|| format!("{transport} was not run"))?;
        if pool.runs() < 2 && !pool.is_exact() {
            return Err(format!(
                "{transport} has one run, intervals need two or more"
            ));
        }
        match pool.value(self.metric) {
            Some(_) => Ok(pool),
            None if pool.is_exact() => Err(format!(
                "the formulas give {transport} no such value at {}",
                point.label()
            )),
            None => Err(format!(
                "{transport} completed no flow at {}",
                point.label()
            )),
        }
    }

    /// The metric's interval by resampling runs. For shares of flows with a timeout, it is at least as wide as
    /// the interval of independent flows, because no variation between runs does not mean certainty.
    ///
    /// # Errors
    /// If no flow completed, or if there is only one run.
    pub fn interval(&self, pool: &Pool) -> Result<(f64, Interval), String> {
        let value = pool.value(self.metric).ok_or("no flow completed")?;
        let mut interval = pool
            .resamples()
            .interval(|w| pool.weighted(self.metric, w))
            .ok_or("intervals need two or more runs")?
            .around(value);
        if self.metric == Metric::TimeoutFraction {
            let (hits, n) = pool.timeouts_of_flows();
            let independent = wilson(hits, n);
            interval.low = interval.low.min(independent.low);
            interval.high = interval.high.max(independent.high);
        }
        Ok((value, interval))
    }

    /// The values of transports `a` and `b` at a point, and the interval of `statistic` of both. The statistic is
    /// applied to the values of both transports under the same resampled runs.
    ///
    /// # Errors
    /// If the transports do not have the same number of runs, or no value of the metric.
    pub fn paired(
        &self,
        point: &PointView<'_>,
        a: &str,
        b: &str,
        statistic: impl Fn(f64, f64) -> f64,
    ) -> Result<(f64, f64, Interval), String> {
        let (pa, pb) = (self.pool(point, a)?, self.pool(point, b)?);
        if pa.runs() != pb.runs() {
            return Err(format!("{a} and {b} have different numbers of runs"));
        }
        let (Some(va), Some(vb)) = (pa.value(self.metric), pb.value(self.metric)) else {
            return Err("no flow completed".to_owned());
        };
        let interval = pa
            .resamples()
            .interval(|w| {
                Some(statistic(
                    pa.weighted(self.metric, w)?,
                    pb.weighted(self.metric, w)?,
                ))
            })
            .ok_or("intervals need two or more runs")?;
        Ok((va, vb, interval))
    }

    /// Whether the points were computed, so that there is no uncertainty.
    fn exact(&self) -> bool {
        let pools = || self.points.iter().flat_map(|p| p.pools);
        pools().all(|(_, pool)| pool.is_exact())
    }

    /// A value with its interval as text, in the metric's unit.
    pub fn with_interval(&self, value: f64, i: Interval) -> String {
        let show = |v| self.metric.show(v);
        if self.exact() {
            return show(value);
        }
        format!("{} [{} to {}]", show(value), show(i.low), show(i.high))
    }

    /// Two transports' values at a point as text, each with its interval.
    ///
    /// # Errors
    /// See [`Self::pool`].
    pub fn two(
        &self,
        point: &PointView<'_>,
        (a, va): (&str, f64),
        (b, vb): (&str, f64),
    ) -> Result<String, String> {
        let (_, ia) = self.interval(self.pool(point, a)?)?;
        let (_, ib) = self.interval(self.pool(point, b)?)?;
        let (va, vb) = (self.with_interval(va, ia), self.with_interval(vb, ib));
        Ok(format!("{}: {a} {va}, {b} {vb}", point.label()))
    }

    /// The range of the metric over the points, for each transport of a test, as text.
    pub(super) fn measured(&self, test: &dyn Test) -> String {
        let mut names: Vec<&str> = Vec::new();
        for name in test.transports() {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let ranges: Vec<String> = names
            .iter()
            .filter_map(|name| self.range(name).map(|r| format!("{name} {r}")))
            .collect();
        let pool = self.points[0].pool(names.first().copied().unwrap_or(""));
        let runs = pool.map_or(0, Pool::runs);
        let points = self.points.len();
        let made = match self.exact() {
            true => "computed".to_owned(),
            false => format!("{runs} runs each"),
        };
        let (s, title) = (if points == 1 { "" } else { "s" }, self.metric.title());
        format!("{title}: {} ({points} point{s}, {made})", ranges.join(", "))
    }

    /// A transport's lowest and highest value over the points, each with its interval.
    fn range(&self, name: &str) -> Option<String> {
        let pools: Option<Vec<(f64, &Pool)>> = self
            .points
            .iter()
            .map(|p| p.pool(name).and_then(|p| Some((p.value(self.metric)?, p))))
            .collect();
        let pools = pools?;
        let by_value = |a: &&(f64, &Pool), b: &&(f64, &Pool)| a.0.total_cmp(&b.0);
        let (low, high) = (
            pools.iter().min_by(by_value)?,
            pools.iter().max_by(by_value)?,
        );
        let show = |(value, pool): &(f64, &Pool)| match self.interval(pool) {
            Ok((value, i)) => self.with_interval(value, i),
            Err(_) => self.metric.show(*value),
        };
        Some(if low.0 == high.0 {
            show(low)
        } else {
            format!("{} up to {}", show(low), show(high))
        })
    }
}

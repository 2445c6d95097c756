//! The points and runs that a test judges, and the statistics that several tests share.

use crate::metrics::Metric;
use crate::scenario::Scenario;
use crate::stats::{Estimate, Pool};

use super::values::names;
use super::{Measured, Test};

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

/// How far `a` is above `b`, as a share of `b`. Two zeros do not differ, and every other value is far from zero.
pub(super) fn above(a: f64, b: f64) -> f64 {
    const FAR: f64 = 1e6; // a finite number that no claim states
    match () {
        () if a == b => 0.0,
        () if b == 0.0 => FAR.copysign(a),
        () => a / b - 1.0,
    }
}

impl Judge<'_> {
    /// The runs of a transport at a point.
    ///
    /// # Errors
    /// If there are none, too few for an interval, none that have a value of the metric, or if too few flows
    /// completed for it ([`Metric::wanted_flows`]).
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
            Some(_) => match pool.check_flows(self.metric) {
                Ok(()) => Ok(pool),
                Err(few) => Err(format!(
                    "{few} for {} of {transport} at {}",
                    self.metric.title(),
                    point.label()
                )),
            },
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

    /// The metric over the runs of a pool. Shares of flows with a timeout are shares of flows.
    ///
    /// # Errors
    /// If no flow completed, or if there is only one run.
    pub fn measure(&self, pool: &Pool) -> Result<Measured, String> {
        if pool.value(self.metric).is_none() {
            return Err("no flow completed".to_owned());
        }
        let estimate = self.estimate(pool, |w| pool.weighted(self.metric, w))?;
        Ok(match self.metric {
            Metric::TimeoutFraction => Measured::share(estimate, pool.timeouts_of_flows()),
            _ => Measured::new(estimate),
        })
    }

    /// A statistic of weighted runs, which are as many as those of `pool`.
    ///
    /// # Errors
    /// If there is only one run, or if too few resamples have a value.
    pub fn estimate(
        &self,
        pool: &Pool,
        statistic: impl Fn(&[u32]) -> Option<f64>,
    ) -> Result<Estimate, String> {
        let estimate = pool.resamples().estimate(statistic);
        estimate.ok_or_else(|| "intervals need two or more runs with values".to_owned())
    }

    /// The values of transports `a` and `b` at a point, and `statistic` of both, which is applied to their values
    /// under the same resampled runs.
    ///
    /// # Errors
    /// If the transports do not have the same number of runs, or no value of the metric.
    pub fn paired(
        &self,
        point: &PointView<'_>,
        a: &str,
        b: &str,
        statistic: impl Fn(f64, f64) -> f64,
    ) -> Result<(f64, f64, Measured), String> {
        let (pa, pb) = (self.pool(point, a)?, self.pool(point, b)?);
        if pa.runs() != pb.runs() {
            return Err(format!("{a} and {b} have different numbers of runs"));
        }
        let (Some(va), Some(vb)) = (pa.value(self.metric), pb.value(self.metric)) else {
            return Err("no flow completed".to_owned());
        };
        let estimate = self.estimate(pa, |w| {
            let (a, b) = (pa.weighted(self.metric, w)?, pb.weighted(self.metric, w)?);
            Some(statistic(a, b))
        })?;
        Ok((va, vb, Measured::new(estimate)))
    }

    /// Whether the points were computed, so that there is no uncertainty.
    fn exact(&self) -> bool {
        let pools = || self.points.iter().flat_map(|p| p.pools);
        pools().all(|(_, pool)| pool.is_exact())
    }

    /// A value of the metric with its interval as text, in the metric's unit.
    pub fn with_interval(&self, found: &Measured) -> String {
        let show = |v| self.metric.show(v);
        if self.exact() {
            return show(found.value());
        }
        let i = self.metric.possible(found.interval(), found.value());
        let (low, high) = (show(i.low), show(i.high));
        format!("{} [{low} to {high}]", show(found.value()))
    }

    /// Two transports' values at a point as text, each with its interval.
    ///
    /// # Errors
    /// See [`Self::pool`].
    pub fn two(&self, point: &PointView<'_>, a: &str, b: &str) -> Result<String, String> {
        let show = |name| -> Result<String, String> {
            let found = self.measure(self.pool(point, name)?)?;
            Ok(self.with_interval(&found))
        };
        let (va, vb) = (show(a)?, show(b)?);
        Ok(format!("{}: {a} {va}, {b} {vb}", point.label()))
    }

    /// The range of the metric over the points, for each transport of a test, as text.
    pub(super) fn measured(&self, test: &dyn Test) -> String {
        let names = names(test);
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
        let show = |(value, pool): &(f64, &Pool)| match self.measure(pool) {
            Ok(found) => self.with_interval(&found),
            Err(_) => self.metric.show(*value),
        };
        Some(if low.0 == high.0 {
            show(low)
        } else {
            format!("{} up to {}", show(low), show(high))
        })
    }
}

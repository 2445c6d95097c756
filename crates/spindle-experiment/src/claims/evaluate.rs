//! Turns pooled runs into verdicts.

use super::largest::Way;
use super::{Claim, Outcome, Test, Verdict};
use crate::bound::{packets, rto_bound};
use crate::metrics::Metric;
use crate::scenario::{LossModel, Scenario, Traffic};
use crate::stats::{Interval, Pool, wilson};
use crate::units;

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
    fn pool(&self, transport: &str) -> Option<&Pool> {
        self.pools
            .iter()
            .find(|(name, _)| name == transport)
            .map(|(_, pool)| pool)
    }

    pub(super) fn label(&self) -> String {
        let parts: Vec<_> = self.set.iter().map(|(a, v)| format!("{a} {v}")).collect();
        if parts.is_empty() {
            "the point".to_owned()
        } else {
            parts.join(", ")
        }
    }
}

/// One comparison: its verdict, and a text with the place and the values.
pub(super) struct Finding {
    pub(super) verdict: Verdict,
    pub(super) text: String,
}

/// The findings, or the reason why there are none.
pub(super) type Findings = Result<Vec<Finding>, String>;

/// Largest number of comparisons that `why` lists. It lists comparisons that did not hold.
const LISTED: usize = 6;

/// Checks one claim at the points that meet its conditions.
pub fn evaluate(claim: &Claim, points: &[PointView<'_>]) -> Outcome {
    let chosen: Vec<PointView<'_>> = points
        .iter()
        .filter(|p| claim.filter.iter().all(|c| c.holds(p.set)))
        .copied()
        .collect();
    let judge = Judge {
        metric: claim.metric,
        points: &chosen,
    };
    let findings = match (&claim.test, chosen.is_empty()) {
        (Test::NotCheckable(reason), _) => Err(reason.clone()),
        (_, true) => Err("no point of this run meets the claim's conditions".to_owned()),
        (test, false) => judge.findings(test),
    };
    let (verdict, mut why) = match &findings {
        Err(reason) => (Verdict::NotCheckable, reason.clone()),
        Ok(list) => {
            let verdict = match claim.test {
                Test::Lowest { .. } | Test::Highest { .. } => extreme(list),
                _ => Verdict::all(list.iter().map(|f| f.verdict)),
            };
            (verdict, reasons(list, verdict))
        }
    };
    if let Some(note) = &claim.note {
        why = if why.is_empty() {
            note.clone()
        } else {
            format!("{why} ({note})")
        };
    }
    let measured = match findings {
        Err(_) => "-".to_owned(),
        Ok(_) => {
            let of = |metric| Judge { metric, ..judge }.measured(&claim.test);
            let metrics = std::iter::once(claim.metric).chain(claim.test.also().iter().copied());
            metrics.map(of).collect::<Vec<_>>().join("; ")
        }
    };
    Outcome {
        id: claim.id.clone(),
        kind: claim.kind,
        text: claim.text.clone(),
        paper: claim.paper.clone(),
        measured,
        verdict,
        why,
    }
}

/// Fails if any comparison fails. Otherwise holds if any comparison holds. Otherwise tied.
fn extreme(list: &[Finding]) -> Verdict {
    let any = |v| list.iter().any(|f| f.verdict == v);
    match (any(Verdict::Fails), any(Verdict::Holds)) {
        (true, _) => Verdict::Fails,
        (false, true) => Verdict::Holds,
        (false, false) => Verdict::Tied,
    }
}

fn reasons(list: &[Finding], verdict: Verdict) -> String {
    let count = |v| list.iter().filter(|f| f.verdict == v).count();
    let (holds, tied, fails) = (
        count(Verdict::Holds),
        count(Verdict::Tied),
        count(Verdict::Fails),
    );
    if list.len() == 1 {
        return list[0].text.clone();
    }
    let mut text = format!(
        "of {} comparisons {holds} hold, {tied} are tied, {fails} fail",
        list.len()
    );
    let shown = match verdict {
        Verdict::Fails => Verdict::Fails,
        _ => Verdict::Tied,
    };
    let named: Vec<&str> = list
        .iter()
        .filter(|f| f.verdict == shown)
        .map(|f| f.text.as_str())
        .collect();
    if !named.is_empty() {
        let more = named.len().saturating_sub(LISTED);
        text = format!("{text}: {}", named[..named.len().min(LISTED)].join("; "));
        if more > 0 {
            text = format!("{text}; and {more} more");
        }
    }
    text
}

pub(super) struct Judge<'a> {
    pub(super) metric: Metric,
    pub(super) points: &'a [PointView<'a>],
}

impl Judge<'_> {
    fn findings(&self, test: &Test) -> Findings {
        match test {
            Test::Below { of, value } => self.against_value(of, *value, true),
            Test::Above { of, value } => self.against_value(of, *value, false),
            Test::About { of, value, slack } => self.about(of, *value, *slack),
            Test::Decrease {
                of,
                against,
                between,
                slack,
            } => self.decrease(of, against, *between, *slack),
            Test::Reduction {
                of,
                against,
                up_to,
                slack,
            } => self.largest(Way::Reduction, (of, against), *up_to, *slack),
            Test::LargestIncrease {
                of,
                against,
                up_to,
                slack,
            } => self.largest(Way::Increase, (of, against), *up_to, *slack),
            Test::Increase {
                of,
                against,
                between,
                slack,
            } => self.increase(of, against, *between, *slack),
            Test::Order { groups } => self.order(groups),
            Test::Lowest { of, against } => self.order(&[vec![of.clone()], against.clone()]),
            Test::Highest { of, against } => self.order(&[against.clone(), vec![of.clone()]]),
            Test::Similar {
                of,
                against,
                within,
            } => self.similar(of, against, *within),
            Test::Bound { of, within } => self.bound(of, *within),
            Test::Growth { of, axis, between } => self.growth(of, axis, *between),
            Test::Shape {
                of,
                against,
                axis,
                shape,
            } => self.shape(of, against.as_deref(), axis, *shape),
            Test::BetweenPoints {
                of,
                axis,
                low,
                high,
                change,
            } => self.between_points(of, (axis, low, high), *change),
            Test::NearBest(test) => self.near_best(test),
            Test::NotNearBest(test) => self.not_near_best(test),
            Test::Difference {
                of,
                against,
                between,
                slack,
            } => self.difference((of, against), *between, *slack),
            Test::Ks { of, against, below } => self.ks(of, against, *below),
            Test::Gains {
                of,
                against,
                gain,
                share,
                slack,
            } => self.gains((of, against), *gain, (share - slack, share + slack)),
            Test::NotCheckable(reason) => Err(reason.clone()),
        }
    }

    pub(super) fn pool<'p>(
        &self,
        point: &PointView<'p>,
        transport: &str,
    ) -> Result<&'p Pool, String> {
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
    pub(super) fn interval(&self, pool: &Pool) -> Result<(f64, Interval), String> {
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

    fn against_value(&self, of: &[String], limit: f64, below: bool) -> Findings {
        let mut list = Vec::new();
        for point in self.points {
            for name in of {
                let (value, i) = self.interval(self.pool(point, name)?)?;
                let verdict = match below {
                    true if i.high < limit => Verdict::Holds,
                    true if i.low >= limit => Verdict::Fails,
                    false if i.low > limit => Verdict::Holds,
                    false if i.high <= limit => Verdict::Fails,
                    _ => Verdict::Tied,
                };
                let text = format!("{}: {name} {}", point.label(), self.with_interval(value, i));
                list.push(Finding { verdict, text });
            }
        }
        Ok(list)
    }

    fn about(&self, of: &[String], value: f64, slack: f64) -> Findings {
        let (low, high) = (value - slack, value + slack);
        let mut list = Vec::new();
        for point in self.points {
            for name in of {
                let (found, i) = self.interval(self.pool(point, name)?)?;
                let verdict = match () {
                    () if i.low >= low && i.high <= high => Verdict::Holds,
                    () if i.low > high || i.high < low => Verdict::Fails,
                    () => Verdict::Tied,
                };
                let text = format!(
                    "{}: {name} {}, claimed about {}",
                    point.label(),
                    self.with_interval(found, i),
                    self.metric.show(value)
                );
                list.push(Finding { verdict, text });
            }
        }
        Ok(list)
    }

    fn decrease(&self, of: &str, against: &[String], between: (f64, f64), slack: f64) -> Findings {
        let (low, high) = (between.0 - slack, between.1 + slack);
        let show = |v: f64| units::percent((v * 1e3).round() / 1e3);
        let mut list = Vec::new();
        for point in self.points {
            for other in against {
                let (a, b, i) = self.paired(point, of, other, |a, b| (b - a) / b)?;
                let verdict = change_within(i, (low, high));
                let text = format!(
                    "{}: {of} is lower than {other} by {} [{} to {}]",
                    point.label(),
                    show((b - a) / b),
                    show(i.low),
                    show(i.high)
                );
                list.push(Finding { verdict, text });
            }
        }
        Ok(list)
    }

    /// Applies `statistic` to the pair's values under the same resampled runs.
    pub(super) fn paired(
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

    fn increase(&self, of: &str, against: &str, between: (f64, f64), slack: f64) -> Findings {
        let (low, high) = (between.0 - slack, between.1 + slack);
        self.points
            .iter()
            .map(|point| {
                let (a, b, i) = self.paired(point, of, against, |a, b| (a - b) / b)?;
                let verdict = change_within(i, (low, high));
                let show = |v: f64| units::percent((v * 1e3).round() / 1e3);
                let text = format!(
                    "{}: {of} is higher than {against} by {} [{} to {}]",
                    point.label(),
                    show((a - b) / b),
                    show(i.low),
                    show(i.high)
                );
                Ok(Finding { verdict, text })
            })
            .collect()
    }

    fn order(&self, groups: &[Vec<String>]) -> Findings {
        let mut list = Vec::new();
        for point in self.points {
            for pair in groups.windows(2) {
                for (a, b) in pair[0]
                    .iter()
                    .flat_map(|a| pair[1].iter().map(move |b| (a, b)))
                {
                    let (va, vb, i) = self.paired(point, a, b, |a, b| b - a)?;
                    let verdict = match () {
                        () if i.low > 0.0 => Verdict::Holds,
                        () if i.high < 0.0 => Verdict::Fails,
                        () => Verdict::Tied,
                    };
                    let text = self.two(point, (a, va), (b, vb))?;
                    list.push(Finding { verdict, text });
                }
            }
        }
        Ok(list)
    }

    fn similar(&self, of: &str, against: &str, within: f64) -> Findings {
        // Two zeros are similar.
        let ratio = |a: f64, b: f64| if a == b { 0.0 } else { a / b - 1.0 };
        self.points
            .iter()
            .map(|point| {
                let (a, b, i) = self.paired(point, of, against, ratio)?;
                let verdict = match () {
                    () if i.low >= -within && i.high <= within => Verdict::Holds,
                    () if i.low > within || i.high < -within => Verdict::Fails,
                    () => Verdict::Tied,
                };
                let text = self.two(point, (of, a), (against, b))?;
                Ok(Finding { verdict, text })
            })
            .collect()
    }

    fn bound(&self, of: &str, within: Option<f64>) -> Findings {
        self.points
            .iter()
            .map(|point| {
                let bound = point_bound(point.scenario)?;
                let pool = self.pool(point, of)?;
                let (hits, n) = pool.timeouts_of_flows();
                let (value, i) = self.interval(pool)?;
                let near = within
                    .is_none_or(|w| i.high >= bound * (1.0 - w) && i.low <= bound * (1.0 + w));
                let verdict = if i.high >= bound && near {
                    Verdict::Holds
                } else {
                    Verdict::Fails
                };
                let text = format!(
                    "{}: {} ({hits} of {n}), bound {}",
                    point.label(),
                    self.with_interval(value, i),
                    units::percent((bound * 1e6).round() / 1e6)
                );
                Ok(Finding { verdict, text })
            })
            .collect()
    }

    fn growth(&self, of: &str, axis: &str, between: (f64, f64)) -> Findings {
        let mut xs = Vec::new();
        for point in self.points {
            let x = point
                .set
                .iter()
                .find(|(a, _)| a == axis)
                .and_then(|(_, v)| units::quantity(v));
            let x = x
                .filter(|x| *x > 0.0)
                .ok_or("the axis has a value that is no number above 0")?;
            xs.push((x.ln(), self.pool(point, of)?));
        }
        let runs = xs.iter().map(|(_, p)| p.runs()).min().unwrap_or(0);
        let slope = |w: &[u32]| {
            let points: Option<Vec<(f64, f64)>> = xs
                .iter()
                .map(|(x, p)| {
                    p.weighted(self.metric, w)
                        .filter(|y| *y > 0.0)
                        .map(|y| (*x, y.ln()))
                })
                .collect();
            points.and_then(|p| fitted_slope(&p))
        };
        let value = slope(&vec![1; runs]).ok_or("fewer than two points, or a value of zero")?;
        let i = xs
            .first()
            .and_then(|(_, p)| p.resamples().interval(slope))
            .ok_or("intervals need two or more runs")?;
        let verdict = match () {
            () if i.low >= between.0 && i.high <= between.1 => Verdict::Holds,
            () if i.high < between.0 || i.low > between.1 => Verdict::Fails,
            () => Verdict::Tied,
        };
        let text = format!(
            "{of}: grows as {axis}^{value:.2} [{:.2} to {:.2}], {:.2} to {:.2} claimed",
            i.low, i.high, between.0, between.1
        );
        Ok(vec![Finding { verdict, text }])
    }

    /// Whether the points were computed, so that there is no uncertainty.
    fn exact(&self) -> bool {
        let pools = || self.points.iter().flat_map(|p| p.pools);
        pools().all(|(_, pool)| pool.is_exact())
    }

    pub(super) fn with_interval(&self, value: f64, i: Interval) -> String {
        let show = |v| self.metric.show(v);
        if self.exact() {
            return show(value);
        }
        format!("{} [{} to {}]", show(value), show(i.low), show(i.high))
    }

    /// Two transports' values at a point, each with its interval.
    fn two(
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

    /// The range of the metric over the points, for each transport concerned.
    fn measured(&self, test: &Test) -> String {
        let mut names: Vec<&str> = Vec::new();
        let mut add = |more: &[String]| {
            for name in more {
                if !names.iter().any(|n| n == name) {
                    names.push(
                        self.points[0]
                            .pools
                            .iter()
                            .find(|(n, _)| n == name)
                            .map_or("", |(n, _)| n),
                    );
                }
            }
        };
        match test {
            Test::Below { of, .. }
            | Test::Above { of, .. }
            | Test::About { of, .. }
            | Test::BetweenPoints { of, .. } => add(of),
            Test::Shape { of, against, .. } => {
                add(of);
                add(against.as_slice());
            }
            Test::Reduction { of, against, .. }
            | Test::LargestIncrease { of, against, .. }
            | Test::Decrease { of, against, .. }
            | Test::Lowest { of, against }
            | Test::Highest { of, against } => {
                add(std::slice::from_ref(of));
                add(against);
            }
            Test::Increase { of, against, .. }
            | Test::Similar { of, against, .. }
            | Test::Difference { of, against, .. }
            | Test::Ks { of, against, .. }
            | Test::Gains { of, against, .. } => {
                add(std::slice::from_ref(of));
                add(std::slice::from_ref(against));
            }
            Test::Order { groups } => groups.iter().for_each(|g| add(g)),
            Test::Bound { of, .. } | Test::Growth { of, .. } => add(std::slice::from_ref(of)),
            Test::NearBest(t) | Test::NotNearBest(t) => {
                t.all().for_each(|name| add(std::slice::from_ref(name)))
            }
            Test::NotCheckable(_) => {}
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

/// Whether a change, as a share, is within a claimed range: its interval overlaps the range. It is tied if its
/// interval contains 0 and the range does not.
pub(super) fn change_within(i: Interval, (low, high): (f64, f64)) -> Verdict {
    let none = i.low <= 0.0 && i.high >= 0.0;
    let claimed = low > 0.0 || high < 0.0;
    match () {
        () if i.high < low || i.low > high => Verdict::Fails,
        () if none && claimed => Verdict::Tied,
        () => Verdict::Holds,
    }
}

/// The slope by least squares. `None` if there are fewer than two different x.
fn fitted_slope(points: &[(f64, f64)]) -> Option<f64> {
    let n = points.len() as f64;
    let (mx, my) = points
        .iter()
        .fold((0.0, 0.0), |(a, b), (x, y)| (a + x / n, b + y / n));
    let (num, den) = points.iter().fold((0.0, 0.0), |(a, b), (x, y)| {
        (a + (x - mx) * (y - my), b + (x - mx).powi(2))
    });
    (den > 0.0).then_some(num / den)
}

/// The bound of mechanisms C3 for a scenario with one Bernoulli loss and one fixed size.
pub fn point_bound(scenario: &Scenario) -> Result<f64, String> {
    let Some(LossModel::Bernoulli(p)) = scenario.loss.first().map(|l| &l.model) else {
        return Err("the bound needs one Bernoulli loss".to_owned());
    };
    let Traffic::Requests(requests) = &scenario.traffic else {
        return Err("the bound needs request traffic".to_owned());
    };
    let bytes = requests.sizes.mean();
    Ok(rto_bound(
        *p,
        packets(bytes as u64, u64::from(scenario.host.mss)),
    ))
}

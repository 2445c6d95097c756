//! Tests of how far a transport is from the best of several, in one metric or in several: `near-best` and
//! `not-near-best`.

use std::sync::Arc;

use super::{
    Claimed, Finding, Findings, Judge, Keys, Measured, PointView, ReadTest, Test, Verdict,
};
use crate::catalog::Catalog;
use crate::document::ExperimentError;
use crate::metrics::Metric;
use crate::stats::Pool;
use crate::units;

/// The transports that are compared, and the metrics.
#[derive(Debug)]
struct Best {
    /// The transports that are claimed to be near the best, or not to be.
    of: Vec<String>,
    /// Other transports that may be the best. Those of `of` may be the best as well.
    against: Vec<String>,
    /// The largest share above the lowest value that counts as near it.
    within: f64,
    /// The metrics in addition to the claim's own.
    also: Vec<Metric>,
}

impl Best {
    fn read(keys: &Keys<'_>) -> Result<Self, ExperimentError> {
        let also = keys.metrics("also")?;
        Ok(Self {
            of: keys.transports("of")?,
            against: keys.section().list("against")?.unwrap_or_default(),
            within: keys.quantity("within")?,
            also,
        })
    }

    /// All transports of the test.
    fn all(&self) -> impl Iterator<Item = &String> {
        self.of.iter().chain(&self.against)
    }
}

/// Each transport is near the best of all at each point, in the claim's metric and in those of the test.
#[derive(Debug)]
struct NearBest(Best);

impl Test for NearBest {
    fn transports(&self) -> Vec<&str> {
        self.0.all().map(String::as_str).collect()
    }

    fn also(&self) -> &[Metric] {
        &self.0.also
    }

    fn findings(&self, judge: &Judge<'_>) -> Findings {
        judge.near_best(&self.0)
    }
}

/// Each transport is not near the best of all at some point in some of the metrics.
#[derive(Debug)]
struct NotNearBest(Best);

impl Test for NotNearBest {
    fn transports(&self) -> Vec<&str> {
        self.0.all().map(String::as_str).collect()
    }

    fn also(&self) -> &[Metric] {
        &self.0.also
    }

    fn findings(&self, judge: &Judge<'_>) -> Findings {
        judge.not_near_best(&self.0)
    }
}

impl Judge<'_> {
    /// Checks that each of `of` is near the best at each point in each metric.
    fn near_best(&self, test: &Best) -> Findings {
        let mut list = Vec::new();
        for name in &test.of {
            for (point, metric) in self.places(test) {
                let d = self.distance(point, name, test, metric)?;
                let text = describe(point, name, metric, &d);
                let finding = Finding::new(Claimed::Below(test.within), &d, text);
                list.push(finding.at(point, metric));
            }
        }
        Ok(list)
    }

    /// Checks that each of `of` is not near the best at some point in some metric. The comparison that holds
    /// most clearly decides. Without one it is tied if any is, and it fails only if all of them fail.
    fn not_near_best(&self, test: &Best) -> Findings {
        let each = test.of.iter().map(|name| {
            let mut places = Vec::new();
            for (point, metric) in self.places(test) {
                let d = self.distance(point, name, test, metric)?;
                let text = describe(point, name, metric, &d);
                let finding = Finding::new(Claimed::Above(test.within), &d, text);
                let finding = finding.at(point, metric);
                places.push((d.interval().low, finding));
            }
            let farthest = most_clearly(places);
            farthest.ok_or_else(|| "there is no point".to_owned())
        });
        each.collect()
    }

    fn places(&self, test: &Best) -> impl Iterator<Item = (&PointView<'_>, Metric)> {
        let also = test.also.clone();
        self.points.iter().flat_map(move |point| {
            let metrics = std::iter::once(self.metric).chain(also.clone());
            metrics.map(move |metric| (point, metric))
        })
    }

    fn distance(
        &self,
        point: &PointView<'_>,
        name: &str,
        test: &Best,
        metric: Metric,
    ) -> Result<Measured, String> {
        let judge = Judge { metric, ..*self };
        let own = judge.pool(point, name)?;
        let pools: Vec<&Pool> = test
            .all()
            .map(|other| judge.pool(point, other))
            .collect::<Result<_, _>>()?;
        if pools.iter().any(|p| p.runs() != own.runs()) {
            return Err("the transports have different numbers of runs".to_owned());
        }
        let above = |w: &[u32]| {
            let values = pools.iter().map(|p| p.weighted(metric, w));
            let best = values.collect::<Option<Vec<f64>>>()?;
            let best = best.into_iter().min_by(f64::total_cmp)?;
            (best > 0.0).then_some(own.weighted(metric, w)? / best - 1.0)
        };
        if above(&vec![1; own.runs()]).is_none() {
            return Err("the best value is zero".to_owned());
        }
        Ok(Measured::new(self.estimate(own, above)?))
    }
}

/// The finding that holds with the largest lower end of its interval. Without one that holds it is a tied one, and
/// without a tied one a failed one.
fn most_clearly(places: Vec<(f64, Finding)>) -> Option<Finding> {
    let rank = |finding: &Finding| match finding.verdict {
        Verdict::Holds => 2,
        Verdict::Tied | Verdict::NotCheckable => 1,
        Verdict::Fails => 0,
    };
    let order = |a: &(f64, Finding), b: &(f64, Finding)| {
        rank(&a.1).cmp(&rank(&b.1)).then(a.0.total_cmp(&b.0))
    };
    let found = places.into_iter().max_by(order);
    found.map(|(_, finding)| finding)
}

/// A transport's distance from the best as text, as a share of the best's value. No transport is below the best.
fn describe(point: &PointView<'_>, name: &str, metric: Metric, d: &Measured) -> String {
    let i = d.interval().within(0.0, f64::INFINITY);
    let show = |v: f64| units::percent((v * 1e3).round() / 1e3);
    format!(
        "{}: {name} {} above the best in {} [{} to {}]",
        point.label(),
        show(d.value()),
        metric.title(),
        show(i.low),
        show(i.high)
    )
}

pub(super) fn register(catalog: &mut Catalog<ReadTest>) {
    fn near(keys: &Keys<'_>) -> Result<Arc<dyn Test>, ExperimentError> {
        Ok(Arc::new(NearBest(Best::read(keys)?)))
    }
    fn not_near(keys: &Keys<'_>) -> Result<Arc<dyn Test>, ExperimentError> {
        Ok(Arc::new(NotNearBest(Best::read(keys)?)))
    }
    let summary = "each transport is near the best at each point";
    catalog.add("near-best", summary, Arc::new(near));
    let summary = "each transport is not near the best at some point";
    catalog.add("not-near-best", summary, Arc::new(not_near));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tied_place_decides_over_a_failed_one_with_a_larger_lower_end() {
        let place = |low, verdict, text: &str| {
            let text = text.to_owned();
            let chance = 1.0;
            let finding = Finding {
                verdict,
                chance,
                text,
                place: None,
            };
            (low, finding)
        };
        let failed = place(0.04, Verdict::Fails, "failed");
        let tied = place(0.01, Verdict::Tied, "tied");
        let holds = place(0.06, Verdict::Holds, "holds");
        let of = |places: &[(f64, Finding)]| most_clearly(places.to_vec()).map(|f| f.text);
        assert_eq!(of(&[failed.clone(), tied.clone()]).as_deref(), Some("tied"));
        assert_eq!(of(&[failed.clone(), holds, tied]).as_deref(), Some("holds"));
        assert_eq!(of(&[failed]).as_deref(), Some("failed"));
        assert_eq!(of(&[]), None);
    }
}

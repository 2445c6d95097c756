//! Tests of a metric against a value: `below`, `above` and `about`.

use std::sync::Arc;

use super::{Claimed, Finding, Findings, Judge, Keys, ReadTest, Test};
use crate::catalog::Catalog;
use crate::document::ExperimentError;

/// The side of the limit that is claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Below,
    Above,
}

/// The metric of each transport is on one side of the value at each point.
#[derive(Debug)]
struct Limit {
    side: Side,
    /// Transports.
    of: Vec<String>,
    /// The value, in the metric's unit.
    value: f64,
}

impl Limit {
    fn read(keys: &Keys<'_>, side: Side) -> Result<Arc<dyn Test>, ExperimentError> {
        Ok(Arc::new(Self {
            side,
            of: keys.transports("of")?,
            value: keys.quantity("value")?,
        }))
    }
}

impl Test for Limit {
    fn transports(&self) -> Vec<&str> {
        self.of.iter().map(String::as_str).collect()
    }

    fn findings(&self, judge: &Judge<'_>) -> Findings {
        let limit = self.value;
        let mut list = Vec::new();
        for point in judge.points {
            for name in &self.of {
                let found = judge.measure(judge.pool(point, name)?)?;
                let claimed = match self.side {
                    Side::Below => Claimed::Below(limit),
                    Side::Above => Claimed::Above(limit),
                };
                let text = format!("{}: {name} {}", point.label(), judge.with_interval(&found));
                list.push(Finding::new(claimed, &found, text).at(point, judge.metric));
            }
        }
        Ok(list)
    }
}

/// The metric of each transport is about the value at each point. The comparison holds if the metric's interval
/// lies within the slack around the value. It fails if the interval lies wholly outside.
#[derive(Debug)]
struct About {
    /// Transports.
    of: Vec<String>,
    /// The value, in the metric's unit.
    value: f64,
    /// How far from the value still counts as "about", in the metric's unit.
    slack: f64,
}

impl About {
    fn read(keys: &Keys<'_>) -> Result<Arc<dyn Test>, ExperimentError> {
        Ok(Arc::new(Self {
            of: keys.transports("of")?,
            value: keys.quantity("value")?,
            slack: keys.quantity("slack")?,
        }))
    }
}

impl Test for About {
    fn transports(&self) -> Vec<&str> {
        self.of.iter().map(String::as_str).collect()
    }

    fn findings(&self, judge: &Judge<'_>) -> Findings {
        let (low, high) = (self.value - self.slack, self.value + self.slack);
        let mut list = Vec::new();
        for point in judge.points {
            for name in &self.of {
                let found = judge.measure(judge.pool(point, name)?)?;
                let text = format!(
                    "{}: {name} {}, claimed about {}",
                    point.label(),
                    judge.with_interval(&found),
                    judge.metric.show(self.value)
                );
                let finding = Finding::new(Claimed::Within(low, high), &found, text);
                list.push(finding.at(point, judge.metric));
            }
        }
        Ok(list)
    }
}

pub(super) fn register(catalog: &mut Catalog<ReadTest>) {
    let below = |keys: &Keys<'_>| Limit::read(keys, Side::Below);
    let above = |keys: &Keys<'_>| Limit::read(keys, Side::Above);
    catalog.add("below", "each transport is below a value", Arc::new(below));
    catalog.add("above", "each transport is above a value", Arc::new(above));
    catalog.add(
        "about",
        "each transport is near a value",
        Arc::new(About::read),
    );
}

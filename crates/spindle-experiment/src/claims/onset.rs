//! The test `onset`: a metric that sets in at a value of an axis.

use std::sync::Arc;

use super::{Claimed, Finding, Findings, Judge, Keys, ReadTest, Test};
use crate::catalog::Catalog;
use crate::document::ExperimentError;
use crate::units;

/// The metric of each transport is as good as zero at points below a value of the axis, and above zero at points
/// beyond it. The point at the value itself is not compared.
#[derive(Debug)]
struct Onset {
    /// Transports.
    of: Vec<String>,
    /// The axis.
    axis: String,
    /// The axis' value.
    at: f64,
    /// Values of the metric below this one count as zero, in the metric's unit.
    none: f64,
}

fn read(keys: &Keys<'_>) -> Result<Arc<dyn Test>, ExperimentError> {
    Ok(Arc::new(Onset {
        of: keys.transports("of")?,
        axis: keys.axis()?,
        at: keys.quantity("at")?,
        none: keys.quantity("none")?,
    }))
}

impl Test for Onset {
    fn transports(&self) -> Vec<&str> {
        self.of.iter().map(String::as_str).collect()
    }

    fn findings(&self, judge: &Judge<'_>) -> Findings {
        let mut list = Vec::new();
        let (mut below, mut beyond) = (false, false);
        for point in judge.points {
            let value = point.set.iter().find(|(axis, _)| *axis == self.axis);
            let value = value.and_then(|(_, text)| units::quantity(text));
            let value = value.ok_or("the axis has a value that is no number")?;
            let claimed = match () {
                () if value < self.at => Claimed::Below(self.none),
                () if value > self.at => Claimed::Above(0.0),
                () => continue,
            };
            below |= value < self.at;
            beyond |= value > self.at;
            for name in &self.of {
                let found = judge.measure(judge.pool(point, name)?)?;
                let text = format!("{}: {name} {}", point.label(), judge.with_interval(&found));
                list.push(Finding::new(claimed, &found, text).at(point, judge.metric));
            }
        }
        match below && beyond {
            true => Ok(list),
            false => Err(format!(
                "the points are not on both sides of {} {}",
                self.axis, self.at
            )),
        }
    }
}

pub(super) fn register(catalog: &mut Catalog<ReadTest>) {
    let summary = "a metric is zero below a value of an axis and above zero beyond it";
    catalog.add("onset", summary, Arc::new(read));
}

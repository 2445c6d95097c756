//! Tests of how much lower or higher a transport is than others: `decrease` and `increase`.

use std::sync::Arc;

use super::judge::above;
use super::{Claimed, Finding, Findings, Judge, Keys, PointView, ReadTest, Test};
use crate::catalog::Catalog;
use crate::document::ExperimentError;
use crate::units;

fn percent(share: f64) -> String {
    units::percent((share * 1e3).round() / 1e3)
}

/// At each point, and against each of the others, `of` is lower by a share within the range, which is widened by
/// the slack ([`Claimed::Change`]).
#[derive(Debug)]
struct Decrease {
    /// The transport.
    of: String,
    /// The others.
    against: Vec<String>,
    /// Lower and upper end of the range, widened by the slack.
    between: (f64, f64),
}

impl Decrease {
    fn read(keys: &Keys<'_>) -> Result<Arc<dyn Test>, ExperimentError> {
        Ok(Arc::new(Self {
            of: keys.text("of")?,
            against: keys.transports("against")?,
            between: keys.change("between")?,
        }))
    }
}

impl Test for Decrease {
    fn transports(&self) -> Vec<&str> {
        let all = std::iter::once(&self.of).chain(&self.against);
        all.map(String::as_str).collect()
    }

    fn findings(&self, judge: &Judge<'_>) -> Findings {
        let of = &self.of;
        let (low, high) = self.between;
        let mut list = Vec::new();
        for point in judge.points {
            for other in &self.against {
                let (_, _, found) = judge.paired(point, of, other, |a, b| -above(a, b))?;
                let i = found.interval();
                let text = format!(
                    "{}: {of} is lower than {other} by {} [{} to {}]",
                    point.label(),
                    percent(found.value()),
                    percent(i.low),
                    percent(i.high)
                );
                let finding = Finding::new(Claimed::Change(low, high), &found, text);
                list.push(finding.at(point, judge.metric));
            }
        }
        Ok(list)
    }
}

/// At each point, `of` is higher than `against` by a share within the range. The verdict follows the rules of
/// [`Decrease`].
#[derive(Debug)]
struct Increase {
    /// The transport.
    of: String,
    /// The other.
    against: String,
    /// Lower and upper end of the range, widened by the slack.
    between: (f64, f64),
}

impl Increase {
    fn read(keys: &Keys<'_>) -> Result<Arc<dyn Test>, ExperimentError> {
        Ok(Arc::new(Self {
            of: keys.text("of")?,
            against: keys.text("against")?,
            between: keys.change("between")?,
        }))
    }
}

impl Test for Increase {
    fn transports(&self) -> Vec<&str> {
        vec![&self.of, &self.against]
    }

    fn findings(&self, judge: &Judge<'_>) -> Findings {
        let (of, against) = (&self.of, &self.against);
        let (low, high) = self.between;
        let compare = |point: &PointView<'_>| {
            let (_, _, found) = judge.paired(point, of, against, above)?;
            let i = found.interval();
            let text = format!(
                "{}: {of} is higher than {against} by {} [{} to {}]",
                point.label(),
                percent(found.value()),
                percent(i.low),
                percent(i.high)
            );
            let finding = Finding::new(Claimed::Change(low, high), &found, text);
            Ok(finding.at(point, judge.metric))
        };
        judge.points.iter().map(compare).collect()
    }
}

pub(super) fn register(catalog: &mut Catalog<ReadTest>) {
    let decrease = "a transport is lower than each of the others by a share within a range";
    let increase = "a transport is higher than another by a share within a range";
    catalog.add("decrease", decrease, Arc::new(Decrease::read));
    catalog.add("increase", increase, Arc::new(Increase::read));
}

//! Tests of which transport is lower than which: `order`, `lowest` and `highest`.

use std::sync::Arc;

use super::finding::most;
use super::{Claimed, Finding, Findings, Judge, Keys, ReadTest, Test, Verdict};
use crate::catalog::Catalog;
use crate::document::{ExperimentError, Node, Value};

/// Every transport of a group is lower than every transport of the next group, at each point.
#[derive(Debug)]
struct Order {
    /// The groups, lowest first.
    groups: Vec<Vec<String>>,
}

impl Order {
    fn read(keys: &Keys<'_>) -> Result<Arc<dyn Test>, ExperimentError> {
        let groups = groups(keys)?;
        Ok(Arc::new(Self { groups }))
    }
}

impl Test for Order {
    fn transports(&self) -> Vec<&str> {
        self.groups.iter().flatten().map(String::as_str).collect()
    }

    fn findings(&self, judge: &Judge<'_>) -> Findings {
        order(judge, &self.groups)
    }
}

/// Whether the transport is lower or higher than the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Lowest,
    Highest,
}

/// `of` is nowhere higher, or nowhere lower, than any of the others. Each comparison must hold or be tied. The
/// claim is tied unless more comparisons hold than are tied.
#[derive(Debug)]
struct Extreme {
    end: End,
    /// The transport.
    of: String,
    /// The others.
    against: Vec<String>,
}

impl Extreme {
    fn read(keys: &Keys<'_>, end: End) -> Result<Arc<dyn Test>, ExperimentError> {
        Ok(Arc::new(Self {
            end,
            of: keys.text("of")?,
            against: keys.transports("against")?,
        }))
    }
}

impl Test for Extreme {
    fn transports(&self) -> Vec<&str> {
        let all = std::iter::once(&self.of).chain(&self.against);
        all.map(String::as_str).collect()
    }

    fn findings(&self, judge: &Judge<'_>) -> Findings {
        let (of, others) = (vec![self.of.clone()], self.against.clone());
        match self.end {
            End::Lowest => order(judge, &[of, others]),
            End::Highest => order(judge, &[others, of]),
        }
    }

    fn verdict(&self, findings: &[Finding]) -> Verdict {
        most(findings)
    }
}

/// Compares each transport of a group with each transport of the next group.
fn order(judge: &Judge<'_>, groups: &[Vec<String>]) -> Findings {
    let mut list = Vec::new();
    for point in judge.points {
        for pair in groups.windows(2) {
            let pairs = |a| pair[1].iter().map(move |b| (a, b));
            for (a, b) in pair[0].iter().flat_map(pairs) {
                let (_, _, found) = judge.paired(point, a, b, |a, b| b - a)?;
                let text = judge.two(point, a, b)?;
                let finding = Finding::new(Claimed::Above(0.0), &found, text);
                list.push(finding.at(point, judge.metric));
            }
        }
    }
    Ok(list)
}

/// The key `order`: two or more transports or lists of transports.
fn groups(keys: &Keys<'_>) -> Result<Vec<Vec<String>>, ExperimentError> {
    let s = keys.section();
    let wrong = || {
        s.error(
            "order",
            "want two or more lists of transports, the lowest first",
        )
    };
    let Some(Value::List(items)) = s.node("order").map(|n| &n.value) else {
        return Err(wrong());
    };
    let text = |n: &Node| match &n.value {
        Value::Text(t) => Some(t.clone()),
        _ => None,
    };
    let groups: Option<Vec<Vec<String>>> = items
        .iter()
        .map(|item| match &item.value {
            Value::List(names) => names.iter().map(text).collect(),
            _ => text(item).map(|t| vec![t]),
        })
        .collect();
    groups
        .filter(|g| g.len() >= 2 && g.iter().all(|g| !g.is_empty()))
        .ok_or_else(wrong)
}

pub(super) fn register(catalog: &mut Catalog<ReadTest>) {
    let lowest = |keys: &Keys<'_>| Extreme::read(keys, End::Lowest);
    let highest = |keys: &Keys<'_>| Extreme::read(keys, End::Highest);
    let order = "each transport of a group is lower than each transport of the next group";
    catalog.add("order", order, Arc::new(Order::read));
    let summary = "a transport is nowhere higher than the others";
    catalog.add("lowest", summary, Arc::new(lowest));
    let summary = "a transport is nowhere lower than the others";
    catalog.add("highest", summary, Arc::new(highest));
}

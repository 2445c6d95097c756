//! Reads `[[claims]]`.

use std::sync::Arc;

use super::keys::{check_axis, named_metric};
use super::{Claim, Condition, Keys, Kind, ReadTest, Test};
use crate::catalog::Catalog;
use crate::document::{ExperimentError, Section};
use crate::metrics::{Metric, MetricSpec};
use crate::scenario::wanted;

type Result<T> = std::result::Result<T, ExperimentError>;

impl Claim {
    /// Reads one claim. `axes` are the sweep's axes. `observes` returns whether the traffic observes an item.
    pub(crate) fn read(
        s: Section<'_>,
        (tests, metrics): (&Catalog<ReadTest>, &Catalog<&'static MetricSpec>),
        axes: &[String],
        observes: &dyn Fn(&str) -> bool,
    ) -> Result<Self> {
        let kind = s
            .choice(
                "kind",
                &[("numeric", Kind::Numeric), ("ordering", Kind::Ordering)],
            )?
            .ok_or_else(|| s.error("kind", "missing, want one of numeric, ordering"))?;
        let metric = metric(&s, metrics)?;
        if let Some(needs) = metric.needs().filter(|n| !observes(n)) {
            let wanted = wanted(needs);
            let problem = format!("is nothing that is kept here, want {wanted} for it");
            return Err(s.error("metric", problem));
        }
        let test = test(&s, tests, &Keys::new(&s, axes, metrics))?;
        let claim = Self {
            filter: filter(&s, axes)?,
            id: s.need("id")?,
            kind,
            text: s.need("text")?,
            paper: s.or("paper", String::new())?,
            metric,
            test,
            note: s.get("note")?,
            written: written(&s),
        };
        s.finish()?;
        Ok(claim)
    }
}

/// The claim's table without its note, in its canonical form.
fn written(s: &Section<'_>) -> String {
    let mut table = s.table().clone();
    table.remove("note");
    table.canonical()
}

fn metric(s: &Section<'_>, metrics: &Catalog<&'static MetricSpec>) -> Result<Metric> {
    match s.node("metric") {
        None => Ok(Metric::FctPercentile(0.99)),
        Some(node) => named_metric(s, "metric", node, metrics),
    }
}

fn test(s: &Section<'_>, tests: &Catalog<ReadTest>, keys: &Keys<'_>) -> Result<Arc<dyn Test>> {
    match tests.choice(s, "test")? {
        Some(entry) => (entry.item)(keys),
        None => {
            let names: Vec<&str> = tests.names().collect();
            let problem = format!("missing, want one of {}", names.join(", "));
            Err(s.error("test", problem))
        }
    }
}

/// The conditions at `where`.
fn filter(s: &Section<'_>, axes: &[String]) -> Result<Vec<Condition>> {
    let mut filter = Vec::new();
    for text in s.list::<String>("where")?.unwrap_or_default() {
        let wrong = || {
            let problem = format!("found \"{text}\", want a condition such as \"loss < 1%\"");
            s.error("where", problem)
        };
        let condition = Condition::parse(&text).ok_or_else(wrong)?;
        check_axis(s, "where", condition.axis(), axes)?;
        filter.push(condition);
    }
    Ok(filter)
}

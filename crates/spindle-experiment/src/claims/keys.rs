//! Reads the keys of a test.

use crate::catalog::Catalog;
use crate::document::{ExperimentError, FromNode, Node, Section, Value};
use crate::metrics::{Metric, MetricSpec};
use crate::units;

type Result<T> = std::result::Result<T, ExperimentError>;

/// The slack that "about" adds on either side of a printed percentage: five points (our choice, as the papers'
/// figures are read to about that).
const SLACK: f64 = 0.05;

/// The table of a claim, from which a test reads its keys. Quantities are in the metric's unit.
pub struct Keys<'a> {
    section: &'a Section<'a>,
    axes: &'a [String],
    metrics: &'a Catalog<&'static MetricSpec>,
}

impl<'a> Keys<'a> {
    /// The keys of `section`. `axes` are the sweep's axes, and `metrics` those that have names in the registry.
    pub(super) fn new(
        section: &'a Section<'a>,
        axes: &'a [String],
        metrics: &'a Catalog<&'static MetricSpec>,
    ) -> Self {
        Self {
            section,
            axes,
            metrics,
        }
    }

    /// The table, for keys of other kinds.
    pub fn section(&self) -> &Section<'a> {
        self.section
    }

    /// The text at `key`, such as a transport. The key is required.
    ///
    /// # Errors
    /// If the text is missing.
    pub fn text(&self, key: &'static str) -> Result<String> {
        self.section.need(key)
    }

    /// The entry `key`, if it exists.
    ///
    /// # Errors
    /// If the entry is not what is accepted.
    pub fn get<T: FromNode>(&self, key: &'static str) -> Result<Option<T>> {
        self.section.get(key)
    }

    /// The transports at `key`: one, or a list of one or more.
    ///
    /// # Errors
    /// If there is none.
    pub fn transports(&self, key: &'static str) -> Result<Vec<String>> {
        match self.section.list::<String>(key)? {
            Some(list) if !list.is_empty() => Ok(list),
            _ => {
                let problem = "missing, want a transport or a list of transports";
                Err(self.section.error(key, problem))
            }
        }
    }

    /// A quantity such as `"2.4ms"`, `"5%"` or `12`, if the key exists.
    ///
    /// # Errors
    /// If the entry is not a quantity.
    pub fn optional_quantity(&self, key: &'static str) -> Result<Option<f64>> {
        let Some(node) = self.section.node(key) else {
            return Ok(None);
        };
        let wrong = || {
            let found = node.kind();
            let problem = format!("found {found}, want a quantity such as \"2.4ms\" or \"5%\"");
            self.section.error(key, problem)
        };
        number(node).map(Some).ok_or_else(wrong)
    }

    /// A quantity such as `"2.4ms"`, `"5%"` or `12`.
    ///
    /// # Errors
    /// If the entry is missing, or not a quantity.
    pub fn quantity(&self, key: &'static str) -> Result<f64> {
        let problem = "missing, want a quantity such as \"2.4ms\" or \"5%\"";
        let found = self.optional_quantity(key)?;
        found.ok_or_else(|| self.section.error(key, problem))
    }

    /// The key `slack`: how far outside a range, or from a value, still counts as "about". The default is five
    /// points.
    ///
    /// # Errors
    /// If the entry is not a quantity.
    pub fn slack(&self) -> Result<f64> {
        Ok(self.optional_quantity("slack")?.unwrap_or(SLACK))
    }

    /// The range at `key` of how much lower or higher something is, widened on both sides by [`Self::slack`]. The
    /// slack does not turn a change into its opposite: a range above 0 stays at or above 0, and one below 0 stays at
    /// or below 0.
    ///
    /// # Errors
    /// If the entry is not a range, or the slack is not a quantity.
    pub fn change(&self, key: &'static str) -> Result<(f64, f64)> {
        let (low, high) = self.range(key)?;
        let slack = self.slack()?;
        let least = if low > 0.0 { 0.0 } else { f64::NEG_INFINITY };
        let most = if high < 0.0 { 0.0 } else { f64::INFINITY };
        Ok(((low - slack).max(least), (high + slack).min(most)))
    }

    /// A range: two quantities, the lower first.
    ///
    /// # Errors
    /// If the entry is not a range.
    pub fn range(&self, key: &'static str) -> Result<(f64, f64)> {
        let ends = match self.section.node(key).map(|n| &n.value) {
            Some(Value::List(items)) => items.iter().map(number).collect::<Option<Vec<_>>>(),
            _ => None,
        };
        match ends.as_deref() {
            Some([a, b]) if a <= b => Ok((*a, *b)),
            _ => Err(self.section.error(
                key,
                "want two quantities, the lower first, such as [\"32%\", \"64.5%\"]",
            )),
        }
    }

    /// The key `axis`: the name of an axis of the sweep.
    ///
    /// # Errors
    /// If the sweep does not have it.
    pub fn axis(&self) -> Result<String> {
        let name = self.text("axis")?;
        check_axis(self.section, "axis", &name, self.axes)?;
        Ok(name)
    }

    /// A value of an axis, as text.
    ///
    /// # Errors
    /// If the value is missing.
    pub fn axis_value(&self, key: &'static str) -> Result<String> {
        match self.section.node(key).map(|n| &n.value) {
            Some(Value::Text(text)) => Ok(text.clone()),
            Some(Value::Integer(n)) => Ok(n.to_string()),
            Some(Value::Float(n)) => Ok(n.to_string()),
            _ => {
                let problem = "missing, want a value of the axis";
                Err(self.section.error(key, problem))
            }
        }
    }

    /// The metrics at `key`: one, or a list, or none if the key is missing.
    ///
    /// # Errors
    /// A name that is not the name of a metric.
    pub fn metrics(&self, key: &'static str) -> Result<Vec<Metric>> {
        match self.section.node(key) {
            None => Ok(Vec::new()),
            Some(node) => match &node.value {
                Value::List(items) => items
                    .iter()
                    .map(|n| named_metric(self.section, key, n, self.metrics))
                    .collect(),
                _ => Ok(vec![named_metric(self.section, key, node, self.metrics)?]),
            },
        }
    }
}

/// Checks that the sweep has an axis.
pub(super) fn check_axis(s: &Section<'_>, key: &str, axis: &str, axes: &[String]) -> Result<()> {
    if axes.iter().any(|a| a == axis) {
        return Ok(());
    }
    let problem = format!("found axis \"{axis}\", the sweep has {}", axes.join(", "));
    Err(s.error(key, problem))
}

/// The metric that a node names.
pub(super) fn named_metric(
    s: &Section<'_>,
    key: &str,
    node: &Node,
    metrics: &Catalog<&'static MetricSpec>,
) -> Result<Metric> {
    match &node.value {
        Value::Text(name) => Metric::parse_with(name, metrics),
        _ => None,
    }
    .ok_or_else(|| s.unknown(key, node, Metric::all_names_with(metrics)))
}

fn number(node: &Node) -> Option<f64> {
    match &node.value {
        Value::Text(text) => units::quantity(text),
        Value::Integer(i) => Some(*i as f64),
        Value::Float(f) => Some(*f),
        _ => None,
    }
}

//! Numbers that a paper prints for points of an experiment: `[[printed]]`.
//!
//! A report shows them next to the measured values. They belong neither to a claim nor to the sizes of an experiment,
//! so the hashes of claims and of runs do not depend on them.

use super::{Experiment, shown};
use crate::catalog::Catalog;
use crate::claims::Condition;
use crate::document::{ExperimentError, Node, Section, Value, suggestion};
use crate::metrics::{Metric, MetricSpec};
use crate::scenario::wanted;
use crate::units;

/// A number that the paper prints for one transport.
#[derive(Clone, Debug, PartialEq)]
pub struct Printed {
    /// The transport, as [`TransportName`](crate::TransportName) writes it.
    pub transport: String,
    /// The metric.
    pub metric: Metric,
    /// The number in the metric's unit ([`Metric::unit`]).
    pub value: f64,
    /// The side on which the paper says that the metric stays, if it prints a limit such as "below 2.4 ms".
    pub limit: Option<Limit>,
    /// Conditions on the points that the number is printed for. If empty, it is printed for all points.
    pub filter: Vec<Condition>,
    /// The place in the paper, such as `Table 7`.
    pub source: String,
    /// How the number was obtained, if the paper does not print it, such as `from the image`.
    pub read: Option<String>,
}

/// The side of a printed limit on which the metric stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The metric stays below the number.
    Below,
    /// The metric exceeds the number.
    Above,
}

impl Limit {
    /// The names in experiment files.
    const NAMED: [(&'static str, Self); 2] = [("below", Self::Below), ("above", Self::Above)];
}

impl Printed {
    /// Whether the number is printed for a point with these settings.
    pub fn is_at(&self, set: &[(String, String)]) -> bool {
        self.filter.iter().all(|condition| condition.holds(set))
    }
}

/// The names that a file uses at any of its scales, before the command line overrides any of them.
pub(super) struct Written {
    transports: Vec<String>,
    /// Axes with their values.
    values: Vec<(String, String)>,
}

impl Written {
    /// Collects the transports and the values of axes of a file and of its scales.
    pub(super) fn of(tree: &Node) -> Self {
        let mut written = Self {
            transports: Vec::new(),
            values: Vec::new(),
        };
        written.add(tree);
        for (_, scale) in tree.get("scale").map_or(&[][..], entries) {
            written.add(scale);
        }
        written
    }

    fn add(&mut self, table: &Node) {
        let transports = table.get("transports").map_or(&[][..], items);
        self.transports.extend(transports.iter().map(shown));
        for sweep in table.get("sweep").map_or(&[][..], items) {
            for (axis, node) in entries(sweep) {
                let text = |value: &Node| match value.get("name") {
                    Some(name) => shown(name),
                    None => shown(value),
                };
                let values = items(node).iter().map(|v| (axis.clone(), text(v)));
                self.values.extend(values);
            }
        }
    }

    /// Whether the file names the transport. The name `all` stands for every transport.
    fn has_transport(&self, name: &str) -> bool {
        self.transports.iter().any(|t| t == name || t == "all")
    }

    /// The values of an axis, each once, separated by commas.
    fn values_of(&self, axis: &str) -> String {
        let mut values: Vec<&str> = Vec::new();
        for (_, value) in self.values.iter().filter(|(a, _)| a == axis) {
            if !values.contains(&value.as_str()) {
                values.push(value);
            }
        }
        values.join(", ")
    }

    /// Whether a value of the condition's axis meets the condition.
    fn has_value(&self, condition: &Condition) -> bool {
        let mut values = self.values.iter();
        values.any(|value| condition.holds(std::slice::from_ref(value)))
    }

    /// Removes the entries of `[[printed]]` whose transport or point the file does not contain any more, such as
    /// after a flag has chosen other transports.
    pub(super) fn keep_known(&self, printed: &mut Node) {
        let Value::List(list) = &mut printed.value else {
            return;
        };
        list.retain(|entry| {
            let of = entry.get("of").map(shown);
            let conditions = entry.get("where").map_or(&[][..], items);
            let known = |text: &Node| {
                let condition = Condition::parse(&shown(text));
                condition.is_none_or(|c| self.has_value(&c))
            };
            of.is_none_or(|name| self.has_transport(&name)) && conditions.iter().all(known)
        });
    }
}

/// The items of a list, or a single value as a list of one item.
fn items(node: &Node) -> &[Node] {
    match &node.value {
        Value::List(items) => items,
        _ => std::slice::from_ref(node),
    }
}

/// The entries of a table. Other values have none.
fn entries(node: &Node) -> &[(String, Node)] {
    match &node.value {
        Value::Table(entries) => entries,
        _ => &[],
    }
}

/// What is known when `[[printed]]` is read.
pub(super) struct Known<'a> {
    /// The experiment, with its points.
    pub(super) experiment: &'a Experiment,
    /// The names that the file uses.
    pub(super) written: &'a Written,
    /// The metrics that other crates have registered.
    pub(super) metrics: &'a Catalog<&'static MetricSpec>,
    /// The sweep's axes.
    pub(super) axes: &'a [String],
}

/// Reads `[[printed]]`. Numbers for transports and points that the command line has removed are left out.
pub(super) fn read(node: &Node, known: &Known<'_>) -> Result<Vec<Printed>, ExperimentError> {
    let Value::List(items) = &node.value else {
        let problem = format!("found {}, want [[printed]] tables", node.kind());
        return Err(ExperimentError::new(
            node.origin.clone(),
            "printed",
            problem,
        ));
    };
    let mut list = Vec::new();
    for (i, item) in items.iter().enumerate() {
        list.extend(known.entry(&Section::new(format!("printed[{}]", i + 1), item)?)?);
    }
    let experiment = known.experiment;
    let names: Vec<String> = experiment
        .transports
        .iter()
        .map(ToString::to_string)
        .collect();
    list.retain(|p| {
        names.contains(&p.transport) && experiment.points.iter().any(|at| p.is_at(&at.set))
    });
    Ok(list)
}

impl Known<'_> {
    /// Reads one entry: a transport with its numbers at some points.
    fn entry(&self, s: &Section<'_>) -> Result<Vec<Printed>, ExperimentError> {
        let transport = self.transport(s)?;
        let filter = self.filter(s)?;
        let source: String = s.need("source")?;
        let read: Option<String> = s.get("read")?;
        let limit = s.choice("limit", &Limit::NAMED)?;
        let Some(values) = s.section("values")? else {
            let problem = "missing, want a table such as { \"fct.mean\" = \"116ms\" }";
            return Err(s.error("values", problem));
        };
        s.check()?;
        let mut list = Vec::new();
        for (name, node) in entries(values.table()) {
            let metric = self.metric(&values, name, node)?;
            list.push(Printed {
                transport: transport.clone(),
                metric,
                value: value(&values, metric, name, node)?,
                limit,
                filter: filter.clone(),
                source: source.clone(),
                read: read.clone(),
            });
        }
        match list.is_empty() {
            true => Err(s.error("values", "empty, want a metric with its number")),
            false => Ok(list),
        }
    }

    fn transport(&self, s: &Section<'_>) -> Result<String, ExperimentError> {
        let name: String = s.need("of")?;
        let experiment = &self.experiment.transports;
        let here = || experiment.iter().any(|t| t.to_string() == name);
        if self.written.has_transport(&name) || here() {
            return Ok(name);
        }
        let mut accepted: Vec<String> = experiment.iter().map(ToString::to_string).collect();
        for name in &self.written.transports {
            if !accepted.contains(name) {
                accepted.push(name.clone());
            }
        }
        let near = suggestion(&name, accepted.iter().map(String::as_str));
        let accepted = accepted.join(", ");
        let problem = format!(
            "found \"{name}\", want a transport of this experiment: one of {accepted}{near}"
        );
        Err(s.error("of", problem))
    }

    fn filter(&self, s: &Section<'_>) -> Result<Vec<Condition>, ExperimentError> {
        let mut filter = Vec::new();
        for text in s.list::<String>("where")?.unwrap_or_default() {
            let Some(condition) = Condition::parse(&text) else {
                let problem = format!("found \"{text}\", want a condition such as \"loss = 1%\"");
                return Err(s.error("where", problem));
            };
            let axis = condition.axis();
            if !self.axes.iter().any(|a| a == axis) {
                let axes = self.axes.join(", ");
                let problem = format!("found axis \"{axis}\", the sweep has {axes}");
                return Err(s.error("where", problem));
            }
            let swept = |p: &super::Point| condition.holds(&p.set);
            if !self.written.has_value(&condition) && !self.experiment.points.iter().any(swept) {
                let values = self.written.values_of(axis);
                let problem = format!("found \"{text}\", but no point has it: {axis} is {values}");
                return Err(s.error("where", problem));
            }
            filter.push(condition);
        }
        Ok(filter)
    }

    fn metric(
        &self,
        values: &Section<'_>,
        name: &str,
        node: &Node,
    ) -> Result<Metric, ExperimentError> {
        let known = || Metric::all_names_with(self.metrics);
        let wrong = |problem| ExperimentError::new(node.origin.clone(), values.path(name), problem);
        let Some(metric) = Metric::parse_with(name, self.metrics) else {
            let near = suggestion(name, known());
            return Err(wrong(format!(
                "found \"{name}\", want the name of a metric{near}"
            )));
        };
        let kept = |needs| {
            let mut points = self.experiment.points.iter();
            points.all(|p| p.scenario.observes(needs))
        };
        match metric.needs().filter(|needs| !kept(needs)) {
            Some(needs) => {
                let wanted = wanted(needs);
                Err(wrong(format!(
                    "is not kept by these runs, want {wanted} for it"
                )))
            }
            None => Ok(metric),
        }
    }
}

/// A number with the unit of its metric.
fn value(
    values: &Section<'_>,
    metric: Metric,
    name: &str,
    node: &Node,
) -> Result<f64, ExperimentError> {
    type Fits = fn(&str) -> bool;
    let (want, fits): (&str, Fits) = match metric {
        _ if metric.is_share() => (units::SHARE, |text| text.trim().ends_with('%')),
        _ if metric.is_rate() => (units::RATE, |text| units::rate(text).is_some()),
        _ if metric.is_size() => (units::SIZE, |text| units::size(text).is_some()),
        _ if metric.unit() == "us" => (units::DURATION, |text| units::duration(text).is_some()),
        _ => ("a number without a unit", |_| false),
    };
    let plain = !metric.is_share() && metric.unit() == "1";
    let found = match &node.value {
        Value::Text(text) if fits(text) => units::quantity(text),
        Value::Integer(i) if plain => Some(*i as f64),
        Value::Float(f) if plain => Some(*f),
        _ => None,
    };
    found.ok_or_else(|| {
        let problem = format!("found {}, want {want}", node.kind());
        ExperimentError::new(node.origin.clone(), values.path(name), problem)
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::file::{Overrides, Scale, rewrite};
    use crate::library::{self, EXPERIMENTS};
    use crate::registry::Registry;
    use crate::results::Registration;

    const FILE: &str = r#"
        transports = ["tcp", "fuso"]
        topology = { name = "fuso-testbed" }
        sweep = { loss = ["1%", "2%"], size = ["10KB", "20KB"] }
        loss = { on = ["P1"] }
        traffic = { kind = "requests", clients = ["H4"], servers = ["H1"], sizes = "10KB", flows = 40 }
        [scale.full]
        sweep = { loss = ["1%", "2%", "4%"] }
        [[claims]]
        id = "n1"
        kind = "numeric"
        text = "fuso is below 2 ms"
        test = "below"
        of = "fuso"
        value = "2ms"
    "#;

    const PRINTED: &str = r#"
        [[printed]]
        of = "fuso"
        where = ["loss = 2%", "size = 10KB"]
        source = "Table 1"
        values = { "fct.mean" = "1.5ms", timeout_fraction = "0.5%", "timeouts.max" = 3 }
        [[printed]]
        of = "tcp"
        where = "loss = 4%"
        source = "section 2"
        limit = "below"
        read = "from the image"
        values = { goodput = "10Mbps" }
    "#;

    fn try_read(text: &str, overrides: &Overrides) -> Result<Experiment, ExperimentError> {
        let text = text.replace("flows = 40 }", "flows = 40, observe = [\"timers\"] }");
        let registry = Registry::standard();
        library::parse(&registry, ("x.toml", &text), Path::new("."), overrides)
    }

    fn read(text: &str, overrides: &Overrides) -> Experiment {
        try_read(text, overrides).unwrap()
    }

    fn with(printed: &str) -> String {
        format!("{FILE}{printed}")
    }

    fn full() -> Overrides {
        Overrides {
            scale: Some(Scale::Full),
            ..Overrides::default()
        }
    }

    #[test]
    fn printed_numbers_are_read_in_the_units_of_their_metrics() {
        let e = read(&with(PRINTED), &full());
        let values: Vec<f64> = e.printed.iter().map(|p| p.value).collect();
        assert_eq!(values, [1500.0, 0.005, 3.0, 1e7]);
        let last = &e.printed[3];
        assert_eq!(
            (last.transport.as_str(), last.limit, last.read.as_deref()),
            ("tcp", Some(Limit::Below), Some("from the image"))
        );
        let at = |p: &Printed| e.points.iter().filter(|point| p.is_at(&point.set)).count();
        assert_eq!(e.printed.iter().map(at).collect::<Vec<_>>(), [1, 1, 1, 2]);
    }

    #[test]
    fn hashes_of_claims_sizes_and_runs_do_not_depend_on_printed_numbers() {
        for overrides in [Overrides::default(), full()] {
            let (without, with) = (read(FILE, &overrides), read(&with(PRINTED), &overrides));
            assert!(!with.printed.is_empty());
            assert_eq!(Registration::of(&without), Registration::of(&with));
            let hashes = |e: &Experiment| e.points.iter().map(|p| p.hash).collect::<Vec<_>>();
            assert_eq!(hashes(&without), hashes(&with));
        }
    }

    #[test]
    fn numbers_for_transports_and_points_that_are_not_run_are_left_out() {
        let of = |overrides: &Overrides| read(&with(PRINTED), overrides).printed.len();
        assert_eq!(of(&full()), 4);
        assert_eq!(of(&Overrides::default()), 3, "no point loses 4 %");
        let tcp = Overrides {
            transports: Some("tcp".to_owned()),
            ..full()
        };
        assert_eq!(of(&tcp), 1);
        let loss = Overrides {
            loss: Some("3%".to_owned()),
            ..full()
        };
        assert_eq!(of(&loss), 0);
    }

    #[test]
    fn rewritten_file_has_the_printed_numbers_of_the_overridden_experiment() {
        for scale in [None, Some(Scale::Quick), Some(Scale::Full)] {
            for transports in [None, Some("tcp".to_owned()), Some("tlp".to_owned())] {
                let overrides = Overrides {
                    scale,
                    transports,
                    ..Overrides::default()
                };
                let text = with(PRINTED).replace(", \"timeouts.max\" = 3", "");
                let written = rewrite("x.toml", &text, &overrides, Path::new(".")).unwrap();
                assert_eq!(
                    read(&written, &Overrides::default()).printed,
                    read(&text, &overrides).printed,
                    "{written}"
                );
            }
        }
    }

    #[test]
    fn wrong_printed_number_error_states_what_is_accepted() {
        let error = |old: &str, new: &str| {
            let text = PRINTED.replace(old, new);
            assert_ne!(text, PRINTED);
            try_read(&with(&text), &Overrides::default())
                .expect_err(new)
                .to_string()
        };
        for (old, new, found) in [
            (
                "of = \"fuso\"",
                "of = \"fuse\"",
                "printed[1].of: found \"fuse\", want a transport of this experiment: one of tcp, fuso, \
                 did you mean \"fuso\"?",
            ),
            (
                "loss = 2%",
                "los = 2%",
                "printed[1].where: found axis \"los\", the sweep has loss, size",
            ),
            (
                "loss = 2%",
                "loss = 3%",
                "printed[1].where: found \"loss = 3%\", but no point has it: loss is 1%, 2%, 4%",
            ),
            (
                "loss = 2%",
                "at 2%",
                "printed[1].where: found \"at 2%\", want a condition such as \"loss = 1%\"",
            ),
            (
                "fct.mean",
                "fct.men",
                "printed[1].values.fct.men: found \"fct.men\", want the name of a metric, did you mean \
                 \"fct.mean\"?",
            ),
            (
                "\"1.5ms\"",
                "1.5",
                "printed[1].values.fct.mean: found 1.5, want a time such as",
            ),
            (
                "\"0.5%\"",
                "\"5ms\"",
                "printed[1].values.timeout_fraction: found \"5ms\", want a share from",
            ),
            (
                "= 3 }",
                "= \"3ms\" }",
                "printed[1].values.timeouts.max: found \"3ms\", want a number without a unit",
            ),
            (
                "timeouts.max",
                "core.loss",
                "printed[1].values.core.loss: is not kept by these runs, want traffic.observe = [\"links\"]",
            ),
            (
                "values = { goodput = \"10Mbps\" }",
                "",
                "printed[2].values: missing, want a table such as",
            ),
            (
                "limit = \"below\"",
                "limit = \"under\"",
                "printed[2].limit: found \"under\", want one of below, above",
            ),
            (
                "source = \"section 2\"",
                "sorce = \"section 2\"",
                "printed[2].source: missing, want a text in quotes",
            ),
        ] {
            let error = error(old, new);
            assert!(error.contains(found), "{error}\nwants {found}");
        }
    }

    /// A number that belongs to no point would never be shown.
    #[test]
    fn each_printed_number_of_the_papers_belongs_to_a_point_of_the_papers_scale() {
        let registry = Registry::standard();
        let mut numbers = 0;
        for file in EXPERIMENTS {
            let tree = Node::parse(file.id, file.text).unwrap();
            let Some(Value::List(entries)) = tree.get("printed").map(|n| &n.value) else {
                continue;
            };
            let written: usize = entries
                .iter()
                .filter_map(|entry| entry.get("values"))
                .map(|values| super::entries(values).len())
                .sum();
            let overrides = Overrides {
                scale: Some(Scale::Paper),
                ..Overrides::default()
            };
            let e = file.read(&registry, &overrides).unwrap();
            assert_eq!(e.printed.len(), written, "{}", file.id);
            numbers += written;
        }
        assert!(numbers > 200, "only {numbers} numbers");
    }
}

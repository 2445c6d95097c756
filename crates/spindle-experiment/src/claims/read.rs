//! Reads `[[claims]]`.

use super::{Change, Claim, Condition, Kind, NearBest, Shape, Test};
use crate::document::{ExperimentError, Node, Section, Value};
use crate::metrics::Metric;
use crate::units;

type Result<T> = std::result::Result<T, ExperimentError>;

/// The slack that "about" adds on either side of a printed percentage: five points (our choice, as the papers'
/// figures are read to about that).
const SLACK: f64 = 0.05;

#[derive(Clone, Copy)]
enum TestKind {
    Below,
    Above,
    About,
    Decrease,
    Reduction,
    Increase,
    LargestIncrease,
    Order,
    Lowest,
    Highest,
    Similar,
    Bound,
    Growth,
    Shape,
    BetweenPoints,
    NearBest,
    NotNearBest,
    Difference,
    Ks,
    Gains,
    NotCheckable,
}

const TESTS: [(&str, TestKind); 21] = [
    ("below", TestKind::Below),
    ("above", TestKind::Above),
    ("about", TestKind::About),
    ("decrease", TestKind::Decrease),
    ("reduction", TestKind::Reduction),
    ("increase", TestKind::Increase),
    ("largest-increase", TestKind::LargestIncrease),
    ("order", TestKind::Order),
    ("lowest", TestKind::Lowest),
    ("highest", TestKind::Highest),
    ("similar", TestKind::Similar),
    ("rto-bound", TestKind::Bound),
    ("growth", TestKind::Growth),
    ("shape", TestKind::Shape),
    ("between-points", TestKind::BetweenPoints),
    ("near-best", TestKind::NearBest),
    ("not-near-best", TestKind::NotNearBest),
    ("difference", TestKind::Difference),
    ("ks", TestKind::Ks),
    ("gains", TestKind::Gains),
    ("not-checkable", TestKind::NotCheckable),
];

impl Claim {
    /// Reads one claim. `axes` are the sweep's axes. `observes` returns whether the traffic observes an item.
    pub(crate) fn read(
        s: Section<'_>,
        axes: &[String],
        observes: &dyn Fn(&str) -> bool,
    ) -> Result<Self> {
        let kind = s
            .choice(
                "kind",
                &[("numeric", Kind::Numeric), ("ordering", Kind::Ordering)],
            )?
            .ok_or_else(|| s.error("kind", "missing, want one of numeric, ordering"))?;
        let metric = metric(&s)?;
        if let Metric::Observed(m) = metric
            && !observes(m.needs())
        {
            let problem = format!(
                "is nothing that is kept here, want traffic.observe = [\"{}\"] for it",
                m.needs()
            );
            return Err(s.error("metric", problem));
        }
        let test = match s.choice("test", &TESTS)? {
            Some(kind) => test(&s, kind, axes)?,
            None => {
                let names = TESTS.map(|(n, _)| n).join(", ");
                return Err(s.error("test", format!("missing, want one of {names}")));
            }
        };
        let mut filter = Vec::new();
        for text in s.list::<String>("where")?.unwrap_or_default() {
            let condition = Condition::parse(&text).ok_or_else(|| {
                s.error(
                    "where",
                    format!("found \"{text}\", want a condition such as \"loss < 1%\""),
                )
            })?;
            axis(&s, "where", condition.axis(), axes)?;
            filter.push(condition);
        }
        let claim = Self {
            id: s.need("id")?,
            kind,
            text: s.need("text")?,
            paper: s.or("paper", String::new())?,
            metric,
            test,
            filter,
            note: s.get("note")?,
        };
        s.finish()?;
        Ok(claim)
    }
}

fn metric(s: &Section<'_>) -> Result<Metric> {
    match s.node("metric") {
        None => Ok(Metric::FctPercentile(0.99)),
        Some(node) => named_metric(s, "metric", node),
    }
}

fn named_metric(s: &Section<'_>, key: &str, node: &Node) -> Result<Metric> {
    match &node.value {
        Value::Text(name) => Metric::parse(name),
        _ => None,
    }
    .ok_or_else(|| s.unknown(key, node, Metric::all_names()))
}

/// `of`, `against`, `within`, and `also`, the metrics in addition to the claim's own.
fn near_best(s: &Section<'_>) -> Result<NearBest> {
    let also = match s.node("also").map(|n| (n, &n.value)) {
        None => Vec::new(),
        Some((_, Value::List(items))) => items
            .iter()
            .map(|n| named_metric(s, "also", n))
            .collect::<Result<_>>()?,
        Some((node, _)) => vec![named_metric(s, "also", node)?],
    };
    Ok(NearBest {
        of: some(s, "of")?,
        against: s.list("against")?.unwrap_or_default(),
        within: quantity(s, "within")?,
        also,
    })
}

fn axis(s: &Section<'_>, key: &str, axis: &str, axes: &[String]) -> Result<()> {
    if axes.iter().any(|a| a == axis) {
        return Ok(());
    }
    let problem = format!("found axis \"{axis}\", the sweep has {}", axes.join(", "));
    Err(s.error(key, problem))
}

fn an_axis(s: &Section<'_>, axes: &[String]) -> Result<String> {
    let name: String = s.need("axis")?;
    axis(s, "axis", &name, axes)?;
    Ok(name)
}

/// A value of an axis.
fn place(s: &Section<'_>, key: &'static str) -> Result<String> {
    match s.node(key).map(|n| &n.value) {
        Some(Value::Text(text)) => Ok(text.clone()),
        Some(Value::Integer(n)) => Ok(n.to_string()),
        Some(Value::Float(n)) => Ok(n.to_string()),
        _ => Err(s.error(key, "missing, want a value of the axis")),
    }
}

/// `between` or `up_to`, with `slack`, or none of these keys.
fn change(s: &Section<'_>) -> Result<Change> {
    let slack = optional(s, "slack")?;
    match (s.node("between"), optional(s, "up_to")?) {
        (Some(_), None) => {
            let (from, to) = between(s, "between")?;
            let slack = slack.unwrap_or(SLACK);
            Ok(Change::Between(from - slack, to + slack))
        }
        (None, Some(most)) => Ok(Change::UpTo(most, slack.unwrap_or(SLACK))),
        (None, None) if slack.is_none() => Ok(Change::Any),
        (None, None) => Err(s.error("slack", "nothing to be about, want between or up_to")),
        (Some(_), Some(_)) => Err(s.error("up_to", "found between as well, want one of the two")),
    }
}

fn test(s: &Section<'_>, kind: TestKind, axes: &[String]) -> Result<Test> {
    Ok(match kind {
        TestKind::Below => Test::Below {
            of: some(s, "of")?,
            value: quantity(s, "value")?,
        },
        TestKind::Above => Test::Above {
            of: some(s, "of")?,
            value: quantity(s, "value")?,
        },
        TestKind::About => Test::About {
            of: some(s, "of")?,
            value: quantity(s, "value")?,
            slack: quantity(s, "slack")?,
        },
        TestKind::Decrease => Test::Decrease {
            of: s.need("of")?,
            against: some(s, "against")?,
            between: between(s, "between")?,
            slack: optional(s, "slack")?.unwrap_or(SLACK),
        },
        TestKind::Reduction => Test::Reduction {
            of: s.need("of")?,
            against: some(s, "against")?,
            up_to: quantity(s, "up_to")?,
            slack: optional(s, "slack")?.unwrap_or(SLACK),
        },
        TestKind::Increase => Test::Increase {
            of: s.need("of")?,
            against: s.need("against")?,
            between: between(s, "between")?,
            slack: optional(s, "slack")?.unwrap_or(SLACK),
        },
        TestKind::LargestIncrease => Test::LargestIncrease {
            of: s.need("of")?,
            against: some(s, "against")?,
            up_to: quantity(s, "up_to")?,
            slack: optional(s, "slack")?.unwrap_or(SLACK),
        },
        TestKind::Order => Test::Order { groups: groups(s)? },
        TestKind::Lowest => Test::Lowest {
            of: s.need("of")?,
            against: some(s, "against")?,
        },
        TestKind::Highest => Test::Highest {
            of: s.need("of")?,
            against: some(s, "against")?,
        },
        TestKind::Similar => Test::Similar {
            of: s.need("of")?,
            against: s.need("against")?,
            within: quantity(s, "within")?,
        },
        TestKind::Bound => Test::Bound {
            of: s.need("of")?,
            within: optional(s, "within")?,
        },
        TestKind::Growth => Test::Growth {
            of: s.need("of")?,
            axis: an_axis(s, axes)?,
            between: between(s, "between")?,
        },
        TestKind::Shape => Test::Shape {
            of: some(s, "of")?,
            against: s.get("against")?,
            axis: an_axis(s, axes)?,
            shape: shape(s)?,
        },
        TestKind::BetweenPoints => Test::BetweenPoints {
            of: some(s, "of")?,
            axis: an_axis(s, axes)?,
            low: place(s, "low")?,
            high: place(s, "high")?,
            change: change(s)?,
        },
        TestKind::NearBest => Test::NearBest(near_best(s)?),
        TestKind::NotNearBest => Test::NotNearBest(near_best(s)?),
        TestKind::Difference => Test::Difference {
            of: s.need("of")?,
            against: s.need("against")?,
            between: between(s, "between")?,
            slack: quantity(s, "slack")?,
        },
        TestKind::Ks => Test::Ks {
            of: s.need("of")?,
            against: s.need("against")?,
            below: quantity(s, "below")?,
        },
        TestKind::Gains => Test::Gains {
            of: s.need("of")?,
            against: s.need("against")?,
            gain: between(s, "gain")?,
            share: quantity(s, "share")?,
            slack: optional(s, "slack")?.unwrap_or(SLACK),
        },
        TestKind::NotCheckable => Test::NotCheckable(s.need("reason")?),
    })
}

fn shape(s: &Section<'_>) -> Result<Shape> {
    const SHAPES: [(&str, Shape); 4] = [
        ("rising", Shape::Rising),
        ("falling", Shape::Falling),
        ("valley", Shape::Valley),
        ("peak", Shape::Peak),
    ];
    s.choice("shape", &SHAPES)?.ok_or_else(|| {
        let names = SHAPES.map(|(n, _)| n).join(", ");
        s.error("shape", format!("missing, want one of {names}"))
    })
}

fn some(s: &Section<'_>, key: &'static str) -> Result<Vec<String>> {
    match s.list::<String>(key)? {
        Some(list) if !list.is_empty() => Ok(list),
        _ => Err(s.error(key, "missing, want a transport or a list of transports")),
    }
}

fn number(node: &Node) -> Option<f64> {
    match &node.value {
        Value::Text(text) => units::quantity(text),
        Value::Integer(i) => Some(*i as f64),
        Value::Float(f) => Some(*f),
        _ => None,
    }
}

fn optional(s: &Section<'_>, key: &'static str) -> Result<Option<f64>> {
    let Some(node) = s.node(key) else {
        return Ok(None);
    };
    number(node).map(Some).ok_or_else(|| {
        s.error(
            key,
            format!(
                "found {}, want a quantity such as \"2.4ms\" or \"5%\"",
                node.kind()
            ),
        )
    })
}

fn quantity(s: &Section<'_>, key: &'static str) -> Result<f64> {
    optional(s, key)?
        .ok_or_else(|| s.error(key, "missing, want a quantity such as \"2.4ms\" or \"5%\""))
}

fn between(s: &Section<'_>, key: &'static str) -> Result<(f64, f64)> {
    let ends = match s.node(key).map(|n| &n.value) {
        Some(Value::List(items)) => items.iter().map(number).collect::<Option<Vec<_>>>(),
        _ => None,
    };
    match ends.as_deref() {
        Some([a, b]) if a <= b => Ok((*a, *b)),
        _ => Err(s.error(
            key,
            "want two quantities, the lower first, such as [\"32%\", \"64.5%\"]",
        )),
    }
}

fn groups(s: &Section<'_>) -> Result<Vec<Vec<String>>> {
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

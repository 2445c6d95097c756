//! Experiments as data: reads a file, applies the command line's overrides, and resolves the points.

mod overlay;
mod printed;
mod read;
#[cfg(test)]
mod read_tests;
mod rewrite;

use std::path::Path;

pub use overlay::Overrides;
use overlay::path_of;
use printed::{Known, Written};
pub use printed::{Limit, Printed};
pub use rewrite::rewrite;

use crate::claims::Claim;
use crate::document::{ExperimentError, Node, Origin, Section, Share, Value, suggestion};
use crate::metrics::Metric;
use crate::registry::Registry;
use crate::rng::hash64;
use crate::scenario::Scenario;
use crate::transport_name::{End, KERNEL_TRANSPORTS, KnownTransports, TransportName};
use crate::variations::Variation;

/// How large a reproduction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Five minutes per paper on two cores.
    Quick,
    /// A hundred minutes per paper.
    Full,
    /// The papers' own counts. If a paper gives none, our choice.
    Paper,
}

impl Scale {
    /// All scales, the smallest first.
    pub const ALL: [Self; 3] = [Self::Quick, Self::Full, Self::Paper];

    /// The scale's key in the file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Full => "full",
            Self::Paper => "paper-scale",
        }
    }
}

/// What is known when a file is read: the names that it may use, and the start of its relative paths.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Directory that relative paths in the file start from.
    pub directory: &'a Path,
    /// Names of the transports.
    pub transports: &'a [String],
    /// Names of the balancers, in addition to `ecmp`.
    pub balancers: &'a [String],
    /// The registry of all other names, such as topologies.
    pub registry: &'a Registry,
}

impl Context<'_> {
    /// Whether a transport with this name exists. Variants may follow the name, each after a plus sign.
    pub(crate) fn knows_transport(&self, name: &str) -> bool {
        self.known_transports().has(name)
    }

    /// The transports that the file may name.
    pub(crate) fn known_transports(&self) -> KnownTransports<'_> {
        KnownTransports {
            names: self.transports,
            variants: self.registry.variants(),
        }
    }
}

/// One point of the sweep.
#[derive(Clone, Debug)]
pub struct Point {
    /// The axes that the sweep set for this point, each with its value as written.
    pub set: Vec<(String, String)>,
    /// The resolved scenario.
    pub scenario: Scenario,
    /// A hash of everything that determines the point's results, except the transport and the seed.
    pub hash: u64,
}

impl Point {
    fn of(set: Vec<(String, String)>, scenario: Scenario) -> Self {
        let hash = hash_of(&scenario);
        Self {
            set,
            scenario,
            hash,
        }
    }

    /// Applies a variation to the scenario.
    fn vary(&mut self, variation: Variation) {
        variation.apply(&mut self.scenario);
        self.hash = hash_of(&self.scenario);
    }

    /// Whether the point is computed by a formula instead of run.
    pub fn is_computed(&self) -> bool {
        self.scenario.traffic.formula().is_some()
    }
}

/// The hash of a scenario as resolved, with the defaults and the contents of the files that it names.
fn hash_of(scenario: &Scenario) -> u64 {
    hash64(&[format!("{scenario:?}").as_bytes()])
}

/// An experiment, ready to run.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The experiment's id, such as `fuso-fig4ab`. The default is the file's name without extension.
    pub id: String,
    /// The title, one line.
    pub title: String,
    /// The paper that the experiment belongs to, if any.
    pub paper: Option<String>,
    /// The paper's section and figure, and entries of docs/mechanisms.md.
    pub source: String,
    /// The question that the experiment answers.
    pub asks: String,
    /// The transports, in order.
    pub transports: Vec<TransportName>,
    /// The first seed.
    pub seed: u64,
    /// Number of seeds.
    pub seeds: u64,
    /// Number of parts that each seed's flows are split into. If `None`, [`MIN_RUNS`] determines it.
    pub split: Option<u64>,
    /// The points, the first axis varying slowest.
    pub points: Vec<Point>,
    /// The claims to check.
    pub claims: Vec<Claim>,
    /// Numbers that the paper prints for points of this experiment.
    pub printed: Vec<Printed>,
    /// Share of a transport's flows at a point that hosts may give up (0 to 1). A host gives a flow up if no
    /// packet gets through for as long as it tries. Up to this share, such flows are a result and not a failure
    /// of the run.
    pub given_up: f64,
    /// Remarks for the report.
    pub notes: Vec<String>,
    /// Distributions that the report draws.
    pub cdf: Vec<Cdf>,
    /// Names and metrics of the table's columns. If empty, the table has its usual columns.
    pub columns: Vec<(&'static str, Metric)>,
}

/// Quantities whose distribution the report can draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cdf {
    /// Completion times.
    Fct,
    /// Number of recovery packets up to the first one that brought data. The traffic must observe `recovery`.
    FirstHit,
    /// Number of packets that windows would still allow once all data is sent. The traffic must observe
    /// `recovery`.
    Spare,
    /// Flow sizes. The traffic must observe `sizes`.
    Sizes,
}

impl Cdf {
    /// The names in experiment files.
    const NAMED: [(&'static str, Self); 4] = [
        ("fct", Self::Fct),
        ("first-hit", Self::FirstHit),
        ("spare", Self::Spare),
        ("sizes", Self::Sizes),
    ];
}

/// Smallest number of independent runs that a point's work is split into. Confidence intervals resample the
/// runs, and with fewer runs the intervals of skewed metrics cover the true value too rarely (docs/numbers.md).
pub const MIN_RUNS: u64 = 20;

impl Experiment {
    /// Number of parts that each seed's flows are split into. If the file does not set it, all seeds together
    /// have at least [`MIN_RUNS`] parts. Each part is a separate simulation with its own connections and paths.
    pub fn parts(&self) -> u64 {
        let flows = self
            .points
            .iter()
            .map(|p| p.scenario.traffic.flows())
            .min()
            .unwrap_or(1);
        let parts = self.split.unwrap_or(MIN_RUNS.div_ceil(self.seeds));
        parts.clamp(1, flows)
    }

    /// The axes of the sweep, or of all sweeps, each once.
    fn axes(&self) -> Vec<String> {
        let mut axes: Vec<String> = Vec::new();
        for (axis, _) in self.points.iter().flat_map(|p| &p.set) {
            if !axes.contains(axis) {
                axes.push(axis.clone());
            }
        }
        axes
    }

    /// The subset of the experiment with these points, transports and seeds. Its runs are among the runs of the
    /// whole experiment. It has neither claims nor printed numbers.
    #[must_use]
    pub fn only(
        &self,
        points: impl Fn(usize) -> bool,
        transports: impl Fn(&TransportName) -> bool,
        seeds: std::ops::Range<u64>,
    ) -> Self {
        let chosen = |(i, p): (usize, &Point)| points(i).then(|| p.clone());
        let kept = self.transports.iter().filter(|t| transports(t));
        let (first, end) = (
            self.seed.max(seeds.start),
            (self.seed + self.seeds).min(seeds.end),
        );
        Self {
            transports: kept.cloned().collect(),
            seed: first,
            seeds: end.saturating_sub(first),
            split: Some(self.parts()),
            points: self.points.iter().enumerate().filter_map(chosen).collect(),
            claims: Vec::new(),
            printed: Vec::new(),
            ..self.clone()
        }
    }

    /// Reads an experiment from a file and applies the command line's overrides.
    ///
    /// # Errors
    /// The first mistake, in one line.
    pub fn load(
        path: &Path,
        overrides: &Overrides,
        context: &Context<'_>,
    ) -> Result<Self, ExperimentError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|e| {
            let what = match e.kind() {
                std::io::ErrorKind::NotFound => "no such file, want an experiment file".to_owned(),
                _ => format!("cannot be read: {e}"),
            };
            ExperimentError::new(Origin::File(name.as_str().into()), "", what)
        })?;
        Self::parse(&name, &text, overrides, context)
    }

    /// Reads an experiment from a text. Errors refer to the text as `name`.
    ///
    /// # Errors
    /// The first mistake, in one line.
    pub fn parse(
        name: &str,
        text: &str,
        overrides: &Overrides,
        context: &Context<'_>,
    ) -> Result<Self, ExperimentError> {
        let mut tree = Node::parse(name, text)?;
        let written = Written::of(&tree);
        overlay::apply(&mut tree, overrides)?;
        let claims = tree.remove("claims");
        let printed = tree.remove("printed");
        let sweep = tree.remove("sweep");
        let mut points = points(&tree, sweep.as_ref(), context)?;
        if let Some(variation) = overrides.variation {
            points.iter_mut().for_each(|p| p.vary(variation));
        }
        let root = Section::new("", &tree)?;
        let computed = points.iter().filter(|p| p.is_computed()).count();
        if computed > 0 && computed < points.len() {
            let problem = "is a formula at some points only, want it at all or at none";
            return Err(root.error("traffic", problem));
        }
        let series = crate::formula::SERIES.map(str::to_owned);
        let context = &match computed {
            0 => *context,
            _ => Context {
                transports: &series,
                balancers: &[],
                ..*context
            },
        };
        let mut experiment = head(name, &root, context)?;
        experiment.points = points;
        if let Some(variation) = overrides.variation {
            experiment.seed = variation.seed(experiment.seed);
        }
        if let Some(node) = claims {
            experiment.claims = read_claims(&node, &experiment, context.registry)?;
        }
        if let Some(node) = printed {
            let known = Known {
                experiment: &experiment,
                written: &written,
                metrics: context.registry.metrics(),
                axes: &experiment.axes(),
            };
            experiment.printed = printed::read(&node, &known)?;
        }
        Ok(experiment)
    }
}

/// Reads and checks the points of the sweep, or of several sweeps one after the other.
fn points(
    tree: &Node,
    sweep: Option<&Node>,
    context: &Context<'_>,
) -> Result<Vec<Point>, ExperimentError> {
    match sweep.map(|n| &n.value) {
        Some(Value::List(sweeps)) if !sweeps.is_empty() => {
            let each = sweeps.iter().map(|s| swept(tree, Some(s), context));
            Ok(each.collect::<Result<Vec<_>, _>>()?.concat())
        }
        _ => swept(tree, sweep, context),
    }
}

/// The points of one sweep.
fn swept(
    tree: &Node,
    sweep: Option<&Node>,
    context: &Context<'_>,
) -> Result<Vec<Point>, ExperimentError> {
    let mut trees = vec![(Vec::new(), tree.clone())];
    if let Some(Node {
        value: Value::Table(axes),
        ..
    }) = sweep
    {
        for (axis, node) in axes {
            let values = match &node.value {
                Value::List(values) => values.clone(),
                _ => vec![node.clone()],
            };
            if values.is_empty() {
                let key = format!("sweep.{axis}");
                return Err(ExperimentError::new(
                    node.origin.clone(),
                    key,
                    "want one or more values",
                ));
            }
            let mut next = Vec::with_capacity(trees.len() * values.len());
            for (set, tree) in &trees {
                for value in &values {
                    let (mut set, mut tree) = (set.clone(), tree.clone());
                    set.push((axis.clone(), set_value(&mut tree, axis, value)?));
                    next.push((set, tree));
                }
            }
            trees = next;
        }
    } else if let Some(node) = sweep {
        let problem = format!(
            "found {}, want a table of axes with lists of values",
            node.kind()
        );
        return Err(ExperimentError::new(node.origin.clone(), "sweep", problem));
    }
    trees
        .into_iter()
        .map(|(set, tree)| point(set, &tree, context))
        .collect()
}

/// Writes one value of an axis into the scenario and returns the text that stands for the value. A plain value
/// is written at the axis' own key. A table is written key by key, except for its `name`, which stands for the
/// table. A key of a table does not replace a value that a flag has set.
fn set_value(tree: &mut Node, axis: &str, value: &Node) -> Result<String, ExperimentError> {
    let Value::Table(entries) = &value.value else {
        tree.set(path_of(axis), value.clone())?;
        return Ok(shown(value));
    };
    let Some(Value::Text(name)) = value.get("name").map(|n| &n.value) else {
        let problem = "a table without a name, want name = \"...\" next to the keys that it sets";
        let key = format!("sweep.{axis}");
        return Err(ExperimentError::new(value.origin.clone(), key, problem));
    };
    for (key, node) in entries.iter().filter(|(key, _)| key != "name") {
        let path = path_of(key);
        let there = path.split('.').try_fold(&*tree, |at, part| at.get(part));
        if !there.is_some_and(|n| matches!(n.origin, Origin::Flag(_))) {
            tree.set(path, node.clone())?;
        }
    }
    Ok(name.clone())
}

fn shown(node: &Node) -> String {
    match &node.value {
        Value::Text(s) => s.clone(),
        _ => node.canonical(),
    }
}

fn point(
    set: Vec<(String, String)>,
    tree: &Node,
    context: &Context<'_>,
) -> Result<Point, ExperimentError> {
    let root = Section::new("", tree)?;
    Ok(Point::of(set, read::scenario(&root, context)?))
}

/// The tables of a scenario, which each point reads with the values of its axes.
const SCENARIO: [&str; 9] = [
    "topology",
    "links",
    "loss",
    "queue",
    "link_trace",
    "traffic",
    "scenario",
    "hotspots",
    "bystanders",
];

/// Reads everything except the scenario. Refuses unknown keys.
fn head(
    name: &str,
    root: &Section<'_>,
    context: &Context<'_>,
) -> Result<Experiment, ExperimentError> {
    let stem = Path::new(name)
        .file_stem()
        .map_or_else(String::new, |s| s.to_string_lossy().into());
    for key in SCENARIO {
        let _ = root.node(key);
    }
    let transports = transports(root, context)?;
    let seeds = root.or("seeds", 1u64)?;
    if seeds == 0 {
        return Err(root.error("seeds", "found 0, want 1 or more"));
    }
    let split = root.get("parts")?;
    if split == Some(0) {
        return Err(root.error("parts", "found 0, want 1 or more"));
    }
    let experiment = Experiment {
        id: root.or("id", stem)?,
        title: root.or("title", String::new())?,
        paper: root.get("paper")?,
        source: root.or("source", String::new())?,
        asks: root.or("asks", String::new())?,
        transports,
        seed: root.or("seed", 1u64)?,
        seeds,
        split,
        points: Vec::new(),
        claims: Vec::new(),
        printed: Vec::new(),
        given_up: root.or("given_up", Share(0.0))?.0,
        notes: root.list("notes")?.unwrap_or_default(),
        cdf: distributions(root)?,
        columns: columns(root, context.registry)?,
    };
    // These keys were removed earlier but are accepted.
    for key in ["sweep", "claims", "printed", "scale"] {
        let _ = root.node(key);
    }
    root.check()?;
    Ok(experiment)
}

fn columns(
    root: &Section<'_>,
    registry: &Registry,
) -> Result<Vec<(&'static str, Metric)>, ExperimentError> {
    let metrics = registry.metrics();
    let names: Vec<String> = root.list("columns")?.unwrap_or_default();
    let read = |name: &String| {
        let known = || Metric::all_names_with(metrics);
        let named = known().find(|n| *n == name.as_str());
        let found = named.and_then(|n| Some((n, Metric::parse_with(n, metrics)?)));
        found.ok_or_else(|| {
            let near = suggestion(name, known());
            let problem = format!("found \"{name}\", want names of metrics{near}");
            root.error("columns", problem)
        })
    };
    names.iter().map(read).collect()
}

fn distributions(root: &Section<'_>) -> Result<Vec<Cdf>, ExperimentError> {
    let names: Vec<String> = root.list("cdf")?.unwrap_or_default();
    let read = |name: &String| {
        let found = Cdf::NAMED.iter().find(|(n, _)| n == name);
        found.map(|(_, kind)| *kind).ok_or_else(|| {
            let known = Cdf::NAMED.map(|(n, _)| n).join(", ");
            root.error("cdf", format!("found \"{name}\", want some of {known}"))
        })
    };
    names.iter().map(read).collect()
}

fn transports(
    root: &Section<'_>,
    context: &Context<'_>,
) -> Result<Vec<TransportName>, ExperimentError> {
    let mut list = Vec::new();
    let every = |(name, node): (String, Node)| -> Vec<(String, Node)> {
        if name != "all" {
            return vec![(name, node)];
        }
        let whole = context.transports.iter().filter(|t| !is_numbered(t));
        whole.map(|t| (t.clone(), node.clone())).collect()
    };
    let names = read::names(root, "transports")?;
    for (name, node) in names.into_iter().flat_map(every) {
        let (transport, balancer) = name
            .split_once('@')
            .map_or((name.as_str(), None), |(t, b)| (t, Some(b)));
        let name = TransportName {
            transport: transport.to_owned(),
            balancer: balancer.map(str::to_owned),
        };
        let wrong = |problem: String| {
            ExperimentError::new(node.origin.clone(), root.path("transports"), problem)
        };
        let (server, client) = name.ends().map_err(|e| wrong(e.to_string()))?;
        let known = |end: &End<'_>| end.is_kernel() || context.knows_transport(end.preset);
        if let Some(end) = [server, client].into_iter().find(|end| !known(end)) {
            let names = context.transports.iter().map(String::as_str);
            let names = names.chain(KERNEL_TRANSPORTS);
            let bare = Node {
                value: Value::Text(end.preset.to_owned()),
                origin: node.origin.clone(),
            };
            return Err(root.unknown("transports", &bare, names));
        }
        if let Some(b) =
            balancer.filter(|b| *b != "ecmp" && !context.balancers.iter().any(|n| n == b))
        {
            let names = context.balancers.iter().map(String::as_str);
            let bare = Node {
                value: Value::Text(b.to_owned()),
                origin: node.origin.clone(),
            };
            return Err(root.unknown("transports", &bare, std::iter::once("ecmp").chain(names)));
        }
        if list.contains(&name) {
            return Err(wrong(format!("found {name} twice, want each once")));
        }
        list.push(name);
    }
    if list.is_empty() {
        return Err(root.error(
            "transports",
            "missing or empty, want a list such as [\"tcp\", \"fuso\"]",
        ));
    }
    Ok(list)
}

/// Whether the name is a family's name with a number of subflows appended, such as `fuso-8`.
fn is_numbered(name: &str) -> bool {
    let number = name.rsplit_once('-').map(|(_, n)| n.parse::<u32>());
    matches!(number, Some(Ok(_)))
}

fn read_claims(
    node: &Node,
    experiment: &Experiment,
    registry: &Registry,
) -> Result<Vec<Claim>, ExperimentError> {
    let Value::List(items) = &node.value else {
        let problem = format!("found {}, want [[claims]] tables", node.kind());
        return Err(ExperimentError::new(node.origin.clone(), "claims", problem));
    };
    let axes = experiment.axes();
    let observes = |what: &str| {
        let has = |p: &Point| p.scenario.observes(what);
        experiment.points.iter().all(has)
    };
    let catalogs = (registry.claim_tests(), registry.metrics());
    let read = |(i, n)| {
        let section = Section::new(format!("claims[{}]", i + 1), n)?;
        Claim::read(section, catalogs, &axes, &observes)
    };
    items.iter().enumerate().map(read).collect()
}

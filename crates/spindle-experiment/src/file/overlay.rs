//! The command line's overrides of an experiment's file: a reading, a scale, flags, single keys.

use super::Scale;
use crate::document::Section;
use crate::document::{ExperimentError, Origin};
use crate::document::{Node, Value};
use crate::readings::Reading;
use crate::variations::Variation;

/// What the command line overrides in a file.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// `--set key=value`, as given.
    pub set: Vec<String>,
    /// `--loss`, as given. A list is separated by commas.
    pub loss: Option<String>,
    /// `--flows`, as given.
    pub flows: Option<String>,
    /// `--seeds`, as given.
    pub seeds: Option<String>,
    /// `--seed`, as given.
    pub seed: Option<String>,
    /// `--transports`, as given, separated by commas.
    pub transports: Option<String>,
    /// The scale of a reproduction.
    pub scale: Option<Scale>,
    /// The reading of a paper, which is applied before all other overrides.
    pub reading: Option<&'static Reading>,
    /// A variation, which is applied to the resolved scenarios, after all other overrides.
    pub variation: Option<Variation>,
}

/// Applies all overrides to a file: first the reading, then the scale, then the flags.
pub(super) fn apply(tree: &mut Node, overrides: &Overrides) -> Result<(), ExperimentError> {
    if let Some(reading) = overrides.reading {
        apply_reading(tree, reading)?;
    }
    apply_scale(tree, overrides.scale)?;
    apply_flags(tree, overrides)
}

/// Applies the replacements and the keys of a reading to the file.
fn apply_reading(tree: &mut Node, reading: &Reading) -> Result<(), ExperimentError> {
    for r in reading.replacements()? {
        tree.replace(&r.key, &r.value, &r.with);
    }
    for (key, value) in reading.set_in(tree)? {
        set_axis(tree, &key, value)?;
    }
    Ok(())
}

/// Short names of axes and flags, and the keys that they set.
const ALIASES: [(&str, &str); 5] = [
    ("loss", "loss.rate"),
    ("load", "traffic.load"),
    ("size", "traffic.sizes"),
    ("fanout", "traffic.fanout"),
    ("flows", "traffic.flows"),
];

pub(super) fn path_of(axis: &str) -> &str {
    ALIASES
        .iter()
        .find(|(short, _)| *short == axis)
        .map_or(axis, |(_, path)| path)
}

/// Applies `[scale.NAME]` to the file: `flows`, `rounds`, `duration`, `seeds`, `transports`, and any sweep
/// axis.
fn apply_scale(tree: &mut Node, scale: Option<Scale>) -> Result<(), ExperimentError> {
    let Some(all) = tree.remove("scale") else {
        return Ok(());
    };
    let section = Section::new("scale", &all)?;
    for one in Scale::ALL {
        let Some(part) = section.section(one.name())? else {
            continue;
        };
        let chosen = scale == Some(one);
        for (key, path) in [
            ("flows", "traffic.flows"),
            ("rounds", "traffic.rounds"),
            ("duration", "traffic.duration"),
            ("seeds", "seeds"),
            ("transports", "transports"),
            ("sweep", ""),
        ] {
            let Some(node) = part.node(key) else { continue };
            if !chosen {
                continue;
            }
            match (&node.value, path) {
                (Value::Table(axes), "") => {
                    for (axis, values) in axes {
                        set_axis(tree, axis, values.clone())?;
                    }
                }
                (_, "") => return Err(part.error(key, "want a table of axes")),
                _ => tree.set(path, node.clone())?,
            }
        }
        part.finish()?;
    }
    section.finish()
}

/// Writes the value of an axis or key: into the sweep if the sweep has this axis, otherwise into the scenario.
fn set_axis(tree: &mut Node, key: &str, value: Node) -> Result<(), ExperimentError> {
    let swept = |axis: &str| axis == key || path_of(axis) == path_of(key);
    let mut found = false;
    for sweep in sweeps_mut(tree) {
        if let Value::Table(axes) = &mut sweep.value
            && let Some((_, node)) = axes.iter_mut().find(|(axis, _)| swept(axis))
        {
            *node = value.clone();
            found = true;
        }
    }
    match found {
        true => Ok(()),
        false => tree.set(path_of(key), value),
    }
}

/// `[sweep]`, or each `[[sweep]]`.
pub(super) fn sweeps_mut(tree: &mut Node) -> &mut [Node] {
    let sweep = match &mut tree.value {
        Value::Table(entries) => entries.iter_mut().find(|(k, _)| k == "sweep"),
        _ => None,
    };
    match sweep.map(|(_, n)| n) {
        None => &mut [],
        Some(Node {
            value: Value::List(sweeps),
            ..
        }) => sweeps,
        Some(one) => std::slice::from_mut(one),
    }
}

fn apply_flags(tree: &mut Node, overrides: &Overrides) -> Result<(), ExperimentError> {
    if let Some(flows) = &overrides.flows {
        let incast = tree
            .get("traffic")
            .and_then(|t| t.get("kind"))
            .map(|n| n.value.clone())
            == Some(Value::Text("incast".to_owned()));
        let path = if incast {
            "traffic.rounds"
        } else {
            "traffic.flows"
        };
        tree.set(path, Node::from_flag("--flows", flows))?;
    }
    for (flag, key, value) in [
        ("--seeds", "seeds", &overrides.seeds),
        ("--seed", "seed", &overrides.seed),
    ] {
        if let Some(value) = value {
            tree.set(key, Node::from_flag(flag, value))?;
        }
    }
    if let Some(names) = &overrides.transports {
        tree.set("transports", text_list("--transports", names))?;
    }
    if let Some(loss) = &overrides.loss {
        let node = if loss.contains(',') {
            text_list("--loss", loss)
        } else {
            Node::from_flag("--loss", loss)
        };
        set_axis(tree, "loss", node)?;
    }
    overrides
        .set
        .iter()
        .try_for_each(|set| apply_set(tree, set))
}

/// Applies one `--set` to the file.
fn apply_set(tree: &mut Node, set: &str) -> Result<(), ExperimentError> {
    let flag = format!("--set {set}");
    let wrong = |key, problem| {
        let origin = Origin::Flag(flag.as_str().into());
        Err(ExperimentError::new(origin, key, problem))
    };
    let Some((key, value)) = set.split_once('=') else {
        return wrong("", "want key=value, such as loss=2%");
    };
    let (key, value) = (key.trim(), value.trim());
    // A table is recognised by its braces, because a shell may have removed the quotes that make it a valid
    // table.
    if value.starts_with('{') && value.ends_with('}') {
        return wrong(
            key,
            "found a table, which --set does not take, want it in the file",
        );
    }
    if key == "scale" || key.starts_with("scale.") {
        return wrong(
            key,
            "found a key of a scale, whose table is laid over the file before flags are; want the key that it \
             stands for, such as traffic.flows",
        );
    }
    set_axis(tree, key, Node::from_flag(&flag, value))
}

fn text_list(flag: &str, names: &str) -> Node {
    let origin = Origin::Flag(flag.into());
    let item = |s: &str| Node {
        value: Value::Text(s.trim().to_owned()),
        origin: origin.clone(),
    };
    let items = names
        .split(',')
        .filter(|s| !s.trim().is_empty())
        .map(item)
        .collect();
    Node {
        value: Value::List(items),
        origin: origin.clone(),
    }
}

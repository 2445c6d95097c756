//! Reads a graph from a TOML file: the lists `hosts` and `switches`, and `[[cables]]`.

use std::collections::HashMap;

use spindle_units::{BitRate, Duration};

use super::{ACCESS, Buffer, Defaults, Edge, End, Graph, Names, Result, TRUNK};
use crate::document::{Node, Section, Value, suggestion};
use crate::topologies::links::{buffer, rate};

/// Reads a graph. Errors refer to the file as `file`.
///
/// # Errors
/// The first mistake, with its line.
pub(super) fn read(file: &str, text: &str, defaults: &Defaults) -> Result<Graph> {
    let tree = Node::parse(file, text)?;
    let root = Section::new("", &tree)?;
    let hosts = names(&root, "hosts")?;
    let switches = names(&root, "switches")?;
    let mut ends: HashMap<&str, End> = HashMap::new();
    let numbered = hosts
        .iter()
        .enumerate()
        .map(|(n, name)| (name, End::Host(n)));
    let switch = switches
        .iter()
        .enumerate()
        .map(|(n, name)| (name, End::Switch(n)));
    for (name, end) in numbered.chain(switch) {
        if ends.insert(name, end).is_some() {
            let key = if matches!(end, End::Host(_)) {
                "hosts"
            } else {
                "switches"
            };
            return Err(root.error(key, format!("found \"{name}\" twice, want each name once")));
        }
    }
    let Some(Node {
        value: Value::List(items),
        ..
    }) = root.node("cables")
    else {
        return Err(root.error("cables", "missing, want [[cables]] tables, each with ends"));
    };
    let mut unique = Names::default();
    let mut cables = Vec::with_capacity(items.len());
    for (n, node) in items.iter().enumerate() {
        let section = Section::new(format!("cables[{}]", n + 1), node)?;
        cables.push(cable(&section, &ends, (&mut unique, defaults))?);
        section.finish()?;
    }
    root.finish()?;
    Ok(Graph {
        hosts,
        switches,
        cables,
    })
}

/// A list of names.
fn names(root: &Section<'_>, key: &'static str) -> Result<Vec<String>> {
    Ok(root.list(key)?.unwrap_or_default())
}

fn cable(
    s: &Section<'_>,
    nodes: &HashMap<&str, End>,
    (unique, defaults): (&mut Names, &Defaults),
) -> Result<Edge> {
    let ends: Vec<String> = s.list("ends")?.unwrap_or_default();
    let [a, b] = &ends[..] else {
        let problem = format!(
            "found {} names, want two such as [\"h0\", \"s0\"]",
            ends.len()
        );
        return Err(s.error("ends", problem));
    };
    let end = |name: &str| {
        nodes.get(name).copied().ok_or_else(|| {
            let near = suggestion(name, nodes.keys().copied());
            let problem = format!("found \"{name}\", want a name of hosts or switches{near}");
            s.error("ends", problem)
        })
    };
    // A host is the first end, so that the direction away from it is up, as in all topologies.
    let (a, b, near, far) = match (end(a)?, end(b)?) {
        (switch @ End::Switch(_), host @ End::Host(_)) => (b, a, host, switch),
        (near, far) => (a, b, near, far),
    };
    let is_access = matches!(near, End::Host(_));
    let usual = match is_access {
        true => format!("{a}.{ACCESS}"),
        false => format!("{a}-{b}"),
    };
    let usual_group = if is_access { ACCESS } else { TRUNK };
    let rate = match s.has("rate") {
        true => Some(rate(s, "rate", BitRate(0))?),
        false => {
            let _ = s.node("rate");
            None
        }
    };
    let own: Option<Buffer> = buffer(s)?;
    let name = match s.get::<String>("name")? {
        Some(name) => name,
        None => unique.unique(&usual),
    };
    Ok(Edge {
        name,
        group: s.or("group", usual_group.to_owned())?,
        ends: (near, far),
        rate,
        delay: s.or::<Duration>("delay", defaults.delay)?,
        buffer: own,
    })
}

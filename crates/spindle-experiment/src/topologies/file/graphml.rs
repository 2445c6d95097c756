//! Reads a graph from a GraphML file with the attributes of the Internet Topology Zoo.
//!
//! Each node becomes a switch with hosts. The attributes used are, of a node, `label`, `Longitude` and `Latitude`
//! in degrees, and, of an edge, `LinkSpeedRaw` in bits per second. Others are ignored.

use std::collections::{HashMap, HashSet};

use roxmltree::{Document, Node};
use spindle_units::{BitRate, Duration};

use super::{ACCESS, Defaults, Edge, End, Graph, MOST_SWITCHES, Names, TRUNK};
use crate::topologies::MAX_HOSTS;

/// Mean radius of the Earth in kilometres (IUGG, R1).
const RADIUS: f64 = 6371.0088;

/// Speed of light in fibre in kilometres per second: two thirds of that in vacuum.
const SPEED: f64 = 299_792.458 * 2.0 / 3.0;

/// A node of the file.
struct Place {
    name: String,
    /// Latitude and longitude in radians.
    position: Option<(f64, f64)>,
}

/// Where something is wrong, and what: ":LINE: PROBLEM".
type Result<T> = std::result::Result<T, String>;

/// Reads a graph.
///
/// # Errors
/// The first mistake, with its line.
pub(super) fn read(text: &str, defaults: &Defaults) -> Result<Graph> {
    let document =
        Document::parse(text).map_err(|e| format!(":{}: not valid XML: {e}", e.pos().row))?;
    let root = document.root_element();
    let wrong = |node: Node<'_, '_>, problem: String| {
        let row = document.text_pos_at(node.range().start).row;
        format!(":{row}: {problem}")
    };
    let graph = root.children().find(|n| n.has_tag_name_any("graph"));
    let Some(graph) = graph.filter(|_| root.has_tag_name_any("graphml")) else {
        let found = root.tag_name().name();
        let problem = format!("found <{found}>, want <graphml> with a <graph>");
        return Err(wrong(root, problem));
    };
    let keys = keys(root);
    let mut labels = Names::default();
    let mut places: Vec<Place> = Vec::new();
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    for node in graph.children().filter(|n| n.has_tag_name_any("node")) {
        let Some(id) = node.attribute("id") else {
            return Err(wrong(node, "found a <node> without id".to_owned()));
        };
        if numbers.insert(id, places.len()).is_some() {
            return Err(wrong(
                node,
                format!("found the node id \"{id}\" twice, want each id once"),
            ));
        }
        let place = place(node, id, (&keys, &mut labels)).map_err(|p| wrong(node, p))?;
        places.push(place);
        if places.len() > MOST_SWITCHES {
            return Err(wrong(
                node,
                format!("has more than {MOST_SWITCHES} nodes, want fewer"),
            ));
        }
    }
    let hosts = places.len() as u64 * u64::from(defaults.hosts_per_node);
    if hosts > u64::from(MAX_HOSTS) {
        return Err(format!(
            ": makes {hosts} hosts, want at most {MAX_HOSTS}: set hosts_per_node"
        ));
    }
    let mut cables = Vec::new();
    let mut unique = Names::default();
    for edge in graph.children().filter(|n| n.has_tag_name_any("edge")) {
        let cable = cable(edge, (&places, &numbers), (&keys, defaults), &mut unique);
        cables.extend(cable.map_err(|p| wrong(edge, p))?);
    }
    Ok(with_hosts(&places, cables, defaults))
}

/// A comparison of names that ignores namespaces, because files declare different ones or none.
trait HasName {
    fn has_tag_name_any(&self, name: &str) -> bool;
}

impl HasName for Node<'_, '_> {
    fn has_tag_name_any(&self, name: &str) -> bool {
        self.is_element() && self.tag_name().name() == name
    }
}

/// The ids of attributes, by what they belong to and by their name.
type Keys<'a> = HashMap<(&'a str, &'a str), &'a str>;

fn keys<'a>(root: Node<'a, '_>) -> Keys<'a> {
    let all = root.children().filter(|n| n.has_tag_name_any("key"));
    let named = all.filter_map(|key| {
        let of = key.attribute("for")?;
        Some(((of, key.attribute("attr.name")?), key.attribute("id")?))
    });
    named.collect()
}

/// The value of an attribute of a node or an edge.
fn data<'a>(of: Node<'a, '_>, keys: &Keys<'_>, name: &str) -> Option<&'a str> {
    let id = keys.get(&(of.tag_name().name(), name))?;
    let mut all = of.children().filter(|n| n.has_tag_name_any("data"));
    let found = all.find(|n| n.attribute("key") == Some(id))?;
    found.text().map(str::trim)
}

/// The value of an attribute that is a number.
fn number(of: Node<'_, '_>, keys: &Keys<'_>, name: &str) -> Result<Option<f64>> {
    let Some(text) = data(of, keys, name) else {
        return Ok(None);
    };
    let found = text.parse::<f64>().ok().filter(|v| v.is_finite());
    found
        .map(Some)
        .ok_or_else(|| format!("found {name} \"{text}\", want a number"))
}

fn place(node: Node<'_, '_>, id: &str, (keys, labels): (&Keys<'_>, &mut Names)) -> Result<Place> {
    let latitude = number(node, keys, "Latitude")?;
    let longitude = number(node, keys, "Longitude")?;
    let position = latitude.zip(longitude);
    if let Some((latitude, longitude)) = position
        && (latitude.abs() > 90.0 || longitude.abs() > 360.0)
    {
        return Err(format!(
            "found latitude {latitude} and longitude {longitude}, want degrees"
        ));
    }
    let label = data(node, keys, "label")
        .filter(|l| !l.is_empty())
        .unwrap_or(id);
    Ok(Place {
        name: labels.unique(&as_name(label)),
        position: position.map(|(a, b)| (a.to_radians(), b.to_radians())),
    })
}

/// A label as a name that patterns of links may contain.
fn as_name(label: &str) -> String {
    let name: String = label
        .chars()
        .map(|c| match c {
            c if c.is_alphanumeric() => c,
            '.' | '_' => c,
            _ => '_',
        })
        .collect();
    match name.ends_with(".up") || name.ends_with(".down") {
        true => name + "_",
        false => name,
    }
}

/// The cable of an edge. `None` for an edge from a node to itself.
fn cable(
    edge: Node<'_, '_>,
    (places, numbers): (&[Place], &HashMap<&str, usize>),
    (keys, defaults): (&Keys<'_>, &Defaults),
    unique: &mut Names,
) -> Result<Option<Edge>> {
    let end = |attribute: &str| {
        let id = edge.attribute(attribute);
        let id = id.ok_or_else(|| format!("found an <edge> without {attribute}"))?;
        let number = numbers.get(id).copied();
        number.ok_or_else(|| format!("found {attribute} \"{id}\", want the id of a <node>"))
    };
    let (a, b) = (end("source")?, end("target")?);
    if a == b {
        return Ok(None);
    }
    let rate = match number(edge, keys, "LinkSpeedRaw")? {
        Some(bits) if (1.0..1e15).contains(&bits) => Some(BitRate(bits.round() as u64)),
        Some(bits) => {
            return Err(format!(
                "found LinkSpeedRaw {bits}, want bits per second from 1 to 1e15"
            ));
        }
        None => None,
    };
    let positions = places[a].position.zip(places[b].position);
    Ok(Some(Edge {
        name: unique.unique(&format!("{}-{}", places[a].name, places[b].name)),
        group: TRUNK.to_owned(),
        ends: (End::Switch(a), End::Switch(b)),
        rate,
        delay: positions.map_or(defaults.delay, |(a, b)| delay(a, b)),
        buffer: None,
    }))
}

/// The delay of light in fibre along the great circle between two places, each with latitude and longitude.
fn delay(a: (f64, f64), b: (f64, f64)) -> Duration {
    // The haversine formula.
    let half = |x: f64| (x / 2.0).sin().powi(2);
    let h = half(b.0 - a.0) + a.0.cos() * b.0.cos() * half(b.1 - a.1);
    let kilometres = 2.0 * RADIUS * h.sqrt().min(1.0).asin();
    Duration::from_secs_f64(kilometres / SPEED)
}

/// The graph with hosts h0, h1 and so on, in the order of the nodes.
fn with_hosts(places: &[Place], mut cables: Vec<Edge>, defaults: &Defaults) -> Graph {
    let mut hosts = Vec::new();
    for switch in 0..places.len() {
        for _ in 0..defaults.hosts_per_node {
            let host = hosts.len();
            let name = format!("h{host}");
            cables.push(Edge {
                name: format!("{name}.{ACCESS}"),
                group: ACCESS.to_owned(),
                ends: (End::Host(host), End::Switch(switch)),
                rate: None,
                delay: defaults.host_delay,
                buffer: None,
            });
            hosts.push(name);
        }
    }
    // A node may be called like a host.
    let taken: HashSet<&str> = hosts.iter().map(String::as_str).collect();
    let switches = places
        .iter()
        .map(|p| match taken.contains(p.name.as_str()) {
            true => format!("{}.node", p.name),
            false => p.name.clone(),
        });
    let switches = switches.collect();
    Graph {
        hosts,
        switches,
        cables,
    }
}

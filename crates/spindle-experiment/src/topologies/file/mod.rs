//! `file`: any graph, from a TOML file or from a GraphML file of the Internet Topology Zoo.

mod graphml;
mod toml;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use spindle_fabric::{Builder, LinkSpec, Network, NetworkError};
use spindle_units::{BitRate, Duration};

use super::{Buffer, LinkSettings, MAX_HOSTS, Topology, TopologyKind};
use crate::catalog::Catalog;
use crate::document::{ExperimentError, Section};
use crate::text_file::TextFile;

type Result<T> = std::result::Result<T, ExperimentError>;

/// Largest size of a topology file in bytes (our choice).
const MOST_BYTES: u64 = 8 << 20;

/// Largest number of switches (our choice). The routes take memory for each pair of a switch and an address.
const MOST_SWITCHES: usize = 4096;

/// Largest number of cables between switches (our choice).
const MOST_CABLES: usize = 65_536;

/// The delay of cables that have none (our choice; 200 km of fibre).
const DELAY: Duration = Duration::from_millis(1);

/// The delay of the cables of hosts that a GraphML file does not have (our choice).
const HOST_DELAY: Duration = Duration::from_micros(10);

/// A graph of hosts and switches.
#[derive(Clone, Debug)]
struct Graph {
    /// The names of the hosts.
    hosts: Vec<String>,
    /// The names of the switches.
    switches: Vec<String>,
    cables: Vec<Edge>,
}

/// A cable.
#[derive(Clone, Debug)]
struct Edge {
    name: String,
    group: String,
    ends: (End, End),
    /// If `None`, the rate of the settings of links.
    rate: Option<BitRate>,
    delay: Duration,
    /// If `None`, the buffer of the settings of links. Applies to ports of switches.
    buffer: Option<Buffer>,
}

/// An end of a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The host with this number.
    Host(usize),
    /// The switch with this number.
    Switch(usize),
}

/// The group of the cables of hosts, as in all topologies.
const ACCESS: &str = "access";
/// The group of the cables between switches.
const TRUNK: &str = "trunk";

/// Values that a file may leave out.
#[derive(Clone, Copy, Debug)]
struct Defaults {
    /// The delay of a cable.
    delay: Duration,
    /// For GraphML: the number of hosts at each node.
    hosts_per_node: u32,
    /// For GraphML: the delay of their cables.
    host_delay: Duration,
}

impl Graph {
    /// The direction from a cable's end `from`.
    fn link(&self, edge: &Edge, from: End, links: &LinkSettings) -> LinkSpec {
        let has_host = matches!(edge.ends, (End::Host(_), _) | (_, End::Host(_)));
        let default_rate = match has_host {
            true => links.host_rate(),
            false => links.rate,
        };
        let rate = edge.rate.unwrap_or(default_rate);
        let (buffer, mark_above) = match from {
            End::Host(_) => (links.host_port(), links.host_mark_above()),
            End::Switch(_) => {
                let own = edge.buffer.map(Buffer::port);
                (own.unwrap_or(links.switch_port()), links.mark_above())
            }
        };
        LinkSpec {
            mark_above,
            priorities: links.priorities,
            ..LinkSpec::new(rate, edge.delay, buffer)
        }
    }
}

impl Topology for Graph {
    fn build(&self, links: &LinkSettings) -> std::result::Result<Network, NetworkError> {
        let mut builder = Builder::new("file");
        let switches: Vec<_> = self.switches.iter().map(|n| builder.switch(n, 1)).collect();
        let hosts: Vec<_> = self.hosts.iter().map(|n| builder.host(n)).collect();
        let node = |end: End| match end {
            End::Host(n) => hosts[n],
            End::Switch(n) => switches[n],
        };
        for edge in &self.cables {
            let (a, b) = edge.ends;
            let [up, down] = [a, b].map(|from| self.link(edge, from, links));
            builder.cable(
                edge.name.as_str(),
                &edge.group,
                (node(a), node(b)),
                up,
                down,
            );
        }
        builder.build()
    }
}

struct Kind;

impl TopologyKind for Kind {
    fn without(&self) -> &[&'static str] {
        &["rtt"]
    }

    fn read(&self, s: &Section<'_>, links: &LinkSettings) -> Result<Arc<dyn Topology>> {
        self.read_from(s, links, Path::new("."))
    }

    fn read_from(
        &self,
        s: &Section<'_>,
        _: &LinkSettings,
        directory: &Path,
    ) -> Result<Arc<dyn Topology>> {
        let file = TextFile::read(s, directory, MOST_BYTES)?;
        let (shown, text) = (file.name, file.text);
        let path = Path::new(&shown);
        let extension = path.extension().map(|e| e.to_string_lossy().to_lowercase());
        let is_xml = match extension.as_deref() {
            Some("toml") => false,
            Some("graphml" | "xml") => true,
            _ => {
                let problem = format!("found \"{shown}\", want a file .toml, .graphml or .xml");
                return Err(s.error("path", problem));
            }
        };
        for key in ["hosts_per_node", "host_delay"] {
            if !is_xml && s.node(key).is_some() {
                let problem = "has a meaning for GraphML only: a TOML file lists its hosts";
                return Err(s.error(key, problem));
            }
        }
        let defaults = Defaults {
            delay: s.or("delay", DELAY)?,
            hosts_per_node: s.or("hosts_per_node", 1)?,
            host_delay: s.or("host_delay", HOST_DELAY)?,
        };
        let graph = match is_xml {
            false => toml::read(&shown, &text, &defaults)?,
            true => graphml::read(&text, &defaults)
                .map_err(|p| s.error("path", format!("{shown}{p}")))?,
        };
        check(&graph).map_err(|p| s.error("path", format!("{shown}: {p}")))?;
        Ok(Arc::new(graph))
    }
}

/// Checks the numbers of nodes and cables, and that all nodes are connected.
fn check(graph: &Graph) -> std::result::Result<(), String> {
    for (what, found, most) in [
        ("hosts", graph.hosts.len(), MAX_HOSTS as usize),
        ("switches", graph.switches.len(), MOST_SWITCHES),
        (
            "cables",
            graph.cables.len(),
            MOST_CABLES + MAX_HOSTS as usize,
        ),
    ] {
        if found > most {
            return Err(format!("has {found} {what}, want at most {most}"));
        }
    }
    if graph.hosts.len() < 2 {
        let found = graph.hosts.len();
        return Err(format!("has {found} hosts, want two or more"));
    }
    match apart(graph) {
        None => Ok(()),
        Some(name) => {
            let first = &graph.hosts[0];
            Err(format!(
                "\"{name}\" is not connected with \"{first}\", want one connected network"
            ))
        }
    }
}

/// The name of a node that the first host cannot reach, if there is one.
fn apart(graph: &Graph) -> Option<&str> {
    let hosts = graph.hosts.len();
    let number = |end: End| match end {
        End::Host(n) => n,
        End::Switch(n) => hosts + n,
    };
    let mut neighbours = vec![Vec::new(); hosts + graph.switches.len()];
    for edge in &graph.cables {
        let (a, b) = (number(edge.ends.0), number(edge.ends.1));
        neighbours[a].push(b);
        neighbours[b].push(a);
    }
    let mut reached = vec![false; neighbours.len()];
    let mut next = vec![0];
    while let Some(node) = next.pop() {
        if !std::mem::replace(&mut reached[node], true) {
            next.extend(&neighbours[node]);
        }
    }
    let names = graph.hosts.iter().chain(&graph.switches);
    let (name, _) = names.zip(reached).find(|(_, reached)| !reached)?;
    Some(name)
}

/// Gives names to cables, each once: the second `a-b` is `a-b.2`.
#[derive(Debug, Default)]
struct Names(HashMap<String, u32>);

impl Names {
    fn unique(&mut self, name: &str) -> String {
        let count = self.0.entry(name.to_owned()).or_default();
        *count += 1;
        match *count {
            1 => name.to_owned(),
            n => format!("{name}.{n}"),
        }
    }
}

pub(super) fn register(catalog: &mut Catalog<dyn TopologyKind>) {
    let summary = "any graph from a TOML file or a GraphML file (Internet Topology Zoo)";
    catalog.add("file", summary, Arc::new(Kind));
}

#[cfg(test)]
mod tests;

//! [`Builder`]: builds a network from single nodes and cables.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::routes::{NONE, Routes};
use super::select;
use super::{Cable, CableId, HostId, Link, Network, Node, NodeId, NodeKind};
use crate::{LinkSpec, NetworkError};

/// Builds an arbitrary graph. Routes are all shortest paths by number of links.
#[derive(Clone, Debug)]
pub struct Builder {
    name: String,
    nodes: Vec<Node>,
    cables: Vec<Cable>,
    links: Vec<Link>,
    hosts: Vec<NodeId>,
    switches: Vec<NodeId>,
    divisors: Vec<u32>,
    /// The number of nodes in each tier.
    tiers: HashMap<u8, u32>,
}

impl Builder {
    /// An empty network with this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            nodes: Vec::new(),
            cables: Vec::new(),
            links: Vec::new(),
            hosts: Vec::new(),
            switches: Vec::new(),
            divisors: Vec::new(),
            tiers: HashMap::new(),
        }
    }

    fn node(&mut self, name: String, kind: NodeKind, tier: u8) -> NodeId {
        let id = NodeId(self.nodes.len() as u32);
        let position = self.tiers.entry(tier).or_default();
        self.nodes.push(Node {
            name,
            kind,
            tier,
            position: *position,
        });
        *position += 1;
        id
    }

    /// Adds a host in tier 0.
    pub fn host(&mut self, name: impl Into<String>) -> NodeId {
        let kind = NodeKind::Host(HostId(self.hosts.len() as u32));
        let id = self.node(name.into(), kind, 0);
        self.hosts.push(id);
        id
    }

    /// Adds a switch in a tier of the drawing.
    pub fn switch(&mut self, name: impl Into<String>, tier: u8) -> NodeId {
        let kind = NodeKind::Switch(self.switches.len() as u32);
        let id = self.node(name.into(), kind, tier);
        self.switches.push(id);
        self.divisors.push(1);
        id
    }

    /// Sets how a switch interprets explicit path numbers. Of `n` next hops it takes the one numbered
    /// `(path / divisor) mod n`, where next hops count from 0 in the order of their cables. The divisor of a
    /// new switch is 1, and 0 counts as 1. A call for a host has no effect.
    pub fn path_divisor(&mut self, switch: NodeId, divisor: u32) {
        if let NodeKind::Switch(number) = self.nodes[switch.0 as usize].kind {
            self.divisors[number as usize] = divisor.max(1);
        }
    }

    /// Joins two nodes by a cable with the name `name` in the group `group`. `up` describes the link from `a`
    /// to `b`, `down` the link from `b` to `a`. Within the group the cable is identified by the part of its
    /// name before ".group", or by its whole name: "H4.access" is "access:H4". A number may follow, for nodes with
    /// several cables of the group: "c0.access1" and "c0.access2" are both "access:c0".
    pub fn cable(
        &mut self,
        name: impl Into<String>,
        group: &str,
        (a, b): (NodeId, NodeId),
        up: LinkSpec,
        down: LinkSpec,
    ) -> CableId {
        let id = CableId(self.cables.len() as u32);
        let name = name.into();
        let member = name
            .trim_end_matches(|c: char| c.is_ascii_digit())
            .strip_suffix(group)
            .and_then(|rest| rest.strip_suffix('.'))
            .unwrap_or(&name)
            .to_owned();
        let group = group.to_owned();
        self.cables.push(Cable {
            name,
            group,
            member,
            a,
            b,
        });
        let link = |from, to, spec| Link { from, to, spec };
        self.links.push(link(a, b, up));
        self.links.push(link(b, a, down));
        id
    }

    /// Checks everything and computes the routes.
    ///
    /// # Errors
    /// An impossible link, a name that is used twice or cannot be used in patterns, a cable from a node to
    /// itself, or a host that cannot reach another host.
    ///
    /// # Panics
    /// If a cable was given a node that does not belong to this builder.
    pub fn build(self) -> Result<Network, NetworkError> {
        self.check_names()?;
        for (cable, pair) in self.cables.iter().zip(self.links.chunks(2)) {
            if cable.a == cable.b {
                let cable = cable.name.clone();
                return Err(NetworkError::Loop { cable });
            }
            pair[0].spec.check(&cable.name)?;
            pair[1].spec.check(&cable.name)?;
        }
        let (first_address, uplinks) = self.addresses();
        let routes = Routes::compute(&self.nodes, &self.links, &uplinks, &self.divisors);
        self.check_reach(&routes, &uplinks)?;
        Ok(Network {
            name: self.name,
            nodes: self.nodes,
            cables: self.cables,
            links: self.links,
            hosts: self.hosts,
            switches: self.switches,
            first_address,
            routes: Arc::new(routes),
        })
    }

    fn check_names(&self) -> Result<(), NetworkError> {
        let nodes = self.nodes.iter().map(|n| ("node", n.name.as_str()));
        let cables = self.cables.iter().map(|c| ("cable", c.name.as_str()));
        let mut seen = HashSet::with_capacity(self.nodes.len() + self.cables.len());
        for (what, name) in nodes.chain(cables) {
            if !select::is_name(name) {
                let name = name.to_owned();
                return Err(NetworkError::BadName { what, name });
            }
            if !seen.insert((what, name)) {
                let name = name.to_owned();
                return Err(NetworkError::DuplicateName { what, name });
            }
        }
        match self.cables.iter().find(|c| !select::is_name(&c.group)) {
            Some(cable) => Err(NetworkError::BadName {
                what: "group",
                name: cable.group.clone(),
            }),
            None => Ok(()),
        }
    }

    /// The first address of each host, with the number of addresses at the end, and for each address the link
    /// out of its host.
    fn addresses(&self) -> (Vec<u32>, Vec<u32>) {
        let mut of_host = vec![Vec::new(); self.hosts.len()];
        for (index, link) in self.links.iter().enumerate() {
            if let NodeKind::Host(host) = self.nodes[link.from.0 as usize].kind {
                of_host[host.0 as usize].push(index as u32);
            }
        }
        let mut first = vec![0];
        let mut uplinks = Vec::new();
        for links in of_host {
            uplinks.extend(links);
            first.push(uplinks.len() as u32);
        }
        (first, uplinks)
    }

    /// Checks that every host has a cable, and that every cable of a host leads to another address.
    fn check_reach(&self, routes: &Routes, uplinks: &[u32]) -> Result<(), NetworkError> {
        let mut at_switch = vec![0u32; self.switches.len()];
        let mut plugged = vec![false; self.hosts.len()];
        for destination in &routes.destinations {
            plugged[destination.host as usize] = true;
            if destination.switch != NONE {
                at_switch[destination.switch as usize] += 1;
            }
        }
        for (destination, &uplink) in routes.destinations.iter().zip(uplinks) {
            // A cable that does not end at a switch ends at another host.
            plugged[destination.host as usize] &= match routes.switch_at_end(uplink) {
                Some(switch) => at_switch[switch as usize] > 1 || routes.leaves(switch),
                None => true,
            };
        }
        match plugged.iter().position(|&p| !p) {
            Some(host) => Err(NetworkError::Isolated {
                host: self.nodes[self.hosts[host].0 as usize].name.clone(),
            }),
            None => Ok(()),
        }
    }
}

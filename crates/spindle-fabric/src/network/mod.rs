//! [`Network`]: hosts and switches joined by cables, with names, positions and routes.

mod builder;
mod routes;
mod select;

use std::sync::Arc;

use crate::{LinkSpec, Loss, NetworkError};

pub use builder::Builder;
pub(crate) use routes::{Destination, NONE, NextHop, Routes};

/// A host, numbered from 0 in the order of creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub u32);

/// A host's interface, at which one of its cables is plugged in. Addresses count from 0 over the whole network,
/// host by host. If every host has one cable, a host and its address have the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(pub u32);

/// A host or a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// A pair of directed links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CableId(pub u32);

/// A directed link. Cable `c` has the links `2 c` (up) and `2 c + 1` (down).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u32);

impl LinkId {
    /// The cable to which the link belongs.
    pub const fn cable(self) -> CableId {
        CableId(self.0 / 2)
    }

    /// Whether the link is the up link or the down link of its cable.
    pub const fn direction(self) -> Direction {
        if self.0.is_multiple_of(2) {
            Direction::Up
        } else {
            Direction::Down
        }
    }
}

impl CableId {
    /// The cable's link in one direction.
    pub const fn link(self, direction: Direction) -> LinkId {
        LinkId(self.0 * 2 + direction as u32)
    }
}

/// One of the two directions of a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the cable's first end to its second end. In layered topologies this is away from hosts. Names of
    /// such links end in ".up".
    Up = 0,
    /// From the second end to the first. Names of such links end in ".down".
    Down = 1,
}

/// Whether a node is a host or a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeKind {
    /// Sends and receives packets, but does not forward them.
    Host(HostId),
    /// Forwards packets. Switches are numbered from 0 in the order of creation.
    Switch(u32),
}

/// A host or a switch, and its position in a drawing of the network.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The node's name, unique in the network.
    pub name: String,
    /// Whether it is a host or a switch.
    pub kind: NodeKind,
    /// The row in a drawing: 0 for hosts, increasing with the layers.
    pub tier: u8,
    /// The column in a drawing: the node's position within its tier, from 0.
    pub position: u32,
}

/// Two directed links between the same two nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Cable {
    /// The cable's name, unique in the network.
    pub name: String,
    /// The group of the cable, such as "access". Link patterns may contain it.
    pub group: String,
    /// The name within the group, such as "H4" for "H4.access". Link patterns may contain a range of such
    /// names.
    pub member: String,
    /// First end.
    pub a: NodeId,
    /// Second end.
    pub b: NodeId,
}

/// A directed link with its ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// The node where the link starts; its queue is here.
    pub from: NodeId,
    /// The node where the link ends.
    pub to: NodeId,
    /// The link's parameters.
    pub spec: LinkSpec,
}

/// The description of a network, which a [`Simulation`](crate::Simulation) runs and a report draws.
#[derive(Clone, Debug)]
pub struct Network {
    name: String,
    nodes: Vec<Node>,
    cables: Vec<Cable>,
    links: Vec<Link>,
    /// The nodes of the hosts, by [`HostId`].
    hosts: Vec<NodeId>,
    /// The nodes of the switches, by number.
    switches: Vec<NodeId>,
    /// The first address of each host, and the number of addresses at the end.
    first_address: Vec<u32>,
    routes: Arc<Routes>,
}

impl Network {
    /// The topology's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All hosts and switches, by [`NodeId`].
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// All cables, by [`CableId`].
    pub fn cables(&self) -> &[Cable] {
        &self.cables
    }

    /// All directed links, by [`LinkId`].
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// The same network with ports that drop packets that they cannot mark ([`LinkSpec::drop_unmarkable`]).
    #[must_use]
    pub fn dropping_unmarkable(mut self) -> Self {
        for link in &mut self.links {
            link.spec.drop_unmarkable = true;
        }
        self
    }

    /// The number of hosts.
    pub fn hosts(&self) -> u32 {
        self.hosts.len() as u32
    }

    /// The nodes of the switches, by switch number.
    pub fn switches(&self) -> &[NodeId] {
        &self.switches
    }

    /// The number of addresses.
    pub fn addresses(&self) -> u32 {
        self.routes.destinations.len() as u32
    }

    /// The node with this id.
    ///
    /// # Panics
    /// If `id` does not belong to this network. This applies to all methods here that take an id.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    /// The cable with this id.
    pub fn cable(&self, id: CableId) -> &Cable {
        &self.cables[id.0 as usize]
    }

    /// The link with this id.
    pub fn link(&self, id: LinkId) -> &Link {
        &self.links[id.0 as usize]
    }

    /// A link's name: the cable's name followed by ".up" or ".down".
    pub fn link_name(&self, id: LinkId) -> String {
        let suffix = match id.direction() {
            Direction::Up => select::UP,
            Direction::Down => select::DOWN,
        };
        format!("{}{suffix}", self.cable(id.cable()).name)
    }

    /// The node of a host.
    pub fn host_node(&self, host: HostId) -> NodeId {
        self.hosts[host.0 as usize]
    }

    /// The host with this name.
    pub fn host_named(&self, name: &str) -> Option<HostId> {
        self.nodes.iter().find_map(|node| match node.kind {
            NodeKind::Host(host) if node.name == name => Some(host),
            _ => None,
        })
    }

    /// The address of a host's interface. Interfaces count from 0 in the order of their cables.
    pub fn address(&self, host: HostId, interface: u32) -> Option<Address> {
        let range = self.range_of(host);
        let address = range.start.checked_add(interface)?;
        range.contains(&address).then_some(Address(address))
    }

    /// All addresses of a host.
    pub fn addresses_of(&self, host: HostId) -> impl Iterator<Item = Address> + use<> {
        self.range_of(host).map(Address)
    }

    fn range_of(&self, host: HostId) -> std::ops::Range<u32> {
        let host = host.0 as usize;
        self.first_address[host]..self.first_address[host + 1]
    }

    /// The host to which an address belongs.
    pub fn host_of(&self, address: Address) -> HostId {
        HostId(self.routes.destinations[address.0 as usize].host)
    }

    /// The link on which packets leave an address.
    pub fn uplink(&self, address: Address) -> LinkId {
        LinkId(self.routes.destinations[address.0 as usize].uplink)
    }

    /// The link on which packets reach an address.
    pub fn downlink(&self, address: Address) -> LinkId {
        LinkId(self.routes.destinations[address.0 as usize].downlink)
    }

    /// The links from one address to another along an explicit path. The result is empty if there is no path.
    /// [`Simulation::inject_on_path`](crate::Simulation::inject_on_path) describes path numbers.
    pub fn route_on_path(&self, from: Address, to: Address, path: u32) -> Vec<LinkId> {
        let choose = |switch, choices| self.routes.explicit(switch, path, choices);
        self.routes.walk(from, to, choose)
    }

    /// The number of shortest paths from one address to another.
    pub fn path_count(&self, from: Address, to: Address) -> u64 {
        self.routes.count(from, to)
    }

    /// The links that match `pattern`, in ascending order. A pattern is a list, separated by commas, of
    ///
    /// * a cable's name, `P1` or `pod0.agg1-core3`, with `*` and `?` as wildcards: `pod0.agg*`;
    /// * a group's name, `access`, for all its cables;
    /// * a group and members, `access:H4`, `access:H*`, or `access:H4-H6` for a numbered range.
    ///
    /// Each item stands for both directions, or for one if `.up` or `.down` follows it.
    ///
    /// # Errors
    /// [`NetworkError::NoLink`] if an item matches no link, with the name that was probably meant.
    pub fn links_matching(&self, pattern: &str) -> Result<Vec<LinkId>, NetworkError> {
        select::links(&self.cables, pattern)
    }

    /// Changes some links and checks the result.
    ///
    /// # Errors
    /// [`NetworkError::Parameter`] if a link becomes impossible. Links changed before it stay changed.
    pub fn configure(
        &mut self,
        links: &[LinkId],
        mut change: impl FnMut(&mut LinkSpec),
    ) -> Result<(), NetworkError> {
        for id in links {
            let spec = &mut self.links[id.0 as usize].spec;
            let mut changed = spec.clone();
            change(&mut changed);
            changed.check(&self.cables[id.cable().0 as usize].name)?;
            *spec = changed;
        }
        Ok(())
    }

    /// Sets the loss process of some links.
    pub fn set_loss(&mut self, links: &[LinkId], loss: &Loss) {
        for id in links {
            self.links[id.0 as usize].spec.loss = loss.clone();
        }
    }

    pub(crate) fn routes(&self) -> &Arc<Routes> {
        &self.routes
    }
}

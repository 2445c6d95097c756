//! The paths of a recorded flow's subflows, by the names of their links.

use spindle_experiment::hosts::place_of;
use spindle_fabric::{Address, HostId, LinkId, Network, Simulation};
use spindle_wire::Endpoint;

use super::cable_name;
use super::packet::BoxedPacket;

/// The packets of a subflow in the direction of the data.
pub(crate) struct Sent {
    pub(crate) from: Endpoint,
    pub(crate) to: Endpoint,
    /// The hash by which switches choose a link. `None` if the packets have different hashes.
    pub(crate) hash: Option<u64>,
}

/// The links on which ECMP sends packets with this hash from one endpoint to another. Empty if there is no path.
pub(crate) fn route(
    simulation: &Simulation<BoxedPacket>,
    from: Endpoint,
    to: Endpoint,
    hash: u64,
) -> Vec<LinkId> {
    let network = simulation.network();
    match (place(network, from), place(network, to)) {
        (Some(a), Some(b)) => simulation.ecmp_route(a, b, hash),
        _ => Vec::new(),
    }
}

/// The path of each subflow: the cables that not all subflows share. If switches choose a link for each packet
/// (`per_packet`), or the packets have different hashes, a path has a name only if there is one path. Otherwise its name
/// is the pair of endpoints.
pub(crate) fn names(
    simulation: &Simulation<BoxedPacket>,
    subflows: &[Sent],
    per_packet: bool,
) -> Vec<String> {
    let cables = |s: &Sent| -> Vec<String> {
        let hash = match s.hash.filter(|_| !per_packet) {
            None if has_one_path(simulation.network(), s) => Some(0),
            hash => hash,
        };
        let links = hash.map(|hash| route(simulation, s.from, s.to, hash));
        let name = |link: LinkId| cable_name(&simulation.network().link_name(link)).to_owned();
        links.into_iter().flatten().map(name).collect()
    };
    let routes: Vec<Vec<String>> = subflows.iter().map(cables).collect();
    let own = subflows.iter().zip(&routes).map(|(s, route)| {
        let is_shared = |cable: &String| routes.iter().all(|r| r.contains(cable));
        let own: Vec<&str> = route
            .iter()
            .filter(|c| !is_shared(c))
            .map(String::as_str)
            .collect();
        let inner = route.get(1..route.len().saturating_sub(1));
        match (own.is_empty(), inner) {
            (false, _) => own.join(", "),
            (true, Some(inner)) if !inner.is_empty() => inner.join(", "),
            (true, _) => format!("{} to {}", s.from, s.to),
        }
    });
    own.collect()
}

fn has_one_path(network: &Network, s: &Sent) -> bool {
    let places = place(network, s.from).zip(place(network, s.to));
    places.is_some_and(|(a, b)| network.path_count(a, b) == 1)
}

fn place(network: &Network, end: Endpoint) -> Option<Address> {
    let (host, interface) = place_of(end.addr)?;
    network.address(HostId(host), interface)
}

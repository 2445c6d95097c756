//! The paths of a recorded flow's subflows, by the names of their links.

use spindle_experiment::hosts::place_of;
use spindle_fabric::{HostId, LinkId, Network, Simulation};
use spindle_wire::{Endpoint, Segment};

use super::cable_name;
use super::packet::BoxedPacket;

/// The links on which ECMP sends from one endpoint to another. Empty if there is no path.
pub(crate) fn route(
    simulation: &Simulation<BoxedPacket>,
    from: Endpoint,
    to: Endpoint,
) -> Vec<LinkId> {
    let network = simulation.network();
    let place = |end: &Endpoint| {
        let (host, interface) = place_of(end.addr)?;
        network.address(HostId(host), interface)
    };
    match (place(&from), place(&to)) {
        (Some(a), Some(b)) => simulation.ecmp_route(a, b, Segment::new(from, to).flow_hash()),
        _ => Vec::new(),
    }
}

/// The path of each subflow, given as sender and receiver: the cables that not all subflows share. If each switch
/// chooses a link for each packet (`per_packet`), a path has a name only if there is one path; otherwise its name is the
/// pair of endpoints.
pub(crate) fn names(
    simulation: &Simulation<BoxedPacket>,
    subflows: &[(Endpoint, Endpoint)],
    per_packet: bool,
) -> Vec<String> {
    let cables = |(from, to): &(Endpoint, Endpoint)| -> Vec<String> {
        let route = match per_packet && !has_one_path(simulation.network(), from, to) {
            true => Vec::new(),
            false => route(simulation, *from, *to),
        };
        let name = |link: &LinkId| cable_name(&simulation.network().link_name(*link)).to_owned();
        route.iter().map(name).collect()
    };
    let routes: Vec<Vec<String>> = subflows.iter().map(cables).collect();
    let pairs = subflows.iter().map(|(from, to)| format!("{from} to {to}"));
    let own = pairs.zip(&routes).map(|(pair, route)| {
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
            (true, _) => pair,
        }
    });
    own.collect()
}

fn has_one_path(network: &Network, from: &Endpoint, to: &Endpoint) -> bool {
    let place = |end: &Endpoint| {
        let (host, interface) = place_of(end.addr)?;
        network.address(HostId(host), interface)
    };
    let places = place(from).zip(place(to));
    places.is_some_and(|(a, b)| network.path_count(a, b) == 1)
}

//! Builds a network from a scenario's topology and losses.

use std::collections::BTreeSet;

use spindle_fabric::topology::{DualHomed, Dumbbell, FatTree, FusoTestbed, LeafSpine, Mesh};
use spindle_fabric::{
    Buffer as PortBuffer, CableId, LinkId, Loss as LinkLoss, Network, NetworkError, NodeId,
};
use spindle_units::{Bytes, Instant, Probability};

use super::RunError;
use crate::experiment::scenario::{
    Buffer, Direction, Hotspots, LinkSettings, Loss, LossModel, Observe, Scenario, Topology,
    Traffic,
};
use crate::metrics::LossyCable;
use crate::registry::{Registry, TopologyRequest};
use crate::rng::{Purpose, Streams};

/// Queue size of a host's own port, in packets. A host does not drop what it sends itself (the reference flows'
/// value).
const HOST_BUFFER: PortBuffer = PortBuffer::Packets(1000);

/// Builds a topology. A custom topology is built by the registry.
///
/// # Errors
/// An impossible dimension.
pub(crate) fn build(topology: &Topology, registry: &Registry) -> Result<Network, NetworkError> {
    match (build_standard(topology), topology) {
        (Some(network), _) => network,
        (
            None,
            Topology::Custom {
                parameters, links, ..
            },
        ) => {
            let request = TopologyRequest {
                parameters: parameters.clone(),
                links: *links,
            };
            match registry.find_topology(topology) {
                Some(make) => make(&request),
                None => Err(NetworkError::BadName {
                    what: "topology",
                    name: topology.name().to_owned(),
                }),
            }
        }
        (None, _) => unreachable!("build_standard knows all others"),
    }
}

/// Builds a topology that is part of Spindle. `None` for a custom topology.
pub(crate) fn build_standard(topology: &Topology) -> Option<Result<Network, NetworkError>> {
    Some(match topology {
        Topology::FusoTestbed(links) => FusoTestbed {
            rate: links.rate,
            round_trip: links.rtt,
            switch_buffer: port(links),
            mark_above: links.ecn_threshold.map(Bytes),
            host_buffer: host_port(links),
            host_mark_above: links.host_ecn_threshold.map(Bytes),
            priorities: links.priorities,
            ..FusoTestbed::default()
        }
        .build(),
        // A path from site to site has five links, ten for the round trip.
        Topology::CoFusoSim(links) => Mesh {
            rate: links.rate,
            delay: links.rtt / 10,
            switch_buffer: port(links),
            mark_above: links.ecn_threshold.map(Bytes),
            host_buffer: host_port(links),
            priorities: links.priorities,
            ..Mesh::default()
        }
        .build(),
        Topology::Dumbbell {
            pairs,
            links,
            core_rate,
        } => Dumbbell {
            pairs: *pairs,
            access_rate: links.rate,
            bottleneck_rate: *core_rate,
            access_delay: links.rtt / 6,
            bottleneck_delay: links.rtt / 6,
            switch_buffer: port(links),
            mark_above: links.ecn_threshold.map(Bytes),
            host_buffer: host_port(links),
            priorities: links.priorities,
        }
        .build(),
        // The longest path in a fat tree has six links, twelve for the round trip.
        Topology::FatTree {
            k,
            hosts_per_edge,
            fabric_rate,
            links,
            ..
        } => FatTree {
            hosts_per_edge: *hosts_per_edge,
            host_rate: links.rate,
            fabric_rate: *fabric_rate,
            delay: links.rtt / 12,
            switch_buffer: port(links),
            mark_above: links.ecn_threshold.map(Bytes),
            host_buffer: host_port(links),
            host_mark_above: links.host_ecn_threshold.map(Bytes),
            priorities: links.priorities,
            ..FatTree::reference(*k)
        }
        .build(),
        // A path from leaf to leaf has four links, eight for the round trip.
        Topology::LeafSpine {
            leaves,
            spines,
            hosts_per_leaf,
            fabric_rate,
            links,
        } => LeafSpine {
            leaves: *leaves,
            spines: *spines,
            hosts_per_leaf: *hosts_per_leaf,
            host_rate: links.rate,
            fabric_rate: *fabric_rate,
            delay: links.rtt / 8,
            switch_buffer: port(links),
            mark_above: links.ecn_threshold.map(Bytes),
            host_buffer: host_port(links),
            priorities: links.priorities,
        }
        .build(),
        Topology::DualHomed {
            paths,
            links,
            server_rate,
        } => DualHomed {
            client_links: vec![(links.rate, links.rtt / 4); *paths as usize],
            server_rate: *server_rate,
            server_delay: links.rtt / 4,
            router_buffer: port(links),
            mark_above: links.ecn_threshold.map(Bytes),
            host_buffer: host_port(links),
        }
        .build(),
        Topology::Custom { .. } => return None,
    })
}

fn host_port(links: &LinkSettings) -> PortBuffer {
    links.host_buffer.map_or(HOST_BUFFER, room_of)
}

fn port(links: &LinkSettings) -> PortBuffer {
    room_of(links.buffer)
}

fn room_of(buffer: Buffer) -> PortBuffer {
    match buffer {
        Buffer::Bytes(n) => PortBuffer::Bytes(Bytes(n)),
        Buffer::Packets(n) => PortBuffer::Packets(n),
    }
}

/// The links that a name in `[loss] on` stands for: a host's cable, `all`, or a pattern of the fabric ("P1",
/// "access:H4-H6").
///
/// # Errors
/// If the name matches no link.
pub(crate) fn links(
    network: &Network,
    name: &str,
    direction: Direction,
) -> Result<Vec<LinkId>, NetworkError> {
    let pattern = match name {
        "all" => "*".to_owned(),
        host if network.host_named(host).is_some() => format!("{host}.access"),
        other => other.to_owned(),
    };
    let mut links = network.links_matching(&pattern)?;
    links.retain(|link| match direction {
        Direction::Both => true,
        Direction::Forward => link.direction() == spindle_fabric::Direction::Up,
        Direction::Backward => link.direction() == spindle_fabric::Direction::Down,
    });
    Ok(links)
}

/// The cables that the names in `[loss] on` stand for, each once, in ascending order.
///
/// # Errors
/// If a name matches no link.
pub(crate) fn candidates(network: &Network, on: &[String]) -> Result<Vec<CableId>, NetworkError> {
    let mut cables = Vec::new();
    for name in on {
        let links = links(network, name, Direction::Both)?;
        cables.extend(links.iter().map(|l| l.cable()));
    }
    cables.sort_unstable();
    cables.dedup();
    Ok(cables)
}

/// Links that lose packets from the start of the measurement on, and the cables that were drawn.
#[derive(Debug, Default)]
pub(crate) struct Drawn {
    pub(crate) links: Vec<(LinkId, LinkLoss)>,
    pub(crate) cables: Vec<LossyCable>,
}

/// Draws the run's lossy links.
///
/// # Errors
/// If a loss matches no link.
pub(crate) fn draw_lossy_links(
    network: &Network,
    losses: &[Loss],
    streams: &Streams,
) -> Result<Drawn, NetworkError> {
    let mut drawn = Drawn::default();
    for (index, loss) in losses.iter().enumerate() {
        let LossModel::LossyLinks(lossy) = &loss.model else {
            continue;
        };
        let cables = candidates(network, &loss.on)?;
        let groups: Vec<&str> = cables
            .iter()
            .map(|c| network.cable(*c).group.as_str())
            .collect();
        let mut rng = streams.stream(Purpose::LossyLinks, index as u64);
        for link in lossy.draw(&groups, &mut rng) {
            let cable = network.cable(cables[link.cable]);
            let process = process(&LossModel::Bernoulli(link.rate))?;
            let process = match loss.data_only {
                true => process.data_only(),
                false => process,
            };
            for id in links(network, &cable.name, loss.direction)? {
                drawn.links.push((id, process.clone()));
            }
            drawn.cables.push(LossyCable {
                cable: cable.name.clone(),
                group: cable.group.clone(),
                rate: link.rate,
            });
        }
    }
    Ok(drawn)
}

/// Largest number of prefixes of switch names that an error message lists.
const LISTED: usize = 12;

/// The switches whose names begin with `among`.
///
/// # Errors
/// If there are none. The error states what was found, and the prefixes of switch names here. A prefix ends
/// before the first digit.
pub(crate) fn switches_among(network: &Network, among: &str) -> Result<Vec<NodeId>, String> {
    let switches = network.switches();
    let name = |n: &NodeId| network.node(*n).name.as_str();
    let named = |n: &&NodeId| name(n).starts_with(among);
    let found: Vec<NodeId> = switches.iter().filter(named).copied().collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let beginning = |n: &NodeId| {
        let whole = name(n);
        match whole.find(|c: char| c.is_ascii_digit()) {
            None | Some(0) => whole.to_owned(),
            Some(end) => whole[..end].to_owned(),
        }
    };
    let known: BTreeSet<String> = switches.iter().map(beginning).collect();
    let listed: Vec<&str> = known.iter().take(LISTED).map(String::as_str).collect();
    let listed = match known.len() {
        0 => return Err("the topology has no switch, want no hotspots".to_owned()),
        1..=LISTED => listed.join(", "),
        n => format!("{} and {} more", listed.join(", "), n - LISTED),
    };
    let problem = format!("no switch's name begins with \"{among}\": they begin with {listed}");
    Err(problem)
}

/// Draws switches for the run and shortens the queues of their own ports and of the ports that lead to them.
///
/// # Errors
/// If no such switches exist.
pub(crate) fn draw_hotspots(
    network: &mut Network,
    hotspots: &Hotspots,
    streams: &Streams,
) -> Result<(), RunError> {
    let mut among = switches_among(network, &hotspots.among)
        .map_err(|problem| RunError::Scenario(format!("hotspots.among: {problem}")))?;
    let mut rng = streams.stream(Purpose::Hotspots, 0);
    let count = (hotspots.share * among.len() as f64).round() as usize;
    for k in 0..count.min(among.len()) {
        let drawn = k + rng.below((among.len() - k) as u64) as usize;
        among.swap(k, drawn);
    }
    let hot = &among[..count.min(among.len())];
    let links: Vec<LinkId> = (0..network.links().len() as u32)
        .map(LinkId)
        .filter(|l| {
            let link = network.link(*l);
            hot.contains(&link.from) || hot.contains(&link.to)
        })
        .collect();
    let room = room_of(hotspots.buffer);
    network.configure(&links, |spec| spec.buffer = room)?;
    Ok(())
}

/// Refuses settings that only the lab supports.
///
/// # Errors
/// Lossy links drawn for each run, lost packets of responses, sizes in packets, transfers, traffic that is none
/// or a formula, a background, distinct long paths, and observed items of a mix.
pub(crate) fn check_for_real_time(scenario: &Scenario) -> Result<(), NetworkError> {
    let wrong = |parameter, found: &str, remedy| NetworkError::Parameter {
        what: "the testbed".to_owned(),
        parameter,
        found: found.to_owned(),
        remedy,
    };
    let drawn = |l: &Loss| matches!(l.model, LossModel::LossyLinks(_));
    if scenario.loss.iter().any(drawn) {
        let remedy = "only the lab draws links; give their loss as bernoulli or gilbert";
        return Err(wrong("loss model", "lossy-links", remedy));
    }
    let scripted = |l: &Loss| matches!(l.model, LossModel::Response(_));
    if scenario.loss.iter().any(scripted) {
        let remedy = "only the lab knows which packet that is; use numbered";
        return Err(wrong("loss model", "response", remedy));
    }
    match &scenario.traffic {
        Traffic::Requests(r) if r.sizes.packets().is_some() => {
            let remedy = "only the lab knows what a full packet is; give bytes";
            Err(wrong("sizes", "in packets", remedy))
        }
        Traffic::Requests(r) if r.background.is_some() => {
            let remedy = "only the lab has it; limit the sizes by `below`";
            Err(wrong("traffic", "with a background", remedy))
        }
        Traffic::None => Err(wrong("traffic", "none", "want requests, incast or mix")),
        Traffic::Formula(_) => Err(wrong("traffic", "formula", "want requests, incast or mix")),
        Traffic::Transfers(_) => Err(wrong(
            "traffic",
            "transfers",
            "only the lab has them; want requests, incast or mix",
        )),
        Traffic::Mix(m) if m.background.is_some() => {
            let remedy = "only the lab has two transports at a time; leave `background` out";
            Err(wrong("traffic", "with a background transport", remedy))
        }
        Traffic::Mix(m) if m.long.as_ref().is_some_and(|l| l.distinct) => {
            let remedy = "only the lab knows the ports' paths beforehand; want hashed";
            Err(wrong("long_paths", "distinct", remedy))
        }
        Traffic::Mix(m) if m.observe != Observe::default() => {
            let remedy = "only the lab sees into its hosts; leave `observe` out";
            Err(wrong("observe", "something", remedy))
        }
        Traffic::Requests(_) | Traffic::Incast(_) | Traffic::Mix(_) => Ok(()),
    }
}

/// Applies the scenario's losses to the network's links, except losses that are drawn for each run.
///
/// # Errors
/// If a loss matches no link or is impossible.
pub(crate) fn apply_losses(network: &mut Network, losses: &[Loss]) -> Result<(), NetworkError> {
    for loss in losses {
        if matches!(
            loss.model,
            LossModel::LossyLinks(_) | LossModel::Response(_)
        ) {
            continue;
        }
        for name in &loss.on {
            let links = links(network, name, loss.direction)?;
            if let LossModel::BlackHole { from, until } = loss.model {
                let at = |d: spindle_units::Duration| Instant::ZERO + d;
                let script = vec![(at(from), false), (at(until), true)];
                network.configure(&links, |spec| spec.up_down.clone_from(&script))?;
                continue;
            }
            let process = process(&loss.model)?;
            let process = if loss.data_only {
                process.data_only()
            } else {
                process
            };
            network.set_loss(&links, &process);
        }
    }
    Ok(())
}

fn process(model: &LossModel) -> Result<LinkLoss, NetworkError> {
    // Shares were checked when they were read.
    let share = |p: f64| Probability::new(p).unwrap_or(Probability::ZERO);
    match model {
        LossModel::Bernoulli(p) => Ok(LinkLoss::bernoulli(share(*p))),
        LossModel::Gilbert { rate, burst } => LinkLoss::gilbert_elliott(share(*rate), *burst),
        LossModel::Numbered(numbers) => LinkLoss::nth(numbers.iter().copied()),
        LossModel::BlackHole { .. } => Ok(LinkLoss::black_hole()),
        // These are drawn for each run and belong to no link.
        LossModel::LossyLinks(_) | LossModel::Response(_) => Ok(LinkLoss::none()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{LossRates, LossyLinks};

    /// CoFUSO section 6.2: 4 random links between the routers lose data on the path to H1-H10.
    #[test]
    fn lossy_links_of_the_mesh_lose_data_in_one_direction() {
        let network = spindle_fabric::topology::Mesh::default().build().unwrap();
        let loss = Loss {
            model: LossModel::LossyLinks(LossyLinks {
                links: 4,
                rates: LossRates::Same(0.15),
                locations: Vec::new(),
            }),
            on: vec!["mesh".to_owned()],
            direction: Direction::Backward,
            data_only: true,
        };
        let draw = |seed| {
            let streams = Streams::new(seed, 0);
            draw_lossy_links(&network, std::slice::from_ref(&loss), &streams).unwrap()
        };
        let drawn = draw(1);
        assert_eq!((drawn.cables.len(), drawn.links.len()), (4, 4));
        assert!(drawn.cables.iter().all(|c| c.group == "mesh"));
        // From R6-R9, the second end of each cable, to R2-R5.
        let names = drawn.links.iter().map(|(l, _)| network.link_name(*l));
        assert!(names.clone().all(|n| n.ends_with(".down")));
        assert!(
            drawn.links.iter().all(
                |(_, p)| *p == LinkLoss::bernoulli(Probability::new(0.15).unwrap()).data_only()
            )
        );
        let other = draw(2);
        let others = other.links.iter().map(|(l, _)| network.link_name(*l));
        assert!(!names.eq(others), "the same links for both seeds");
    }

    #[test]
    fn error_for_hotspots_without_switches_lists_name_prefixes() {
        let told = |network: &Network, among: &str| {
            let hotspots = Hotspots {
                share: 0.5,
                among: among.to_owned(),
                buffer: Buffer::Packets(5),
            };
            let drawn = draw_hotspots(&mut network.clone(), &hotspots, &Streams::new(1, 0));
            drawn.map_err(|e| e.to_string())
        };
        let tree = FatTree::reference(4).build().unwrap();
        assert_eq!(told(&tree, "core"), Ok(()));
        assert_eq!(told(&tree, "pod1.agg"), Ok(()));
        assert_eq!(
            told(&tree, "spine").unwrap_err(),
            "hotspots.among: no switch's name begins with \"spine\": they begin with core, pod"
        );
        let dumbbell = Dumbbell::default().build().unwrap();
        assert_eq!(
            told(&dumbbell, "core").unwrap_err(),
            "hotspots.among: no switch's name begins with \"core\": they begin with left, right"
        );
    }
}

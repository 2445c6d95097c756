//! Builds a network from a scenario's topology and losses.

use std::collections::BTreeSet;

use spindle_fabric::{CableId, LinkId, Loss as LinkLoss, Network, NetworkError, NodeId};
use spindle_units::{Instant, Probability};

use crate::scenario::{Direction, Loss, LossModel, Observe, Scenario, Traffic};

/// The network of a scenario with the scenario's losses, for the testbed, which runs in real time.
///
/// # Errors
/// An impossible dimension, a loss on a link that does not exist, or a setting that only the lab supports.
pub fn network_in_real_time(scenario: &Scenario) -> Result<Network, NetworkError> {
    check_for_real_time(scenario)?;
    network(scenario)
}

/// The network of a scenario with the scenario's losses, except losses that are drawn for each run.
///
/// # Errors
/// An impossible dimension, or a loss on a link that does not exist.
pub fn network(scenario: &Scenario) -> Result<Network, NetworkError> {
    let mut network = scenario.topology.build()?;
    apply_losses(&mut network, &scenario.loss)?;
    Ok(network)
}

/// The links that a name in `[loss] on` stands for: a host's cable, `all`, or a pattern of the fabric ("P1",
/// "access:H4-H6").
///
/// # Errors
/// If the name matches no link.
pub fn links(
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
pub fn candidates(network: &Network, on: &[String]) -> Result<Vec<CableId>, NetworkError> {
    let mut cables = Vec::new();
    for name in on {
        let links = links(network, name, Direction::Both)?;
        cables.extend(links.iter().map(|l| l.cable()));
    }
    cables.sort_unstable();
    cables.dedup();
    Ok(cables)
}

/// Largest number of prefixes of switch names that an error message lists.
const LISTED: usize = 12;

/// The switches whose names begin with `among`.
///
/// # Errors
/// If there are none. The error states what was found, and the prefixes of switch names here. A prefix ends
/// before the first digit.
pub fn switches_among(network: &Network, among: &str) -> Result<Vec<NodeId>, String> {
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

/// Refuses settings that only the lab supports.
///
/// # Errors
/// Lossy links drawn for each run, lost packets of responses, sizes in packets, transfers, traffic that is none
/// or a formula, a background, distinct long paths, and observed items of a mix.
pub fn check_for_real_time(scenario: &Scenario) -> Result<(), NetworkError> {
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
pub fn apply_losses(network: &mut Network, losses: &[Loss]) -> Result<(), NetworkError> {
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

/// The loss process of a link.
///
/// # Errors
/// If the burst length is impossible.
pub fn process(model: &LossModel) -> Result<LinkLoss, NetworkError> {
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

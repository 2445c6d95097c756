//! Builds a network from a scenario's topology and losses.

use std::collections::BTreeSet;

use spindle_fabric::{Network, NetworkError, NodeId};

use crate::link_properties;
pub use crate::loss_models::{candidates, links};
use crate::scenario::{Loss, Scenario};

/// The network of a scenario with the scenario's losses, for the testbed, which runs in real time.
///
/// # Errors
/// An impossible dimension, a loss on a link that does not exist, or a setting that only the lab supports.
pub fn network_in_real_time(scenario: &Scenario) -> Result<Network, NetworkError> {
    check_for_real_time(scenario)?;
    network(scenario)
}

/// The network of a scenario with the scenario's losses, queue disciplines and traces, except losses that are
/// drawn for each run.
///
/// # Errors
/// An impossible dimension, or a property, loss, queue discipline or trace on a link that does not exist.
pub fn network(scenario: &Scenario) -> Result<Network, NetworkError> {
    let mut network = scenario.topology.build()?;
    link_properties::apply(&mut network, &scenario.links)?;
    apply_losses(&mut network, &scenario.loss)?;
    for queue in &scenario.queues {
        queue.apply(&mut network)?;
    }
    for traced in &scenario.link_traces {
        traced.apply(&mut network)?;
    }
    Ok(network)
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
/// or a formula, a background, bystanders, distinct long paths, and observed items of a mix.
pub fn check_for_real_time(scenario: &Scenario) -> Result<(), NetworkError> {
    let wrong = |parameter, found: &str, remedy| NetworkError::Parameter {
        what: "the testbed".to_owned(),
        parameter,
        found: found.to_owned(),
        remedy,
    };
    if let Some((name, remedy)) = scenario.loss.iter().find_map(|l| l.model.only_in_lab()) {
        return Err(wrong("loss model", name, remedy));
    }
    if let Some(bystanders) = &scenario.bystanders {
        let remedy = "only the lab has two transports at a time; leave the table out";
        return Err(wrong("bystanders", &bystanders.to_string(), remedy));
    }
    match scenario.traffic.only_in_lab() {
        Some(o) => Err(wrong(o.parameter, o.found, o.remedy)),
        None => Ok(()),
    }
}

/// Applies the scenario's losses to the network's links, except losses that are drawn for each run.
///
/// # Errors
/// If a loss matches no link or is impossible.
pub fn apply_losses(network: &mut Network, losses: &[Loss]) -> Result<(), NetworkError> {
    for loss in losses {
        for name in &loss.on {
            let links = links(network, name, loss.direction)?;
            loss.model.apply(network, &links, loss.data_only)?;
        }
    }
    Ok(())
}

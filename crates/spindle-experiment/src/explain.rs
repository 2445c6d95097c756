//! Describes the names in a registry as text.

use std::fmt::Write as _;

use spindle_mptcp::{Config, EcnMode};

use crate::catalog::Catalog;
use crate::file::Experiment;
use crate::hosts::configure;
use crate::registry::{Application, Registry, Transport, WITH_PRIORITIES};
use crate::transport_name::TransportName;

/// Lists all names of the registry and all variants, one per line.
pub fn names(registry: &Registry) -> String {
    let mut text = String::new();
    for t in registry.transports() {
        let _ = writeln!(text, "{:12} {}", t.name, t.summary());
    }
    let _ = writeln!(
        text,
        "\nvariants, behind a plus sign each, as in fuso+roundrobin+held:"
    );
    for v in registry.variants() {
        let _ = writeln!(text, "{:16} {}", v.name(), v.part());
    }
    let _ = writeln!(
        text,
        "\nbalancers, behind an @, as in tcp@rps; with {WITH_PRIORITIES} behind its name each has \
         two strict priorities at every port, short flows first:"
    );
    for b in registry.balancers() {
        let _ = writeln!(text, "{:16} {}", b.name, b.part);
    }
    list(
        &mut text,
        "topologies, as name in [topology]",
        registry.topologies(),
    );
    list(
        &mut text,
        "loss models, as model in [loss]",
        registry.loss_models(),
    );
    list(
        &mut text,
        "distributions, as sizes in [traffic]",
        registry.workloads(),
    );
    list(
        &mut text,
        "metrics that are a ratio of sums",
        registry.metrics(),
    );
    list(
        &mut text,
        "tests, as test in [[claims]]",
        registry.claim_tests(),
    );
    text
}

/// Adds the names of a catalog, each with its summary.
fn list<T: ?Sized>(text: &mut String, title: &str, catalog: &Catalog<T>) {
    let _ = writeln!(text, "\n{title}:");
    for entry in catalog.entries() {
        let _ = writeln!(text, "{:16} {}", entry.name, entry.summary);
    }
}

/// Describes what a transport consists of, one line per part. The name may include variants and a balancer.
///
/// # Errors
/// If there is no such transport or balancer. The error is one line that lists the known names.
pub fn transport(registry: &Registry, name: &str) -> Result<String, String> {
    let (transport, balancer) = match name.split_once('@') {
        Some((transport, balancer)) => (transport, Some(balancer)),
        None => (name, None),
    };
    let Some(t) = registry.find(transport) else {
        return Err(registry.no_such_transport(transport));
    };
    let mut text = format!("{name}\n");
    for part in &t.parts {
        let _ = writeln!(text, "  - {part}");
    }
    if let Some(balancer) = balancer {
        let part = registry.explain_balancer(balancer)?;
        let _ = writeln!(text, "  - {part}");
    }
    let subflows = t.config().planned_subflows();
    let _ = writeln!(text, "  subflows: {subflows}");
    let _ = writeln!(
        text,
        "  set by the scenario, not by the transport: initial window, minimum RTO, MSS, ECN, buffers"
    );
    Ok(text)
}

/// The advantages in paths and control that a transport of an experiment has over the oracle. Empty if they are
/// the same.
pub fn advantages(
    registry: &Registry,
    experiment: &Experiment,
    name: &str,
    oracle: &TransportName,
) -> Vec<String> {
    let named = experiment.transports.iter().find(|t| t.to_string() == name);
    let find = |t: &TransportName| registry.find(&t.transport).cloned();
    let (Some(named), Some(best)) = (named, find(oracle)) else {
        return Vec::new();
    };
    let (Some(own), Some(point)) = (find(named), experiment.points.first()) else {
        return Vec::new();
    };
    let host = &point.scenario.host;
    let (a, b) = (configure(&own, host), configure(&best, host));
    let mut list = Vec::new();
    if let Application::Replicated { .. } = own.application {
        list.push("more paths: a second connection for each small request".to_owned());
    }
    let (subflows, theirs) = (a.planned_subflows(), b.planned_subflows());
    if subflows != theirs {
        let more = if subflows > theirs { "more" } else { "other" };
        list.push(format!(
            "{more} paths: {} instead of {theirs}",
            paths(subflows)
        ));
    }
    if named.balancer != oracle.balancer {
        let balancer = named.balancer.as_deref().unwrap_or("the scenario's");
        list.push(format!("other paths: balancer {balancer}"));
    }
    if control(&own, &a) != control(&best, &b) {
        list.push(format!(
            "other control: {} instead of {}",
            control(&own, &a),
            control(&best, &b)
        ));
    }
    let scheduler = |c: &Config| c.multipath.as_ref().map(|m| m.scheduler.name().to_owned());
    if let (Some(mine), Some(theirs)) = (scheduler(&a), scheduler(&b))
        && mine != theirs
    {
        list.push(format!("other scheduler: {mine} instead of {theirs}"));
    }
    list
}

fn paths(n: usize) -> String {
    match n {
        1 => "1 subflow".to_owned(),
        n => format!("{n} subflows"),
    }
}

fn control(transport: &Transport, config: &Config) -> String {
    let ecn = match transport.config().tcp.ecn {
        EcnMode::Off => "",
        _ => " with ECN",
    };
    format!("{}{ecn}", config.congestion.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_transport_and_balancer_is_explained() {
        let registry = Registry::standard();
        let all = names(&registry);
        for t in registry.transports() {
            assert!(all.contains(&format!("{:12} ", t.name)), "{}", t.name);
            let text = transport(&registry, &t.name).unwrap();
            assert!(text.starts_with(&t.name) && text.contains("  - "), "{text}");
        }
        assert!(
            transport(&registry, "fuso+held@rps")
                .unwrap()
                .contains("random")
        );
        assert!(
            transport(&registry, "fusso")
                .unwrap_err()
                .contains("did you mean")
        );
        assert!(
            transport(&registry, "fuso@rsp")
                .unwrap_err()
                .contains("rps")
        );
    }
}

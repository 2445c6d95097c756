//! Describes the names in a registry as text.

mod groups;
mod list;

use std::fmt::Write as _;

use spindle_mptcp::{Config, EcnMode, Variant};

use crate::document::suggestion;
use crate::file::Experiment;
use crate::hosts::configure;
use crate::registry::{Application, Registry, Transport};
use crate::transport_name::TransportName;

/// Lists all names of the registry, one per line of at most 100 characters. Names that differ only in a number
/// share a line.
pub fn names(registry: &Registry) -> String {
    list::all(registry)
}

/// Describes what a transport consists of, one line per part. The name may include variants and a balancer. For a
/// name without a transport (`+held`, `@rps`), the text describes only its variants or its balancer.
///
/// # Errors
/// If there is no such transport, variant or balancer. The error is one line that lists the known names.
pub fn transport(registry: &Registry, name: &str) -> Result<String, String> {
    if let Some(balancer) = name.strip_prefix('@') {
        let part = registry.explain_balancer(balancer)?;
        return Ok(format!("{name}\n  - {part}\n"));
    }
    if let Some(names) = name.strip_prefix('+') {
        return variants(registry, names).map(|parts| format!("{name}\n{parts}"));
    }
    if let Some(summary) = list::kernel_transport(name) {
        return Ok(format!(
            "{name}\n  - {summary}\n  only `spindle testbed` has it\n"
        ));
    }
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

/// Describes variants, one line each. `names` has a plus sign between two names.
fn variants(registry: &Registry, names: &str) -> Result<String, String> {
    let mut text = String::new();
    for name in names.split('+') {
        let all = registry.variants();
        let Some(found) = all.iter().find(|v| v.name() == name) else {
            let known: Vec<&str> = all.iter().map(Variant::name).collect();
            let near = suggestion(name, known.iter().copied());
            return Err(format!(
                "found variant \"{name}\", want one of {}{near}",
                known.join(", ")
            ));
        };
        let _ = writeln!(text, "  - {}", found.part());
    }
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
    fn every_transport_is_explained_in_parts() {
        let registry = Registry::standard();
        for t in registry.transports() {
            let text = transport(&registry, &t.name).unwrap();
            assert!(text.starts_with(&t.name) && text.contains("  - "), "{text}");
        }
        let both = transport(&registry, "fuso+held@rps").unwrap();
        assert!(both.contains("random"), "{both}");
    }

    #[test]
    fn variants_and_balancers_are_explained_without_a_transport() {
        let registry = Registry::standard();
        let held = transport(&registry, "+held+roundrobin").unwrap();
        assert!(
            held.contains("v0.90") && held.lines().count() == 3,
            "{held}"
        );
        let rps = transport(&registry, "@rps").unwrap();
        assert!(rps.contains("random"), "{rps}");
    }

    #[test]
    fn kernel_transports_are_explained() {
        let registry = Registry::standard();
        for name in crate::KERNEL_TRANSPORTS {
            let text = transport(&registry, name).unwrap();
            assert!(text.contains("the Linux kernel's"), "{text}");
        }
    }

    #[test]
    fn unknown_names_are_refused_with_the_nearest_name() {
        let registry = Registry::standard();
        for (name, near) in [
            ("fusso", "\"fuso\"?"),
            ("fuso@rsp", "\"rps\"?"),
            ("@rsp", "\"rps\"?"),
            ("+roundr", "\"roundrobin\"?"),
        ] {
            let error = transport(&registry, name).unwrap_err();
            assert!(error.ends_with(near), "{error}");
        }
    }
}

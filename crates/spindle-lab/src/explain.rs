//! Describes the names in a registry as text.

use std::fmt::Write as _;

use spindle_mptcp::VARIANTS;

use crate::registry::{Registry, WITH_PRIORITIES};

/// Lists all transports, variants and balancers, one per line.
pub fn names(registry: &Registry) -> String {
    let mut text = String::new();
    for t in registry.transports() {
        let first = t.parts.first().map_or("", String::as_str);
        let _ = writeln!(text, "{:12} {first}", t.name);
    }
    let _ = writeln!(
        text,
        "\nvariants, behind a plus sign each, as in fuso+roundrobin+held:"
    );
    for v in VARIANTS {
        let _ = writeln!(text, "{:16} {}", v.name, v.part);
    }
    let _ = writeln!(
        text,
        "\nbalancers, behind an @, as in tcp@rps; with {WITH_PRIORITIES} behind its name each has \
         two strict priorities at every port, short flows first:"
    );
    for b in registry.balancers() {
        let _ = writeln!(text, "{:16} {}", b.name, b.part);
    }
    text
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

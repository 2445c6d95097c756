//! `spindle explain`.

use std::fmt::Write as _;
use std::process::ExitCode;

use spindle_lab::registry::{Registry, WITH_PRIORITIES};
use spindle_mptcp::VARIANTS;

use super::print;
use crate::args::Explain;
use crate::failure::Failure;

pub(crate) fn explain(registry: &Registry, args: &Explain) -> Result<ExitCode, Failure> {
    let mut text = String::new();
    match &args.transport {
        None => {
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
        }
        Some(name) => {
            let (transport, balancer) = match name.split_once('@') {
                Some((transport, balancer)) => (transport, Some(balancer)),
                None => (name.as_str(), None),
            };
            let Some(t) = registry.find(transport) else {
                return Err(Failure::Usage(registry.no_such_transport(transport)));
            };
            let _ = writeln!(text, "{name}");
            for part in &t.parts {
                let _ = writeln!(text, "  - {part}");
            }
            if let Some(balancer) = balancer {
                let part = registry
                    .explain_balancer(balancer)
                    .map_err(Failure::Usage)?;
                let _ = writeln!(text, "  - {part}");
            }
            let subflows = t.config().planned_subflows();
            let _ = writeln!(text, "  subflows: {subflows}");
            let _ = writeln!(
                text,
                "  set by the scenario, not by the transport: initial window, minimum RTO, MSS, ECN, buffers"
            );
        }
    }
    print(&text);
    Ok(ExitCode::SUCCESS)
}

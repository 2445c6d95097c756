//! `spindle explain`.

use std::fmt::Write as _;
use std::process::ExitCode;

use spindle_lab::registry::Registry;
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
        }
        Some(name) => {
            let Some(t) = registry.find(name) else {
                return Err(Failure::Usage(registry.no_such_transport(name)));
            };
            let _ = writeln!(text, "{}", t.name);
            for part in &t.parts {
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

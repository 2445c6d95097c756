//! `spindle explain`.

use std::process::ExitCode;

use spindle_lab::explain as lab;
use spindle_lab::registry::Registry;

use super::print;
use crate::args::Explain;
use crate::failure::Failure;

pub(crate) fn explain(registry: &Registry, args: &Explain) -> Result<ExitCode, Failure> {
    let text = match &args.transport {
        None => lab::names(registry),
        Some(name) => lab::transport(registry, name).map_err(Failure::Usage)?,
    };
    print(&text);
    Ok(ExitCode::SUCCESS)
}

//! `spindle explain`.

use std::process::ExitCode;

use spindle_experiment::explain as describe;
use spindle_experiment::registry::Registry;

use super::print;
use crate::args::Explain;
use crate::failure::Failure;

pub(crate) fn explain(registry: &Registry, args: &Explain) -> Result<ExitCode, Failure> {
    let text = match &args.transport {
        None => describe::names(registry),
        Some(name) => describe::transport(registry, name).map_err(Failure::Usage)?,
    };
    print(&text);
    Ok(ExitCode::SUCCESS)
}

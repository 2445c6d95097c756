//! `spindle register`.

use std::process::ExitCode;

use spindle_experiment::registry::Registry;
use spindle_report::Register;

use super::print;
use crate::args::Register as Args;
use crate::failure::Failure;

pub(crate) fn register(registry: &Registry, args: &Args) -> Result<ExitCode, Failure> {
    let register = Register::read(&args.files)?;
    if let Some(path) = &args.out {
        std::fs::write(path, register.markdown()).map_err(|e| Failure::file(path, "write", &e))?;
    }
    if let Some(path) = &args.robustness {
        let page = register.robustness();
        std::fs::write(path, page).map_err(|e| Failure::file(path, "write", &e))?;
    }
    if let Some(directory) = &args.site {
        let index = register.write_site(registry, directory)?;
        print(&format!("register: {}\n", index.display()));
    }
    if args.out.is_none() && args.site.is_none() && args.robustness.is_none() {
        print(&register.markdown());
    }
    Ok(ExitCode::SUCCESS)
}

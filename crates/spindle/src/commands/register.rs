//! `spindle register`.

use std::path::Path;
use std::process::ExitCode;

use spindle_experiment::registry::Registry;
use spindle_report::Register;

use super::print;
use crate::args::Register as Args;
use crate::failure::Failure;

pub(crate) fn register(registry: &Registry, args: &Args) -> Result<ExitCode, Failure> {
    let register = Register::read(&args.files)?;
    write(args.out.as_deref(), || register.markdown())?;
    write(args.robustness.as_deref(), || register.robustness())?;
    write(args.values.as_deref(), || register.values())?;
    if let Some(directory) = &args.site {
        let index = register.write_site(registry, directory)?;
        print(&format!("register: {}\n", index.display()));
    }
    let pages = [&args.out, &args.robustness, &args.values, &args.site];
    if pages.iter().all(|path| path.is_none()) {
        print(&register.markdown());
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a page into the file, if one is asked for.
fn write(path: Option<&Path>, page: impl FnOnce() -> String) -> Result<(), Failure> {
    match path {
        None => Ok(()),
        Some(path) => std::fs::write(path, page()).map_err(|e| Failure::file(path, "write", &e)),
    }
}

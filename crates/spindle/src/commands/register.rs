//! `spindle register`.

use std::path::Path;
use std::process::ExitCode;

use spindle_experiment::registry::Registry;
use spindle_report::{ArenaPage, Register};

use super::print;
use crate::args::Register as Args;
use crate::failure::Failure;

pub(crate) fn register(registry: &Registry, args: &Args) -> Result<ExitCode, Failure> {
    if let Some(path) = &args.arena {
        let page = ArenaPage::read(&args.files)?;
        write(Some(path), || page.markdown())?;
    }
    let pages = [&args.out, &args.robustness, &args.values, &args.site];
    let none = pages.iter().all(|path| path.is_none());
    if none && args.arena.is_some() {
        return Ok(ExitCode::SUCCESS);
    }
    let register = Register::read(&args.files)?;
    write(args.out.as_deref(), || register.markdown())?;
    write(args.robustness.as_deref(), || register.robustness())?;
    write(args.values.as_deref(), || register.values())?;
    if let Some(directory) = &args.site {
        let index = register.write_site(registry, directory)?;
        print(&format!("register: {}\n", index.display()));
    }
    if none {
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

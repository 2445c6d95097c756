//! `spindle register`.

use std::process::ExitCode;

use spindle_report::Register;

use super::print;
use crate::args::Register as Args;
use crate::failure::Failure;

pub(crate) fn register(args: &Args) -> Result<ExitCode, Failure> {
    let page = Register::read(&args.files)?.markdown();
    match &args.out {
        None => print(&page),
        Some(path) => {
            std::fs::write(path, page).map_err(|e| Failure::file(path, "write", &e))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

//! `spindle flows`.

use std::process::ExitCode;

use spindle_lab::experiment::flows::{check_fat_tree, parse};
use spindle_lab::reference;

use super::{json_on_stdout, print, write_json};
use crate::args::Flows;
use crate::failure::Failure;

pub(crate) fn flows(args: &Flows) -> Result<ExitCode, Failure> {
    let name = args.file.display();
    let k: u32 = args.k.parse().map_err(|_| {
        let found = &args.k;
        Failure::Usage(format!(
            "--k: found \"{found}\", want an even number of ports from 2 to 64"
        ))
    })?;
    let text =
        std::fs::read_to_string(&args.file).map_err(|e| Failure::file(&args.file, "read", &e))?;
    let list = parse(&text).map_err(|e| Failure::Usage(format!("{name}: {e}")))?;
    check_fat_tree(&list, k).map_err(|e| Failure::Usage(format!("--k {k}: {e}")))?;
    let report =
        reference::run(&list, k, args.sack).map_err(|e| Failure::Usage(format!("{name}: {e}")))?;
    if !json_on_stdout(args.json.as_deref()) {
        print(&reference::table(&report));
    }
    if let Some(path) = &args.json {
        write_json(path, &report)?;
    }
    if report.completed < report.flows {
        eprintln!(
            "error: {} of {} flows did not finish",
            report.flows - report.completed,
            report.flows
        );
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

//! `spindle flows`.

use std::process::ExitCode;

use spindle_lab::flow_file::{self, check_fat_tree, parse};

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
    let usage = |e| Failure::Usage(format!("{name}: {e}"));
    let mut report = flow_file::run(&list, k, args.sack).map_err(usage)?;
    if args.shifts > 0 {
        report.spread = Some(flow_file::spread(&list, k, args.sack, args.shifts).map_err(usage)?);
    }
    if !json_on_stdout(args.json.as_deref()) {
        print(&flow_file::table(&report));
        if let Some(spread) = &report.spread {
            print(&flow_file::spread_table(spread));
        }
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

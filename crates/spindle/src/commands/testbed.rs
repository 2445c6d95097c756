//! `spindle testbed`.

use std::path::Path;
use std::process::ExitCode;

use spindle_lab::experiment::{Experiment, Overrides};
use spindle_lab::registry::Registry;
use spindle_testbed::exec::{Exec, exec, statistics};
use spindle_testbed::{Options, TestbedError, enter, output};

use super::compare::with_context;
use super::{json_on_stdout, print, write_json};
use crate::args::Testbed;
use crate::failure::Failure;

impl From<TestbedError> for Failure {
    fn from(e: TestbedError) -> Self {
        match e {
            TestbedError::System { .. } | TestbedError::Program { .. } | TestbedError::Net(_) => {
                Self::Other(e.to_string())
            }
            _ => Self::Usage(e.to_string()),
        }
    }
}

pub(crate) fn testbed(registry: &Registry, args: &Testbed) -> Result<ExitCode, Failure> {
    let overrides = Overrides {
        set: args.set.clone(),
        flows: args.flows.clone(),
        seeds: args.seeds.clone(),
        seed: args.seed.clone(),
        loss: args.loss.clone(),
        transports: args.transports.clone(),
        scale: None,
    };
    let directory = args.file.parent().unwrap_or(Path::new("."));
    let experiment = with_context(registry, directory, |c| {
        Experiment::load(&args.file, &overrides, c)
    })?;
    let programs: Result<Vec<Exec>, TestbedError> =
        args.exec.iter().map(|e| Exec::parse(e)).collect();
    let programs = programs?;
    enter()?;
    if !programs.is_empty() {
        let (code, report) = exec(&experiment, registry, &programs)?;
        print(&statistics(&report));
        return Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)));
    }
    let options = options(args)?;
    let outcome = spindle_testbed::run(&experiment, registry, &options, |row| {
        eprintln!("running {row}");
    })?;
    let report = output::report(&experiment, &outcome);
    if !json_on_stdout(args.json.as_deref()) {
        print(&output::text(&report));
    }
    if let Some(path) = &args.json {
        write_json(path, &report)?;
    }
    if output::all_well(&outcome) {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("error: not every flow finished, or packets were delivered too late; see the table");
    Ok(ExitCode::FAILURE)
}

fn options(args: &Testbed) -> Result<Options, Failure> {
    let Some(text) = &args.late else {
        return Ok(Options::default());
    };
    let late_bound = text
        .parse()
        .map_err(|e| Failure::Usage(format!("--late: {e}")))?;
    Ok(Options { late_bound })
}

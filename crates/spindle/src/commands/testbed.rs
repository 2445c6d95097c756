//! `spindle testbed`.

use std::process::ExitCode;

use spindle_experiment::library;
use spindle_experiment::metrics::{Metric, show_us};
use spindle_experiment::registry::Registry;
use spindle_experiment::stats::Pool;
use spindle_testbed::exec::{Exec, exec, statistics};
use spindle_testbed::{Options, Progress, TestbedError, enter, output};

use super::{json_on_stdout, print, progress, write_json};
use crate::args::Testbed;
use crate::failure::Failure;

impl From<TestbedError> for Failure {
    fn from(e: TestbedError) -> Self {
        match e {
            TestbedError::System { .. }
            | TestbedError::Program { .. }
            | TestbedError::Store(_)
            | TestbedError::Net(_) => Self::Other(e.to_string()),
            _ => Self::Usage(e.to_string()),
        }
    }
}

pub(crate) fn testbed(registry: &Registry, args: &Testbed) -> Result<ExitCode, Failure> {
    let overrides = (args.size).overrides(args.transports.as_ref(), &args.set);
    let experiment = library::load(registry, &args.file, &overrides)?;
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
    let mut told = Told::default();
    let outcome = spindle_testbed::run(&experiment, registry, &options, |p| told.tell(p))?;
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
    let mut options = Options {
        store: args.store.clone(),
        resume: args.resume,
        ..Options::default()
    };
    if let Some(text) = &args.late {
        options.late_bound = text
            .parse()
            .map_err(|e| Failure::Usage(format!("--late: {e}")))?;
    }
    match args.jobs {
        Some(0) => return Err(Failure::Usage("--jobs: found 0, want 1 or more".to_owned())),
        Some(n) => options.jobs = n,
        None => {}
    }
    Ok(options)
}

/// Reports progress on standard error: a line for each row that is done, and on a terminal a line that is
/// overwritten after each part.
#[derive(Default)]
struct Told {
    /// Length of the text in the line.
    shown: usize,
}

impl Told {
    fn tell(&mut self, p: &Progress<'_>) {
        let minutes = p.left.map_or(0.0, |left| left.as_secs_f64() / 60.0);
        let state = format!("{}/{} parts, {minutes:.1} min left", p.done, p.parts);
        let terminal = progress();
        if terminal {
            eprint!("\r{:width$}\r", "", width = self.shown);
        }
        if let Some((point, row, runs)) = p.row {
            let set = point
                .set
                .iter()
                .map(|(axis, value)| format!(" {axis}={value}"));
            let pool = Pool::new(&runs.runs);
            let time = |metric| show_us(pool.value(metric).unwrap_or(0.0));
            let (p90, p99) = (Metric::FctPercentile(0.9), Metric::FctPercentile(0.99));
            let tail = pool.check_flows(p99).map_or(p90, |()| p99);
            eprintln!(
                "{}{}: {}/{} flows, mean {}, {} {}{} ({state})",
                row.name,
                set.collect::<String>(),
                runs.runs.iter().map(|r| r.completed).sum::<u64>(),
                runs.runs.iter().map(|r| r.flows).sum::<u64>(),
                time(Metric::FctMean),
                tail.title(),
                time(tail),
                if row.fell_behind {
                    ", INVALID: fell behind"
                } else {
                    ""
                },
            );
        }
        if terminal {
            eprint!("{state}");
            self.shown = if p.done < p.parts { state.len() } else { 0 };
            if p.done == p.parts {
                eprint!("\r{:width$}\r", "", width = state.len());
            }
        }
    }
}

//! `spindle compare` and `spindle run`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use spindle_experiment::registry::Registry;
use spindle_experiment::results::{self, SweepResult};
use spindle_experiment::{Experiment, Overrides, TransportName, library};
use spindle_lab::story;
use spindle_lab::sweep::{self, Options};
use spindle_report::present::{self, Provenance};

use super::{command, json_on_stdout, print, program, quoted, write_json};
use crate::args::{Common, Compare, Run};
use crate::failure::Failure;

/// The directory of `compare`'s report if none is given.
const REPORT: &str = "spindle-report";

pub(crate) fn compare(registry: &Registry, args: &Compare) -> Result<ExitCode, Failure> {
    let name = args.scenario.as_deref().unwrap_or("compare");
    let experiment = find(registry, name, &overrides(&args.common))?;
    let report = match &args.common.report {
        Some(dir) => Some(dir.clone()),
        None if json_on_stdout(args.common.json.as_deref()) => None,
        None => Some(PathBuf::from(REPORT)),
    };
    execute(registry, &experiment, name, &args.common, report.as_deref())
}

pub(crate) fn run(registry: &Registry, args: &Run) -> Result<ExitCode, Failure> {
    let experiment = library::load(registry, &args.file, &overrides(&args.common))?;
    let name = args.file.display().to_string();
    let report = args.common.report.as_deref();
    execute(registry, &experiment, &name, &args.common, report)
}

/// The built-in experiment of this id, or the experiment in the file of this name.
pub(super) fn find(
    registry: &Registry,
    name: &str,
    overrides: &Overrides,
) -> Result<Experiment, Failure> {
    match library::find(name) {
        Some(built_in) => Ok(built_in.read(registry, overrides)?),
        None if looks_like_a_file(name) => Ok(library::load(registry, Path::new(name), overrides)?),
        None => Err(library::no_such_scenario(name).into()),
    }
}

fn looks_like_a_file(name: &str) -> bool {
    name.ends_with(".toml") || Path::new(name).exists()
}

fn overrides(common: &Common) -> Overrides {
    (common.size).overrides(common.transports.as_ref(), &common.set)
}

fn options(common: &Common) -> Result<Options, Failure> {
    let payload = match &common.payload {
        None => None,
        Some(path) => {
            let bytes = std::fs::read(path).map_err(|e| Failure::file(path, "read", &e))?;
            if bytes.is_empty() {
                let text = format!(
                    "{}: found an empty file, want one byte or more",
                    path.display()
                );
                return Err(Failure::Usage(text));
            }
            Some(bytes.into())
        }
    };
    for dir in [&common.pcap, &common.report].into_iter().flatten() {
        std::fs::create_dir_all(dir).map_err(|e| Failure::file(dir, "create", &e))?;
    }
    if common.jobs == Some(0) {
        return Err(Failure::Usage("--jobs: found 0, want 1 or more".to_owned()));
    }
    Ok(Options {
        jobs: common.jobs.unwrap_or(0),
        store: common.store.clone(),
        resume: common.resume,
        progress: true,
        payload,
        pcap: common.pcap.clone(),
        ..Options::default()
    })
}

/// How many flows are recorded in search of a flow worth drawing.
const CANDIDATES: usize = 20;

fn execute(
    registry: &Registry,
    experiment: &Experiment,
    name: &str,
    common: &Common,
    report: Option<&Path>,
) -> Result<ExitCode, Failure> {
    let options = options(common)?;
    for name in experiment.transports.iter().filter(|t| t.needs_testbed()) {
        eprintln!("{name}: left out, only `spindle testbed` runs it");
    }
    let result = sweep::execute(experiment, registry, &options)?;
    let comparison = results::comparison(experiment, &result);
    if !json_on_stdout(common.json.as_deref()) {
        print(&results::table(&comparison));
        if !experiment.claims.is_empty() {
            print(&results::verdict_table(&results::verdicts(
                experiment, &result,
            )));
        }
    }
    if let Some(path) = &common.json {
        write_json(path, &comparison)?;
    }
    if let Some(dir) = report {
        let follow = |point: usize, transport: &TransportName, seed: u64, part: u64| {
            follow(name, common, experiment, (point, transport, seed, part))
        };
        let provenance = Provenance {
            registry,
            command: &command(),
            follow: &follow,
            store: None,
            file: None,
            scale: None,
        };
        let flows = story::recovered_flow(registry, experiment, CANDIDATES)
            .into_iter()
            .chain(story::decoded_flow(registry, experiment, CANDIDATES))
            .collect();
        let index = present::comparison(experiment, &result, flows, &provenance, dir)
            .map_err(|e| Failure::Other(e.to_string()))?;
        if !json_on_stdout(common.json.as_deref()) {
            print(&format!("report: {}\n", index.display()));
        }
    }
    Ok(exit(&result))
}

/// The command that lists the slowest flows of a run of this comparison.
fn follow(
    name: &str,
    common: &Common,
    experiment: &Experiment,
    (point, transport, seed, part): (usize, &TransportName, u64, u64),
) -> String {
    let mut words = vec![program(), "trace".to_owned(), quoted(name)];
    let mut add = |flag: &str, value: &str| words.extend([flag.to_owned(), quoted(value)]);
    add("--transport", &transport.to_string());
    for (flag, value) in [
        ("--loss", &common.size.loss),
        ("--flows", &common.size.flows),
    ] {
        if let Some(value) = value {
            add(flag, value);
        }
    }
    common.set.iter().for_each(|set| add("--set", set));
    if experiment.points.len() > 1 {
        add("--point", &point.to_string());
    }
    add("--seed", &seed.to_string());
    add("--part", &format!("{part}/{}", experiment.parts()));
    words.join(" ")
}

pub(super) fn exit(result: &SweepResult) -> ExitCode {
    if results::all_well(result) {
        return ExitCode::SUCCESS;
    }
    eprintln!("error: not every flow finished; see the completed, aborted and corrupted counts");
    ExitCode::FAILURE
}

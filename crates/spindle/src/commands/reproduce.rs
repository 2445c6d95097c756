//! `spindle reproduce`.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

use spindle_lab::experiment::{Experiment, Overrides, Scale, TransportName, suggestion};
use spindle_lab::library::{self, BuiltIn};
use spindle_lab::output::{self, Reproduction};
use spindle_lab::present::{self, Making, Results};
use spindle_lab::registry::Registry;
use spindle_lab::report::Figure;
use spindle_lab::sweep::{self, Options, Shared};

use super::compare::{exit, with_context};
use super::{command, json_on_stdout, print, program, write_json};
use crate::args::Reproduce;
use crate::failure::Failure;

pub(crate) fn reproduce(registry: &Registry, args: &Reproduce) -> Result<ExitCode, Failure> {
    if args.list {
        list(registry, args)?;
        return Ok(ExitCode::SUCCESS);
    }
    let chosen = chosen(args)?;
    if let Some(dir) = &args.out {
        std::fs::create_dir_all(dir).map_err(|e| Failure::file(dir, "create", &e))?;
    }
    let quiet = json_on_stdout(args.json.as_deref());
    let mut experiments = Vec::new();
    let mut pages: Vec<(&str, Vec<Figure>)> = Vec::new();
    let papers = chosen
        .iter()
        .filter_map(|b| b.paper)
        .collect::<BTreeSet<_>>();
    let mut code = ExitCode::SUCCESS;
    let read = |b: &&'static BuiltIn| Ok::<_, Failure>((*b, read(registry, b, args)?));
    let chosen: Vec<_> = chosen.iter().map(read).collect::<Result<_, _>>()?;
    let shared = Shared::of(chosen.iter().map(|(_, e)| e), registry, &Options::default())?;
    for (built_in, experiment) in chosen {
        let options = Options {
            shared: shared.clone(),
            ..options(args, built_in.id)
        };
        let result = sweep::execute(&experiment, registry, &options)?;
        let verdicts = output::verdicts(&experiment, &result);
        if !quiet {
            print(&output::table(&output::comparison(&experiment, &result)));
            print(&format!("{}\n", output::verdict_table(&verdicts)));
        }
        if !output::all_well(&result) {
            code = exit(&result);
        }
        if args.out.is_some() {
            let results = Results {
                experiment: &experiment,
                runs: &result,
                verdicts: &verdicts,
            };
            let figure = figure(registry, args, (built_in, &results), papers.len() > 1);
            let paper = built_in.paper.unwrap_or_default();
            match pages.iter_mut().find(|(p, _)| *p == paper) {
                Some((_, figures)) => figures.push(figure),
                None => pages.push((paper, vec![figure])),
            }
        }
        experiments.push(verdicts);
    }
    for (paper, figures) in pages {
        let Some(dir) = &args.out else { break };
        let dir = match papers.len() {
            1 => dir.clone(),
            _ => dir.join(paper),
        };
        let index = present::figures(library::paper(paper), figures, &dir)
            .map_err(|e| Failure::Other(e.to_string()))?;
        if !quiet {
            print(&format!("report: {}\n", index.display()));
        }
    }
    if let Some(path) = &args.json {
        write_json(path, &Reproduction { experiments })?;
    }
    Ok(code)
}

/// A figure of a paper's page; `apart` if the page has a directory of its own beside the runs.
fn figure(
    registry: &Registry,
    args: &Reproduce,
    (built_in, results): (&BuiltIn, &Results<'_>),
    apart: bool,
) -> Figure {
    let id = &results.experiment.id;
    let (points, parts) = (results.experiment.points.len(), results.experiment.parts());
    let scale = match scale(args) {
        Scale::Quick => "quick",
        Scale::Full => "full",
        Scale::Paper => "paper-scale",
    };
    let program = program();
    let follow = |point: usize, transport: &TransportName, seed: u64, part: u64| {
        let point = match points {
            1 => String::new(),
            _ => format!(" --point {point}"),
        };
        format!(
            "{program} trace {id} --transport {transport} --{scale}{point} --seed {seed} --part {part}/{parts}"
        )
    };
    let store = format!("{}{id}.jsonl", if apart { "../" } else { "" });
    let making = Making {
        registry,
        command: &command(),
        follow: &follow,
        store: Some(&store),
        file: Some(built_in.text),
        scale: Some(scale),
    };
    present::figure(results, &making)
}

fn scale(args: &Reproduce) -> Scale {
    match (args.full, args.paper_scale) {
        (_, true) => Scale::Paper,
        (true, _) => Scale::Full,
        _ => Scale::Quick,
    }
}

fn read(registry: &Registry, built_in: &BuiltIn, args: &Reproduce) -> Result<Experiment, Failure> {
    let overrides = Overrides {
        scale: Some(scale(args)),
        seed: args.seed.clone(),
        ..Overrides::default()
    };
    with_context(registry, Path::new("."), |c| {
        Experiment::parse(built_in.path, built_in.text, &overrides, c)
    })
}

fn options(args: &Reproduce, id: &str) -> Options {
    Options {
        jobs: args.jobs.unwrap_or(0),
        store: args.out.as_ref().map(|dir| dir.join(format!("{id}.jsonl"))),
        resume: args.resume,
        progress: true,
        ..Options::default()
    }
}

fn chosen(args: &Reproduce) -> Result<Vec<&'static BuiltIn>, Failure> {
    let all: Vec<&'static BuiltIn> = library::reproductions().collect();
    if args.jobs == Some(0) {
        return Err(Failure::Usage("--jobs: found 0, want 1 or more".to_owned()));
    }
    if args.all {
        return Ok(all);
    }
    if let Some(paper) = &args.paper {
        let of_paper: Vec<_> = all
            .iter()
            .filter(|e| e.paper == Some(paper))
            .copied()
            .collect();
        let mut papers: Vec<&str> = all.iter().filter_map(|e| e.paper).collect();
        papers.dedup();
        return if of_paper.is_empty() {
            let near = suggestion(paper, papers.iter().copied());
            let text = format!(
                "--paper: found \"{paper}\", want one of {}{near}",
                papers.join(", ")
            );
            Err(Failure::Usage(text))
        } else {
            Ok(of_paper)
        };
    }
    if args.ids.is_empty() {
        let text = "want ids of experiments, --paper PAPER or --all; --list shows them";
        return Err(Failure::Usage(text.to_owned()));
    }
    args.ids.iter().map(|id| one(id, &all)).collect()
}

fn one(id: &str, all: &[&'static BuiltIn]) -> Result<&'static BuiltIn, Failure> {
    all.iter().find(|e| e.id == id).copied().ok_or_else(|| {
        let ids: Vec<&str> = all.iter().map(|e| e.id).collect();
        let near = suggestion(id, ids.iter().copied());
        Failure::Usage(format!(
            "found experiment \"{id}\", want one of {}{near}",
            ids.join(", ")
        ))
    })
}

fn list(registry: &Registry, args: &Reproduce) -> Result<(), Failure> {
    for built_in in library::reproductions() {
        let e = read(registry, built_in, args)?;
        print(&format!(
            "{:14} {} ({} points, {} transports, {} claims)\n",
            e.id,
            e.title,
            e.points.len(),
            e.transports.len(),
            e.claims.len()
        ));
    }
    Ok(())
}

//! `spindle reproduce`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use spindle_experiment::library::{self, BuiltIn};
use spindle_experiment::readings::{self, Reading};
use spindle_experiment::registry::Registry;
use spindle_experiment::{Experiment, Overrides, Scale, TransportName, results};
use spindle_lab::story;
use spindle_lab::sweep::{self, Options, Shared};
use spindle_report::present::{self, Provenance, Reproduction, Results};
use spindle_report::{Arena, Figure, Register};

use super::compare::exit;
use super::lock::LockStep;
use super::{command, json_on_stdout, print, program, quoted, write_json};
use crate::args::Reproduce;
use crate::failure::Failure;

pub(crate) fn reproduce(registry: &Registry, args: &Reproduce) -> Result<ExitCode, Failure> {
    if args.list {
        list(registry, args)?;
        return Ok(ExitCode::SUCCESS);
    }
    let chosen = chosen(args)?;
    make_directory(args.out.as_deref())?;
    let quiet = json_on_stdout(args.json.as_deref());
    let mut experiments = Vec::new();
    let mut pages: Vec<(&str, Vec<Figure>)> = Vec::new();
    let papers = chosen
        .iter()
        .filter_map(|b| b.paper)
        .collect::<BTreeSet<_>>();
    let mut arena = Arena::default();
    let mut code = ExitCode::SUCCESS;
    let reading = reading(args, &papers)?;
    announce(args);
    let lock = LockStep::of(args, scale(args))?;
    let read = |b: &&'static BuiltIn| Ok::<_, Failure>((*b, read(registry, b, args, reading)?));
    let chosen: Vec<_> = chosen.iter().map(read).collect::<Result<_, _>>()?;
    let shared = Shared::of(chosen.iter().map(|(_, e)| e), registry, &Options::default())?;
    for (built_in, experiment) in chosen {
        let options = Options {
            shared: shared.clone(),
            ..options(args, built_in.id)
        };
        let result = sweep::execute(&experiment, registry, &options)?;
        let verdicts = results::verdicts(&experiment, &result);
        let paper = built_in.paper.unwrap_or_default();
        let joint = library::paper(paper).is_some_and(|p| p.joint);
        if joint {
            arena
                .networks
                .extend(present::networks(&experiment, &result));
        } else if !quiet {
            print(&results::table(&results::comparison(&experiment, &result)));
            print(&format!("{}\n", results::verdict_table(&verdicts)));
        }
        if !results::all_well(&result) {
            code = exit(&result);
        }
        if args.out.is_some() {
            let results = Results {
                experiment: &experiment,
                runs: &result,
                verdicts: &verdicts,
            };
            let figure = figure(registry, args, (built_in, &results), papers.len() > 1);
            match pages.iter_mut().find(|(p, _)| *p == paper) {
                Some((_, figures)) => figures.push(figure),
                None => pages.push((paper, vec![figure])),
            }
        }
        experiments.push(verdicts);
    }
    let arena = (!arena.networks.is_empty()).then_some(arena);
    if let Some(arena) = arena.as_ref().filter(|_| !quiet) {
        print(&present::arena_table(arena));
    }
    let reproduction = Reproduction {
        scale: scale(args).name().to_owned(),
        reading: args.reading.clone(),
        variation: args.vary.map(|v| v.name().to_owned()),
        experiments,
        arena,
    };
    if let Some(dir) = &args.out {
        let written = write_site(registry, pages, &reproduction, dir)?;
        for index in written.iter().filter(|_| !quiet) {
            print(&format!("report: {}\n", index.display()));
        }
    }
    if let Some(path) = &args.json {
        write_json(path, &reproduction)?;
    }
    lock.finish(&reproduction.experiments)?;
    Ok(code)
}

/// Writes the pages of all papers, and a register of their claims if there are several. Returns their paths.
fn write_site(
    registry: &Registry,
    pages: Vec<(&str, Vec<Figure>)>,
    of: &Reproduction,
    dir: &Path,
) -> Result<Vec<PathBuf>, Failure> {
    let several = pages.len() > 1;
    let mut written = write_pages(pages, of.arena.as_ref(), dir)?;
    if several {
        let register = Register::of(of.reading.as_deref(), &of.scale, &of.experiments);
        written.push(register.write_site(registry, dir)?);
    }
    Ok(written)
}

/// Writes the pages of all papers, each in its own directory if there are several.
fn write_pages(
    pages: Vec<(&str, Vec<Figure>)>,
    arena: Option<&Arena>,
    dir: &Path,
) -> Result<Vec<PathBuf>, Failure> {
    let apart = pages.len() > 1;
    let each = pages.into_iter().map(|(paper, figures)| {
        let own = dir.join(paper);
        write_page(paper, figures, arena, if apart { &own } else { dir })
    });
    each.collect()
}

/// Writes the page of a paper. The page of the arena has the table over its networks.
fn write_page(
    paper: &str,
    figures: Vec<Figure>,
    arena: Option<&Arena>,
    dir: &Path,
) -> Result<PathBuf, Failure> {
    let paper = library::paper(paper);
    let table = arena.filter(|_| paper.is_some_and(|p| p.joint)).cloned();
    present::figures(paper, figures, table, dir).map_err(|e| Failure::Other(e.to_string()))
}

/// How many flows are recorded in search of a flow worth drawing. It is fewer than for a comparison, since runs
/// of some figures are long.
const CANDIDATES: usize = 6;

/// A figure of a paper's page. `apart` is whether the page has its own directory next to the runs.
fn figure(
    registry: &Registry,
    args: &Reproduce,
    (built_in, results): (&BuiltIn, &Results<'_>),
    apart: bool,
) -> Figure {
    let id = &results.experiment.id;
    let (points, parts) = (results.experiment.points.len(), results.experiment.parts());
    let follow = |point: usize, transport: &TransportName, seed: u64, part: u64| {
        let point = (points > 1).then_some(point);
        follow(args, id, (point, transport), seed, (part, parts))
    };
    let store = format!("{}{id}.jsonl", if apart { "../" } else { "" });
    let provenance = Provenance {
        registry,
        command: &command(),
        follow: &follow,
        store: Some(&store),
        file: Some(built_in.text),
        scale: Some(scale(args).name()),
    };
    let experiment = results.experiment;
    let flow = story::decoded_flow(registry, experiment, CANDIDATES)
        .or_else(|| story::recovered_flow(registry, experiment, CANDIDATES));
    present::figure(results, flow, &provenance)
}

/// The command that lists the slowest flows of one run of an experiment. `point` is `None` if there is one point.
fn follow(
    args: &Reproduce,
    id: &str,
    (point, transport): (Option<usize>, &TransportName),
    seed: u64,
    (part, parts): (u64, u64),
) -> String {
    let scale = scale(args).name();
    let named = |flag: &str, value: Option<String>| {
        value.map_or_else(String::new, |value| format!(" --{flag} {}", quoted(&value)))
    };
    let reading = named("reading", args.reading.clone());
    let variation = named("vary", args.vary.map(|v| v.name().to_owned()));
    let point = named("point", point.map(|point| point.to_string()));
    format!(
        "{} trace {id} --transport {} --{scale}{reading}{variation}{point} --seed {seed} --part {part}/{parts}",
        program(),
        quoted(&transport.to_string())
    )
}

fn scale(args: &Reproduce) -> Scale {
    match (args.full, args.paper_scale) {
        (_, true) => Scale::Paper,
        (true, _) => Scale::Full,
        _ => Scale::Quick,
    }
}

fn make_directory(dir: Option<&Path>) -> Result<(), Failure> {
    match dir {
        None => Ok(()),
        Some(dir) => std::fs::create_dir_all(dir).map_err(|e| Failure::file(dir, "create", &e)),
    }
}

/// Prints the variation that is asked for, if any.
fn announce(args: &Reproduce) {
    let quiet = json_on_stdout(args.json.as_deref());
    if let Some(variation) = args.vary.filter(|_| !quiet) {
        let (name, title) = (variation.name(), variation.title());
        print(&format!("variation {name}: {title}\n\n"));
    }
}

/// The reading that is asked for, if any, which is also printed. It must be one of all papers whose experiments are
/// chosen.
fn reading(args: &Reproduce, papers: &BTreeSet<&str>) -> Result<Option<&'static Reading>, Failure> {
    let Some(name) = &args.reading else {
        return Ok(None);
    };
    let papers: Vec<&str> = papers.iter().copied().collect();
    let reading = readings::find(name, &papers)?;
    if !json_on_stdout(args.json.as_deref()) {
        print(&format!("reading {name}: {}\n\n", reading.title()?));
    }
    Ok(Some(reading))
}

fn read(
    registry: &Registry,
    built_in: &BuiltIn,
    args: &Reproduce,
    reading: Option<&'static Reading>,
) -> Result<Experiment, Failure> {
    let overrides = Overrides {
        reading,
        variation: args.vary,
        scale: Some(scale(args)),
        seed: args.seed.clone(),
        ..Overrides::default()
    };
    Ok(built_in.read(registry, &overrides)?)
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
    if args.jobs == Some(0) {
        return Err(Failure::Usage("--jobs: found 0, want 1 or more".to_owned()));
    }
    if args.all {
        return Ok(library::reproductions().collect());
    }
    if let Some(paper) = &args.paper {
        return Ok(library::of_paper(paper)?);
    }
    if args.ids.is_empty() {
        let text = "want ids of experiments, --paper PAPER or --all; --list shows them";
        return Err(Failure::Usage(text.to_owned()));
    }
    Ok(library::of_ids(args.ids.iter().map(String::as_str))?)
}

fn list(registry: &Registry, args: &Reproduce) -> Result<(), Failure> {
    let of_some = args.paper.is_some() || !args.ids.is_empty();
    let listed = match of_some {
        true => chosen(args)?,
        false => library::reproductions().collect(),
    };
    for built_in in listed {
        let e = read(registry, built_in, args, None)?;
        let registered = match e.claims.len() {
            0 => String::new(),
            _ => format!("; claims and sizes {}", results::Registration::of(&e).hash),
        };
        print(&format!(
            "{:14} {} ({} points, {} transports, {} claims{registered})\n",
            e.id,
            e.title,
            e.points.len(),
            e.transports.len(),
            e.claims.len()
        ));
    }
    Ok(())
}

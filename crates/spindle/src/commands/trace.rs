//! `spindle trace`: single flows of one point of an experiment.

use std::fmt::Write as _;
use std::process::ExitCode;

use spindle_experiment::readings::{self, Reading};
use spindle_experiment::registry::Registry;
use spindle_experiment::{Experiment, Overrides, Point, Scale, TransportName, library};
use spindle_lab::driver::{self, FlowOutcome, RunOutput, RunRequest};
use spindle_lab::pcap;

use super::{command, compare, print};
use crate::args::Trace;
use crate::failure::Failure;

/// The reading that is asked for, if any. It must be one of the paper that the experiment belongs to.
fn reading(args: &Trace) -> Result<Option<&'static Reading>, Failure> {
    let Some(name) = &args.reading else {
        return Ok(None);
    };
    let paper = library::find(&args.scenario).and_then(|b| b.paper);
    Ok(Some(readings::find(name, paper.as_slice())?))
}

pub(crate) fn trace(registry: &Registry, args: &Trace) -> Result<ExitCode, Failure> {
    let names = std::iter::once(args.transport.as_str()).chain(args.against.as_deref());
    let overrides = Overrides {
        set: args.set.clone(),
        loss: args.loss.clone(),
        flows: args.flows.clone(),
        seed: args.seed.clone(),
        transports: Some(names.collect::<Vec<_>>().join(",")),
        scale: scale(args),
        reading: reading(args)?,
        variation: args.vary,
        ..Overrides::default()
    };
    let experiment = compare::find(registry, &args.scenario, &overrides)?;
    let Some(point) = experiment.points.get(args.point) else {
        return Err(Failure::Usage(format!(
            "--point: found {}, want 0 to {}",
            args.point,
            experiment.points.len().saturating_sub(1)
        )));
    };
    let (part, parts) = part(args.part.as_deref())?;
    if let Some(dir) = &args.pcap {
        std::fs::create_dir_all(dir).map_err(|e| Failure::file(dir, "create", &e))?;
    }
    let run = |transport: &TransportName| {
        let mut request = RunRequest::new(&point.scenario, transport, registry);
        request.seed = experiment.seed;
        (request.part, request.parts) = (part, parts);
        request.record = args.flow;
        request.count_losses = args.flow.is_none();
        request.pcap = args.pcap.as_ref().map(|dir| {
            let number = format!("point{}-seed{}.{part}", args.point, experiment.seed);
            dir.join(pcap::file_name(&[
                &experiment.id,
                &transport.to_string(),
                &number,
            ]))
        });
        let output = driver::run(&request).map_err(|e| Failure::Other(e.to_string()))?;
        let trace = output.trace(&request);
        Ok::<_, Failure>((output, trace))
    };
    let mut transports = experiment.transports.iter();
    let Some(first) = transports.next() else {
        return Err(Failure::Usage("--transport: want a name".to_owned()));
    };
    let (output, trace) = run(first)?;
    let mut text = heading(&experiment, point, args);
    if let Some(dir) = &args.pcap {
        let _ = writeln!(text, "capture: {}", dir.display());
    }
    let Some(flow) = args.flow else {
        text.push_str(&slowest(&output, args.slowest));
        print(&text);
        return Ok(ExitCode::SUCCESS);
    };
    let Some(mut trace) = trace else {
        return Err(no_such_flow(flow, &output.flows));
    };
    text.push_str(&trace.to_text());
    if let Some(dir) = &args.report {
        if let Some(other) = transports.next() {
            trace.compare_with = run(other)?.1.map(Box::new);
        }
        let page = spindle_report::write_flow(&trace, dir, "index.html", &command(), None)
            .map_err(|e| Failure::Other(e.to_string()))?;
        let _ = writeln!(text, "report: {}", page.display());
    }
    print(&text);
    Ok(ExitCode::SUCCESS)
}

fn scale(args: &Trace) -> Option<Scale> {
    match (args.quick, args.full, args.paper_scale) {
        (true, ..) => Some(Scale::Quick),
        (_, true, _) => Some(Scale::Full),
        (.., true) => Some(Scale::Paper),
        _ => None,
    }
}

/// Reads `K/N`: part K, from 0, of N.
fn part(text: Option<&str>) -> Result<(u64, u64), Failure> {
    let Some(text) = text else {
        return Ok((0, 1));
    };
    let pair = text.split_once('/');
    let pair = pair.and_then(|(k, n)| Some((k.parse::<u64>().ok()?, n.parse::<u64>().ok()?)));
    pair.filter(|(k, n)| k < n).ok_or_else(|| {
        Failure::Usage(format!(
            "--part: found \"{text}\", want K/N with K from 0 to below N, such as 3/10"
        ))
    })
}

fn heading(experiment: &Experiment, point: &Point, args: &Trace) -> String {
    let set: Vec<String> = point.set.iter().map(|(k, v)| format!("{k} {v}")).collect();
    let set = match set.is_empty() {
        true => String::new(),
        false => format!(" ({})", set.join(", ")),
    };
    let part = match &args.part {
        Some(part) => format!(", part {part}"),
        None => String::new(),
    };
    format!(
        "{}{set}, {}, seed {}{part}\n",
        experiment.id, args.transport, experiment.seed
    )
}

fn slowest(output: &RunOutput, most: usize) -> String {
    let mut text = "    flow      bytes   completion us  losses  timeouts  recoveries\n".to_owned();
    for i in output.slowest().into_iter().take(most) {
        let f = &output.flows[i];
        let time = f
            .fct_ns
            .map_or("never".to_owned(), |ns| format!("{:.1}", ns as f64 / 1e3));
        let _ = writeln!(
            text,
            "{i:8} {:10} {time:>15} {:7} {:9} {:11}",
            f.bytes, f.losses, f.timeouts, f.recoveries
        );
    }
    text
}

fn no_such_flow(flow: u32, flows: &[FlowOutcome]) -> Failure {
    Failure::Usage(match flows.get(flow as usize) {
        None => format!(
            "--flow: found {flow}, want 0 to {}",
            flows.len().saturating_sub(1)
        ),
        Some(_) => format!("--flow: flow {flow} did not complete; choose another"),
    })
}

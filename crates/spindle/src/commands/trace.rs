//! `spindle trace`: single flows of an experiment's first point, in one run of all its flows.

use std::cmp::Reverse;
use std::fmt::Write as _;
use std::process::ExitCode;

use spindle_lab::driver::{self, FlowOutcome, RunRequest};
use spindle_lab::experiment::{Experiment, Overrides};
use spindle_lab::registry::Registry;

use super::{compare, print};
use crate::args::Trace;
use crate::failure::Failure;

pub(crate) fn trace(registry: &Registry, args: &Trace) -> Result<ExitCode, Failure> {
    let overrides = Overrides {
        set: args.set.clone(),
        loss: args.loss.clone(),
        flows: args.flows.clone(),
        seed: args.seed.clone(),
        transports: Some(args.transport.clone()),
        ..Overrides::default()
    };
    let experiment = compare::find(registry, &args.scenario, &overrides)?;
    let (Some(point), Some(transport)) = (experiment.points.first(), experiment.transports.first())
    else {
        return Err(Failure::Usage(format!(
            "{}: no point to run",
            args.scenario
        )));
    };
    let mut request = RunRequest::new(&point.scenario, transport, registry);
    request.seed = experiment.seed;
    request.record = args.flow;
    request.count_losses = args.flow.is_none();
    let output = driver::run(&request).map_err(|e| Failure::Other(e.to_string()))?;
    let mut text = heading(&experiment, args);
    match args.flow {
        None => text.push_str(&slowest(&output.flows, args.slowest)),
        Some(flow) => match output.trace(&request) {
            Some(trace) => text.push_str(&trace.to_text()),
            None => return Err(no_such_flow(flow, &output.flows)),
        },
    }
    print(&text);
    Ok(ExitCode::SUCCESS)
}

fn heading(experiment: &Experiment, args: &Trace) -> String {
    let set = experiment.points.first().map_or(&[][..], |p| &p.set);
    let set: Vec<String> = set.iter().map(|(k, v)| format!("{k} {v}")).collect();
    let point = match set.is_empty() {
        true => String::new(),
        false => format!(" ({})", set.join(", ")),
    };
    format!(
        "{}{point}, {}, seed {}\n",
        experiment.id, args.transport, experiment.seed
    )
}

fn slowest(flows: &[FlowOutcome], most: usize) -> String {
    let mut order: Vec<usize> = (0..flows.len()).filter(|i| !flows[*i].background).collect();
    let time = |i: &usize| flows[*i].fct_ns.unwrap_or(u64::MAX);
    order.sort_by_key(|i| (Reverse(time(i)), *i));
    let mut text = "    flow      bytes   completion us  losses  timeouts  recoveries\n".to_owned();
    for i in order.into_iter().take(most) {
        let f = &flows[i];
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

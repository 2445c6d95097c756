//! One run of one transport, for tests that look at its result.

use spindle_experiment::metrics::RunResult;
use spindle_experiment::registry::Registry;
use spindle_lab::driver::{RunRequest, run};

use crate::support::experiment;

/// One run of an experiment whose file has these lines.
pub(crate) fn run_once(transport: &str, text: &str, seed: u64) -> RunResult {
    let experiment = experiment(transport, text);
    let registry = Registry::standard();
    let scenario = &experiment.points[0].scenario;
    let mut request = RunRequest::new(scenario, &experiment.transports[0], &registry);
    request.seed = seed;
    run(&request).unwrap().result
}

//! Single runs of an experiment: which runs there are, what identifies each, and how a run is made.

use spindle_experiment::identity::RunIdentity;
use spindle_experiment::metrics::RunResult;
use spindle_experiment::registry::Registry;
use spindle_experiment::rng::hash64;
use spindle_experiment::{Experiment, TransportName};

use spindle_experiment::results::{RunKey, keys};

use super::Options;
use crate::driver::{self, RunError, RunRequest};

/// A run of an experiment.
#[derive(Clone, Debug)]
pub struct Job {
    /// The point's number in [`Experiment::points`].
    pub point: usize,
    /// The transport.
    pub transport: TransportName,
    /// The run's key.
    pub key: RunKey,
    /// The version of its result ([`Registry::version`]).
    pub version: &'static str,
}

/// All runs of an experiment in the order of point, transport, seed and part. Transports that only the testbed
/// runs are left out.
///
/// # Errors
/// A transport that does not exist.
pub fn jobs(
    experiment: &Experiment,
    registry: &Registry,
    payload: Option<&[u8]>,
) -> Result<Vec<Job>, RunError> {
    let mut jobs = Vec::new();
    for (index, point) in experiment.points.iter().enumerate() {
        for name in simulated(experiment) {
            let config = match point.is_computed() {
                true => String::new(),
                false => configuration(registry, name)?,
            };
            let payload = payload.unwrap_or_default();
            let hash = hash64(&[&point.hash.to_le_bytes(), config.as_bytes(), payload]);
            jobs.extend(keys(experiment, name, hash).map(|key| Job {
                point: index,
                transport: name.clone(),
                key,
                version: registry.version(),
            }));
        }
    }
    Ok(jobs)
}

/// The experiment's transports without those that only the testbed runs.
pub(super) fn simulated(experiment: &Experiment) -> impl Iterator<Item = &TransportName> {
    experiment.transports.iter().filter(|t| !t.needs_testbed())
}

/// What a transport consists of.
fn configuration(registry: &Registry, name: &TransportName) -> Result<String, RunError> {
    let transport = registry.find(&name.transport);
    Ok(transport
        .ok_or_else(|| RunError::Transport(registry.no_such_transport(&name.transport)))?
        .configuration())
}

impl Job {
    /// The identity of the result.
    pub(super) fn identity(&self) -> RunIdentity {
        RunIdentity {
            version: self.version.to_owned(),
            configuration: self.key.configuration.clone(),
        }
    }

    /// Makes the run in this thread, with the payload, captures and stop flag of `options`.
    ///
    /// # Errors
    /// See [`RunError`].
    pub fn run(
        &self,
        experiment: &Experiment,
        registry: &Registry,
        options: &Options,
    ) -> Result<RunResult, RunError> {
        let point = &experiment.points[self.point];
        if let Some(formula) = point.scenario.traffic.formula() {
            return Ok(RunResult {
                computed: formula.evaluate(&self.transport.transport),
                ..RunResult::default()
            });
        }
        let mut request = self.request(experiment, registry);
        request.payload = options.payload.clone();
        request.stop = options.stop.clone();
        let capture = |dir: &std::path::PathBuf| dir.join(self.capture_name(experiment));
        request.pcap = options.pcap.as_ref().map(capture);
        Ok(driver::run(&request)?.result)
    }

    /// The request to the driver for this run, with lengths only.
    pub fn request<'a>(
        &'a self,
        experiment: &'a Experiment,
        registry: &'a Registry,
    ) -> RunRequest<'a> {
        let scenario = &experiment.points[self.point].scenario;
        RunRequest {
            seed: self.key.seed,
            part: self.key.part,
            parts: self.key.parts,
            ..RunRequest::new(scenario, &self.transport, registry)
        }
    }

    fn capture_name(&self, experiment: &Experiment) -> String {
        let set = &experiment.points[self.point].set;
        let mut parts = vec![self.key.transport.clone()];
        parts.extend(set.iter().map(|(axis, value)| format!("{axis}={value}")));
        parts.push(format!("seed{}.{}", self.key.seed, self.key.part));
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        crate::pcap::file_name(&parts)
    }
}

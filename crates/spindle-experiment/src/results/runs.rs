//! The runs of an experiment, as plain data.

use serde::{Deserialize, Serialize};

use crate::file::Experiment;
use crate::identity::{RunIdentity, VERSION};
use crate::metrics::RunResult;
use crate::transport_name::TransportName;

/// Identifies a run among runs of the same version, across experiments.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RunKey {
    /// A hash of everything that determines the results except version, transport's name, seed and part: the
    /// point's interpreted scenario, what the transport consists of, and the payload.
    pub configuration: String,
    /// The transport's name.
    pub transport: String,
    /// The seed.
    pub seed: u64,
    /// Which part of the seed's flows, from 0.
    pub part: u64,
    /// The number of parts.
    pub parts: u64,
}

/// The runs of a transport at one point, in the order of seed and part. `configuration` is
/// [`RunKey::configuration`].
pub fn keys(
    experiment: &Experiment,
    transport: &TransportName,
    configuration: u64,
) -> impl Iterator<Item = RunKey> {
    let (parts, transport) = (experiment.parts(), transport.to_string());
    let seeds = experiment.seed..experiment.seed + experiment.seeds;
    let runs = seeds.flat_map(move |seed| (0..parts).map(move |part| (seed, part)));
    runs.map(move |(seed, part)| RunKey {
        configuration: format!("{configuration:016x}"),
        transport: transport.clone(),
        seed,
        part,
        parts,
    })
}

/// The runs of one transport at one point, in the order of seed and part.
#[derive(Clone, Debug)]
pub struct TransportRuns {
    /// The transport.
    pub name: TransportName,
    /// Its runs.
    pub runs: Vec<RunResult>,
    /// The identity of each run.
    pub origins: Vec<RunIdentity>,
    /// The identity that all runs should have.
    pub identity: RunIdentity,
}

impl TransportRuns {
    /// Runs that this version made with one configuration.
    pub fn here(name: TransportName, runs: Vec<RunResult>, configuration: &str) -> Self {
        let identity = RunIdentity::here(configuration);
        Self {
            name,
            origins: vec![identity.clone(); runs.len()],
            runs,
            identity,
        }
    }
}

/// All runs of an experiment.
#[derive(Clone, Debug)]
pub struct SweepResult {
    /// For each point of the experiment, its transports in order.
    pub points: Vec<Vec<TransportRuns>>,
    /// The real time that the sweep took, seconds.
    pub wall_s: f64,
    /// The number of runs taken from the store.
    pub resumed: usize,
    /// Each point's configuration hash.
    pub configurations: Vec<String>,
    /// [`Experiment::given_up`].
    pub given_up: f64,
}

impl SweepResult {
    /// The version of the runs, or the version of this program if there are none.
    pub fn version(&self) -> &str {
        let mut runs = self.points.iter().flatten();
        runs.next().map_or(VERSION, |t| &t.identity.version)
    }
}

/// Whether every flow of every run completed uncorrupted or was in progress at a configured end. Flows that
/// were given up are accepted up to the share that the experiment allows for each transport at each point.
pub fn all_well(result: &SweepResult) -> bool {
    let ends = |r: &RunResult| r.completed + r.cut_off + r.given_up == r.flows;
    let well = |r: &RunResult| ends(r) && r.bytes_corrupted == 0;
    result.points.iter().flatten().all(|t| {
        let sum = |f: fn(&RunResult) -> u64| t.runs.iter().map(f).sum::<u64>() as f64;
        t.runs.iter().all(well) && sum(|r| r.given_up) <= result.given_up * sum(|r| r.flows)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a result is well if `aborted` of 1000 flows are aborted, and `given_up` of these because nothing
    /// arrived.
    fn well(aborted: u64, given_up: u64, allowed: f64) -> bool {
        let run = RunResult {
            flows: 500,
            completed: 500,
            ..RunResult::default()
        };
        let other = RunResult {
            completed: 500 - aborted,
            aborted,
            given_up,
            ..run.clone()
        };
        let name = TransportName {
            transport: "tcp".to_owned(),
            balancer: None,
        };
        all_well(&SweepResult {
            points: vec![vec![TransportRuns::here(name, vec![run, other], "")]],
            wall_s: 0.0,
            resumed: 0,
            configurations: vec![String::new()],
            given_up: allowed,
        })
    }

    #[test]
    fn given_up_flows_are_accepted_up_to_the_allowed_share() {
        assert!(well(0, 0, 0.0));
        assert!(!well(1, 1, 0.0), "the experiment allows no given-up flows");
        assert!(well(10, 10, 0.01));
        assert!(!well(11, 11, 0.01), "more than the experiment allows");
        assert!(!well(2, 1, 0.01), "one flow was aborted for another reason");
    }
}

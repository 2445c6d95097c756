//! All rows of an experiment, one after the other on the same schedule.

use std::time::Instant as Wall;

use spindle_lab::experiment::{Experiment, TransportName};
use spindle_lab::registry::Registry;
use spindle_lab::sweep::{SweepResult, TransportRuns};
use spindle_units::Duration;

use crate::error::TestbedError;
use crate::fabric::LinkReport;
use crate::lateness::Lateness;
use crate::part::{Part, PartOutput};

/// How an experiment is run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// 99 of 100 packets may be delivered so late at most, else the result is invalid.
    pub late_bound: Duration,
}

impl Default for Options {
    /// A millisecond (1/5 of the smallest round trip that two cores keep up with, DESIGN section 8).
    fn default() -> Self {
        Self {
            late_bound: Duration::from_millis(1),
        }
    }
}

/// What real time did to one transport at one point.
#[derive(Clone, Debug)]
pub struct Row {
    /// The transport.
    pub name: TransportName,
    /// How late packets were.
    pub lateness: Lateness,
    /// Share of one core that the fabric's thread took.
    pub fabric_load: f64,
    /// Packets that a host's interface did not take.
    pub refused: u64,
    /// Whether packets were late by more than the bound.
    pub fell_behind: bool,
    /// The links of the last part.
    pub links: Vec<LinkReport>,
}

/// All rows.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The measurements as the lab has them.
    pub result: SweepResult,
    /// Per point, the rows.
    pub rows: Vec<Vec<Row>>,
}

/// Runs every combination of point, transport, seed and part; `progress` is told each row's name
/// before it starts.
///
/// # Errors
/// The first run that cannot be made.
pub fn run(
    experiment: &Experiment,
    registry: &Registry,
    options: &Options,
    mut progress: impl FnMut(&str),
) -> Result<Outcome, TestbedError> {
    let started = Wall::now();
    let (mut points, mut rows) = (Vec::new(), Vec::new());
    for point in &experiment.points {
        let (mut transports, mut of_point) = (Vec::new(), Vec::new());
        for name in &experiment.transports {
            let set: Vec<String> = point.set.iter().map(|(a, v)| format!(" {a}={v}")).collect();
            progress(&format!("{name}{}", set.concat()));
            let mut outputs = Vec::new();
            for seed in experiment.seed..experiment.seed + experiment.seeds {
                for part in 0..experiment.parts() {
                    let part = Part {
                        scenario: &point.scenario,
                        transport: name,
                        registry,
                        seed,
                        part,
                        parts: experiment.parts(),
                    };
                    outputs.push(part.run()?);
                }
            }
            of_point.push(row(name, &outputs, options));
            transports.push(TransportRuns {
                name: name.clone(),
                runs: outputs.into_iter().map(|o| o.result).collect(),
            });
        }
        points.push(transports);
        rows.push(of_point);
    }
    let hash = |p: &spindle_lab::experiment::Point| format!("{:016x}", p.hash);
    let result = SweepResult {
        points,
        wall_s: started.elapsed().as_secs_f64(),
        resumed: 0,
        configurations: experiment.points.iter().map(hash).collect(),
    };
    Ok(Outcome { result, rows })
}

fn row(name: &TransportName, outputs: &[PartOutput], options: &Options) -> Row {
    let mut lateness = Lateness::default();
    let (mut cpu, mut wall, mut refused) = (0.0, 0.0, 0);
    for output in outputs {
        let fabric = &output.real.fabric;
        lateness.add(&fabric.lateness);
        cpu += fabric.cpu_s;
        wall += fabric.wall_s;
        refused += fabric.refused;
    }
    Row {
        name: name.clone(),
        fell_behind: lateness.percentile(0.99) > options.late_bound.as_nanos(),
        lateness,
        fabric_load: cpu / f64::max(wall, 1e-9),
        refused,
        links: outputs
            .last()
            .map_or(Vec::new(), |o| o.real.fabric.links.clone()),
    }
}

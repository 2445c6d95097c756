//! The kind of traffic `ring`: each host sends to the next one, round after round.

use std::sync::Arc;

use spindle_experiment::ExperimentError;
use spindle_experiment::document::{Section, Size};
use spindle_experiment::traffic::{
    Plan, PlanError, PlanRequest, Traffic, TrafficKind, TrafficPlace, flow, sort_by_start,
};
use spindle_units::Duration;

/// What `spindle explain` prints.
pub(crate) const SUMMARY: &str = "each host sends to the next one, round after round";

/// In each round, all hosts send to the next one at once. The last host sends to the first.
#[derive(Debug)]
struct Ring {
    hosts: Vec<String>,
    bytes: u64,
    rounds: u32,
    every: Duration,
}

impl Traffic for Ring {
    fn plan(&self, request: &PlanRequest<'_>) -> Result<Plan, PlanError> {
        let members = request.numbers(&self.hosts)?;
        let mut flows = Vec::new();
        for round in 0..self.rounds {
            let at = self.every * u64::from(round);
            let next = members.iter().cycle().skip(1);
            let ends = members.iter().zip(next);
            flows.extend(ends.map(|(from, to)| flow(at, (*from, *to), self.bytes)));
        }
        sort_by_start(&mut flows);
        Ok(Plan {
            push: true,
            flows,
            ..Plan::default()
        })
    }
}

/// Reads `[traffic]` with `kind = "ring"`.
pub(crate) struct Kind;

impl TrafficKind for Kind {
    fn read(
        &self,
        section: &Section<'_>,
        place: &TrafficPlace<'_>,
    ) -> Result<Arc<dyn Traffic>, ExperimentError> {
        let hosts = place.hosts(section, "hosts")?;
        if hosts.len() < 2 {
            return Err(section.error("hosts", "found one host, want two or more"));
        }
        Ok(Arc::new(Ring {
            hosts,
            bytes: section.need::<Size>("size")?.0.max(1),
            rounds: section.or("rounds", 1)?,
            every: section.or("every", Duration::from_millis(10))?,
        }))
    }
}

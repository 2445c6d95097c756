//! The test `rto-bound`: the share of flows with a timeout against the bound of FUSO section 2.2.

use std::sync::Arc;

use super::{Claimed, Finding, Findings, Judge, Keys, ReadTest, Test};
use crate::bound::{packets, rto_bound};
use crate::catalog::Catalog;
use crate::document::ExperimentError;
use crate::scenario::Scenario;
use crate::units;

/// The share of flows with a timeout is at or above the bound of FUSO section 2.2 (mechanisms C3) for the
/// point's loss rate and fixed flow size. With `within`, it is above the bound by at most that share.
#[derive(Debug)]
struct Bound {
    /// The transport.
    of: String,
    /// The largest relative distance from the bound, if one is claimed.
    within: Option<f64>,
}

fn read(keys: &Keys<'_>) -> Result<Arc<dyn Test>, ExperimentError> {
    Ok(Arc::new(Bound {
        of: keys.text("of")?,
        within: keys.optional_quantity("within")?,
    }))
}

impl Test for Bound {
    fn transports(&self) -> Vec<&str> {
        vec![&self.of]
    }

    fn findings(&self, judge: &Judge<'_>) -> Findings {
        let compare = |point: &super::PointView<'_>| {
            let bound = point_bound(point.scenario)?;
            let pool = judge.pool(point, &self.of)?;
            let (hits, n) = pool.timeouts_of_flows();
            let found = judge.measure(pool)?;
            let claimed = match self.within {
                None => Claimed::Above(bound),
                Some(w) => Claimed::Range(bound, bound * (1.0 + w)),
            };
            let text = format!(
                "{}: {} ({hits} of {n}), bound {}",
                point.label(),
                judge.with_interval(&found),
                units::percent((bound * 1e6).round() / 1e6)
            );
            Ok(Finding::new(claimed, &found, text).at(point, judge.metric))
        };
        judge.points.iter().map(compare).collect()
    }

    fn has_rto_bound(&self) -> bool {
        true
    }
}

/// The bound of mechanisms C3 for a scenario with one Bernoulli loss and one fixed size.
pub fn point_bound(scenario: &Scenario) -> Result<f64, String> {
    let rate = scenario.loss.first().map(|l| l.model.independent_rate());
    let Some(Some(p)) = rate else {
        return Err("the bound needs one Bernoulli loss".to_owned());
    };
    let Some(bytes) = scenario.traffic.mean_response() else {
        return Err("the bound needs request traffic".to_owned());
    };
    Ok(rto_bound(
        p,
        packets(bytes as u64, u64::from(scenario.host.mss)),
    ))
}

pub(super) fn register(catalog: &mut Catalog<ReadTest>) {
    let summary = "the share of flows with a timeout reaches the bound of FUSO section 2.2";
    catalog.add("rto-bound", summary, Arc::new(read));
}

//! `gilbert`: losses in bursts.

use std::sync::Arc;

use spindle_fabric::{Loss as LinkLoss, NetworkError};
use spindle_units::Probability;

use super::{LossModel, LossPlace, ReadLossModel, Result};
use crate::catalog::Catalog;
use crate::document::{Section, Share};

/// Two-state Gilbert: all packets are lost in the bad state, none in the good one.
#[derive(Clone, Copy, Debug)]
struct Gilbert {
    /// Share of packets lost in the long run.
    rate: f64,
    /// Mean number of packets in the bad state.
    burst: f64,
}

impl LossModel for Gilbert {
    fn process(&self) -> std::result::Result<LinkLoss, NetworkError> {
        // The share was checked when it was read.
        let rate = Probability::new(self.rate).unwrap_or(Probability::ZERO);
        LinkLoss::gilbert_elliott(rate, self.burst)
    }
}

fn read(s: &Section<'_>, _: &LossPlace<'_>) -> Result<Arc<dyn LossModel>> {
    let rate = s.need::<Share>("rate")?.0;
    let burst = s.or("burst", 3.0)?;
    // The probability of leaving the good state must be at most 1.
    if burst < 1.0 || rate >= 1.0 || rate / (1.0 - rate) / burst > 1.0 {
        let problem = format!(
            "found {burst} at rate {rate}, want a mean burst of 1 packet or more, and at least rate/(1-rate)"
        );
        return Err(s.error("burst", problem));
    }
    Ok(Arc::new(Gilbert { rate, burst }))
}

pub(super) fn register(catalog: &mut Catalog<ReadLossModel>) {
    let summary = "packets are lost in bursts (two-state Gilbert)";
    catalog.add("gilbert", summary, Arc::new(read));
}

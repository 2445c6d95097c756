//! `gilbert-time`: losses in bursts that last in time.

use std::sync::Arc;

use spindle_fabric::{GilbertTime as Chain, Loss as LinkLoss, NetworkError};
use spindle_units::{Duration, Probability};

use super::{LossModel, LossPlace, ReadLossModel, Result};
use crate::catalog::Catalog;
use crate::document::{Section, Share};

/// A two-state Gilbert-Elliott chain in continuous time.
#[derive(Clone, Debug)]
struct GilbertTime(Chain);

impl LossModel for GilbertTime {
    fn process(&self) -> std::result::Result<LinkLoss, NetworkError> {
        LinkLoss::gilbert_time(self.0.clone())
    }
}

fn read(s: &Section<'_>, _: &LossPlace<'_>) -> Result<Arc<dyn LossModel>> {
    let share = |found: Share| Probability::new(found.0).unwrap_or(Probability::ZERO);
    let rate = share(s.need::<Share>("rate")?);
    let bad = s.need::<Duration>("bad")?;
    let in_good = share(s.or("loss_in_good", Share(0.0))?);
    let in_bad = share(s.or("loss_in_bad", Share(1.0))?);
    if bad < Chain::LEAST_MEAN {
        let problem = format!(
            "found {bad}, want a mean time of {} or more",
            Chain::LEAST_MEAN
        );
        return Err(s.error("bad", problem));
    }
    Chain::with_rate(rate, bad, (in_good, in_bad))
        .map(|chain| Arc::new(GilbertTime(chain)) as Arc<dyn LossModel>)
        .map_err(|e| s.error("rate", e.to_string()))
}

pub(super) fn register(catalog: &mut Catalog<ReadLossModel>) {
    let summary = "packets are lost in bursts that last in time (two-state Gilbert-Elliott)";
    catalog.add("gilbert-time", summary, Arc::new(read));
}

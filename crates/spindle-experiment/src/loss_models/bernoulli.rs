//! `bernoulli`: independent losses.

use std::sync::Arc;

use spindle_fabric::{Loss as LinkLoss, NetworkError};
use spindle_units::Probability;

use super::{LossModel, LossPlace, ReadLossModel, Result};
use crate::catalog::Catalog;
use crate::document::{Section, Share};

/// Each packet is lost independently with this probability, 0 to 1.
#[derive(Clone, Copy, Debug)]
pub struct Bernoulli(pub f64);

/// The process that loses each packet independently with the probability `rate`. A rate outside 0 to 1 loses
/// nothing.
pub fn bernoulli(rate: f64) -> LinkLoss {
    LinkLoss::bernoulli(Probability::new(rate).unwrap_or(Probability::ZERO))
}

impl LossModel for Bernoulli {
    fn process(&self) -> std::result::Result<LinkLoss, NetworkError> {
        Ok(bernoulli(self.0))
    }

    fn independent_rate(&self) -> Option<f64> {
        Some(self.0)
    }
}

pub(super) fn read(s: &Section<'_>, _: &LossPlace<'_>) -> Result<Arc<dyn LossModel>> {
    Ok(Arc::new(Bernoulli(s.need::<Share>("rate")?.0)))
}

pub(super) fn register(catalog: &mut Catalog<ReadLossModel>) {
    let summary = "each packet is lost independently; what is used if no model is named";
    catalog.add("bernoulli", summary, Arc::new(read));
}

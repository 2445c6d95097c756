//! `none`: no traffic.

use std::sync::Arc;

use super::{OnlyInLab, Plan, PlanError, PlanRequest, Result, Traffic, TrafficKind, TrafficPlace};
use crate::catalog::Catalog;
use crate::document::Section;

/// No traffic: the run only makes its random draws, such as the lossy links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoTraffic;

impl Traffic for NoTraffic {
    fn plan(&self, _: &PlanRequest<'_>) -> std::result::Result<Plan, PlanError> {
        Ok(Plan::default())
    }

    fn only_in_lab(&self) -> Option<OnlyInLab> {
        let remedy = "want requests, incast or mix";
        Some(OnlyInLab::new("traffic", "none", remedy))
    }
}

struct Kind;

impl TrafficKind for Kind {
    fn read(&self, _: &Section<'_>, _: &TrafficPlace<'_>) -> Result<Arc<dyn Traffic>> {
        Ok(Arc::new(NoTraffic))
    }
}

pub(super) fn register(catalog: &mut Catalog<dyn TrafficKind>) {
    let summary = "no traffic: the run only makes its random draws, such as the lossy links";
    catalog.add("none", summary, Arc::new(Kind));
}

//! The test `not-checkable`: a claim that no run can check.

use std::sync::Arc;

use super::{Findings, Judge, Keys, ReadTest, Test};
use crate::catalog::Catalog;
use crate::document::ExperimentError;

/// The claim cannot be checked, for this reason.
#[derive(Debug)]
struct NotCheckable {
    reason: String,
}

fn read(keys: &Keys<'_>) -> Result<Arc<dyn Test>, ExperimentError> {
    let reason = keys.text("reason")?;
    Ok(Arc::new(NotCheckable { reason }))
}

impl Test for NotCheckable {
    fn transports(&self) -> Vec<&str> {
        Vec::new()
    }

    fn findings(&self, _: &Judge<'_>) -> Findings {
        Err(self.reason.clone())
    }

    fn not_checkable(&self) -> Option<&str> {
        Some(&self.reason)
    }
}

pub(super) fn register(catalog: &mut Catalog<ReadTest>) {
    let summary = "the claim cannot be checked, for the reason given";
    catalog.add("not-checkable", summary, Arc::new(read));
}

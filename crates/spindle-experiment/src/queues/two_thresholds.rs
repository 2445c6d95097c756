//! `two-thresholds`: packets that are not important are dropped earlier than important ones.

use std::sync::Arc;

use spindle_fabric::{Queueing, TwoThresholdsSettings};
use spindle_units::Bytes;

use super::{ReadQueue, Result};
use crate::catalog::Catalog;
use crate::document::{Section, Size};

fn read(s: &Section<'_>) -> Result<Queueing> {
    let Size(unimportant_above) = s.need("unimportant_above")?;
    if unimportant_above == 0 {
        let problem = "found 0, want room for one packet or more";
        return Err(s.error("unimportant_above", problem));
    }
    Ok(Queueing::two_thresholds(TwoThresholdsSettings {
        unimportant_above: Bytes(unimportant_above),
    }))
}

pub(super) fn register(catalog: &mut Catalog<ReadQueue>) {
    let summary = "drops unimportant packets above a first threshold (mechanisms A8.3)";
    catalog.add("two-thresholds", summary, Arc::new(read));
}

//! `reorder`: packets that are held back and overtaken.

use std::sync::Arc;

use spindle_fabric::{LinkSpec, Reorder as LinkReorder};
use spindle_units::Probability;

use super::jitter::time;
use super::{LinkProperty, ReadLinkProperty, Result};
use crate::catalog::Catalog;
use crate::document::{Section, Share};

/// A share of packets is held back.
#[derive(Clone, Debug)]
struct Reorder(LinkReorder);

impl LinkProperty for Reorder {
    fn apply(&self, link: &mut LinkSpec) {
        link.reorder = Some(self.0.clone());
    }
}

/// A table with the share of packets and their additional delay.
fn read(s: &Section<'_>) -> Result<Option<Arc<dyn LinkProperty>>> {
    let Some(table) = s.section("reorder")? else {
        return Ok(None);
    };
    let share = table.need::<Share>("share")?.0;
    let delay = time(&table, "delay", table.need("delay")?)?;
    table.finish()?;
    Ok(Some(Arc::new(Reorder(LinkReorder {
        // The share was checked when it was read.
        share: Probability::new(share).unwrap_or(Probability::ZERO),
        delay,
    }))))
}

pub(super) fn register(catalog: &mut Catalog<ReadLinkProperty>) {
    let summary = "a share of packets is held back and overtaken (mechanisms N3)";
    catalog.add("reorder", summary, Arc::new(read));
}

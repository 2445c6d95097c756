//! `numbered`: certain packets of a link.

use std::sync::Arc;

use spindle_fabric::{Loss as LinkLoss, NetworkError};

use super::{LossModel, LossPlace, ReadLossModel, Result};
use crate::catalog::Catalog;
use crate::document::Section;

/// The packets with these numbers on the link, counted from 1.
#[derive(Clone, Debug)]
struct Numbered(Vec<u64>);

impl LossModel for Numbered {
    fn process(&self) -> std::result::Result<LinkLoss, NetworkError> {
        LinkLoss::nth(self.0.iter().copied())
    }
}

fn read(s: &Section<'_>, _: &LossPlace<'_>) -> Result<Arc<dyn LossModel>> {
    let packets: Vec<u64> = s.list("packets")?.unwrap_or_default();
    match packets.contains(&0) {
        true => Err(s.error("packets", "found 0, want a number from 1")),
        false => Ok(Arc::new(Numbered(packets))),
    }
}

pub(super) fn register(catalog: &mut Catalog<ReadLossModel>) {
    let summary = "the packets with these numbers on each link are lost";
    catalog.add("numbered", summary, Arc::new(read));
}

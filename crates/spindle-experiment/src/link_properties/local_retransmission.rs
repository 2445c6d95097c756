//! `local_retransmission`: lost packets that the switch at the start of the link sends again.

use std::sync::Arc;

use spindle_fabric::{LinkSpec, LocalRetransmission as Mode};

use super::{LinkProperty, ReadLinkProperty, Result};
use crate::catalog::Catalog;
use crate::document::Section;

/// Lost packets are retransmitted on the link.
#[derive(Clone, Copy, Debug)]
struct LocalRetransmission(Mode);

impl LinkProperty for LocalRetransmission {
    fn apply(&self, link: &mut LinkSpec) {
        link.local_retransmission = Some(self.0);
    }
}

fn read(s: &Section<'_>) -> Result<Option<Arc<dyn LinkProperty>>> {
    let modes = [("ordered", Mode::Ordered), ("unordered", Mode::Unordered)];
    let mode = s.choice("local_retransmission", &modes)?;
    Ok(mode.map(|mode| Arc::new(LocalRetransmission(mode)) as Arc<dyn LinkProperty>))
}

pub(super) fn register(catalog: &mut Catalog<ReadLinkProperty>) {
    let summary = "lost packets are sent again on the link (LinkGuardian, mechanisms N4)";
    catalog.add("local_retransmission", summary, Arc::new(read));
}

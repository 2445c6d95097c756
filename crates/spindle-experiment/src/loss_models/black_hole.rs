//! `black-hole`: links that are down for a time.

use std::sync::Arc;

use spindle_fabric::{LinkId, Loss as LinkLoss, Network, NetworkError};
use spindle_units::{Duration, Instant};

use super::{LossModel, LossPlace, ReadLossModel, Result, outages};
use crate::catalog::Catalog;
use crate::document::Section;

/// Every packet between two times is lost: the link is down.
#[derive(Clone, Copy, Debug)]
struct BlackHole {
    /// Start of the outage. Time counts from the start of the run and includes the preparation of connections.
    from: Duration,
    /// End of the outage.
    until: Duration,
}

impl LossModel for BlackHole {
    fn process(&self) -> std::result::Result<LinkLoss, NetworkError> {
        Ok(LinkLoss::black_hole())
    }

    /// The links go down and up again. Packets without payload are lost as well.
    fn apply(
        &self,
        network: &mut Network,
        links: &[LinkId],
        _: bool,
    ) -> std::result::Result<(), NetworkError> {
        let at = |d: Duration| Instant::ZERO + d;
        let time = (at(self.from), at(self.until));
        network.configure(links, |spec| outages::add(spec, [time]))
    }
}

fn read(s: &Section<'_>, _: &LossPlace<'_>) -> Result<Arc<dyn LossModel>> {
    let (from, until) = (s.or("from", Duration::ZERO)?, s.or("until", Duration::MAX)?);
    if until <= from {
        return Err(s.error("until", "is not after from"));
    }
    Ok(Arc::new(BlackHole { from, until }))
}

pub(super) fn register(catalog: &mut Catalog<ReadLossModel>) {
    let summary = "the links are down between two times";
    catalog.add("black-hole", summary, Arc::new(read));
}

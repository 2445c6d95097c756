//! `dumbbell`: hosts on both sides of one bottleneck.

use std::sync::Arc;

use spindle_fabric::{Network, NetworkError, topology};
use spindle_units::BitRate;

use super::{LinkSettings, MAX_HOSTS, Topology, TopologyKind, count, rate};
use crate::catalog::Catalog;
use crate::document::{ExperimentError, Section};

const NAME: &str = "dumbbell";

/// Hosts S1.. on the left, as many hosts R1.. on the right, and one cable "bottleneck" between them.
#[derive(Clone, Debug)]
pub struct Dumbbell {
    /// Hosts on each side.
    pub pairs: u32,
    /// Rate of the bottleneck. The settings of links have the rate of the others.
    pub core_rate: BitRate,
}

impl Topology for Dumbbell {
    fn build(&self, links: &LinkSettings) -> Result<Network, NetworkError> {
        topology::Dumbbell {
            pairs: self.pairs,
            access_rate: links.host_rate(),
            bottleneck_rate: self.core_rate,
            access_delay: links.rtt / 6,
            bottleneck_delay: links.rtt / 6,
            switch_buffer: links.switch_port(),
            mark_above: links.mark_above(),
            host_buffer: links.host_port(),
            priorities: links.priorities,
        }
        .build()
    }
}

struct Kind;

impl TopologyKind for Kind {
    fn without(&self) -> &[&'static str] {
        &["host_ecn_threshold"]
    }

    fn read(
        &self,
        s: &Section<'_>,
        links: &LinkSettings,
    ) -> Result<Arc<dyn Topology>, ExperimentError> {
        Ok(Arc::new(Dumbbell {
            pairs: count(s, "pairs", 1, MAX_HOSTS / 2)?,
            core_rate: rate(s, "core_rate", links.rate)?,
        }))
    }
}

pub(super) fn register(catalog: &mut Catalog<dyn TopologyKind>) {
    let summary = "hosts S1.. and R1.. on the two sides of one bottleneck";
    catalog.add(NAME, summary, Arc::new(Kind));
}

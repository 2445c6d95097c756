//! `dumbbell`: hosts on both sides of one bottleneck.

use std::sync::Arc;

use spindle_fabric::{Network, NetworkError, topology};
use spindle_units::BitRate;

use super::{LinkSettings, MAX_HOSTS, Topology, TopologyKind, rate};
use crate::catalog::Catalog;
use crate::document::{ExperimentError, Section};

const NAME: &str = "dumbbell";

/// Hosts S1.. on the left, as many hosts R1.. on the right, and one cable "bottleneck" between them.
#[derive(Clone, Debug)]
pub struct Dumbbell {
    /// Hosts on each side.
    pub pairs: u32,
    /// All links. The rate of the bottleneck is separate.
    pub links: LinkSettings,
    /// Rate of the bottleneck.
    pub core_rate: BitRate,
}

impl Topology for Dumbbell {
    fn name(&self) -> &str {
        NAME
    }

    fn links(&self) -> &LinkSettings {
        &self.links
    }

    fn build(&self) -> Result<Network, NetworkError> {
        let links = &self.links;
        topology::Dumbbell {
            pairs: self.pairs,
            access_rate: links.rate,
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
        links: LinkSettings,
    ) -> Result<Arc<dyn Topology>, ExperimentError> {
        let pairs: u32 = s.or("pairs", 1)?;
        let most = MAX_HOSTS / 2;
        if pairs == 0 || pairs > most {
            return Err(s.error("pairs", format!("found {pairs}, want 1 to {most}")));
        }
        Ok(Arc::new(Dumbbell {
            pairs,
            links,
            core_rate: rate(s, "core_rate", links.rate)?,
        }))
    }
}

pub(super) fn register(catalog: &mut Catalog<dyn TopologyKind>) {
    let summary = "hosts S1.. and R1.. on the two sides of one bottleneck";
    catalog.add(NAME, summary, Arc::new(Kind));
}

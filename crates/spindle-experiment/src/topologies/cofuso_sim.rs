//! `cofuso-sim`: CoFUSO's simulation (mechanisms T4).

use std::sync::Arc;

use spindle_fabric::topology::Mesh;
use spindle_fabric::{Network, NetworkError};
use spindle_units::{BitRate, Duration};

use super::{Buffer, LinkSettings, Topology, TopologyKind};
use crate::catalog::Catalog;
use crate::document::{ExperimentError, Section};

const NAME: &str = "cofuso-sim";

/// H1-H10 on router R1, H11-H20 on R10, and R2-R5 meshed with R6-R9 between them.
#[derive(Clone, Debug)]
struct CoFusoSim;

impl Topology for CoFusoSim {
    fn build(&self, links: &LinkSettings) -> Result<Network, NetworkError> {
        Mesh {
            rate: links.rate,
            // A path from site to site has five links, ten for the round trip.
            delay: links.rtt / 10,
            switch_buffer: links.switch_port(),
            mark_above: links.mark_above(),
            host_buffer: links.host_port(),
            priorities: links.priorities,
            ..Mesh::default()
        }
        .build()
    }
}

struct Kind;

impl TopologyKind for Kind {
    /// Mechanisms T4.
    fn defaults(&self) -> LinkSettings {
        LinkSettings {
            rate: BitRate(300_000_000),
            rtt: Duration::from_millis(48),
            buffer: Buffer::Bytes(5_400_000),
            ecn_threshold: None,
            ..LinkSettings::default()
        }
    }

    fn without(&self) -> &[&'static str] {
        &["host_ecn_threshold", "host_speedup"]
    }

    fn read(
        &self,
        _: &Section<'_>,
        _: &LinkSettings,
    ) -> Result<Arc<dyn Topology>, ExperimentError> {
        Ok(Arc::new(CoFusoSim))
    }
}

pub(super) fn register(catalog: &mut Catalog<dyn TopologyKind>) {
    let summary = "ten hosts at each of two sites, meshed routers between them (mechanisms T4)";
    catalog.add(NAME, summary, Arc::new(Kind));
}

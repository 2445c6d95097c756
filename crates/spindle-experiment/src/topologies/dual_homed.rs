//! `dual-homed`: a client with several interfaces.

use std::sync::Arc;

use spindle_fabric::{Network, NetworkError, topology};
use spindle_units::BitRate;

use super::{LinkSettings, MAX_INTERFACES, Topology, TopologyKind, count, rate};
use crate::catalog::Catalog;
use crate::document::{ExperimentError, Section};

const NAME: &str = "dual-homed";

/// Host "client" with cables P1.. to a router, and host "server" with one cable.
#[derive(Clone, Debug)]
struct DualHomed {
    /// The client's cables.
    paths: u32,
    /// Rate of the server's cable. The settings of links have the rate of the client's cables.
    server_rate: BitRate,
}

impl Topology for DualHomed {
    fn build(&self, links: &LinkSettings) -> Result<Network, NetworkError> {
        topology::DualHomed {
            // A path has two links, four for the round trip.
            client_links: vec![(links.rate, links.rtt / 4); self.paths as usize],
            server_rate: self.server_rate,
            server_delay: links.rtt / 4,
            router_buffer: links.switch_port(),
            mark_above: links.mark_above(),
            host_buffer: links.host_port(),
        }
        .build()
    }
}

struct Kind;

impl TopologyKind for Kind {
    fn without(&self) -> &[&'static str] {
        &["host_ecn_threshold", "host_speedup", "priorities"]
    }

    fn read(
        &self,
        s: &Section<'_>,
        links: &LinkSettings,
    ) -> Result<Arc<dyn Topology>, ExperimentError> {
        Ok(Arc::new(DualHomed {
            paths: count(s, "paths", 2, MAX_INTERFACES)?,
            server_rate: rate(s, "server_rate", links.rate)?,
        }))
    }
}

pub(super) fn register(catalog: &mut Catalog<dyn TopologyKind>) {
    let summary = "a client with cables P1.. to a router, and a server with one cable";
    catalog.add(NAME, summary, Arc::new(Kind));
}

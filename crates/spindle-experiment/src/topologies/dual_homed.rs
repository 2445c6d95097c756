//! `dual-homed`: a client with several interfaces.

use std::sync::Arc;

use spindle_fabric::{Network, NetworkError, topology};
use spindle_units::BitRate;

use super::{LinkSettings, MAX_INTERFACES, Topology, TopologyKind, rate};
use crate::catalog::Catalog;
use crate::document::{ExperimentError, Section};

const NAME: &str = "dual-homed";

/// Host "client" with cables P1.. to a router, and host "server" with one cable.
#[derive(Clone, Debug)]
struct DualHomed {
    /// The client's cables.
    paths: u32,
    /// All links. The rate of the server's link is separate. The RTT is split over four links.
    links: LinkSettings,
    /// Rate of the server's cable.
    server_rate: BitRate,
}

impl Topology for DualHomed {
    fn name(&self) -> &str {
        NAME
    }

    fn links(&self) -> &LinkSettings {
        &self.links
    }

    fn build(&self) -> Result<Network, NetworkError> {
        let links = &self.links;
        topology::DualHomed {
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
        &["host_ecn_threshold", "priorities"]
    }

    fn read(
        &self,
        s: &Section<'_>,
        links: LinkSettings,
    ) -> Result<Arc<dyn Topology>, ExperimentError> {
        let paths: u32 = s.or("paths", 2)?;
        if paths == 0 || paths > MAX_INTERFACES {
            let problem = format!("found {paths}, want 1 to {MAX_INTERFACES}");
            return Err(s.error("paths", problem));
        }
        Ok(Arc::new(DualHomed {
            paths,
            links,
            server_rate: rate(s, "server_rate", links.rate)?,
        }))
    }
}

pub(super) fn register(catalog: &mut Catalog<dyn TopologyKind>) {
    let summary = "a client with cables P1.. to a router, and a server with one cable";
    catalog.add(NAME, summary, Arc::new(Kind));
}

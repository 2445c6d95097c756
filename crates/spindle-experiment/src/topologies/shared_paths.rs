//! `shared-paths`: clients with several interfaces that share bottlenecks.

use std::sync::Arc;

use spindle_fabric::{Network, NetworkError, topology};
use spindle_units::BitRate;

use super::{LinkSettings, MAX_HOSTS, MAX_INTERFACES, Topology, TopologyKind, count, rate};
use crate::catalog::Catalog;
use crate::document::{ExperimentError, Section};

const NAME: &str = "shared-paths";

/// Hosts c0.. with a cable to each of the paths P1.., which they share, and host "server" behind them.
#[derive(Clone, Debug)]
struct SharedPaths {
    clients: u32,
    paths: u32,
    /// Rate of the server's cable. The settings of links have the rate of the paths.
    server_rate: BitRate,
}

impl Topology for SharedPaths {
    fn build(&self, links: &LinkSettings) -> Result<Network, NetworkError> {
        // There are three links from a client to the server, six for the round trip.
        let delay = links.rtt / 6;
        topology::SharedPaths {
            clients: self.clients,
            paths: vec![(links.rate, delay); self.paths as usize],
            client_rate: links.host_rate(),
            server_rate: self.server_rate,
            host_delay: delay,
            switch_buffer: links.switch_port(),
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
        links: &LinkSettings,
    ) -> Result<Arc<dyn Topology>, ExperimentError> {
        Ok(Arc::new(SharedPaths {
            clients: count(s, "clients", 2, MAX_HOSTS - 1)?,
            paths: count(s, "paths", 2, MAX_INTERFACES)?,
            server_rate: rate(s, "server_rate", links.rate)?,
        }))
    }
}

pub(super) fn register(catalog: &mut Catalog<dyn TopologyKind>) {
    let summary = "clients c0.. that share the paths P1.., and a server behind them";
    catalog.add(NAME, summary, Arc::new(Kind));
}

//! `fat-tree`, and `fuso-sim`, the fat tree of FUSO's simulation (mechanisms T2).

use std::sync::Arc;

use spindle_fabric::{Network, NetworkError, topology};
use spindle_units::{BitRate, Duration};

use super::{Buffer, LinkSettings, MAX_HOSTS, Topology, TopologyKind, rate};
use crate::catalog::Catalog;
use crate::document::{ExperimentError, Section};

/// A k-ary fat tree of hosts h0..
#[derive(Clone, Debug)]
pub struct FatTree {
    /// Ports of a switch, an even number.
    pub k: u32,
    /// Hosts under each edge switch.
    pub hosts_per_edge: u32,
    /// Rate of the links between switches. The settings of links have the rate of the hosts'
    /// links.
    pub fabric_rate: BitRate,
}

impl Topology for FatTree {
    fn build(&self, links: &LinkSettings) -> Result<Network, NetworkError> {
        topology::FatTree {
            hosts_per_edge: self.hosts_per_edge,
            host_rate: links.host_rate(),
            fabric_rate: self.fabric_rate,
            // The longest path in a fat tree has six links, twelve for the round trip.
            delay: links.rtt / 12,
            switch_buffer: links.switch_port(),
            mark_above: links.mark_above(),
            host_buffer: links.host_port(),
            host_mark_above: links.host_mark_above(),
            priorities: links.priorities,
            ..topology::FatTree::reference(self.k)
        }
        .build()
    }

    /// The pod.
    fn place(&self, host: u32) -> Option<u32> {
        host.checked_div(self.k / 2 * self.hosts_per_edge)
    }
}

struct Kind;

impl TopologyKind for Kind {
    fn read(
        &self,
        s: &Section<'_>,
        links: &LinkSettings,
    ) -> Result<Arc<dyn Topology>, ExperimentError> {
        let k: u32 = s.or("k", 4)?;
        if k == 0 || k % 2 == 1 || k > 64 {
            let problem = format!("found {k}, want an even number of ports from 2 to 64");
            return Err(s.error("k", problem));
        }
        let hosts_per_edge: u32 = s.or("hosts_per_edge", k / 2)?;
        let most = MAX_HOSTS / (k * k / 2);
        if hosts_per_edge == 0 || hosts_per_edge > most {
            let problem = format!("found {hosts_per_edge}, want 1 to {most} with k = {k}");
            return Err(s.error("hosts_per_edge", problem));
        }
        Ok(Arc::new(FatTree {
            k,
            hosts_per_edge,
            fabric_rate: rate(s, "fabric_rate", links.rate)?,
        }))
    }
}

struct FusoSim;

impl TopologyKind for FusoSim {
    /// Mechanisms T2.
    fn defaults(&self) -> LinkSettings {
        LinkSettings {
            rate: BitRate(10_000_000_000),
            rtt: Duration::from_micros(240),
            buffer: Buffer::Bytes(1_000_000),
            ecn_threshold: Some(300_000),
            ..LinkSettings::default()
        }
    }

    fn read(
        &self,
        s: &Section<'_>,
        _: &LinkSettings,
    ) -> Result<Arc<dyn Topology>, ExperimentError> {
        Ok(Arc::new(FatTree {
            k: 4,
            hosts_per_edge: 8,
            fabric_rate: rate(s, "fabric_rate", BitRate(40_000_000_000))?,
        }))
    }
}

pub(super) fn register(catalog: &mut Catalog<dyn TopologyKind>) {
    let summary = "a k-ary fat tree of hosts h0..";
    catalog.add("fat-tree", summary, Arc::new(Kind));
}

pub(super) fn register_fuso_sim(catalog: &mut Catalog<dyn TopologyKind>) {
    let summary = "FUSO's simulation: a 4-ary fat tree of 64 hosts (mechanisms T2)";
    catalog.add("fuso-sim", summary, Arc::new(FusoSim));
}

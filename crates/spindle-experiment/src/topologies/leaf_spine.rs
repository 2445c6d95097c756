//! `leaf-spine`: two layers of switches.

use std::sync::Arc;

use spindle_fabric::{Network, NetworkError, topology};
use spindle_units::BitRate;

use super::{Buffer, LinkSettings, MAX_HOSTS, Topology, TopologyKind, count, rate};
use crate::catalog::Catalog;
use crate::document::{ExperimentError, Section};

const NAME: &str = "leaf-spine";

/// Hosts h0.. under leaf switches, each of which has a cable to every spine switch.
#[derive(Clone, Debug)]
pub struct LeafSpine {
    /// Leaf switches.
    pub leaves: u32,
    /// Spine switches. This is the number of paths between two leaves.
    pub spines: u32,
    /// Hosts under each leaf.
    pub hosts_per_leaf: u32,
    /// Rate of the links between leaves and spines. The settings of links have the rate of the hosts'
    /// links.
    pub fabric_rate: BitRate,
}

impl Topology for LeafSpine {
    fn build(&self, links: &LinkSettings) -> Result<Network, NetworkError> {
        topology::LeafSpine {
            leaves: self.leaves,
            spines: self.spines,
            hosts_per_leaf: self.hosts_per_leaf,
            host_rate: links.host_rate(),
            fabric_rate: self.fabric_rate,
            // A path from leaf to leaf has four links, eight for the round trip.
            delay: links.rtt / 8,
            switch_buffer: links.switch_port(),
            mark_above: links.mark_above(),
            host_buffer: links.host_port(),
            priorities: links.priorities,
        }
        .build()
    }

    /// The leaf.
    fn place(&self, host: u32) -> Option<u32> {
        host.checked_div(self.hosts_per_leaf)
    }
}

struct Kind;

impl TopologyKind for Kind {
    /// Mechanisms T5.
    fn defaults(&self) -> LinkSettings {
        LinkSettings {
            buffer: Buffer::Packets(256),
            ecn_threshold: None,
            ..LinkSettings::default()
        }
    }

    fn without(&self) -> &[&'static str] {
        &["host_ecn_threshold"]
    }

    fn read(
        &self,
        s: &Section<'_>,
        links: &LinkSettings,
    ) -> Result<Arc<dyn Topology>, ExperimentError> {
        // Mechanisms T5: 40 paths, and a host for each of 100 short and 4 long flows.
        let counts = [("leaves", 2), ("spines", 40), ("hosts_per_leaf", 104)];
        let mut found = [0; 3];
        for (n, (key, default)) in found.iter_mut().zip(counts) {
            *n = count(s, key, default, MAX_HOSTS)?;
        }
        let [leaves, spines, hosts_per_leaf] = found;
        for (key, n) in [("hosts_per_leaf", hosts_per_leaf), ("spines", spines)] {
            let most = MAX_HOSTS / leaves;
            if n > most {
                let problem = format!("found {n}, want 1 to {most} with {leaves} leaves");
                return Err(s.error(key, problem));
            }
        }
        Ok(Arc::new(LeafSpine {
            leaves,
            spines,
            hosts_per_leaf,
            fabric_rate: rate(s, "fabric_rate", links.rate)?,
        }))
    }
}

pub(super) fn register(catalog: &mut Catalog<dyn TopologyKind>) {
    let summary = "hosts h0.. under leaf switches with a cable to every spine (mechanisms T5)";
    catalog.add(NAME, summary, Arc::new(Kind));
}

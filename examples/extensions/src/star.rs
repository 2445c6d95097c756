//! The topology `star`: hosts h0.. on one switch.

use std::sync::Arc;

use spindle_experiment::ExperimentError;
use spindle_experiment::document::Section;
use spindle_experiment::topologies::{LinkSettings, MAX_HOSTS, Topology, TopologyKind};
use spindle_fabric::{Builder, LinkSpec, Network, NetworkError};

/// What `spindle explain` prints.
pub(crate) const SUMMARY: &str = "hosts h0.. on one switch";

/// Hosts on one switch.
#[derive(Debug)]
struct Star {
    hosts: u32,
}

impl Topology for Star {
    fn build(&self, links: &LinkSettings) -> Result<Network, NetworkError> {
        let mut builder = Builder::new("star");
        let switch = builder.switch("core", 1);
        // A path has two links, four for the round trip.
        let link = |buffer| LinkSpec::new(links.rate, links.rtt / 4, buffer);
        let (up, down) = (link(links.host_port()), link(links.switch_port()));
        for i in 0..self.hosts {
            let host = builder.host(format!("h{i}"));
            let cable = format!("h{i}.access");
            builder.cable(cable, "access", (host, switch), up.clone(), down.clone());
        }
        builder.build()
    }
}

/// Reads `[topology]` with `name = "star"`.
pub(crate) struct Kind;

impl TopologyKind for Kind {
    fn without(&self) -> &[&'static str] {
        &["ecn_threshold", "host_ecn_threshold", "priorities"]
    }

    fn read(
        &self,
        section: &Section<'_>,
        _: &LinkSettings,
    ) -> Result<Arc<dyn Topology>, ExperimentError> {
        let hosts: u32 = section.or("hosts", 8)?;
        if !(2..=MAX_HOSTS).contains(&hosts) {
            let problem = format!("found {hosts}, want 2 to {MAX_HOSTS}");
            return Err(section.error("hosts", problem));
        }
        Ok(Arc::new(Star { hosts }))
    }
}

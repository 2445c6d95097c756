//! `fuso-testbed`: FUSO's testbed (mechanisms T1).

use std::sync::Arc;

use spindle_fabric::{Network, NetworkError, topology};
use spindle_units::Duration;

use super::{LinkSettings, Topology, TopologyKind};
use crate::catalog::Catalog;
use crate::document::{ExperimentError, Section};

const NAME: &str = "fuso-testbed";

/// H1-H3 under one switch, H4-H6 under another, and three links P1-P3 between the switches.
#[derive(Clone, Debug)]
struct FusoTestbed;

impl Topology for FusoTestbed {
    fn build(&self, links: &LinkSettings) -> Result<Network, NetworkError> {
        topology::FusoTestbed {
            rate: links.rate,
            round_trip: links.rtt,
            switch_buffer: links.switch_port(),
            mark_above: links.mark_above(),
            host_buffer: links.host_port(),
            host_mark_above: links.host_mark_above(),
            priorities: links.priorities,
            ..topology::FusoTestbed::default()
        }
        .build()
    }
}

struct Kind;

impl TopologyKind for Kind {
    /// Mechanisms T1.
    fn defaults(&self) -> LinkSettings {
        LinkSettings {
            rtt: Duration::from_micros(280),
            ..LinkSettings::default()
        }
    }

    fn without(&self) -> &[&'static str] {
        &["host_speedup"]
    }

    fn read(
        &self,
        _: &Section<'_>,
        _: &LinkSettings,
    ) -> Result<Arc<dyn Topology>, ExperimentError> {
        Ok(Arc::new(FusoTestbed))
    }
}

pub(super) fn register(catalog: &mut Catalog<dyn TopologyKind>) {
    let summary = "two racks of three hosts, joined by the cables P1-P3 (mechanisms T1)";
    catalog.add(NAME, summary, Arc::new(Kind));
}

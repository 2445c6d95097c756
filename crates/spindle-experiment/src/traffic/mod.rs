//! The kinds of traffic that experiment files can name, and the plans that they make.
//!
//! Each kind of Spindle is one file of this folder, which registers itself in [`built_in`]. Other crates add
//! theirs with [`Registry::traffic_kind`](crate::registry::Registry::traffic_kind).
//!
//! A kind reads its keys and makes a [`Traffic`]. For each run, the traffic makes a [`Plan`]: which host requests
//! how much from which host, and when. A plan never depends on the transport. The lab and the testbed only
//! execute plans, so they do not know the kinds.

mod formula;
mod incast;
mod message;
mod mix;
mod none;
mod observe;
mod plan;
mod read;
mod requests;
mod trace;
mod transfers;

use std::any::Any;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use spindle_fabric::Network;

use crate::catalog::Catalog;
use crate::document::{ExperimentError, Section};
use crate::formula::Formula;
use crate::topologies::NamedTopology;
use crate::transport_name::KnownTransports;
use crate::workload::Sizes;

pub use incast::Incast;
pub use message::MessagePlan;
pub use mix::{BurstTimes, LongFlows, Matching, Mix, Pairs, Starts};
pub use none::NoTraffic;
pub use observe::Observe;
pub use plan::{
    Ask, FirstPath, Plan, PlanError, PlanRequest, PlannedFlow, Role, Start, flow, sort_by_start,
};
pub use read::{load, observe};
pub use requests::{Arrivals, Background, Connections, Pairing, Requests};
pub use trace::Trace;
pub use transfers::{Draw, TrafficMatrix, TransferArrivals, Transfers};

type Result<T> = std::result::Result<T, ExperimentError>;

/// The traffic of a scenario.
///
/// Its `Debug` text must contain everything that determines the traffic: points of a sweep with the same text
/// share their results.
pub trait Traffic: Any + fmt::Debug + Send + Sync {
    /// Flows per transport and seed that can be split over several runs. It is 1 if a run cannot be split,
    /// because its flows share the network at the same time.
    fn flows(&self) -> u64 {
        1
    }

    /// How much traffic a seed has, as the file states it: "300 flows", "10 rounds", "6s".
    fn size(&self) -> String {
        format!("{} flows", self.flows())
    }

    /// Plans the flows of a run. The plan must depend on nothing but the traffic and the request.
    ///
    /// # Errors
    /// See [`PlanError`].
    fn plan(&self, request: &PlanRequest<'_>) -> std::result::Result<Plan, PlanError>;

    /// Whether runs have the item with this name: one of
    /// [`Observe::NAMES`]. It must agree with [`Plan::observe`].
    fn observes(&self, what: &str) -> bool {
        let _ = what;
        false
    }

    /// The same traffic at `factor` times the load: flows start `factor` times as often. `None` if starts do not have a
    /// rate, such as those of clients that wait for their last response.
    fn at_load(&self, factor: f64) -> Option<Arc<dyn Traffic>> {
        let _ = factor;
        None
    }

    /// Mean size of a response in bytes, if the flows are independent requests.
    fn mean_response(&self) -> Option<f64> {
        None
    }

    /// Whether some flows keep hosts busy during the whole run.
    fn keeps_hosts_busy(&self) -> bool {
        false
    }

    /// The number of long flows, if it is known in advance: the traffic declares them, and all other flows have
    /// less than `short_below` bytes.
    fn long_flows(&self, short_below: Option<u64>) -> Option<u32> {
        let _ = short_below;
        None
    }

    /// What only the lab supports, if the testbed cannot execute this traffic.
    fn only_in_lab(&self) -> Option<OnlyInLab> {
        None
    }

    /// The formula, if the point is computed and not run.
    fn formula(&self) -> Option<&Formula> {
        None
    }
}

/// A setting of traffic that only the lab supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnlyInLab {
    /// The setting.
    pub parameter: &'static str,
    /// Its value.
    pub found: &'static str,
    /// What to use instead, and why.
    pub remedy: &'static str,
}

impl OnlyInLab {
    /// The setting `parameter` with the value `found`. `remedy` is what to use instead.
    pub const fn new(parameter: &'static str, found: &'static str, remedy: &'static str) -> Self {
        Self {
            parameter,
            found,
            remedy,
        }
    }
}

/// What is known when traffic is read.
#[derive(Clone, Copy, Debug)]
pub struct TrafficPlace<'a> {
    /// The topology.
    pub topology: &'a NamedTopology,
    /// Its network.
    pub network: &'a Network,
    /// Directory that relative paths in the file start from.
    pub directory: &'a Path,
    /// The transports that the file may name.
    pub transports: KnownTransports<'a>,
    /// The size distributions that the file may name.
    pub workloads: &'a Catalog<Sizes>,
}

/// Reads traffic from the table `[traffic]` of an experiment file.
pub trait TrafficKind: Send + Sync {
    /// Whether the points are computed and not run. They have no network, no losses and no settings of hosts.
    fn is_computed(&self) -> bool {
        false
    }

    /// Reads the kind's own keys.
    ///
    /// # Errors
    /// A value that is out of range.
    fn read(&self, section: &Section<'_>, place: &TrafficPlace<'_>) -> Result<Arc<dyn Traffic>>;
}

/// The kinds of traffic that come with Spindle.
pub fn built_in() -> Catalog<dyn TrafficKind> {
    let mut catalog = Catalog::new("kind of traffic");
    for register in [
        requests::register,
        incast::register,
        none::register,
        transfers::register,
        mix::register,
        trace::register,
        formula::register,
    ] {
        register(&mut catalog);
    }
    catalog
}

/// Reads `[traffic]`.
///
/// # Errors
/// A name that is not in the catalog, or a value that the kind does not accept.
pub fn read(
    section: Section<'_>,
    place: &TrafficPlace<'_>,
    catalog: &Catalog<dyn TrafficKind>,
) -> Result<Arc<dyn Traffic>> {
    let Some(entry) = catalog.choice(&section, "kind")? else {
        let names: Vec<&str> = catalog.names().collect();
        let problem = format!("missing, want one of {}", names.join(", "));
        return Err(section.error("kind", problem));
    };
    let traffic = entry.item.read(&section, place)?;
    section.finish()?;
    Ok(traffic)
}

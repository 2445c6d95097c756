//! One point of an experiment with every value resolved: network, loss, traffic, host settings.

use std::fmt;
use std::sync::Arc;

use spindle_mptcp::Variant;
use spindle_mptcp::congestion::ControllerFactory;
use spindle_units::Duration;

use crate::bystanders::{BYSTANDERS, Bystanders};
pub use crate::formula::Formula;
pub use crate::link_properties::{LinkProperties, LinkProperty};
pub use crate::link_traces::TracedLinks;
pub use crate::loss_models::{Direction, Loss, LossModel, ResponseLoss};
pub use crate::queues::PortQueue;
use crate::rng::Streams;
pub use crate::topologies::{Buffer, LinkSettings, NamedTopology, Topology};
pub use crate::traffic::{
    Arrivals, Ask, Background, BurstTimes, Connections, Draw, FirstPath, Incast, LongFlows,
    Matching, Mix, NoTraffic, Observe, Pairing, Pairs, Requests, Starts, Traffic, TrafficMatrix,
    TransferArrivals, Transfers,
};
use crate::traffic::{Plan, PlanError, PlanRequest};

/// Everything about a run except the transport and the seed.
#[derive(Clone)]
pub struct Scenario {
    /// The network.
    pub topology: NamedTopology,
    /// Properties of some of its links.
    pub links: Vec<LinkProperties>,
    /// The processes that lose packets in it.
    pub loss: Vec<Loss>,
    /// The queue disciplines at ports.
    pub queues: Vec<PortQueue>,
    /// Links whose rate and delay follow a trace.
    pub link_traces: Vec<TracedLinks>,
    /// Switches with shorter queues, if any.
    pub hotspots: Option<Hotspots>,
    /// What is sent.
    pub traffic: Arc<dyn Traffic>,
    /// The flows that use another transport, if any.
    pub bystanders: Option<Bystanders>,
    /// How hosts are set up, whatever the transport.
    pub host: HostSettings,
    /// Name of the balancer that every switch uses.
    pub balancer: String,
}

/// The text without properties of links, queue disciplines, traces and bystanders is that of the scenario's first version, so that points keep their hashes.
impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("Scenario");
        text.field("topology", &self.topology)
            .field("loss", &self.loss)
            .field("hotspots", &self.hotspots)
            .field("traffic", &self.traffic)
            .field("host", &self.host)
            .field("balancer", &self.balancer);
        if !self.links.is_empty() {
            text.field("links", &self.links);
        }
        if !self.queues.is_empty() {
            text.field("queues", &self.queues);
        }
        if !self.link_traces.is_empty() {
            text.field("link_traces", &self.link_traces);
        }
        if let Some(bystanders) = &self.bystanders {
            text.field("bystanders", bystanders);
        }
        text.finish()
    }
}

impl Scenario {
    /// Plans part `part` of `parts` of the scenario's traffic. `hosts` are the topology's host names in the order
    /// of their numbers.
    ///
    /// # Errors
    /// [`PlanError::Host`] for a name that the topology does not have. [`PlanError::Alone`] if a host has no
    /// partner. [`PlanError::PartOfGroup`] if bystanders would be measured together with others.
    pub fn plan(
        &self,
        hosts: &[String],
        streams: &Streams,
        part: u64,
        parts: u64,
    ) -> Result<Plan, PlanError> {
        let mut plan = self.traffic.plan(&PlanRequest {
            topology: &self.topology,
            short_below: self.host.short_below,
            hosts,
            streams,
            part,
            parts,
        })?;
        if let Some(bystanders) = &self.bystanders {
            bystanders.draw(&mut plan, streams)?;
        }
        Ok(plan)
    }

    /// Whether runs have the item with this name, which metrics [need](crate::metrics::MetricSpec::needs).
    pub fn observes(&self, what: &str) -> bool {
        match what {
            BYSTANDERS => self.bystanders.is_some(),
            what => self.traffic.observes(what),
        }
    }
}

/// What an experiment file must contain so that runs have the item `what` ([`Scenario::observes`]).
pub(crate) fn wanted(what: &str) -> String {
    match what {
        BYSTANDERS => format!("a table [{BYSTANDERS}]"),
        what => format!("traffic.observe = [\"{what}\"]"),
    }
}

/// Switches with shorter queues in their ports and in the ports that lead to them (MMPTCP section 3.4).
#[derive(Clone, Debug, PartialEq)]
pub struct Hotspots {
    /// The hotspots are drawn from the switches whose names begin with this text.
    pub among: String,
    /// Share of these switches, rounded to a whole number of them. They are drawn for each run.
    pub share: f64,
    /// Queue size of their ports.
    pub buffer: Buffer,
}

/// Host settings that belong to the scenario and hold for every transport.
#[derive(Clone, Debug, PartialEq)]
pub struct HostSettings {
    /// Largest segment in payload bytes without options.
    pub mss: u32,
    /// Initial window in segments, over all subflows or on each subflow.
    pub initial_window: Window,
    /// Lower limit of the retransmission timeout.
    pub min_rto: Duration,
    /// Retransmission timeout before the first RTT measurement.
    pub initial_rto: Duration,
    /// Whether hosts use ECN. The congestion controller determines whether it is classic ECN or DCTCP's.
    pub ecn: bool,
    /// Send buffer of a connection, bytes.
    pub send_buffer: u64,
    /// Receive buffer of a connection, bytes.
    pub receive_buffer: u64,
    /// Payload bytes of a subflow that may wait in its host's own port. If `None`, only the window limits them.
    pub output_limit: Option<u64>,
    /// Delay of acknowledgements. If `None`, each segment is acknowledged at once.
    pub delayed_ack: Option<Duration>,
    /// Whether timestamps are offered (RFC 7323).
    pub timestamps: bool,
    /// Upper limit of cwnd in segments.
    pub max_window: Option<u32>,
    /// Initial slow-start threshold in bytes. If `None`, it is unlimited.
    pub initial_ssthresh: Option<u64>,
    /// Longest time between the openings of two subflows. If `None`, it is the preset's own.
    pub join_spacing: Option<Duration>,
    /// Paths that each host remembers between connections (RFC 9040). 0 for none.
    pub remembered_paths: u32,
    /// Time without progress after which a connection is given up.
    pub user_timeout: Duration,
    /// Maximum segment lifetime. A closed connection stays in TIME-WAIT for twice as long (RFC 9293, section
    /// 3.6.1).
    pub msl: Duration,
    /// The congestion controller of every subflow. If `None`, it is the preset's own.
    pub congestion: Option<Arc<dyn ControllerFactory>>,
    /// Variants of every transport that has what they change.
    pub variants: HostVariants,
    /// Flows of fewer bytes are short. Both ends mark the packets of a short flow with the code point AF21,
    /// which is used by ports with priorities and by switches that distinguish flows (CAPS section VII, Alg. 1,
    /// s_L; mechanisms A4.1). `None` disables marking.
    pub short_below: Option<u64>,
}

/// Variants that a scenario applies to every transport. Only their names identify a scenario.
#[derive(Clone, Default)]
pub struct HostVariants(pub Vec<Variant>);

impl HostVariants {
    fn names(&self) -> Vec<&str> {
        self.0.iter().map(Variant::name).collect()
    }
}

impl fmt::Debug for HostVariants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.names().fmt(f)
    }
}

impl PartialEq for HostVariants {
    fn eq(&self, other: &Self) -> bool {
        self.names() == other.names()
    }
}

/// The initial window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// This many segments over all subflows.
    Total(u32),
    /// This many segments on each subflow.
    PerSubflow(u32),
}

impl Default for HostSettings {
    /// The values of T1 (mechanisms B0). Timestamps are off, so that a full packet is 1500 B.
    fn default() -> Self {
        Self {
            mss: 1460,
            initial_window: Window::Total(16),
            min_rto: Duration::from_millis(5),
            initial_rto: Duration::from_secs(1),
            ecn: true,
            send_buffer: 4 << 20,
            receive_buffer: 4 << 20,
            output_limit: None,
            delayed_ack: None,
            timestamps: false,
            max_window: None,
            initial_ssthresh: None,
            join_spacing: None,
            remembered_paths: 0,
            user_timeout: Duration::from_secs(60),
            msl: Duration::from_secs(60),
            congestion: None,
            variants: HostVariants::default(),
            short_below: None,
        }
    }
}

//! One point of an experiment with every value resolved: network, loss, traffic, host settings.

mod mix;

use std::sync::Arc;

use spindle_mptcp::congestion::ControllerFactory;
use spindle_units::{BitRate, Duration};

pub use mix::{BurstTimes, LongFlows, Matching, Mix, Pairs, Starts};

pub use crate::formula::Formula;
pub use crate::loss_models::{Direction, Loss, LossModel, ResponseLoss};
pub use crate::topologies::{Buffer, LinkSettings, NamedTopology, Topology};
use crate::workload::SizeSampler;

/// Everything about a run except the transport and the seed.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The network.
    pub topology: NamedTopology,
    /// The processes that lose packets in it.
    pub loss: Vec<Loss>,
    /// Switches with shorter queues, if any.
    pub hotspots: Option<Hotspots>,
    /// What is sent.
    pub traffic: Traffic,
    /// How hosts are set up, whatever the transport.
    pub host: HostSettings,
    /// Name of the balancer that every switch uses.
    pub balancer: String,
}

/// The traffic of a scenario.
#[derive(Clone, Debug, PartialEq)]
pub enum Traffic {
    /// No traffic: the run only makes its random draws, such as the lossy links.
    None,
    /// Clients send requests to servers and wait for the responses.
    Requests(Requests),
    /// All servers respond to one client at once, round after round.
    Incast(Incast),
    /// Hosts send to hosts for a given time.
    Transfers(Transfers),
    /// Short flows mixed with long ones.
    Mix(Mix),
    /// No traffic: the point is computed, not run.
    Formula(Formula),
}

/// Request/response traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct Requests {
    /// Hosts that send requests.
    pub clients: Vec<String>,
    /// Hosts that respond.
    pub servers: Vec<String>,
    /// Which client sends requests to which server.
    pub pairing: Pairing,
    /// When requests are sent.
    pub arrivals: Arrivals,
    /// Response sizes.
    pub sizes: SizeSampler,
    /// Bytes of a request.
    pub request: u64,
    /// The connections that carry the requests.
    pub connections: Connections,
    /// The interface that a client's connection starts from.
    pub first_path: FirstPath,
    /// Number of subflows on each of the client's interfaces. It replaces the default of one subflow on each
    /// interface. If empty, the default applies. It is for transports with several subflows, on clients with
    /// this many interfaces.
    pub subflows: Vec<u32>,
    /// What is observed of each flow in addition to its time.
    pub observe: Observe,
    /// Which requests are background, if any.
    pub background: Option<Background>,
    /// Requests per transport and seed, including those of the background.
    pub flows: u64,
}

/// What is observed of each flow in addition to its time. Each item costs memory or processing of each segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observe {
    /// What proactive recovery sent, what it achieved, and how much room windows left.
    pub recovery: bool,
    /// The flow's size.
    pub sizes: bool,
    /// How many retransmission timers fired for the flow, and how often it entered fast recovery.
    pub timers: bool,
    /// How busy the network's links were, and what their queues dropped.
    pub links: bool,
    /// How many data packets hosts sent and how many were dropped, separately for packets marked as short
    /// flows'.
    pub packets: bool,
    /// How long data packets waited, which ones were overtaken, and which paths short flows left unused.
    pub paths: bool,
    /// How much data applications received over the network's links.
    pub goodput: bool,
    /// What coding sent, and what it estimated about the paths.
    pub coding: bool,
    /// Congestion windows of the senders.
    pub windows: bool,
}

impl Observe {
    /// Names in experiment files of what can be observed.
    pub const NAMES: [&'static str; 9] = [
        "recovery", "sizes", "timers", "links", "packets", "paths", "goodput", "coding", "windows",
    ];

    /// Whether the item with this name is observed.
    pub fn has(self, name: &str) -> bool {
        match name {
            "recovery" => self.recovery,
            "sizes" => self.sizes,
            "timers" => self.timers,
            "links" => self.links,
            "packets" => self.packets,
            "paths" => self.paths,
            "goodput" => self.goodput,
            "coding" => self.coding,
            "windows" => self.windows,
            _ => false,
        }
    }
}

/// Large requests over separate connections, measured separately (FUSO section 5.2: the scheme under test
/// serves latency-sensitive queries, plain TCP the rest).
#[derive(Clone, Debug, PartialEq)]
pub struct Background {
    /// Requests of at least this many bytes are background.
    pub from: u64,
    /// Name of the transport that carries them. If `None`, it is the transport under test.
    pub transport: Option<String>,
}

/// The interface that the first subflow of a connection uses on a client with several interfaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FirstPath {
    /// Always this one, from 0.
    Interface(u32),
    /// Drawn for each connection. It is the same under every transport.
    #[default]
    Random,
}

/// When a request or a transfer is written on a new connection. Its time starts at the same moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ask {
    /// When the connection is opened. The connection's set-up counts.
    #[default]
    Opening,
    /// Once the connection is established.
    AtOnce,
    /// Once all its subflows are established (mechanisms T3: runs start when all joins are done).
    WhenJoined,
}

/// Which client sends requests to which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// The n-th client always sends to the n-th server.
    OneToOne,
    /// Each request goes to a server drawn at random.
    Random,
}

/// When requests are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// Poisson arrivals. Their rate times the mean response size is this load in total.
    Poisson(BitRate),
    /// A client sends its next request this long after its last response was complete.
    Sequential(Duration),
}

/// Which connections carry requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connections {
    /// Connections that are opened beforehand and used in turn.
    Persistent {
        /// Number of connections from each client to each of its servers.
        per_pair: u32,
        /// Response bytes sent once on each connection before measuring (mechanisms T1: 100 KB).
        warm_up: u64,
        /// Idle time after the warm-up. It is longer than a retransmission timeout, so that windows are reset.
        idle: Duration,
    },
    /// A new connection for each request.
    New(Ask),
}

/// Synchronised responses.
#[derive(Clone, Debug, PartialEq)]
pub struct Incast {
    /// The host that sends the requests.
    pub client: String,
    /// Hosts that respond. They are used in turn until `fanout` responses are requested.
    pub servers: Vec<String>,
    /// Responses per round.
    pub fanout: u32,
    /// Bytes of a response.
    pub response: u64,
    /// Bytes of a request.
    pub request: u64,
    /// Connection warm-up as in [`Connections::Persistent`].
    pub warm_up: u64,
    /// Idle time before each round.
    pub idle: Duration,
    /// Rounds per transport and seed.
    pub rounds: u64,
}

/// Transfers from host to host for a given time (MMPTCP section 3, mechanisms T8). Long transfers last until
/// the end and count as background. The others are short. Each transfer has its own connection.
#[derive(Clone, Debug, PartialEq)]
pub struct Transfers {
    /// All hosts that take part.
    pub hosts: Vec<String>,
    /// Share of the hosts that send a long transfer and nothing else. These hosts are drawn for each run.
    pub long: f64,
    /// Which host each host sends to.
    pub matrix: TrafficMatrix,
    /// When short transfers start.
    pub coming: TransferArrivals,
    /// When their time begins: when the connection is opened, or once it is established.
    pub ask: Ask,
    /// Sizes of short transfers.
    pub sizes: SizeSampler,
    /// How long the transfers go on.
    pub duration: Duration,
    /// Name of the transport of the long transfers. If `None`, it is the transport under test.
    pub background: Option<String>,
    /// What is observed of each short transfer.
    pub observe: Observe,
}

/// Which host each host sends to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficMatrix {
    /// Each host sends to one other host, drawn for each run. No host has two senders.
    Permutation,
    /// The n-th host sends to the host this many positions after it.
    Stride(u32),
    /// The receiver is drawn for each transfer.
    Random,
}

/// When short transfers start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TransferArrivals {
    /// This many per second in the whole network, one by one at random times, each from a host without a long
    /// transfer.
    Poisson(f64),
    /// Several at once to one host. All hosts are drawn again each time.
    Together {
        /// Number of hosts that send.
        senders: u32,
        /// Time between two such rounds, and before the first one.
        every: Duration,
    },
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
    /// Time without progress after which a connection is given up.
    pub user_timeout: Duration,
    /// Maximum segment lifetime. A closed connection stays in TIME-WAIT for twice as long (RFC 9293, section
    /// 3.6.1).
    pub msl: Duration,
    /// The congestion controller of every subflow. If `None`, it is the preset's own.
    pub congestion: Option<Arc<dyn ControllerFactory>>,
    /// Flows of fewer bytes are short. Both ends mark the packets of a short flow with the code point AF21,
    /// which is used by ports with priorities and by switches that distinguish flows (CAPS section VII, Alg. 1,
    /// s_L; mechanisms A4.1). `None` disables marking.
    pub short_below: Option<u64>,
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
            user_timeout: Duration::from_secs(60),
            msl: Duration::from_secs(60),
            congestion: None,
            short_below: None,
        }
    }
}

impl Traffic {
    /// Flows per transport and seed. For incast, rounds per transport and seed.
    pub fn flows(&self) -> u64 {
        match self {
            Self::None | Self::Formula(_) => 1,
            Self::Requests(r) => r.flows,
            Self::Incast(i) => i.rounds,
            // A run cannot be split, because concurrent flows share the network.
            Self::Transfers(_) | Self::Mix(_) => 1,
        }
    }
}

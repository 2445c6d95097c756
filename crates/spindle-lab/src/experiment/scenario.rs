//! One point of an experiment with every value resolved: network, loss, traffic, host settings.

mod mix;

use spindle_mptcp::congestion::CongestionKind;
use spindle_units::{BitRate, Duration};

pub use mix::{BurstTimes, LongFlows, Matching, Mix, Pairs, Starts};

pub use crate::formula::Formula;
use crate::workload::{LossyLinks, SizeSampler};

/// Everything about a run but the transport and the seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The network.
    pub topology: Topology,
    /// What loses packets in it.
    pub loss: Vec<Loss>,
    /// Where its queues are shorter than elsewhere, if anywhere.
    pub hotspots: Option<Hotspots>,
    /// What is sent.
    pub traffic: Traffic,
    /// How hosts are set up, whatever the transport.
    pub host: HostSettings,
    /// The balancer of every switch, by name.
    pub balancer: String,
}

/// A network by name with its measures.
#[derive(Clone, Debug, PartialEq)]
pub enum Topology {
    /// FUSO's testbed (mechanisms T1): H1-H3 under one switch, H4-H6 under another, three links P1-P3 between.
    FusoTestbed(LinkSettings),
    /// CoFUSO's simulation (mechanisms T4), `cofuso-sim`: H1-H10 on router R1, H11-H20 on R10, between them R2-R5
    /// meshed with R6-R9.
    CoFusoSim(LinkSettings),
    /// Hosts S1.. on the left, as many R1.. on the right, one cable "bottleneck" between.
    Dumbbell {
        /// Hosts on each side.
        pairs: u32,
        /// Every link, but for the rate of the one between.
        links: LinkSettings,
        /// Rate of the cable between.
        core_rate: BitRate,
    },
    /// A k-ary fat tree of hosts h0..
    FatTree {
        /// How files call it: `fat-tree`, or `fuso-sim` (mechanisms T2).
        name: &'static str,
        /// Ports of a switch, even.
        k: u32,
        /// Hosts under each edge switch.
        hosts_per_edge: u32,
        /// Rate of the links between switches.
        fabric_rate: BitRate,
        /// Every link, but for the rate of those between switches.
        links: LinkSettings,
    },
    /// Hosts h0.. under leaf switches, each of which has a cable to every spine switch.
    LeafSpine {
        /// Leaf switches.
        leaves: u32,
        /// Spine switches: paths between two leaves.
        spines: u32,
        /// Hosts under each leaf.
        hosts_per_leaf: u32,
        /// Rate of the links between leaves and spines.
        fabric_rate: BitRate,
        /// Every link, but for the rate of those between switches; the RTT is split over eight links.
        links: LinkSettings,
    },
    /// Host "client" with cables P1.. to a router, host "server" with one cable.
    DualHomed {
        /// The client's cables.
        paths: u32,
        /// Every link, but for the rate of the server's; the RTT is split over four links.
        links: LinkSettings,
        /// Rate of the server's cable.
        server_rate: BitRate,
    },
    /// One of the [`crate::registry::Registry`].
    Custom {
        /// Its name.
        name: String,
        /// Its parameters as text, in the order of the file.
        parameters: Vec<(String, String)>,
        /// Every link, as far as the topology heeds it.
        links: LinkSettings,
    },
}

/// What links have in common.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkSettings {
    /// Rate of each link.
    pub rate: BitRate,
    /// Base round-trip time of the longest way, shared equally by its links in both directions.
    pub rtt: Duration,
    /// Queue of a port.
    pub buffer: Buffer,
    /// Queue length from which packets are marked (ECN); none: never.
    pub ecn_threshold: Option<u64>,
    /// The same for the hosts' own ports; none: never.
    pub host_ecn_threshold: Option<u64>,
    /// Queue of a host's own port; none: long enough that it never drops what the host sends itself.
    pub host_buffer: Option<Buffer>,
    /// Ports have two strict priorities, that of a packet being by its DSCP.
    pub priorities: bool,
}

/// Room of a port's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// In bytes.
    Bytes(u64),
    /// In packets.
    Packets(u32),
}

/// A loss process on some links.
#[derive(Clone, Debug, PartialEq)]
pub struct Loss {
    /// What is lost.
    pub model: LossModel,
    /// Links: hosts (their cables), cables such as `P1`, patterns such as `access:H4-H6`, or `all`.
    pub on: Vec<String>,
    /// In which directions.
    pub direction: Direction,
    /// Only packets with payload are lost.
    pub data_only: bool,
}

/// How losses fall.
#[derive(Clone, Debug, PartialEq)]
pub enum LossModel {
    /// Each packet by itself with this probability.
    Bernoulli(f64),
    /// Two-state Gilbert: all packets are lost in the bad state, none in the good one.
    Gilbert {
        /// Share of packets lost in the long run.
        rate: f64,
        /// Mean packets in the bad state.
        burst: f64,
    },
    /// Every packet between two times: the link is down.
    BlackHole {
        /// From when, counted from the start of the run, the preparation of connections included.
        from: Duration,
        /// Until when.
        until: Duration,
    },
    /// The packets with these numbers on the link, counted from 1.
    Numbered(Vec<u64>),
    /// Of each response one packet with data, wherever it goes: it is lost on leaving the server.
    Response(ResponseLoss),
    /// Some links of [`Loss::on`], drawn anew for each run, each with a rate of its own, from the
    /// start of the measurement on: connections were opened before links broke.
    LossyLinks(LossyLinks),
}

/// The packet of a response that is lost (CoFUSO section 6.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseLoss {
    /// On this subflow, from 0; none: whichever it is on.
    pub subflow: Option<u8>,
    /// Which of the packets there, from 1 in the order of sending; none: drawn for each response, the
    /// same under every transport, among as many as the response fills.
    pub packet: Option<u64>,
}

/// Direction on a link. A link between switches runs forward from the first to the second; a
/// host's link runs forward from the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Both, independently.
    Both,
    /// Forward only.
    Forward,
    /// Backward only.
    Backward,
}

/// What is sent.
#[derive(Clone, Debug, PartialEq)]
pub enum Traffic {
    /// Nothing: the run only draws what it would meet.
    None,
    /// Clients ask servers and wait for the answer.
    Requests(Requests),
    /// All servers answer one client at once, round after round.
    Incast(Incast),
    /// Hosts send to hosts, for a given time.
    Transfers(Transfers),
    /// Short flows beside long ones.
    Mix(Mix),
    /// Nothing: the point is computed, not run.
    Formula(Formula),
}

/// Request/response traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct Requests {
    /// Hosts that ask.
    pub clients: Vec<String>,
    /// Hosts that answer.
    pub servers: Vec<String>,
    /// Who asks whom.
    pub pairing: Pairing,
    /// When requests come.
    pub arrivals: Arrivals,
    /// Response sizes.
    pub sizes: SizeSampler,
    /// Bytes of a request.
    pub request: u64,
    /// On which connections.
    pub connections: Connections,
    /// Which of its interfaces a client's connection starts from.
    pub first_path: FirstPath,
    /// Subflows on each of its interfaces in place of as many as the transport has, one on each; empty:
    /// as the transport has it. For transports with several, on clients with so many interfaces.
    pub subflows: Vec<u32>,
    /// What is observed of each flow beside its time.
    pub observe: Observe,
    /// Which of the requests are background, if any are.
    pub background: Option<Background>,
    /// Requests per transport and seed, those of the background included.
    pub flows: u64,
}

/// What is observed of each flow beside its time; it costs memory, or a look at each segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observe {
    /// What proactive recovery sent, what came of it, and what windows left room for.
    pub recovery: bool,
    /// Its size.
    pub sizes: bool,
    /// How many retransmission timers fired for it and how often it entered fast recovery.
    pub timers: bool,
    /// How busy the network's links were, and what their queues dropped.
    pub links: bool,
    /// How many data packets hosts sent and how many were dropped, marked as short flows' or not.
    pub packets: bool,
    /// How long data packets waited, which were overtaken, and which paths short flows left unused.
    pub paths: bool,
    /// What applications got over the network's links.
    pub goodput: bool,
    /// What coding sent and learnt.
    pub coding: bool,
    /// Congestion windows of those that send.
    pub windows: bool,
}

impl Observe {
    /// What may be observed, by the names in experiment files.
    pub const NAMES: [&'static str; 9] = [
        "recovery", "sizes", "timers", "links", "packets", "paths", "goodput", "coding", "windows",
    ];

    /// Whether what has this name is observed.
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

/// Large requests over connections of their own, measured apart (FUSO section 5.2: the scheme under
/// test serves latency-sensitive queries, plain TCP the rest).
#[derive(Clone, Debug, PartialEq)]
pub struct Background {
    /// Requests of this many bytes and more belong to it.
    pub from: u64,
    /// The transport that carries it by name; none: the one under test.
    pub transport: Option<String>,
}

/// Which interface of a client with several the first subflow of a connection takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FirstPath {
    /// Always this one, from 0.
    Interface(u32),
    /// Drawn for each connection, the same under every transport.
    #[default]
    Random,
}

/// When a request, or a transfer, is written on a new connection, and with that when its time starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ask {
    /// Together with the opening of the connection: its set-up counts.
    #[default]
    Opening,
    /// Once the connection is established.
    AtOnce,
    /// Once all its subflows are up (mechanisms T3: runs start when all joins are done).
    WhenJoined,
}

/// Who asks whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// The n-th client always asks the n-th server.
    OneToOne,
    /// Each request to a server drawn at random.
    Random,
}

/// When requests come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// Poisson, such that mean response size times rate is this load in all.
    Poisson(BitRate),
    /// A client's next request so long after its last response was complete.
    Sequential(Duration),
}

/// Which connections carry requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connections {
    /// Opened beforehand and used in turn.
    Persistent {
        /// From each client to each of its servers.
        per_pair: u32,
        /// Response bytes sent once on each before measuring (mechanisms T1: 100 KB).
        warm_up: u64,
        /// Idle time after it; longer than a retransmission timeout, so that windows are reset.
        idle: Duration,
    },
    /// A new one for each request.
    New(Ask),
}

/// Synchronised answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Incast {
    /// Who asks.
    pub client: String,
    /// Hosts that answer, used in turn until `fanout` answers are asked for.
    pub servers: Vec<String>,
    /// Answers per round.
    pub fanout: u32,
    /// Bytes of an answer.
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

/// Transfers from host to host for a given time: long ones that go on to the end, which count as
/// background, and short ones (MMPTCP section 3, mechanisms T8). Each has a connection of its own,
/// and its time begins with the SYN.
#[derive(Clone, Debug, PartialEq)]
pub struct Transfers {
    /// All hosts that take part.
    pub hosts: Vec<String>,
    /// The share of them, drawn for each run, that sends a long transfer and nothing else.
    pub long: f64,
    /// Whom each sends to.
    pub matrix: Matrix,
    /// When short transfers come.
    pub coming: Coming,
    /// When their time begins: with the opening of their connection, or once it is established.
    pub ask: Ask,
    /// Sizes of short transfers.
    pub sizes: SizeSampler,
    /// How long it goes on.
    pub duration: Duration,
    /// The transport of the long ones by name; none: the one under test.
    pub background: Option<String>,
    /// What is observed of each short transfer.
    pub observe: Observe,
}

/// Whom hosts send to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matrix {
    /// Each to one other, drawn for each run, and nobody has two senders.
    Permutation,
    /// The n-th to the one so many behind it.
    Stride(u32),
    /// A host drawn for each transfer.
    Random,
}

/// When short transfers come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Coming {
    /// So many a second in the whole network, one by one at random, each from a host without a long one.
    Poisson(f64),
    /// So many at once to one host, all drawn anew each time.
    Together {
        /// Hosts that send.
        senders: u32,
        /// Time between two such rounds, and before the first.
        every: Duration,
    },
}

/// Switches whose ports, and the ports that lead to them, have less room (MMPTCP section 3.4).
#[derive(Clone, Debug, PartialEq)]
pub struct Hotspots {
    /// Which they are drawn from: the switches whose names begin so.
    pub among: String,
    /// The share of these, rounded; drawn for each run.
    pub share: f64,
    /// The room of their ports.
    pub buffer: Buffer,
}

/// Settings of hosts that belong to the scenario and hold for every transport.
#[derive(Clone, Debug, PartialEq)]
pub struct HostSettings {
    /// Largest segment in payload bytes without options.
    pub mss: u32,
    /// Initial window in segments: over all subflows or on each.
    pub initial_window: Window,
    /// Floor of the retransmission timeout.
    pub min_rto: Duration,
    /// Retransmission timeout before the first measurement.
    pub initial_rto: Duration,
    /// Use of ECN; none: as the preset has it.
    pub ecn: bool,
    /// Send buffer of a connection, bytes.
    pub send_buffer: u64,
    /// Receive buffer of a connection, bytes.
    pub receive_buffer: u64,
    /// Payload bytes of a subflow that may wait in its host's own port; none: as many as the window
    /// lets out.
    pub output_limit: Option<u64>,
    /// Delay of acknowledgements; none: each segment at once.
    pub delayed_ack: Option<Duration>,
    /// Whether timestamps are offered (RFC 7323).
    pub timestamps: bool,
    /// Upper limit of cwnd in segments.
    pub max_window: Option<u32>,
    /// Initial slow-start threshold in bytes; none: unlimited.
    pub initial_ssthresh: Option<u64>,
    /// Most time between the openings of two subflows; none: the preset's own.
    pub join_spacing: Option<Duration>,
    /// After how long without progress a connection is given up.
    pub user_timeout: Duration,
    /// Maximum segment lifetime: a connection that is over rests for twice as long (RFC 9293, section
    /// 3.6.1).
    pub msl: Duration,
    /// The congestion controller of every subflow; none: the preset's own.
    pub congestion: Option<CongestionKind>,
    /// Flows of fewer bytes are short: both ends mark what they send for them with the code point AF21,
    /// which ports with priorities and switches that tell flows apart go by (CAPS section VII, Alg. 1, s_L;
    /// mechanisms A4.1); none: nothing is marked.
    pub short_below: Option<u64>,
}

/// The initial window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// So many segments over all subflows.
    Total(u32),
    /// So many segments on each subflow.
    PerSubflow(u32),
}

impl Topology {
    /// The name as experiment files write it.
    pub fn name(&self) -> &str {
        match self {
            Self::FusoTestbed(_) => "fuso-testbed",
            Self::CoFusoSim(_) => "cofuso-sim",
            Self::Dumbbell { .. } => "dumbbell",
            Self::FatTree { name, .. } => name,
            Self::LeafSpine { .. } => "leaf-spine",
            Self::DualHomed { .. } => "dual-homed",
            Self::Custom { name, .. } => name,
        }
    }

    /// What its links have in common.
    pub fn links(&self) -> &LinkSettings {
        match self {
            Self::FusoTestbed(links)
            | Self::CoFusoSim(links)
            | Self::Dumbbell { links, .. }
            | Self::FatTree { links, .. }
            | Self::LeafSpine { links, .. }
            | Self::DualHomed { links, .. }
            | Self::Custom { links, .. } => links,
        }
    }

    /// Which leaf, or in a fat-tree which pod, a host is in; none if the topology has neither.
    pub fn place(&self, host: u32) -> Option<u32> {
        match self {
            Self::LeafSpine { hosts_per_leaf, .. } => host.checked_div(*hosts_per_leaf),
            Self::FatTree {
                k, hosts_per_edge, ..
            } => host.checked_div(k / 2 * hosts_per_edge),
            _ => None,
        }
    }
}

impl Default for HostSettings {
    /// The values of T1 (mechanisms B0); timestamps off, so that a full packet is 1500 B.
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
    /// Flows (incast: rounds) per transport and seed.
    pub fn flows(&self) -> u64 {
        match self {
            Self::None | Self::Formula(_) => 1,
            Self::Requests(r) => r.flows,
            Self::Incast(i) => i.rounds,
            // A run cannot be split: what is under way shares the network.
            Self::Transfers(_) | Self::Mix(_) => 1,
        }
    }
}

//! The plan of a run: which host requests how much from which host, and when.

use spindle_units::Duration;

use super::{MessagePlan, Observe};
use crate::rng::{Purpose, Stream, Streams};
use crate::topologies::NamedTopology;

/// The plan of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Connections to open beforehand, as (client, server) host numbers.
    pub connections: Vec<(u32, u32)>,
    /// Number of these connections that are not for background traffic. They come first.
    pub foreground: u32,
    /// Response bytes sent once on each of these connections before measuring.
    pub warm_up: u64,
    /// Idle time between warm-up and measurement.
    pub idle: Duration,
    /// Bytes of a request.
    pub request: u64,
    /// When the request of a new connection is written.
    pub ask: Ask,
    /// The interface of the client that connections start from.
    pub first_path: FirstPath,
    /// Number of subflows on each of the client's interfaces. If empty, the transport determines it.
    pub subflows: Vec<u32>,
    /// Number of full packets in each response. The size of a full packet is the connection's own, and the
    /// flows' sizes are nominal.
    pub packets: Option<u32>,
    /// What is observed of each flow.
    pub observe: Observe,
    /// What the sender of each flow's data says about it, background flows excepted.
    pub message: Option<MessagePlan>,
    /// Name of the transport of background flows. If `None`, the transport under test determines it.
    pub background_transport: Option<String>,
    /// Name of the transport of bystanders, if some flows are.
    pub bystander_transport: Option<String>,
    /// Whether flows go from client to server, without request and response.
    pub push: bool,
    /// End of the run, counted from the start of the measurement. Flows in progress are cut off. If `None`, the
    /// run ends once every flow is over.
    pub ends: Option<Duration>,
    /// Without [`Self::ends`], whether the run ends once all flows that are not background are over.
    pub leaves_background: bool,
    /// When flows start to count, from the start of the measurement. Background flows that began earlier count
    /// with what they do from then on.
    pub counts_from: Duration,
    /// Whether a new connection draws from the streams of its flow's number instead of its own. The second
    /// connections of other flows then have no effect on it.
    pub numbered: bool,
    /// The flows, in the order of issue.
    pub flows: Vec<PlannedFlow>,
}

impl Plan {
    /// Whether flows may be in progress at the end of the run.
    pub fn cuts_off(&self) -> bool {
        self.ends.is_some() || self.leaves_background
    }

    /// Whether the run waits until this flow is over, if the run has no fixed end.
    pub fn awaits(&self, flow: &PlannedFlow) -> bool {
        !(self.leaves_background && flow.is_background())
    }

    /// The interface, out of `interfaces`, that the client's end of connection `number` starts from.
    /// Connections are numbered in the order of opening.
    pub fn interface(&self, streams: &Streams, number: u64, interfaces: u32) -> u32 {
        match self.first_path {
            FirstPath::Interface(n) => n.min(interfaces.saturating_sub(1)),
            FirstPath::Random if interfaces <= 1 => 0,
            FirstPath::Random => {
                let mut draw = streams.stream(Purpose::FirstPath, number);
                draw.below(u64::from(interfaces)) as u32
            }
        }
    }
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

/// One request and its response. With [`Plan::push`], one transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedFlow {
    /// When it is issued.
    pub start: Start,
    /// The host that sends the request.
    pub client: u32,
    /// The host that sends the response.
    pub server: u32,
    /// Bytes of the response or of the transfer.
    pub bytes: u64,
    /// The index of its connection in [`Plan::connections`]. If `None`, the flow opens a new connection.
    pub connection: Option<u32>,
    /// Flows of the same group are measured as one: from the first issue to the last completion.
    pub group: u32,
    /// What it is measured as.
    pub role: Role,
    /// Whether it is measured at all.
    pub counted: bool,
    /// Whether ECMP must send it over other links between switches than every other flow with this flag.
    pub disjoint: bool,
}

impl PlannedFlow {
    /// Whether it is background traffic.
    pub fn is_background(&self) -> bool {
        self.role == Role::Background
    }
}

/// What a flow is measured as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// A flow of the transport under test.
    #[default]
    Measured,
    /// Background traffic, of which only the goodput is measured.
    Background,
    /// A flow of another transport in the same network, which is measured separately
    /// ([`Bystanders`](crate::bystanders::Bystanders)).
    Bystander,
}

impl Role {
    /// [`Self::Background`] if `background`, otherwise [`Self::Measured`].
    pub const fn background_if(background: bool) -> Self {
        match background {
            true => Self::Background,
            false => Self::Measured,
        }
    }
}

/// When a flow is issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// This long after the start of the measurement.
    At(Duration),
    /// This long after the client's previous group is complete. If there is none, this long after the start of
    /// the measurement.
    After(Duration),
}

/// Why a scenario's traffic cannot be planned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A host does not exist.
    #[error("traffic: found host \"{found}\", which the topology does not have; it has {hosts}")]
    Host {
        /// The name.
        found: String,
        /// The names that exist.
        hosts: String,
    },
    /// Of the flows that are measured as one, only a part would be bystanders.
    #[error(
        "bystanders: the flows of this traffic are measured together, want a share of 0% or 100%, or another kind of traffic"
    )]
    PartOfGroup,
    /// A host has no partner to send to or to receive from.
    #[error("traffic: {host} has no partner, want another host for it")]
    Alone {
        /// Its name.
        host: String,
    },
}

/// What a plan is made from.
#[derive(Clone, Copy, Debug)]
pub struct PlanRequest<'a> {
    /// The scenario's topology.
    pub topology: &'a NamedTopology,
    /// Flows of fewer bytes are short. `None` if the scenario does not distinguish them.
    pub short_below: Option<u64>,
    /// The topology's host names in the order of their numbers.
    pub hosts: &'a [String],
    /// The random streams of the run.
    pub streams: &'a Streams,
    /// The part of the seed's flows that the run has, from 0.
    pub part: u64,
    /// Number of parts.
    pub parts: u64,
}

impl PlanRequest<'_> {
    /// How many of `n` flows belong to this part.
    pub fn share(&self, n: u64) -> u64 {
        n / self.parts + u64::from(self.part < n % self.parts)
    }

    /// The numbers of the hosts with these names.
    ///
    /// # Errors
    /// [`PlanError::Host`] for a name that the topology does not have.
    pub fn numbers(&self, names: &[String]) -> Result<Vec<u32>, PlanError> {
        numbers(names, self.hosts)
    }
}

pub(super) fn numbers(names: &[String], hosts: &[String]) -> Result<Vec<u32>, PlanError> {
    names
        .iter()
        .map(|name| {
            hosts
                .iter()
                .position(|h| h == name)
                .map(|i| i as u32)
                .ok_or_else(|| PlanError::Host {
                    found: name.clone(),
                    hosts: hosts
                        .iter()
                        .take(12)
                        .cloned()
                        .collect::<Vec<_>>()
                        .join(", "),
                })
        })
        .collect()
}

/// The time between two starts at `factor` times their rate, if it is `every` now. It is at least 1 ns.
pub(super) fn apart(every: Duration, factor: f64) -> Duration {
    let nanos = every.as_nanos() as f64 / factor;
    Duration::from_nanos((nanos.round() as u64).max(1))
}

/// A random server that is not the client itself. `own` is the client's index if it is a server too.
pub(super) fn other(own: Option<usize>, servers: usize, rng: &mut Stream) -> usize {
    match own {
        None => rng.below(servers as u64) as usize,
        Some(own) => {
            let drawn = rng.below(servers as u64 - 1) as usize;
            drawn + usize::from(drawn >= own)
        }
    }
}

/// Bytes of a transfer that lasts until the end: more than any link can carry.
pub(super) const ENDLESS: u64 = 1 << 50;

/// Long transfers start at random times within this interval, so that they are not synchronised (our choice).
pub(super) const ONSET: Duration = Duration::from_millis(10);

/// A flow of `bytes` from `client` to `server` over its own connection. It starts at `at`.
pub fn flow(at: Duration, (client, server): (u32, u32), bytes: u64) -> PlannedFlow {
    PlannedFlow {
        start: Start::At(at),
        client,
        server,
        bytes,
        connection: None,
        group: 0,
        role: Role::Measured,
        counted: true,
        disjoint: false,
    }
}

/// Sorts flows by their start, and makes each a group of its own.
pub fn sort_by_start(flows: &mut [PlannedFlow]) {
    flows.sort_by_key(|f| match f.start {
        Start::At(at) | Start::After(at) => at,
    });
    for (n, flow) in flows.iter_mut().enumerate() {
        flow.group = n as u32;
    }
}

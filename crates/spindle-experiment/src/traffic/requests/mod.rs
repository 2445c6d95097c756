//! `requests`: clients send requests to servers and wait for the responses.

mod read;

use std::collections::HashMap;
use std::sync::Arc;

use spindle_units::{BitRate, Duration};

use super::plan::{Role, numbers, other};
use super::{
    Ask, FirstPath, MessagePlan, Observe, OnlyInLab, Plan, PlanError, PlanRequest, PlannedFlow,
    Start, Traffic, TrafficKind,
};
use crate::catalog::Catalog;
use crate::rng::{Purpose, Streams};
use crate::workload::SizeSampler;

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
    /// What servers say about their responses.
    pub message: Option<MessagePlan>,
    /// Which requests are background, if any.
    pub background: Option<Background>,
    /// Requests per transport and seed, including those of the background.
    pub flows: u64,
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

impl Traffic for Requests {
    fn flows(&self) -> u64 {
        self.flows
    }

    fn plan(&self, request: &PlanRequest<'_>) -> Result<Plan, PlanError> {
        requests(
            self,
            request.hosts,
            request.streams,
            request.share(self.flows),
        )
    }

    fn observes(&self, what: &str) -> bool {
        self.observe.has(what)
    }

    fn at_load(&self, factor: f64) -> Option<Arc<dyn Traffic>> {
        let Arrivals::Poisson(load) = self.arrivals else {
            return None;
        };
        let load = BitRate((load.0 as f64 * factor).round() as u64);
        Some(Arc::new(Self {
            arrivals: Arrivals::Poisson(load),
            ..self.clone()
        }))
    }

    fn mean_response(&self) -> Option<f64> {
        Some(self.sizes.mean())
    }

    fn only_in_lab(&self) -> Option<OnlyInLab> {
        if self.sizes.packets().is_some() {
            let remedy = "only the lab knows what a full packet is; give bytes";
            return Some(OnlyInLab::new("sizes", "in packets", remedy));
        }
        let remedy = "only the lab has it; limit the sizes by `below`";
        let background = self.background.as_ref();
        background.map(|_| OnlyInLab::new("traffic", "with a background", remedy))
    }
}

fn requests(
    r: &Requests,
    hosts: &[String],
    streams: &Streams,
    count: u64,
) -> Result<Plan, PlanError> {
    let clients = numbers(&r.clients, hosts)?;
    let servers = numbers(&r.servers, hosts)?;
    let mut sizes = streams.stream(Purpose::Sizes, 0);
    let mut pairs = streams.stream(Purpose::Pairs, 0);
    let mut gaps = streams.stream(Purpose::Arrivals, 0);
    let mut pools = Pools::new(r);
    let mut places = Vec::with_capacity(count as usize);
    let own: Vec<Option<usize>> = clients
        .iter()
        .map(|c| servers.iter().position(|s| s == c))
        .collect();
    let mut at = Duration::ZERO;
    let mut flows = Vec::with_capacity(count as usize);
    for n in 0..count {
        let start = match r.arrivals {
            Arrivals::Poisson(load) => {
                let mean = r.sizes.mean() * 8.0 / load.0 as f64;
                at += Duration::from_secs_f64(gaps.exponential(mean));
                Start::At(at)
            }
            Arrivals::Sequential(gap) => Start::After(gap),
        };
        let client = match r.arrivals {
            Arrivals::Poisson(_) => pairs.below(clients.len() as u64) as usize,
            Arrivals::Sequential(_) => (n % clients.len() as u64) as usize,
        };
        let server = match r.pairing {
            Pairing::OneToOne => client,
            Pairing::Random => other(own[client], servers.len(), &mut pairs),
        };
        let bytes = r.sizes.sample(&mut sizes);
        let background = r.background.as_ref().is_some_and(|b| bytes >= b.from);
        flows.push(PlannedFlow {
            start,
            client: clients[client],
            server: servers[server],
            bytes,
            connection: None,
            group: n as u32,
            role: Role::background_if(background),
            counted: true,
            disjoint: false,
        });
        places.push(pools.next(background, client, server));
    }
    let (warm_up, idle) = match r.connections {
        Connections::Persistent { warm_up, idle, .. } => (warm_up, idle),
        Connections::New(_) => (0, Duration::ZERO),
    };
    let used = number(&places, &mut flows);
    Ok(Plan {
        connections: used
            .iter()
            .map(|(_, c, s, _)| (clients[*c], servers[*s]))
            .collect(),
        foreground: used.iter().filter(|place| !place.0).count() as u32,
        warm_up,
        idle,
        request: r.request,
        ask: match r.connections {
            Connections::New(ask) => ask,
            Connections::Persistent { .. } => Ask::default(),
        },
        background_transport: r.background.as_ref().and_then(|b| b.transport.clone()),
        first_path: r.first_path,
        subflows: r.subflows.clone(),
        packets: r.sizes.packets(),
        observe: r.observe,
        message: r.message,
        flows,
        ..Plan::default()
    })
}

/// The position of a persistent connection in their order: whether it is for background traffic, the indices of
/// client and server in the lists, and the number within the pair.
type Place = (bool, usize, usize, u32);

/// Persistent connections, used in turn by the requests of a pair and class.
struct Pools {
    per_pair: u32,
    turns: HashMap<(bool, usize, usize), u32>,
}

impl Pools {
    fn new(r: &Requests) -> Self {
        let per_pair = match r.connections {
            Connections::Persistent { per_pair, .. } => per_pair,
            Connections::New(_) => 0,
        };
        Self {
            per_pair,
            turns: HashMap::new(),
        }
    }

    /// The connection of the pair's next request of this class. `None` if each request has a new connection.
    fn next(&mut self, background: bool, client: usize, server: usize) -> Option<Place> {
        if self.per_pair == 0 {
            return None;
        }
        let turn = self.turns.entry((background, client, server)).or_default();
        let number = *turn % self.per_pair;
        *turn += 1;
        Some((background, client, server, number))
    }
}

/// Numbers the connections that are used, in the order of their places. An unused connection would change
/// nothing except the time to open all connections.
fn number(places: &[Option<Place>], flows: &mut [PlannedFlow]) -> Vec<Place> {
    let mut used: Vec<Place> = places.iter().flatten().copied().collect();
    used.sort_unstable();
    used.dedup();
    for (flow, place) in flows.iter_mut().zip(places) {
        let at = place.and_then(|p| used.binary_search(&p).ok());
        flow.connection = at.map(|n| n as u32);
    }
    used
}

pub(super) fn register(catalog: &mut Catalog<dyn TrafficKind>) {
    let summary = "clients send requests to servers and wait for the responses";
    catalog.add("requests", summary, Arc::new(read::Kind));
}

#[cfg(test)]
mod tests;

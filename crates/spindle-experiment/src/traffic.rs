//! Traffic plans: which host requests how much from which host, and when. A plan never depends on the
//! transport.

mod mix;
mod transfers;

use std::collections::HashMap;

use spindle_units::Duration;

use crate::rng::{Purpose, Stream, Streams};
use crate::scenario::{
    Arrivals, Ask, Connections, FirstPath, Incast, Observe, Pairing, Requests, Scenario, Traffic,
};

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
        !(self.leaves_background && flow.background)
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
    /// Whether it is background traffic, which is measured separately.
    pub background: bool,
    /// Whether it is measured at all.
    pub counted: bool,
    /// Whether ECMP must send it over other links between switches than every other flow with this flag.
    pub disjoint: bool,
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
    /// A host has no partner to send to or to receive from.
    #[error("traffic: {host} has no partner, want another host for it")]
    Alone {
        /// Its name.
        host: String,
    },
}

/// Plans part `part` of `parts` of the scenario's traffic. Transfers and mixes are not split.
///
/// `hosts` are the topology's host names in the order of their numbers.
///
/// # Errors
/// [`PlanError::Host`] for a name that the topology does not have. [`PlanError::Alone`] if a host has no
/// partner.
pub fn plan(
    scenario: &Scenario,
    hosts: &[String],
    streams: &Streams,
    part: u64,
    parts: u64,
) -> Result<Plan, PlanError> {
    let share = |n: u64| n / parts + u64::from(part < n % parts);
    match &scenario.traffic {
        Traffic::None | Traffic::Formula(_) => Ok(Plan::default()),
        Traffic::Requests(r) => requests(r, hosts, streams, share(r.flows)),
        Traffic::Incast(i) => incast(i, hosts, share(i.rounds)),
        Traffic::Transfers(t) => transfers::transfers(t, hosts, streams),
        Traffic::Mix(m) => mix::mix(m, scenario, hosts, streams),
    }
}

fn numbers(names: &[String], hosts: &[String]) -> Result<Vec<u32>, PlanError> {
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
            background,
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
        first_path: r.first_path,
        subflows: r.subflows.clone(),
        packets: r.sizes.packets(),
        observe: r.observe,
        flows,
        ..Plan::default()
    })
}

/// A random server that is not the client itself. `own` is the client's index if it is a server too.
fn other(own: Option<usize>, servers: usize, rng: &mut Stream) -> usize {
    match own {
        None => rng.below(servers as u64) as usize,
        Some(own) => {
            let drawn = rng.below(servers as u64 - 1) as usize;
            drawn + usize::from(drawn >= own)
        }
    }
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

fn incast(i: &Incast, hosts: &[String], rounds: u64) -> Result<Plan, PlanError> {
    let client = numbers(std::slice::from_ref(&i.client), hosts)?[0];
    let servers = numbers(&i.servers, hosts)?;
    let connections: Vec<(u32, u32)> = (0..i.fanout as usize)
        .map(|n| (client, servers[n % servers.len()]))
        .collect();
    let mut flows = Vec::new();
    for round in 0..rounds {
        flows.extend(
            connections
                .iter()
                .enumerate()
                .map(|(n, (client, server))| PlannedFlow {
                    background: false,
                    counted: true,
                    disjoint: false,
                    start: Start::After(i.idle),
                    client: *client,
                    server: *server,
                    bytes: i.response,
                    connection: Some(n as u32),
                    group: round as u32,
                }),
        );
    }
    Ok(Plan {
        foreground: connections.len() as u32,
        connections,
        warm_up: i.warm_up,
        idle: i.idle,
        request: i.request,
        flows,
        ..Plan::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Background;
    use crate::workload::{SizeSampler, Sizes};
    use proptest::prelude::*;
    use spindle_units::BitRate;

    fn hosts() -> Vec<String> {
        (1..=6).map(|i| format!("H{i}")).collect()
    }

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|s| (*s).to_owned()).collect()
    }

    fn sample(pairing: Pairing) -> Requests {
        Requests {
            clients: names(&["H4", "H5", "H6"]),
            servers: names(&["H1", "H2", "H3"]),
            pairing,
            arrivals: Arrivals::Poisson(BitRate(10_000_000)),
            sizes: SizeSampler::new(Sizes::named("web-search").unwrap(), Some(100_000)).unwrap(),
            request: 100,
            connections: Connections::Persistent {
                per_pair: 5,
                warm_up: 100_000,
                idle: Duration::from_millis(10),
            },
            first_path: FirstPath::Random,
            subflows: Vec::new(),
            observe: Observe::default(),
            background: None,
            flows: 20_000,
        }
    }

    #[test]
    fn offered_load_of_requests_is_the_configured_load() {
        let (mut bits, mut seconds) = (0.0, 0.0);
        for seed in 0..20 {
            let streams = Streams::new(seed, 0);
            let p = requests(&sample(Pairing::OneToOne), &hosts(), &streams, 20_000).unwrap();
            let Start::At(last) = p.flows[19_999].start else {
                panic!()
            };
            bits += p.flows.iter().map(|f| f.bytes * 8).sum::<u64>() as f64;
            seconds += last.as_secs_f64();
        }
        let load = bits / seconds;
        assert!((load / 1e7 - 1.0).abs() < 0.01, "{load}");
    }

    #[test]
    fn connections_are_used_in_turn_and_connect_the_hosts_of_their_flows() {
        for pairing in [Pairing::OneToOne, Pairing::Random] {
            let p = requests(&sample(pairing), &hosts(), &Streams::new(1, 0), 2000).unwrap();
            let want = if pairing == Pairing::OneToOne { 15 } else { 45 };
            assert_eq!(p.connections.len(), want);
            let mut uses = vec![0u32; want];
            for f in &p.flows {
                let c = f.connection.unwrap() as usize;
                assert_eq!(p.connections[c], (f.client, f.server));
                uses[c] += 1;
            }
            for pair in uses.chunks(5) {
                assert!(pair.iter().max().unwrap() - pair.iter().min().unwrap() <= 1);
            }
        }
    }

    proptest! {
        /// For all hosts, classes and numbers of connections: no host sends requests to itself. A connection
        /// connects the two hosts of its flows and serves one class. Every connection is used. Connections of
        /// the background come last.
        #[test]
        fn connections_of_a_plan_match_their_flows(
            clients in 1usize..6,
            per_pair in 1u32..4,
            flows in 1u64..300,
            from in 20_000u64..2_000_000,
            seed: u64,
        ) {
            let r = Requests {
                clients: hosts()[..clients].to_vec(),
                servers: hosts(),
                pairing: Pairing::Random,
                sizes: SizeSampler::new(Sizes::named("web-search").unwrap(), None).unwrap(),
                connections: Connections::Persistent {
                    per_pair,
                    warm_up: 0,
                    idle: Duration::ZERO,
                },
                background: Some(Background { from, transport: None }),
                ..sample(Pairing::Random)
            };
            let p = requests(&r, &hosts(), &Streams::new(seed, 0), flows).unwrap();
            let mut used = vec![0u32; p.connections.len()];
            for flow in &p.flows {
                prop_assert_ne!(flow.client, flow.server);
                prop_assert_eq!(flow.background, flow.bytes >= from);
                let c = flow.connection.unwrap();
                prop_assert_eq!(p.connections[c as usize], (flow.client, flow.server));
                prop_assert_eq!(c >= p.foreground, flow.background);
                used[c as usize] += 1;
            }
            prop_assert!(used.iter().all(|n| *n > 0));
            let most = 2 * clients * 5 * per_pair as usize;
            prop_assert!(p.connections.len() <= most.min(flows as usize));
        }
    }

    /// Each host sends equally many requests to each of the other hosts.
    #[test]
    fn random_servers_are_uniformly_distributed() {
        let all = Requests {
            clients: hosts(),
            servers: hosts(),
            ..sample(Pairing::Random)
        };
        let p = requests(&all, &hosts(), &Streams::new(5, 0), 60_000).unwrap();
        let mut counts = [[0u32; 6]; 6];
        for flow in &p.flows {
            counts[flow.client as usize][flow.server as usize] += 1;
        }
        for (client, row) in counts.iter().enumerate() {
            for (server, n) in row.iter().enumerate() {
                match client == server {
                    true => assert_eq!(*n, 0),
                    false => assert!((1800..2200).contains(n), "{client} {server} {n}"),
                }
            }
        }
    }

    /// Queries and background together make up the load (mechanisms B0: offered bytes).
    #[test]
    fn offered_load_includes_queries_and_background() {
        let both = Requests {
            arrivals: Arrivals::Poisson(BitRate(1_500_000_000)),
            sizes: SizeSampler::new(Sizes::named("web-search").unwrap(), None).unwrap(),
            background: Some(Background {
                from: 100_000,
                transport: None,
            }),
            ..sample(Pairing::Random)
        };
        let (mut bits, mut seconds, mut background) = (0.0, 0.0, 0);
        for seed in 0..10 {
            let p = requests(&both, &hosts(), &Streams::new(seed, 0), 20_000).unwrap();
            let Start::At(last) = p.flows[19_999].start else {
                panic!()
            };
            bits += p.flows.iter().map(|f| f.bytes * 8).sum::<u64>() as f64;
            background += p.flows.iter().filter(|f| f.background).count();
            seconds += last.as_secs_f64();
        }
        let load = bits / seconds / 1.5e9;
        assert!((load - 1.0).abs() < 0.02, "{load}");
        // Mechanisms C1: 45.6 % of web search's flows exceed 100 KB.
        let share = background as f64 / 200_000.0;
        assert!((share - 0.456).abs() < 0.005, "{share}");
    }

    #[test]
    fn sizes_do_not_depend_on_arrivals_nor_on_pairs() {
        let mut sequential = sample(Pairing::Random);
        sequential.arrivals = Arrivals::Sequential(Duration::ZERO);
        let s = Streams::new(3, 1);
        let a = requests(&sample(Pairing::OneToOne), &hosts(), &s, 100).unwrap();
        let b = requests(&sequential, &hosts(), &s, 100).unwrap();
        let bytes = |p: &Plan| p.flows.iter().map(|f| f.bytes).collect::<Vec<_>>();
        assert_eq!(bytes(&a), bytes(&b));
        assert_ne!(
            bytes(&a),
            bytes(&requests(&sequential, &hosts(), &Streams::new(3, 2), 100).unwrap())
        );
    }

    #[test]
    fn flows_of_an_incast_round_form_a_group() {
        let i = Incast {
            client: "H1".to_owned(),
            servers: names(&["H2", "H3"]),
            fanout: 5,
            response: 64_000,
            request: 100,
            warm_up: 0,
            idle: Duration::from_millis(5),
            rounds: 3,
        };
        let p = incast(&i, &hosts(), 3).unwrap();
        assert_eq!((p.connections.len(), p.flows.len()), (5, 15));
        assert_eq!(p.flows.iter().filter(|f| f.group == 1).count(), 5);
        let e = incast(
            &Incast {
                client: "H9".to_owned(),
                ..i
            },
            &hosts(),
            1,
        )
        .unwrap_err();
        assert!(e.to_string().contains("\"H9\""));
    }
}

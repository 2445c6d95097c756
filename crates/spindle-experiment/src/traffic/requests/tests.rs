//! Tests of the plans of requests.

use super::*;
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
        message: None,
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
            prop_assert_eq!(flow.is_background(), flow.bytes >= from);
            let c = flow.connection.unwrap();
            prop_assert_eq!(p.connections[c as usize], (flow.client, flow.server));
            prop_assert_eq!(c >= p.foreground, flow.is_background());
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
        background += p.flows.iter().filter(|f| f.is_background()).count();
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

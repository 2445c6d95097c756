//! The paths that packets take.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod common;

use std::collections::{HashMap, HashSet};

use common::{Parcel, drain};
use spindle_fabric::topology::{FatTree, LeafSpine};
use spindle_fabric::{Address, Balancer, Balancing, Hop, LinkId, Network, Simulation};

fn fat_tree(k: u32) -> Network {
    FatTree::reference(k).build().unwrap()
}

/// The number of flows from one address to another that use each core switch of a fat-tree, by the third link
/// of their route.
fn spread(simulation: &Simulation<Parcel>, flows: u64) -> HashMap<LinkId, u64> {
    let mut count = HashMap::new();
    for hash in 0..flows {
        let route = simulation.ecmp_route(Address(0), Address(64), hash);
        assert_eq!(route.len(), 6);
        *count.entry(route[2]).or_default() += 1;
    }
    count
}

#[test]
fn ecmp_is_even_and_does_not_polarise_across_two_tiers() {
    for seed in 1..20 {
        let simulation = Simulation::new(fat_tree(8), seed);
        // Consecutive numbers are the worst hashes a caller could have.
        let count = spread(&simulation, 16_000);
        assert_eq!(count.len(), 16, "seed {seed}: some core is never used");
        for (link, flows) in count {
            // Mean 1000, standard deviation 31.
            assert!(
                (850..1150).contains(&flows),
                "seed {seed} {link:?}: {flows}"
            );
        }
    }
}

#[test]
fn ecmp_paths_of_the_two_directions_are_independent() {
    let simulation: Simulation<Parcel> = Simulation::new(fat_tree(8), 3);
    let mut pairs: HashMap<(String, String), u64> = HashMap::new();
    let core = |route: &[LinkId]| {
        let name = simulation.network().link_name(route[2]);
        name.split("core").nth(1).unwrap().to_owned()
    };
    // The same hash in both directions, as from a caller whose hash is symmetric.
    for hash in 0..25_600 {
        let there = simulation.ecmp_route(Address(0), Address(64), hash);
        let back = simulation.ecmp_route(Address(64), Address(0), hash);
        *pairs.entry((core(&there), core(&back))).or_default() += 1;
    }
    assert_eq!(pairs.len(), 256);
    assert!(pairs.values().all(|n| (50..150).contains(n)));
}

#[test]
fn packets_take_the_path_that_ecmp_route_predicts() {
    let mut simulation = Simulation::new(fat_tree(4), 11);
    for hash in 0..50 {
        let before: Vec<u64> = offered(&simulation);
        simulation.inject(Address(1), Address(14), Parcel::new(hash));
        drain(&mut simulation);
        let mut taken: Vec<LinkId> = Vec::new();
        for (link, (after, before)) in offered(&simulation).iter().zip(before).enumerate() {
            assert!(after - before <= 1);
            if *after > before {
                taken.push(LinkId(link as u32));
            }
        }
        let mut foretold = simulation.ecmp_route(Address(1), Address(14), hash);
        foretold.sort();
        assert_eq!(taken, foretold);
    }
}

fn offered(simulation: &Simulation<Parcel>) -> Vec<u64> {
    let links = 0..simulation.network().links().len() as u32;
    links
        .map(|link| simulation.stats(LinkId(link)).offered)
        .collect()
}

#[test]
fn explicit_path_number_selects_the_core_switch() {
    let network = fat_tree(8);
    assert_eq!(network.path_count(Address(0), Address(127)), 16);
    assert_eq!(network.path_count(Address(0), Address(4)), 4);
    for path in 0..16u32 {
        let route = network.route_on_path(Address(5), Address(127), path);
        let names: Vec<_> = route.iter().map(|&l| network.link_name(l)).collect();
        let agg = path / 4;
        let expected = [
            "h5.access.up".to_owned(),
            format!("pod0.edge1-agg{agg}.up"),
            format!("pod0.agg{agg}-core{path}.up"),
            format!("pod7.agg{agg}-core{path}.down"),
            format!("pod7.edge3-agg{agg}.down"),
            "h127.access.down".to_owned(),
        ];
        assert_eq!(names, expected);
        // Within a pod only the aggregation switch depends on the path.
        let route = network.route_on_path(Address(0), Address(15), path);
        let name = network.link_name(route[1]);
        assert_eq!(name, format!("pod0.edge0-agg{agg}.up"));
    }
    let mut simulation = Simulation::new(network, 1);
    simulation.inject_on_path(Address(0), Address(127), Parcel::new(1), 9);
    drain(&mut simulation);
    let core = simulation.network().links_matching("pod0.agg2-core9.up");
    assert_eq!(simulation.stats(core.unwrap()[0]).packets, 1);
}

#[test]
fn oversubscription_only_adds_hosts() {
    let network = FatTree::mmptcp(4).build().unwrap();
    assert_eq!(network.hosts(), 512);
    assert_eq!(network.switches().len(), 32 + 32 + 16);
    assert_eq!(network.path_count(Address(0), Address(511)), 16);
    // Host 16 is the first under the second edge switch.
    let route = network.route_on_path(Address(0), Address(16), 0);
    assert_eq!(network.link_name(route[1]), "pod0.edge0-agg0.up");
    let fuso = FatTree::fuso().build().unwrap();
    let trunks = fuso.links_matching("edge-agg,agg-core").unwrap().len() / 2;
    assert_eq!((fuso.hosts(), fuso.switches().len(), trunks), (64, 20, 32));
}

#[test]
fn spraying_is_even_and_depends_on_the_seed() {
    let run = |seed| {
        let network = LeafSpine::default().build().unwrap();
        let up = network.links_matching("leaf0-spine*.up").unwrap();
        let mut simulation = Simulation::new(network, seed);
        simulation.balance(&Balancing::RandomSpray);
        for id in 0..8_000 {
            // All packets belong to one flow: spraying distributes packets, not flows.
            let packet = Parcel {
                hash: 1,
                ..Parcel::new(id)
            };
            let from = Address((id % 104) as u32);
            simulation.inject(from, Address(104 + (id % 104) as u32), packet);
        }
        drain(&mut simulation);
        let count = up.iter().map(|&l| simulation.stats(l).offered);
        count.collect::<Vec<_>>()
    };
    let count = run(1);
    assert_eq!(count.len(), 40);
    // Mean 200, standard deviation 14.
    assert!(count.iter().all(|n| (140..260).contains(n)), "{count:?}");
    assert_eq!(count, run(1));
    assert_ne!(count, run(2));
}

/// Takes the port that would be free first; an example of a balancer from another crate.
struct ShortestQueue;

impl Balancer for ShortestQueue {
    fn choose(&mut self, hop: &Hop<'_>) -> usize {
        let ports = 0..hop.ports.len();
        ports.min_by_key(|&p| hop.ports.backlog(p)).unwrap_or(0)
    }
}

#[test]
fn custom_balancer_sees_the_backlog_of_each_port() {
    let network = LeafSpine {
        hosts_per_leaf: 8,
        spines: 4,
        ..LeafSpine::default()
    };
    let network = network.build().unwrap();
    let up = network.links_matching("leaf0-spine*.up").unwrap();
    let mut simulation = Simulation::new(network, 1);
    simulation.balance(&Balancing::custom("shortest-queue", |info| {
        assert_eq!(info.has_hosts, info.tier == 1);
        Box::new(ShortestQueue)
    }));
    for id in 0..8 {
        simulation.inject(Address(id), Address(8 + id), Parcel::new(u64::from(id)));
    }
    drain(&mut simulation);
    let count: Vec<u64> = up.iter().map(|&l| simulation.stats(l).offered).collect();
    assert_eq!(count, [2, 2, 2, 2]);
}

#[test]
fn impossible_topologies_are_refused() {
    for k in [0, 1, 5, 66] {
        let error = FatTree::reference(k).build().unwrap_err().to_string();
        let expected = format!("k of the fat-tree cannot be {k}: k is an even number");
        assert!(error.starts_with(&expected), "{error}");
    }
    let mut tree = FatTree::reference(4);
    tree.hosts_per_edge = 0;
    assert!(tree.build().is_err());
    tree.hosts_per_edge = u32::MAX;
    assert!(tree.build().is_err());
    let spines = LeafSpine {
        spines: 0,
        ..LeafSpine::default()
    };
    assert!(spines.build().is_err());
}

#[test]
fn node_names_and_positions_are_unique() {
    for network in [fat_tree(8), LeafSpine::default().build().unwrap()] {
        let names: HashSet<_> = network.nodes().iter().map(|n| &n.name).collect();
        assert_eq!(names.len(), network.nodes().len());
        let places: HashSet<_> = network
            .nodes()
            .iter()
            .map(|n| (n.tier, n.position))
            .collect();
        assert_eq!(places.len(), network.nodes().len());
    }
    assert_eq!(fat_tree(4).host_named("h7").map(|h| h.0), Some(7));
    assert_eq!(fat_tree(4).host_named("core0"), None);
}

//! The balancers in a network.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use common::{Outcome, Parcel, drain};
use spindle_fabric::topology::LeafSpine;
use spindle_fabric::{
    Address, Balancer, Balancing, CapsSettings, CongaSettings, DrillSettings, EventQueue,
    FlowletSettings, FreewaySettings, HeapQueue, Hop, LinkId, Network, Pending, PrestoSettings,
    Simulation, Wheel,
};
use spindle_units::{Duration, Instant};

fn all() -> Vec<Balancing> {
    vec![
        Balancing::Ecmp,
        Balancing::RandomSpray,
        Balancing::Presto(PrestoSettings::default()),
        Balancing::Freeway(FreewaySettings::default()),
        Balancing::Caps(CapsSettings::default()),
        Balancing::Caps(CapsSettings::dark()),
        Balancing::Flowlet(FlowletSettings::default()),
        Balancing::Drill(DrillSettings::default()),
        Balancing::conga(CongaSettings::default()),
    ]
}

fn network(leaves: u32, spines: u32, hosts_per_leaf: u32, priorities: bool) -> Network {
    let network = LeafSpine {
        leaves,
        spines,
        hosts_per_leaf,
        priorities,
        ..LeafSpine::default()
    };
    network.build().unwrap()
}

/// Packets of 300 flows, a few of them long, and acknowledgements, within 3 ms. The network has enough links
/// for look-ahead.
fn story<Q: EventQueue<Pending>>(queue: Q, balancing: &Balancing, seed: u64) -> Outcome {
    let network = network(4, 6, 130, true);
    assert!(network.links().len() > 1024);
    let mut simulation = Simulation::with_queue(network, seed, queue);
    simulation.observe_drops(true);
    simulation.balance(balancing);
    let mut outcome = Outcome::default();
    for number in 0..6000u64 {
        let flow = number * 7919 % 300;
        let (from, to) = (
            (flow * 37 % 520) as u32,
            (flow * 101 % 520 + 1) as u32 % 520,
        );
        let packet = Parcel {
            id: number,
            ..Parcel::new(flow)
        };
        let packet = if flow % 40 != 0 {
            packet.high()
        } else {
            packet
        };
        let limit = Instant::from_nanos(number * 500);
        while let Some((at, event)) = simulation.next_event_until(limit) {
            outcome.note(at.as_nanos(), event);
        }
        if from != to {
            simulation.inject(Address(from), Address(to), packet.clone());
            simulation.inject(Address(to), Address(from), packet.control());
        }
    }
    while let Some((at, event)) = simulation.next_event() {
        outcome.note(at.as_nanos(), event);
    }
    outcome
}

#[test]
fn results_depend_on_the_seed_but_not_on_the_event_queue() {
    for balancing in all() {
        let wheel = story(Wheel::default(), &balancing, 1);
        assert!(wheel.arrivals.len() > 10_000, "{balancing:?}");
        assert_eq!(
            wheel,
            story(HeapQueue::default(), &balancing, 1),
            "{balancing:?}"
        );
        assert_ne!(
            wheel,
            story(Wheel::default(), &balancing, 2),
            "{balancing:?}"
        );
    }
}

#[test]
fn debug_output_names_the_balancer() {
    let names: Vec<String> = all().iter().map(|b| format!("{b:?}")).collect();
    assert!(names[2].starts_with("PrestoSettings"), "{}", names[2]);
    assert!(names[5].contains("Dark"), "{}", names[5]);
}

/// The number of packets offered to each uplink of the first leaf.
fn up(simulation: &Simulation<Parcel>) -> Vec<u64> {
    let links = simulation.network().links_matching("leaf0-spine*.up");
    let links: Vec<LinkId> = links.unwrap();
    links.iter().map(|l| simulation.stats(*l).offered).collect()
}

#[test]
fn freeway_reserves_the_same_spine_at_every_leaf() {
    let mut simulation = Simulation::new(network(4, 4, 4, false), 1);
    simulation.balance(&Balancing::Freeway(FreewaySettings::default()));
    for leaf in 0..4u32 {
        let (from, to) = (leaf * 4, (leaf * 4 + 4) % 16);
        simulation.inject(Address(from), Address(to), Parcel::new(u64::from(leaf)));
    }
    drain(&mut simulation);
    for leaf in 0..4 {
        let pattern = format!("leaf{leaf}-spine*.up");
        let links = simulation.network().links_matching(&pattern).unwrap();
        let offered = links.iter().map(|l| simulation.stats(*l).offered);
        assert_eq!(offered.collect::<Vec<_>>(), [1, 0, 0, 0], "leaf {leaf}");
    }
}

#[test]
fn caps_sprays_long_flows_until_short_flows_arrive() {
    let mut simulation = Simulation::new(network(2, 4, 2, false), 1);
    simulation.balance(&Balancing::Caps(CapsSettings::default()));
    let long = |simulation: &mut Simulation<Parcel>, id| {
        let packet = Parcel {
            hash: 5,
            ..Parcel::new(id)
        };
        simulation.inject(Address(0), Address(2), packet);
        drain(simulation);
    };
    (0..200).for_each(|id| long(&mut simulation, id));
    let off = up(&simulation);
    assert!(off.iter().all(|n| *n > 25), "{off:?}");
    // A short packet now and then keeps the mode ON.
    for id in 0..200 {
        if id % 2 == 0 {
            simulation.inject(Address(1), Address(3), Parcel::new(1000).high());
        }
        long(&mut simulation, id);
        let at = simulation.now() + Duration::from_micros(50);
        assert_eq!(simulation.next_event_until(at), None);
        if id == 19 {
            // Two intervals have passed by now.
            let before = up(&simulation);
            (0..3).for_each(|id| long(&mut simulation, id));
            let after = up(&simulation);
            let changed = before.iter().zip(&after).filter(|(b, a)| a > b);
            assert_eq!(changed.count(), 1, "one path: {before:?} {after:?}");
        }
    }
    let on: Vec<u64> = up(&simulation)
        .iter()
        .zip(off)
        .map(|(n, o)| n - o)
        .collect();
    assert!(*on.iter().max().unwrap() > 150, "{on:?}");
}

/// Counts the packets that it is shown.
struct Counter {
    chosen: Arc<AtomicU64>,
    passed: Arc<AtomicU64>,
}

impl Balancer for Counter {
    fn choose(&mut self, hop: &Hop<'_>) -> usize {
        assert_eq!(hop.ports.len(), 4);
        self.chosen.fetch_add(1, Ordering::Relaxed);
        0
    }

    fn sees_passing(&self) -> bool {
        true
    }

    fn passes(&mut self, hop: &Hop<'_>) {
        assert_eq!((hop.ports.len(), hop.wire_len), (1, 1500));
        self.passed.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn sees_passing_shows_packets_with_one_next_hop() {
    // Few links, then many: look-ahead is active in the second case.
    for hosts_per_leaf in [4, 400] {
        let network = network(2, 4, hosts_per_leaf, false);
        let (chosen, passed) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let mut simulation = Simulation::new(network, 1);
        let counters = (chosen.clone(), passed.clone());
        simulation.balance(&Balancing::custom("counter", move |_| {
            let (chosen, passed) = counters.clone();
            Box::new(Counter { chosen, passed })
        }));
        let far = Address(hosts_per_leaf);
        for id in 0..10 {
            simulation.inject(Address(0), far, Parcel::new(id));
            simulation.inject(Address(0), Address(1), Parcel::new(id));
            simulation.inject_on_path(Address(0), far, Parcel::new(id), 1);
        }
        assert_eq!(drain(&mut simulation).arrivals.len(), 30);
        // To another leaf: a choice, then spine and leaf. Within a leaf: only that leaf.
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        assert_eq!((count(&chosen), count(&passed)), (10, 20 + 10));
    }
}

//! The observations of a watch, compared with values computed by hand.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod common;

use common::{Parcel, drain};
use spindle_fabric::topology::{Dumbbell, FatTree, LeafSpine};
use spindle_fabric::{
    Address, Balancing, Buffer, LinkId, Loss, Network, Simulation, WatchConfig, Watched,
};
use spindle_units::{Duration, Instant};

fn leaf_spine(spines: u32, priorities: bool) -> Network {
    let network = LeafSpine {
        spines,
        hosts_per_leaf: 4,
        priorities,
        ..LeafSpine::default()
    };
    network.build().unwrap()
}

fn watching(network: Network) -> Simulation<Parcel> {
    let mut simulation = Simulation::new(network, 1);
    assert_eq!(simulation.watched(), None);
    simulation.watch(&WatchConfig::default());
    simulation
}

fn wait(simulation: &mut Simulation<Parcel>, micros: u64) {
    let until = Instant::ZERO + Duration::from_micros(micros);
    while simulation.next_event_until(until).is_some() {}
}

fn seen(simulation: &mut Simulation<Parcel>) -> Watched {
    drain(simulation);
    simulation.watched().unwrap()
}

const fn micros(n: u64) -> Duration {
    Duration::from_micros(n)
}

/// 1 Gbps, 100 Mbps, 1 Gbps: 1500 bytes take 12 us, 120 us and 12 us.
fn dumbbell(priorities: bool) -> Network {
    let network = Dumbbell {
        switch_buffer: Buffer::Packets(100),
        priorities,
        ..Dumbbell::default()
    };
    network.build().unwrap()
}

#[test]
fn queueing_in_switches_and_in_hosts_is_counted_separately() {
    let mut simulation = watching(dumbbell(false));
    for id in 0..4 {
        simulation.inject(Address(0), Address(2), Parcel::new(id));
    }
    simulation.inject(Address(0), Address(2), Parcel::new(9).control());
    let seen = seen(&mut simulation);
    // They arrive 12 us apart and leave 120 us apart.
    assert_eq!(seen.long.host_queueing, micros(12 + 24 + 36));
    assert_eq!(seen.long.queueing, micros(108 + 216 + 324));
    assert_eq!(seen.long.mean_queueing(), Some(micros(162)));
    assert_eq!((seen.long.packets, seen.long.disorder()), (4, Some(0.0)));
    assert_eq!((seen.short.packets, seen.short.mean_queueing()), (0, None));
    assert_eq!(seen.short.disorder(), None);
    // No switch of the dumbbell has a choice.
    assert_eq!((seen.leaves.len(), seen.unused()), (0, None));
}

#[test]
fn priorities_reduce_the_queueing_of_short_flows() {
    let mut simulation = watching(dumbbell(true));
    for id in 0..3 {
        simulation.inject(Address(0), Address(2), Parcel::new(id));
    }
    wait(&mut simulation, 50);
    simulation.inject(Address(1), Address(2), Parcel::new(3).high());
    let seen = seen(&mut simulation);
    // The first packet is sent from 22 to 142 us. The short one, there at 72 us, is next. Then follow the other
    // two, there at 34 and 46 us.
    assert_eq!(seen.short.queueing, micros(142 - 72));
    assert_eq!(seen.long.queueing, micros((262 - 34) + (382 - 46)));
    assert_eq!(seen.long.host_queueing, micros(12 + 24));
}

#[test]
fn overtaken_packets_count_as_disordered() {
    let mut simulation = watching(leaf_spine(2, false));
    let flow = |id| Parcel {
        hash: 5,
        ..Parcel::new(id)
    };
    // Two hosts fill path 0 twice as fast as it empties.
    for id in 10..16 {
        simulation.inject_on_path(Address(2), Address(6), Parcel::new(id), 0);
        simulation.inject_on_path(Address(3), Address(7), Parcel::new(id), 0);
    }
    wait(&mut simulation, 30);
    let send = |simulation: &mut Simulation<Parcel>, packet: Parcel, path| {
        simulation.inject_on_path(Address(0), Address(4), packet.high(), path);
    };
    // 1 and 3 wait on path 0. 2 overtakes 1, and 4 overtakes 3 as well. No packet overtakes 2 or 4.
    send(&mut simulation, flow(1), 0);
    send(&mut simulation, flow(2), 1);
    send(&mut simulation, flow(3), 0);
    send(&mut simulation, flow(4), 1);
    // Acknowledgements, another flow and the flow's other direction each have their own order.
    send(&mut simulation, flow(5).control(), 1);
    send(&mut simulation, Parcel::new(6), 1);
    simulation.inject_on_path(Address(4), Address(0), flow(7).high(), 1);
    let seen = seen(&mut simulation);
    assert_eq!((seen.short.packets, seen.short.disordered), (6, 2));
    assert_eq!(seen.short.disorder(), Some(2.0 / 6.0));
    assert_eq!((seen.long.packets, seen.long.disordered), (12, 0));
}

#[test]
fn lost_packets_and_packets_injected_before_the_watch_are_not_counted() {
    let mut simulation = Simulation::new(leaf_spine(2, false), 1);
    simulation.inject(Address(0), Address(4), Parcel::new(0));
    simulation.watch(&WatchConfig::default());
    let last = simulation.network().downlink(Address(5));
    simulation.set_loss(last, &Loss::black_hole());
    simulation.inject(Address(1), Address(5), Parcel::new(1));
    simulation.inject(Address(2), Address(6), Parcel::new(2));
    drain(&mut simulation);
    assert_eq!(simulation.watched().unwrap().long.packets, 1);
    simulation.watch(&WatchConfig::default());
    assert_eq!(simulation.watched().unwrap().long.packets, 0);
}

#[test]
fn paths_are_counted_in_slots_in_which_short_flows_send() {
    let mut simulation = watching(leaf_spine(4, true));
    let short = |id| Parcel::new(id).high();
    // At the leaf 24.5 us later: slot 0, on two of four paths.
    for (id, path) in [(0, 0), (1, 0), (2, 1)] {
        simulation.inject_on_path(Address(0), Address(4), short(id), path);
    }
    simulation.inject_on_path(Address(1), Address(5), Parcel::new(3), 2);
    simulation.inject_on_path(Address(2), Address(6), short(4).control(), 3);
    // Within the rack no path is used.
    simulation.inject(Address(0), Address(1), short(5));
    // Slot 1 has only long data. Slots 2 and 3 have one path each, which is the same.
    for (at, packet) in [(600, Parcel::new(6)), (1100, short(7)), (1600, short(8))] {
        wait(&mut simulation, at);
        simulation.inject_on_path(Address(0), Address(4), packet, 3);
    }
    let seen = seen(&mut simulation);
    let counts = |leaf: usize| {
        let leaf = &seen.leaves[leaf];
        (leaf.uplinks, leaf.slots, leaf.used)
    };
    assert_eq!(seen.leaves.len(), 2, "spines have no choice");
    assert_eq!((counts(0), counts(1)), ((4, 3, 4), (4, 0, 0)));
    assert_eq!(seen.unused(), Some(1.0 - 4.0 / 12.0));
    let name = &simulation.network().node(seen.leaves[0].node).name;
    assert_eq!(name, "leaf0");
}

#[test]
fn leaves_of_a_fat_tree_are_its_edge_switches() {
    let simulation = watching(FatTree::reference(4).build().unwrap());
    let leaves = simulation.watched().unwrap().leaves;
    assert_eq!(leaves.len(), 8);
    assert!(leaves.iter().all(|leaf| leaf.uplinks == 2));
}

#[test]
fn watching_does_not_change_the_results() {
    for priorities in [false, true] {
        let run = |watch: bool| {
            let network = leaf_spine(4, priorities);
            let mut simulation = Simulation::new(network, 1);
            simulation.observe_drops(true);
            simulation.balance(&Balancing::RandomSpray);
            if watch {
                simulation.watch(&WatchConfig::default());
            }
            let links = simulation.network().links().len() as u32;
            for link in (0..links).step_by(5) {
                simulation.set_loss(LinkId(link), &Loss::nth([3, 4, 30]).unwrap());
            }
            for id in 0..4000 {
                let packet = Parcel {
                    hash: id % 40,
                    ..Parcel::new(id)
                };
                let packet = if id % 3 == 0 { packet.high() } else { packet };
                let (from, to) = ((id % 4) as u32, 4 + (id % 3) as u32);
                simulation.inject(Address(from), Address(to), packet);
            }
            simulation.set_up(LinkId(20), false);
            (drain(&mut simulation), simulation.watched())
        };
        let (plain, none) = run(false);
        let (watched, some) = run(true);
        assert_eq!(plain, watched);
        let some = some.unwrap();
        assert_eq!(none, None);
        let arrived = plain.arrivals.len() as u64;
        assert_eq!(some.short.packets + some.long.packets, arrived);
        assert!(
            some.short.disordered > 0 && some.long.disordered > 0,
            "{some:?}"
        );
    }
}

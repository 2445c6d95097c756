//! Ports with two strict priorities.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod common;

use common::{Parcel, drain};
use spindle_fabric::topology::Dumbbell;
use spindle_fabric::{Address, Buffer, DropCause, LinkId, Simulation};
use spindle_units::{Bytes, Duration, Instant};

/// A dumbbell with fast access links, so that the queue is at the bottleneck.
fn simulation(switch_buffer: Buffer) -> (Simulation<Parcel>, LinkId) {
    let network = Dumbbell {
        switch_buffer,
        priorities: true,
        ..Dumbbell::default()
    };
    let network = network.build().unwrap();
    let link = network.links_matching("bottleneck.up").unwrap()[0];
    let mut simulation = Simulation::new(network, 1);
    simulation.observe_drops(true);
    (simulation, link)
}

#[test]
fn high_priority_overtakes_waiting_packets_but_not_the_one_being_sent() {
    let (mut simulation, link) = simulation(Buffer::Packets(100));
    for id in 0..3 {
        simulation.inject(Address(0), Address(2), Parcel::new(id));
    }
    for id in 3..5 {
        simulation.inject(Address(0), Address(2), Parcel::new(id).high());
    }
    let outcome = drain(&mut simulation);
    assert_eq!(outcome.ids(), [0, 3, 4, 1, 2]);
    let times: Vec<u64> = (0..5).map(|n| 1_164_000 + n * 120_000).collect();
    assert_eq!(outcome.times(), times);
    let stats = simulation.stats(link);
    assert_eq!(stats.busy, Duration::from_micros(600));
    assert_eq!((stats.packets, stats.max_queue_packets), (5, 5));
}

#[test]
fn high_priority_pushes_out_the_newest_low_packets() {
    let (mut simulation, link) = simulation(Buffer::Packets(2));
    for id in 0..3 {
        simulation.inject(Address(0), Address(2), Parcel::new(id));
    }
    // The host's own port has priorities too, so the low packets must leave it first.
    let soon = Instant::ZERO + Duration::from_micros(50);
    assert_eq!(simulation.next_event_until(soon), None);
    for id in 3..6 {
        simulation.inject(Address(0), Address(2), Parcel::new(id).high());
    }
    let outcome = drain(&mut simulation);
    // 3 pushes out 2, 4 pushes out 1, and then no packet is left for 5 to push out.
    assert_eq!(outcome.dropped(), [2, 1, 5]);
    assert_eq!(outcome.ids(), [0, 3, 4]);
    assert!(
        outcome
            .drops
            .iter()
            .all(|d| (d.1, d.2) == (link, DropCause::Queue))
    );
}

#[test]
fn packets_are_pushed_out_only_if_that_makes_room() {
    let (mut simulation, _) = simulation(Buffer::Bytes(Bytes(3000)));
    simulation.inject(Address(0), Address(2), Parcel::new(0));
    simulation.inject(Address(0), Address(2), Parcel::new(1).len(500));
    simulation.inject(Address(0), Address(2), Parcel::new(2).len(500));
    // 1500 bytes are being sent and 1000 wait. 1600 do not fit even without those that wait, 1000 do.
    simulation.inject(Address(0), Address(2), Parcel::new(3).len(1600).high());
    simulation.inject(Address(0), Address(2), Parcel::new(4).len(1000).high());
    let outcome = drain(&mut simulation);
    assert_eq!(outcome.dropped(), [3, 2]);
    assert_eq!(outcome.ids(), [0, 4, 1]);
}

#[test]
fn priority_port_is_idle_after_its_link_went_down_and_up() {
    let (mut simulation, link) = simulation(Buffer::Packets(100));
    simulation.inject(Address(0), Address(2), Parcel::new(0));
    assert_eq!(drain(&mut simulation).times(), [1_164_000]);
    for id in 1..4 {
        simulation.inject(Address(0), Address(2), Parcel::new(id));
    }
    let soon = simulation.now() + Duration::from_micros(60);
    assert_eq!(simulation.next_event_until(soon), None);
    assert!(simulation.backlog(link) > Duration::from_micros(300));
    simulation.set_up(link, false);
    simulation.set_up(link, true);
    assert_eq!(simulation.backlog(link), Duration::ZERO);
    for id in 4..7 {
        simulation.inject(Address(1), Address(2), Parcel::new(id));
    }
    let start = simulation.now();
    let outcome = drain(&mut simulation);
    assert_eq!(outcome.dropped(), [1, 2, 3]);
    assert_eq!(outcome.ids(), [4, 5, 6]);
    let times = (0..3).map(|n| start.as_nanos() + 1_164_000 + n * 120_000);
    assert_eq!(outcome.times(), times.collect::<Vec<_>>());
    assert_eq!(simulation.backlog(link), Duration::ZERO);
    assert!(simulation.now() > Instant::ZERO);
}

#[test]
fn priority_port_with_one_class_behaves_like_fifo() {
    let run = |priorities: bool| {
        let network = Dumbbell {
            switch_buffer: Buffer::Packets(7),
            mark_above: Some(Bytes(5000)),
            priorities,
            ..Dumbbell::default()
        };
        let mut simulation = Simulation::new(network.build().unwrap(), 1);
        simulation.observe_drops(true);
        for id in 0..40 {
            let len = 40 + (id as u32 * 577) % 1460;
            let from = Address((id % 2) as u32);
            simulation.inject(from, Address(2), Parcel::new(id).len(len).ect());
        }
        drain(&mut simulation)
    };
    let fifo = run(false);
    assert!(!fifo.drops.is_empty());
    assert_eq!(run(true), fifo);
}

#[test]
fn both_priorities_share_the_buffer() {
    let (mut simulation, link) = simulation(Buffer::Packets(256));
    let outcome = |simulation: &mut Simulation<Parcel>| {
        let soon = simulation.now() + Duration::from_millis(4);
        let mut outcome = common::Outcome::default();
        while let Some((at, event)) = simulation.next_event_until(soon) {
            outcome.note(at.as_nanos(), event);
        }
        outcome
    };
    // 200 packets of low and 100 of high priority: about 30 have been sent when the last one arrives. At most
    // 256 of the others may wait.
    for id in 0..200 {
        simulation.inject(Address(0), Address(2), Parcel::new(id));
    }
    for id in 200..300 {
        simulation.inject(Address(1), Address(2), Parcel::new(id).high());
    }
    let early = outcome(&mut simulation);
    let stats = simulation.stats(link);
    assert_eq!(stats.max_queue_packets, 257, "one of them is being sent");
    let late = drain(&mut simulation);
    // Packets of low priority find no room or are pushed out, the newest first. No packet of high priority is
    // lost.
    let lost: Vec<u64> = [early.dropped(), late.dropped()].concat();
    assert!(!lost.is_empty());
    assert!(lost.iter().all(|id| *id < 200), "{lost:?}");
    let arrived: Vec<u64> = [early.ids(), late.ids()].concat();
    let low: Vec<u64> = arrived.iter().copied().filter(|id| *id < 200).collect();
    assert!(low.is_sorted(), "in order");
    assert_eq!(arrived.len() + lost.len(), 300);
}

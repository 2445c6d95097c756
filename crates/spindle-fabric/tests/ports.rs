//! Times, queues and marks, compared with values computed by hand.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod common;

use common::{Parcel, drain};
use spindle_fabric::topology::{Dumbbell, FatTree};
use spindle_fabric::{Address, Buffer, DropCause, Event, LinkId, Network, Simulation};
use spindle_units::{BitRate, Bytes, Duration, Instant};

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

/// S1, S2 are addresses 0, 1, and R1, R2 are addresses 2, 3. The access links have 1 Gbps and 10 us, the
/// bottleneck 100 Mbps and 1 ms: 1500 bytes take 12 us and 120 us.
fn dumbbell(switch_buffer: Buffer, mark_above: Option<Bytes>) -> Network {
    let dumbbell = Dumbbell {
        switch_buffer,
        mark_above,
        ..Dumbbell::default()
    };
    dumbbell.build().unwrap()
}

fn bottleneck(network: &Network) -> LinkId {
    network.links_matching("bottleneck.up").unwrap()[0]
}

#[test]
fn packet_over_the_dumbbell_takes_the_expected_time() {
    let mut simulation = Simulation::new(dumbbell(Buffer::Packets(100), None), 1);
    simulation.inject(Address(0), Address(2), Parcel::new(1));
    let (when, event) = simulation.next_event().unwrap();
    // (12 + 10) us, (120 + 1000) us, (12 + 10) us.
    assert_eq!(when, at(22_000 + 1_120_000 + 22_000));
    let Event::Arrive {
        host,
        address,
        packet,
    } = event
    else {
        panic!("{event:?}");
    };
    assert_eq!((host.0, address, packet.id), (2, Address(2), 1));
    assert_eq!(simulation.next_event(), None);
    assert_eq!((simulation.packet_hops(), simulation.in_flight()), (3, 0));
    assert_eq!(simulation.now(), when);
}

#[test]
fn packet_train_leaves_the_bottleneck_evenly_spaced() {
    let network = dumbbell(Buffer::Packets(100), None);
    let link = bottleneck(&network);
    let mut simulation = Simulation::new(network, 1);
    for id in 0..4 {
        simulation.inject(Address(0), Address(2), Parcel::new(id));
    }
    let outcome = drain(&mut simulation);
    let times: Vec<u64> = (0..4).map(|n| 1_164_000 + n * 120_000).collect();
    assert_eq!((outcome.times(), outcome.ids()), (times, vec![0, 1, 2, 3]));
    let stats = simulation.stats(link);
    assert_eq!((stats.offered, stats.packets, stats.bytes), (4, 4, 6000));
    assert_eq!(stats.busy, Duration::from_micros(480));
    // They arrive 12 us apart: all four are there before the first has been sent.
    assert_eq!(stats.max_queue_packets, 4);
    assert_eq!(stats.max_queue, Bytes(6000));
}

#[test]
fn packet_over_the_fat_tree_takes_the_expected_time() {
    let network = FatTree::reference(8).build().unwrap();
    let mut simulation = Simulation::new(network, 1);
    for (to, hops) in [(1, 2), (4, 4), (127, 6)] {
        let start = simulation.now().as_nanos();
        simulation.inject(Address(0), Address(to), Parcel::new(1));
        let outcome = drain(&mut simulation);
        assert_eq!(outcome.times(), [start + hops * (1_200 + 1_000)]);
    }
}

#[test]
fn buffer_in_packets_does_not_count_the_packet_being_sent() {
    let mut simulation = Simulation::new(dumbbell(Buffer::Packets(2), None), 1);
    simulation.observe_drops(true);
    for id in 0..5 {
        simulation.inject(Address(0), Address(2), Parcel::new(id));
    }
    let outcome = drain(&mut simulation);
    assert_eq!(outcome.ids(), [0, 1, 2]);
    let link = bottleneck(simulation.network());
    // Packet n reaches the switch at 22 + 12 n us.
    let drop = |id| (22_000 + 12_000 * id, link, DropCause::Queue, id);
    assert_eq!(outcome.drops, [drop(3), drop(4)]);
    assert_eq!(simulation.stats(link).drops.queue, 2);
}

#[test]
fn buffer_in_packets_has_room_once_the_next_packet_is_being_sent() {
    let mut simulation = Simulation::new(dumbbell(Buffer::Packets(1), None), 1);
    for id in 0..3 {
        simulation.inject(Address(0), Address(2), Parcel::new(id));
    }
    // The first packet has been sent at 22 + 120 us. A packet that reaches the switch at that time finds room.
    simulation.schedule(at(120_000), 0);
    assert!(matches!(
        simulation.next_event(),
        Some((_, Event::Timer(0)))
    ));
    simulation.inject(Address(0), Address(2), Parcel::new(3));
    assert_eq!(drain(&mut simulation).ids(), [0, 1, 3]);
}

#[test]
fn buffer_in_bytes_counts_the_packet_being_sent() {
    let run = |bytes| {
        let mut simulation = Simulation::new(dumbbell(Buffer::Bytes(Bytes(bytes)), None), 1);
        for id in 0..5 {
            simulation.inject(Address(0), Address(2), Parcel::new(id));
        }
        drain(&mut simulation).ids()
    };
    assert_eq!(run(4500), [0, 1, 2]);
    assert_eq!(run(4499), [0, 1]);
    // A small packet fits after a large one did not.
    let mut simulation = Simulation::new(dumbbell(Buffer::Bytes(Bytes(3100)), None), 1);
    for id in 0..4 {
        let len = if id == 3 { 100 } else { 1500 };
        simulation.inject(Address(0), Address(2), Parcel::new(id).len(len));
    }
    assert_eq!(drain(&mut simulation).ids(), [0, 1, 3]);
}

#[test]
fn packets_are_marked_above_the_threshold() {
    let network = dumbbell(Buffer::Packets(100), Some(Bytes(3000)));
    let mut simulation = Simulation::new(network, 1);
    for id in 0..6 {
        let packet = Parcel::new(id);
        let packet = if id == 4 { packet } else { packet.ect() };
        simulation.inject(Address(0), Address(2), packet);
    }
    let outcome = drain(&mut simulation);
    let marked = outcome.arrivals.iter().map(|(_, _, p)| p.ce);
    // Bytes in the queue before each packet: 0, 1500, 3000 (not above), 4500, 6000 (not ECN-capable), 7500.
    let expected = [false, false, false, true, false, true];
    assert!(marked.eq(expected), "{:?}", outcome.arrivals);
    let link = bottleneck(simulation.network());
    assert_eq!(simulation.stats(link).marked, 2);
}

/// Linux's RED drops what it cannot mark (`red_enqueue`).
#[test]
fn port_that_drops_unmarkable_packets_drops_them_above_the_threshold_only() {
    let network = dumbbell(Buffer::Packets(100), Some(Bytes(3000))).dropping_unmarkable();
    let mut simulation = Simulation::new(network, 1);
    for id in 0..6 {
        let packet = Parcel::new(id);
        let capable = id != 1 && id != 4;
        let packet = if capable { packet.ect() } else { packet };
        simulation.inject(Address(0), Address(2), packet);
    }
    let outcome = drain(&mut simulation);
    assert_eq!(outcome.ids(), [0, 1, 2, 3, 5]);
    let link = bottleneck(simulation.network());
    let stats = simulation.stats(link);
    assert_eq!((stats.marked, stats.drops.queue), (2, 1));
}

#[test]
fn events_at_the_same_instant_keep_their_order() {
    let mut simulation = Simulation::new(dumbbell(Buffer::Packets(100), None), 1);
    // Both senders' packets reach the switch at the same instant. The packet that was injected first is served
    // first.
    for id in [7, 3] {
        let from = Address(u32::from(id == 3));
        simulation.inject(from, Address(2), Parcel::new(id));
    }
    for token in [5, 1, 4] {
        simulation.schedule(at(1_164_000), token);
    }
    let mut order = Vec::new();
    while let Some((when, event)) = simulation.next_event() {
        order.push(match event {
            Event::Arrive { packet, .. } => (when.as_nanos(), packet.id),
            Event::Timer(token) => (when.as_nanos(), token),
            Event::Dropped(_) => panic!("nothing is dropped here"),
        });
    }
    let late = 1_164_000;
    let expected = [
        (late, 5),
        (late, 1),
        (late, 4),
        (late, 7),
        (late + 120_000, 3),
    ];
    assert_eq!(order, expected);
}

#[test]
fn next_event_until_advances_time_to_its_limit() {
    let mut simulation = Simulation::new(dumbbell(Buffer::Packets(100), None), 1);
    simulation.inject(Address(0), Address(2), Parcel::new(0));
    assert_eq!(simulation.next_event_until(at(500_000)), None);
    assert_eq!(simulation.now(), at(500_000));
    assert_eq!(simulation.in_flight(), 1);
    // A timer for the past expires at once.
    simulation.schedule(at(3), 9);
    assert_eq!(simulation.next_due(), Some(at(500_000)));
    let timer = simulation.next_event_until(at(500_000));
    assert_eq!(timer, Some((at(500_000), Event::Timer(9))));
    let (when, _) = simulation.next_event_until(at(1_164_000)).unwrap();
    assert_eq!(when, at(1_164_000));
}

#[test]
fn backlog_and_busy_time_refer_to_the_current_time() {
    let network = dumbbell(Buffer::Packets(100), None);
    let link = network.uplink(Address(0));
    let mut simulation = Simulation::new(network, 1);
    for id in 0..3 {
        simulation.inject(Address(0), Address(2), Parcel::new(id));
    }
    assert_eq!(simulation.backlog(link), Duration::from_micros(36));
    assert_eq!(simulation.stats(link).busy, Duration::ZERO);
    assert_eq!(simulation.next_event_until(at(20_000)), None);
    assert_eq!(simulation.backlog(link), Duration::from_micros(16));
    assert_eq!(simulation.stats(link).busy, Duration::from_micros(20));
}

#[test]
fn packets_longer_than_the_table_have_the_right_sending_time() {
    let network = Dumbbell {
        bottleneck_rate: BitRate(300_000_000),
        ..Dumbbell::default()
    };
    for len in [0u32, 1, 40, 2047, 2048, 64_000] {
        let mut simulation = Simulation::new(network.build().unwrap(), 1);
        simulation.inject(Address(0), Address(2), Parcel::new(0).len(len));
        let fast = BitRate(1_000_000_000).time_to_send(len.into()) * 2;
        let slow = BitRate(300_000_000).time_to_send(len.into());
        let total = fast + slow + Duration::from_micros(1_020);
        assert_eq!(drain(&mut simulation).times(), [total.as_nanos()]);
    }
}

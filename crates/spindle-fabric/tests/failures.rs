//! Loss and links that go down.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod common;

use common::{Parcel, drain};
use spindle_fabric::topology::FusoTestbed;
use spindle_fabric::{Address, DropCause, LinkId, Loss, Network, NetworkError, Simulation};
use spindle_units::{Instant, Probability};

fn testbed() -> Network {
    FusoTestbed::default().build().unwrap()
}

fn link(network: &Network, name: &str) -> LinkId {
    let links = network.links_matching(name).unwrap();
    assert_eq!(links.len(), 1, "{name}");
    links[0]
}

/// Sends `packets` packets on P1 from H1 to H4, 20 us apart, and control packets back.
fn exchange(network: Network, packets: u64) -> (Simulation<Parcel>, common::Outcome) {
    let mut simulation = Simulation::new(network, 5);
    simulation.observe_drops(true);
    let mut outcome = common::Outcome::default();
    for id in 0..packets {
        simulation.inject_on_path(Address(0), Address(3), Parcel::new(id), 0);
        let back = Parcel::new(1000 + id).control();
        simulation.inject_on_path(Address(3), Address(0), back, 0);
        let limit = Instant::from_nanos((id + 1) * 20_000);
        while let Some((at, event)) = simulation.next_event_until(limit) {
            outcome.note(at.as_nanos(), event);
        }
    }
    let rest = drain(&mut simulation);
    outcome.arrivals.extend(rest.arrivals);
    outcome.drops.extend(rest.drops);
    (simulation, outcome)
}

#[test]
fn scripted_loss_is_reported_with_link_and_time() {
    let mut network = testbed();
    let p1 = link(&network, "P1.up");
    network.set_loss(&[p1], &Loss::nth([2, 4]).unwrap());
    let (simulation, outcome) = exchange(network, 4);
    assert_eq!(outcome.dropped(), [1, 3]);
    // Sent at 20 us, over two links of 12 us and 46.667 us each.
    let drop = (20_000 + 2 * 58_667, p1, DropCause::Loss, 1);
    assert_eq!(outcome.drops[0], drop);
    assert_eq!(simulation.stats(p1).drops.loss, 2);
    assert_eq!(simulation.stats(p1).packets, 2);
    assert_eq!(outcome.arrivals.len(), 6);
}

#[test]
fn black_hole_for_data_forwards_other_packets() {
    let mut network = testbed();
    let p1 = network.links_matching("P1").unwrap();
    network.set_loss(&p1, &Loss::black_hole().data_only());
    let (_, outcome) = exchange(network, 3);
    assert_eq!(outcome.dropped(), [0, 1, 2]);
    assert_eq!(outcome.ids(), [1000, 1001, 1002]);
}

#[test]
fn loss_in_one_direction_does_not_affect_the_other() {
    let mut network = testbed();
    let down = link(&network, "P1.down");
    let always = Loss::bernoulli(Probability::ONE);
    network.set_loss(&[down], &always);
    let (_, outcome) = exchange(network, 3);
    assert_eq!(outcome.dropped(), [1000, 1001, 1002]);
    assert_eq!(outcome.ids(), [0, 1, 2]);
}

#[test]
fn each_link_draws_losses_from_its_own_stream() {
    let lossy = |extra: bool| {
        let mut network = testbed();
        let all = network.links_matching("paths").unwrap();
        let half = Probability::new(0.5).unwrap();
        network.set_loss(&all, &Loss::bernoulli(half));
        let mut simulation = Simulation::new(network, 9);
        simulation.observe_drops(true);
        for id in 0..40 {
            simulation.inject_on_path(Address(0), Address(3), Parcel::new(id), 0);
            if extra {
                simulation.inject_on_path(Address(0), Address(4), Parcel::new(100 + id), 1);
            }
        }
        let dropped = drain(&mut simulation).dropped();
        let (first, second): (Vec<u64>, _) = dropped.into_iter().partition(|&id| id < 100);
        (first, second)
    };
    let (alone, _) = lossy(false);
    let (with_other_traffic, other) = lossy(true);
    assert_eq!(alone, with_other_traffic);
    assert!((8..32).contains(&alone.len()), "{alone:?}");
    let shifted: Vec<u64> = other.iter().map(|id| id - 100).collect();
    assert_ne!(alone, shifted);
}

#[test]
fn link_that_goes_down_loses_the_packets_on_it() {
    let mut network = testbed();
    let p1 = link(&network, "P1.up");
    let script = [(100_000, false), (150_000, true)];
    let script = script.map(|(at, up)| (Instant::from_nanos(at), up));
    network
        .configure(&[p1], |spec| spec.up_down = script.to_vec())
        .unwrap();
    let (simulation, outcome) = exchange(network, 8);
    // Packet n is on P1 from 58.667 + 20 n us for 58.667 us: 0 to 2 are on it at 100 us, 3 and 4 are
    // offered while it is down.
    assert_eq!(outcome.dropped(), [0, 1, 2, 3, 4]);
    let times: Vec<u64> = outcome.drops.iter().map(|d| d.0).collect();
    assert_eq!(times, [100_000, 100_000, 100_000, 118_667, 138_667]);
    assert!(outcome.drops.iter().all(|d| d.2 == DropCause::Down));
    let arrived: Vec<u64> = outcome.ids().into_iter().filter(|&id| id < 1000).collect();
    assert_eq!(arrived, [5, 6, 7]);
    assert!(simulation.is_up(p1));
    assert_eq!(simulation.stats(p1).drops.down, 5);
}

#[test]
fn link_that_came_back_up_is_idle_at_once() {
    let network = testbed();
    let uplink = network.uplink(Address(0));
    let mut simulation = Simulation::new(network, 1);
    for id in 0..10 {
        simulation.inject(Address(0), Address(1), Parcel::new(id));
    }
    simulation.set_up(uplink, false);
    assert!(!simulation.is_up(uplink));
    simulation.inject(Address(0), Address(1), Parcel::new(10));
    simulation.set_up(uplink, true);
    simulation.inject(Address(0), Address(1), Parcel::new(11));
    let outcome = drain(&mut simulation);
    assert_eq!(outcome.ids(), [11]);
    assert_eq!(outcome.times(), [2 * 58_667]);
    assert_eq!(simulation.stats(uplink).drops.down, 11);
    assert_eq!(simulation.stats(uplink).busy.as_nanos(), 12_000);
    assert_eq!(simulation.in_flight(), 0);
}

#[test]
fn up_down_script_out_of_order_is_refused() {
    let mut network = testbed();
    let p1 = network.links_matching("P1.up").unwrap();
    let script = vec![
        (Instant::from_nanos(5), false),
        (Instant::from_nanos(5), true),
    ];
    let error = network
        .configure(&p1, |spec| spec.up_down = script.clone())
        .unwrap_err();
    assert!(matches!(error, NetworkError::Parameter { .. }));
    assert!(error.to_string().contains("ascending"), "{error}");
    assert!(network.link(p1[0]).spec.up_down.is_empty());
}

#[test]
fn loss_process_can_change_during_a_run() {
    let network = testbed();
    let p1 = link(&network, "P1.up");
    let mut simulation = Simulation::new(network, 1);
    simulation.set_loss(p1, &Loss::black_hole());
    simulation.inject_on_path(Address(0), Address(3), Parcel::new(0), 0);
    assert_eq!(drain(&mut simulation).ids(), []);
    simulation.set_loss(p1, &Loss::none());
    simulation.inject_on_path(Address(0), Address(3), Parcel::new(1), 0);
    assert_eq!(drain(&mut simulation).ids(), [1]);
}

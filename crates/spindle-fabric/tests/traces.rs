//! Links whose rate and delay follow a trace.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod common;

use common::{Parcel, drain};
use spindle_fabric::topology::Dumbbell;
use spindle_fabric::{
    Address, Buffer, LeoLike, LinkId, LinkTrace, Simulation, Steps, Trace, TraceStep, WatchConfig,
};
use spindle_units::{BitRate, Duration, Instant};

/// A step at a time in microseconds with a rate in Mbit/s and a delay in microseconds.
fn step(at: u64, rate: u64, delay: u64) -> TraceStep {
    TraceStep {
        at: Instant::ZERO + Duration::from_micros(at),
        rate: BitRate(rate * 1_000_000),
        delay: Duration::from_micros(delay),
    }
}

/// A dumbbell whose bottleneck has 100 Mbit/s and 100 us, until its trace changes it. Access links take 12 us
/// for a packet of 1500 B and have no delay.
fn simulation(trace: impl LinkTrace + 'static) -> (Simulation<Parcel>, LinkId) {
    let network = Dumbbell {
        access_delay: Duration::ZERO,
        access_rate: BitRate(1_000_000_000),
        bottleneck_rate: BitRate(100_000_000),
        bottleneck_delay: Duration::from_micros(100),
        switch_buffer: Buffer::Packets(100),
        ..Dumbbell::default()
    };
    let mut network = network.build().unwrap();
    let link = network.links_matching("bottleneck.up").unwrap()[0];
    let trace = Trace::new(trace);
    network
        .configure(&[link], |spec| spec.trace = Some(trace.clone()))
        .unwrap();
    (Simulation::new(network, 1), link)
}

fn steps(list: &[TraceStep]) -> Steps {
    Steps::new(list, None).unwrap()
}

/// The arrival times in microseconds of `n` packets of 1500 B that are injected at time 0.
fn arrivals(trace: impl LinkTrace + 'static, n: u64) -> Vec<u64> {
    let (mut simulation, _) = simulation(trace);
    for id in 0..n {
        simulation.inject(Address(0), Address(2), Parcel::new(id));
    }
    let outcome = drain(&mut simulation);
    assert!(outcome.ids().into_iter().eq(0..n));
    outcome.times().iter().map(|t| t / 1000).collect()
}

#[test]
fn packet_being_sent_keeps_its_rate_and_waiting_packets_get_the_new_one() {
    // The first packet is sent from 12 to 132 us, at 100 Mbit/s, and the rate falls to 50 Mbit/s meanwhile.
    let times = arrivals(steps(&[step(50, 50, 100)]), 3);
    let expected = [132, 372, 612].map(|sent| sent + 100 + 12);
    assert_eq!(times, expected);
}

#[test]
fn rate_of_zero_pauses_the_link_until_the_next_step() {
    let times = arrivals(steps(&[step(50, 0, 100), step(1000, 100, 100)]), 3);
    let expected = [132, 1120, 1240].map(|sent| sent + 100 + 12);
    assert_eq!(times, expected);
}

#[test]
fn packets_wait_through_several_steps_with_a_rate_of_zero() {
    let pause = [step(0, 0, 100), step(400, 0, 100), step(500, 100, 100)];
    let expected = [620, 740].map(|sent| sent + 100 + 12);
    assert_eq!(arrivals(steps(&pause), 2), expected);
}

#[test]
fn shorter_delay_does_not_let_packets_overtake() {
    let times = arrivals(steps(&[step(0, 100, 5000), step(100, 100, 10)]), 4);
    // The first packet arrives after 5 ms. Those behind it were sent with a delay of 10 us, but wait for it.
    // The last link then sends them one after the other.
    let first = 132 + 5000 + 12;
    assert_eq!(times, [first, first + 12, first + 24, first + 36]);
}

#[test]
fn packets_offered_to_a_link_that_pauses_indefinitely_are_left_in_the_network() {
    let (mut simulation, link) = simulation(steps(&[step(0, 0, 100)]));
    simulation.inject(Address(0), Address(2), Parcel::new(0));
    assert!(drain(&mut simulation).arrivals.is_empty());
    assert_eq!(simulation.in_flight(), 1);
    assert!(!simulation.backlog(link).is_zero());
}

#[test]
fn endless_trace_adds_no_events_to_an_idle_network() {
    let (mut simulation, _) = simulation(LeoLike::default());
    assert!(simulation.next_event().is_none());
    simulation.inject(Address(0), Address(2), Parcel::new(0));
    assert_eq!(drain(&mut simulation).ids(), [0]);
}

#[test]
fn link_that_goes_down_in_a_pause_loses_the_packets_and_works_afterwards() {
    let (mut simulation, link) = simulation(steps(&[step(0, 0, 100), step(1000, 100, 100)]));
    simulation.observe_drops(true);
    simulation.inject(Address(0), Address(2), Parcel::new(0));
    let soon = Instant::ZERO + Duration::from_micros(500);
    assert!(simulation.next_event_until(soon).is_none());
    simulation.set_up(link, false);
    simulation.set_up(link, true);
    simulation.inject(Address(0), Address(2), Parcel::new(1));
    let outcome = drain(&mut simulation);
    assert_eq!((outcome.dropped(), outcome.ids()), (vec![0], vec![1]));
    assert_eq!(outcome.times(), [(1120 + 100 + 12) * 1000]);
}

#[test]
fn time_of_sending_and_delay_on_a_changing_link_is_not_counted_as_queueing() {
    let (mut simulation, _) = simulation(steps(&[step(0, 50, 3000), step(100, 100, 10)]));
    simulation.watch(&WatchConfig::default());
    simulation.inject(Address(0), Address(2), Parcel::new(0));
    assert_eq!(drain(&mut simulation).ids(), [0]);
    let watched = simulation.watched().unwrap();
    assert_eq!(watched.long.packets, 1);
    assert!(watched.long.queueing.is_zero(), "{:?}", watched.long);
}

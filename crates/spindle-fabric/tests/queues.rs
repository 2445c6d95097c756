//! Ports with queue disciplines: no packet is lost or duplicated inside a queue, flows stay in order, and the
//! buffer's limit is kept.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod common;

use std::collections::HashMap;

use common::{Outcome, Parcel, drain};
use proptest::prelude::*;
use spindle_fabric::topology::Dumbbell;
use spindle_fabric::{
    Address, Buffer, CoDelSettings, DropCause, EventQueue, FqCoDelSettings, HeapQueue, LinkId,
    LteLike, Network, Pending, Queueing, Simulation, Trace, TwoThresholdsSettings, Wheel,
};
use spindle_units::{BitRate, Bytes, Duration, Instant};

/// Room of the bottleneck's buffer in bytes.
const LIMIT: u64 = 12_000;

/// CoDel that acts within the time of a test.
fn fast() -> CoDelSettings {
    CoDelSettings {
        target: Duration::from_micros(300),
        interval: Duration::from_millis(1),
        ..CoDelSettings::default()
    }
}

fn disciplines() -> Vec<Queueing> {
    vec![
        Queueing::drop_tail(),
        Queueing::priorities(),
        Queueing::two_thresholds(TwoThresholdsSettings {
            unimportant_above: Bytes(6000),
        }),
        Queueing::codel(fast()),
        Queueing::fq_codel(FqCoDelSettings {
            queues: 8,
            limit: 6,
            codel: fast(),
            ..FqCoDelSettings::default()
        }),
    ]
}

/// A dumbbell of two hosts on each side, whose bottleneck has a discipline.
fn network(queue: Option<Queueing>, buffer: Buffer) -> (Network, LinkId) {
    let network = Dumbbell {
        pairs: 2,
        switch_buffer: buffer,
        mark_above: Some(Bytes(4000)),
        ..Dumbbell::default()
    };
    let mut network = network.build().unwrap();
    let link = network.links_matching("bottleneck.up").unwrap()[0];
    network
        .configure(&[link], |spec| spec.queue.clone_from(&queue))
        .unwrap();
    (network, link)
}

/// A packet of a random scenario.
#[derive(Clone, Debug)]
struct Send {
    after_us: u64,
    parcel: Parcel,
}

fn sends() -> impl Strategy<Value = Vec<Send>> {
    let one = (0..200u64, 0..6u64, 40..1500u32, any::<[bool; 3]>());
    let one = one.prop_map(|(after_us, flow, len, [high, ect, important])| {
        let parcel = Parcel::new(0).len(len);
        let parcel = if high { parcel.high() } else { parcel };
        Send {
            after_us,
            parcel: Parcel {
                hash: flow,
                ect,
                important,
                ..parcel
            },
        }
    });
    prop::collection::vec(one, 1..150)
}

/// Sends all packets. Returns the outcome and the statistics of the bottleneck as text.
fn run<Q: EventQueue<Pending>>(
    (network, link): (Network, LinkId),
    sends: &[Send],
    queue: Q,
    down: Option<u64>,
) -> (Outcome, spindle_fabric::LinkStats) {
    let mut simulation = Simulation::with_queue(network, 1, queue);
    simulation.observe_drops(true);
    let mut outcome = Outcome::default();
    let mut at = Instant::ZERO;
    for (id, send) in (0u64..).zip(sends) {
        at += Duration::from_micros(send.after_us);
        while let Some((at, event)) = simulation.next_event_until(at) {
            outcome.note(at.as_nanos(), event);
        }
        if let Some(down) = down {
            simulation.set_up(link, !(down..down + 10).contains(&id));
        }
        let parcel = Parcel {
            id,
            ..send.parcel.clone()
        };
        let from = Address((send.parcel.hash % 2) as u32);
        simulation.inject(from, Address(2), parcel);
    }
    let rest = drain(&mut simulation);
    outcome.arrivals.extend(rest.arrivals);
    outcome.drops.extend(rest.drops);
    assert_eq!(simulation.in_flight(), 0);
    let stats = simulation.stats(link);
    (outcome, stats)
}

/// Checks that flows of the same priority stay in order.
fn is_in_order(outcome: &Outcome) -> bool {
    let mut last = HashMap::new();
    outcome.arrivals.iter().all(|(_, _, p)| {
        let before = last.insert((p.hash, p.class), p.id);
        before.is_none_or(|before| before < p.id)
    })
}

proptest! {
    #[test]
    fn every_packet_is_delivered_or_dropped_once_and_flows_stay_in_order(
        sends in sends(),
        down in prop::option::of(0..100u64),
    ) {
        for queue in disciplines() {
            let name = format!("{queue:?}");
            let network = || network(Some(queue.clone()), Buffer::Bytes(Bytes(LIMIT)));
            let (outcome, stats) = run(network(), &sends, Wheel::default(), down);
            let mut ids = outcome.ids();
            ids.extend(outcome.dropped());
            ids.sort_unstable();
            prop_assert!(ids.iter().copied().eq(0..sends.len() as u64), "{}", name);
            prop_assert!(is_in_order(&outcome), "{}", name);
            prop_assert!(stats.max_queue.0 <= LIMIT, "{}", name);
            prop_assert_eq!(stats.packets + stats.drops.total(), stats.offered, "{}", &name);
            let ce = outcome.arrivals.iter().filter(|(_, _, p)| p.ce).count() as u64;
            prop_assert!(ce <= stats.marked, "{}", name);
            let heap = run(network(), &sends, HeapQueue::default(), down);
            prop_assert_eq!((outcome, stats), heap, "{}", name);
        }
    }

    #[test]
    fn drop_tail_served_packet_by_packet_gives_the_times_of_a_fifo_port(sends in sends()) {
        for buffer in [Buffer::Bytes(Bytes(LIMIT)), Buffer::Packets(5)] {
            let fifo = run(network(None, buffer), &sends, Wheel::default(), None);
            let served = network(Some(Queueing::drop_tail()), buffer);
            let served = run(served, &sends, Wheel::default(), None);
            prop_assert_eq!(fifo, served);
        }
    }

    #[test]
    fn changing_rate_loses_no_packet_and_keeps_the_order_with_every_discipline(
        sends in sends(),
        seed in 0..1000u32,
    ) {
        for queue in disciplines() {
            let (mut network, link) = network(Some(queue.clone()), Buffer::Bytes(Bytes(LIMIT)));
            let rate = BitRate(50_000_000 + u64::from(seed));
            network
                .configure(&[link], |spec| {
                    spec.rate = rate;
                    spec.trace = Some(Trace::new(LteLike::default()));
                })
                .unwrap();
            let (outcome, stats) = run((network, link), &sends, Wheel::default(), None);
            prop_assert!(is_in_order(&outcome), "{queue:?}");
            prop_assert!(outcome.times().is_sorted());
            prop_assert_eq!(outcome.arrivals.len() + outcome.drops.len(), sends.len());
            prop_assert!(stats.max_queue.0 <= LIMIT);
        }
    }
}

#[test]
fn codel_at_a_bottleneck_drops_at_the_head_and_keeps_the_wait_near_its_target() {
    let settings = CoDelSettings::default();
    let waits = |queue: Option<Queueing>| {
        let (network, link) = network(queue, Buffer::Unlimited);
        let mut simulation = Simulation::new(network, 1);
        simulation.observe_drops(true);
        let mut outcome = Outcome::default();
        // 100 Mbit/s is offered 125 %: a packet of 1500 B each 96 us.
        for id in 0..40_000u64 {
            let at = Instant::ZERO + Duration::from_micros(96 * id);
            while let Some((at, event)) = simulation.next_event_until(at) {
                outcome.note(at.as_nanos(), event);
            }
            let parcel = Parcel {
                hash: 1,
                ..Parcel::new(id)
            };
            simulation.inject(Address(0), Address(2), parcel);
        }
        let wait = simulation.backlog(link);
        let causes = outcome.drops.iter().all(|d| d.2 == DropCause::Queue);
        assert!(causes);
        (wait, outcome.drops.len())
    };
    let (fifo, none) = waits(None);
    assert_eq!(none, 0);
    assert!(fifo > Duration::from_millis(700), "{fifo}");
    // A load of 125 % that does not react needs drops of 20 %, which the control law reaches slowly.
    let (codel, drops) = waits(Some(Queueing::codel(settings)));
    assert!(drops > 0 && codel < fifo, "{codel} after {drops} drops");
}

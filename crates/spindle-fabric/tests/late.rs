//! Jitter, reordering and local retransmission.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod common;

use common::{Outcome, Parcel, drain};
use spindle_fabric::topology::FusoTestbed;
use spindle_fabric::{
    Address, DropCause, Jitter, JitterDistribution, LinkId, LinkSpec, LinkStats,
    LocalRetransmission, Loss, NetworkError, Reorder, Simulation,
};
use spindle_units::{Duration, Instant, Probability};

/// The time from H1 to H4: three links of 12 us for 1500 B and 46.667 us of delay each.
const ONE_WAY: u64 = 3 * 58_667;

fn micros(n: u64) -> Duration {
    Duration::from_micros(n)
}

fn probability(p: f64) -> Probability {
    Probability::new(p).unwrap()
}

/// Sends `packets` packets from H1 to H4, one each `gap`, on P1 with this change. Returns the statistics of P1.up.
fn run(packets: u64, gap: Duration, change: impl Fn(&mut LinkSpec)) -> (Outcome, LinkStats) {
    let (simulation, outcome, p1) = simulate(packets, gap, &change, |_, _, _| {});
    let stats = simulation.stats(p1);
    assert_eq!(simulation.in_flight(), 0);
    assert_eq!(stats.packets + stats.drops.total(), packets);
    (outcome, stats)
}

/// Like [`run`], and calls `then` with the number of each packet.
fn simulate(
    packets: u64,
    gap: Duration,
    change: &impl Fn(&mut LinkSpec),
    mut then: impl FnMut(&mut Simulation<Parcel>, LinkId, u64),
) -> (Simulation<Parcel>, Outcome, LinkId) {
    let mut network = FusoTestbed::default().build().unwrap();
    let p1 = network.links_matching("P1.up").unwrap();
    network.configure(&p1, change).unwrap();
    let mut simulation = Simulation::new(network, 5);
    simulation.observe_drops(true);
    let mut outcome = Outcome::default();
    for id in 0..packets {
        simulation.inject_on_path(Address(0), Address(3), Parcel::new(id), 0);
        then(&mut simulation, p1[0], id);
        let limit = Instant::ZERO + gap * (id + 1);
        while let Some((at, event)) = simulation.next_event_until(limit) {
            outcome.note(at.as_nanos(), event);
        }
    }
    let rest = drain(&mut simulation);
    outcome.arrivals.extend(rest.arrivals);
    outcome.drops.extend(rest.drops);
    (simulation, outcome, p1[0])
}

/// The additional delay of each packet, by id, of packets sent every `gap`.
fn delays(outcome: &Outcome, gap: Duration) -> Vec<(u64, u64)> {
    let delay = |(at, _, p): &(u64, Address, Parcel)| (p.id, at - p.id * gap.as_nanos() - ONE_WAY);
    outcome.arrivals.iter().map(delay).collect()
}

#[test]
fn jitter_delays_packets_up_to_its_limit_and_keeps_their_order() {
    let jitter = Jitter {
        distribution: JitterDistribution::Uniform,
        limit: micros(200),
    };
    let gap = micros(50);
    let (outcome, _) = run(2000, gap, |spec| spec.jitter = Some(jitter.clone()));
    assert!(outcome.ids().is_sorted());
    assert_eq!(outcome.arrivals.len(), 2000);
    // Packets of a bunch are spaced by the next link, which can delay the last of them by a few packets.
    let delays: Vec<u64> = delays(&outcome, gap).into_iter().map(|d| d.1).collect();
    assert!(delays.iter().all(|d| *d <= 200_000 + 60_000));
    assert!(delays.iter().any(|d| *d > 150_000) && delays.iter().any(|d| *d < 50_000));
}

#[test]
fn reordered_packets_are_overtaken_and_the_others_are_not_delayed() {
    let reorder = Reorder {
        share: probability(0.1),
        delay: micros(500),
    };
    let gap = micros(100);
    let (outcome, _) = run(5000, gap, |spec| spec.reorder = Some(reorder.clone()));
    let delays = delays(&outcome, gap);
    let late = delays.iter().filter(|d| d.1 >= 500_000).count();
    // Mean 500, standard deviation 21.
    assert!((410..590).contains(&late), "{late}");
    // A held packet may be sent just before another one on the next link.
    assert!(
        delays
            .iter()
            .all(|d| d.1 <= 12_000 || (500_000..=512_000).contains(&d.1))
    );
    assert!(!outcome.ids().is_sorted());
}

#[test]
fn jitter_does_not_change_which_packets_are_reordered() {
    let reorder = Reorder {
        share: probability(0.1),
        delay: micros(5000),
    };
    let jitter = Jitter {
        distribution: JitterDistribution::Exponential(micros(10)),
        limit: micros(50),
    };
    let gap = micros(100);
    let late = |jitter: Option<&Jitter>| {
        let (outcome, _) = run(500, gap, |spec| {
            spec.reorder = Some(reorder.clone());
            spec.jitter = jitter.cloned();
        });
        let mut late = delays(&outcome, gap);
        late.retain(|d| d.1 >= 5_000_000);
        late.into_iter().map(|d| d.0).collect::<Vec<_>>()
    };
    let mut with = late(Some(&jitter));
    with.sort_unstable();
    let mut without = late(None);
    without.sort_unstable();
    assert!(!without.is_empty());
    assert_eq!(with, without);
}

/// The second packet is lost once and recovered.
fn recover(mode: LocalRetransmission, gap: Duration) -> (Outcome, LinkStats) {
    run(8, gap, |spec| {
        spec.loss = Loss::nth([2]).unwrap();
        spec.local_retransmission = Some(mode);
    })
}

/// The round trip of P1 and the sending time of a packet.
const RECOVERY: u64 = 2 * 46_667 + 12_000;

#[test]
fn unordered_local_retransmission_delivers_a_lost_packet_a_round_trip_later() {
    let gap = micros(50);
    let (outcome, stats) = recover(LocalRetransmission::Unordered, gap);
    assert_eq!(outcome.ids(), [0, 2, 3, 1, 4, 5, 6, 7]);
    for (id, delay) in delays(&outcome, gap) {
        // Packet 3 uses the next link when packet 1 reaches it.
        let expected = if id == 1 { RECOVERY + 6_666 } else { 0 };
        assert_eq!(delay, expected, "packet {id}");
    }
    assert_eq!((stats.recovered, stats.drops.loss), (1, 0));
    assert_eq!(stats.busy, micros(9 * 12), "one copy uses the link");
}

#[test]
fn ordered_local_retransmission_holds_later_packets_until_the_lost_one() {
    let gap = micros(50);
    let (outcome, stats) = recover(LocalRetransmission::Ordered, gap);
    assert_eq!(outcome.ids(), [0, 1, 2, 3, 4, 5, 6, 7]);
    // Packet 1 is 105.3 us late. The two behind it follow at the link's rate, the fourth is not affected.
    let expected = [
        0,
        RECOVERY,
        RECOVERY + 12_000 - 50_000,
        RECOVERY + 24_000 - 100_000,
        0,
        0,
        0,
        0,
    ];
    let delays: Vec<u64> = delays(&outcome, gap).into_iter().map(|d| d.1).collect();
    assert_eq!(delays, expected);
    assert_eq!(stats.recovered, 1);
}

#[test]
fn local_retransmission_hides_a_high_loss_rate() {
    // Each lost packet has 15 copies.
    let loss = Loss::bernoulli(probability(0.3));
    let (outcome, stats) = run(20_000, micros(100), |spec| {
        spec.loss = loss.clone();
        spec.local_retransmission = Some(LocalRetransmission::Unordered);
    });
    assert_eq!(outcome.arrivals.len(), 20_000);
    assert_eq!(stats.busy, micros(12 * (20_000 + 15 * stats.recovered)));
    // Mean 6000, standard deviation 65.
    assert!(
        (5700..6300).contains(&stats.recovered),
        "{}",
        stats.recovered
    );
}

#[test]
fn packet_whose_copies_are_all_lost_is_dropped() {
    let (outcome, stats) = run(3, micros(50), |spec| {
        spec.loss = Loss::black_hole();
        spec.local_retransmission = Some(LocalRetransmission::Ordered);
    });
    assert_eq!(outcome.dropped(), [0, 1, 2]);
    assert!(outcome.drops.iter().all(|d| d.2 == DropCause::Loss));
    assert_eq!((stats.drops.loss, stats.recovered), (3, 0));
}

#[test]
fn copies_delay_packets_that_are_offered_later() {
    // Packets back to back: each takes 12 us, and the copy of the second takes as long as a packet.
    let ends = |loss: Loss, retransmission| {
        let (outcome, _) = run(100, micros(12), |spec| {
            spec.loss = loss.clone();
            spec.local_retransmission = retransmission;
        });
        outcome.times().into_iter().max().unwrap()
    };
    let with = ends(
        Loss::nth([2]).unwrap(),
        Some(LocalRetransmission::Unordered),
    );
    assert_eq!(with - ends(Loss::none(), None), 12_000);
}

#[test]
fn link_that_goes_down_loses_the_packets_held_at_its_end() {
    let change = |spec: &mut LinkSpec| {
        spec.reorder = Some(Reorder {
            share: Probability::ONE,
            delay: micros(1000),
        });
    };
    let (simulation, outcome, p1) = simulate(10, micros(100), &change, |simulation, p1, id| {
        if id == 5 {
            // The first four packets have reached the link's end.
            simulation.set_up(p1, false);
            simulation.set_up(p1, true);
        }
    });
    let stats = simulation.stats(p1);
    assert_eq!(stats.drops.down + stats.packets, 10);
    assert!(stats.drops.down >= 4, "{stats:?}");
    assert_eq!(outcome.ids(), [5, 6, 7, 8, 9]);
    assert_eq!(simulation.in_flight(), 0);
}

#[test]
fn properties_without_a_time_are_refused() {
    let refused = |change: &dyn Fn(&mut LinkSpec)| {
        let mut network = FusoTestbed::default().build().unwrap();
        let p1 = network.links_matching("P1").unwrap();
        let result: Result<(), NetworkError> = network.configure(&p1, change);
        result.unwrap_err().to_string()
    };
    let e = refused(&|spec| {
        spec.jitter = Some(Jitter {
            distribution: JitterDistribution::Uniform,
            limit: Duration::ZERO,
        });
    });
    assert!(e.contains("limit of the jitter of cable `P1`"), "{e}");
    let e = refused(&|spec| {
        spec.reorder = Some(Reorder {
            share: Probability::ONE,
            delay: Duration::ZERO,
        });
    });
    assert!(e.contains("delay of reordered packets"), "{e}");
}

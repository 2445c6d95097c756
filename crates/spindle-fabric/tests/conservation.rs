//! On random networks every packet is accounted for, and every run can be repeated.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod common;

use common::{Outcome, Parcel};
use proptest::prelude::*;
use spindle_fabric::{
    Address, Balancing, Buffer, Builder, EventQueue, HeapQueue, LinkId, LinkSpec, Loss, Network,
    Pending, Simulation, Wheel,
};
use spindle_units::{BitRate, Bytes, Duration, Instant, Probability};

/// The parameters of one link.
#[derive(Clone, Debug)]
struct LinkPlan {
    mbps: u64,
    delay_ns: u64,
    buffer: Buffer,
    priorities: bool,
    loss: u8,
    script: Vec<u64>,
}

impl LinkPlan {
    fn spec(&self) -> LinkSpec {
        let probability = |p| Probability::new(p).unwrap();
        let ups = self.script.iter().scan(0, |at, step| {
            *at += step;
            Some(Instant::from_nanos(*at))
        });
        let rate = BitRate(self.mbps * 1_000_000);
        let delay = Duration::from_nanos(self.delay_ns);
        LinkSpec {
            priorities: self.priorities,
            mark_above: Some(Bytes(2000)),
            drop_unmarkable: self.loss % 2 == 1,
            loss: match self.loss {
                0 => Loss::bernoulli(probability(0.1)),
                1 => Loss::gilbert_elliott(probability(0.2), 3.0).unwrap(),
                2 => Loss::nth([1, 3, 4]).unwrap().data_only(),
                3 => Loss::black_hole().data_only(),
                _ => Loss::none(),
            },
            up_down: ups
                .enumerate()
                .map(|(n, at)| (at, !n.is_multiple_of(2)))
                .collect(),
            ..LinkSpec::new(rate, delay, self.buffer)
        }
    }
}

fn link_plan() -> impl Strategy<Value = LinkPlan> {
    let buffer = prop_oneof![
        (1..8u32).prop_map(Buffer::Packets),
        (1500..9000u64).prop_map(|b| Buffer::Bytes(Bytes(b))),
        Just(Buffer::Unlimited),
    ];
    let script = prop::collection::vec(1..200_000u64, 0..4);
    (
        prop::sample::select(vec![10, 100, 1000, 100_000]),
        0..20_000u64,
        buffer,
        any::<bool>(),
        0..12u8,
        script,
    )
        .prop_map(
            |(mbps, delay_ns, buffer, priorities, loss, script)| LinkPlan {
                mbps,
                delay_ns,
                buffer,
                priorities,
                loss,
                script,
            },
        )
}

/// One packet: time, source, destination, length, and a number that determines the rest.
type Shot = (u64, u32, u32, u32, u64);

#[derive(Clone, Debug)]
struct Plan {
    switches: u32,
    /// For each host, the switches to which its cables lead.
    hosts: Vec<Vec<u32>>,
    /// Cables between switches, in addition to a chain that joins all of them.
    extra: Vec<(u32, u32)>,
    links: Vec<LinkPlan>,
    shots: Vec<Shot>,
    spray: bool,
    seed: u64,
}

fn plan() -> impl Strategy<Value = Plan> {
    let hosts = prop::collection::vec(prop::collection::vec(any::<u32>(), 1..3), 2..6);
    let extra = prop::collection::vec(any::<(u32, u32)>(), 0..6);
    let links = prop::collection::vec(link_plan(), 1..12);
    let shot = (
        0..300_000u64,
        any::<u32>(),
        any::<u32>(),
        40..3000u32,
        any::<u64>(),
    );
    let shots = prop::collection::vec(shot, 1..120);
    let rest = (any::<bool>(), any::<u64>());
    (1..6u32, hosts, extra, links, shots, rest).prop_map(
        |(switches, hosts, extra, links, shots, (spray, seed))| Plan {
            switches,
            hosts,
            extra,
            links,
            shots,
            spray,
            seed,
        },
    )
}

impl Plan {
    fn network(&self) -> Network {
        let mut builder = Builder::new("random");
        let switches: Vec<_> = (0..self.switches)
            .map(|s| builder.switch(format!("s{s}"), 1))
            .collect();
        let mut cables = Vec::new();
        cables.extend(switches.windows(2).map(|w| (w[0], w[1])));
        for &(a, b) in &self.extra {
            let (a, b) = (a % self.switches, b % self.switches);
            if a != b {
                cables.push((switches[a as usize], switches[b as usize]));
            }
        }
        for (h, at) in self.hosts.iter().enumerate() {
            let host = builder.host(format!("h{h}"));
            let at = at.iter().map(|s| switches[(s % self.switches) as usize]);
            cables.extend(at.map(|switch| (host, switch)));
        }
        let mut specs = self.links.iter().cycle().map(LinkPlan::spec);
        for (number, ends) in cables.into_iter().enumerate() {
            let (up, down) = (specs.next().unwrap(), specs.next().unwrap());
            builder.cable(format!("c{number}"), "all", ends, up, down);
        }
        builder.build().unwrap()
    }

    /// Runs the plan and checks at every step that all packets are accounted for.
    fn run<Q: EventQueue<Pending>>(&self, queue: Q) -> (Outcome, Simulation<Parcel, Q>) {
        let network = self.network();
        let addresses = network.addresses();
        let mut simulation = Simulation::with_queue(network, self.seed, queue);
        simulation.observe_drops(true);
        if self.spray {
            simulation.balance(&Balancing::RandomSpray);
        }
        let mut shots = self.shots.clone();
        shots.sort();
        let mut outcome = Outcome::default();
        for (number, &(at, from, to, len, bits)) in shots.iter().enumerate() {
            let limit = Instant::from_nanos(at);
            while let Some((at, event)) = simulation.next_event_until(limit) {
                outcome.note(at.as_nanos(), event);
            }
            let seen = outcome.arrivals.len() + outcome.drops.len();
            assert_eq!(seen + simulation.in_flight(), number, "at {limit}");
            let mut packet = Parcel::new(number as u64).len(len);
            (packet.hash, packet.data, packet.ect) = (bits >> 8, bits & 1 == 0, bits & 2 == 0);
            let packet = if bits & 4 == 0 { packet.high() } else { packet };
            let (from, to) = (Address(from % addresses), Address(to % addresses));
            match bits & 8 {
                0 => simulation.inject_on_path(from, to, packet, (bits >> 40) as u32),
                _ => simulation.inject(from, to, packet),
            }
        }
        let rest = common::drain(&mut simulation);
        outcome.arrivals.extend(rest.arrivals);
        outcome.drops.extend(rest.drops);
        (outcome, simulation)
    }
}

proptest! {
    #[test]
    fn every_packet_arrives_once_or_is_dropped_once(plan in plan()) {
        let (outcome, simulation) = plan.run(Wheel::default());
        prop_assert_eq!(simulation.in_flight(), 0);
        let mut ids = outcome.ids();
        ids.extend(outcome.dropped());
        ids.sort_unstable();
        let all: Vec<u64> = (0..plan.shots.len() as u64).collect();
        prop_assert_eq!(ids, all);
        let mut hops = 0;
        let mut dropped = 0;
        for link in 0..simulation.network().links().len() as u32 {
            let stats = simulation.stats(LinkId(link));
            let lost = stats.drops.queue + stats.drops.loss + stats.drops.down;
            prop_assert_eq!(stats.offered, stats.packets + lost);
            prop_assert_eq!(simulation.backlog(LinkId(link)), Duration::ZERO);
            hops += stats.packets;
            dropped += stats.drops.total();
        }
        prop_assert_eq!(hops, simulation.packet_hops());
        prop_assert_eq!(dropped, outcome.drops.len() as u64);
    }

    #[test]
    fn wheel_heap_and_repeated_run_agree(plan in plan()) {
        let (outcome, simulation) = plan.run(Wheel::default());
        let (again, _) = plan.run(Wheel::default());
        prop_assert_eq!(&outcome, &again);
        let (heap, reference) = plan.run(HeapQueue::default());
        prop_assert_eq!(&outcome, &heap);
        prop_assert_eq!(simulation.events(), reference.events());
    }
}

//! Measures the speed of the event queues and of plain packet forwarding: run with `--release`.

use std::hint::black_box;
use std::time::Instant as Clock;

use rand_core::Rng;
use spindle_fabric::topology::FatTree;
use spindle_fabric::{
    Address, Class, Event, EventQueue, HeapQueue, Packet, Pending, Purpose, Simulation, Wheel,
    reduce, stream,
};
use spindle_units::{Duration, Instant};

/// A packet that bounces between two hosts. It is as large as the description of a TCP segment.
struct Bouncing {
    hash: u64,
    from: u32,
    path: u32,
    len: u32,
    _rest: [u64; 12],
}

impl Packet for Bouncing {
    fn wire_len(&self) -> u32 {
        self.len
    }
    fn flow_hash(&self) -> u64 {
        self.hash
    }
    fn flow_key(&self) -> u64 {
        self.hash
    }
    fn class(&self) -> Class {
        Class::Low
    }
    fn is_data(&self) -> bool {
        self.len > 40
    }
    fn ecn_capable(&self) -> bool {
        false
    }
    fn mark_ce(&mut self) {}
}

/// Nanoseconds per pop and push with `pending` values in the queue. Each value is due again up to 4 us later,
/// or, for one in 16, up to 10 ms later.
fn queue_cost<Q: EventQueue<u64>>(mut queue: Q, pending: u64) -> f64 {
    let mut rng = stream(1, Purpose::Balance, 0);
    let mut ahead = move || {
        let random = rng.next_u64();
        let span = if random.is_multiple_of(16) {
            10_000_000
        } else {
            4_000
        };
        Duration::from_nanos(u64::from(reduce(random, span)))
    };
    for value in 0..pending {
        queue.push(Instant::ZERO + ahead(), value);
    }
    let rounds = 4_000_000u64.max(4 * pending);
    let mut start = Clock::now();
    for round in 0..2 * rounds {
        if round == rounds {
            start = Clock::now();
        }
        if let Some((at, value)) = queue.pop() {
            queue.push(at + ahead(), black_box(value));
        }
    }
    start.elapsed().as_nanos() as f64 / rounds as f64
}

/// Bounces packets over a fat-tree and prints the hops per second.
fn hops<Q: EventQueue<Pending>>(name: &str, queue: Q, (k, window): (u32, u32), paths: bool) {
    let clock = Clock::now();
    let network = match FatTree::reference(k).build() {
        Ok(network) => network,
        Err(error) => return eprintln!("{error}"),
    };
    let hosts = network.hosts();
    let mut simulation = Simulation::with_queue(network, 1, queue);
    let set_up = clock.elapsed();
    let bounce = |simulation: &mut Simulation<Bouncing, Q>, at: u32, packet: Bouncing| {
        let (from, to) = (Address(at), Address((at + hosts / 2) % hosts));
        let path = packet.path;
        match paths {
            true => simulation.inject_on_path(from, to, packet, path),
            false => simulation.inject(from, to, packet),
        }
    };
    for host in 0..hosts {
        for number in 0..window {
            let packet = Bouncing {
                hash: u64::from(host / 2),
                from: host,
                path: host % (k * k / 4),
                len: if number % 2 == 0 { 1500 } else { 40 },
                _rest: [0; 12],
            };
            bounce(&mut simulation, host, packet);
        }
    }
    let clock = Clock::now();
    let target = 20_000_000;
    while simulation.packet_hops() < target {
        let Some((_, Event::Arrive { host, packet, .. })) = simulation.next_event() else {
            break;
        };
        black_box(packet.from);
        bounce(&mut simulation, host.0, packet);
    }
    let nanos = clock.elapsed().as_nanos() as f64 / simulation.packet_hops() as f64;
    println!(
        "{name} k={k} window {window} {}: {nanos:.1} ns/hop, {:.1} M hops/s, {} in flight, set-up {:.1} ms",
        if paths { "paths" } else { "ecmp" },
        1e3 / nanos,
        simulation.in_flight(),
        set_up.as_secs_f64() * 1e3,
    );
}

fn main() {
    for pending in [1_000, 100_000, 1_000_000] {
        let wheel = queue_cost(Wheel::default(), pending);
        let heap = queue_cost(HeapQueue::default(), pending);
        println!("{pending} pending: wheel {wheel:.1} ns, heap {heap:.1} ns per pop and push");
    }
    for shape in [(4, 20), (8, 2), (8, 20), (16, 20)] {
        hops("wheel", Wheel::default(), shape, false);
        hops("wheel", Wheel::default(), shape, true);
        hops("heap", HeapQueue::default(), shape, true);
    }
}

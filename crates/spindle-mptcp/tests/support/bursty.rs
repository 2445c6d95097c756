//! A download over two paths of limited rate that lose packets in bursts, in virtual time. In this network
//! transfers were seen to stall.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use spindle_mptcp::congestion::{Cubic, SlowStartExit};
use spindle_mptcp::path_manager::FullMesh;
use spindle_mptcp::{
    Config, Event, Handle, RtoFloor, SendCounters, Stack, StackConfig, TcpState,
    for_unmodified_receivers, preset,
};
use spindle_units::{Duration, Instant};
use spindle_wire::{Endpoint, Payload, Segment};

/// One of the two paths, with the same properties in both directions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BurstyPath {
    /// Rate in bits per second.
    pub(crate) rate: u64,
    /// Round-trip time without queues.
    pub(crate) rtt: Duration,
    /// Bytes of queue in front of the link.
    pub(crate) queue: u64,
    /// Probability for each packet that a burst of losses begins with it.
    pub(crate) begin: f64,
    /// Probability for each packet of a burst that it is the last one.
    pub(crate) end: f64,
}

/// The first path of the transfers that stalled: 100 Mbit/s, 20 ms, a burst in 500 packets.
pub(crate) const FAST: BurstyPath = BurstyPath {
    rate: 100_000_000,
    rtt: Duration::from_millis(20),
    queue: 600_000,
    begin: 0.002,
    end: 0.3,
};

/// The second path: 50 Mbit/s, 40 ms, a burst in 100 packets.
pub(crate) const SLOW: BurstyPath = BurstyPath {
    rate: 50_000_000,
    rtt: Duration::from_millis(40),
    queue: 400_000,
    begin: 0.01,
    end: 0.3,
};

/// Result of a download.
#[derive(Clone, Copy)]
pub(crate) struct Outcome {
    pub(crate) delivered: u64,
    /// Whether both subflows were established. All SYNs of a path may be lost in one burst.
    pub(crate) began: bool,
    pub(crate) took: Duration,
    /// The longest time in which the client received nothing while both subflows were established, and when it
    /// ended.
    pub(crate) stall: (Duration, Duration),
    /// The server's counters.
    pub(crate) sent: SendCounters,
}

impl std::fmt::Debug for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ms = |d: Duration| d.as_nanos() / 1_000_000;
        let (stall, at) = (ms(self.stall.0), ms(self.stall.1));
        let s = &self.sent;
        write!(
            f,
            "{} bytes in {} ms, nothing for {stall} ms until {at} ms, {} timeouts, {} losses",
            self.delivered,
            ms(self.took),
            s.timeouts,
            s.losses
        )
    }
}

/// A link in one direction.
struct Link {
    path: BurstyPath,
    lossy: bool,
    free: Instant,
    flying: VecDeque<Segment>,
    rng: Xoshiro256PlusPlus,
}

impl Link {
    fn new(path: BurstyPath, now: Instant, seed: u64) -> Self {
        Self {
            path,
            lossy: false,
            free: now,
            flying: VecDeque::new(),
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
        }
    }

    fn loses(&mut self) -> bool {
        let draw = (self.rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let lost = self.lossy || draw < self.path.begin;
        self.lossy = match self.lossy {
            true => draw >= self.path.end,
            false => lost,
        };
        lost
    }

    /// Arrival time of a segment that is put on the link now, unless it is lost.
    fn arrival(&mut self, now: Instant, seg: &Segment) -> Option<Instant> {
        let waits = self.free.since(now).as_nanos() as u128 * u128::from(self.path.rate);
        if self.loses() || waits / 8_000_000_000 > u128::from(self.path.queue) {
            return None;
        }
        let bits = seg.wire_len() as u64 * 8;
        self.free =
            self.free.max(now) + Duration::from_nanos(bits * 1_000_000_000 / self.path.rate);
        Some(self.free + self.path.rtt / 2)
    }
}

fn client(path: usize) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, path as u8, 1))
}

fn server() -> Endpoint {
    Endpoint::new(IpAddr::V4(Ipv4Addr::new(10, 0, 9, 2)), 80)
}

/// The configuration with which a gateway sends over TUN: CUBIC, Linux's timers, autotuned buffers, pacing,
/// RACK and tail loss probes.
pub(crate) fn gateway(name: &str) -> Config {
    let mut c = for_unmodified_receivers(preset(name).expect("a preset").config);
    c.congestion = Arc::new(Cubic);
    c.loss.rack = true;
    c.loss.prr = true;
    c.loss.tail_loss_probe = preset("tlp").expect("a preset").config.loss.tail_loss_probe;
    if let Some(probe) = &mut c.loss.tail_loss_probe {
        probe.max_ack_delay = Duration::from_millis(40);
    }
    c.tcp.min_rto = Duration::from_millis(200);
    c.tcp.rto_floor = RtoFloor::Variation;
    c.tcp.slow_start.exit = SlowStartExit::RecentDelay;
    c.tcp.delayed_ack = Some(Duration::from_millis(40));
    c.tcp.autotune = true;
    c.tcp.send_buffer = 16 << 20;
    c.tcp.receive_buffer = 16 << 20;
    c.tcp.burst = 65_000;
    c.tcp.pacing = true;
    c
}

/// A client like the Linux kernel, which holds back data that are out of order on their subflow.
fn kernel_client(gateway: &Config) -> Config {
    let mut c = gateway.clone();
    c.recovery = None;
    c.tcp.receive_buffer = 6 << 20;
    if let Some(m) = &mut c.multipath {
        m.path_manager = Arc::new(FullMesh);
        m.early_dsn_delivery = false;
    }
    c
}

/// Called for each segment put on a link: when, by which side, on which path, the segment, and whether it will
/// arrive.
pub(crate) type Watch<'a> = &'a mut dyn FnMut(Instant, usize, usize, &Segment, bool);

struct World<'a> {
    now: Instant,
    watch: Watch<'a>,
    stacks: [Stack; 2],
    /// Links by sending side and path.
    links: [[Link; 2]; 2],
    arrivals: BinaryHeap<Reverse<(Instant, u64, usize, usize)>>,
    serial: u64,
}

impl<'a> World<'a> {
    fn new(seed: u64, paths: [BurstyPath; 2], watch: Watch<'a>) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let stack = |k, addresses| {
            let config = StackConfig {
                addresses,
                ..StackConfig::default()
            };
            Stack::deterministic(config, 2 * seed + k)
        };
        let link = |side: usize, path: usize| {
            let stream = seed * 4 + (side * 2 + path) as u64;
            Link::new(paths[path], now, stream)
        };
        Self {
            now,
            watch,
            stacks: [stack(0, vec![client(1)]), stack(1, Vec::new())],
            links: [[link(0, 0), link(0, 1)], [link(1, 0), link(1, 1)]],
            arrivals: BinaryHeap::new(),
            serial: 0,
        }
    }

    fn pump(&mut self) {
        for side in 0..2 {
            while let Some(packet) = self.stacks[side].transmit(self.now) {
                let burst = packet.into_tcp().expect("no coding");
                burst.pieces().for_each(|seg| self.launch(side, seg));
            }
        }
    }

    fn launch(&mut self, side: usize, seg: Segment) {
        let inner = if side == 0 { &seg.src } else { &seg.dst };
        let path = usize::from(inner.addr == client(1));
        let arrives = self.links[side][path].arrival(self.now, &seg);
        (self.watch)(self.now, side, path, &seg, arrives.is_some());
        if let Some(at) = arrives {
            self.links[side][path].flying.push_back(seg);
            self.serial += 1;
            self.arrivals.push(Reverse((at, self.serial, side, path)));
        }
    }

    /// Whether two subflows of the server's connection can carry data.
    fn has_both_subflows(&self, s: Handle) -> bool {
        let info = self.stacks[1].info(s);
        let up = |state| state == TcpState::Established;
        info.is_some_and(|i| i.subflows.iter().filter(|f| up(f.state)).count() == 2)
    }

    /// Runs to the next arrival or timer. Returns false if there is none until `until`.
    fn step(&mut self, until: Instant) -> bool {
        self.pump();
        let arrival = self.arrivals.peek().map(|Reverse((t, ..))| *t);
        let timer = self.stacks.iter().filter_map(Stack::next_timeout).min();
        let next = [arrival, timer].into_iter().flatten().min();
        let Some(next) = next.filter(|t| *t <= until) else {
            return false;
        };
        self.now = self.now.max(next);
        if arrival == Some(next)
            && let Some(Reverse((_, _, side, path))) = self.arrivals.pop()
        {
            if let Some(seg) = self.links[side][path].flying.pop_front() {
                self.stacks[1 - side].receive(self.now, seg);
            }
        } else {
            self.stacks.iter_mut().for_each(|s| s.timeout(self.now));
        }
        true
    }
}

/// The server answers a request of a kernel-like client with `size` bytes. The download ends after `limit` at
/// the latest.
pub(crate) fn download(
    config: &Config,
    paths: [BurstyPath; 2],
    seed: u64,
    (size, limit): (u64, Duration),
    watch: Watch<'_>,
) -> Outcome {
    let mut world = World::new(seed, paths, watch);
    let (start, until) = (world.now, world.now + limit);
    let listening = world.stacks[1].listen(server(), Arc::new(config.clone()));
    listening.expect("a free endpoint");
    let local = Endpoint::new(client(0), 0);
    let h = world.stacks[0]
        .connect(start, local, server(), Arc::new(kernel_client(config)))
        .expect("a connection");
    let asked = world.stacks[0].send(start, h, Payload::Length(100));
    asked.expect("an open connection");
    let (mut accepted, mut written): (Option<Handle>, u64) = (None, 0);
    // Stalls are counted only after both subflows are established, since the only path may lose every SYN.
    let (mut delivered, mut last) = (0, None);
    let mut stall = (Duration::ZERO, Duration::ZERO);
    let mut sent = SendCounters::default();
    while delivered < size && world.step(until) {
        while let Some(event) = world.stacks[1].poll_event() {
            if let Event::Accepted { handle, .. } = event {
                accepted = Some(handle);
            }
        }
        while world.stacks[0].poll_event().is_some() {}
        let before = delivered;
        while let Ok(Some(p)) = world.stacks[0].recv(world.now, h, 1 << 20) {
            delivered += p.len() as u64;
        }
        if delivered > before
            && let Some(since) = &mut last
        {
            let gap = world.now.since(*since);
            stall = stall.max((gap, world.now.since(start)));
            *since = world.now;
        }
        if let Some(s) = accepted {
            if last.is_none() && world.has_both_subflows(s) {
                last = Some(world.now);
            }
            while let Ok(Some(_)) = world.stacks[1].recv(world.now, s, 1 << 20) {}
            let n = (1 << 20).min(size - written) as u32;
            if n > 0 {
                let took = world.stacks[1].send(world.now, s, Payload::Length(n));
                written += took.unwrap_or(0) as u64;
            }
            sent = world.stacks[1].totals(s).unwrap_or(sent);
        }
    }
    if delivered < size
        && let Some(since) = last
    {
        stall = stall.max((until.since(since), limit));
    }
    Outcome {
        delivered,
        began: last.is_some(),
        took: world.now.since(start),
        stall,
        sent,
    }
}

//! [`Simulation`]: the simulation engine.

mod hop;
mod late;
mod prefetch;
mod served;
mod watch;

use std::collections::VecDeque;
use std::sync::Arc;

use spindle_units::{Bytes, Duration, Instant};

use crate::balance::{Balancing, Chooser, Ecmp, SwitchInfo};
use crate::event::{EventQueue, Wheel};
use crate::late::LateState;
use crate::loss::LossState;
use crate::network::{NONE, Network, Routes};
use crate::random::{Purpose, mix, stream};
use crate::{Address, DropCause, Drops, HostId, LinkId, LinkStats, Loss, Packet};

use crate::port::Port;
use crate::port::store::Store;
use crate::port::{DOWN, LOSSY, SendingTimes, WATCHED};
use prefetch::LookAhead;
use served::Served;
use watch::Watch;
pub use watch::{WatchConfig, Watched, WatchedClass, WatchedLeaf};

/// The type of the values in the engine's event queue. It is opaque.
#[derive(Clone, Copy, Debug)]
pub struct Pending(Kind);

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// The first packet on a link reaches its far end.
    Arrival(u32),
    /// A packet that is held at the far end of a link may leave it.
    Late(u32),
    /// A port that is served packet by packet can send the next packet.
    Free(u32),
    /// A link goes up or down.
    Change(u32),
    /// A timer that the caller has set, by its position in `timers`.
    Timer(u32),
}

/// An event that the engine reports to its caller.
#[derive(Clone, Debug, PartialEq)]
pub enum Event<P> {
    /// A packet reached its destination.
    Arrive {
        /// The host at which it arrived.
        host: HostId,
        /// The host's interface.
        address: Address,
        /// The packet.
        packet: P,
    },
    /// A timer set by [`Simulation::schedule`] expired. Contains its token.
    Timer(u64),
    /// A packet was dropped. Reported only after [`Simulation::observe_drops`].
    Dropped(Dropped<P>),
}

/// A dropped packet.
#[derive(Clone, Debug, PartialEq)]
pub struct Dropped<P> {
    /// The link that dropped it.
    pub link: LinkId,
    /// The cause.
    pub cause: DropCause,
    /// The packet.
    pub packet: P,
}

/// The data of a link that is rarely needed.
#[derive(Debug, Default)]
struct PortColdState {
    loss: Option<Box<LossState>>,
    late: Option<Box<LateState>>,
    /// Packets that local retransmission has recovered.
    recovered: u64,
    drops: Drops,
    marked: u64,
    served: Option<Box<Served>>,
    /// The number of executed steps of the up/down script.
    script_at: usize,
}

/// The simulation of a network. It moves packets of type `P` and uses event queue `Q`.
pub struct Simulation<P, Q = Wheel<Pending>> {
    network: Arc<Network>,
    routes: Arc<Routes>,
    seed: u64,
    now: u64,
    queue: Q,
    store: Store<P>,
    ahead: LookAhead,
    ports: Vec<Port>,
    sides: Vec<PortColdState>,
    times: SendingTimes,
    choosers: Vec<Chooser>,
    /// Whether a balancer must be shown packets that have one next hop.
    sees_passing: bool,
    timers: Timers,
    observing: bool,
    watch: Option<Box<Watch>>,
    dropped: VecDeque<Dropped<P>>,
    events: u64,
    packet_hops: u64,
}

impl<P: Packet> Simulation<P> {
    /// A simulation of `network` at time 0 with ECMP at all switches, on the timing wheel. All random values in
    /// it are derived from `seed`.
    pub fn new(network: impl Into<Arc<Network>>, seed: u64) -> Self {
        Self::with_queue(network, seed, Wheel::default())
    }
}

impl<P: Packet, Q: EventQueue<Pending>> Simulation<P, Q> {
    /// Like [`Simulation::new`], but with another event queue, which must be empty.
    pub fn with_queue(network: impl Into<Arc<Network>>, seed: u64, queue: Q) -> Self {
        let network = network.into();
        let routes = network.routes().clone();
        let mut times = SendingTimes::default();
        let ports = network.links().iter().enumerate().map(|(link, l)| {
            let end = routes.switch_at_end(link as u32).unwrap_or(NONE);
            Port::new(&l.spec, times.number(l.spec.rate), end)
        });
        let ports: Vec<Port> = ports.collect();
        let sides = network
            .links()
            .iter()
            .zip(0..)
            .map(|(l, number)| PortColdState {
                served: served::state(&l.spec, LinkId(number), seed),
                ..PortColdState::default()
            });
        let mut simulation = Self {
            sides: sides.collect(),
            ahead: LookAhead::new(ports.len()),
            ports,
            routes,
            seed,
            now: 0,
            queue,
            store: Store::new(),
            times,
            choosers: Vec::new(),
            sees_passing: false,
            timers: Timers::default(),
            observing: false,
            watch: None,
            dropped: VecDeque::new(),
            events: 0,
            packet_hops: 0,
            network,
        };
        if simulation.ahead.pays {
            simulation.queue.watch();
        }
        simulation.balance(&Balancing::default());
        simulation.start_links();
        simulation
    }

    /// Starts the loss processes and the up/down scripts.
    fn start_links(&mut self) {
        let network = self.network.clone();
        for (index, link) in network.links().iter().enumerate() {
            self.start_late(LinkId(index as u32), &link.spec);
            if !link.spec.loss.is_none() {
                self.set_loss(LinkId(index as u32), &link.spec.loss);
            }
            if let Some((at, _)) = link.spec.up_down.first() {
                let change = Kind::Change(index as u32);
                self.queue.push(*at, Pending(change));
            }
        }
    }

    /// Gives all switches a new balancer of this kind.
    pub fn balance(&mut self, balancing: &Balancing) {
        self.ahead.forget();
        self.choosers = balancing.choosers(self.switch_infos());
        self.sees_passing = self.choosers.iter().any(Chooser::sees_passing);
    }

    fn switch_infos(&self) -> impl Iterator<Item = SwitchInfo> {
        let network = &self.network;
        let mut has_hosts = vec![false; network.switches().len()];
        for destination in &self.routes.destinations {
            if destination.switch != NONE {
                has_hosts[destination.switch as usize] = true;
            }
        }
        let seed = self.seed;
        network
            .switches()
            .iter()
            .enumerate()
            .map(move |(switch, &node)| SwitchInfo {
                switch: switch as u32,
                node,
                tier: network.node(node).tier,
                has_hosts: has_hosts[switch],
                seed,
            })
    }

    /// The network as it was described, without changes made since.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The time of the last event, or the limit of the last call of
    /// [`next_event_until`](Self::next_event_until) that returned `None`.
    pub fn now(&self) -> Instant {
        Instant::from_nanos(self.now)
    }

    /// Offers a packet to the port of address `from` at the current time. Its destination is address `to`. If
    /// there are several paths, the switches' balancers choose. If the port is full, the packet is dropped
    /// there, as at any other link.
    ///
    /// # Panics
    /// If an address does not belong to this network.
    #[inline]
    pub fn inject(&mut self, from: Address, to: Address, packet: P) {
        self.insert(from, to, packet, None);
    }

    /// Like [`inject`](Self::inject), but on an explicit path. Of `n` next hops a switch takes the one numbered
    /// `(path / d) mod n`, in the order of their cables, where `d` is the switch's
    /// [divisor](crate::Builder::path_divisor). In the topologies of this crate, `path` from 0 to below the
    /// number of paths means:
    ///
    /// * parallel links between two switches, leaf-spine: the link or the spine;
    /// * fat-tree k: up through the pod's aggregation switch `path / (k/2)` and its uplink
    ///   `path mod (k/2)`, which is core switch `path`.
    ///
    /// Only the lower 26 bits of `path` are used.
    ///
    /// # Panics
    /// If an address does not belong to this network.
    #[inline]
    pub fn inject_on_path(&mut self, from: Address, to: Address, packet: P, path: u32) {
        self.insert(from, to, packet, Some(path));
    }

    #[inline]
    fn insert(&mut self, from: Address, to: Address, packet: P, path: Option<u32>) {
        let uplink = self.routes.destinations[from.0 as usize].uplink;
        let _ = self.routes.destinations[to.0 as usize];
        // On an explicit path only balancers that are shown passing packets use the hash.
        let hash = match path.is_none() || self.sees_passing {
            true => packet.flow_hash() ^ direction_salt(from, to),
            false => 0,
        };
        let meta = self.store.insert(packet, hash, to.0, path);
        self.offer(uplink, meta);
    }

    /// Sets a timer that causes [`Event::Timer`] with `token` at `at`, or now if `at` is in the past.
    pub fn schedule(&mut self, at: Instant, token: u64) {
        let timer = self.timers.insert(token);
        let at = at.max(self.now());
        self.queue.push(at, Pending(Kind::Timer(timer)));
    }

    /// Advances time until there is an event to report. Returns `None` if no event is left.
    #[inline]
    pub fn next_event(&mut self) -> Option<(Instant, Event<P>)> {
        self.step(Instant::FAR_FUTURE)
    }

    /// Like [`next_event`](Self::next_event), but no later than `limit`. If there is no event until then, the
    /// time becomes `limit` and the result is `None`.
    pub fn next_event_until(&mut self, limit: Instant) -> Option<(Instant, Event<P>)> {
        let event = self.step(limit);
        if event.is_none() {
            self.now = self.now.max(limit.as_nanos());
        }
        event
    }

    /// When the next event is due inside the engine. No event is reported before that time.
    pub fn next_due(&self) -> Option<Instant> {
        match self.dropped.is_empty() {
            true => self.queue.peek(),
            false => Some(self.now()),
        }
    }

    /// Sets whether dropped packets are reported as [`Event::Dropped`]. By default they are not.
    pub fn observe_drops(&mut self, observe: bool) {
        self.observing = observe;
        if !observe {
            self.dropped.clear();
        }
    }

    /// Starts to watch packets: how long data wait, whether packets overtake each other, and which paths they
    /// use. Earlier observations are discarded. For packets already in flight, only their further use of paths
    /// counts. Watching costs time at every hop, but does not change the results.
    pub fn watch(&mut self, config: &WatchConfig) {
        self.watch = Some(Box::new(Watch::new(&self.network, config)));
        for port in &mut self.ports {
            port.flags |= WATCHED;
        }
    }

    /// The observations since [`watch`](Self::watch), or `None` if it was not called.
    pub fn watched(&self) -> Option<Watched> {
        self.watch.as_ref().map(|watch| watch.result())
    }

    /// Replaces a link's loss process. The new process starts at the beginning of the link's random stream.
    pub fn set_loss(&mut self, link: LinkId, loss: &Loss) {
        let rng = stream(self.seed, Purpose::Loss, u64::from(link.0));
        let state = LossState::new(loss, rng).map(Box::new);
        let port = &mut self.ports[link.0 as usize];
        match state {
            Some(_) => port.flags |= LOSSY,
            None => port.flags &= !LOSSY,
        }
        self.sides[link.0 as usize].loss = state;
        self.adapt_copies(link, loss);
    }

    /// Takes a link down or up, in addition to its script. A link that goes down loses all packets on it.
    pub fn set_up(&mut self, link: LinkId, up: bool) {
        self.change(link.0, up);
    }

    /// Whether a link is up.
    pub fn is_up(&self, link: LinkId) -> bool {
        self.ports[link.0 as usize].flags & DOWN == 0
    }

    /// The statistics of a link so far.
    pub fn stats(&self, link: LinkId) -> LinkStats {
        let port = &self.ports[link.0 as usize];
        let side = &self.sides[link.0 as usize];
        let unfinished = port.free_at.saturating_sub(self.now);
        let waiting = side.served.as_ref().map_or(0, |s| s.discipline.len());
        let held = side.late.as_ref().map_or(0, |late| late.len());
        let under_way = u64::from(port.ring.len()) + (waiting + held) as u64;
        LinkStats {
            offered: port.offered,
            // Offered packets that were neither dropped nor are still in transit. Packets without a route have
            // reached the far end.
            packets: port.offered - under_way - (side.drops.total() - side.drops.no_route),
            bytes: port.bytes,
            marked: side.marked,
            recovered: side.recovered,
            drops: side.drops,
            busy: Duration::from_nanos(port.busy.saturating_sub(unfinished)),
            max_queue: Bytes(port.max_bytes),
            max_queue_packets: port.max_packets,
        }
    }

    /// The time that a link needs to send the packets that wait there or are being sent.
    pub fn backlog(&self, link: LinkId) -> Duration {
        self.ports[link.0 as usize].backlog(self.now)
    }

    /// The number of packets now in the network, on links or in queues.
    pub fn in_flight(&self) -> usize {
        self.store.live()
    }

    /// The number of link traversals so far: each packet counts once for each link.
    pub fn packet_hops(&self) -> u64 {
        self.packet_hops
    }

    /// The number of processed events so far, including events inside the engine.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The path on which ECMP sends a packet with this 5-tuple hash. The result is empty if there is no path.
    pub fn ecmp_route(&self, from: Address, to: Address, flow_hash: u64) -> Vec<LinkId> {
        let hash = flow_hash ^ direction_salt(from, to);
        let salts: Vec<Ecmp> = self.switch_infos().map(|info| Ecmp::new(&info)).collect();
        let choose = |switch: u32, choices| salts[switch as usize].pick(hash, choices);
        self.routes.walk(from, to, choose)
    }
}

impl<P, Q> std::fmt::Debug for Simulation<P, Q> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Simulation")
            .field("network", &self.network.name())
            .field("now", &Instant::from_nanos(self.now))
            .field("events", &self.events)
            .finish_non_exhaustive()
    }
}

/// A salt that makes the two directions of a flow hash independently, even if the caller's hash is the same for
/// both.
fn direction_salt(from: Address, to: Address) -> u64 {
    mix((u64::from(from.0) << 32) | u64::from(to.0))
}

/// The tokens of timers. They are stored here to keep the entries of the event queue small.
#[derive(Debug, Default)]
struct Timers {
    tokens: Vec<u64>,
    free: Vec<u32>,
}

impl Timers {
    fn insert(&mut self, token: u64) -> u32 {
        match self.free.pop() {
            Some(place) => {
                self.tokens[place as usize] = token;
                place
            }
            None => {
                self.tokens.push(token);
                self.tokens.len() as u32 - 1
            }
        }
    }

    fn remove(&mut self, place: u32) -> u64 {
        self.free.push(place);
        self.tokens[place as usize]
    }
}

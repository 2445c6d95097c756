//! Watching packets: how long they wait, whether they overtake each other, and which paths they use.
//!
//! All of this depends on a flag of the ports, so it costs no time if packets are not watched.

use spindle_units::{Duration, Instant};

use crate::balance::{FORGET_AFTER, Flows};
use crate::network::Network;
use crate::port::store::Meta;
use crate::random::mix;
use crate::{Class, LinkId, NodeId, NodeKind};

/// Settings of [`Simulation::watch`](crate::Simulation::watch).
#[derive(Clone, Debug, PartialEq)]
pub struct WatchConfig {
    /// The length of the time slots, counted from 0, in which the use of paths is evaluated (default 500 us, an
    /// interval of CAPS's switches, Hu et al., Algorithm 1).
    pub slot: Duration,
}

impl Default for WatchConfig {
    fn default() -> Self {
        Self {
            slot: Duration::from_micros(500),
        }
    }
}

/// Observations of the packets injected since [`Simulation::watch`](crate::Simulation::watch).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Watched {
    /// Data packets of short flows, which have [`Class::High`].
    pub short: WatchedClass,
    /// Data packets of long flows, which have [`Class::Low`].
    pub long: WatchedClass,
    /// The leaf switches by number: switches with hosts and with several next hops.
    pub leaves: Vec<WatchedLeaf>,
}

impl Watched {
    /// The share of paths that short flows leave unused while they send (CAPS Fig 23c), over all leaf switches.
    /// `None` if no short flow sent data.
    pub fn unused(&self) -> Option<f64> {
        let (mut used, mut all) = (0, 0);
        for leaf in &self.leaves {
            used += leaf.used;
            all += leaf.slots * u64::from(leaf.uplinks);
        }
        (all > 0).then(|| 1.0 - used as f64 / all as f64)
    }
}

/// Observations of the data packets of one class. A flow is one direction of the connection that
/// [`Packet::flow_key`](crate::Packet::flow_key) identifies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchedClass {
    /// The number of packets that arrived.
    pub packets: u64,
    /// The total time that they waited in queues of switches: from their arrival at the first switch to their
    /// arrival at the host, minus sending and propagation.
    pub queueing: Duration,
    /// The total time that they waited in the queue of their own host before that.
    pub host_queueing: Duration,
    /// The number of packets that arrived after a packet of the same flow that was sent later.
    pub disordered: u64,
}

impl WatchedClass {
    /// Mean time in queues of switches. `None` if there are no packets.
    pub fn mean_queueing(&self) -> Option<Duration> {
        let mean = self.queueing.as_nanos().checked_div(self.packets)?;
        Some(Duration::from_nanos(mean))
    }

    /// The share of packets that were overtaken. `None` if there are no packets.
    pub fn disorder(&self) -> Option<f64> {
        (self.packets > 0).then(|| self.disordered as f64 / self.packets as f64)
    }
}

/// The paths that a leaf switch used for short flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchedLeaf {
    /// The switch.
    pub node: NodeId,
    /// The number of its links to other switches among which packets have a choice.
    pub uplinks: u32,
    /// The number of time slots of the watch in which data of short flows were offered to any of these links.
    pub slots: u64,
    /// The sum over these slots of the number of links to which such data were offered.
    pub used: u64,
}

/// The largest number of flows whose order is observed. Beyond that, the flow that was idle for longest is
/// forgotten, with the state of its order.
const MOST_FLOWS: usize = 1 << 20;

/// The state of watching.
#[derive(Debug)]
pub(super) struct Watch {
    slot: u64,
    /// The number of packets sent so far.
    sent: u64,
    /// Indexed by the packet's position in the store. Packets without data are not watched.
    transits: Vec<Option<Transit>>,
    /// The highest number of each flow that has arrived.
    highest: Flows<u64>,
    /// Indexed by link.
    roles: Box<[Role]>,
    leaves: Vec<Leaf>,
    short: WatchedClass,
    long: WatchedClass,
}

/// A data packet in transit.
#[derive(Clone, Copy, Debug)]
struct Transit {
    /// The packet's number, which increases with the time of sending.
    number: u64,
    flow: u64,
    /// When the packet was sent; later, when it reached the first switch.
    since: u64,
    /// Time of sending and propagation since then.
    moving: u64,
    /// Time of sending and propagation on the current link, if the link's rate or delay changes.
    moving_here: u64,
    host_queueing: u64,
}

#[derive(Clone, Copy, Debug)]
enum Role {
    /// A link out of a host: packets offered to it are new.
    Host,
    /// One of the next hops of a leaf switch.
    Uplink {
        leaf: u32,
        way: u32,
    },
    Other,
}

#[derive(Debug)]
struct Leaf {
    seen: WatchedLeaf,
    /// The current slot, and the links used in it.
    slot: Option<u64>,
    ways: Box<[bool]>,
}

impl Watch {
    pub(super) fn new(network: &Network, config: &WatchConfig) -> Self {
        let is_host = |node| matches!(network.node(node).kind, NodeKind::Host(_));
        let role = |link: &crate::Link| match is_host(link.from) {
            true => Role::Host,
            false => Role::Other,
        };
        let mut watch = Self {
            slot: config.slot.as_nanos().max(1),
            sent: 0,
            transits: Vec::new(),
            highest: Flows::new(FORGET_AFTER, MOST_FLOWS),
            roles: network.links().iter().map(role).collect(),
            leaves: Vec::new(),
            short: WatchedClass::default(),
            long: WatchedClass::default(),
        };
        for (number, &node) in network.switches().iter().enumerate() {
            let ways = network.routes().choices(number as u32);
            let mut out = network.links().iter().filter(|link| link.from == node);
            if !ways.is_empty() && out.any(|link| is_host(link.to)) {
                watch.leaf(node, &ways);
            }
        }
        watch
    }

    fn leaf(&mut self, node: NodeId, ways: &[LinkId]) {
        let leaf = self.leaves.len() as u32;
        for (way, link) in (0..).zip(ways) {
            self.roles[link.0 as usize] = Role::Uplink { leaf, way };
        }
        self.leaves.push(Leaf {
            seen: WatchedLeaf {
                node,
                uplinks: ways.len() as u32,
                slots: 0,
                used: 0,
            },
            slot: None,
            ways: vec![false; ways.len()].into(),
        });
    }

    /// Observes that a packet is offered to a link. `flow` is its flow's key.
    pub(super) fn offered(&mut self, now: u64, link: u32, meta: &Meta, flow: u64) {
        match self.roles[link as usize] {
            Role::Host => self.sent(now, link, meta, flow),
            Role::Uplink { leaf, way } if meta.is_data() && meta.class() == Class::High => {
                self.leaves[leaf as usize].used(way, now / self.slot);
            }
            Role::Uplink { .. } | Role::Other => {}
        }
    }

    fn sent(&mut self, now: u64, link: u32, meta: &Meta, flow: u64) {
        let place = meta.index as usize;
        if self.transits.len() <= place {
            self.transits.resize(place + 1, None);
        }
        // The packet that was in this position before no longer exists.
        self.transits[place] = None;
        if !meta.is_data() {
            return;
        }
        // Source and destination distinguish the two directions of a flow.
        let ends = u64::from(link) << 32 | u64::from(meta.to);
        self.transits[place] = Some(Transit {
            number: self.sent,
            flow: flow ^ mix(ends),
            since: now,
            moving: 0,
            moving_here: 0,
            host_queueing: 0,
        });
        self.sent += 1;
    }

    /// Observes that a link whose rate or delay changes sends a packet. `moving` is its sending and propagation
    /// time there.
    pub(super) fn sending(&mut self, meta: &Meta, moving: u64) {
        if let Some(Some(transit)) = self.transits.get_mut(meta.index as usize) {
            transit.moving_here = moving;
        }
    }

    /// Observes that a packet has reached the end of a link. `moving` is its sending and propagation time
    /// there. `None` means the time that was [observed](Self::sending) when the packet was sent.
    pub(super) fn passed(&mut self, now: u64, link: u32, meta: &Meta, moving: Option<u64>) {
        let Some(Some(transit)) = self.transits.get_mut(meta.index as usize) else {
            return;
        };
        let moving = moving.unwrap_or(transit.moving_here);
        match self.roles[link as usize] {
            Role::Host => {
                transit.host_queueing = now - transit.since - moving;
                transit.since = now;
            }
            Role::Uplink { .. } | Role::Other => transit.moving += moving,
        }
    }

    /// Observes that a packet, which has [passed](Self::passed) its last link, has reached its destination.
    pub(super) fn arrived(&mut self, now: u64, meta: &Meta) {
        let Some(&Some(transit)) = self.transits.get(meta.index as usize) else {
            return;
        };
        let at = Instant::from_nanos(now);
        while self.highest.forget_idle(at).is_some() {}
        let disordered = match self.highest.see(at, transit.flow) {
            Some(highest) if *highest > transit.number => true,
            Some(highest) => {
                *highest = transit.number;
                false
            }
            None => {
                self.highest.add(at, transit.flow, transit.number);
                false
            }
        };
        let class = match meta.class() {
            Class::High => &mut self.short,
            Class::Low => &mut self.long,
        };
        class.packets += 1;
        class.disordered += u64::from(disordered);
        let queueing = now - transit.since - transit.moving;
        class.queueing += Duration::from_nanos(queueing);
        class.host_queueing += Duration::from_nanos(transit.host_queueing);
    }

    pub(super) fn result(&self) -> Watched {
        Watched {
            short: self.short,
            long: self.long,
            leaves: self.leaves.iter().map(|leaf| leaf.seen).collect(),
        }
    }
}

impl Leaf {
    fn used(&mut self, way: u32, slot: u64) {
        if self.slot != Some(slot) {
            self.slot = Some(slot);
            self.seen.slots += 1;
            self.ways.fill(false);
        }
        let used = &mut self.ways[way as usize];
        self.seen.used += u64::from(!*used);
        *used = true;
    }
}

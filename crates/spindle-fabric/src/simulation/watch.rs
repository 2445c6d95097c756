//! Watching packets: how long they wait, whether they overtake each other, and which paths they use.
//!
//! All of it hangs on a flag of the ports, so that it costs nothing where nobody watches.

use spindle_units::{Duration, Instant};

use super::store::Meta;
use crate::balance::{FORGET_AFTER, Flows};
use crate::network::Network;
use crate::random::mix;
use crate::{Class, LinkId, NodeId, NodeKind};

/// What [`Simulation::watch`](crate::Simulation::watch) goes by.
#[derive(Clone, Debug, PartialEq)]
pub struct WatchConfig {
    /// Slots of time, counted from 0, in which the use of paths is looked at; 500 us, an interval of
    /// CAPS's switches (Hu et al., Algorithm 1).
    pub slot: Duration,
}

impl Default for WatchConfig {
    fn default() -> Self {
        Self {
            slot: Duration::from_micros(500),
        }
    }
}

/// What was seen of the packets that were injected since [`Simulation::watch`](crate::Simulation::watch).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Watched {
    /// Data packets of short flows: of [`Class::High`].
    pub short: WatchedClass,
    /// Data packets of long flows: of [`Class::Low`].
    pub long: WatchedClass,
    /// The leaf switches, by number: those with hosts and several ways on.
    pub leaves: Vec<WatchedLeaf>,
}

impl Watched {
    /// The share of paths that short flows leave unused while they send (CAPS Fig 23c), over all leaf
    /// switches; `None` if no short flow sent.
    pub fn unused(&self) -> Option<f64> {
        let (mut used, mut all) = (0, 0);
        for leaf in &self.leaves {
            used += leaf.used;
            all += leaf.slots * u64::from(leaf.uplinks);
        }
        (all > 0).then(|| 1.0 - used as f64 / all as f64)
    }
}

/// What was seen of the data packets of one class. A flow is one direction of what
/// [`Packet::flow_key`](crate::Packet::flow_key) names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchedClass {
    /// Packets that arrived.
    pub packets: u64,
    /// Time that they waited in queues of switches, summed: from when they had reached the first switch
    /// to their arrival, less sending and propagation.
    pub queueing: Duration,
    /// Time that they waited in the queue of their own host before that, summed.
    pub host_queueing: Duration,
    /// Of the packets, those that arrived after one of their flow that was sent later.
    pub disordered: u64,
}

impl WatchedClass {
    /// Mean time in queues of switches; `None` without packets.
    pub fn mean_queueing(&self) -> Option<Duration> {
        let mean = self.queueing.as_nanos().checked_div(self.packets)?;
        Some(Duration::from_nanos(mean))
    }

    /// The share of packets that were overtaken; `None` without packets.
    pub fn disorder(&self) -> Option<f64> {
        (self.packets > 0).then(|| self.disordered as f64 / self.packets as f64)
    }
}

/// Which of its paths a leaf switch used for short flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchedLeaf {
    /// The switch.
    pub node: NodeId,
    /// Its links to other switches among which packets have a choice.
    pub uplinks: u32,
    /// Slots in which data of short flows were offered to these at all.
    pub slots: u64,
    /// For each of those slots how many of the links were offered some, summed.
    pub used: u64,
}

/// Flows whose order is looked at, at most; of more the one idle for longest is forgotten, and with it
/// what of it has arrived.
const MOST_FLOWS: usize = 1 << 20;

/// No packet has this number.
const UNWATCHED: u64 = u64::MAX;

/// What is being seen.
#[derive(Debug)]
pub(super) struct Watch {
    slot: u64,
    /// Packets sent so far.
    sent: u64,
    /// By the packet's place in the store.
    transits: Vec<Transit>,
    /// The highest number of each flow that has arrived.
    highest: Flows<u64>,
    /// By link.
    roles: Box<[Role]>,
    leaves: Vec<Leaf>,
    short: WatchedClass,
    long: WatchedClass,
}

/// A data packet on its way.
#[derive(Clone, Copy, Debug)]
struct Transit {
    /// Ascending with the time of sending, or [`UNWATCHED`].
    number: u64,
    flow: u64,
    /// When it was sent, and then when it reached the first switch.
    since: u64,
    /// Time of sending and propagation since.
    moving: u64,
    host_queueing: u64,
}

const NO_TRANSIT: Transit = Transit {
    number: UNWATCHED,
    flow: 0,
    since: 0,
    moving: 0,
    host_queueing: 0,
};

#[derive(Clone, Copy, Debug)]
enum Role {
    /// Out of a host: what is offered is new.
    Host,
    /// One of the ways on of a leaf switch.
    Uplink {
        leaf: u32,
        way: u32,
    },
    Other,
}

#[derive(Debug)]
struct Leaf {
    seen: WatchedLeaf,
    /// The slot at hand, and which ways were used in it.
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

    /// A packet is offered to a link; `flow` is its flow's key.
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
            self.transits.resize(place + 1, NO_TRANSIT);
        }
        // What was in this place before is gone.
        self.transits[place] = NO_TRANSIT;
        if !meta.is_data() {
            return;
        }
        // From where to where tells a flow's directions apart.
        let ends = u64::from(link) << 32 | u64::from(meta.to);
        self.transits[place] = Transit {
            number: self.sent,
            flow: flow ^ mix(ends),
            since: now,
            ..NO_TRANSIT
        };
        self.sent += 1;
    }

    /// A packet has reached the end of a link, over which it moves for so long.
    pub(super) fn passed(&mut self, now: u64, link: u32, meta: &Meta, moving: u64) {
        let Some(transit) = self.transits.get_mut(meta.index as usize) else {
            return;
        };
        match self.roles[link as usize] {
            Role::Host => {
                transit.host_queueing = now - transit.since - moving;
                transit.since = now;
            }
            Role::Uplink { .. } | Role::Other => transit.moving += moving,
        }
    }

    /// A packet, which has [passed](Self::passed) its last link, is at its destination.
    pub(super) fn arrived(&mut self, now: u64, meta: &Meta) {
        let transit = self.transits.get(meta.index as usize).copied();
        let Some(transit) = transit.filter(|t| t.number != UNWATCHED) else {
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

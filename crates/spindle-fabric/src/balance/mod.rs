//! Balancers: how a switch chooses among several next hops.

mod caps;
mod conga;
mod drill;
mod ecmp;
mod flowlet;
mod flows;
mod freeway;
mod presto;
mod spray;

/// The balancers that come with Spindle. A new one needs a line here and its `mod` line above.
const BUILT_IN: [NamedBalancing; 9] = [
    ecmp::BUILT_IN,
    spray::BUILT_IN,
    presto::BUILT_IN,
    freeway::BUILT_IN,
    caps::BUILT_IN,
    caps::BUILT_IN_DARK,
    flowlet::BUILT_IN,
    drill::BUILT_IN,
    conga::BUILT_IN,
];

use std::fmt;
use std::sync::Arc;

use rand_xoshiro::Xoshiro256PlusPlus;
use spindle_units::{Duration, Instant};

use crate::network::{Destination, NONE};
use crate::port::{Port, SendingTimes};
use crate::random::{Purpose, derive, stream};
use crate::{Class, LinkId, NodeId};

pub use caps::{Caps, CapsSettings, Classes};
pub use conga::{Conga, CongaSettings};
pub use drill::{Drill, DrillSettings};
pub use ecmp::Ecmp;
pub use flowlet::{Flowlet, FlowletSettings};
pub(crate) use flows::Flows;
pub use freeway::{Freeway, FreewaySettings};
pub use presto::{Presto, PrestoSettings};
pub use spray::RandomSpray;

/// The largest number of flows that a switch remembers. A further flow replaces the one seen least recently.
/// This is more than the fabrics here have at a time, and takes a few megabytes per switch (our choice).
pub const MOST_FLOWS: usize = 1 << 16;

/// How long a switch remembers a flow that is idle. This is longer than an RTO that has doubled a few times, so
/// that a flow that waits for its RTO is the same flow afterwards (our choice).
pub const FORGET_AFTER: Duration = Duration::from_secs(10);

/// A balancer under a name.
#[derive(Clone, Copy, Debug)]
pub struct NamedBalancing {
    /// The name in experiment files and after the at sign of a transport.
    pub name: &'static str,
    /// What it does, in one line with its source.
    pub summary: &'static str,
    /// Makes it, with its default settings.
    pub make: fn() -> Balancing,
}

/// The balancers that come with Spindle, always in the same order.
pub const fn built_in() -> &'static [NamedBalancing] {
    &BUILT_IN
}

/// Chooses among next hops. Each switch has its own balancer.
///
/// A balancer needs no timers: it can derive from [`Hop::now`] which of its intervals have passed.
pub trait Balancer: Send {
    /// The next hop of a packet, from 0 to below [`Ports::len`]. A larger number is taken modulo it. Called
    /// only if there are at least two next hops, and not for packets on explicit paths.
    fn choose(&mut self, hop: &Hop<'_>) -> usize;

    /// Whether [`passes`](Self::passes) must be called. This is queried once. It costs time at every hop.
    fn sees_passing(&self) -> bool {
        false
    }

    /// Reports a packet that has only one next hop and is not on an explicit path. There is no choice, but a
    /// balancer may count the packet. Called only if [`sees_passing`](Self::sees_passing) returns true.
    fn passes(&mut self, _hop: &Hop<'_>) {}
}

/// A packet at a switch.
#[derive(Clone, Copy, Debug)]
pub struct Hop<'a> {
    /// The current time.
    pub now: Instant,
    /// The hash of the packet's 5-tuple, which differs between the two directions. Mix it with a salt of the
    /// switch before use.
    pub flow_hash: u64,
    /// The packet's flow, the same in both directions.
    pub flow_key: u64,
    /// The packet's priority.
    pub class: Class,
    /// Whether it carries data.
    pub is_data: bool,
    /// Its length on the wire in bytes.
    pub wire_len: u32,
    /// A number of the packet that no other packet in the network has at the same time. It is used again for a
    /// later packet. Balancers can store under it what a packet carries from switch to switch.
    pub packet: u32,
    /// The next hops.
    pub ports: Ports<'a>,
    pub(crate) to: u32,
    pub(crate) destinations: &'a [Destination],
}

impl Hop<'_> {
    /// The number of the switch to which the packet's destination is connected. `None` if the destination is
    /// connected to another host.
    pub fn last_switch(&self) -> Option<u32> {
        let switch = self.destinations.get(self.to as usize)?.switch;
        (switch != NONE).then_some(switch)
    }
}

/// The next hops, numbered from 0 in the order of their cables.
#[derive(Clone, Copy)]
pub struct Ports<'a> {
    pub(crate) links: &'a [u32],
    pub(crate) ports: &'a [Port],
    pub(crate) times: &'a SendingTimes,
    pub(crate) now: u64,
}

impl fmt::Debug for Ports<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ports").field(&self.links).finish()
    }
}

impl Ports<'_> {
    /// The number of next hops: at least two if there is a choice, otherwise one.
    #[allow(clippy::len_without_is_empty, reason = "there is always one")]
    pub fn len(&self) -> usize {
        self.links.len()
    }

    /// The link of a next hop.
    ///
    /// # Panics
    /// If `choice` is not below [`len`](Self::len). This also applies to the methods below.
    pub fn link(&self, choice: usize) -> LinkId {
        LinkId(self.links[choice])
    }

    /// The time in which the port would send everything that it holds now.
    pub fn backlog(&self, choice: usize) -> Duration {
        self.ports[self.links[choice] as usize].backlog(self.now)
    }

    /// The time in which the port sends a packet of `len` bytes.
    pub fn sending_time(&self, choice: usize, len: u32) -> Duration {
        let port = &self.ports[self.links[choice] as usize];
        Duration::from_nanos(self.times.time(port.rate, len))
    }

    /// The number of packets offered to the port since the start.
    pub fn offered(&self, choice: usize) -> u64 {
        self.ports[self.links[choice] as usize].offered
    }
}

/// The properties of a switch for which a balancer is made.
#[derive(Clone, Copy, Debug)]
pub struct SwitchInfo {
    /// The switch's number.
    pub switch: u32,
    /// Its node.
    pub node: NodeId,
    /// Its tier.
    pub tier: u8,
    /// Whether hosts are connected to it.
    pub has_hosts: bool,
    /// The simulation's seed.
    pub seed: u64,
}

impl SwitchInfo {
    /// The switch's salt for hashes.
    pub fn salt(&self) -> u64 {
        derive(self.seed, Purpose::Salt, u64::from(self.switch))
    }

    /// The switch's random stream.
    pub fn rng(&self) -> Xoshiro256PlusPlus {
        stream(self.seed, Purpose::Balance, u64::from(self.switch))
    }
}

/// A function that makes each switch's balancer.
pub type BalancerMaker = dyn Fn(&SwitchInfo) -> Box<dyn Balancer> + Send + Sync;

/// A function that makes a [`BalancerMaker`] for a simulation.
pub type CoordinatedMaker = dyn Fn() -> Box<BalancerMaker> + Send + Sync;

/// The balancer that the switches use.
#[derive(Clone, Default)]
pub enum Balancing {
    /// [`Ecmp`].
    #[default]
    Ecmp,
    /// [`RandomSpray`].
    RandomSpray,
    /// [`Presto`].
    Presto(PrestoSettings),
    /// [`Freeway`].
    Freeway(FreewaySettings),
    /// [`Caps`].
    Caps(CapsSettings),
    /// [`Flowlet`].
    Flowlet(FlowletSettings),
    /// [`Drill`].
    Drill(DrillSettings),
    /// A balancer from another crate.
    Custom {
        /// Its name with all of its settings.
        text: Arc<str>,
        /// Makes the balancer of a switch.
        make: Arc<BalancerMaker>,
    },
    /// A balancer whose switches share state.
    Coordinated {
        /// Its name with all of its settings.
        text: Arc<str>,
        /// Starts it for a simulation.
        start: Arc<CoordinatedMaker>,
    },
}

impl fmt::Debug for Balancing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ecmp => f.write_str("Ecmp"),
            Self::RandomSpray => f.write_str("RandomSpray"),
            Self::Presto(settings) => settings.fmt(f),
            Self::Freeway(settings) => settings.fmt(f),
            Self::Caps(settings) => settings.fmt(f),
            Self::Flowlet(settings) => settings.fmt(f),
            Self::Drill(settings) => settings.fmt(f),
            Self::Custom { text, .. } | Self::Coordinated { text, .. } => f.write_str(text),
        }
    }
}

impl Balancing {
    /// A balancer from another crate. `text` is its name with all of its settings, because results are
    /// identified by a hash of it. `make` is called once for each switch.
    pub fn custom(
        text: impl Into<Arc<str>>,
        make: impl Fn(&SwitchInfo) -> Box<dyn Balancer> + Send + Sync + 'static,
    ) -> Self {
        Self::Custom {
            text: text.into(),
            make: Arc::new(make),
        }
    }

    /// A balancer from another crate whose switches share state, such as what packets carry from switch to
    /// switch. `start` is called once for each simulation, and the function that it makes is called once for each
    /// switch. See [`custom`](Self::custom) for `text`.
    pub fn coordinated(
        text: impl Into<Arc<str>>,
        start: impl Fn() -> Box<BalancerMaker> + Send + Sync + 'static,
    ) -> Self {
        Self::Coordinated {
            text: text.into(),
            start: Arc::new(start),
        }
    }

    /// The balancers of all switches of a simulation.
    pub(crate) fn choosers(&self, infos: impl Iterator<Item = SwitchInfo>) -> Vec<Chooser> {
        match self {
            Self::Coordinated { start, .. } => {
                let make = start();
                infos.map(|info| Chooser::Custom(make(&info))).collect()
            }
            _ => infos.map(|info| self.chooser(&info)).collect(),
        }
    }

    fn chooser(&self, info: &SwitchInfo) -> Chooser {
        match self {
            Self::Ecmp => Chooser::Ecmp(Ecmp::new(info)),
            Self::RandomSpray => Chooser::RandomSpray(RandomSpray::new(info)),
            Self::Presto(settings) => Chooser::boxed(Presto::new(info, settings)),
            Self::Freeway(settings) => Chooser::boxed(Freeway::new(info, settings)),
            Self::Caps(settings) => Chooser::boxed(Caps::new(info, settings)),
            Self::Flowlet(settings) => Chooser::boxed(Flowlet::new(info, settings)),
            Self::Drill(settings) => Chooser::boxed(Drill::new(info, settings)),
            Self::Custom { make, .. } => Chooser::Custom(make(info)),
            // A simulation starts it for all of its switches together.
            Self::Coordinated { start, .. } => Chooser::Custom(start()(info)),
        }
    }
}

/// A switch's balancer. The simple ones need neither a virtual call nor a [`Hop`].
pub(crate) enum Chooser {
    Ecmp(Ecmp),
    RandomSpray(RandomSpray),
    Custom(Box<dyn Balancer>),
}

impl Chooser {
    fn boxed(balancer: impl Balancer + 'static) -> Self {
        Self::Custom(Box::new(balancer))
    }

    /// Whether the balancer must be shown packets that have one next hop.
    pub(crate) fn sees_passing(&self) -> bool {
        matches!(self, Self::Custom(balancer) if balancer.sees_passing())
    }
}

/// Packets at a switch for the balancers' own tests.
#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use crate::{Buffer, LinkSpec};
    use spindle_units::BitRate;

    /// A switch with several next hops whose ports are empty at first.
    pub(crate) struct Ways {
        links: Vec<u32>,
        ports: Vec<Port>,
        times: SendingTimes,
    }

    impl Ways {
        pub(crate) fn new(ways: u32) -> Self {
            let spec = LinkSpec::new(BitRate(1_000_000_000), Duration::ZERO, Buffer::Unlimited);
            let mut times = SendingTimes::default();
            let rate = times.number(spec.rate);
            Self {
                links: (0..ways).collect(),
                ports: vec![Port::new(&spec, rate, 0); ways as usize],
                times,
            }
        }

        /// Keeps a port busy until the given time.
        pub(crate) fn busy_until(&mut self, way: usize, nanos: u64) {
            self.ports[way].free_at = nanos;
        }

        /// A data packet of 1000 B of a long flow at the given time in microseconds.
        pub(crate) fn hop(&self, micros: u64, flow: u64) -> Hop<'_> {
            let now = Instant::ZERO + Duration::from_micros(micros);
            Hop {
                now,
                flow_hash: flow,
                flow_key: flow,
                class: Class::Low,
                is_data: true,
                wire_len: 1000,
                packet: 0,
                to: 0,
                destinations: &[],
                ports: Ports {
                    links: &self.links,
                    ports: &self.ports,
                    times: &self.times,
                    now: now.as_nanos(),
                },
            }
        }

        /// Like [`hop`](Self::hop), but of a short flow.
        pub(crate) fn short(&self, micros: u64, flow: u64) -> Hop<'_> {
            Hop {
                class: Class::High,
                ..self.hop(micros, flow)
            }
        }
    }

    /// The switch with this number.
    pub(crate) fn info(switch: u32) -> SwitchInfo {
        SwitchInfo {
            switch,
            node: NodeId(switch),
            tier: 1,
            has_hosts: true,
            seed: 1,
        }
    }
}

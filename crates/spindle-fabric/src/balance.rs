//! Balancers: how a switch chooses among several next hops.

use std::fmt;
use std::sync::Arc;

use rand_core::RngCore;
use rand_xoshiro::Xoshiro256PlusPlus;
use spindle_units::{Duration, Instant};

use crate::random::{Purpose, derive, mix, reduce, stream};
use crate::simulation::Port;
use crate::{Class, LinkId, NodeId};

/// Chooses among next hops; each switch has its own.
///
/// A balancer needs no timers: it can tell from [`Hop::now`] which of its intervals have passed.
pub trait Balancer: Send {
    /// The next hop of a packet, from 0 to below [`Ports::len`]; a larger number is taken modulo it.
    /// Called only where there are two or more, and not for packets on explicit paths.
    fn choose(&mut self, hop: &Hop<'_>) -> usize;
}

/// A packet at a switch that has several ways on for it.
#[derive(Clone, Copy, Debug)]
pub struct Hop<'a> {
    /// The present.
    pub now: Instant,
    /// The hash of the packet's 5-tuple, of its own in each direction. Mix it with a salt of the
    /// switch before use.
    pub flow_hash: u64,
    /// The packet's flow.
    pub flow_key: u64,
    /// The packet's priority.
    pub class: Class,
    /// Whether it carries data.
    pub is_data: bool,
    /// Its length on the wire in bytes.
    pub wire_len: u32,
    /// The ways on.
    pub ports: Ports<'a>,
}

/// The ways on, numbered from 0 in the order of their cables.
#[derive(Clone, Copy)]
pub struct Ports<'a> {
    pub(crate) links: &'a [u32],
    pub(crate) ports: &'a [Port],
    pub(crate) now: u64,
}

impl fmt::Debug for Ports<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ports").field(&self.links).finish()
    }
}

impl Ports<'_> {
    /// How many there are: two or more.
    #[allow(clippy::len_without_is_empty, reason = "there are always two or more")]
    pub fn len(&self) -> usize {
        self.links.len()
    }

    /// The link of a choice.
    ///
    /// # Panics
    /// If `choice` is not below [`len`](Self::len); the same holds for the functions below.
    pub fn link(&self, choice: usize) -> LinkId {
        LinkId(self.links[choice])
    }

    /// How long the port would take to send what it holds now.
    pub fn backlog(&self, choice: usize) -> Duration {
        self.ports[self.links[choice] as usize].backlog(self.now)
    }

    /// How many packets the port has been offered since the start.
    pub fn offered(&self, choice: usize) -> u64 {
        self.ports[self.links[choice] as usize].offered
    }
}

/// A switch, as the maker of a balancer sees it.
#[derive(Clone, Copy, Debug)]
pub struct SwitchInfo {
    /// The switch's number.
    pub switch: u32,
    /// Its node.
    pub node: NodeId,
    /// Its tier.
    pub tier: u8,
    /// Whether hosts are plugged into it.
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

/// Makes each switch's balancer.
pub type BalancerMaker = dyn Fn(&SwitchInfo) -> Box<dyn Balancer> + Send + Sync;

/// Which balancer the switches use.
#[derive(Clone, Default)]
pub enum Balancing {
    /// [`Ecmp`].
    #[default]
    Ecmp,
    /// [`RandomSpray`].
    RandomSpray,
    /// One from elsewhere.
    Custom(Arc<BalancerMaker>),
}

impl fmt::Debug for Balancing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ecmp => "Ecmp",
            Self::RandomSpray => "RandomSpray",
            Self::Custom(_) => "Custom",
        })
    }
}

impl Balancing {
    /// A balancer from elsewhere, made once for each switch.
    pub fn custom(make: impl Fn(&SwitchInfo) -> Box<dyn Balancer> + Send + Sync + 'static) -> Self {
        Self::Custom(Arc::new(make))
    }

    pub(crate) fn chooser(&self, info: &SwitchInfo) -> Chooser {
        match self {
            Self::Ecmp => Chooser::Ecmp(Ecmp::new(info)),
            Self::RandomSpray => Chooser::RandomSpray(RandomSpray::new(info)),
            Self::Custom(make) => Chooser::Custom(make(info)),
        }
    }
}

/// A switch's balancer; the plain ones need neither a virtual call nor a [`Hop`].
pub(crate) enum Chooser {
    Ecmp(Ecmp),
    RandomSpray(RandomSpray),
    Custom(Box<dyn Balancer>),
}

/// Equal-cost multipath: the hash of the 5-tuple decides (RFC 2992), each switch mixing it with its
/// own salt, so that the choices of one layer say nothing about those of the next.
#[derive(Clone, Debug)]
pub struct Ecmp {
    salt: u64,
}

impl Ecmp {
    /// ECMP with the switch's salt.
    pub fn new(info: &SwitchInfo) -> Self {
        Self { salt: info.salt() }
    }

    /// The choice for a hash among so many.
    #[inline]
    pub fn pick(&self, flow_hash: u64, choices: u32) -> u32 {
        reduce(mix(flow_hash ^ self.salt), choices)
    }
}

impl Balancer for Ecmp {
    fn choose(&mut self, hop: &Hop<'_>) -> usize {
        self.pick(hop.flow_hash, hop.ports.len() as u32) as usize
    }
}

/// Random packet spraying: each packet takes any next hop, uniformly (Dixit et al. 2013).
#[derive(Clone, Debug)]
pub struct RandomSpray {
    rng: Xoshiro256PlusPlus,
}

impl RandomSpray {
    /// Spraying with the switch's random stream.
    pub fn new(info: &SwitchInfo) -> Self {
        Self { rng: info.rng() }
    }

    /// A choice among so many.
    #[inline]
    pub fn pick(&mut self, choices: u32) -> u32 {
        reduce(self.rng.next_u64(), choices)
    }
}

impl Balancer for RandomSpray {
    fn choose(&mut self, hop: &Hop<'_>) -> usize {
        self.pick(hop.ports.len() as u32) as usize
    }
}

//! [`RandomSpray`]: random packet spraying.

use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{Balancer, Balancing, Hop, NamedBalancing, SwitchInfo};
use crate::random::reduce;

/// "rps" in experiment files and on the command line.
pub(super) const BUILT_IN: NamedBalancing = NamedBalancing {
    name: "rps",
    summary: "each packet takes any path at random (Dixit et al. 2013, mechanisms A5.10)",
    make: || Balancing::RandomSpray,
};

/// Random packet spraying: each packet takes a uniformly random next hop (Dixit et al. 2013).
#[derive(Clone, Debug)]
pub struct RandomSpray {
    rng: Xoshiro256PlusPlus,
}

impl RandomSpray {
    /// Spraying with the switch's random stream.
    pub fn new(info: &SwitchInfo) -> Self {
        Self { rng: info.rng() }
    }

    /// A choice among `choices` next hops.
    #[inline]
    pub fn pick(&mut self, choices: u32) -> u32 {
        reduce(self.rng.next_u64(), choices)
    }
}

impl From<Xoshiro256PlusPlus> for RandomSpray {
    fn from(rng: Xoshiro256PlusPlus) -> Self {
        Self { rng }
    }
}

impl Balancer for RandomSpray {
    fn choose(&mut self, hop: &Hop<'_>) -> usize {
        self.pick(hop.ports.len() as u32) as usize
    }
}

//! [`Ecmp`]: equal-cost multipath.

use super::{Balancer, Balancing, Hop, NamedBalancing, SwitchInfo};
use crate::random::{mix, reduce};

/// "ecmp" in experiment files and on the command line.
pub(super) const BUILT_IN: NamedBalancing = NamedBalancing {
    name: "ecmp",
    summary: "a flow keeps to the path that the hash of its addresses and ports gives (RFC 2992); \
              the default",
    make: || Balancing::Ecmp,
};

/// Equal-cost multipath: the hash of the 5-tuple decides (RFC 2992). Each switch mixes it with its own salt, so
/// that the choices of one layer are independent of those of the next.
#[derive(Clone, Debug)]
pub struct Ecmp {
    salt: u64,
}

impl Ecmp {
    /// ECMP with the switch's salt.
    pub fn new(info: &SwitchInfo) -> Self {
        Self { salt: info.salt() }
    }

    /// The choice for a hash among `choices` next hops.
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

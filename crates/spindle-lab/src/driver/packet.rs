//! Segments as the fabric carries them.

use spindle_fabric::{Class, Packet};
use spindle_wire::{Ecn, Segment};

/// A segment on its way.
#[derive(Clone, Debug)]
pub(crate) struct Carried {
    pub(crate) segment: Segment,
    wire_len: u32,
    exempt: bool,
}

/// Length of an IPv4 and TCP header without options, in bytes.
const BARE_HEADERS: u32 = 40;

impl Carried {
    /// A segment with the length it has on the wire.
    pub(crate) fn new(segment: Segment) -> Self {
        let wire_len = segment.wire_len() as u32;
        Self {
            segment,
            wire_len,
            exempt: false,
        }
    }

    /// A segment that the network does not lose: a repair by whoever hears of drops.
    pub(crate) fn exempt(segment: Segment) -> Self {
        Self {
            exempt: true,
            ..Self::new(segment)
        }
    }

    /// Whether it is one of these.
    pub(crate) fn is_exempt(&self) -> bool {
        self.exempt
    }

    /// A segment whose options take no room, as in the reference flows (40 B acknowledgements even
    /// with SACK).
    pub(crate) fn without_options(segment: Segment) -> Self {
        let wire_len = BARE_HEADERS + segment.payload.len() as u32;
        Self {
            segment,
            wire_len,
            exempt: false,
        }
    }
}

impl Packet for Carried {
    fn wire_len(&self) -> u32 {
        self.wire_len
    }

    fn flow_hash(&self) -> u64 {
        self.segment.flow_hash()
    }

    fn flow_key(&self) -> u64 {
        self.segment.flow_hash()
    }

    fn class(&self) -> Class {
        Class::Low
    }

    fn is_data(&self) -> bool {
        !self.segment.payload.is_empty()
    }

    fn may_be_lost(&self) -> bool {
        !self.exempt
    }

    fn ecn_capable(&self) -> bool {
        matches!(self.segment.ecn, Ecn::Ect0 | Ecn::Ect1)
    }

    fn mark_ce(&mut self) {
        self.segment.ecn = Ecn::Ce;
    }
}

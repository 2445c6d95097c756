//! Parities: agreed on in the handshake, sent by recovery policies, decoded by the receiver.
//!
//! There are two kinds. Over plain TCP a parity is sent outside sequence space (TCP Instant Recovery;
//! [`out_of_band`]). Over MPTCP a parity of a *block* of a subflow's segments is new sequence space of the subflow
//! that carries it (CoFUSO; [`blocks`] sends, [`decoder`] and [`arrival`] receive).
//!
//! All signalling uses an experimental option (RFC 6994). A SYN and
//! its SYN/ACK carry an offer ([`ParityOption`]). A receiver that did not agree
//! never gets a parity. If parities of blocks are agreed on, a joining SYN carries the identifier
//! by which parities will refer to the new subflow. It is the identifier at the end that opens the subflow.

use spindle_wire::{Options, ParityHeader, ParityOption, Segment};

use super::cofuso::sender::Blocks;
use super::tcp_ir::OutOfBand;
use crate::connection::{Connection, Role};
use crate::subflow::Origin;
use crate::types::SubflowId;

/// Parity state of a connection.
#[derive(Debug, Default)]
pub(in crate::connection) struct Parities {
    pub(super) out_of_band: OutOfBand,
    /// Present if both ends agreed on parities of blocks.
    pub(super) blocks: Option<Box<Blocks>>,
}

impl Parities {
    /// Bytes kept, and number of segments.
    pub(in crate::connection) fn stored(&self) -> (u64, usize) {
        let (bytes, pieces) = self.out_of_band.stored();
        let blocks = self.blocks.as_ref().map_or((0, 0), |b| b.stored());
        (bytes + blocks.0, pieces + blocks.1)
    }

    /// Loop iterations over stored data so far.
    pub(in crate::connection) fn steps(&self) -> u64 {
        let blocks = self.blocks.as_ref().map_or(0, |b| b.steps());
        self.out_of_band.steps.get() + blocks
    }

    /// Whether both ends agreed on parities of any kind. Nothing is stored before.
    #[inline]
    pub(in crate::connection) fn are_agreed(&self) -> bool {
        self.out_of_band.agreed || self.blocks.is_some()
    }

    /// Whether both ends agreed on parities of blocks.
    #[inline]
    pub(in crate::connection) fn in_blocks(&self) -> bool {
        self.blocks.is_some()
    }

    /// Payload bytes by which data segments are shorter than the longest segment, because a parity of them
    /// needs a header (CoFUSO section 5.1).
    #[inline]
    pub(in crate::connection) fn header_room(&self) -> u64 {
        if self.in_blocks() {
            ParityHeader::LEN as u64
        } else {
            0
        }
    }

    /// The stack's memory is short: frees memory that may never be needed.
    pub(in crate::connection) fn shed(&mut self) {
        if let Some(b) = &mut self.blocks {
            b.shed();
        }
    }

    /// Subflow `id` no longer exists.
    pub(in crate::connection) fn forget(&mut self, id: SubflowId) {
        if let Some(b) = &mut self.blocks {
            b.forget(id);
        }
    }
}

impl Connection {
    /// Whether our recovery policy sends parities outside sequence space.
    fn wants_parities(&self) -> bool {
        let sends = self.config.recovery.as_ref();
        self.config.multipath.is_none() && sends.is_some_and(|f| f.capabilities().parities)
    }

    /// Whether our recovery policy sends parities of blocks. It does not with checksums, because a decoded
    /// packet has no checksum that could be verified (RFC 8684, section 3.3.1).
    fn wants_blocks(&self) -> bool {
        let sends = self.config.recovery.as_ref();
        let multipath = self.config.multipath.as_ref();
        // Scatter is excluded too, because a SYN/ACK has no room for both answers.
        multipath.is_some_and(|m| !m.checksum && m.scatter.is_none())
            && sends.is_some_and(|f| f.capabilities().block_parities)
    }

    fn wants_early_joins(&self) -> bool {
        self.config
            .multipath
            .as_ref()
            .is_some_and(|m| m.early_joins)
    }

    /// Adds the offer or answer about parities to the SYN or SYN/ACK of subflow `i`, which already has its
    /// MPTCP options. It takes 8 bytes. The MSS takes 4 bytes, window scale 4, and timestamps with
    /// SACK-permitted 12. With the 12 bytes of MP_CAPABLE on a SYN/ACK, or of MP_JOIN on a SYN, the 40 bytes of
    /// options are full.
    pub(in crate::connection) fn offer_parities(&self, i: usize, options: &mut Options) {
        let capable = options
            .rare
            .as_ref()
            .is_some_and(|r| r.mp_capable.is_some());
        let client = self.role == Role::Client;
        let option = match self.subflows[i].origin {
            Origin::Join(_) => {
                let id = self.subflows[i].id;
                (client && self.extensions.parities.in_blocks()).then_some(ParityOption::Name(id.0))
            }
            Origin::Initial if capable => {
                let due = match self.role {
                    Role::Client => self.wants_blocks(),
                    Role::Server => self.extensions.parities.in_blocks(),
                };
                let early_joins = match self.role {
                    Role::Client => self.wants_early_joins(),
                    Role::Server => self.mp.is_some_and(|m| m.early_joins),
                };
                due.then_some(ParityOption::OfferBlocks { early_joins })
            }
            Origin::Initial => {
                let due = match self.role {
                    Role::Client => self.wants_parities(),
                    Role::Server => self.extensions.parities.out_of_band.agreed,
                };
                due.then_some(ParityOption::Offer)
            }
        };
        if let Some(option) = option {
            options.add_experiment(option.to_option());
        }
    }

    /// Called when the MPTCP options of the peer's SYN or SYN/ACK were processed. Decides whether both ends
    /// agree on parities.
    pub(in crate::connection) fn agree_on_parities(&mut self, syn: &Segment) {
        let offered = ParityOption::of(&syn.options);
        if self.wants_parities() && offered == Some(ParityOption::Offer) {
            self.extensions.parities.out_of_band.agreed = true;
            self.subflows[0].reserve_options(ParityOption::PARITY_LEN as u64);
        }
        let unchecked = self.mp.as_ref().is_some_and(|m| !m.checksum);
        if let Some(ParityOption::OfferBlocks { early_joins }) = offered
            && unchecked
            && self.wants_blocks()
        {
            self.extensions.parities.blocks = Some(Box::default());
            let wanted = self.wants_early_joins();
            if let Some(mp) = &mut self.mp {
                mp.early_joins = early_joins && wanted;
            }
        }
    }

    /// A join has arrived. Records the identifier by which parities will refer to subflow `id`.
    pub(in crate::connection) fn note_name(&mut self, id: SubflowId, syn: &Segment) {
        let option = ParityOption::of(&syn.options);
        if let (Some(blocks), Some(ParityOption::Name(name))) =
            (&mut self.extensions.parities.blocks, option)
        {
            blocks.name(id, name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::SubflowPosition;
    use proptest::prelude::*;
    use spindle_wire::{ExperimentId, Experimental};

    proptest! {
        #[test]
        fn arbitrary_option_data_cause_no_panic(data in prop::collection::vec(any::<u8>(), 0..20), near in any::<u32>()) {
            let end = spindle_wire::Endpoint::new(std::net::Ipv4Addr::LOCALHOST.into(), 1);
            let mut seg = Segment::new(end, end);
            seg.options.add_experiment(Experimental::of(ExperimentId::Parity, data));
            if let Some(ParityOption::Parity { first: at, .. } | ParityOption::Block { start: at, .. }) = ParityOption::of(&seg.options) {
                let _ = SubflowPosition(u64::from(near)).nearest_byte(at);
            }
        }
    }
}

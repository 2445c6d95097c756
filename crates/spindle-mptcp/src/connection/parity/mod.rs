//! Parities: agreed on in the handshake, sent by recovery policies, decoded by the receiver.
//!
//! There are two kinds. Over plain TCP a parity travels *beside* sequence space (TCP Instant Recovery;
//! [`beside`]). Over MPTCP a parity of a *block* of a subflow's segments is new sequence space of
//! whichever subflow carries it (CoFUSO; [`blocks`] sends, [`decoder`] and [`arrival`] receive).
//!
//! All of it is told by an experimental option (RFC 6994) whose first byte says what it is. A SYN and
//! its SYN/ACK carry [`OFFER`] or, beside MP_CAPABLE, [`OFFER_BLOCKS`]; no receiver that did not agree
//! ever gets a parity. Where blocks are agreed on, a joining SYN carries [`NAME`] and the identifier by
//! which parities will name the new subflow: that of the end that opens it.

mod arrival;
mod beside;
mod blocks;
mod decoder;

use bytes::Bytes;
use spindle_codes::{Body, Content};
use spindle_wire::{Experimental, Options, Payload, Segment};

use super::{Connection, Role};
use crate::subflow::{Origin, SubflowId};
pub(super) use arrival::Told;
use beside::Beside;
pub(super) use blocks::Ask;
use blocks::Blocks;

/// Spindle's identifier of this experiment, unregistered.
const EXID: u16 = 0x5350;
/// First bytes of the option's data.
const OFFER: u8 = 0;
const PARITY: u8 = 1;
const ECHO: u8 = 2;
const OFFER_BLOCKS: u8 = 3;
const NAME: u8 = 4;
const BLOCK: u8 = 5;

/// What a connection knows of parities.
#[derive(Debug, Default)]
pub(super) struct Parities {
    beside: Beside,
    /// Where both ends agreed on parities of blocks.
    blocks: Option<Box<Blocks>>,
}

impl Parities {
    /// Bytes kept, and of how many segments.
    pub(super) fn stored(&self) -> (u64, usize) {
        let (bytes, pieces) = self.beside.stored();
        let blocks = self.blocks.as_ref().map_or((0, 0), |b| b.stored());
        (bytes + blocks.0, pieces + blocks.1)
    }

    /// Iterations so far of loops over what is kept.
    pub(super) fn steps(&self) -> u64 {
        let blocks = self.blocks.as_ref().map_or(0, |b| b.steps());
        self.beside.steps.get() + blocks
    }

    /// Whether both ends agreed on parities of any kind: nothing is kept before.
    #[inline]
    pub(super) fn are_agreed(&self) -> bool {
        self.beside.agreed || self.blocks.is_some()
    }

    /// Whether both ends agreed on parities of blocks.
    #[inline]
    pub(super) fn in_blocks(&self) -> bool {
        self.blocks.is_some()
    }

    /// Payload bytes by which data segments are shorter than the longest segment: a parity of them has
    /// a header in front (CoFUSO section 5.1).
    #[inline]
    pub(super) fn header_room(&self) -> u64 {
        if self.in_blocks() {
            blocks::HEADER_LEN as u64
        } else {
            0
        }
    }

    /// The stack's memory is short: what may never be needed is given back.
    pub(super) fn shed(&mut self) {
        if let Some(b) = &mut self.blocks {
            b.shed();
        }
    }

    /// Subflow `id` is gone.
    pub(super) fn forget(&mut self, id: SubflowId) {
        if let Some(b) = &mut self.blocks {
            b.forget(id);
        }
    }
}

fn body_of(payload: &Payload) -> Body<'_> {
    match payload {
        Payload::Bytes(b) => Body::Bytes(b),
        Payload::Length(n) => Body::Length(*n),
    }
}

fn payload_of(content: Content) -> Payload {
    match content {
        Content::Bytes(b) => Payload::Bytes(Bytes::from(b)),
        Content::Length(n) => Payload::Length(n),
    }
}

fn option(data: Vec<u8>) -> Experimental {
    Experimental {
        kind: Experimental::KIND,
        exid: EXID,
        data,
    }
}

/// The data of this experiment's option on a segment.
fn said(seg: &Segment) -> Option<&[u8]> {
    let all = &seg.options.rare.as_ref()?.experimental;
    let ours = all
        .iter()
        .find(|e| e.kind == Experimental::KIND && e.exid == EXID)?;
    Some(&ours.data)
}

fn says(seg: &Segment, what: u8) -> bool {
    said(seg).is_some_and(|data| data == [what])
}

/// The position with these low 32 bits that is nearest to `near`; none before the first byte.
fn nearest(low: u32, near: u64) -> Option<u64> {
    let ahead = i64::from(low.wrapping_sub(near as u32) as i32);
    near.checked_add_signed(ahead).filter(|p| *p >= 1)
}

impl Connection {
    /// Whether our recovery is for parities beside sequence space.
    fn wants_parities(&self) -> bool {
        let sends = self.config.recovery.as_ref();
        self.config.multipath.is_none() && sends.is_some_and(|f| f.sends_parities())
    }

    /// Whether our recovery is for parities of blocks. Not where checksums are on: what a parity gives
    /// back has none to be checked by (RFC 8684, section 3.3.1).
    fn wants_blocks(&self) -> bool {
        let sends = self.config.recovery.as_ref();
        let multipath = self.config.multipath.as_ref();
        // Nor where packets are scattered: a SYN/ACK has no room for both answers.
        multipath.is_some_and(|m| !m.checksum && m.scatter.is_none())
            && sends.is_some_and(|f| f.sends_block_parities())
    }

    /// Adds what is to be said of parities to the SYN or SYN/ACK of subflow `i`, MPTCP's options being
    /// there. Beside 4 bytes of MSS, 4 of window scale, 12 of timestamps and SACK-permitted it takes 8:
    /// the 12 of MP_CAPABLE on a SYN/ACK, or of MP_JOIN on a SYN, fill the 40 there are.
    pub(super) fn offer_parities(&self, i: usize, options: &mut Options) {
        let capable = options
            .rare
            .as_ref()
            .is_some_and(|r| r.mp_capable.is_some());
        let client = self.role == Role::Client;
        let data = match self.subflows[i].origin {
            Origin::Join(_) => {
                let id = self.subflows[i].id;
                (client && self.parities.in_blocks()).then(|| vec![NAME, id])
            }
            Origin::Initial if capable => {
                let due = match self.role {
                    Role::Client => self.wants_blocks(),
                    Role::Server => self.parities.in_blocks(),
                };
                due.then(|| vec![OFFER_BLOCKS])
            }
            Origin::Initial => {
                let due = match self.role {
                    Role::Client => self.wants_parities(),
                    Role::Server => self.parities.beside.agreed,
                };
                due.then(|| vec![OFFER])
            }
        };
        if let Some(data) = data {
            options.rare_mut().experimental.push(option(data));
        }
    }

    /// The peer's SYN or SYN/ACK has come, MPTCP's part of it is settled: whether both ends agree.
    pub(super) fn agree_on_parities(&mut self, syn: &Segment) {
        if self.wants_parities() && says(syn, OFFER) {
            self.parities.beside.agreed = true;
            self.subflows[0].reserve_options(beside::PARITY_ROOM);
        }
        let unchecked = self.mp.as_ref().is_some_and(|m| !m.checksum);
        if unchecked && self.wants_blocks() && says(syn, OFFER_BLOCKS) {
            self.parities.blocks = Some(Box::default());
        }
    }

    /// A join has come: by which name parities will speak of subflow `id`.
    pub(super) fn note_name(&mut self, id: SubflowId, syn: &Segment) {
        if let (Some(blocks), Some([NAME, name])) = (&mut self.parities.blocks, said(syn)) {
            blocks.name(id, *name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn nothing_on_an_option_panics(data in prop::collection::vec(any::<u8>(), 0..20), near in any::<u32>()) {
            let end = spindle_wire::Endpoint::new(std::net::Ipv4Addr::LOCALHOST.into(), 1);
            let mut seg = Segment::new(end, end);
            seg.options.rare_mut().experimental.push(option(data));
            beside::read(&seg, u64::from(near));
            let _ = (blocks::Marker::on(&seg).map(|m| nearest(m.start, u64::from(near))), says(&seg, OFFER));
        }
    }
}

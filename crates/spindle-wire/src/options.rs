//! TCP options as values.
//!
//! The options of ordinary data and ACK segments are stored inline. The options of handshakes and rare events
//! are stored in one box, so that the common segment stays small.

use std::num::NonZeroU32;

use crate::{AddAddr, Dss, MpCapable, MpJoin, MpPrio, MpTcpRst, RemoveAddr, SeqNumber};

/// The options of one segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Timestamps (RFC 7323, section 3).
    pub timestamps: Option<Timestamps>,
    /// SACK blocks (RFC 2018). The first block may be a D-SACK (RFC 2883).
    pub sack: SackBlocks,
    /// MPTCP Data Sequence Signal (RFC 8684, section 3.3).
    pub dss: Option<Dss>,
    /// The receiver's token of the connection to which a scattered segment belongs, independent of its source
    /// port (`docs/wire/scatter.md`). In a packet it is an experimental option (RFC 6994). It is never zero, so
    /// that `None` takes no extra space.
    pub token: Option<NonZeroU32>,
    /// The options that ordinary data and ACK segments do not have.
    pub rare: Option<Box<RareOptions>>,
}

/// The timestamps option (RFC 7323).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamps {
    /// TSval: the sender's clock.
    pub value: u32,
    /// TSecr: the echoed clock; zero on segments without ACK.
    pub echo: u32,
}

/// Up to four SACK blocks `[left, right)` in the order of the option.
#[derive(Clone, Copy, Default)]
pub struct SackBlocks {
    len: u8,
    blocks: [(SeqNumber, SeqNumber); 4],
}

/// The options of handshakes and of rare events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RareOptions {
    /// Maximum segment size (RFC 9293, section 3.7.1); SYN only.
    pub mss: Option<u16>,
    /// Window scale shift (RFC 7323, section 2); SYN only.
    pub window_scale: Option<u8>,
    /// SACK permitted (RFC 2018); SYN only.
    pub sack_permitted: bool,
    /// MP_CAPABLE (RFC 8684, section 3.1).
    pub mp_capable: Option<MpCapable>,
    /// MP_JOIN (RFC 8684, section 3.2).
    pub mp_join: Option<MpJoin>,
    /// ADD_ADDR, signals and echoes (RFC 8684, section 3.4.1), in order.
    pub add_addr: Vec<AddAddr>,
    /// REMOVE_ADDR (RFC 8684, section 3.4.2).
    pub remove_addr: Option<RemoveAddr>,
    /// MP_PRIO (RFC 8684, section 3.3.8).
    pub mp_prio: Option<MpPrio>,
    /// MP_FAIL with its data sequence number (RFC 8684, section 3.7).
    pub mp_fail: Option<u64>,
    /// MP_FASTCLOSE with the receiver's key (RFC 8684, section 3.5).
    pub mp_fastclose: Option<u64>,
    /// MP_TCPRST (RFC 8684, section 3.6).
    pub mp_tcprst: Option<MpTcpRst>,
    /// Experimental options (RFC 6994), in order.
    pub experimental: Vec<Experimental>,
    /// Not an option: the first bytes of a payload that is a plain length, if these bytes have a meaning and
    /// only the rest is zeros. The payload's length includes them. Payloads of real bytes and parsed segments
    /// have none. The field is here because it is rare, and every payload would have to store it otherwise.
    pub payload_head: Vec<u8>,
}

/// An experimental TCP option (kind 253 or 254) with its 16-bit ExID (RFC 6994).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Experimental {
    /// [`Self::KIND`] (253) or 254.
    pub kind: u8,
    /// The experiment's identifier.
    pub exid: u16,
    /// The data after the identifier, at most 36 bytes.
    pub data: Vec<u8>,
}

impl Options {
    /// Removes all options.
    #[inline]
    pub fn clear(&mut self) {
        // Field by field: each present option is marked as absent, and no other memory is written.
        self.timestamps = None;
        self.sack.truncate(0);
        self.dss = None;
        self.token = None;
        self.rare = None;
    }

    /// The rare options, created if there are none yet.
    pub fn rare_mut(&mut self) -> &mut RareOptions {
        self.rare.get_or_insert_with(Default::default)
    }

    /// Whether any MPTCP option (kind 30) is present.
    pub fn has_mptcp(&self) -> bool {
        self.dss.is_some()
            || self.rare.as_ref().is_some_and(|r| {
                r.mp_capable.is_some()
                    || r.mp_join.is_some()
                    || !r.add_addr.is_empty()
                    || r.remove_addr.is_some()
                    || r.mp_prio.is_some()
                    || r.mp_fail.is_some()
                    || r.mp_fastclose.is_some()
                    || r.mp_tcprst.is_some()
            })
    }
}

// Compares only the valid blocks, not those that `truncate` left behind.
impl PartialEq for SackBlocks {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for SackBlocks {}

impl SackBlocks {
    /// The largest number of blocks that fits the option space.
    pub const MAX: usize = 4;

    /// Adds a block at the end; returns whether there was room.
    pub fn push(&mut self, left: SeqNumber, right: SeqNumber) -> bool {
        let n = usize::from(self.len);
        if n == Self::MAX {
            return false;
        }
        self.blocks[n] = (left, right);
        self.len += 1;
        true
    }

    /// The blocks in order.
    pub fn as_slice(&self) -> &[(SeqNumber, SeqNumber)] {
        &self.blocks[..usize::from(self.len)]
    }

    /// Keeps the first `n` blocks only.
    pub fn truncate(&mut self, n: usize) {
        self.len = self.len.min(n as u8);
    }

    /// The number of blocks.
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Whether there are no blocks.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl std::fmt::Debug for SackBlocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.as_slice().iter().map(|(l, r)| l.0..r.0))
            .finish()
    }
}

//! [`Store`]: the packets in the network and what the hops need to know of each.

use crate::network::NONE;
use crate::{Class, Packet};

/// What the hops need of a packet, in half a cache line; the packet itself is touched only where it
/// enters and leaves.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(crate) struct Meta {
    /// Hash of the 5-tuple.
    pub(crate) hash: u64,
    /// When it reaches the far end of the link it is on, once it is known.
    pub(crate) arrive: u64,
    /// The next packet on the same link, or the next free place.
    pub(crate) next: u32,
    /// Destination address.
    pub(crate) to: u32,
    /// Bytes on the wire.
    pub(crate) len: u32,
    /// Flags, and the explicit path in the lower bits.
    info: u32,
}

const DATA: u32 = 1 << 31;
const HIGH: u32 = 1 << 30;
const ECN_CAPABLE: u32 = 1 << 29;
const MARKED: u32 = 1 << 28;
const EXEMPT: u32 = 1 << 27;
const ON_PATH: u32 = 1 << 26;
const PATH: u32 = (1 << 26) - 1;

impl Meta {
    pub(crate) fn is_data(&self) -> bool {
        self.info & DATA != 0
    }

    pub(crate) fn class(&self) -> Class {
        match self.info & HIGH {
            0 => Class::Low,
            _ => Class::High,
        }
    }

    /// Whether neither a loss process nor a full port takes it.
    pub(crate) fn is_exempt(&self) -> bool {
        self.info & EXEMPT != 0
    }

    /// Marks the packet if it can be; whether it is now.
    pub(crate) fn mark(&mut self) -> bool {
        let capable = self.info & ECN_CAPABLE != 0;
        if capable {
            self.info |= MARKED;
        }
        capable
    }

    /// The explicit path, if it has one.
    #[inline]
    pub(crate) fn path(&self) -> Option<u32> {
        (self.info & ON_PATH != 0).then_some(self.info & PATH)
    }
}

/// A slab of packets. Freed places are used again, the last one first.
#[derive(Debug)]
pub(crate) struct Store<P> {
    pub(crate) metas: Vec<Meta>,
    packets: Vec<Option<P>>,
    free: u32,
    live: usize,
}

impl<P: Packet> Store<P> {
    pub(crate) fn new() -> Self {
        Self {
            metas: Vec::new(),
            packets: Vec::new(),
            free: NONE,
            live: 0,
        }
    }

    /// How many packets there are.
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    /// Takes in a packet for `to`; `salt` is mixed into its hash. Of `path` the lower 26 bits count.
    pub(crate) fn insert(&mut self, packet: P, salt: u64, to: u32, path: Option<u32>) -> u32 {
        let flag = |set: bool, bit: u32| if set { bit } else { 0 };
        let meta = Meta {
            hash: packet.flow_hash() ^ salt,
            arrive: 0,
            next: NONE,
            to,
            len: packet.wire_len(),
            info: flag(packet.is_data(), DATA)
                | flag(packet.class() == Class::High, HIGH)
                | flag(packet.ecn_capable(), ECN_CAPABLE)
                | flag(!packet.may_be_lost(), EXEMPT)
                | path.map_or(0, |p| ON_PATH | (p & PATH)),
        };
        self.live += 1;
        let index = self.free;
        if index == NONE {
            self.metas.push(meta);
            self.packets.push(Some(packet));
            return self.metas.len() as u32 - 1;
        }
        self.free = self.metas[index as usize].next;
        self.metas[index as usize] = meta;
        self.packets[index as usize] = Some(packet);
        index
    }

    /// The flow of a packet.
    pub(crate) fn flow_key(&self, index: u32) -> u64 {
        let packet = self.packets[index as usize].as_ref();
        packet.map_or(0, Packet::flow_key)
    }

    /// Takes out a packet, marked if it was marked on its way.
    #[inline]
    pub(crate) fn remove(&mut self, index: u32) -> Option<P> {
        let meta = &mut self.metas[index as usize];
        let marked = meta.info & MARKED != 0;
        let mut packet = self.packets[index as usize].take()?;
        meta.next = self.free;
        self.free = index;
        self.live -= 1;
        if marked {
            packet.mark_ce();
        }
        Some(packet)
    }
}

//! [`Store`]: the packets in the network, and the data about each that hops need.

use crate::{Class, Packet};

/// The data about a packet that hops need. It takes half a cache line and moves from link to link. The packet
/// itself is touched only when it enters and leaves the network.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
pub(crate) struct Meta {
    /// Hash of the 5-tuple, if a balancer may use it.
    pub(crate) hash: u64,
    /// When the packet reaches the far end of its current link, once this is known.
    pub(crate) arrive: u64,
    /// Destination address.
    pub(crate) to: u32,
    /// Length on the wire in bytes.
    pub(crate) len: u32,
    /// Flags, and the explicit path in the lower bits.
    pub(crate) info: u32,
    /// The packet's position in the store.
    pub(crate) index: u32,
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

    /// Whether neither a loss process nor a full port drops the packet.
    pub(crate) fn is_exempt(&self) -> bool {
        self.info & EXEMPT != 0
    }

    /// Marks the packet if it is ECN-capable. Returns whether it is now marked.
    pub(crate) fn mark(&mut self) -> bool {
        let capable = self.info & ECN_CAPABLE != 0;
        if capable {
            self.info |= MARKED;
        }
        capable
    }

    /// The explicit path, if the packet has one.
    #[inline]
    pub(crate) fn path(&self) -> Option<u32> {
        (self.info & ON_PATH != 0).then_some(self.info & PATH)
    }
}

/// A slab of packets. Free positions are reused, the last freed one first.
#[derive(Debug)]
pub(crate) struct Store<P> {
    packets: Vec<Option<P>>,
    free: Vec<u32>,
}

impl<P: Packet> Store<P> {
    pub(crate) fn new() -> Self {
        Self {
            packets: Vec::new(),
            free: Vec::new(),
        }
    }

    /// The number of packets.
    pub(crate) fn live(&self) -> usize {
        self.packets.len() - self.free.len()
    }

    /// Stores a packet for `to` with the hash of its 5-tuple. Only the lower 26 bits of `path` are used.
    #[inline]
    pub(crate) fn insert(&mut self, packet: P, hash: u64, to: u32, path: Option<u32>) -> Meta {
        let flag = |set: bool, bit: u32| if set { bit } else { 0 };
        let mut meta = Meta {
            hash,
            arrive: 0,
            to,
            len: packet.wire_len(),
            info: flag(packet.is_data(), DATA)
                | flag(packet.class() == Class::High, HIGH)
                | flag(packet.ecn_capable(), ECN_CAPABLE)
                | flag(!packet.may_be_lost(), EXEMPT)
                | path.map_or(0, |p| ON_PATH | (p & PATH)),
            index: self.packets.len() as u32,
        };
        match self.free.pop() {
            Some(index) => {
                meta.index = index;
                self.packets[index as usize] = Some(packet);
            }
            None => self.packets.push(Some(packet)),
        }
        meta
    }

    /// Prefetches a packet that will be removed soon.
    #[inline]
    pub(crate) fn prefetch(&self, meta: &Meta) {
        if let Some(place) = self.packets.get(meta.index as usize) {
            P::prefetch(place);
        }
    }

    /// The packet at a position, if there is one.
    #[inline]
    pub(crate) fn packet(&self, index: u32) -> Option<&P> {
        self.packets.get(index as usize)?.as_ref()
    }

    /// The flow of a packet.
    pub(crate) fn flow_key(&self, meta: &Meta) -> u64 {
        let packet = self.packets[meta.index as usize].as_ref();
        packet.map_or(0, Packet::flow_key)
    }

    /// Removes a packet, and marks it if it was marked in transit.
    #[inline]
    pub(crate) fn remove(&mut self, meta: &Meta) -> Option<P> {
        let mut packet = self.packets[meta.index as usize].take()?;
        self.free.push(meta.index);
        if meta.info & MARKED != 0 {
            packet.mark_ce();
        }
        Some(packet)
    }
}

//! Packets as the fabric carries them.

use spindle_experiment::hosts::class;
use spindle_fabric::Class;
use spindle_mptcp::stage::important::is_important;
use spindle_units::prefetch;
use spindle_wire::{Ecn, Packet};

/// A packet in transit.
#[derive(Clone, Debug)]
pub(crate) struct SimPacket {
    pub(crate) packet: Packet,
    wire_len: u32,
    exempt: bool,
}

/// Length of an IPv4 and TCP header without options, in bytes.
const BARE_HEADERS: u32 = 40;

impl SimPacket {
    /// A packet with its wire length.
    pub(crate) fn new(packet: Packet) -> Self {
        let wire_len = packet.wire_len() as u32;
        Self {
            packet,
            wire_len,
            exempt: false,
        }
    }

    /// A packet that the network does not lose: a repair by a sender that is notified of drops.
    pub(crate) fn exempt(packet: Packet) -> Self {
        Self {
            exempt: true,
            ..Self::new(packet)
        }
    }

    /// Whether the network must not lose the packet.
    pub(crate) fn is_exempt(&self) -> bool {
        self.exempt
    }

    /// Sets the wire length to that of the current packet.
    #[inline]
    pub(crate) fn update_wire_len(&mut self) {
        self.wire_len = self.packet.wire_len() as u32;
        self.exempt = false;
    }

    /// Sets the wire length without the options of TCP, as in the reference flows (40 B acknowledgements
    /// even with SACK).
    #[inline]
    pub(crate) fn weigh_without_options(&mut self) {
        self.wire_len = BARE_HEADERS + self.packet.payload().len() as u32;
        self.exempt = false;
    }
}

/// A packet in transit that stays at one place in memory. None of its 200 bytes is copied between the sending
/// and the receiving host.
#[derive(Debug)]
pub(crate) struct BoxedPacket(pub(crate) Box<SimPacket>);

/// Packets that have arrived and can be filled again. There are enough that sending needs no allocation between
/// bursts. Their number is limited, so that the memory of a burst is released.
#[derive(Debug, Default)]
pub(crate) struct PacketPool(Vec<BoxedPacket>);

/// Largest number of spare packets. They take about 200 KB, a part of the processor's second-level cache.
const KEPT: usize = 1024;

impl PacketPool {
    /// A box for a packet. Its sender must then [set its wire length](SimPacket::update_wire_len).
    #[inline]
    pub(crate) fn packet(&mut self) -> BoxedPacket {
        let spare = self.0.pop();
        spare.unwrap_or_else(|| BoxedPacket(Box::new(SimPacket::new(Packet::blank()))))
    }

    /// Takes back a packet that is not needed. It is the next one to be filled, because it is still in the
    /// caches.
    #[inline]
    pub(crate) fn take_back(&mut self, packet: BoxedPacket) {
        if self.0.len() < KEPT {
            self.0.push(packet);
        }
    }
}

impl spindle_fabric::Packet for BoxedPacket {
    #[inline]
    fn prefetch(place: &Option<Self>) {
        if let Some(packet) = place {
            prefetch(&*packet.0);
        }
    }

    fn wire_len(&self) -> u32 {
        self.0.wire_len
    }

    fn flow_hash(&self) -> u64 {
        self.0.packet.flow_hash()
    }

    fn flow_key(&self) -> u64 {
        self.0.packet.flow_key()
    }

    fn class(&self) -> Class {
        class(self.0.packet.dscp())
    }

    fn is_data(&self) -> bool {
        !self.0.packet.payload().is_empty()
    }

    fn may_be_lost(&self) -> bool {
        !self.0.exempt
    }

    fn is_important(&self) -> bool {
        is_important(self.0.packet.dscp())
    }

    fn ecn_capable(&self) -> bool {
        matches!(self.0.packet.ecn(), Ecn::Ect0 | Ecn::Ect1)
    }

    fn mark_ce(&mut self) {
        self.0.packet.set_ecn(Ecn::Ce);
    }
}

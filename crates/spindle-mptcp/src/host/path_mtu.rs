//! The path MTU, as reported by the component that watches for ICMP messages or owns the link.

use spindle_units::Instant;
use spindle_wire::{Endpoint, SeqNumber};

use super::Stack;

impl Stack {
    /// Reports that IP packets of more than `mtu` bytes (IP header included) do not pass from `local` to
    /// `remote`, or that larger packets than before pass again. Port 0 means any port.
    ///
    /// The MSS of the subflows there follows `mtu`, up to the agreed MSS and down to a floor (552 bytes with
    /// IPv4, 1280 with IPv6). Outstanding segments that are too large are retransmitted in smaller segments.
    /// The caller judges whether an ICMP message can be trusted (RFC 5927, section 7).
    pub fn path_mtu(&mut self, now: Instant, local: Endpoint, remote: Endpoint, mtu: u32) {
        self.set_path_mtu(now, (local, remote), mtu, true);
    }

    /// Like [`Self::path_mtu`], but for an MTU that the link itself has found, which is trusted. There is no
    /// floor, because a tunnel may carry less than an IP path must.
    pub fn link_mtu(&mut self, now: Instant, local: Endpoint, remote: Endpoint, mtu: u32) {
        self.set_path_mtu(now, (local, remote), mtu, false);
    }

    fn set_path_mtu(&mut self, now: Instant, ends: (Endpoint, Endpoint), mtu: u32, floor: bool) {
        if ends.0.port != 0 && ends.1.port != 0 {
            if let Some((slot, _)) = self.table.lookup(&ends) {
                self.set_path_mtu_of(now, slot, ends, mtu, floor);
            }
            return;
        }
        let slots: Vec<u32> = self.table.handles().map(|h| h.slot).collect();
        for slot in slots {
            self.set_path_mtu_of(now, slot, ends, mtu, floor);
        }
    }

    fn set_path_mtu_of(
        &mut self,
        now: Instant,
        slot: u32,
        ends: (Endpoint, Endpoint),
        mtu: u32,
        floor: bool,
    ) {
        if let Some(c) = self.table.connection_mut(slot) {
            c.path_mtu(now, ends, mtu, floor);
        }
        self.touch(now, slot);
    }

    /// Whether the byte with sequence number `seq` from `local` to `remote` was sent and is not acknowledged
    /// yet. An ICMP message must quote such a byte to be trusted (RFC 5927, section 4.1).
    pub fn is_outstanding(&self, local: Endpoint, remote: Endpoint, seq: SeqNumber) -> bool {
        let slot = self.table.lookup(&(local, remote)).map(|(slot, _)| slot);
        let connection = slot.and_then(|s| self.table.connection(s));
        connection.is_some_and(|c| {
            let mut subflows = c.subflows.iter();
            subflows.any(|s| s.local == local && s.remote == remote && s.is_outstanding(seq))
        })
    }
}

//! What passes on a path, as whoever watches for ICMP messages or owns the link says.

use spindle_units::Instant;
use spindle_wire::{Endpoint, SeqNumber};

use super::Stack;

impl Stack {
    /// IP packets of more than `mtu` bytes (IP header included) do not pass from `local` to `remote`,
    /// or larger ones pass again; port 0 means any. The MSS of the subflows there follows, up to what
    /// was agreed and down to a floor (552 bytes with IPv4, 1280 with IPv6), and what was sent and is
    /// too large goes out again in smaller segments. Whether an ICMP message is to be believed is for
    /// the caller to judge (RFC 5927, section 7).
    pub fn path_mtu(&mut self, now: Instant, local: Endpoint, remote: Endpoint, mtu: u32) {
        self.set_path_mtu(now, (local, remote), mtu, true);
    }

    /// As [`Self::path_mtu`], but found out by the link itself, which is believed: there is no floor. What
    /// a tunnel carries may be smaller than what a path of IP has to.
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

    /// Whether the byte with sequence number `seq` from `local` to `remote` was sent and is not
    /// acknowledged yet: what an ICMP message must quote to be believed (RFC 5927, section 4.1).
    pub fn is_outstanding(&self, local: Endpoint, remote: Endpoint, seq: SeqNumber) -> bool {
        let slot = self.table.lookup(&(local, remote)).map(|(slot, _)| slot);
        let connection = slot.and_then(|s| self.table.connection(s));
        connection.is_some_and(|c| {
            let mut subflows = c.subflows.iter();
            subflows.any(|s| s.local == local && s.remote == remote && s.is_outstanding(seq))
        })
    }
}

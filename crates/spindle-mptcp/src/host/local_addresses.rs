//! The addresses of this host, which may change while connections are open.

use std::net::IpAddr;

use spindle_units::Instant;

use super::Stack;
use crate::types::LocalAddress;

impl Stack {
    /// Replaces the addresses from which path managers may open subflows
    /// ([`StackConfig::addresses`](super::StackConfig::addresses)), at this moment and while connections are open.
    ///
    /// New connections may use the new addresses. A connection that this host opened joins from each new address for
    /// which its path manager wants a subflow, at once. An address that was in the list and is not any more is
    /// withdrawn from the peer (REMOVE_ADDR; RFC 8684, section 3.4.2): its subflows are reset, and their data are
    /// reinjected. If no established subflow is left elsewhere, one is kept until another is established; the driver may
    /// send its segments from another address. A subflow whose address becomes a backup, or no longer is one, is
    /// reported to the peer (MP_PRIO). Addresses that were never in the list do not change.
    ///
    /// It takes time in proportion to the number of connections.
    pub fn set_local_addresses(&mut self, now: Instant, addresses: &[LocalAddress]) {
        if self.local_addresses == addresses {
            return;
        }
        let mut lost = self.addresses();
        lost.retain(|addr| addresses.iter().all(|a| a.addr != *addr));
        self.local_addresses = addresses.to_vec();
        for slot in self.slots() {
            if let Some(c) = self.table.connection_mut(slot) {
                c.change_local_addresses(now, &lost, addresses);
            }
            self.touch(now, slot);
        }
    }

    /// Sends something on every subflow of every connection at once: outstanding data again, without the back-off of
    /// former timeouts, otherwise a probe that the peer must answer (RFC 9293, section 3.8.4). Lost subflows that wait
    /// to be opened again are opened. It is meant for a host that was suspended, for which all timers stood still.
    ///
    /// It takes time in proportion to the number of subflows.
    pub fn probe_paths(&mut self, now: Instant) {
        for slot in self.slots() {
            if let Some(c) = self.table.connection_mut(slot) {
                c.probe_paths(now);
            }
            self.touch(now, slot);
        }
    }

    /// The addresses from which path managers may open subflows.
    pub(super) fn addresses(&self) -> Vec<IpAddr> {
        self.local_addresses.iter().map(|a| a.addr).collect()
    }

    fn slots(&self) -> Vec<u32> {
        self.table.handles().map(|h| h.slot).collect()
    }
}

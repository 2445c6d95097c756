//! What a stack has counted since it began.

use crate::SendCounters;
use crate::connection::info::add_counters;
use crate::connection::{Connection, Happening, Role};
use crate::stage::coding::CodingCounters;

/// Totals of a [`crate::Stack`], connections that are gone included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackCounters {
    /// Connections opened by peers and established.
    pub accepted: u64,
    /// Connections opened here and established.
    pub connected: u64,
    /// Connections forgotten, half-open ones included.
    pub closed: u64,
    /// Established connections that use MPTCP, or did to their end.
    pub multipath: u64,
    /// Established connections that are plain TCP although this end speaks MPTCP: the peer does not,
    /// or they fell back (RFC 8684, section 3.7).
    pub fallbacks: u64,
    /// SYNs for which nothing listens.
    pub refused_no_listener: u64,
    /// Connections refused at `max_connections`.
    pub refused_connections: u64,
    /// Connections refused at `max_buffered`.
    pub refused_memory: u64,
    /// SYNs answered with a cookie (RFC 4987).
    pub cookies_sent: u64,
    /// Connections made from a cookie.
    pub cookies_accepted: u64,
    /// ACKs refused while cookies were about, because theirs was false or too old.
    pub cookies_refused: u64,
    /// Joins refused for a token of no connection (RFC 8684, section 3.2).
    pub joins_unknown: u64,
    /// Joins refused at a limit.
    pub joins_refused: u64,
    /// Joins with a wrong HMAC, on SYN/ACK or third ACK.
    pub join_hmac_failures: u64,
    /// ADD_ADDRs with a wrong HMAC (RFC 8684, section 3.4.1).
    pub add_addr_hmac_failures: u64,
    /// Joins opened here and established.
    pub subflows_opened: u64,
    /// Joins opened by peers and established.
    pub subflows_accepted: u64,
    /// Segments of no connection, SYNs excepted.
    pub unknown_segments: u64,
    /// Resets sent, for connections and without one.
    pub resets_sent: u64,
    /// Challenge ACKs (RFC 5961).
    pub challenge_acks: u64,
    /// Mappings with a wrong DSS checksum.
    pub checksum_failures: u64,
    /// Payload bytes that arrived for the first time.
    pub bytes_received: u64,
    /// Payload bytes that arrived again.
    pub bytes_duplicate: u64,
    /// Sending totals over all subflows.
    pub send: SendCounters,
    /// What coding has done.
    pub coding: CodingCounters,
}

impl StackCounters {
    /// A connection's handshake is over.
    #[cold]
    pub(super) fn settled(&mut self, how: Happening, role: Role) {
        match (how, role) {
            (Happening::Connected, Role::Server) => self.accepted += 1,
            (Happening::Connected, Role::Client) => self.connected += 1,
            _ => {}
        }
    }

    /// Adds what a connection has counted.
    pub(super) fn add(&mut self, c: &Connection) {
        let d = c.data_counters();
        let (established, multipath) = (c.is_established(), c.is_multipath());
        self.multipath += u64::from(established && multipath);
        self.fallbacks += u64::from(established && !multipath && c.config.multipath.is_some());
        self.join_hmac_failures += d.join_hmac_failures;
        self.add_addr_hmac_failures += d.add_addr_hmac_failures;
        self.subflows_opened += d.subflows_opened;
        self.subflows_accepted += d.subflows_accepted;
        self.challenge_acks += d.challenge_acks;
        self.checksum_failures += d.checksum_failures;
        self.bytes_received += d.bytes_received;
        self.bytes_duplicate += d.bytes_duplicate;
        add_counters(&mut self.send, &c.totals());
        self.coding = self.coding.plus(&c.coding_counters());
    }
}

//! The counters of a stack.

use spindle_units::DurationHistogram;

use super::table::Table;
use crate::SendCounters;
use crate::connection::ended::SubflowEnds;
use crate::connection::info::add_counters;
use crate::connection::path_totals::PathTotals;
use crate::connection::{Connection, ConnectionEvent, Role};
use crate::stage::coding::CodingCounters;

/// How long data were missing that were sent again. The bounds are powers of two from 50 us to
/// 6.6 s.
pub type RepairTimes = DurationHistogram<50, 2, 18>;

/// Connections that a [`crate::Stack`] refused, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RefusedConnections {
    /// SYNs for which there is no listener.
    pub no_listener: u64,
    /// Connections refused because `max_connections` was reached.
    pub limit: u64,
    /// Connections refused because `max_memory` was reached.
    pub memory: u64,
    /// Connections refused because their source had used up its share ([`crate::StackConfig::source_share`]).
    pub source: u64,
}

/// SYN cookies of a [`crate::Stack`] (RFC 4987).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CookieCounters {
    /// SYNs answered with a cookie.
    pub sent: u64,
    /// Connections made from a cookie.
    pub accepted: u64,
    /// ACKs refused while cookies were in use, because their cookie was wrong or too old.
    pub refused: u64,
}

/// Joins that a [`crate::Stack`] refused, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RefusedJoins {
    /// No connection has their token (RFC 8684, section 3.2).
    pub unknown: u64,
    /// A limit was reached.
    pub limit: u64,
    /// They were sent to an own address without a listener ([`crate::JoinPolicy`]), or turned away
    /// ([`crate::Stack::turn_away`]).
    pub prohibited: u64,
    /// The HMAC of their SYN/ACK or third ACK was wrong.
    pub hmac_failures: u64,
}

/// Totals of a [`crate::Stack`], including connections that no longer exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackCounters {
    /// Connections opened by peers and established.
    pub accepted: u64,
    /// Connections opened here and established.
    pub connected: u64,
    /// Connections forgotten, including half-open ones.
    pub closed: u64,
    /// Established connections that use MPTCP, or used it until they ended.
    pub multipath: u64,
    /// Established connections that are plain TCP although this end supports MPTCP: the peer does not, or they
    /// fell back (RFC 8684, section 3.7).
    pub fallbacks: u64,
    /// Connections refused, by reason.
    pub refused: RefusedConnections,
    /// Connections ended because memory was short and they made no progress.
    pub evicted: u64,
    /// Bytes that evicted connections held.
    pub bytes_evicted: u64,
    /// SYN cookies.
    pub cookies: CookieCounters,
    /// Joins refused, by reason.
    pub joins: RefusedJoins,
    /// ADD_ADDRs with a wrong HMAC (RFC 8684, section 3.4.1).
    pub add_addr_hmac_failures: u64,
    /// ADD_ADDRs of addresses that must not be joined ([`crate::AnnouncedAddresses`]).
    pub add_addr_refused: u64,
    /// Joins opened here and established.
    pub subflows_opened: u64,
    /// Joins opened by peers and established.
    pub subflows_accepted: u64,
    /// Subflows that ended, including first subflows and those that were never established.
    pub subflow_ends: SubflowEnds,
    /// Segments of no connection, except SYNs.
    pub unknown_segments: u64,
    /// Resets sent, with and without a connection.
    pub resets_sent: u64,
    /// Resets for segments of no connection that were not sent because too many had been sent (1000 a second on
    /// average, and 1000 at once).
    pub resets_withheld: u64,
    /// Challenge ACKs (RFC 5961).
    pub challenge_acks: u64,
    /// Mappings with a wrong DSS checksum.
    pub checksum_failures: u64,
    /// Payload bytes that arrived for the first time.
    pub bytes_received: u64,
    /// Payload bytes that arrived again.
    pub bytes_duplicate: u64,
    /// Segments queued for reinjection because the peer had acknowledged them on a subflow but not at the data
    /// level.
    pub undelivered: u64,
    /// Sending totals over all subflows.
    pub send: SendCounters,
    /// Totals of the subflows by their local address. They do not include what coding adds.
    pub paths: PathTotals,
    /// How long data were missing that were sent again: for each segment that was retransmitted, copied or reinjected
    /// from a dead subflow, the time from its first transmission until its data were acknowledged.
    pub repair_times: RepairTimes,
    /// Totals of coding.
    pub coding: CodingCounters,
    /// Iterations of loops over state that peers make this host store (scoreboards, reassembly queues,
    /// mappings, parities, coding units): a measure of work that does not depend on the machine.
    pub steps: u64,
}

impl RefusedConnections {
    fn add(&mut self, other: &Self) {
        self.no_listener += other.no_listener;
        self.limit += other.limit;
        self.memory += other.memory;
        self.source += other.source;
    }
}

impl CookieCounters {
    fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.accepted += other.accepted;
        self.refused += other.refused;
    }
}

impl RefusedJoins {
    fn add(&mut self, other: &Self) {
        self.unknown += other.unknown;
        self.limit += other.limit;
        self.prohibited += other.prohibited;
        self.hmac_failures += other.hmac_failures;
    }
}

impl StackCounters {
    /// Counts a connection that is established. Returns whether the event is the end of a handshake or of a connection.
    #[cold] // the beginning and the end of a connection
    pub(super) fn settled(&mut self, how: ConnectionEvent, role: Role) -> bool {
        match (how, role) {
            (ConnectionEvent::Connected, Role::Server) => self.accepted += 1,
            (ConnectionEvent::Connected, Role::Client) => self.connected += 1,
            _ => {}
        }
        matches!(how, ConnectionEvent::Connected | ConnectionEvent::Closed(_))
    }

    /// Adds the counters of a connection.
    pub(super) fn add(&mut self, c: &Connection) {
        let d = c.data_counters();
        let (established, multipath) = (c.is_established(), c.is_multipath());
        self.merge(&Self {
            multipath: u64::from(established && multipath),
            fallbacks: u64::from(established && !multipath && c.config.multipath.is_some()),
            joins: RefusedJoins {
                hmac_failures: d.join_hmac_failures,
                ..RefusedJoins::default()
            },
            add_addr_hmac_failures: d.add_addr_hmac_failures,
            add_addr_refused: d.add_addr_refused,
            subflows_opened: d.subflows_opened,
            subflows_accepted: d.subflows_accepted,
            subflow_ends: c.subflow_ends(),
            challenge_acks: d.challenge_acks,
            checksum_failures: d.checksum_failures,
            bytes_received: d.bytes_received,
            bytes_duplicate: d.bytes_duplicate,
            undelivered: d.undelivered,
            send: c.totals(),
            paths: c.path_totals(),
            coding: c.coding_counters(),
            steps: c.steps(),
            ..Self::default()
        });
    }

    /// Adds other counters.
    fn merge(&mut self, other: &Self) {
        // All fields are named, so that none can be left out.
        let Self {
            accepted,
            connected,
            closed,
            multipath,
            fallbacks,
            refused,
            evicted,
            bytes_evicted,
            cookies,
            joins,
            add_addr_hmac_failures,
            add_addr_refused,
            subflows_opened,
            subflows_accepted,
            subflow_ends,
            unknown_segments,
            resets_sent,
            resets_withheld,
            challenge_acks,
            checksum_failures,
            bytes_received,
            bytes_duplicate,
            undelivered,
            send,
            paths,
            repair_times,
            coding,
            steps,
        } = other;
        self.accepted += accepted;
        self.connected += connected;
        self.closed += closed;
        self.multipath += multipath;
        self.fallbacks += fallbacks;
        self.refused.add(refused);
        self.evicted += evicted;
        self.bytes_evicted += bytes_evicted;
        self.cookies.add(cookies);
        self.joins.add(joins);
        self.add_addr_hmac_failures += add_addr_hmac_failures;
        self.add_addr_refused += add_addr_refused;
        self.subflows_opened += subflows_opened;
        self.subflows_accepted += subflows_accepted;
        self.subflow_ends.add(subflow_ends);
        self.unknown_segments += unknown_segments;
        self.resets_sent += resets_sent;
        self.resets_withheld += resets_withheld;
        self.challenge_acks += challenge_acks;
        self.checksum_failures += checksum_failures;
        self.bytes_received += bytes_received;
        self.bytes_duplicate += bytes_duplicate;
        self.undelivered += undelivered;
        add_counters(&mut self.send, send);
        self.paths.merge(paths);
        self.repair_times.merge(repair_times);
        self.coding = self.coding.plus(coding);
        self.steps += steps;
    }
}

/// A sum over all connections that is made in parts, while connections are opened and closed. Each connection
/// counts once, with its counters at the time when it was visited or when it ended. From one survey to the
/// next, a total therefore decreases only if it decreases in a connection.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// The next slot to visit.
    next: u32,
    /// Totals of the connections that were visited.
    seen: StackCounters,
    /// Totals of connections that were visited and have ended since. They are counted in `seen`, and are kept
    /// for the next survey.
    gone: StackCounters,
}

impl Survey {
    /// The connection in this slot has ended. If it was visited already, its counters are kept for the next
    /// survey, and the result is true.
    pub(super) fn takes(&mut self, slot: u32, c: &Connection) -> bool {
        let seen = slot < self.next;
        if seen {
            self.gone.add(c);
            self.gone.closed += 1;
        }
        seen
    }

    /// Visits up to `most` slots. Returns the totals once all slots were visited, when the survey is over.
    pub(super) fn go_on(
        &mut self,
        table: &Table,
        most: u32,
        gone: &mut StackCounters,
    ) -> Option<StackCounters> {
        let from = self.next;
        let to = from.saturating_add(most.max(1)).min(table.slots());
        let connections = (from..to).filter_map(|slot| table.connection(slot));
        connections.for_each(|c| self.seen.add(c));
        self.next = to;
        if to < table.slots() {
            return None;
        }
        let mut total = gone.clone();
        total.merge(&self.seen);
        gone.merge(&self.gone);
        Some(total)
    }
}

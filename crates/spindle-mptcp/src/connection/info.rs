//! Information about a live connection.

use spindle_units::{Duration, Instant};
use spindle_wire::Endpoint;

use super::ended::EndedSubflow;
use super::path_totals::PathTotals;
use super::{CloseReason, Connection, Role};
use crate::stage::coding::CodingCounters;
use crate::subflow::sender::SendCounters;
use crate::subflow::{Subflow, TcpState};
use crate::types::SubflowId;

/// Counters of the data level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataCounters {
    /// Bytes that arrived for the first time.
    pub bytes_received: u64,
    /// Bytes that arrived again, on any subflow.
    pub bytes_duplicate: u64,
    /// Reinjections made (segments).
    pub reinjections: u64,
    /// Reinjected segments that were opportunistic retransmissions.
    pub opportunistic: u64,
    /// Segments queued for reinjection because a subflow had acknowledged them and the DATA_ACK did not
    /// advance.
    pub undelivered: u64,
    /// Payload bytes of copies, repeats and parities that were paid from the recovery budget
    /// ([`crate::Config::recovery_budget`]). 0 without a budget.
    pub budget_spent: u64,
    /// Payload bytes of the recovery policy's requests that the budget refused. A policy that requests the same
    /// bytes again is counted again.
    pub budget_refused: u64,
    /// Subflows penalised.
    pub penalties: u64,
    /// Mappings with a wrong DSS checksum.
    pub checksum_failures: u64,
    /// Joins refused for a wrong HMAC (RFC 8684, section 3.2).
    pub join_hmac_failures: u64,
    /// ADD_ADDRs ignored for a wrong HMAC (RFC 8684, section 3.4.1).
    pub add_addr_hmac_failures: u64,
    /// ADD_ADDRs of addresses that must not be joined ([`crate::AnnouncedAddresses`]).
    pub add_addr_refused: u64,
    /// Joins opened by this end and established.
    pub subflows_opened: u64,
    /// Joins opened by the peer and established.
    pub subflows_accepted: u64,
    /// Parities of blocks that arrived, including duplicates.
    pub parities_received: u64,
    /// Parities and decoded packets that were refused because they contradicted themselves, each other or data
    /// that arrived.
    pub parities_refused: u64,
    /// Packets decoded from parities (CoFUSO section 4.3).
    pub packets_decoded: u64,
    /// Challenge ACKs that the limit allowed (RFC 5961, section 7), on current and past subflows.
    pub challenge_acks: u64,
}

/// Snapshot of a connection.
#[derive(Clone, Debug)]
pub struct ConnectionInfo {
    /// Which end this is.
    pub role: Role,
    /// Whether MPTCP is in use.
    pub multipath: bool,
    /// The local token (RFC 8684), with MPTCP.
    pub token: Option<u32>,
    /// Whether the handshake is done.
    pub established: bool,
    /// How the connection ended, if it has ended.
    pub closed: Option<CloseReason>,
    /// Bytes written by the application.
    pub written: u64,
    /// Bytes sent for the first time.
    pub sent: u64,
    /// Bytes acknowledged at the data level.
    pub acknowledged: u64,
    /// Bytes received in order.
    pub received: u64,
    /// Send counters of all subflows together, including past ones.
    pub total: SendCounters,
    /// Counters of the data level.
    pub data: DataCounters,
    /// Counters of coding, if it was agreed on. `total` counts its extra bytes as recovery bytes.
    pub coding: CodingCounters,
    /// The current subflows.
    pub subflows: Vec<SubflowInfo>,
    /// The subflows that ended last, at most eight, the oldest first.
    pub ended: Vec<EndedSubflow>,
}

/// Snapshot of a subflow.
#[derive(Clone, Debug)]
pub struct SubflowInfo {
    /// Its identifier.
    pub id: SubflowId,
    /// The local endpoint.
    pub local: Endpoint,
    /// The peer's endpoint.
    pub remote: Endpoint,
    /// TCP state.
    pub state: TcpState,
    /// Whether it is a backup.
    pub backup: bool,
    /// Whether the subflow counts as dead. It timed out repeatedly, or was silent while other subflows worked.
    /// Its data were reinjected on other subflows. It gets no new data until the peer acknowledges something on
    /// it.
    pub dead: bool,
    /// When the last segment from the peer arrived on the subflow, on the stack's clock. If none has arrived,
    /// the time at which the subflow was opened.
    pub last_heard: Instant,
    /// Congestion window in bytes.
    pub cwnd: u64,
    /// Slow-start threshold in bytes.
    pub ssthresh: u64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Bytes believed lost and not yet repaired.
    pub lost: u64,
    /// Payload bytes received in subflow order, including data that also arrived on another subflow.
    pub bytes_received: u64,
    /// Bytes of a full segment.
    pub mss: u64,
    /// Payload bytes of a full data segment. Fewer than `mss` if parities of the data need a header.
    pub most_data: u64,
    /// Smoothed round-trip time.
    pub srtt: Option<Duration>,
    /// Smallest round-trip time seen.
    pub min_rtt: Option<Duration>,
    /// The latest measured round-trip time.
    pub latest_rtt: Option<Duration>,
    /// Retransmission timeout with back-off.
    pub rto: Duration,
    /// Send counters of the subflow.
    pub counters: SendCounters,
}

pub(crate) fn add_counters(into: &mut SendCounters, c: &SendCounters) {
    into.segments += c.segments;
    into.retransmissions += c.retransmissions;
    into.bytes += c.bytes;
    into.bytes_retransmitted += c.bytes_retransmitted;
    into.bytes_recovery += c.bytes_recovery;
    into.bytes_reinjected += c.bytes_reinjected;
    into.recoveries += c.recoveries;
    into.recoveries_useful += c.recoveries_useful;
    into.losses += c.losses;
    into.timeouts += c.timeouts;
    into.fast_retransmits += c.fast_retransmits;
    into.probes += c.probes;
    into.spurious_retransmits += c.spurious_retransmits;
    into.undos += c.undos;
    into.ecn_reductions += c.ecn_reductions;
}

impl Connection {
    /// Loop iterations over state that the peer can enlarge, on current and past subflows.
    pub(crate) fn steps(&self) -> u64 {
        let subflows = self.subflows.iter().map(Subflow::steps);
        let own = self.steps.get() + self.recv.steps.get() + self.extensions.parities.steps();
        own + subflows.sum::<u64>()
    }

    /// Send counters of all subflows together, including past ones.
    pub(crate) fn totals(&self) -> SendCounters {
        let mut total = self.ended.sent();
        for s in &self.subflows {
            add_counters(&mut total, &s.tx.counters);
        }
        let coding = self.coding_counters();
        total.bytes += coding.extra_bytes;
        total.bytes_recovery += coding.extra_bytes;
        total
    }

    /// The totals of each local address, including those of past subflows.
    pub(crate) fn path_totals(&self) -> PathTotals {
        let mut totals = self.ended.paths().cloned().unwrap_or_default();
        self.subflows.iter().for_each(|s| totals.add_subflow(s));
        totals
    }

    /// Counters of the data level and of its handshakes.
    pub(crate) fn data_counters(&self) -> DataCounters {
        let mut counters = self.counters;
        counters.challenge_acks += self
            .subflows
            .iter()
            .map(|s| s.challenge_acks())
            .sum::<u64>();
        counters
    }

    /// Returns a snapshot of the connection.
    pub(crate) fn info(&self) -> ConnectionInfo {
        let subflows = self.subflows.iter().enumerate().map(|(i, s)| SubflowInfo {
            id: s.id,
            local: s.local,
            remote: s.remote,
            state: s.state,
            backup: s.is_backup(),
            dead: s.dead,
            last_heard: s.activity.last_heard,
            cwnd: s.tx.cc.cwnd(),
            ssthresh: s.tx.cc.ssthresh(),
            in_flight: s.tx.in_flight(),
            lost: s.tx.board.lost_bytes(),
            bytes_received: s.bytes_received(),
            mss: s.tx.mss,
            most_data: self.most_data(i),
            srtt: s.tx.srtt(),
            min_rtt: s.tx.rtt.minimum(),
            latest_rtt: s.tx.rtt.latest(),
            rto: s.tx.rtt.rto(),
            counters: s.tx.counters,
        });
        ConnectionInfo {
            role: self.role,
            multipath: self.is_multipath(),
            token: self.multipath().map(|m| m.token_local),
            established: self.connected,
            closed: self.teardown.closed,
            written: self.send.written.since_start(),
            sent: self.send.sent_bytes() - self.scheduling.assigned.total(),
            acknowledged: self.send.una.since_start(),
            received: self.recv.next().since_start(),
            total: self.totals(),
            data: self.data_counters(),
            coding: self.coding_counters(),
            subflows: subflows.collect(),
            ended: self.ended.iter().copied().collect(),
        }
    }
}

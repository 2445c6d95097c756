//! What can be asked of a live connection.

use spindle_units::{Duration, Instant};
use spindle_wire::Endpoint;

use super::ended::EndedSubflow;
use super::{CloseReason, Connection, Role};
use crate::stage::coding::CodingCounters;
use crate::subflow::sender::SendCounters;
use crate::subflow::{Subflow, SubflowId, TcpState};

/// Counters of the data level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataCounters {
    /// Bytes that arrived for the first time.
    pub bytes_received: u64,
    /// Bytes that arrived again, on whichever subflow.
    pub bytes_duplicate: u64,
    /// Reinjections made (segments).
    pub reinjections: u64,
    /// Opportunistic retransmissions among them.
    pub opportunistic: u64,
    /// Segments queued for reinjection since a subflow had acknowledged them and the DATA_ACK stood still.
    pub undelivered: u64,
    /// Subflows penalised.
    pub penalties: u64,
    /// Segments with a wrong DSS checksum.
    pub checksum_failures: u64,
    /// Joins refused for a wrong HMAC (RFC 8684, section 3.2).
    pub join_hmac_failures: u64,
    /// ADD_ADDRs ignored for a wrong HMAC (RFC 8684, section 3.4.1).
    pub add_addr_hmac_failures: u64,
    /// ADD_ADDRs of addresses that are not to be joined ([`crate::AnnouncedAddresses`]).
    pub add_addr_refused: u64,
    /// Joins opened here and established.
    pub subflows_opened: u64,
    /// Joins opened by the peer and established.
    pub subflows_accepted: u64,
    /// Parities of blocks that arrived, those that came twice among them.
    pub parities_received: u64,
    /// Parities, and packets they gave back, that contradicted themselves, others or what arrived.
    pub parities_refused: u64,
    /// Packets that parities gave back (CoFUSO section 4.3).
    pub packets_decoded: u64,
    /// Challenge ACKs granted (RFC 5961, section 7), on subflows there are and past ones.
    pub challenge_acks: u64,
}

/// A connection at one moment.
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
    /// How it ended, if it did.
    pub closed: Option<CloseReason>,
    /// Bytes written by the application.
    pub written: u64,
    /// Bytes sent for the first time.
    pub sent: u64,
    /// Bytes acknowledged at the data level.
    pub acknowledged: u64,
    /// Bytes received in order.
    pub received: u64,
    /// Sending totals over all subflows, past ones included.
    pub total: SendCounters,
    /// Counters of the data level.
    pub data: DataCounters,
    /// What coding has done, where it was agreed on; `total` has its extra bytes as those of recovery.
    pub coding: CodingCounters,
    /// The subflows there are.
    pub subflows: Vec<SubflowInfo>,
    /// The latest subflows that ended, eight at most, the oldest first.
    pub ended: Vec<EndedSubflow>,
}

/// A subflow at one moment.
#[derive(Clone, Debug)]
pub struct SubflowInfo {
    /// Its identifier.
    pub id: SubflowId,
    /// Its own end.
    pub local: Endpoint,
    /// The peer's.
    pub remote: Endpoint,
    /// TCP state.
    pub state: TcpState,
    /// Whether it is a backup.
    pub backup: bool,
    /// Whether it counts as dead: it timed out repeatedly or fell silent while others work, its data
    /// were sent again on them, and it is given nothing new until the peer acknowledges something here.
    pub dead: bool,
    /// When a segment of the peer last came here, on the stack's clock; when the subflow was opened if
    /// none has come.
    pub last_heard: Instant,
    /// Congestion window in bytes.
    pub cwnd: u64,
    /// Slow-start threshold in bytes.
    pub ssthresh: u64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Bytes believed lost and not yet repaired.
    pub lost: u64,
    /// Payload bytes received in the subflow's order, data that came on another subflow too among
    /// them.
    pub bytes_received: u64,
    /// Bytes of a full segment.
    pub mss: u64,
    /// Bytes of a full segment of data: fewer where parities of them need a header in front.
    pub most_data: u64,
    /// Smoothed round-trip time.
    pub srtt: Option<Duration>,
    /// Smallest round-trip time seen.
    pub min_rtt: Option<Duration>,
    /// The latest measurement.
    pub latest_rtt: Option<Duration>,
    /// Retransmission timeout with back-off.
    pub rto: Duration,
    /// Its counters.
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
    /// Iterations of loops over what the peer can make larger, on subflows there are and past ones.
    pub(crate) fn steps(&self) -> u64 {
        let subflows = self.subflows.iter().map(Subflow::steps);
        let own = self.steps.get() + self.recv.steps.get() + self.parities.steps();
        own + subflows.sum::<u64>()
    }

    /// Sending totals over all subflows, past ones included.
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

    /// Everything there is to know now.
    pub(crate) fn info(&self) -> ConnectionInfo {
        let subflows = self.subflows.iter().enumerate().map(|(i, s)| SubflowInfo {
            id: s.id,
            local: s.local,
            remote: s.remote,
            state: s.state,
            backup: s.is_backup(),
            dead: s.dead,
            last_heard: s.last_heard,
            cwnd: s.tx.cc.cwnd(),
            ssthresh: s.tx.cc.ssthresh(),
            in_flight: s.tx.in_flight(),
            lost: s.tx.board.lost_bytes(),
            bytes_received: s.rx.nxt.saturating_sub(1),
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
            closed: self.closed,
            written: self.send.written,
            sent: self.send.nxt - self.assigned.total(),
            acknowledged: self.send.una,
            received: self.recv.next(),
            total: self.totals(),
            data: self.data_counters(),
            coding: self.coding_counters(),
            subflows: subflows.collect(),
            ended: self.ended.iter().copied().collect(),
        }
    }
}

//! How subflows ended: the records that a live connection keeps, and the counters.

use std::collections::VecDeque;
use std::fmt;

use spindle_units::{Duration, Instant};
use spindle_wire::{Endpoint, MpTcpRst, ResetReason};

use super::path_totals::PathTotals;
use super::{CloseReason, Connection, PathError};
use crate::congestion::PathMeasurements;
use crate::subflow::sender::{LastWindow, SendCounters};
use crate::subflow::{Origin, Subflow};
use crate::types::SubflowId;

/// Maximum number of ended subflows that a connection keeps a record of. It is enough to see what happened to
/// the paths of a connection with the usual two to four subflows (our choice).
const KEPT: usize = 8;

/// Why a subflow ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubflowEnd {
    /// Both ends closed it by FIN.
    Closed,
    /// The peer answered the SYN with RST. Contains the reason if the RST had MP_TCPRST (RFC 8684, section
    /// 3.6).
    Refused(Option<MpTcpRst>),
    /// The peer reset the subflow. Contains the reason if the RST had MP_TCPRST (RFC 8684, section 3.6).
    PeerReset(Option<MpTcpRst>),
    /// The SYN, the SYN/ACK or the third ACK of a join was sent as often as allowed, without an answer.
    NoAnswer,
    /// Keepalive probes went unanswered (RFC 9293, section 3.8.4).
    KeepaliveTimeout,
    /// No segment arrived on it for the user timeout while other subflows carried on (RFC 9293, section 3.8.3).
    Dead,
    /// The peer withdrew its address (REMOVE_ADDR; RFC 8684, section 3.4.2).
    PeerRemovedAddress,
    /// This end withdrew its own address.
    Withdrawn,
    /// The SYN/ACK or third ACK of the join had no HMAC or a wrong one (RFC 8684, section 3.2).
    InvalidJoin,
    /// The peer contradicted one of its own mappings (RFC 8684, section 3.3.1).
    ProtocolError,
    /// MPTCP options were stripped, or a checksum failed, while it could not fall back to plain TCP
    /// (RFC 8684, section 3.7).
    Middlebox,
    /// The connection was aborted by either end.
    ConnectionEnded(CloseReason),
    /// The SYN of another subflow was answered first ([`MultipathConfig::syn_race`](crate::config::MultipathConfig)).
    Outrun,
    /// It was being opened, and this host or the network reported that the peer cannot be reached (RFC 5461,
    /// section 4.1).
    Unreachable(PathError),
}

impl SubflowEnd {
    /// The names of all variants, in the order of [`Self::index`].
    const NAMES: [&str; 14] = [
        "closed",
        "refused",
        "peer_reset",
        "no_answer",
        "keepalive_timeout",
        "dead",
        "peer_removed_address",
        "withdrawn",
        "invalid_join",
        "protocol_error",
        "middlebox",
        "connection_ended",
        "unreachable",
        "outrun",
    ];

    const fn index(self) -> usize {
        match self {
            Self::Closed => 0,
            Self::Refused(_) => 1,
            Self::PeerReset(_) => 2,
            Self::NoAnswer => 3,
            Self::KeepaliveTimeout => 4,
            Self::Dead => 5,
            Self::PeerRemovedAddress => 6,
            Self::Withdrawn => 7,
            Self::InvalidJoin => 8,
            Self::ProtocolError => 9,
            Self::Middlebox => 10,
            Self::ConnectionEnded(_) => 11,
            Self::Unreachable(_) => 12,
            Self::Outrun => 13,
        }
    }

    /// A name of lower-case letters and underscores. The peer's reason is not part of it.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self.index()]
    }

    /// Whether one of the ends intended it, as opposed to a failure of the path or of the peer.
    pub const fn is_orderly(self) -> bool {
        matches!(
            self,
            Self::Closed
                | Self::PeerRemovedAddress
                | Self::Withdrawn
                | Self::Outrun
                | Self::ConnectionEnded(
                    CloseReason::Finished | CloseReason::Aborted | CloseReason::PeerAborted
                )
        )
    }

    /// The reason that this end gives in MP_TCPRST when it resets the subflow (RFC 8684, section 3.6).
    pub(super) const fn reset_reason(self) -> ResetReason {
        match self {
            Self::InvalidJoin | Self::ProtocolError => ResetReason::MptcpSpecific,
            Self::PeerRemovedAddress | Self::Withdrawn => ResetReason::Prohibited,
            Self::Dead | Self::KeepaliveTimeout => ResetReason::UnacceptablePerformance,
            Self::Middlebox => ResetReason::Middlebox,
            _ => ResetReason::Unspecified,
        }
    }

    /// Whether the peer may open a subflow between these endpoints again (flag T of MP_TCPRST; RFC 8684,
    /// section 3.6).
    pub(super) const fn is_transient(self) -> bool {
        matches!(self, Self::Dead | Self::KeepaliveTimeout)
    }

    /// Whether this end cannot continue the connection if this was its last subflow. The data from the peer are
    /// inconsistent, and neither end can fall back to plain TCP.
    pub(super) const fn is_fatal(self) -> bool {
        matches!(self, Self::ProtocolError | Self::Middlebox)
    }

    /// How the connection ends if this was its last subflow. With `initial`, it was also the first subflow.
    pub(super) const fn close_reason(self, initial: bool) -> CloseReason {
        match self {
            Self::Refused(_) if initial => CloseReason::Refused,
            Self::NoAnswer if initial => CloseReason::ConnectTimeout,
            Self::Unreachable(PathError::Refused) if initial => CloseReason::Refused,
            Self::Unreachable(PathError::NoRoute) if initial => CloseReason::NoRoute,
            Self::KeepaliveTimeout => CloseReason::KeepaliveTimeout,
            Self::ConnectionEnded(reason) => reason,
            _ => CloseReason::Reset,
        }
    }
}

impl fmt::Display for SubflowEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Closed => "closed by both ends",
            Self::Refused(why) => return with_reason(f, "refused by the peer", *why),
            Self::PeerReset(why) => return with_reason(f, "reset by the peer", *why),
            Self::NoAnswer => "no answer to the handshake",
            Self::KeepaliveTimeout => "keepalive probes went unanswered",
            Self::Dead => "nothing heard within the user timeout",
            Self::PeerRemovedAddress => "the peer withdrew its address",
            Self::Withdrawn => "this end withdrew its address",
            Self::InvalidJoin => "the peer's join had no valid HMAC",
            Self::ProtocolError => "the peer contradicted its own mapping",
            Self::Middlebox => "a middlebox stripped options or changed data",
            Self::Unreachable(PathError::Refused) => "no listener at the peer's address",
            Self::Unreachable(PathError::NoRoute) => "no route to the peer",
            Self::Outrun => "the SYN on another path was answered first",
            Self::ConnectionEnded(reason) => {
                return write!(f, "the connection ended: {reason}");
            }
        };
        f.write_str(text)
    }
}

fn with_reason(f: &mut fmt::Formatter<'_>, text: &str, why: Option<MpTcpRst>) -> fmt::Result {
    let Some(why) = why else {
        return write!(f, "{text} without a reason");
    };
    let reason = match why.reason {
        ResetReason::Unspecified => "unspecified",
        ResetReason::MptcpSpecific => "MPTCP-specific error",
        ResetReason::LackOfResources => "lack of resources",
        ResetReason::Prohibited => "administratively prohibited",
        ResetReason::TooMuchOutstanding => "too much outstanding data",
        ResetReason::UnacceptablePerformance => "unacceptable performance",
        ResetReason::Middlebox => "middlebox interference",
        ResetReason::Other(code) => return write!(f, "{text}: MP_TCPRST reason {code}"),
    };
    let lasting = if why.transient { ", transient" } else { "" };
    write!(f, "{text}: {reason}{lasting}")
}

/// A subflow that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedSubflow {
    /// The identifier it had.
    pub id: SubflowId,
    /// The local endpoint.
    pub local: Endpoint,
    /// The peer's endpoint.
    pub remote: Endpoint,
    /// Whether it was ever established.
    pub established: bool,
    /// When it ended, on the stack's clock.
    pub at: Instant,
    /// Why it ended.
    pub end: SubflowEnd,
    /// Its last congestion window.
    pub last_window: LastWindow,
    /// What its controller measured of the path.
    pub measured: Option<PathMeasurements>,
    /// Its smoothed round-trip time and the variation (RFC 6298, section 2), if measured.
    pub rtt: Option<(Duration, Duration)>,
    /// Data segments that it sent, of every kind.
    pub sent: u64,
    /// Of these, retransmissions.
    pub retransmitted: u64,
    /// The peer's data that arrived on it in order, in full segments.
    pub received: u64,
    /// Segments that arrived so late that they were retransmissions of lost ones.
    pub repaired: u64,
}

/// Number of ended subflows by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubflowEnds([u64; SubflowEnd::NAMES.len()]);

impl SubflowEnds {
    /// Number of subflows that ended in this way, whatever reason the peer gave.
    pub const fn of(&self, end: SubflowEnd) -> u64 {
        self.0[end.index()]
    }

    /// Each [name](SubflowEnd::name) with the number of subflows that ended in this way.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        SubflowEnd::NAMES.into_iter().zip(self.0)
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (mine, more) in self.0.iter_mut().zip(other.0) {
            *mine += more;
        }
    }
}

/// The ended subflows of a connection. Nothing is stored before the first subflow ends, because segments do not
/// need this information.
#[derive(Debug, Default)]
pub(super) struct Ended(Option<Box<Record>>);

#[derive(Debug, Default)]
struct Record {
    /// The latest ended subflows, the oldest first.
    latest: VecDeque<EndedSubflow>,
    ends: SubflowEnds,
    paths: PathTotals,
}

impl Ended {
    /// The latest ended subflows, the oldest first.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &EndedSubflow> {
        self.0.iter().flat_map(|r| &r.latest)
    }

    /// Send counters of the ended subflows.
    pub(super) fn sent(&self) -> SendCounters {
        self.paths().map(PathTotals::sent).unwrap_or_default()
    }

    /// Totals of the ended subflows by their local address, if any has ended.
    pub(super) fn paths(&self) -> Option<&PathTotals> {
        self.0.as_ref().map(|r| &r.paths)
    }

    fn push(&mut self, e: EndedSubflow) {
        let r = self.0.get_or_insert_default();
        r.ends.0[e.end.index()] += 1;
        if r.latest.len() == KEPT {
            r.latest.pop_front();
        }
        r.latest.push_back(e);
    }

    /// Adds the counters of an ended subflow to the totals.
    pub(super) fn add(&mut self, s: &Subflow) {
        self.0.get_or_insert_default().paths.add_subflow(s);
    }
}

/// Whether the application has been notified of this subflow.
pub(super) fn is_known(s: &Subflow) -> bool {
    s.reported_established || s.origin == Origin::Initial
}

impl Connection {
    /// Number of ended subflows by reason.
    pub(crate) fn subflow_ends(&self) -> SubflowEnds {
        let record = self.ended.0.as_ref();
        record.map(|r| r.ends).unwrap_or_default()
    }

    /// Records and counts that subflow `i` has ended.
    pub(super) fn note_end(&mut self, now: Instant, i: usize, end: SubflowEnd) {
        let s = &self.subflows[i];
        let established = match s.origin {
            Origin::Initial => self.connected,
            Origin::Join(_) => s.reported_established,
        };
        self.ended.push(EndedSubflow {
            id: s.id,
            local: s.local,
            remote: s.remote,
            established,
            at: now,
            end,
            last_window: s.tx.last_window(now),
            measured: s.tx.cc.measurements(),
            rtt: s.tx.rtt.estimate(),
            sent: s.tx.counters.segments,
            retransmitted: s.tx.counters.retransmissions,
            received: s.received_segments(),
            repaired: s.rx.repaired,
        });
    }
}

//! [`Status`]: the document that a control socket returns.

use serde::{Deserialize, Serialize};
use spindle_mptcp::SubflowInfo;
use spindle_units::Instant;

use crate::fallback::DirectConnections;
use crate::gateway::ServiceHandle;
use crate::udp::UdpCounters;
use crate::uplinks::{self, UplinkState};
use crate::{ConnectionStatus, NetworkCounters};

/// A gateway or connect service at one moment. Names of times end with their unit. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The version of this document, [`super::VERSION`].
    pub version: u32,
    /// "gateway", "connect" or "exec".
    pub kind: String,
    /// Name of the transport.
    pub transport: String,
    /// Process id of the program.
    pub pid: u32,
    /// "running"; "handed-over" if another process accepts new connections; "draining" if it stops. Older
    /// programs do not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// How long the program has run.
    pub uptime_s: f64,
    /// The addresses that it listens on.
    pub listen: Vec<String>,
    /// The destination of its connections.
    pub to: String,
    /// The services of a gateway, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<ServiceStatus>,
    /// Totals since the start.
    pub totals: Totals,
    /// Counters that only a link over UDP has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp: Option<UdpCounters>,
    /// The addresses of this host from which a connect service may reach its gateway, those in use first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uplinks: Vec<Uplink>,
    /// How much of their allowances metered devices have used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metered: Vec<Metered>,
    /// The connections that a connect service has opened directly, if it may (`--fallback`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direct: Option<Direct>,
    /// The connections open now, the oldest first.
    pub connections: Vec<Connection>,
}

/// A service of a gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceStatus {
    /// Its name.
    pub name: String,
    /// The addresses that it listens on.
    pub listen: Vec<String>,
    /// The destination of its connections.
    pub to: String,
}

impl From<&ServiceHandle> for ServiceStatus {
    fn from(s: &ServiceHandle) -> Self {
        Self {
            name: s.name().to_owned(),
            listen: s.listen().iter().map(ToString::to_string).collect(),
            to: s.to().to_string(),
        }
    }
}

/// An uplink: a device's address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uplink {
    /// The device. Empty if no device has the address.
    pub device: String,
    /// The address.
    pub address: String,
    /// Whether the device can carry packets.
    pub carrier: bool,
    /// Whether a route leads to the gateway through the device.
    pub route: bool,
    /// The next hop of that route, unless the gateway is reached directly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_hop: Option<String>,
    /// "used", "backup" or "down".
    pub state: String,
    /// Why it is down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl From<&uplinks::Uplink> for Uplink {
    fn from(u: &uplinks::Uplink) -> Self {
        let (state, why) = match u.state {
            UplinkState::Used => ("used", None),
            UplinkState::Backup => ("backup", None),
            UplinkState::Down(why) => ("down", Some(why.to_string())),
        };
        Self {
            device: u.device.clone(),
            address: u.addr.to_string(),
            carrier: u.carrier,
            route: u.route,
            next_hop: u.next_hop.map(|a| a.to_string()),
            state: state.to_owned(),
            why,
        }
    }
}

/// The allowance of a metered device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metered {
    /// The device, or the pattern of several.
    pub device: String,
    /// Bytes carried in this period.
    pub used: u64,
    /// Bytes that may be carried.
    pub limit: u64,
    /// "day" or "month".
    pub period: String,
}

impl From<uplinks::Usage> for Metered {
    fn from(u: uplinks::Usage) -> Self {
        Self {
            device: u.name,
            used: u.used,
            limit: u.limit,
            period: u.period.to_string(),
        }
    }
}

/// Connections that were opened directly, since the gateway could not be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Direct {
    /// Those since the start.
    pub total: u64,
    /// Those open now.
    pub open: u64,
    /// Whether the gateway is known not to answer, so that the next connection is opened directly at once.
    pub gateway_silent: bool,
}

impl From<DirectConnections> for Direct {
    fn from(d: DirectConnections) -> Self {
        Self {
            total: d.total,
            open: d.open,
            gateway_silent: d.gateway_silent,
        }
    }
}

/// Totals since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Connections accepted from peers, or opened to them.
    pub connections: u64,
    /// Connections with MPTCP.
    pub multipath: u64,
    /// Connections that fell back to plain TCP.
    pub fallbacks: u64,
    /// Payload bytes sent, retransmissions and copies included.
    pub bytes_sent: u64,
    /// Payload bytes received in order.
    pub bytes_received: u64,
    /// Segments retransmitted by loss recovery.
    pub retransmissions: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Segments of proactive recovery sent.
    pub recoveries: u64,
    /// Segments of proactive recovery that were useful.
    pub recoveries_useful: u64,
}

impl From<&NetworkCounters> for Totals {
    fn from(c: &NetworkCounters) -> Self {
        Self {
            connections: c.accepted + c.connected,
            multipath: c.stack.multipath,
            fallbacks: c.stack.fallbacks,
            bytes_sent: c.sent.bytes,
            bytes_received: c.bytes_received,
            retransmissions: c.sent.retransmissions,
            timeouts: c.sent.timeouts,
            recoveries: c.sent.recoveries,
            recoveries_useful: c.sent.recoveries_useful,
        }
    }
}

/// A connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Connection {
    /// The connection's number, unique within the program.
    pub id: u64,
    /// The name of the gateway's service, if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// Local end of the first subflow.
    pub local: String,
    /// The peer's end of the first subflow.
    pub remote: String,
    /// The address by which the peer is known outside.
    pub outside: String,
    /// Time since the connection was opened.
    pub age_s: f64,
    /// Whether MPTCP is in use.
    pub multipath: bool,
    /// Bytes written to the connection.
    pub written: u64,
    /// Bytes acknowledged at the data level.
    pub acknowledged: u64,
    /// Bytes received in order.
    pub received: u64,
    /// The connection's subflows.
    pub subflows: Vec<Subflow>,
    /// The latest subflows that ended, at most eight, the oldest first.
    #[serde(default)]
    pub ended: Vec<EndedSubflow>,
}

impl From<&ConnectionStatus> for Connection {
    fn from(c: &ConnectionStatus) -> Self {
        Self {
            id: c.id,
            service: None,
            local: c.local.to_string(),
            remote: c.remote.to_string(),
            outside: c.outside.to_string(),
            age_s: c.age.as_secs_f64(),
            multipath: c.info.multipath,
            written: c.info.written,
            acknowledged: c.info.acknowledged,
            received: c.info.received,
            subflows: c.info.subflows.iter().map(|s| subflow(s, c.now)).collect(),
            ended: c
                .info
                .ended
                .iter()
                .map(|e| EndedSubflow::new(c, e))
                .collect(),
        }
    }
}

/// A subflow that has ended while its connection lives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndedSubflow {
    /// The identifier it had.
    pub id: u8,
    /// Local end.
    pub local: String,
    /// The peer's end.
    pub remote: String,
    /// Whether it was ever established.
    pub established: bool,
    /// Time since it ended.
    pub ago_s: f64,
    /// Why the subflow ended, by its name in the metrics, such as "peer_reset".
    pub end: String,
    /// The same in words, with the reason that the peer reported in MP_TCPRST.
    pub reason: String,
}

impl EndedSubflow {
    fn new(of: &ConnectionStatus, e: &spindle_mptcp::EndedSubflow) -> Self {
        Self {
            id: e.id.0,
            local: e.local.to_string(),
            remote: e.remote.to_string(),
            established: e.established,
            ago_s: of.now.since(e.at).as_nanos() as f64 / 1e9,
            end: e.end.name().to_owned(),
            reason: e.end.to_string(),
        }
    }
}

/// A subflow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Subflow {
    /// The subflow's identifier.
    pub id: u8,
    /// Local end.
    pub local: String,
    /// The peer's end.
    pub remote: String,
    /// TCP state.
    pub state: String,
    /// Whether it is a backup.
    pub backup: bool,
    /// Whether the subflow counts as dead. A dead subflow gets no new data, since its path does not answer
    /// while others do.
    #[serde(default)]
    pub dead: bool,
    /// Time since the last segment from the peer on this subflow.
    #[serde(default)]
    pub silent_s: f64,
    /// Smoothed round-trip time, once measured.
    pub rtt_ms: Option<f64>,
    /// Congestion window.
    pub cwnd: u64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Payload bytes sent, retransmissions and copies included.
    pub bytes_sent: u64,
    /// Payload bytes received, in the order of the subflow.
    pub bytes_received: u64,
    /// Segments that were considered lost.
    pub losses: u64,
    /// Segments retransmitted.
    pub retransmissions: u64,
    /// Segments of proactive recovery sent.
    pub recoveries: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
}

fn subflow(s: &SubflowInfo, now: Instant) -> Subflow {
    Subflow {
        id: s.id.0,
        local: s.local.to_string(),
        remote: s.remote.to_string(),
        state: format!("{:?}", s.state),
        backup: s.backup,
        dead: s.dead,
        silent_s: now.since(s.last_heard).as_nanos() as f64 / 1e9,
        rtt_ms: s.srtt.map(|t| t.as_nanos() as f64 / 1e6),
        cwnd: s.cwnd,
        in_flight: s.in_flight,
        bytes_sent: s.counters.bytes,
        bytes_received: s.bytes_received,
        losses: s.counters.losses,
        retransmissions: s.counters.retransmissions,
        recoveries: s.counters.recoveries,
        timeouts: s.counters.timeouts,
    }
}

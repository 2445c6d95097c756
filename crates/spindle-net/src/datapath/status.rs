//! The plain data that the data path exchanges with its users: listeners' options, connections, and totals.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use spindle_mptcp::{Config, ConnectionInfo, SendCounters, StackCounters};

use super::gate::Admission;
use super::turns::TurnTimes;
use crate::link::LinkCounters;
use crate::udp::UdpCounters;

/// Options of a listener.
#[derive(Clone, Debug)]
pub struct ListenOptions {
    /// Configuration of each connection. An MSS or burst that is larger than the link carries is lowered to
    /// what the link carries.
    pub config: Arc<Config>,
    /// Further addresses to announce to each peer (ADD_ADDR, RFC 8684, section 3.4.1), with a port if it
    /// differs from the listener's.
    pub announce: Vec<(IpAddr, Option<u16>)>,
    /// Established connections that may wait to be accepted; further ones are reset. At least 1.
    pub backlog: usize,
    /// The peers that are admitted. The SYNs of others are refused with a reset before anything is stored for them.
    /// `None`: all.
    pub admission: Option<Arc<dyn Admission>>,
}

impl ListenOptions {
    /// Options with this configuration for connections, no announced addresses, and a backlog of 1024.
    pub fn new(config: Arc<Config>) -> Self {
        Self {
            config,
            announce: Vec::new(),
            backlog: 1024,
            admission: None,
        }
    }
}

/// A live connection and its subflows.
#[derive(Clone, Debug)]
pub struct ConnectionStatus {
    /// The connection's number, unique within the network.
    pub id: u64,
    /// The listener that accepted the connection. `None` if it was opened here.
    pub listener: Option<SocketAddr>,
    /// Local end of the first subflow.
    pub local: SocketAddr,
    /// The peer's end of the first subflow.
    pub remote: SocketAddr,
    /// The address by which the peer is known outside the link (behind NAT over UDP).
    pub outside: SocketAddr,
    /// Time since the connection was opened.
    pub age: Duration,
    /// The time of this status, on the clock of the instants in [`Self::info`].
    pub now: spindle_units::Instant,
    /// The connection's state.
    pub info: ConnectionInfo,
}

/// Totals of a network since its start.
#[derive(Clone, Debug, Default)]
pub struct NetworkCounters {
    /// Packets and bytes that passed the link.
    pub link: LinkCounters,
    /// Counters that only a link over UDP has.
    pub udp: Option<UdpCounters>,
    /// Connections given to listeners.
    pub accepted: u64,
    /// Connections opened here and established.
    pub connected: u64,
    /// Connections reset because the listener's backlog was full.
    pub refused: u64,
    /// Connections that ended.
    pub closed: u64,
    /// Connections that exist now.
    pub live: u64,
    /// Established subflows of these connections.
    pub subflows: u64,
    /// Connections whose handshake is in progress.
    pub half_open: u64,
    /// Sending totals over all connections, ended ones included.
    pub sent: SendCounters,
    /// Bytes received in order over all connections, ended ones included.
    pub bytes_received: u64,
    /// The stack's own totals.
    pub stack: StackCounters,
    /// Learnt MTUs and received ICMP errors.
    pub path_signals: u64,
    /// Bytes in use ([`spindle_mptcp::Stack::memory`]).
    pub memory: u64,
    /// Bytes that may be in use ([`spindle_mptcp::StackConfig::max_memory`]).
    pub memory_limit: u64,
    /// How long the turns of the data path took. A turn begins when the data path wakes up, or when it goes on
    /// because work is left, and ends when it has handled what was there.
    pub turn_times: TurnTimes,
}

//! [`Limits`]: how much a gateway or connect may take of its host.

use std::time::Duration;

use spindle_mptcp::StackConfig;

use crate::datapath::pipe::MOST_ROOM;
use crate::udp::UdpServerOptions;

/// Least memory of one connection: windows of a few segments each way.
pub const LEAST_PER_CONNECTION: u64 = 64 << 10;

/// Bytes that a relay reads at least, once there is any room for them.
const READ_AT_ONCE: u64 = 16 << 10;

/// Connections over which nothing passes for this long are reset, unless another time is set: Envoy's TCP proxy has
/// the same hour, nginx's `proxy_timeout` ten minutes, HAProxy's `timeout tunnel` commonly an hour. It is longer
/// than the pauses of most protocols, and a program that needs more (SSH, database pools) sends keepalives.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(3600);
/// The same for connections of which one direction is closed. The answer to a request that ended with
/// a FIN may take minutes; Linux's connection tracking forgets such connections after one
/// (`nf_conntrack_tcp_timeout_close_wait`), HAProxy's `timeout client-fin` is commonly 30 s.
pub const HALF_CLOSE_TIMEOUT: Duration = Duration::from_secs(300);
/// How long a client may keep its window shut while there are data for it: five times nginx's `send_timeout`, as
/// long as data may stay unacknowledged (RFC 9293, section 3.8.3).
pub const PERSIST_TIMEOUT: Duration = Duration::from_secs(300);

/// Upper limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time; further ones are reset.
    pub max_connections: usize,
    /// Half-open connections at a time; further SYNs are answered with cookies.
    pub max_half_open: usize,
    /// Bytes that one connection may hold, both directions together; at least
    /// [`LEAST_PER_CONNECTION`]. Buffers begin small and grow up to this.
    pub memory_per_connection: u64,
    /// Bytes that the connections may take of the process: what is stored for them in the stack, the queues
    /// of the relay, a quarter of both for what the allocator holds beside them, and a fixed cost for each
    /// connection, subflow and encapsulation id. When they run short, windows stay shut and connections that hold data
    /// without progress are reset; beyond them new ones are.
    pub max_memory: u64,
    /// How long a peer may keep its window shut while there are data for it; without a limit if none.
    pub persist_timeout: Option<Duration>,
    /// Per cent of the connections, half-open ones and memory that one source may take once half of the limit
    /// is in use ([`StackConfig::source_share`]).
    pub source_share: u8,
}

impl Default for Limits {
    /// 10 000 connections, 4096 half-open ones, 40 MB each (two paths of 300 Mbit/s with 50 ms and
    /// deep queues hold 15 MB in one direction), 1 GiB in all.
    fn default() -> Self {
        Self {
            max_connections: 10_000,
            max_half_open: 4096,
            memory_per_connection: 40_000_000,
            max_memory: 1 << 30,
            persist_timeout: Some(PERSIST_TIMEOUT),
            source_share: StackConfig::default().source_share,
        }
    }
}

impl Limits {
    /// Bytes of each of a connection's two buffers in the stack. Besides these there are the queues between the data path
    /// and the relay, of up to a quarter of a buffer each, as much again that the relay is writing to the
    /// system, and what it reads at once.
    pub fn buffer(&self) -> usize {
        let memory = self.memory_per_connection.max(LEAST_PER_CONNECTION);
        let rest = memory - READ_AT_ONCE;
        // Two buffers and three quarters of one: 2.75 parts. Queues do not grow without end.
        let small = rest / 11 * 4;
        let large = rest.saturating_sub(3 * MOST_ROOM as u64) / 2;
        let buffer = small.max(large).min(memory / 5 * 2);
        usize::try_from(buffer).unwrap_or(usize::MAX)
    }

    /// The stack's share of the limits, with the local addresses that its path manager may use
    /// beyond the first.
    pub fn stack(&self, addresses: Vec<std::net::IpAddr>) -> StackConfig {
        StackConfig {
            max_connections: self.max_connections,
            max_half_open: self.max_half_open,
            max_memory: self.max_memory,
            source_share: self.source_share,
            addresses,
            ..StackConfig::default()
        }
    }

    /// The link of a server over UDP with these limits. Ids without a proven address are as many as the stack may
    /// have handshakes in progress, of one source and in all: the stack's limits are met first, and no half-open
    /// connection loses its id to another.
    pub fn udp_server(&self, bind: Vec<std::net::SocketAddr>) -> UdpServerOptions {
        let joins = StackConfig::default().max_half_open_joins;
        // A source has half of a limit as long as nobody else wants it.
        let share = usize::from(self.source_share.max(50));
        let mut options = UdpServerOptions::new(bind);
        options.max_half_open = self.max_half_open + joins;
        options.max_half_open_per_source = self.max_half_open / 100 * share + share + joins;
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datapath::pipe::Room;
    use crate::service::{LinkKind, wire_config};
    use spindle_mptcp::{PathManager, preset};

    #[test]
    fn buffers_and_queues_stay_within_the_memory_of_a_connection() {
        for memory in [0, 64 << 10, 200_000, 1_000_000, 5_000_000, 40_000_000] {
            let limits = Limits {
                memory_per_connection: memory,
                ..Limits::default()
            };
            let base = preset("fuso").expect("a preset").config;
            let config = wire_config(base, LinkKind::Udp, &limits, PathManager::Passive);
            let (inbound, outbound) = Room::of(&config).most();
            let queues = (2 * inbound + outbound) as u64 + READ_AT_ONCE;
            let buffer = limits.buffer() as u64;
            let most = memory.max(LEAST_PER_CONNECTION);
            assert!(2 * buffer + queues <= most, "{memory}");
            assert!(buffer >= 16 << 10);
            assert!(inbound >= 4 << 10 && outbound >= 4 << 10);
        }
        assert_eq!(Limits::default().buffer(), 16_000_000);
    }
}

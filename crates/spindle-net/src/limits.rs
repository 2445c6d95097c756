//! [`Limits`]: how much of its host's resources a gateway or connect service may use.

use std::time::Duration;

use spindle_mptcp::StackConfig;

use crate::datapath::pipe::MOST_ROOM;
use crate::udp::UdpServerOptions;

/// Least memory of one connection: enough for windows of a few segments in each direction.
pub const LEAST_PER_CONNECTION: u64 = 64 << 10;

/// Least number of bytes that a relay reads at once, as soon as there is any room for them.
const READ_AT_ONCE: u64 = 16 << 10;

/// Connections over which no bytes pass for this long are reset, unless another time is set. Envoy's TCP proxy
/// also uses an hour, nginx's `proxy_timeout` is ten minutes, and HAProxy's `timeout tunnel` is commonly an
/// hour. It is longer than the pauses of most protocols. A program that needs longer pauses (SSH, database
/// pools) sends keepalives.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(3600);
/// Like [`IDLE_TIMEOUT`], for connections of which one direction is closed. The answer to a request that ended
/// with a FIN may take minutes. Linux's connection tracking forgets such connections after one minute
/// (`nf_conntrack_tcp_timeout_close_wait`), and HAProxy's `timeout client-fin` is commonly 30 s.
pub const HALF_CLOSE_TIMEOUT: Duration = Duration::from_secs(300);
/// How long a client may keep its window shut while data wait for it. This is five times nginx's
/// `send_timeout`, and as long as data may stay unacknowledged (RFC 9293, section 3.8.3).
pub const PERSIST_TIMEOUT: Duration = Duration::from_secs(300);

/// Paths to clients whose congestion windows are remembered: some 400 KB at most. It is the number of half-open
/// connections by default.
const REMEMBERED_PATHS: usize = 4096;

/// Upper limits of a gateway or connect service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time; further ones are reset.
    pub max_connections: usize,
    /// Half-open connections at a time; further SYNs are answered with cookies.
    pub max_half_open: usize,
    /// Bytes that one connection may hold, both directions together; at least
    /// [`LEAST_PER_CONNECTION`]. Buffers begin small and grow up to this.
    pub memory_per_connection: u64,
    /// Bytes that connections may use in this process. Counted are the data stored for them in the stack, the
    /// queues of the relay, a quarter of both for the allocator's overhead, and a fixed cost for each
    /// connection, subflow and encapsulation id. When memory runs short, windows stay shut, and connections
    /// that hold data without progress are reset. At the limit, new connections are reset.
    pub max_memory: u64,
    /// How long a peer may keep its window shut while data wait for it. `None` disables the limit.
    pub persist_timeout: Option<Duration>,
    /// Per cent of the connections, half-open connections and memory that one source may use once half of the
    /// limit is in use ([`StackConfig::source_share`]).
    pub source_share: u8,
}

impl Default for Limits {
    /// 10 000 connections, 4096 half-open connections, 40 MB for each connection and 1 GiB in all. Two paths of
    /// 300 Mbit/s with 50 ms and deep queues hold 15 MB in one direction.
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
    /// Size of each of a connection's two buffers in the stack. The rest of the connection's memory is needed
    /// for the two queues between the data path and the relay (up to a quarter of a buffer each), for as much
    /// again that the relay is writing to the system, and for the bytes that it reads at once.
    pub fn buffer(&self) -> usize {
        let memory = self.memory_per_connection.max(LEAST_PER_CONNECTION);
        let rest = memory - READ_AT_ONCE;
        // Two buffers and three quarters of a buffer make 2.75 parts. Queues are bounded by `MOST_ROOM`.
        let small = rest / 11 * 4;
        let large = rest.saturating_sub(3 * MOST_ROOM as u64) / 2;
        let buffer = small.max(large).min(memory / 5 * 2);
        usize::try_from(buffer).unwrap_or(usize::MAX)
    }

    /// The stack's part of the limits, with the local addresses that its path manager may use in addition to
    /// the first.
    pub fn stack(&self, addresses: Vec<std::net::IpAddr>) -> StackConfig {
        StackConfig {
            max_connections: self.max_connections,
            max_half_open: self.max_half_open,
            max_memory: self.max_memory,
            source_share: self.source_share,
            addresses,
            remembered_paths: REMEMBERED_PATHS,
            ..StackConfig::default()
        }
    }

    /// Options for the link of a UDP server with these limits. There may be as many ids without a proven
    /// address as the stack may have handshakes in progress, for each source and in all. The stack therefore
    /// reaches its limits first, and no half-open connection loses its id to another.
    pub fn udp_server(&self, bind: Vec<std::net::SocketAddr>) -> UdpServerOptions {
        let joins = StackConfig::default().max_half_open_joins;
        // A source may use half of a limit as long as no other source needs it.
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
    use crate::wire_config::{LinkKind, wire_config};
    use spindle_mptcp::path_manager::Passive;
    use spindle_mptcp::preset;
    use std::sync::Arc;

    #[test]
    fn buffers_and_queues_stay_within_the_memory_of_a_connection() {
        for memory in [0, 64 << 10, 200_000, 1_000_000, 5_000_000, 40_000_000] {
            let limits = Limits {
                memory_per_connection: memory,
                ..Limits::default()
            };
            let base = preset("fuso").expect("a preset").config;
            let config = wire_config(base, LinkKind::Udp, &limits, Arc::new(Passive));
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

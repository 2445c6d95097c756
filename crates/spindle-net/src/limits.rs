//! [`Limits`]: how much a gateway or connect may take of its host.

use spindle_mptcp::StackConfig;

/// Least memory of one connection: windows of a few segments each way.
pub const LEAST_PER_CONNECTION: u64 = 64 << 10;

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
    /// Bytes that all connections may hold; beyond them new ones are reset and windows stay shut.
    pub max_memory: u64,
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
        }
    }
}

impl Limits {
    /// Bytes of each of a connection's two buffers in the stack. The queues between the data path
    /// and the relay take up to a quarter of each beside them.
    pub fn buffer(&self) -> usize {
        let memory = self.memory_per_connection.max(LEAST_PER_CONNECTION);
        // Two buffers and a quarter of each: 2.5 parts.
        usize::try_from(memory / 5 * 2).unwrap_or(usize::MAX)
    }

    /// The stack's share of the limits, with the local addresses that its path manager may use
    /// beyond the first.
    pub fn stack(&self, addresses: Vec<std::net::IpAddr>) -> StackConfig {
        StackConfig {
            max_connections: self.max_connections,
            max_half_open: self.max_half_open,
            max_buffered: self.max_memory,
            addresses,
            ..StackConfig::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_and_queues_stay_within_the_memory_of_a_connection() {
        for memory in [0, 64 << 10, 1_000_000, 40_000_000] {
            let limits = Limits {
                memory_per_connection: memory,
                ..Limits::default()
            };
            let buffer = limits.buffer() as u64;
            assert!(buffer * 5 / 2 <= memory.max(LEAST_PER_CONNECTION));
            assert!(buffer >= 16 << 10);
        }
    }
}

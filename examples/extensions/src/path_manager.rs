//! A custom path manager: several subflows from each local address.

use std::net::IpAddr;

use spindle_mptcp::path_manager::{PathManager, PathView};
use spindle_wire::Endpoint;

/// Opens this many subflows from each local address to the peer's first endpoint.
#[derive(Clone, Copy, Debug)]
pub struct PerAddress {
    /// The number of subflows from each address.
    pub subflows: usize,
}

impl Default for PerAddress {
    fn default() -> Self {
        Self { subflows: 2 }
    }
}

impl PathManager for PerAddress {
    fn name(&self) -> &str {
        "per-address"
    }

    fn summary(&self) -> &str {
        "two subflows from each local address to the peer's first address"
    }

    fn planned_subflows(&self) -> usize {
        self.subflows
    }

    fn uses_local_addresses(&self) -> bool {
        true
    }

    fn next(&self, paths: &dyn PathView) -> Option<(IpAddr, Endpoint)> {
        if !paths.accepts_at_first() {
            return None;
        }
        let (_, remote) = paths.first();
        let lacks = |local: &IpAddr| {
            let opened = paths.opened().iter().filter(|o| **o == (*local, remote));
            local.is_ipv4() == remote.addr.is_ipv4() && opened.count() < self.subflows
        };
        let local = paths.local_addresses().find(lacks)?;
        Some((local, remote))
    }
}

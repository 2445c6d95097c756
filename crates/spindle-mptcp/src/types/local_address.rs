//! [`LocalAddress`]: an address of this host.

use std::net::IpAddr;

/// An address of this host from which path managers may open subflows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalAddress {
    /// The address.
    pub addr: IpAddr,
    /// Both ends use its subflows only when no other subflow is left (RFC 8684, section 3.3.8), in addition to those
    /// that a configuration names ([`MultipathConfig::backup_addresses`](crate::config::MultipathConfig)).
    pub backup: bool,
}

impl From<IpAddr> for LocalAddress {
    fn from(addr: IpAddr) -> Self {
        Self {
            addr,
            backup: false,
        }
    }
}

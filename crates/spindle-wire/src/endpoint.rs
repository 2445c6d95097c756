//! Addresses with ports, and the ECN field of the IP header.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// One end of a TCP subflow: an IPv4 or IPv6 address and a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// The address.
    pub addr: IpAddr,
    /// The port.
    pub port: u16,
}

impl Endpoint {
    /// The endpoint with this address and port.
    pub const fn new(addr: IpAddr, port: u16) -> Self {
        Self { addr, port }
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(a: SocketAddr) -> Self {
        Self::new(a.ip(), a.port())
    }
}

impl From<Endpoint> for SocketAddr {
    fn from(e: Endpoint) -> Self {
        Self::new(e.addr, e.port)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        SocketAddr::from(*self).fmt(f)
    }
}

/// The ECN field of the IP header (RFC 3168, section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// Not ECN-capable (00).
    #[default]
    NotEct,
    /// ECN-capable, ECT(1) (01).
    Ect1,
    /// ECN-capable, ECT(0) (10).
    Ect0,
    /// Congestion experienced (11).
    Ce,
}

impl Ecn {
    /// The two bits of the field, in the lowest bits.
    pub const fn bits(self) -> u8 {
        match self {
            Self::NotEct => 0b00,
            Self::Ect1 => 0b01,
            Self::Ect0 => 0b10,
            Self::Ce => 0b11,
        }
    }

    /// The field whose bits are the lowest two of `bits`.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 0b11 {
            0b00 => Self::NotEct,
            0b01 => Self::Ect1,
            0b10 => Self::Ect0,
            _ => Self::Ce,
        }
    }
}

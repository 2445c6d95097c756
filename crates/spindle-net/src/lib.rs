//! Spindle on a real network.
//!
//! A [`Link`] carries segments to and from a wire of some kind: a TUN device ([`tun`]), the
//! process's own memory ([`memory`]). The data path drives the sans-IO core over one of them on a
//! thread of its own, and async sockets talk to that thread: [`Network`] listens and connects,
//! [`TcpStream`] is read and written as any stream of tokio's.

pub mod connect;
mod datapath;
mod error;
pub mod gateway;
mod handshake;
pub mod limits;
mod link;
pub mod memory;
pub mod metrics;
mod observers;
pub mod proxy_protocol;
mod randomness;
pub mod relay;
pub mod service;
pub mod setup;
mod socket;
pub mod socks;
pub mod status;
pub mod tls;
pub mod tun;
pub mod udp;

pub use error::NetError;
pub use link::{Arrival, FIRST_KEY, IcmpError, IcmpReport, Link, LinkCounters, PathMtu};
pub use socket::{
    ConnectionHandle, ConnectionStatus, ListenOptions, Network, NetworkConfig, NetworkCounters,
    OwnedReadHalf, OwnedWriteHalf, TcpListener, TcpStream, TurnTimes,
};

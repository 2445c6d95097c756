//! Spindle on a real network: links, a data path, async sockets, and the services that use them.
//!
//! The protocol core, `spindle-mptcp`, has neither a clock nor I/O. This crate runs it on Linux, in four
//! layers:
//!
//! - A [`Link`] carries segments to and from a wire: a TUN device ([`tun`]), UDP datagrams ([`udp`]), or queues
//!   in memory ([`memory`]).
//! - The data path is one thread that owns a stack of the core and a link. It sleeps in one poller until a
//!   packet, a timer or a command arrives. [`Network::start`] starts it.
//! - Async sockets talk to that thread. A [`Network`] listens ([`TcpListener`]) and connects, and a
//!   [`TcpStream`] is read and written like a stream of tokio.
//! - [`gateway`] and [`connect`] are services on these sockets. Both relay connections between Spindle and the
//!   kernel's TCP ([`relay`]).
//!
//! ```
//! use std::net::SocketAddr;
//! use std::sync::Arc;
//!
//! use spindle_mptcp::{DEFAULT_TRANSPORT, preset};
//! use spindle_net::{ListenOptions, Network, NetworkConfig, memory};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (near, far) = memory::pair(1024);
//! let client = Network::start(NetworkConfig::default(), Box::new(near))?;
//! let server = Network::start(NetworkConfig::default(), Box::new(far))?;
//! let config = Arc::new(preset(DEFAULT_TRANSPORT).ok_or("no such preset")?.config);
//! let at: SocketAddr = "10.0.0.2:80".parse()?;
//! let mut listener = server.listen(at, ListenOptions::new(config.clone())).await?;
//! let mut stream = client.connect("10.0.0.1".parse()?, at, config).await?;
//! let (mut accepted, _) = listener.accept().await?;
//! stream.write_all(b"hello").await?;
//! stream.shutdown().await?;
//! let mut text = String::new();
//! accepted.read_to_string(&mut text).await?;
//! assert_eq!(text, "hello");
//! # Ok(())
//! # }
//! ```
//!
//! # Modules, in the order in which to read them
//!
//! 1. `link.rs` has the trait [`Link`], the interface between the data path and a wire. [`memory`] is its
//!    smallest implementation.
//! 2. `datapath/` is the thread. `mod.rs` has its loop, `pipe.rs` the state that a socket shares with it,
//!    `queue.rs` the commands, and `connections.rs` what it does with them.
//! 3. `socket/` has the sockets, and `error.rs` their error, [`NetError`].
//! 4. [`tun`] and [`udp`] are the links to real wires. `docs/wire/encapsulation.md` describes segments in UDP.
//! 5. [`relay`] joins a connection of Spindle to one of the kernel. [`gateway`] and [`connect`] use it, and
//!    also [`tls`], [`socks`] and [`proxy_protocol`].
//! 6. [`service`] has the parts that both services share: the configuration of their connections
//!    ([`service::wire_config`]), draining, signals, and the reports to a service manager. [`limits`] bounds
//!    how many of the host's resources they use.
//! 7. [`setup`] creates the TUN device with its routes and rules, and undoes this.
//! 8. [`metrics`] and [`status`] report what the data path does. They only read.

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
    ConnectionHandle, ConnectionStatus, ListenOptions, Message, Network, NetworkConfig,
    NetworkCounters, OwnedReadHalf, OwnedWriteHalf, TcpListener, TcpStream, TurnTimes,
};

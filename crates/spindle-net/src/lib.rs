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
//! A program that only needs connections over UDP between two hosts uses [`TcpListener::bind`] at one of them and
//! [`TcpStream::connect`], or a [`Client`] with several local addresses, at the other:
//!
//! ```
//! use spindle_net::{TcpListener, TcpStream};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut listener = TcpListener::bind("127.0.0.1:0").await?;
//! let mut stream = TcpStream::connect(listener.local_addr()).await?;
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
//! # Features
//!
//! - `services` (default): `gateway` and `connect` with their set-up, metrics and status. It includes the other two.
//! - `tun`: the link over a TUN device.
//! - `tls`: TLS between the two ends.
//!
//! Without default features, the sockets, UDP and the memory link remain, with neither TLS nor metrics.
//!
//! # Modules, in the order in which to read them
//!
//! 1. `link.rs` has the trait [`Link`], the interface between the data path and a wire. [`memory`] is its
//!    smallest implementation.
//! 2. `datapath/` is the thread. `mod.rs` has its loop, `pipe.rs` the state that a socket shares with it,
//!    `queue.rs` the commands, and `connections.rs` what it does with them. `gate.rs` refuses peers that a listener does
//!    not admit.
//! 3. `socket/` has the sockets, and `error.rs` their error, [`NetError`]. `client.rs` and `dial.rs` open
//!    connections over UDP without further set-up.
//! 4. [`tun`] and [`udp`] are the links to real wires. `docs/wire/encapsulation.md` describes segments in UDP.
//! 5. [`relay`] joins a connection of Spindle to one of the kernel. [`gateway`] and [`connect`] use it, and
//!    also [`tls`], [`socks`], [`proxy`] with [`users`], [`redirect`], [`forward`] and [`proxy_protocol`].
//! 6. [`service`] has the parts that both services share: the configuration of their connections
//!    ([`wire_config`]), draining, signals, and the reports to a service manager. [`limits`] bounds
//!    how many of the host's resources they use, and [`networks`] which clients a gateway admits.
//! 7. [`setup`] creates the TUN device with its routes and rules, and undoes this. It also has the rules that redirect
//!    programs, and the network of a single program, whose sockets are passed as [`descriptors`].
//! 8. [`uplinks`] follows the addresses of a client's host while they come and go.
//! 9. [`handover`] has the steps in which a link's wire goes to another process, and [`takeover`] how two gateways do them.
//! 10. [`metrics`] and [`status`] report what the data path does. They only read.

#[cfg(feature = "services")]
pub mod backends;
mod client;
#[cfg(feature = "services")]
pub mod connect;
mod datapath;
#[cfg(feature = "services")]
pub mod descriptors;
mod dial;
mod error;
#[cfg(feature = "services")]
pub mod fallback;
mod file_limit;
#[cfg(feature = "services")]
pub mod forward;
#[cfg(feature = "services")]
pub mod gateway;
pub mod handover;
#[cfg(feature = "services")]
mod handshake;
pub mod limits;
mod link;
pub mod memory;
#[cfg(feature = "services")]
pub mod metrics;
#[cfg(feature = "uplinks")]
mod netlink;
#[cfg(feature = "services")]
pub mod networks;
#[cfg(feature = "services")]
mod observers;
#[cfg(feature = "services")]
mod pool;
#[cfg(feature = "services")]
pub mod proxy;
#[cfg(feature = "services")]
pub mod proxy_protocol;
mod randomness;
#[cfg(feature = "services")]
pub mod redirect;
#[cfg(feature = "services")]
pub mod relay;
#[cfg(feature = "services")]
pub mod service;
#[cfg(feature = "services")]
pub mod setup;
mod socket;
#[cfg(feature = "services")]
pub mod socks;
#[cfg(feature = "services")]
pub mod sources;
#[cfg(feature = "services")]
pub mod status;
#[cfg(feature = "services")]
pub mod takeover;
pub mod tap;
mod target;
#[cfg(feature = "tls")]
pub mod tls;
#[cfg(feature = "services")]
mod trial;
#[cfg(feature = "tun")]
pub mod tun;
pub mod udp;
#[cfg(feature = "uplinks")]
pub mod uplinks;
#[cfg(feature = "services")]
pub mod users;
mod wire_config;

pub use client::{Client, ClientBuilder};
pub use dial::Sources;
pub use error::NetError;
pub use file_limit::raise_file_limit;
pub use link::{
    Arrival, FIRST_KEY, Handover, IcmpError, IcmpReport, Link, LinkCounters, LocalPath, PacketSink,
    PathMtu,
};
pub use randomness::random_bytes;
pub use socket::{
    Admission, ConnectionHandle, ConnectionStatus, ListenOptions, Message, Network, NetworkConfig,
    NetworkCounters, OwnedReadHalf, OwnedWriteHalf, TcpListener, TcpStream, TurnTimes,
};
pub use target::{Target, TargetError, Targets};
pub use wire_config::{LinkKind, NEXT_PATH_AFTER, TIMING_PRECISION, keepalive_after, wire_config};

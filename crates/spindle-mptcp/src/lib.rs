//! TCP (RFC 9293) and Multipath TCP (RFC 8684) without I/O, with proactive loss recovery over several paths.
//!
//! A [`Stack`] is the transport layer of one host: listeners, connections, and the subflows of each connection.
//! Plain TCP is a connection with one subflow. A [`Config`] determines everything about a connection. The
//! schemes of the papers (FUSO, CoFUSO, MMPTCP, CAPS and others) are configurations, which [`preset`] returns
//! by name. A custom recovery scheme implements [`recovery::Recovery`].
//!
//! # How to drive a stack
//!
//! The crate is sans-IO: it has no clock, no sockets and no threads. The caller passes the current time.
//!
//! - **Packets in.** [`Stack::receive`] processes one [`spindle_wire::Packet`] from the wire: a TCP segment, or a
//!   packet of the coding layer.
//! - **Packets out.** After every call that may cause a transmission, [`Stack::transmit`] must be called until it
//!   returns `None`. The caller sends each packet that it returns.
//! - **Timers.** [`Stack::next_timeout`] then returns when [`Stack::timeout`] must be called.
//! - **Application.** [`Stack::listen`] and [`Stack::connect`] open connections. [`Stack::send`],
//!   [`Stack::recv`] and [`Stack::close`] use them by their [`Handle`]. [`Stack::poll_event`] returns what
//!   happened to them as [`Event`]s.
//!
//! Payload is real bytes or only a length ([`spindle_wire::Payload`]). Both behave alike, segment for segment.
//! [`Stack::new`] needs a random, secret seed. [`Stack::deterministic`] is for simulations and tests.
//!
//! # Modules
//!
//! Read them in this order, from the outside inwards:
//!
//! - `config`, `tcp_config`, `presets`: the choices ([`Config`], [`TcpConfig`]), and the named configurations
//!   ([`PRESETS`], [`variants`]).
//! - `host`: demultiplexing, listeners, ports, timers and memory over all connections ([`Stack`]).
//! - `connection`: the data level, that is handshakes, path manager, reassembly, reinjection and fallback.
//!   `transmit.rs` shows the order in which a connection uses an opportunity to send.
//! - `subflow`: one TCP with its loss detection. Begin with `input.rs`.
//! - [`recovery`]: the interface for recovery policies, and the policies.
//! - [`stage`]: the interface for layers between a subflow and the wire, with packet scatter and coding.
//! - [`path_manager`]: which subflows a client opens. [`scheduler`]: which subflow gets new data. [`congestion`]: the congestion controllers.
//! - [`entropy`]: which flow label a segment gets, from which switches choose its path.
//! - [`keys`], `secrets`: keys, tokens and HMACs of RFC 8684, and secret random numbers.
//! - `types`, `steps`, `ranges`, `random`: what modules of several layers share.
//!
//! # Layers
//!
//! A module may only use modules below it. From the top down, the order is `presets`, `host`, `connection`,
//! `subflow`, `config`, `recovery`, `stage`, `tcp_config`, `entropy`, `path_manager`, `scheduler`, `congestion`, `secrets`, `keys`,
//! `types`, `steps`, `ranges`, `random`. `.ci/check-layers` checks it.

mod config;
pub mod congestion;
mod connection;
pub mod entropy;
mod host;
pub mod keys;
pub mod path_manager;
mod presets;
mod random;
mod ranges;
pub mod recovery;
pub mod scheduler;
mod secrets;
pub mod stage;
mod steps;
mod subflow;
mod tcp_config;
mod types;

pub use config::{AnnouncedAddresses, Config, JoinPolicy, MultipathConfig};
pub use connection::ended::{EndedSubflow, SubflowEnd, SubflowEnds};
pub use connection::info::{ConnectionInfo, DataCounters, SubflowInfo};
pub use connection::path_totals::{PathCounters, PathTotals};
pub use connection::trace::{Coded, TraceEvent, TraceKind};
pub use connection::{CloseReason, PathError, Role};
pub use host::{
    Event, Expected, Handle, ListenerId, LossShare, PathHistory, RepairTimes, Stack, StackConfig,
    StackCounters, StackError, network_of,
};
pub use presets::{
    DEFAULT_TRANSPORT, PRESETS, Preset, PresetName, Variant, for_unmodified_receivers, preset,
    preset_names, variant, variants,
};
pub use subflow::TcpState;
pub use subflow::sender::{LastWindow, SendCounters, SendKind};
pub use tcp_config::{
    BackOff, DataRto, EcnMode, IdleRestart, InitialWindow, Keepalive, LossConfig, ReductionBase,
    RtoFloor, SlowStart, TailLossProbe, TcpConfig, WindowLimits,
};
pub use types::{AssumedLoss, DataOffset, LocalAddress, SubflowId, SubflowPosition};

//! A packet-level discrete-event network: links, queues, loss, switches and topologies, generic over what it
//! carries.
//!
//! A [`Network`] is a graph of hosts and switches joined by cables. Each cable is a pair of directed links. A
//! network is built by a [`topology`] or a [`Builder`]. A [`Simulation`] moves packets over it in virtual time.
//! The engine knows only the interfaces of hosts. Its caller injects packets ([`Simulation::inject`]), sets
//! timers ([`Simulation::schedule`]) and takes the events one after the other ([`Simulation::next_event`]). It
//! can carry any type that implements [`Packet`].
//!
//! # What a link does
//! A packet offered to a link is dropped if the link is down or its port's buffer is full. Otherwise the packet
//! waits in the queue, is sent at the link's rate and travels for the link's delay. It may then be lost by the
//! link's [`Loss`] process. Switches take no time. Events at the same instant happen in the order in which they
//! were scheduled.
//!
//! # Determinism
//! The same network, seed and calls give the same events. Each link's loss process and each switch's balancer
//! draw from their own stream, which is derived from the seed and the number of the link or switch.
//!
//! ```
//! use spindle_fabric::topology::FatTree;
//! use spindle_fabric::{Address, Class, Event, Packet, Simulation};
//!
//! struct Ping(u64);
//! impl Packet for Ping {
//!     fn wire_len(&self) -> u32 { 1500 }
//!     fn flow_hash(&self) -> u64 { self.0 }
//!     fn flow_key(&self) -> u64 { self.0 }
//!     fn class(&self) -> Class { Class::Low }
//!     fn is_data(&self) -> bool { true }
//!     fn ecn_capable(&self) -> bool { false }
//!     fn mark_ce(&mut self) {}
//! }
//!
//! let network = FatTree::reference(4).build()?;
//! let mut simulation = Simulation::new(network, 1);
//! simulation.inject(Address(0), Address(8), Ping(7));
//! let (at, event) = simulation.next_event().unwrap();
//! assert_eq!(at.as_nanos(), 6 * (1_200 + 1_000)); // six links of 10 Gb/s and 1 us
//! assert!(matches!(event, Event::Arrive { address: Address(8), .. }));
//! # Ok::<(), spindle_fabric::NetworkError>(())
//! ```
//!
//! # Modules
//! All modules except [`topology`] are private; the crate root exports their items. Read them in this order:
//!
//! - `packet`, `link`, `loss`: what is carried ([`Packet`]), the parameters of a link ([`LinkSpec`],
//!   [`Buffer`]) and what it loses ([`Loss`]).
//! - `network`: the graph, its names and its routes ([`Network`], [`Builder`]).
//! - [`topology`]: ready-made networks.
//! - `port`: the FIFO queue of a link, and the store of the packets in it.
//! - `queue`: queue disciplines of ports that are served packet by packet ([`QueueDiscipline`]).
//! - `trace`: links whose rate and delay change over time ([`LinkTrace`]).
//! - `simulation`: the engine ([`Simulation`], [`Event`]). `hop.rs` is the hot path, `prefetch.rs` the
//!   prefetching, `served.rs` the ports that are served packet by packet, `watch.rs` the measurement of queueing and paths ([`Watched`]).
//! - `balance`: how switches choose among next hops ([`Balancing`], [`Balancer`]).
//! - `event`: the timing wheel and the heap that checks it ([`EventQueue`], [`Wheel`], [`HeapQueue`]).
//! - `random`: random streams and hashing ([`stream`], [`mix`]).
//! - `error`: [`NetworkError`].
//!
//! # Conventions
//! - **Units.** Times, sizes, rates and probabilities are types of `spindle_units`. Lengths are bytes on the
//!   wire with all headers. Inside the engine times are plain nanoseconds.
//! - **Numbers.** [`HostId`], [`NodeId`], [`CableId`] and [`LinkId`] count from 0 in the order of creation.
//!   Cable `c` has the links `2 c` (up) and `2 c + 1` (down). An [`Address`] is a host's interface; addresses
//!   count host by host.
//! - **Errors.** Building or changing a network returns a [`NetworkError`], which states what would be right.
//!   A running simulation has no errors: lost packets are counted in [`LinkStats`] by [`DropCause`].
//! - **Panics.** Functions that take an id or an address panic if it does not belong to the network.

pub mod balance;
mod error;
mod event;
mod late;
mod link;
mod loss;
mod network;
mod packet;
mod port;
mod queue;
mod random;
mod simulation;
pub mod topology;
mod trace;

pub use balance::{
    Balancer, BalancerMaker, Balancing, Caps, CapsSettings, Classes, Conga, CongaSettings,
    CoordinatedMaker, Drill, DrillSettings, Ecmp, FORGET_AFTER, Flowlet, FlowletSettings, Freeway,
    FreewaySettings, Hop, MOST_FLOWS, Ports, Presto, PrestoSettings, RandomSpray, SwitchInfo,
};
pub use error::NetworkError;
pub use event::{EventQueue, HeapQueue, Wheel};
pub use late::{Jitter, JitterDistribution, LocalRetransmission, Reorder};
pub use link::{Buffer, DropCause, Drops, LinkSpec, LinkStats};
pub use loss::{GilbertTime, Loss, LossProcess};
pub use network::{
    Address, Builder, Cable, CableId, Direction, HostId, Link, LinkId, Network, Node, NodeId,
    NodeKind,
};
pub use packet::{Class, Packet};
pub use queue::{
    CoDel, CoDelSettings, DropTail, FqCoDel, FqCoDelSettings, Priorities, QueueDiscipline,
    QueueInfo, QueueMaker, QueuePort, QueuedPacket, Queueing, TwoThresholds, TwoThresholdsSettings,
};
pub use random::{Purpose, mix, reduce, stream};
pub use simulation::{
    Dropped, Event, Pending, Simulation, WatchConfig, Watched, WatchedClass, WatchedLeaf,
};
pub use trace::{
    LeoLike, LeoSettings, LinkTrace, LteLike, LteSettings, Steps, Trace, TraceInfo, TraceStep,
    TraceSteps,
};

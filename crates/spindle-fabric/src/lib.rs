//! A packet-level discrete-event network: links, queues, loss, switches and topologies, generic
//! over what it carries.
//!
//! A [`Network`] is a graph of hosts and switches joined by cables, each a pair of directed links;
//! it comes from a [`topology`] or a [`Builder`]. A [`Simulation`] moves packets over it in virtual
//! time. The engine knows nothing of hosts but their interfaces: whoever drives it injects packets
//! ([`Simulation::inject`]), sets timers ([`Simulation::schedule`]) and takes one event after the
//! other ([`Simulation::next_event`]). Anything that implements [`Packet`] can be carried.
//!
//! # What a link does
//! A packet offered to a link is dropped if the link is down or its port buffer is full; else it
//! waits for its turn, is sent at the link's rate, travels for the link's delay, and may then be
//! lost by the link's [`Loss`] process. Switches take no time. Of events at the same instant the
//! one that was scheduled first happens first.
//!
//! # Determinism
//! The same network, seed and calls give the same events. Each link's loss process and each
//! switch's balancer draw from their own stream, derived from the seed and the number of the link
//! or switch.
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

mod balance;
mod error;
mod event;
mod link;
mod loss;
mod network;
mod packet;
mod random;
mod simulation;
pub mod topology;

pub use balance::{
    Balancer, BalancerMaker, Balancing, Caps, CapsSettings, Classes, Ecmp, FORGET_AFTER, Flowlet,
    FlowletSettings, Freeway, FreewaySettings, Hop, MOST_FLOWS, Ports, Presto, PrestoSettings,
    RandomSpray, SwitchInfo,
};
pub use error::NetworkError;
pub use event::{EventQueue, HeapQueue, Wheel};
pub use link::{Buffer, DropCause, Drops, LinkSpec, LinkStats};
pub use loss::{Loss, LossProcess};
pub use network::{
    Address, Builder, Cable, CableId, Direction, HostId, Link, LinkId, Network, Node, NodeId,
    NodeKind,
};
pub use packet::{Class, Packet};
pub use random::{Purpose, mix, reduce, stream};
pub use simulation::{
    Dropped, Event, Pending, Simulation, WatchConfig, Watched, WatchedClass, WatchedLeaf,
};

//! [`Packet`]: what the network must know about the packets that it carries.

use spindle_units::prefetch;

/// The priority of a packet at ports that have two strict priorities. Balancers may also use it as a hint about
/// the packet's flow: short flows are high, long flows are low.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Class {
    /// Served first.
    High,
    /// Served when no packet of high priority is waiting.
    #[default]
    Low,
}

/// Anything that the network can carry.
///
/// All methods except [`prefetch`](Packet::prefetch), [`flow_key`](Packet::flow_key),
/// [`is_important`](Packet::is_important) and [`mark_ce`](Packet::mark_ce) are called at most once, when the packet is injected, and their results are stored next to the packet.
/// [`flow_key`](Packet::flow_key) may be called at every hop and must always return the same value.
pub trait Packet {
    /// Prefetches the packet in a slot of the store, if there is one, because it will be handed out soon.
    /// Results do not depend on it. A packet type that contains a pointer should prefetch the target.
    #[inline]
    fn prefetch(place: &Option<Self>)
    where
        Self: Sized,
    {
        prefetch(place);
    }

    /// Length on the wire in bytes, including all headers.
    fn wire_len(&self) -> u32;

    /// A hash of the 5-tuple, which ECMP uses. It need not be well mixed, because each switch mixes it with its
    /// own salt.
    fn flow_hash(&self) -> u64;

    /// An identifier of the packet's flow, the same in both directions. Balancers that keep state per flow use
    /// it, and so do callers that evaluate drops or [watch](crate::Simulation::watch) packets.
    fn flow_key(&self) -> u64;

    /// The packet's priority.
    fn class(&self) -> Class;

    /// Whether the packet carries data. Loss processes may spare all other packets.
    fn is_data(&self) -> bool;

    /// Whether the packet may be lost. If not, loss processes do not drop it, and ports without priorities
    /// accept it even if their buffer is full. A link that is down still drops it. Loss processes advance as if
    /// it could be lost.
    fn may_be_lost(&self) -> bool {
        true
    }

    /// Whether the sender marked the packet as important. Only queue disciplines that distinguish important
    /// packets call it, at every such port, and it must always return the same value.
    fn is_important(&self) -> bool {
        false
    }

    /// Whether a switch may mark the packet (ECT, RFC 3168 section 5).
    fn ecn_capable(&self) -> bool;

    /// Sets "congestion experienced" (CE, RFC 3168 section 5). Called at most once, when the packet leaves the
    /// network, and only if the packet is [`ecn_capable`](Packet::ecn_capable).
    fn mark_ce(&mut self);
}

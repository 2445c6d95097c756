//! [`Packet`]: what the network wants to know of the things it carries.

use spindle_units::prefetch;

/// Priority of a packet at ports that have two strict priorities, and the hint of its flow's kind
/// that balancers may use (short flows high, long flows low).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Class {
    /// Served first.
    High,
    /// Served when nothing of high priority waits.
    #[default]
    Low,
}

/// Anything the network can carry.
///
/// All but [`mark_ce`](Packet::mark_ce) are asked once, when the packet is injected; the answers
/// travel beside the packet.
pub trait Packet {
    /// Has the packet in a place, if there is one, brought into the processor's cache; it will be handed
    /// out soon. What happens does not depend on it. A packet that points to what it carries brings that.
    #[inline]
    fn bring(place: &Option<Self>)
    where
        Self: Sized,
    {
        prefetch(place);
    }

    /// Length on the wire in bytes, all headers included.
    fn wire_len(&self) -> u32;

    /// A hash of the 5-tuple, from which ECMP chooses. Need not be well mixed: each switch mixes it
    /// with its own salt.
    fn flow_hash(&self) -> u64;

    /// What identifies the packet's flow, the same in both directions, to balancers that keep state
    /// per flow, and to whoever reads drops or [watches](crate::Simulation::watch).
    fn flow_key(&self) -> u64;

    /// The packet's priority.
    fn class(&self) -> Class;

    /// Whether the packet carries data; loss processes may spare all others.
    fn is_data(&self) -> bool;

    /// Whether the packet may be lost: if not, no loss process takes it, and ports without
    /// priorities take it beyond their buffer. It still ends where a link is down. The loss processes
    /// run on as if it could.
    fn may_be_lost(&self) -> bool {
        true
    }

    /// Whether a switch may mark the packet instead of leaving it alone (ECT, RFC 3168 section 5).
    fn ecn_capable(&self) -> bool;

    /// Sets "congestion experienced" (CE, RFC 3168 section 5). Called at most once, when the packet
    /// leaves the network, and only if it is [`ecn_capable`](Packet::ecn_capable).
    fn mark_ce(&mut self);
}

//! Queue disciplines: which packets wait at a port, which are dropped or marked, and which is sent next.
//!
//! Each discipline is one file of this folder. A port with a discipline is served packet by packet: the engine
//! asks for the next packet when the port becomes free. A port without one is a FIFO queue, whose times are
//! computed in advance (`port`).

mod codel;
mod drop_tail;
mod fq_codel;
mod priorities;
#[cfg(test)]
mod testing;
mod two_thresholds;

use std::fmt;
use std::sync::Arc;

use rand_xoshiro::Xoshiro256PlusPlus;
use spindle_units::Instant;

use crate::port::Port;
use crate::port::store::Meta;
use crate::random::{Purpose, derive, stream};
use crate::{Class, LinkId};

pub use codel::{CoDel, CoDelSettings};
pub use drop_tail::DropTail;
pub use fq_codel::{FqCoDel, FqCoDelSettings};
pub use priorities::Priorities;
pub use two_thresholds::{TwoThresholds, TwoThresholdsSettings};

/// A packet at a port. It cannot be copied: a discipline keeps it, returns it, or passes it to
/// [`QueuePort::discard`].
#[derive(Debug)]
pub struct QueuedPacket(pub(crate) Meta);

impl QueuedPacket {
    /// Length on the wire in bytes.
    #[inline]
    pub fn wire_len(&self) -> u32 {
        self.0.len
    }

    /// The packet's priority.
    #[inline]
    pub fn class(&self) -> Class {
        self.0.class()
    }

    /// Whether the packet carries data.
    #[inline]
    pub fn is_data(&self) -> bool {
        self.0.is_data()
    }

    /// Whether the packet must not be lost. See [`Packet::may_be_lost`](crate::Packet::may_be_lost).
    #[inline]
    pub fn is_exempt(&self) -> bool {
        self.0.is_exempt()
    }

    /// When the packet was offered to the port.
    pub fn offered_at(&self) -> Instant {
        // The time of arrival is not known before the packet is sent, so its place has the time of the offer.
        Instant::from_nanos(self.0.arrive)
    }
}

/// Decides about the packets of one port that is served packet by packet. Each port has its own.
///
/// Every packet that was [pushed](Self::push) leaves the discipline once: it is passed to
/// [`QueuePort::discard`], or returned by [`next`](Self::next) or [`clear`](Self::clear). A discipline must
/// bound its memory, for example by [`QueuePort::has_room`].
pub trait QueueDiscipline: fmt::Debug + Send {
    /// Whether an offered packet is accepted. Otherwise the port drops it. The discipline may mark the packet,
    /// and may discard waiting packets to make room for it.
    fn admit(&mut self, packet: &mut QueuedPacket, port: &mut QueuePort<'_>) -> bool;

    /// Keeps a packet that was just [admitted](Self::admit).
    fn push(&mut self, packet: QueuedPacket, port: &mut QueuePort<'_>);

    /// The packet to send now. `None` if no packet waits. The discipline may mark the packet and discard
    /// others, but it must return one of those that are left.
    fn next(&mut self, port: &mut QueuePort<'_>) -> Option<QueuedPacket>;

    /// The number of waiting packets.
    fn len(&self) -> usize;

    /// Whether no packet waits.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a packet that is admitted at an idle port can be sent without [`push`](Self::push) and
    /// [`next`](Self::next). This is queried once. It saves time at ports that are often idle.
    fn may_be_bypassed(&self) -> bool {
        false
    }

    /// Returns all waiting packets, because the link goes down.
    fn clear(&mut self) -> Vec<QueuedPacket>;
}

/// The discipline of a port. The one that existed before the others needs no virtual call.
#[derive(Debug)]
pub(crate) enum Discipline {
    Priorities(Priorities),
    Other(Box<dyn QueueDiscipline>),
}

/// Calls a method of the discipline that a port has.
macro_rules! of_discipline {
    ($discipline:expr, $d:ident => $call:expr) => {
        match $discipline {
            Discipline::Priorities($d) => $call,
            Discipline::Other($d) => $call,
        }
    };
}

impl Discipline {
    #[inline]
    pub(crate) fn admit(&mut self, packet: &mut QueuedPacket, port: &mut QueuePort<'_>) -> bool {
        of_discipline!(self, d => d.admit(packet, port))
    }

    #[inline]
    pub(crate) fn push(&mut self, packet: QueuedPacket, port: &mut QueuePort<'_>) {
        of_discipline!(self, d => d.push(packet, port));
    }

    #[inline]
    pub(crate) fn next(&mut self, port: &mut QueuePort<'_>) -> Option<QueuedPacket> {
        of_discipline!(self, d => d.next(port))
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        of_discipline!(self, d => d.len())
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        of_discipline!(self, d => d.is_empty())
    }

    pub(crate) fn may_be_bypassed(&self) -> bool {
        of_discipline!(self, d => d.may_be_bypassed())
    }

    pub(crate) fn clear(&mut self) -> Vec<QueuedPacket> {
        of_discipline!(self, d => d.clear())
    }
}

/// Looks up properties of a packet that only some disciplines need.
pub(crate) trait Lookup {
    /// The packet's flow, the same in both directions.
    fn flow(&self, meta: &Meta) -> u64;
    /// Whether the packet is marked important.
    fn is_important(&self, meta: &Meta) -> bool;
}

/// A port as its discipline sees it.
pub struct QueuePort<'a> {
    pub(crate) now: u64,
    pub(crate) port: &'a mut Port,
    pub(crate) marked: &'a mut u64,
    pub(crate) dropped: &'a mut Vec<Meta>,
    pub(crate) packets: &'a dyn Lookup,
}

impl fmt::Debug for QueuePort<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueuePort")
            .field("now", &self.now())
            .field("unsent_bytes", &self.unsent_bytes())
            .field("unsent_packets", &self.unsent_packets())
            .finish_non_exhaustive()
    }
}

impl QueuePort<'_> {
    /// The current time.
    pub fn now(&self) -> Instant {
        Instant::from_nanos(self.now)
    }

    /// The bytes of all packets that are not yet sent completely. The packet being sent counts with its whole
    /// length.
    pub fn unsent_bytes(&self) -> u64 {
        self.port.unsent_bytes
    }

    /// The number of packets that are not yet sent completely. It includes the packet being sent.
    pub fn unsent_packets(&self) -> u32 {
        self.port.unsent
    }

    /// Whether the port's buffer has room for one more packet of this length. A limit in packets does not count
    /// the packet being sent.
    #[inline]
    pub fn has_room(&self, wire_len: u32) -> bool {
        self.port.has_room(wire_len)
    }

    /// Like [`has_room`](Self::has_room), but after waiting packets with a total length of `removed` bytes, at
    /// least one, were discarded.
    #[inline]
    pub fn would_have_room(&self, wire_len: u32, removed: u64) -> bool {
        self.port.would_have_room(wire_len, removed)
    }

    /// Whether more bytes wait than the port's marking threshold allows. False if the port does not mark.
    #[inline]
    pub fn is_above_marking_threshold(&self) -> bool {
        self.port.unsent_bytes > self.port.mark_above
    }

    /// Marks a packet "congestion experienced" if it is ECN-capable. Returns whether it is now marked.
    #[inline]
    pub fn mark(&mut self, packet: &mut QueuedPacket) -> bool {
        let marked = packet.0.mark();
        *self.marked += u64::from(marked);
        marked
    }

    /// Applies the port's marking threshold to an offered packet: marks the packet if the queue is above the
    /// threshold. Returns false if the packet must be dropped because it cannot be marked
    /// ([`LinkSpec::drop_unmarkable`](crate::LinkSpec::drop_unmarkable)).
    #[must_use]
    #[inline]
    pub fn mark_above_threshold(&mut self, packet: &mut QueuedPacket) -> bool {
        !self.is_above_marking_threshold() || self.mark(packet) || !self.port.drops(&packet.0)
    }

    /// Drops a waiting packet. Its room is free at once.
    #[inline]
    pub fn discard(&mut self, packet: QueuedPacket) {
        self.port.sent(packet.0.len);
        self.dropped.push(packet.0);
    }

    /// The hash of a packet's flow. The two directions of a flow have different values. It is not mixed with a
    /// salt.
    pub fn flow(&self, packet: &QueuedPacket) -> u64 {
        let direction = crate::mix(u64::from(packet.0.to));
        self.packets.flow(&packet.0) ^ direction
    }

    /// Whether the sender marked a packet as important. See
    /// [`Packet::is_important`](crate::Packet::is_important).
    pub fn is_important(&self, packet: &QueuedPacket) -> bool {
        self.packets.is_important(&packet.0)
    }
}

/// The port for which a discipline is made.
#[derive(Clone, Copy, Debug)]
pub struct QueueInfo {
    /// The port's link.
    pub link: LinkId,
    /// The simulation's seed.
    pub seed: u64,
}

impl QueueInfo {
    /// The port's salt for hashes.
    pub fn salt(&self) -> u64 {
        derive(self.seed, Purpose::Queue, u64::from(self.link.0))
    }

    /// The port's random stream.
    pub fn rng(&self) -> Xoshiro256PlusPlus {
        stream(self.seed, Purpose::Queue, u64::from(self.link.0))
    }
}

/// A function that makes a port's discipline.
pub type QueueMaker = dyn Fn(&QueueInfo) -> Box<dyn QueueDiscipline> + Send + Sync;

/// The kind of discipline that a port has. Two kinds are equal if their texts are.
#[derive(Clone)]
pub struct Queueing {
    text: Arc<str>,
    make: Arc<QueueMaker>,
}

impl Queueing {
    /// A kind of discipline. `text` is its name with all of its settings, because results are identified by a
    /// hash of it. `make` is called once for each port.
    pub fn new(
        text: impl Into<Arc<str>>,
        make: impl Fn(&QueueInfo) -> Box<dyn QueueDiscipline> + Send + Sync + 'static,
    ) -> Self {
        Self {
            text: text.into(),
            make: Arc::new(make),
        }
    }

    /// [`DropTail`].
    pub fn drop_tail() -> Self {
        Self::new("DropTail", |_| Box::<DropTail>::default())
    }

    /// [`Priorities`], the same as [`LinkSpec::priorities`](crate::LinkSpec::priorities).
    pub fn priorities() -> Self {
        Self::new("Priorities", |_| Box::<Priorities>::default())
    }

    /// [`TwoThresholds`] with these settings.
    pub fn two_thresholds(settings: TwoThresholdsSettings) -> Self {
        Self::new(format!("{settings:?}"), move |_| {
            Box::new(TwoThresholds::new(settings))
        })
    }

    /// [`CoDel`] with these settings.
    pub fn codel(settings: CoDelSettings) -> Self {
        Self::new(format!("{settings:?}"), move |_| {
            Box::new(CoDel::new(settings))
        })
    }

    /// [`FqCoDel`] with these settings.
    pub fn fq_codel(settings: FqCoDelSettings) -> Self {
        Self::new(format!("{settings:?}"), move |info| {
            Box::new(FqCoDel::new(settings, info.salt()))
        })
    }

    /// Makes a port's discipline.
    pub(crate) fn discipline(&self, info: &QueueInfo) -> Discipline {
        Discipline::Other((self.make)(info))
    }
}

impl fmt::Debug for Queueing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq for Queueing {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

//! [`Link`]: what carries segments between the core and a wire.

use std::io;

use polling::Poller;
use spindle_mptcp::PathError;
use spindle_units::Instant;
use spindle_wire::{Endpoint, Segment, SeqNumber};

use crate::udp::UdpCounters;

/// Keys of a link's sources in the poller begin here; smaller ones belong to the data path.
pub const FIRST_KEY: usize = 16;

/// A path's capacity as a link has learnt it, for [`Link::receive`]'s caller to tell the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathMtu {
    /// Own end of the path; the port counts only where the link tells subflows apart by it.
    pub local: Endpoint,
    /// The peer's end.
    pub remote: Endpoint,
    /// Bytes of a whole inner packet (IP header included) that pass.
    pub mtu: u32,
}

/// What an ICMP error says about a segment of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpError {
    /// Too big for a hop (RFC 1191, RFC 8201): bytes of a whole packet that would have passed.
    TooBig(u32),
    /// It could not be delivered (RFC 792 type 3, RFC 4443 type 1).
    Unreachable(PathError),
}

/// An ICMP error with what identifies the segment it is about. Anyone can forge one: it is to be
/// believed only if the sequence number is in flight (RFC 5927, section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpReport {
    /// What it says.
    pub error: IcmpError,
    /// Own end: the source of the segment.
    pub local: Endpoint,
    /// The peer's end.
    pub remote: Endpoint,
    /// The segment's sequence number.
    pub seq: SeqNumber,
}

/// What came from a link.
#[derive(Debug)]
pub enum Arrival {
    /// A segment; its payload may exceed the MSS where the system coalesced.
    Segment(Segment),
    /// A path's MTU was learnt by a means that cannot be forged (RFC 8899 probing).
    PathMtu(PathMtu),
    /// The peer at this end cannot be reached by this local end at present, as the link has learnt by a means
    /// that cannot be forged.
    Unreachable {
        /// Own end.
        local: Endpoint,
        /// The peer's end.
        remote: Endpoint,
        /// Why.
        why: PathError,
    },
    /// An ICMP error, not yet held against what is in flight.
    Icmp(IcmpReport),
}

/// A wire of some kind under the data path: TUN, UDP encapsulation, a testbed's fabric.
///
/// All calls come from one thread. Nothing blocks.
pub trait Link: Send {
    /// Adds the link's sources to the poller for reading, level-triggered
    /// ([`polling::PollMode::Level`]), with keys from [`FIRST_KEY`] on. Sources opened later are
    /// added by [`Self::send`] or [`Self::timeout`] to a clone kept from here.
    ///
    /// # Errors
    /// What the system says.
    fn register(&mut self, poller: &std::sync::Arc<Poller>) -> io::Result<()>;

    /// Whether the link has no source in the poller: whoever fills it calls [`Poller::notify`], and
    /// [`Self::receive`] is called at every turn with [`FIRST_KEY`].
    fn unpolled(&self) -> bool {
        false
    }

    /// The source with this key is readable: gives what there is to `sink`, a bounded batch of it;
    /// returns whether more waits. Malformed packets are counted and dropped.
    ///
    /// # Errors
    /// What the system says, if the link is broken for good.
    fn receive(
        &mut self,
        now: Instant,
        key: usize,
        sink: &mut dyn FnMut(Arrival),
    ) -> io::Result<bool>;

    /// Takes a segment for the wire; may keep it until [`Self::flush`] to send several at once.
    fn send(&mut self, now: Instant, segment: Segment);

    /// Sends what is kept. What the system does not take (buffer full) is dropped and counted, as a
    /// queue would; TCP repairs it.
    ///
    /// # Errors
    /// What the system says, if the link is broken for good.
    fn flush(&mut self, now: Instant) -> io::Result<()>;

    /// Called after every [`Self::flush`] of the data path. `known(local, remote)` says whether the stack has a
    /// subflow between these ends, one in TIME_WAIT included: a link that keeps something for each subflow
    /// forgets it here, a bounded number of entries in a call.
    fn reconcile(&mut self, _now: Instant, _known: &dyn Fn(Endpoint, Endpoint) -> bool) {}

    /// When [`Self::timeout`] is next to be called.
    fn next_timeout(&self) -> Option<Instant> {
        None
    }

    /// Serves the link's own timers (probes, challenges, idle paths).
    fn timeout(&mut self, _now: Instant, _sink: &mut dyn FnMut(Arrival)) {}

    /// Most payload bytes that the link's packets carry on a fresh path with bare headers: the MSS.
    fn mss(&self) -> u32;

    /// Most payload bytes of a burst that leaves with one call of the system
    /// ([`spindle_wire::Segment::segment_size`]); 0 where the link cuts bursts up itself, so that
    /// they gain nothing.
    fn burst(&self) -> u32 {
        0
    }

    /// Whether segments have to keep the ports of their subflows: the link tells subflows apart by them, or
    /// varies ports of its own where packets are scattered.
    fn keeps_ports(&self) -> bool {
        false
    }

    /// The address by which the peer at `remote` is known outside, where that differs (UDP
    /// encapsulation behind NAT).
    fn outside(&self, remote: Endpoint) -> std::net::SocketAddr {
        remote.into()
    }

    /// Bytes that the link holds in addition to the payload it gave away: buffers that such payload keeps
    /// from being used again, and what it knows about peers.
    fn held(&self) -> u64 {
        0
    }

    /// Totals since the start.
    fn counters(&self) -> LinkCounters;

    /// What only links over UDP count; none for others.
    fn udp(&self) -> Option<UdpCounters> {
        None
    }
}

/// What passed a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Packets received.
    pub packets_in: u64,
    /// Their bytes.
    pub bytes_in: u64,
    /// Packets sent.
    pub packets_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
    /// Received packets that were not for Spindle, or malformed.
    pub dropped_in: u64,
    /// Packets the system did not take.
    pub dropped_out: u64,
}

//! [`Link`]: what carries packets between the core and a wire.

use std::io;
use std::os::fd::OwnedFd;

use polling::Poller;
use spindle_mptcp::PathError;
use spindle_units::Instant;
use spindle_wire::{Endpoint, Packet, SeqNumber};

use crate::handover::{Channel, Predecessor};
use crate::udp::UdpCounters;

/// Keys of a link's sources in the poller begin here; smaller ones belong to the data path.
pub const FIRST_KEY: usize = 16;

/// The MTU of a path as the link has learnt it. The caller of [`Link::receive`] reports it to the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathMtu {
    /// Local end of the path. The port counts only if the link distinguishes subflows by it.
    pub local: Endpoint,
    /// The peer's end.
    pub remote: Endpoint,
    /// Size of the largest whole inner packet (IP header included) that passes.
    pub mtu: u32,
}

/// What an ICMP error reports about a segment that this host sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpError {
    /// The packet was too big for a hop (RFC 1191, RFC 8201). The value is the size of a whole packet that
    /// would have passed.
    TooBig(u32),
    /// The packet could not be delivered (RFC 792 type 3, RFC 4443 type 1).
    Unreachable(PathError),
}

/// An ICMP error with the fields that identify the segment it is about. Anyone can forge one. It must be
/// believed only if the sequence number is in flight (RFC 5927, section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpReport {
    /// The error that is reported.
    pub error: IcmpError,
    /// Local end: the source of the segment.
    pub local: Endpoint,
    /// The peer's end.
    pub remote: Endpoint,
    /// The segment's sequence number.
    pub seq: SeqNumber,
}

/// An address of this host from which subflows may start, and how it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalPath {
    /// The address.
    pub addr: std::net::IpAddr,
    /// The device to which sockets of the address are bound.
    pub device: Option<String>,
    /// Sockets that cannot be bound to the device are not used. If false, they are used without being bound.
    pub required: bool,
    /// Subflows of the address are used only when no others are left.
    pub backup: bool,
}

/// What a link has received or learnt.
#[derive(Debug)]
pub enum Arrival {
    /// A packet. The payload of a segment may exceed the MSS if the system coalesced segments.
    Packet(Packet),
    /// A path's MTU, learnt by a method that cannot be forged (RFC 8899 probing).
    PathMtu(PathMtu),
    /// The peer's end cannot be reached from the local end at present. The link has learnt this by a method
    /// that cannot be forged.
    Unreachable {
        /// Local end.
        local: Endpoint,
        /// The peer's end.
        remote: Endpoint,
        /// The reason.
        why: PathError,
    },
    /// An ICMP error, not yet checked against the segments in flight.
    Icmp(IcmpReport),
}

/// A wire of some kind under the data path: TUN, UDP encapsulation, a testbed's fabric.
///
/// All calls come from one thread. No call blocks.
pub trait Link: Send {
    /// Adds the link's sources to the poller for reading, level-triggered ([`polling::PollMode::Level`]), with
    /// keys from [`FIRST_KEY`] on. The link keeps a clone of the poller, to which [`Self::send`] or
    /// [`Self::timeout`] adds sources that are opened later.
    ///
    /// # Errors
    /// The system's error.
    fn register(&mut self, poller: &std::sync::Arc<Poller>) -> io::Result<()>;

    /// Whether the link has no source in the poller. The code that fills such a link calls [`Poller::notify`],
    /// and the data path calls [`Self::receive`] with [`FIRST_KEY`] at every turn.
    fn unpolled(&self) -> bool {
        false
    }

    /// Called when the source with this key is readable. Passes a bounded batch of arrivals to `sink` and
    /// returns whether more are waiting. Malformed packets are counted and dropped.
    ///
    /// # Errors
    /// The system's error, if the link is permanently broken.
    fn receive(
        &mut self,
        now: Instant,
        key: usize,
        sink: &mut dyn FnMut(Arrival),
    ) -> io::Result<bool>;

    /// Takes a packet for the wire. The link may keep it until [`Self::flush`], to send several at once.
    fn send(&mut self, now: Instant, packet: Packet);

    /// Sends the packets that are kept. Packets that the system does not accept (buffer full) are dropped and
    /// counted, like in a queue. TCP repairs the loss.
    ///
    /// # Errors
    /// The system's error, if the link is permanently broken.
    fn flush(&mut self, now: Instant) -> io::Result<()>;

    /// Called after every [`Self::flush`] of the data path. `known(local, remote)` reports whether the stack
    /// has a subflow between these ends, subflows in TIME_WAIT included. A link that keeps an entry for each
    /// subflow removes stale entries here, a bounded number in each call.
    fn reconcile(&mut self, _now: Instant, _known: &dyn Fn(Endpoint, Endpoint) -> bool) {}

    /// The addresses from which subflows start are now these, in place of those of the last call. It is called before
    /// the stack is notified. Links that do not distinguish devices ignore it.
    fn set_local_paths(&mut self, _now: Instant, _paths: &[LocalPath]) {}

    /// The time at which [`Self::timeout`] must be called next.
    fn next_timeout(&self) -> Option<Instant> {
        None
    }

    /// Runs the link's own timers (probes, challenges, idle paths).
    fn timeout(&mut self, _now: Instant, _sink: &mut dyn FnMut(Arrival)) {}

    /// The MSS: most payload bytes of a packet of this link on a fresh path, with bare headers.
    fn mss(&self) -> u32;

    /// Most payload bytes of a burst that is sent with one system call
    /// ([`spindle_wire::Segment::segment_size`]). 0 if the link itself splits bursts, in which case bursts have
    /// no advantage.
    fn burst(&self) -> u32 {
        0
    }

    /// Whether segments must keep the ports of their subflows. This is so if the link distinguishes subflows by
    /// ports, or if it varies its own ports when packets are scattered.
    fn keeps_ports(&self) -> bool {
        false
    }

    /// The address by which the peer at `remote` is known outside, if that differs (UDP encapsulation behind
    /// NAT).
    fn outside(&self, remote: Endpoint) -> std::net::SocketAddr {
        remote.into()
    }

    /// Bytes that the link holds in addition to the payload that it has passed on: buffers that this payload
    /// keeps from being reused, and state about peers.
    fn held(&self) -> u64 {
        0
    }

    /// The link, if its wire can be handed over to another process.
    fn handover(&mut self) -> Option<&mut dyn Handover> {
        None
    }

    /// Totals since the start.
    fn counters(&self) -> LinkCounters;

    /// Counters that only links over UDP have. `None` for other links.
    fn udp(&self) -> Option<UdpCounters> {
        None
    }
}

/// A link whose wire can be handed over. All calls come from the thread of the data path.
pub trait Handover {
    /// Duplicates the descriptors of the wire.
    ///
    /// # Errors
    /// The system's error.
    fn offer(&self) -> io::Result<Vec<OwnedFd>>;

    /// Stops reading the wire. From now on, packets come from `successor`.
    ///
    /// # Errors
    /// The system's error. The link reads on.
    fn leave(&mut self, successor: Channel) -> io::Result<()>;

    /// Closes the channel to the successor. Reads the wire, if it does not do so.
    ///
    /// # Errors
    /// The system's error.
    fn resume(&mut self) -> io::Result<()>;

    /// Begins to read the wire of a predecessor.
    ///
    /// # Errors
    /// The system's error.
    fn begin(&mut self, predecessor: Predecessor) -> io::Result<()>;

    /// Closes the channel to the successor, so that the successor handles everything.
    fn close(&mut self);

    /// Whether there is a predecessor that has not ended.
    fn has_predecessor(&mut self) -> bool;

    /// The ends of the connections that the predecessor had answered and that were not established at the handover from it,
    /// as long as it exists ([`Predecessor::half_open`]).
    fn half_open(&mut self) -> Vec<(Endpoint, Endpoint)>;

    /// Handles packets that arrived and may belong to the predecessor. It gives those that the stack expects to the
    /// stack, and passes the others on.
    fn settle(&mut self, now: Instant, stack: &mut dyn PacketSink);
}

/// The stack, as [`Handover::settle`] sees it.
pub trait PacketSink {
    /// Whether the stack expects the packet ([`spindle_mptcp::Stack::expects`]).
    fn expects(&self, packet: &Packet) -> bool;

    /// Reports to the stack what has arrived.
    fn take(&mut self, arrival: Arrival);
}

/// Packets and bytes that passed a link.
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
    /// Received packets that were malformed or not for Spindle.
    pub dropped_in: u64,
    /// Packets that the system did not accept.
    pub dropped_out: u64,
}

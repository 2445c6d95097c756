//! A link's wire is handed over to another process, its *successor*, while connections are open.
//!
//! Both processes hold the same descriptors: the UDP sockets, or the TUN device. Both send through them, but only one
//! reads them. After the handover, that is the successor. It passes on what belongs to its *predecessor*, through
//! a [`Channel`], as bytes with the addresses that they came with. The predecessor handles these bytes as if it had read
//! them from the wire itself. It opens nothing new, and ends when its last connection has ended. A predecessor may
//! have a predecessor itself. What belongs to none of its connections, it passes on in turn.
//!
//! | packet | goes to |
//! |---|---|
//! | of a subflow, or with a cookie or the token of a connection, of the process that reads | this process |
//! | a SYN that opens a connection | this process, unless the predecessor has answered the SYN already |
//! | any other | the predecessor, as long as it exists |
//!
//! [`Step`]s are the order of events. The program `spindle gateway` does them by its control socket
//! (`takeover`).

mod channel;
mod neighbours;

use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;

use spindle_wire::{Endpoint, Flags, MpJoin, Packet};

pub use channel::{Channel, Received};
pub(crate) use neighbours::Neighbours;

/// A step of a handover, for [`Network::hand_over`](crate::Network::hand_over).
#[derive(Debug)]
pub enum Step {
    /// Duplicates the descriptors of the wire, for another process. Nothing else changes.
    Offer,
    /// The successor reads the wire from now on. Packets for this process come from the channel.
    Leave(Channel),
    /// The successor no longer exists: this process reads the wire again.
    Return,
    /// This process reads the wire from now on, which it has not done before. What belongs to the predecessor, it
    /// passes on.
    Begin(Predecessor),
    /// If no connection is left, and none can come of what this process has sent, it takes nothing from its successor any
    /// more. [`Outcome::ended`] reports whether this is so.
    End,
}

/// What a [`Step`] returns.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The descriptors of the wire, after [`Step::Offer`].
    pub descriptors: Vec<OwnedFd>,
    /// The ends, local and remote, of connections whose SYN this process or its predecessor has answered while the answer was
    /// not acknowledged, after [`Step::Leave`]. SYNs between these ends belong to the predecessor.
    pub half_open: Vec<(Endpoint, Endpoint)>,
    /// Whether this process has nothing left to do, after [`Step::End`].
    pub ended: bool,
}

/// The process that has read the wire before.
#[derive(Debug)]
pub struct Predecessor {
    channel: Channel,
    half_open: HashSet<(Endpoint, Endpoint)>,
}

impl Predecessor {
    /// The predecessor at the other end of this channel. `half_open` is what its [`Step::Leave`] returned.
    pub fn new(channel: Channel, half_open: Vec<(Endpoint, Endpoint)>) -> Self {
        Self {
            channel,
            half_open: half_open.into_iter().collect(),
        }
    }

    /// The channel to it.
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// The ends, local and remote, of the connections that it had answered and that were not established at the handover.
    pub fn half_open(&self) -> &HashSet<(Endpoint, Endpoint)> {
        &self.half_open
    }
}

/// Whether the packet is a SYN that opens a connection, and not a subflow of one.
pub fn opens_connection(packet: &Packet) -> bool {
    let Packet::Tcp(s) = packet else { return false };
    let rare = s.options.rare.as_ref();
    let joins = rare.is_some_and(|r| matches!(r.mp_join, Some(MpJoin::Syn { .. })));
    s.flags.contains(Flags::SYN) && !s.flags.intersects(Flags::ACK | Flags::RST) && !joins
}

/// The error of a link whose wire cannot be handed over.
pub(crate) fn unsupported() -> io::Error {
    let text = "the wire of this link cannot be handed over";
    io::Error::new(io::ErrorKind::Unsupported, text)
}

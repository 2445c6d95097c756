//! Events and errors of the stack.

use std::net::IpAddr;

use spindle_wire::Endpoint;

use super::{Handle, ListenerId};
use crate::connection::{CloseReason, Happening};
use crate::subflow::SubflowId;

/// Something the application may want to act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A listener has a new connection.
    Accepted {
        /// The listener.
        listener: ListenerId,
        /// The connection.
        handle: Handle,
    },
    /// A connection opened here is established.
    Connected {
        /// The connection.
        handle: Handle,
    },
    /// A further subflow is established.
    SubflowUp {
        /// The connection.
        handle: Handle,
        /// The subflow.
        subflow: SubflowId,
    },
    /// A subflow is gone; [`crate::ConnectionInfo::ended`] says why.
    SubflowDown {
        /// The connection.
        handle: Handle,
        /// The subflow.
        subflow: SubflowId,
    },
    /// A join is gone that was never established; [`crate::ConnectionInfo::ended`] says why.
    JoinFailed {
        /// The connection.
        handle: Handle,
        /// The subflow.
        subflow: SubflowId,
    },
    /// There are bytes to read.
    Readable {
        /// The connection.
        handle: Handle,
    },
    /// The send buffer has room again.
    Writable {
        /// The connection.
        handle: Handle,
    },
    /// The peer has acknowledged all data before the offset that [`super::Stack::watch_acknowledged`]
    /// named.
    Acknowledged {
        /// The connection.
        handle: Handle,
        /// Bytes acknowledged at the data level, from the beginning of the stream.
        offset: u64,
    },
    /// The peer sends nothing more.
    PeerClosed {
        /// The connection.
        handle: Handle,
    },
    /// The connection is over.
    Closed {
        /// The connection.
        handle: Handle,
        /// How it ended.
        reason: CloseReason,
    },
}

pub(super) fn from_happening(handle: Handle, listener: Option<ListenerId>, h: Happening) -> Event {
    match h {
        Happening::Connected => match listener {
            Some(listener) => Event::Accepted { listener, handle },
            None => Event::Connected { handle },
        },
        Happening::SubflowUp(subflow) => Event::SubflowUp { handle, subflow },
        Happening::SubflowDown(subflow) => Event::SubflowDown { handle, subflow },
        Happening::JoinFailed(subflow) => Event::JoinFailed { handle, subflow },
        Happening::Readable => Event::Readable { handle },
        Happening::Writable => Event::Writable { handle },
        Happening::Acknowledged(offset) => Event::Acknowledged { handle, offset },
        Happening::PeerClosed => Event::PeerClosed { handle },
        Happening::Closed(reason) => Event::Closed { handle, reason },
    }
}

/// Why the stack refused a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StackError {
    /// Something is bound to this endpoint already.
    #[error("{0} is in use; choose another port, or 0 to have one chosen")]
    AddressInUse(Endpoint),
    /// A connection was to be opened to an address that no single host has.
    #[error(
        "{0} is an unspecified, broadcast or multicast address, which TCP cannot connect to; choose \
         the address of one host"
    )]
    NotOneHost(IpAddr),
    /// No local port is free towards that peer.
    #[error("no free port on {0} towards this peer")]
    NoPorts(IpAddr),
    /// The stack's limit is reached.
    #[error("{0} connections are open, the stack's limit; raise `max_connections` or close some")]
    TooManyConnections(usize),
    /// The memory for all connections is used up.
    #[error(
        "{0} bytes are in use, the stack's limit; raise `max_memory` or close some connections"
    )]
    NoMemory(u64),
    /// The handle's connection does not exist any more, or does not take data.
    #[error("the connection is closed")]
    NotConnected,
}

//! Events and errors of the stack.

use std::net::IpAddr;

use spindle_wire::Endpoint;

use super::{Handle, ListenerId};
use crate::connection::{CloseReason, ConnectionEvent};
use crate::types::{DataOffset, SubflowId};

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
    /// A subflow has ended; [`crate::ConnectionInfo::ended`] reports why.
    SubflowDown {
        /// The connection.
        handle: Handle,
        /// The subflow.
        subflow: SubflowId,
    },
    /// A join has ended before it was established; [`crate::ConnectionInfo::ended`] reports why.
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
    /// The peer has acknowledged all data before the offset that was given to
    /// [`super::Stack::watch_acknowledged`].
    Acknowledged {
        /// The connection.
        handle: Handle,
        /// The data-level acknowledgement.
        offset: DataOffset,
    },
    /// The peer will send no more data.
    PeerClosed {
        /// The connection.
        handle: Handle,
    },
    /// The connection has ended.
    Closed {
        /// The connection.
        handle: Handle,
        /// How it ended.
        reason: CloseReason,
    },
}

/// The event for the application, unless only the stack is notified.
pub(super) fn from_connection_event(
    handle: Handle,
    listener: Option<ListenerId>,
    h: ConnectionEvent,
) -> Option<Event> {
    let event = match h {
        ConnectionEvent::Connected => match listener {
            Some(listener) => Event::Accepted { listener, handle },
            None => Event::Connected { handle },
        },
        ConnectionEvent::SubflowUp(subflow) => Event::SubflowUp { handle, subflow },
        ConnectionEvent::SubflowDown(subflow) => Event::SubflowDown { handle, subflow },
        ConnectionEvent::JoinFailed(subflow) => Event::JoinFailed { handle, subflow },
        ConnectionEvent::Readable => Event::Readable { handle },
        ConnectionEvent::Writable => Event::Writable { handle },
        ConnectionEvent::Acknowledged(offset) => Event::Acknowledged { handle, offset },
        ConnectionEvent::PeerClosed => Event::PeerClosed { handle },
        ConnectionEvent::Delivered => return None,
        ConnectionEvent::Closed(reason) => Event::Closed { handle, reason },
    };
    Some(event)
}

/// Why the stack refused a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StackError {
    /// The endpoint is already in use.
    #[error("{0} is in use; choose another port, or 0 to have one chosen")]
    AddressInUse(Endpoint),
    /// The address of the peer is not that of a single host.
    #[error(
        "{0} is an unspecified, broadcast or multicast address, which TCP cannot connect to; choose \
         the address of one host"
    )]
    NotOneHost(IpAddr),
    /// No local port is free towards that peer.
    #[error("no free port on {0} towards this peer")]
    NoPorts(IpAddr),
    /// The stack's limit of connections is reached.
    #[error("{0} connections are open, the stack's limit; raise `max_connections` or close some")]
    TooManyConnections(usize),
    /// The memory for all connections is used up.
    #[error(
        "{0} bytes are in use, the stack's limit; raise `max_memory` or close some connections"
    )]
    NoMemory(u64),
    /// The handle's connection no longer exists, or it has ended.
    #[error("the connection is closed")]
    NotConnected,
}

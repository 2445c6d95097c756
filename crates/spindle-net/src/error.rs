//! [`NetError`]: what can go wrong between a program and the data path.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;

use spindle_mptcp::{CloseReason, StackError};

use crate::target::{TargetError, Targets};

/// Why a call on a network, listener or stream failed.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    /// The data path has ended: it was shut down, or its link broke.
    #[error("the data path has ended{}", reason(.0))]
    Stopped(Option<String>),
    /// The stack refused the call.
    #[error(transparent)]
    Stack(#[from] StackError),
    /// A connection could not be opened, or has ended.
    #[error("connection to {peer}: {reason}")]
    Connection {
        /// The peer.
        peer: SocketAddr,
        /// How it ended.
        reason: CloseReason,
    },
    /// The connection no longer exists, and no information about it is left.
    #[error("the connection is closed")]
    Closed,
    /// No port is free for a listener on this address.
    #[error("no free port to listen on at {0}; name one")]
    NoListeningPort(std::net::IpAddr),
    /// The local address and the peer's address are of different families.
    #[error("{local} cannot reach {remote}: they are not of the same address family")]
    Families {
        /// The local address.
        local: std::net::IpAddr,
        /// The peer.
        remote: SocketAddr,
    },
    /// The text that was given as a target is none.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// There is no transport of this name.
    #[error(
        "found transport \"{0}\", want one that `spindle_mptcp::preset` knows, such as spindle, fuso or tcp"
    )]
    Transport(String),
    /// This host has no address from which a target could be reached.
    #[error("{0}: no way to it from any local address of its family")]
    NoLocalAddress(Targets),
    /// No address of the targets answered within the time that the caller allows.
    #[error("connection to {0}: no answer in time")]
    TimedOut(Targets),
    /// The wire of another process cannot be taken over.
    #[error("cannot take over from the running process: {0}")]
    Handover(String),
    /// The directory of control sockets is not safe to use.
    #[error(
        "{}: the directory of control sockets {problem}; want a directory of this user's with mode 0700: \
         remove it, set XDG_RUNTIME_DIR, or name a socket elsewhere with --control",
        path.display()
    )]
    ControlDirectory {
        /// The directory.
        path: std::path::PathBuf,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The file at the path of a control socket is not a socket that a program of this user left behind.
    #[error(
        "{}: cannot make the control socket: what is there {problem}; move it away, or name another place \
         with --control",
        path.display()
    )]
    ControlPath {
        /// The path.
        path: std::path::PathBuf,
        /// What is at that path.
        problem: &'static str,
    },
    /// The system refused something.
    #[error("{what}: {source}")]
    System {
        /// What was attempted.
        what: String,
        /// The system's error.
        source: io::Error,
    },
}

fn reason(text: &Option<String>) -> String {
    text.as_ref().map_or(String::new(), |t| format!(": {t}"))
}

impl NetError {
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        |source| Self::System { what, source }
    }

    /// The error kind that a kernel socket would report.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Self::Stopped(_) => io::ErrorKind::NetworkDown,
            Self::Stack(StackError::AddressInUse(_)) | Self::NoListeningPort(_) => {
                io::ErrorKind::AddrInUse
            }
            Self::Stack(StackError::NoPorts(_)) => io::ErrorKind::AddrNotAvailable,
            Self::Stack(StackError::NoMemory(_)) => io::ErrorKind::OutOfMemory,
            Self::Stack(StackError::NotConnected) | Self::Closed => io::ErrorKind::NotConnected,
            Self::Stack(StackError::NotOneHost(_)) => io::ErrorKind::InvalidInput,
            // The remaining errors are limits of the stack.
            Self::Stack(_) => io::ErrorKind::QuotaExceeded,
            Self::Connection { reason, .. } => kind_of(*reason),
            Self::TimedOut(_) => io::ErrorKind::TimedOut,
            Self::NoLocalAddress(_) => io::ErrorKind::NetworkUnreachable,
            Self::Target(_) | Self::Transport(_) => io::ErrorKind::InvalidInput,
            Self::Families { .. } => io::ErrorKind::InvalidInput,
            Self::ControlPath { .. } => io::ErrorKind::AlreadyExists,
            Self::Handover(_) => io::ErrorKind::InvalidInput,
            Self::ControlDirectory { .. } => io::ErrorKind::PermissionDenied,
            Self::System { source, .. } => source.kind(),
        }
    }
}

impl From<Infallible> for NetError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl From<NetError> for io::Error {
    fn from(e: NetError) -> Self {
        match e {
            NetError::System { source, .. } => source,
            e => Self::new(e.kind(), e),
        }
    }
}

/// The error kind that a kernel socket reports after a connection has ended for this reason.
pub(crate) fn kind_of(reason: CloseReason) -> io::ErrorKind {
    match reason {
        CloseReason::Finished => io::ErrorKind::NotConnected,
        CloseReason::Refused => io::ErrorKind::ConnectionRefused,
        CloseReason::NoRoute => io::ErrorKind::HostUnreachable,
        CloseReason::Reset | CloseReason::PeerAborted | CloseReason::Interference => {
            io::ErrorKind::ConnectionReset
        }
        CloseReason::Aborted | CloseReason::MemoryPressure => io::ErrorKind::ConnectionAborted,
        CloseReason::ConnectTimeout
        | CloseReason::UserTimeout
        | CloseReason::KeepaliveTimeout
        | CloseReason::PersistTimeout
        | CloseReason::FinTimeout => io::ErrorKind::TimedOut,
    }
}

//! One UDP socket: batches in and out, the error queue, limits.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt,
};
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use socket2::{Domain, Protocol, SockRef, Type};
use spindle_mptcp::PathError;

/// Most messages of one receive call. Each may be a train of 64 KB.
const MESSAGES: usize = 16;
/// Bytes of a receive buffer: the longest datagram or train.
const BUFFER: usize = 65_536;
/// Requested size of each buffer of a socket: 10 ms at 3 Gbit/s.
const SOCKET_BUFFER: usize = 4 << 20;

/// Buffers for one receive call, used for all sockets in turn.
pub(super) struct Buffers {
    bytes: Vec<Vec<u8>>,
    meta: [RecvMeta; MESSAGES],
}

impl Buffers {
    pub(super) fn new() -> Self {
        Self {
            bytes: vec![vec![0; BUFFER]; MESSAGES],
            meta: [RecvMeta::default(); MESSAGES],
        }
    }

    /// No buffers: a placeholder while the buffers are lent.
    pub(super) fn empty() -> Self {
        Self {
            bytes: Vec::new(),
            meta: [RecvMeta::default(); MESSAGES],
        }
    }

    /// The messages of the last call, each with its metadata.
    pub(super) fn messages(&self, n: usize) -> impl Iterator<Item = (&[u8], &RecvMeta)> {
        let filled = self.bytes.iter().zip(&self.meta).take(n);
        filled.map(|(b, m)| (&b[..m.len], m))
    }
}

/// The result of sending a train.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) dropped: usize,
    /// The system reports that a datagram is larger than the interface accepts.
    pub(super) too_big: bool,
    /// The system has no route to the peer from the local address of a connected socket.
    pub(super) no_route: bool,
}

/// What an error from the error queue reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathFailure {
    /// Outer packets of more than this many bytes do not pass.
    TooBig(u32),
    /// The peer cannot be reached.
    Path(PathError),
}

impl PathFailure {
    /// Linux `icmp_err_convert` derives these numbers from ICMP's codes.
    fn of(errno: i32, info: u32) -> Option<Self> {
        match errno {
            libc::EMSGSIZE => Some(Self::TooBig(info)),
            libc::ECONNREFUSED | libc::ENOPROTOOPT => Some(Self::Path(PathError::Refused)),
            libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EHOSTDOWN | libc::ENONET => {
                Some(Self::Path(PathError::NoRoute))
            }
            _ => None,
        }
    }
}

/// An ICMP error from the error queue.
pub(super) struct QueuedError {
    pub(super) kind: PathFailure,
    /// The part of the datagram that the router quoted.
    pub(super) quoted: Vec<u8>,
}

/// Whether an error of opening a socket or of sending means that there is no route from the local address: the
/// address or its interface does not exist, or no route does. Sending from an address that no longer exists
/// gives EINVAL.
pub(super) fn is_no_route(error: &io::Error) -> bool {
    let numbers = [
        libc::ENETUNREACH,
        libc::EHOSTUNREACH,
        libc::ENETDOWN,
        libc::EHOSTDOWN,
        libc::EADDRNOTAVAIL,
        libc::ENODEV,
        libc::EINVAL,
    ];
    error.raw_os_error().is_some_and(|n| numbers.contains(&n))
}

/// A UDP socket.
pub(super) struct Socket {
    io: UdpSocket,
    state: UdpSocketState,
    v4: bool,
    /// Send errors of a connected socket are about its one peer. On other sockets they may be an ICMP error
    /// about a datagram to any peer.
    connected: bool,
}

impl Socket {
    /// Binds a socket, to an interface as well if one is named. Connects it if a remote address is given.
    pub(super) fn open(
        local: SocketAddr,
        interface: Option<&str>,
        remote: Option<SocketAddr>,
    ) -> io::Result<Self> {
        let domain = Domain::for_address(local);
        let raw = socket2::Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
        if local.is_ipv6() {
            raw.set_only_v6(true)?;
        }
        if let Some(name) = interface {
            raw.bind_device(Some(name.as_bytes()))?;
        }
        raw.bind(&local.into())?;
        if let Some(remote) = remote {
            raw.connect(&remote.into())?;
        }
        Self::of(UdpSocket::from(raw), local.is_ipv4(), remote.is_some())
    }

    /// A bound socket of another process.
    pub(super) fn adopt(descriptor: OwnedFd) -> io::Result<Self> {
        let io = UdpSocket::from(descriptor);
        let local = io.local_addr()?;
        Self::of(io, local.is_ipv4(), false)
    }

    fn of(io: UdpSocket, v4: bool, connected: bool) -> io::Result<Self> {
        let state = UdpSocketState::new(UdpSockRef::from(&io))?;
        // The socket also works without these options, with smaller buffers and without ICMP errors.
        if setsockopt(&io, sockopt::RcvBufForce, &SOCKET_BUFFER).is_err() {
            let _ = SockRef::from(&io).set_recv_buffer_size(SOCKET_BUFFER);
        }
        if setsockopt(&io, sockopt::SndBufForce, &SOCKET_BUFFER).is_err() {
            let _ = SockRef::from(&io).set_send_buffer_size(SOCKET_BUFFER);
        }
        let _ = if v4 {
            setsockopt(&io, sockopt::Ipv4RecvErr, &true)
        } else {
            setsockopt(&io, sockopt::Ipv6RecvErr, &true)
        };
        Ok(Self {
            io,
            state,
            v4,
            connected,
        })
    }

    /// The source for the poller.
    pub(super) fn source(&self) -> &UdpSocket {
        &self.io
    }

    pub(super) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr()
    }

    /// Most datagrams of one send.
    pub(super) fn most(&self) -> usize {
        self.state.max_gso_segments()
    }

    /// Bytes of UDP payload that the route of a connected socket accepts.
    pub(super) fn payload_limit(&self) -> Option<u32> {
        let (level, name, headers) = if self.v4 {
            (libc::IPPROTO_IP, libc::IP_MTU, 28)
        } else {
            (libc::IPPROTO_IPV6, libc::IPV6_MTU, 48)
        };
        let mut mtu: libc::c_int = 0;
        let mut len = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: no crate in use covers IPV6_MTU. The descriptor is open as long as `self`, and the two
        // pointers are to locals of the sizes that are passed.
        let done = unsafe {
            libc::getsockopt(
                self.io.as_raw_fd(),
                level,
                name,
                (&raw mut mtu).cast(),
                &raw mut len,
            )
        };
        (done == 0).then(|| (mtu as u32).saturating_sub(headers))
    }

    /// Sends datagrams of `size` bytes each (the last may be shorter). Does not block.
    pub(super) fn send(
        &self,
        bytes: &[u8],
        size: usize,
        ecn: Option<EcnCodepoint>,
        (to, from): (SocketAddr, Option<IpAddr>),
    ) -> Sent {
        let whole = Transmit {
            destination: to,
            ecn,
            contents: bytes,
            segment_size: (bytes.len() > size).then_some(size),
            src_ip: from,
        };
        let Err(first) = self.once(&whole) else {
            return Sent::default();
        };
        let count = bytes.len().div_ceil(size.max(1));
        if first.kind() == io::ErrorKind::WouldBlock || count == 1 {
            return Sent {
                dropped: count,
                too_big: first.raw_os_error() == Some(libc::EMSGSIZE),
                no_route: self.connected && is_no_route(&first),
            };
        }
        // The device cannot segment, or one datagram is too large: send each separately.
        let mut sent = Sent::default();
        for contents in bytes.chunks(size) {
            let one = Transmit {
                contents,
                segment_size: None,
                ..whole
            };
            if let Err(e) = self.once(&one) {
                sent.dropped += 1;
                sent.too_big |= e.raw_os_error() == Some(libc::EMSGSIZE);
                sent.no_route |= self.connected && is_no_route(&e);
            }
        }
        sent
    }

    fn once(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let send = || self.state.try_send(UdpSockRef::from(&self.io), transmit);
        match send() {
            // An ICMP error of an earlier datagram is reported once by the next call.
            Err(e)
                if matches!(
                    e.raw_os_error(),
                    Some(libc::ECONNREFUSED | libc::EHOSTUNREACH | libc::ENETUNREACH)
                ) =>
            {
                send()
            }
            r => r,
        }
    }

    /// Receives the messages that are waiting. Returns `None` if there is none, or only an error of an earlier
    /// datagram.
    pub(super) fn receive(&self, buffers: &mut Buffers) -> Option<usize> {
        let Buffers { bytes, meta } = buffers;
        let mut slices = bytes.iter_mut();
        let mut slices: [IoSliceMut<'_>; MESSAGES] = std::array::from_fn(|_| {
            IoSliceMut::new(slices.next().map_or(&mut [], |b| b.as_mut_slice()))
        });
        self.state
            .recv(UdpSockRef::from(&self.io), &mut slices, meta)
            .ok()
    }

    /// Reads the error queue, at most a bounded part of it.
    pub(super) fn errors(&self, mut sink: impl FnMut(QueuedError)) {
        for _ in 0..MESSAGES {
            let mut quoted = vec![0; 64];
            let mut iov = [IoSliceMut::new(&mut quoted)];
            let mut space = vec![0; 256];
            let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
            let fd = self.io.as_raw_fd();
            let Ok(message) = recvmsg::<SockaddrStorage>(fd, &mut iov, Some(&mut space), flags)
            else {
                return;
            };
            let len = message.bytes;
            let mut kind = None;
            for control in message.cmsgs().into_iter().flatten() {
                if let ControlMessageOwned::Ipv4RecvErr(e, _)
                | ControlMessageOwned::Ipv6RecvErr(e, _) = control
                {
                    kind = PathFailure::of(e.ee_errno as i32, e.ee_info);
                }
            }
            quoted.truncate(len);
            if let Some(kind) = kind {
                sink(QueuedError { kind, quoted });
            }
        }
    }
}

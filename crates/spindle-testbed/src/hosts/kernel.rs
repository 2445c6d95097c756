//! Sockets of kernel hosts, and the kernel's counters for them.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::hosts::namespace::Namespace;

/// Protocol number of Multipath TCP sockets (Linux, include/uapi/linux/in.h).
const IPPROTO_MPTCP: i32 = 262;
/// Level of socket options of Multipath TCP (Linux, include/linux/socket.h).
const SOL_MPTCP: libc::c_int = 284;
/// TCP_INFO of each subflow (Linux, include/uapi/linux/mptcp.h).
const MPTCP_TCPINFO: libc::c_int = 2;
/// State "established" (Linux, include/net/tcp_states.h).
const TCP_ESTABLISHED: u8 = 1;
/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1024;

/// A bound socket in the namespace.
fn bound(ns: &Namespace, local: SocketAddr, multipath: bool) -> io::Result<Socket> {
    let protocol = if multipath {
        Protocol::from(IPPROTO_MPTCP)
    } else {
        Protocol::TCP
    };
    let socket = ns.within(|| Socket::new(Domain::IPV4, Type::STREAM, Some(protocol)))??;
    socket.set_nonblocking(true)?;
    socket.set_reuse_address(true)?;
    socket.bind(&SockAddr::from(local))?;
    Ok(socket)
}

/// Listens on `local`.
pub(crate) fn listen(
    ns: &Namespace,
    local: SocketAddr,
    multipath: bool,
) -> io::Result<tokio::net::TcpListener> {
    let socket = bound(ns, local, multipath)?;
    socket.listen(BACKLOG)?;
    tokio::net::TcpListener::from_std(socket.into())
}

/// Connects from `local` to `remote`. If the port is in use, any port is used.
pub(crate) async fn connect(
    ns: &Namespace,
    local: SocketAddr,
    remote: SocketAddr,
    multipath: bool,
) -> io::Result<tokio::net::TcpStream> {
    let socket = match bound(ns, local, multipath) {
        Err(e) if e.kind() == io::ErrorKind::AddrInUse => {
            bound(ns, SocketAddr::new(local.ip(), 0), multipath)?
        }
        other => other?,
    };
    let socket = tokio::net::TcpSocket::from_std_stream(socket.into());
    let stream = socket.connect(remote).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// The number of established subflows of a Multipath TCP socket. 1 for other sockets.
pub(crate) fn subflows(fd: BorrowedFd<'_>) -> usize {
    // struct mptcp_subflow_data: size_subflow_data, num_subflows, size_kernel, size_user.
    const HEADER: usize = 16;
    // The state is the first byte of struct tcp_info. Only this many bytes of each struct are requested.
    const EACH: usize = 8;
    const MOST: usize = 16;
    let mut buffer = [0u8; HEADER + EACH * MOST];
    buffer[0..4].copy_from_slice(&(HEADER as u32).to_ne_bytes());
    buffer[12..16].copy_from_slice(&(EACH as u32).to_ne_bytes());
    let mut len = buffer.len() as libc::socklen_t;
    // SAFETY: `buffer` and `len` live through the call, and `len` is the length of `buffer`.
    let done = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            SOL_MPTCP,
            MPTCP_TCPINFO,
            buffer.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if done != 0 {
        return 1;
    }
    let count = u32::from_ne_bytes([buffer[4], buffer[5], buffer[6], buffer[7]]) as usize;
    let states = buffer[HEADER..].chunks(EACH).take(count.min(MOST));
    states.filter(|s| s[0] == TCP_ESTABLISHED).count()
}

/// Like [`subflows`], but for a stream.
pub(crate) fn subflows_of(stream: &tokio::net::TcpStream) -> usize {
    subflows(stream.as_fd())
}

/// Counters of a namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    pub(crate) timeouts: u64,
    pub(crate) fast_retransmits: u64,
    pub(crate) spurious: u64,
}

/// The namespace's counters since its start. 0 if the system does not report them.
pub(crate) fn counters(ns: &Namespace) -> Counters {
    let text = ns.within(|| std::fs::read_to_string("/proc/thread-self/net/netstat"));
    text.ok()
        .and_then(Result::ok)
        .map_or_else(Counters::default, |t| parse(&t))
}

/// Parses pairs of lines: a line of names, then a line of values.
fn parse(text: &str) -> Counters {
    let mut c = Counters::default();
    let mut lines = text.lines();
    while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
        for (name, value) in names.split(' ').zip(values.split(' ')) {
            let value = value.parse().unwrap_or(0);
            match name {
                "TCPTimeouts" => c.timeouts += value,
                "TCPRenoRecovery" | "TCPSackRecovery" => c.fast_retransmits += value,
                "TCPDSACKRecv" => c.spurious += value,
                _ => {}
            }
        }
    }
    c
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_parsed_by_name() {
        let text = "TcpExt: A TCPTimeouts TCPSackRecovery TCPDSACKRecv\nTcpExt: 9 3 4 5\n\
                    MPTcpExt: MPCapableSYNRX\nMPTcpExt: 7\n";
        let want = Counters {
            timeouts: 3,
            fast_retransmits: 4,
            spurious: 5,
        };
        assert_eq!(parse(text), want);
        assert_eq!(parse("x"), Counters::default());
    }
}

//! Connections that the kernel redirected to a connect service, whose programs know nothing of proxies.
//!
//! The kernel's connection tracking remembers where a program connected to before the destination was rewritten
//! (`SO_ORIGINAL_DST` and `IP6T_SO_ORIGINAL_DST` of Linux).

pub mod names;
pub mod resolver;

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use socket2::SockRef;
use tokio::net::TcpStream;

use self::names::{Meaning, Names};
use crate::setup::OWN_MARK;
use crate::target::Target;

/// Why a connection to the port for redirected connections is refused.
#[derive(Debug, thiserror::Error)]
pub enum RedirectedError {
    /// The program has connected to the port itself. To connect it to the port again would be a loop.
    #[error(
        "the connection was made to {0} itself, which accepts only connections that the kernel redirected (--redirect, or \
         rules of your own); programs that name their targets need --socks5 or --http-connect"
    )]
    NotRedirected(SocketAddr),
    /// The program is this service: rules of the host redirect the connections that it opens directly.
    #[error(
        "rules of this host redirect connect's own direct connections (--fallback) back to it; except packets with the mark \
         {OWN_MARK:#x}, or the user that connect runs as"
    )]
    Own,
    /// Nothing can be connected to at this address.
    #[error("the connection was redirected on its way to {0}, to which nothing can connect")]
    NoTarget(SocketAddr),
    /// The destination stands for a name that is no longer remembered.
    #[error(
        "no name is known for {0}, which stands for a name; the program has to look the name up again"
    )]
    Forgotten(SocketAddr),
    /// The kernel does not know the destination.
    #[error("the kernel does not know where the connection was to lead: {0}")]
    Unknown(io::Error),
}

/// The target of a redirected connection: its destination before the kernel rewrote it, or the name that this stands for.
pub(crate) fn target(
    program: &TcpStream,
    names: Option<&Names>,
) -> Result<Target, RedirectedError> {
    let local = program.local_addr().map_err(RedirectedError::Unknown)?;
    // A socket for both families has IPv4 addresses in their IPv6 form.
    let local = SocketAddr::new(local.ip().to_canonical(), local.port());
    let socket = SockRef::from(program);
    let asked = match local {
        SocketAddr::V4(_) => socket.original_dst_v4(),
        SocketAddr::V6(_) => socket.original_dst_v6(),
    };
    let to = match asked {
        Ok(to) => to.as_socket(),
        // Connection tracking has no entry, or does not exist. No connection is redirected without it.
        Err(e) if is_untracked(&e) => None,
        Err(e) => return Err(RedirectedError::Unknown(e)),
    };
    let to = to.ok_or(RedirectedError::NotRedirected(local))?;
    let to = judge(to, local, is_own)?;
    match names.map_or(Meaning::Itself, |names| names.meaning(to.ip())) {
        Meaning::Itself => Ok(Target::Address(to)),
        Meaning::Name(name) => Ok(Target::Name(name, to.port())),
        Meaning::Forgotten => Err(RedirectedError::Forgotten(to)),
    }
}

/// The kernel's errors for a connection without an entry (ENOENT) and without connection tracking (ENOPROTOOPT).
fn is_untracked(e: &io::Error) -> bool {
    matches!(
        e.raw_os_error(),
        Some(libc::ENOENT | libc::ENOPROTOOPT | libc::EOPNOTSUPP)
    )
}

/// Whether this host has the address.
pub(crate) fn is_own(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

/// The destination, unless it is the port of `local`, where redirected connections arrive.
fn judge(
    to: SocketAddr,
    local: SocketAddr,
    is_own: impl Fn(IpAddr) -> bool,
) -> Result<SocketAddr, RedirectedError> {
    let to = SocketAddr::new(to.ip().to_canonical(), to.port());
    if to == local || (to.port() == local.port() && is_own(to.ip())) {
        return Err(RedirectedError::NotRedirected(to));
    }
    let ip = to.ip();
    let broadcast = matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
    if to.port() == 0 || ip.is_unspecified() || ip.is_multicast() || broadcast {
        return Err(RedirectedError::NoTarget(to));
    }
    Ok(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_is_a_target_unless_it_is_the_listener_or_no_single_host() {
        let judged = |to: &str| {
            let local = "127.0.0.1:1080".parse().unwrap();
            let own: IpAddr = "192.0.2.9".parse().unwrap();
            judge(to.parse().unwrap(), local, |ip| ip == own)
        };
        for to in [
            "203.0.113.5:443",
            "[2001:db8::1]:1080",
            "192.0.2.9:80",
            "127.0.0.1:80",
        ] {
            assert_eq!(judged(to).unwrap(), to.parse().unwrap(), "{to}");
        }
        let mapped = judged("[::ffff:203.0.113.5]:443").unwrap();
        assert_eq!(mapped, "203.0.113.5:443".parse().unwrap());
        for to in [
            "127.0.0.1:1080",
            "192.0.2.9:1080",
            "[::ffff:127.0.0.1]:1080",
        ] {
            let refused = judged(to).unwrap_err();
            assert!(
                matches!(refused, RedirectedError::NotRedirected(_)),
                "{to}: {refused}"
            );
        }
        for to in [
            "0.0.0.0:80",
            "224.0.0.1:80",
            "[ff02::1]:80",
            "255.255.255.255:80",
            "203.0.113.5:0",
        ] {
            let refused = judged(to).unwrap_err();
            assert!(
                matches!(refused, RedirectedError::NoTarget(_)),
                "{to}: {refused}"
            );
        }
    }

    #[tokio::test]
    async fn a_connection_to_the_listener_itself_is_refused() {
        for at in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            let Ok(listener) = tokio::net::TcpListener::bind(at).await else {
                eprintln!("skipped for {at}: this host has no such address");
                continue;
            };
            let mut to = listener.local_addr().unwrap();
            if to.ip().is_unspecified() {
                to.set_ip("127.0.0.1".parse().unwrap());
            }
            let (program, accepted) = tokio::join!(TcpStream::connect(to), listener.accept());
            let _program = program.unwrap();
            let refused = target(&accepted.unwrap().0, None).unwrap_err();
            assert!(refused.to_string().contains(&to.to_string()), "{refused}");
        }
    }
}

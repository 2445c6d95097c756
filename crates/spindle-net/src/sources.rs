//! Connections to services from chosen addresses of this host.
//!
//! The kernel has some 28 000 ports for connections from one address to one service (`net.ipv4.ip_local_port_range`).
//! Several source addresses have as many each.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use tokio::net::{TcpSocket, TcpStream};

/// Most source addresses of a service.
pub const MOST_SOURCES: usize = 256;

#[derive(Debug, Default)]
struct Shared {
    list: RwLock<Arc<[IpAddr]>>,
    /// The turn of the next connection.
    next: AtomicUsize,
}

/// Addresses of this host from which connections to a service are made, in turn. Without any, the kernel chooses the
/// address. All clones share one state.
#[derive(Clone, Debug, Default)]
pub struct Sources(Arc<Shared>);

impl FromIterator<IpAddr> for Sources {
    fn from_iter<I: IntoIterator<Item = IpAddr>>(list: I) -> Self {
        let sources = Self::default();
        sources.replace(list);
        sources
    }
}

impl Sources {
    /// Uses these addresses from now on, at most the first [`MOST_SOURCES`]. Open connections stay.
    pub fn replace(&self, list: impl IntoIterator<Item = IpAddr>) {
        let list = list.into_iter().take(MOST_SOURCES).collect();
        *self.0.list.write().unwrap_or_else(PoisonError::into_inner) = list;
    }

    /// The addresses.
    pub fn list(&self) -> Arc<[IpAddr]> {
        let list = self.0.list.read().unwrap_or_else(PoisonError::into_inner);
        list.clone()
    }

    /// Connects to a service. Dropping the stream before a shutdown sends a reset. If an address has no port left, or does
    /// not exist at present, the next one is tried.
    ///
    /// # Errors
    /// That of the last attempt: [`io::ErrorKind::AddrNotAvailable`] if no source address exists, has the family of `to`
    /// and a port left.
    pub(crate) async fn connect(&self, to: SocketAddr) -> io::Result<TcpStream> {
        let list = self.list();
        if list.is_empty() {
            return attempt(None, to).await;
        }
        let of_family = list.iter().filter(|a| a.is_ipv4() == to.is_ipv4());
        let of_family: Vec<IpAddr> = of_family.copied().collect();
        let turn = self.0.next.fetch_add(1, Ordering::Relaxed);
        let mut last = no_source(to);
        for k in 0..of_family.len() {
            let from = of_family[turn.wrapping_add(k) % of_family.len()];
            match attempt(Some(from), to).await {
                Err(e) if e.kind() == io::ErrorKind::AddrNotAvailable => last = unavailable(from),
                result => return result,
            }
        }
        Err(last)
    }
}

fn no_source(to: SocketAddr) -> io::Error {
    let family = if to.is_ipv4() { "IPv4" } else { "IPv6" };
    let text = format!("{to}: no source address is one of {family}");
    io::Error::new(io::ErrorKind::AddrNotAvailable, text)
}

fn unavailable(from: IpAddr) -> io::Error {
    let text =
        format!("source address {from}: it is not an address of this host, or has no port left");
    io::Error::new(io::ErrorKind::AddrNotAvailable, text)
}

async fn attempt(from: Option<IpAddr>, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = match to {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    // Until a relay has ended in order, closing this socket sends a reset.
    socket2::SockRef::from(&socket).set_linger(Some(Duration::ZERO))?;
    if let Some(from) = from {
        // The port is chosen when `to` is known, so that one port serves several targets (ip(7)).
        setsockopt(&socket, sockopt::IpBindAddressNoPort, &true)?;
        socket.bind(SocketAddr::new(from, 0))?;
    }
    let stream = socket.connect(to).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    fn sources(list: &[&str]) -> Sources {
        list.iter().map(|a| a.parse::<IpAddr>().unwrap()).collect()
    }

    /// The addresses from which four connections in a row come.
    async fn used(sources: &Sources) -> Vec<String> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let to = listener.local_addr().unwrap();
        let mut used = Vec::new();
        for _ in 0..4 {
            let stream = sources.connect(to).await.unwrap();
            used.push(stream.local_addr().unwrap().ip().to_string());
        }
        used
    }

    #[tokio::test]
    async fn source_addresses_take_turns() {
        let both = sources(&["127.0.0.2", "::1", "127.0.0.3"]);
        let (a, b) = ("127.0.0.2", "127.0.0.3");
        assert_eq!(used(&both).await, [a, b, a, b]);
        assert_eq!(used(&Sources::default()).await, ["127.0.0.1"; 4]);
    }

    #[tokio::test]
    async fn an_address_that_does_not_exist_is_left_out() {
        // An address of documentation (RFC 5737) is no address of this host.
        let one_missing = sources(&["192.0.2.1", "127.0.0.2"]);
        assert_eq!(used(&one_missing).await, ["127.0.0.2"; 4]);
        let to = "127.0.0.1:1".parse().unwrap();
        let e = sources(&["192.0.2.1"]).connect(to).await.unwrap_err();
        assert_eq!(e.kind(), io::ErrorKind::AddrNotAvailable);
        assert!(e.to_string().contains("192.0.2.1"), "{e}");
    }

    #[tokio::test]
    async fn a_family_without_a_source_address_is_an_error() {
        let to = "[::1]:1".parse().unwrap();
        let e = sources(&["127.0.0.2"]).connect(to).await.unwrap_err();
        assert_eq!(e.kind(), io::ErrorKind::AddrNotAvailable, "{e}");
        assert!(e.to_string().contains("one of IPv6"), "{e}");
    }
}

//! Connections that are opened directly to a program's target, by the system's TCP, while the gateway cannot be reached.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use socket2::SockRef;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream as KernelStream};
use tokio::time::timeout;

use super::{Failed, Shared, unreachable};
use crate::dial::{interleaved, race_all};
use crate::fallback::{Fallback, Open, OwnPort};
use crate::redirect::is_own;
use crate::relay::{self, Ended};
use crate::setup::OWN_MARK;
use crate::target::Target;

/// How long looking up a name and connecting may take in all, as at a gateway that forwards.
const PATIENCE: Duration = Duration::from_secs(30);
/// Most addresses of a name that are tried.
const MOST_TRIED: usize = 16;

/// Why a target was not reached directly.
#[derive(Debug, thiserror::Error)]
enum DirectError {
    /// The target is this host or its link.
    #[error("it is this host, or on its link; the same address at the gateway is another host")]
    Here,
    /// The name has no address.
    #[error("the name is not known here: {0}")]
    Unknown(io::Error),
    /// No address answered in time.
    #[error("it did not answer in time")]
    Timeout,
    /// The attempt that failed last.
    #[error("cannot connect to {0}: {1}")]
    Unreachable(SocketAddr, io::Error),
}

impl DirectError {
    fn kind(&self) -> io::ErrorKind {
        match self {
            Self::Here | Self::Unknown(_) => io::ErrorKind::HostUnreachable,
            Self::Timeout => io::ErrorKind::TimedOut,
            Self::Unreachable(_, e) => e.kind(),
        }
    }
}

/// A direct connection that is ready to be relayed.
#[derive(Debug)]
pub(super) struct Direct {
    stream: KernelStream,
    reached: SocketAddr,
    target: Target,
    /// Bytes from the program that were sent already.
    sent: u64,
    _open: Open,
    _port: Option<OwnPort>,
}

impl Direct {
    /// Opens a connection to the target, since the gateway could not be reached for the reason `gateway`. If rules may
    /// redirect it, `redirected` is set.
    pub(super) async fn open(
        shared: &Shared,
        fallback: &Fallback,
        target: &Target,
        redirected: bool,
        gateway: io::Error,
    ) -> Result<Self, Failed> {
        let ports = redirected.then_some(fallback);
        let reaching = timeout(PATIENCE, reach(target, ports)).await;
        let (stream, port, reached) = match reaching.unwrap_or(Err(DirectError::Timeout)) {
            Ok(reached) => reached,
            Err(e) => {
                let text =
                    format!("{target}: the gateway cannot be reached: {gateway}; directly: {e}");
                return Err(unreachable(io::Error::new(e.kind(), text)));
            }
        };
        if let Some(metrics) = &shared.options.metrics {
            metrics.direct();
        }
        Ok(Self {
            stream,
            reached,
            target: target.clone(),
            sent: 0,
            _open: fallback.opened(),
            _port: port,
        })
    }

    /// The target's address.
    pub(super) fn reached(&self) -> SocketAddr {
        self.reached
    }

    /// Sends the first bytes of the program.
    pub(super) async fn send(&mut self, first: &[u8]) -> io::Result<()> {
        self.stream.write_all(first).await?;
        self.sent += first.len() as u64;
        Ok(())
    }

    /// Relays the connection. Returns whether it was cut off because the service stops.
    pub(super) async fn relay(
        self,
        shared: &Shared,
        program: &KernelStream,
        peer: SocketAddr,
    ) -> bool {
        let (begin, target, reached) = (Instant::now(), &self.target, self.reached);
        tracing::info!(%peer, %target, %reached, "opened directly");
        let share = || shared.network.share();
        let options = shared.relaying();
        let report = relay::direct(&self.stream, program, options, share, &shared.lifecycle).await;
        tracing::info!(
            %peer,
            %target,
            %reached,
            to_program = report.outward,
            from_program = report.inward + self.sent,
            duration_ms = begin.elapsed().as_millis() as u64,
            ended = %report.ended,
            error = report.error.map(|e| e.to_string()),
            "closed, a direct connection"
        );
        report.ended == Ended::Aborted
    }
}

type Reached = (KernelStream, Option<OwnPort>, SocketAddr);

/// Connects to the address of the target that answers first (RFC 8305).
async fn reach(target: &Target, ports: Option<&Fallback>) -> Result<Reached, DirectError> {
    let found = target.addresses().await.map_err(DirectError::Unknown)?;
    let elsewhere = found
        .into_iter()
        .map(|to| SocketAddr::new(to.ip().to_canonical(), to.port()))
        .filter(|to| is_elsewhere(to.ip(), is_own))
        .take(MOST_TRIED);
    let tried = interleaved(elsewhere.collect()).into();
    let attempt = |to: SocketAddr| {
        let ports = ports.cloned();
        async move {
            let connected = connect(to, ports.as_ref()).await;
            let failed = |error: &_| tracing::debug!(%to, %error, "a direct attempt failed");
            let connected = connected.inspect_err(failed);
            let (stream, port) = connected.map_err(|e| DirectError::Unreachable(to, e))?;
            Ok((stream, port, to))
        }
    };
    let reached = race_all(tried, attempt).await;
    reached.map_err(|failed| failed.unwrap_or(DirectError::Here))
}

/// Whether an address is neither this host's nor one of its link, so that it is the same host here and at the gateway, as far
/// as an address can tell. Clients from other hosts must not reach this host's own services by it.
fn is_elsewhere(address: IpAddr, is_own: impl Fn(IpAddr) -> bool) -> bool {
    let here = match address {
        // RFC 1122, section 3.2.1.3: 0.0.0.0/8 is this host.
        IpAddr::V4(a) => a.octets()[0] == 0 || a.is_loopback() || a.is_link_local(),
        IpAddr::V6(a) => a.is_unspecified() || a.is_loopback() || a.is_unicast_link_local(),
    };
    let no_host = address.is_multicast() || address == IpAddr::V4(Ipv4Addr::BROADCAST);
    !here && !no_host && !is_own(address)
}

/// Connects to an address. If rules may redirect the connection, it has the mark of such connections, if this process may
/// set it, and its port is noted, which is known before the connection begins.
async fn connect(
    to: SocketAddr,
    ports: Option<&Fallback>,
) -> io::Result<(KernelStream, Option<OwnPort>)> {
    let (socket, any): (_, IpAddr) = match to {
        SocketAddr::V4(_) => (TcpSocket::new_v4()?, Ipv4Addr::UNSPECIFIED.into()),
        SocketAddr::V6(_) => (TcpSocket::new_v6()?, Ipv6Addr::UNSPECIFIED.into()),
    };
    let raw = SockRef::from(&socket);
    // Until a relay has ended in order, closing this socket sends a reset.
    raw.set_linger(Some(Duration::ZERO))?;
    let port = match ports {
        None => None,
        Some(ports) => {
            // It takes CAP_NET_ADMIN. Without it, the rules may except this user.
            let _ = raw.set_mark(OWN_MARK);
            if to.is_ipv6() {
                raw.set_only_v6(true)?;
            }
            socket.bind((any, 0).into())?;
            Some(ports.begins_at(socket.local_addr()?))
        }
    };
    let stream = socket.connect(to).await?;
    stream.set_nodelay(true)?;
    Ok((stream, port))
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn this_host_and_its_link_are_not_reached_directly() {
        let own = |ip: IpAddr| ip == "203.0.113.9".parse::<IpAddr>().unwrap();
        let elsewhere = |text: &str| is_elsewhere(text.parse().unwrap(), own);
        for text in ["203.0.113.5", "10.0.0.1", "2001:db8::1", "fd00::1"] {
            assert!(elsewhere(text), "{text}");
        }
        for text in [
            "0.0.0.0",
            "127.0.0.9",
            "169.254.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "ff02::1",
            "203.0.113.9",
        ] {
            assert!(!elsewhere(text), "{text}");
        }
    }

    #[tokio::test]
    async fn a_target_on_this_host_fails_with_the_reason() {
        for target in ["127.0.0.1:9", "[::ffff:127.0.0.1]:9", "localhost:9"] {
            let error = reach(&target.parse().unwrap(), None).await.unwrap_err();
            assert!(matches!(error, DirectError::Here), "{target}: {error}");
        }
        let unknown = Target::Name("unknown.invalid".to_owned(), 9);
        let error = reach(&unknown, None).await.unwrap_err();
        assert!(matches!(error, DirectError::Unknown(_)), "{error}");
    }

    #[tokio::test]
    async fn the_port_of_a_connection_that_rules_may_redirect_is_known_until_it_ends() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let fallback = Fallback::default();
        let to = listener.local_addr().unwrap();
        let (stream, port) = connect(to, Some(&fallback)).await.unwrap();
        let (_, peer) = listener.accept().await.unwrap();
        assert!(fallback.is_own_port(peer));
        drop((stream, port));
        assert!(!fallback.is_own_port(peer));
        let (stream, port) = connect(to, None).await.unwrap();
        assert!(port.is_none() && !fallback.is_own_port(stream.local_addr().unwrap()));
    }
}

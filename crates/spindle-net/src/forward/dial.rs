//! Resolving a client's target and connecting to it, within the rules.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};

use super::answer::{Refusal, Status};
use super::rules::{Permitted, Rules};
use crate::metrics::Refused;
use crate::sources::Sources;
use crate::target::{Target, look_up};

/// How long looking up a name and connecting may take in all.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long connecting to one address may take.
const ATTEMPT: Duration = Duration::from_secs(10);
/// Most permitted addresses of a name that are tried.
const MOST_TRIED: usize = 16;
/// Most names that are looked up at a time. Each takes a thread while the system's resolver waits; tokio has 512.
const MOST_LOOKUPS: usize = 256;

/// Why a target could not be reached.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    /// No rule covers the target.
    #[error("{0}: no rule of the gateway (--forward) allows it")]
    Denied(Target),
    /// A rule may cover the name, but none covers any of its addresses.
    #[error("{0}: no rule of the gateway (--forward) allows the addresses of this name")]
    DeniedAddresses(Target),
    /// The name has no address.
    #[error("{0}: the name is not known: {1}")]
    Unknown(Target, io::Error),
    /// The name was not found in time.
    #[error("{0}: the name was not found in time")]
    LookupTimeout(Target),
    /// The last address that was tried failed.
    #[error("{0}: cannot connect to {1}: {2}")]
    Unreachable(Target, SocketAddr, io::Error),
    /// The last address that was tried did not answer.
    #[error("{0}: {1} did not answer in time")]
    Timeout(Target, SocketAddr),
}

impl DialError {
    /// The reason for the metrics.
    pub(super) fn counted(&self) -> Refused {
        match self {
            Self::Denied(_) | Self::DeniedAddresses(_) => Refused::Rule,
            _ => Refused::Unreachable,
        }
    }

    /// The answer to the client. It does not contain the addresses of a name.
    pub(super) fn refusal(&self) -> Refusal {
        let (status, error) = match self {
            Self::Denied(_) => (Status::Forbidden, "http_request_denied"),
            Self::DeniedAddresses(_) => (Status::Forbidden, "destination_ip_prohibited"),
            Self::Unknown(..) => (Status::BadGateway, "dns_error"),
            Self::LookupTimeout(_) => (Status::GatewayTimeout, "dns_timeout"),
            Self::Timeout(..) => (Status::GatewayTimeout, "connection_timeout"),
            Self::Unreachable(_, _, e) => match e.kind() {
                io::ErrorKind::ConnectionRefused => (Status::BadGateway, "connection_refused"),
                io::ErrorKind::TimedOut => (Status::GatewayTimeout, "connection_timeout"),
                _ => (Status::BadGateway, "destination_ip_unroutable"),
            },
        };
        let text = match self {
            Self::Unreachable(target, _, e) => format!("{target}: cannot connect: {}", e.kind()),
            Self::Timeout(target, _) => format!("{target}: no answer in time"),
            Self::Unknown(target, _) => format!("{target}: the name is not known"),
            e => e.to_string(),
        };
        Refusal {
            status,
            error: Some(error),
            text,
        }
    }
}

/// Looks up names with the system's resolver, a limited number at a time.
#[derive(Clone, Debug)]
pub(super) struct Lookups(Arc<Semaphore>);

impl Default for Lookups {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MOST_LOOKUPS)))
    }
}

impl Lookups {
    async fn addresses(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let permit = self.0.clone().acquire_owned().await;
        let permit = permit.map_err(io::Error::other)?;
        look_up(name, port, permit).await
    }
}

/// Connects to the target, at the first of its permitted addresses that answers. The addresses share the time that
/// is left, so that all are tried.
pub(super) async fn dial(
    rules: &Rules,
    lookups: &Lookups,
    sources: &Sources,
    target: &Target,
) -> Result<TcpStream, DialError> {
    let deadline = Instant::now() + PATIENCE;
    if !rules.may_allow(target) {
        return Err(DialError::Denied(target.clone()));
    }
    let found = match target {
        Target::Address(addr) => vec![*addr],
        Target::Name(name, port) => {
            let looking = timeout_at(deadline, lookups.addresses(name, *port)).await;
            let looking = looking.map_err(|_| DialError::LookupTimeout(target.clone()))?;
            looking.map_err(|e| DialError::Unknown(target.clone(), e))?
        }
    };
    let mut permitted = rules.permitted(target, found);
    permitted.truncate(MOST_TRIED);
    connect_to_any(&permitted, sources, target, deadline).await
}

/// Tries the addresses in their order, until one is connected or the deadline has passed.
async fn connect_to_any(
    permitted: &[Permitted],
    sources: &Sources,
    target: &Target,
    deadline: Instant,
) -> Result<TcpStream, DialError> {
    let mut failed = DialError::DeniedAddresses(target.clone());
    for (i, address) in permitted.iter().enumerate() {
        let left = deadline.saturating_duration_since(Instant::now());
        let others = (permitted.len() - i) as u32;
        let attempt = timeout(ATTEMPT.min(left / others), sources.connect(address.addr())).await;
        let addr = address.addr();
        failed = match attempt {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(e)) => DialError::Unreachable(target.clone(), addr, e),
            Err(_) => DialError::Timeout(target.clone(), addr),
        };
        tracing::debug!(error = %failed, "an attempt failed");
    }
    Err(failed)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    fn rules(texts: &[&str]) -> Rules {
        let list: Vec<_> = texts.iter().map(|t| t.parse().unwrap()).collect();
        Rules::from(list)
    }

    async fn dialled(texts: &[&str], target: Target) -> Result<TcpStream, DialError> {
        dial(
            &rules(texts),
            &Lookups::default(),
            &Sources::default(),
            &target,
        )
        .await
    }

    #[tokio::test]
    async fn a_name_of_loopback_is_dialled_only_if_an_address_rule_allows_it() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let target = || Target::Name("localhost".to_owned(), port);
        for texts in [
            &["*:*"][..],
            &["localhost:*"],
            &["localhost:*", "10.0.0.0/8:*"],
        ] {
            let e = dialled(texts, target()).await.unwrap_err();
            assert!(matches!(e, DialError::DeniedAddresses(_)), "{e}");
            assert_eq!(e.refusal().status, Status::Forbidden);
            assert_eq!(e.counted(), Refused::Rule);
        }
        let e = dialled(&["example.com:*"], target()).await.unwrap_err();
        assert!(matches!(e, DialError::Denied(_)), "{e}");
        // The host may have ::1 for this name, too, where nothing listens: all addresses are tried.
        let both = &["localhost:*", "127.0.0.0/8:*", "[::1]:*"];
        assert!(dialled(both, target()).await.is_ok());
    }

    #[tokio::test]
    async fn all_permitted_addresses_of_a_name_are_tried() {
        let listener = TcpListener::bind("127.0.0.9:0").await.unwrap();
        let there = listener.local_addr().unwrap();
        let target = Target::Name("a.example".to_owned(), there.port());
        let found = [7, 8, 9].map(|n| SocketAddr::from(([127, 0, 0, n], 0)));
        let connected = async |texts: &[&str]| {
            let permitted = rules(texts).permitted(&target, found);
            connect_to_any(
                &permitted,
                &Sources::default(),
                &target,
                Instant::now() + PATIENCE,
            )
            .await
        };
        let stream = connected(&["127.0.0.0/8:*"]).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), there);
        // Without a rule for the last address.
        let e = connected(&["127.0.0.7:*", "127.0.0.8:*"])
            .await
            .unwrap_err();
        assert!(matches!(e, DialError::Unreachable(..)), "{e}");
    }

    #[tokio::test]
    async fn a_target_that_refuses_and_an_unknown_name_are_different_errors() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        drop(listener);
        let e = dialled(&["127.0.0.1:*"], Target::Address(addr)).await;
        let refusal = e.unwrap_err().refusal();
        assert_eq!(refusal.error, Some("connection_refused"));
        assert_eq!(refusal.status, Status::BadGateway);
        // RFC 6761, section 6.4: names below "invalid" do not exist.
        let unknown = Target::Name("nowhere.invalid".to_owned(), 80);
        let refusal = dialled(&["*:*"], unknown).await.unwrap_err().refusal();
        assert_eq!(refusal.error, Some("dns_error"));
    }
}

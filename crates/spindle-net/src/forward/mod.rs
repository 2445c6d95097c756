//! A gateway as a forwarder: clients name their targets with CONNECT (RFC 9110, section 9.3.6), and rules say which
//! of them are reached.
//!
//! [`Forwarder`] is the gateway's side, `tunnel` the side of a connect service. Both ends speak ordinary HTTP/1.1
//! within the connection, so that any HTTP proxy client over MPTCP or TCP may take the place of a connect service.

pub(crate) mod answer;
mod dial;
pub(crate) mod head;
mod public;
mod rules;

use std::io;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream as KernelStream;
use tokio::time::{Instant, timeout_at};

pub use rules::{Rule, RuleError, Rules};

use crate::metrics::Refused;
use crate::relay::Inside;
use crate::sources::Sources;
use crate::target::Target;
use answer::Refusal;
use dial::{DialError, Lookups};
use head::{HeadError, Request, Response};

/// How long a client may take to send its request.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a gateway may take to answer. A forwarder takes 30 s at most to connect.
const ANSWER: Duration = Duration::from_secs(45);

/// Connects clients of a gateway to the targets that they name, within rules. All clones share the rules.
#[derive(Clone, Debug)]
pub struct Forwarder {
    rules: Arc<RwLock<Arc<Rules>>>,
    lookups: Lookups,
    sources: Sources,
}

/// A target that was reached.
#[derive(Debug)]
pub(crate) struct Forwarded {
    /// The connection to the target.
    pub(crate) service: KernelStream,
    /// The target as the client named it.
    pub(crate) target: Target,
    /// Bytes that followed the request at once, and were sent to the target.
    pub(crate) early: u64,
}

impl Forwarder {
    /// A forwarder to the targets that the rules allow.
    pub fn new(rules: Rules) -> Self {
        Self {
            rules: Arc::new(RwLock::new(Arc::new(rules))),
            lookups: Lookups::default(),
            sources: Sources::default(),
        }
    }

    /// The same, with targets connected to from these addresses.
    #[must_use]
    pub fn with_sources(self, sources: Sources) -> Self {
        Self { sources, ..self }
    }

    /// The addresses from which targets are connected to.
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// The rules.
    pub fn rules(&self) -> Arc<Rules> {
        let rules = self.rules.read().unwrap_or_else(PoisonError::into_inner);
        rules.clone()
    }

    /// Applies these rules to requests from now on. Open connections stay.
    pub fn replace(&self, rules: Rules) {
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
    }

    /// Reads a client's request, connects to its target and answers. A client whose request is refused receives the
    /// answer and the end of the stream. A connection without an answer is reset. A client that closes its connection
    /// before its request, as the ready connections of a connect service are closed, is not refused, so that the error has
    /// no reason.
    pub(crate) async fn accept(
        &self,
        inside: &mut Inside,
    ) -> Result<Forwarded, (Option<Refused>, io::Error)> {
        let failed = match self.reach(inside).await {
            Ok(forwarded) => return Ok(forwarded),
            Err(failed) => failed,
        };
        let answered = match failed.refusal() {
            Some(refusal) => answer::refuse(inside.stream(), &refusal).await.is_ok(),
            None => false,
        };
        // A connection that the client has closed ends in order.
        if !answered && failed.counted().is_some() {
            inside.handle().abort();
        }
        Err((failed.counted(), io::Error::other(failed)))
    }

    async fn reach(&self, inside: &mut Inside) -> Result<Forwarded, ForwardError> {
        let mut held = inside.handle().share();
        let deadline = Instant::now() + PATIENCE;
        let received = head::receive(inside.stream(), Some(&mut held), deadline).await?;
        let target = Request::parse(received.head())?.target;
        let mut service = dial::dial(&self.rules(), &self.lookups, &self.sources, &target).await?;
        answer::open(inside.stream())
            .await
            .map_err(ForwardError::Client)?;
        let early = received.rest();
        let sending = timeout_at(Instant::now() + PATIENCE, service.write_all(early));
        let sent = sending
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        sent.map_err(ForwardError::Service)?;
        Ok(Forwarded {
            service,
            early: early.len() as u64,
            target,
        })
    }
}

/// Why a client's request has led to no tunnel.
#[derive(Debug, thiserror::Error)]
enum ForwardError {
    #[error("request of a tunnel: {0}")]
    Head(#[from] HeadError),
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error("answer to the client: {0}")]
    Client(io::Error),
    #[error("first bytes to the target: {0}")]
    Service(io::Error),
}

impl ForwardError {
    /// Why the client was refused, if it was.
    fn counted(&self) -> Option<Refused> {
        match self {
            Self::Head(HeadError::Unused) => None,
            Self::Head(_) => Some(Refused::Http),
            Self::Dial(e) => Some(e.counted()),
            Self::Client(_) | Self::Service(_) => Some(Refused::Unreachable),
        }
    }

    fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Head(e) => Refusal::to_head(e),
            Self::Dial(e) => Some(e.refusal()),
            Self::Client(_) | Self::Service(_) => None,
        }
    }
}

/// Asks a gateway to connect to the target. `early` are bytes for the target that are sent with the request. Returns the
/// bytes that followed its answer at once, which are the
/// target's.
///
/// The kind of the error is that of a direct connection that fails for the same reason:
/// [`PermissionDenied`](io::ErrorKind::PermissionDenied) if the gateway does not allow the target.
pub(crate) async fn tunnel(
    inside: &mut Inside,
    target: &Target,
    early: &[u8],
) -> io::Result<Vec<u8>> {
    let request = head::request(target).ok_or_else(|| {
        let why = format!("{:?}: not the name of a host", target.to_string());
        io::Error::new(io::ErrorKind::InvalidInput, why)
    })?;
    let mut held = inside.handle().share();
    let stream = inside.stream();
    let request = [request.as_bytes(), early].concat();
    stream.write_all(&request).await?;
    stream.flush().await?;
    let received = head::receive(stream, Some(&mut held), Instant::now() + ANSWER).await;
    let received = received.map_err(|e| no_answer(target, e))?;
    let response = Response::parse(received.head()).map_err(|e| no_answer(target, e))?;
    match refused(&response) {
        None => Ok(received.rest().to_vec()),
        Some((kind, why)) => {
            let status = response.status;
            Err(io::Error::new(
                kind,
                format!("{target}: the gateway answered {status}: {why}"),
            ))
        }
    }
}

/// The error for a gateway that has not answered as a forwarder does.
fn no_answer(target: &Target, e: HeadError) -> io::Error {
    let kind = match &e {
        HeadError::Io(e) => e.kind(),
        HeadError::Late => io::ErrorKind::TimedOut,
        HeadError::Unused => io::ErrorKind::UnexpectedEof,
        _ => io::ErrorKind::InvalidData,
    };
    let why = format!("{target}: no answer of a gateway with --forward: {e}");
    io::Error::new(kind, why)
}

/// What a gateway's refusal means. `None` if the tunnel is open, as any status of 200 to 299 says (RFC 9110,
/// section 9.3.6).
fn refused(response: &Response) -> Option<(io::ErrorKind, &'static str)> {
    let error = response.error.as_deref();
    Some(match (response.status, error) {
        (200..=299, _) => return None,
        (403, _) => (io::ErrorKind::PermissionDenied, "its rules do not allow it"),
        // The gateway had given the connection up, as if it had closed it.
        (408, _) => (io::ErrorKind::UnexpectedEof, "the request came too late"),
        (502, Some("connection_refused")) => (io::ErrorKind::ConnectionRefused, "it refused"),
        (502, Some("dns_error")) => (io::ErrorKind::HostUnreachable, "the name is not known"),
        (502, _) => (io::ErrorKind::HostUnreachable, "it cannot be reached"),
        (504, _) => (io::ErrorKind::TimedOut, "it did not answer in time"),
        _ => (
            io::ErrorKind::Other,
            "want the answer of a gateway with --forward",
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateways_status_becomes_the_error_of_a_direct_connection() {
        let kind = |status, error: Option<&str>| {
            let error = error.map(str::to_owned);
            refused(&Response { status, error }).map(|r| r.0)
        };
        assert_eq!(kind(200, None), None);
        assert_eq!(kind(403, None), Some(io::ErrorKind::PermissionDenied));
        let refused = kind(502, Some("connection_refused"));
        assert_eq!(refused, Some(io::ErrorKind::ConnectionRefused));
        assert_eq!(kind(502, None), Some(io::ErrorKind::HostUnreachable));
        assert_eq!(
            kind(504, Some("dns_timeout")),
            Some(io::ErrorKind::TimedOut)
        );
        // A web server that is no proxy.
        assert_eq!(kind(405, None), Some(io::ErrorKind::Other));
        assert_eq!(kind(101, None), Some(io::ErrorKind::Other));
    }
}

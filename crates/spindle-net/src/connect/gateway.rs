//! The gateway of programs that name their targets: connections to it, and what is known about whether it answers.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use spindle_mptcp::CloseReason;

use super::{Destination, Failed, Opened, Shared, dial, dial_within};
use crate::error::NetError;
use crate::fallback::Fallback;
use crate::metrics::Refused;
use crate::service::Stage;
use crate::target::Targets;

/// How long an attempt in the background waits for an answer if programs wait without a limit: three SYNs (RFC 6298,
/// sections 2.1 and 5.5: after 0, 1 and 3 seconds) and the time until the fourth.
const ATTEMPT: Duration = Duration::from_secs(7);

/// Why a program has no connection by way of the gateway.
#[derive(Debug)]
pub(super) enum Missed {
    /// The gateway cannot be reached, so that the program's connection may be opened directly.
    Silent(Fallback, io::Error),
    /// Any other reason, or there is no other way.
    Failed(Failed),
}

impl From<Failed> for Missed {
    fn from(failed: Failed) -> Self {
        Self::Failed(failed)
    }
}

/// The gateway for one program.
pub(super) struct Gateway<'a> {
    pub(super) shared: &'a Shared,
    pub(super) via: &'a Targets,
    pub(super) fallback: Option<&'a Fallback>,
    /// Since when the program waits.
    pub(super) since: Instant,
}

impl Gateway<'_> {
    /// Opens a connection to the gateway. If there is a fallback, the program waits no longer than `patience` in all, and not
    /// at all while the gateway is known not to answer.
    pub(super) async fn dial(&self) -> Result<Opened, Missed> {
        let Self { shared, via, .. } = self;
        let Some(fallback) = self.fallback else {
            return Ok(dial(shared, via).await?);
        };
        let silent = |why| Missed::Silent(fallback.clone(), why);
        let known = || {
            let why = "the last attempts had no answer";
            silent(io::Error::new(io::ErrorKind::TimedOut, why))
        };
        if fallback.is_silent() {
            return Err(known());
        }
        let patience = shared.options.patience;
        let left = patience.map(|all| all.saturating_sub(self.since.elapsed()));
        let failed = tokio::select! {
            dialled = dial_within(shared, via, left) => match dialled {
                Ok(opened) => return Ok(opened),
                Err(failed) => failed,
            },
            () = fallback.silence() => return Err(known()),
        };
        if !is_silence(&failed) {
            return Err(failed.into());
        }
        let (_, error) = failed;
        if fallback.failed() {
            tracing::warn!(
                %via, %error,
                "the gateway cannot be reached: programs' connections are opened directly until it answers"
            );
        }
        // They were opened before.
        shared.pool.clear();
        Err(silent(error))
    }
}

/// Tries the gateway in the background while it is known not to answer, until the service stops.
pub(super) async fn watch(shared: &Arc<Shared>) -> Infallible {
    if let Destination::Programs(proxy) = &shared.options.destination
        && let (Some(via), Some(fallback)) = (&proxy.via, &proxy.fallback)
    {
        tokio::select! {
            never = fallback.watch(|| answers(shared, via)) => match never {},
            () = shared.lifecycle.reached(Stage::Draining) => {}
        }
    }
    std::future::pending().await
}

/// Whether the gateway answers, if only to refuse. A connection to it is kept ready.
async fn answers(shared: &Shared, via: &Targets) -> bool {
    let patience = shared.options.patience.unwrap_or(ATTEMPT);
    match dial_within(shared, via, Some(patience)).await {
        Ok(opened) => {
            if shared.ready_for().is_some() && shared.options.ready > 0 {
                shared.pool.add(opened);
            }
            true
        }
        Err(failed) => !is_silence(&failed),
    }
}

/// Whether nothing has answered at the gateway's addresses. The result is false if anything was received in TLS, even from
/// an attacker with a wrong certificate, and if this host lacks a resource.
fn is_silence((why, error): &Failed) -> bool {
    match why {
        Refused::Unreachable => {}
        // An alert, a wrong certificate and the end of the stream have other kinds.
        Refused::Tls => return error.kind() == io::ErrorKind::TimedOut,
        _ => return false,
    }
    let inner = error.get_ref().and_then(|e| e.downcast_ref::<NetError>());
    match inner {
        Some(NetError::TimedOut(_) | NetError::NoLocalAddress(_)) => true,
        Some(NetError::Connection { reason, .. }) => matches!(
            reason,
            CloseReason::Refused
                | CloseReason::NoRoute
                | CloseReason::ConnectTimeout
                | CloseReason::UserTimeout
        ),
        Some(_) => false,
        // The system's error: no uplink leads to the gateway, or its name is unknown.
        None => matches!(
            error.kind(),
            io::ErrorKind::NetworkUnreachable
                | io::ErrorKind::HostUnreachable
                | io::ErrorKind::NetworkDown
                | io::ErrorKind::AddrNotAvailable
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Target;

    #[test]
    fn a_gateway_is_silent_only_if_nothing_has_answered_at_its_addresses() {
        let peer = "192.0.2.1:443".parse().unwrap();
        let targets = Targets::from(Target::Address(peer));
        let failed = |e: NetError| is_silence(&(Refused::Unreachable, e.into()));
        let ended = |reason| failed(NetError::Connection { peer, reason });
        assert!(failed(NetError::TimedOut(targets.clone())));
        assert!(failed(NetError::NoLocalAddress(targets)));
        assert!(ended(CloseReason::NoRoute) && ended(CloseReason::Refused));
        assert!(!ended(CloseReason::Reset) && !ended(CloseReason::MemoryPressure));
        assert!(!failed(NetError::Stopped(None)));
        let system = |kind: io::ErrorKind| failed(NetError::system("no path")(kind.into()));
        assert!(system(io::ErrorKind::NetworkUnreachable));
        assert!(!system(io::ErrorKind::PermissionDenied));
        let tls = |kind: io::ErrorKind| is_silence(&(Refused::Tls, kind.into()));
        assert!(tls(io::ErrorKind::TimedOut));
        // rustls reports wrong certificates and alerts as InvalidData, and a peer that closes as UnexpectedEof.
        assert!(!tls(io::ErrorKind::InvalidData) && !tls(io::ErrorKind::UnexpectedEof));
        assert!(!tls(io::ErrorKind::ConnectionReset));
        let connections = NetError::Closed;
        assert!(!is_silence(&(Refused::Connections, connections.into())));
    }
}

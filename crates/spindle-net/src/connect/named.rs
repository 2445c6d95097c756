//! Connections of programs that name their targets: asking a gateway for a tunnel, on a ready connection if there is one,
//! and answering the program.

use std::io;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream as KernelStream;
use tokio::time::{sleep, timeout};

use super::direct::Direct;
use super::gateway::{Gateway, Missed};
use super::{Failed, Opened, Shared, Way, dial, unreachable};
use crate::forward;
use crate::handshake::expired;
use crate::metrics::Refused;
use crate::proxy::{self, AnswerEarly, Asked, Proxy};
use crate::redirect::{self, RedirectedError};
use crate::relay;
use crate::socket::ConnectionHandle;
use crate::target::Target;

/// How long the first bytes of a connection may take to be accepted.
const PATIENCE: Duration = Duration::from_secs(10);
/// A ready connection is given up if a request on it has not been acknowledged for this long, which several losses in
/// sequence do not take.
const UNHEARD: Duration = Duration::from_secs(1);
/// A program that speaks first does so within this time of the answer. It runs on this host, or near it.
const SPEAKS_FIRST: Duration = Duration::from_millis(10);
/// Most bytes of a program that are sent with the request: a record of TLS (RFC 8446, section 5.1).
const MOST_EARLY: usize = 16 << 10;

/// Opens a connection to the target that the program names, and answers the program.
pub(super) async fn open(
    shared: &Shared,
    proxy: &Proxy,
    program: &mut KernelStream,
) -> Result<Way, Failed> {
    let asked = proxy::accept(proxy, program).await;
    let asked = asked.map_err(|e| (e.counted(), io::Error::other(e)))?;
    if is_own(proxy, program) {
        return Err((Refused::Redirect, io::Error::other(RedirectedError::Own)));
    }
    let opened = match &proxy.via {
        None => {
            let opened = dial(shared, &asked.target.clone().into()).await;
            opened.map(|o| (o, Vec::new())).map_err(Missed::from)
        }
        Some(via) => {
            let gateway = Gateway {
                shared,
                via,
                fallback: proxy.fallback.as_ref(),
                since: Instant::now(),
            };
            if answers_early(shared, proxy, &asked.target) {
                return open_early(&gateway, proxy, &asked, program).await;
            }
            tunnel(&gateway, &asked.target, &[]).await
        }
    };
    let failed = match opened {
        Ok((opened, first)) => {
            let opened = hand_over(proxy, opened, &first, &asked, program).await;
            return opened.map(Way::Spindle);
        }
        Err(Missed::Silent(fallback, why)) => {
            let redirected = may_be_redirected(proxy);
            let direct = Direct::open(shared, &fallback, &asked.target, redirected, why).await;
            match direct {
                Ok(direct) => return hand_over_direct(direct, &asked, program).await,
                Err(failed) => failed,
            }
        }
        Err(Missed::Failed(failed)) => failed,
    };
    // The program may be gone. Its request has failed in any case.
    let _ = asked.answer(program, Err(&failed.1)).await;
    Err(failed)
}

/// Whether rules of this host may redirect direct connections back to this service. Programs of another network namespace
/// are no reason for such rules.
fn may_be_redirected(proxy: &Proxy) -> bool {
    proxy.redirected && proxy.names.is_none()
}

/// Whether the program is this service itself, whose direct connection was redirected to it.
fn is_own(proxy: &Proxy, program: &KernelStream) -> bool {
    let Some(fallback) = proxy.fallback.as_ref().filter(|_| may_be_redirected(proxy)) else {
        return false;
    };
    let own = |peer| fallback.is_own_port(peer) && redirect::is_own(peer.ip().to_canonical());
    program.peer_addr().is_ok_and(own)
}

/// Answers the program, and passes on what both sides have sent already.
async fn hand_over(
    proxy: &Proxy,
    mut opened: Opened,
    first: &[u8],
    asked: &Asked,
    program: &mut KernelStream,
) -> Result<Opened, Failed> {
    let reached = proxy.via.is_none().then_some(opened.reached);
    let stream = opened.inside.stream();
    let handing_over = async {
        asked.answer(program, Ok(reached)).await?;
        program.write_all(first).await?;
        stream.write_all(&asked.early).await?;
        stream.flush().await
    };
    let handed = timeout(PATIENCE, handing_over).await;
    let handed = handed.unwrap_or_else(|_| Err(expired("first bytes")));
    if let Err(e) = handed {
        opened.inside.handle().abort();
        return Err(unreachable(e));
    }
    opened.moved = (first.len() as u64, asked.early.len() as u64);
    Ok(opened)
}

/// The same for a direct connection.
async fn hand_over_direct(
    mut direct: Direct,
    asked: &Asked,
    program: &mut KernelStream,
) -> Result<Way, Failed> {
    let handing_over = async {
        asked.answer(program, Ok(Some(direct.reached()))).await?;
        direct.send(&asked.early).await
    };
    let handed = timeout(PATIENCE, handing_over).await;
    let handed = handed.unwrap_or_else(|_| Err(expired("first bytes")));
    handed.map_err(unreachable)?;
    Ok(Way::Direct(direct))
}

/// Whether a program with this target is answered before the gateway has answered. With a fallback, a known target is no
/// reason: if the gateway turns out to be silent, the program's bytes may have arrived, and cannot be sent directly.
fn answers_early(shared: &Shared, proxy: &Proxy, target: &Target) -> bool {
    match proxy.answer_early {
        AnswerEarly::None => false,
        AnswerEarly::Known if proxy.fallback.is_some() => false,
        AnswerEarly::Known => shared.reached.contains(target, Instant::now()),
        AnswerEarly::All => true,
    }
}

/// Opens a connection to the target by way of the gateway: on a ready connection if there is one, otherwise on a new one.
/// The program's first bytes, `early`, are sent with the request. Returns the first bytes of the target, too.
async fn tunnel(
    gateway: &Gateway<'_>,
    target: &Target,
    early: &[u8],
) -> Result<(Opened, Vec<u8>), Missed> {
    let shared = gateway.shared;
    if let Some(mut ready) = shared.pool.take()
        && let Some(asked) = ask_ready(shared, &mut ready, target, early).await
    {
        return Ok(named(shared, ready, target, asked)?);
    }
    let mut opened = gateway.dial().await?;
    let asked = forward::tunnel(&mut opened.inside, target, early).await;
    Ok(named(shared, opened, target, asked)?)
}

/// Asks for the target on a connection that was ready. If the connection no longer works, it is reset, and the other ready
/// ones are dropped. The result is `None` then if the request may be sent again.
async fn ask_ready(
    shared: &Shared,
    ready: &mut Opened,
    target: &Target,
    early: &[u8],
) -> Option<io::Result<Vec<u8>>> {
    let handle = ready.inside.handle().clone();
    let before = handle.written();
    let patience = shared.options.patience.unwrap_or(PATIENCE);
    let wait = match early {
        [] => UNHEARD,
        _ => patience.max(UNHEARD),
    };
    let (asked, silent) = tokio::select! {
        asked = forward::tunnel(&mut ready.inside, target, early) => (asked, false),
        () = unheard(&handle, wait) => (Err(io::ErrorKind::TimedOut.into()), true),
    };
    let error = match asked {
        Err(error) if silent || is_stale(&error) => error,
        asked => return Some(asked),
    };
    tracing::debug!(%error, "a ready connection no longer works");
    // If the gateway is silent, the program's bytes may have arrived.
    let again = early.is_empty() || !silent && is_unprocessed(&handle, before, &error).await;
    handle.abort();
    shared.pool.clear();
    (!again).then_some(Err(error))
}

/// Whether the gateway has not sent the program's first bytes to the target, as far as this end can know: it has closed the
/// connection without an answer, or has reset it and acknowledged no byte of the request. The request begins after the
/// first `before` bytes of the connection.
async fn is_unprocessed(handle: &ConnectionHandle, before: u64, error: &io::Error) -> bool {
    let info = handle.connection_info().await;
    error.kind() == io::ErrorKind::UnexpectedEof || info.is_ok_and(|i| i.acknowledged <= before)
}

/// Answers the program before the gateway has answered, and sends the program's first bytes with the request for the
/// target. If the target is not reached, the program's connection is reset.
async fn open_early(
    gateway: &Gateway<'_>,
    proxy: &Proxy,
    asked: &Asked,
    program: &mut KernelStream,
) -> Result<Way, Failed> {
    let early = first_bytes(asked, program).await.map_err(unreachable)?;
    let opened = match tunnel(gateway, &asked.target, &early).await {
        Ok(opened) => Ok(opened),
        Err(Missed::Silent(fallback, why)) => {
            let redirected = may_be_redirected(proxy);
            let direct =
                Direct::open(gateway.shared, &fallback, &asked.target, redirected, why).await;
            let mut direct = direct.inspect_err(|_| relay::reset(program))?;
            let sent = timeout(PATIENCE, direct.send(&early)).await;
            let sent = sent.unwrap_or_else(|_| Err(expired("first bytes")));
            sent.map_err(unreachable)
                .inspect_err(|_| relay::reset(program))?;
            return Ok(Way::Direct(direct));
        }
        Err(Missed::Failed(failed)) => Err(failed),
    };
    let (mut opened, first) = opened.inspect_err(|_| relay::reset(program))?;
    let handed = timeout(PATIENCE, program.write_all(&first)).await;
    if let Err(e) = handed.unwrap_or_else(|_| Err(expired("first bytes"))) {
        opened.inside.handle().abort();
        return Err(unreachable(e));
    }
    opened.moved = (first.len() as u64, early.len() as u64);
    Ok(Way::Spindle(opened))
}

/// Answers the program, and returns what it sends at once.
async fn first_bytes(asked: &Asked, program: &mut KernelStream) -> io::Result<Vec<u8>> {
    asked.answer(program, Ok(None)).await?;
    let mut early = asked.early.clone();
    if early.is_empty() {
        early.reserve_exact(MOST_EARLY);
        // A program that waits for the target's first bytes sends nothing.
        if let Ok(read) = timeout(SPEAKS_FIRST, program.read_buf(&mut early)).await {
            read?;
        }
    }
    Ok(early)
}

/// The connection to the target if the gateway has opened a tunnel, with the target's first bytes.
fn named(
    shared: &Shared,
    mut opened: Opened,
    target: &Target,
    asked: io::Result<Vec<u8>>,
) -> Result<(Opened, Vec<u8>), Failed> {
    match &asked {
        Ok(_) => shared.reached.add(target, Instant::now()),
        Err(_) => shared.reached.remove(target),
    }
    match asked {
        Ok(first) => {
            opened.target = target.to_string();
            Ok((opened, first))
        }
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Err((Refused::Rule, e)),
        Err(e) => Err(unreachable(e)),
    }
}

/// Whether a request on a ready connection failed because the gateway had closed the connection, or has forgotten it.
fn is_stale(e: &io::Error) -> bool {
    matches!(
        e.kind(),
        io::ErrorKind::UnexpectedEof
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::NotConnected
    )
}

/// Waits until the gateway should have acknowledged the request, and returns if it has not.
async fn unheard(handle: &ConnectionHandle, wait: Duration) {
    sleep(wait).await;
    let info = handle.connection_info().await;
    if info.is_ok_and(|i| i.acknowledged >= i.written) {
        std::future::pending().await
    }
}

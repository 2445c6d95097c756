//! A gateway: relays the connections of Spindle's clients, over MPTCP or plain TCP, to a service that speaks
//! ordinary TCP, or to the targets that the clients name.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use spindle_mptcp::Config;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream as KernelStream;
use tokio::task::JoinSet;
use tracing::field::display;

use crate::backends::Backends;
use crate::error::NetError;
use crate::forward::{Forwarded, Forwarder};
use crate::handshake::secured;
use crate::limits;
use crate::metrics::{Metrics, Refused};
use crate::proxy_protocol;
use crate::relay::{self, Asking, Ended, Inside, RelayOptions};
use crate::service::{self, Lifecycle, Stage, Summary};
use crate::socket::{ListenOptions, Network, TcpListener, TcpStream};
use crate::target::Target;
use crate::tls::{Guest, ServerTls};

/// Most connections that wait for the gateway to accept them.
const BACKLOG: usize = 4096;

/// What is behind a gateway.
#[derive(Clone, Debug)]
pub enum Backend {
    /// The back ends of a service.
    Service(Backends),
    /// The targets that clients name, within rules.
    Forward(Forwarder),
}

impl From<SocketAddr> for Backend {
    fn from(service: SocketAddr) -> Self {
        Self::Service(service.into())
    }
}

/// Options of a gateway.
#[derive(Clone, Debug)]
pub struct GatewayOptions {
    /// Addresses and ports to listen on, as the stack sees them.
    pub listen: Vec<SocketAddr>,
    /// Where connections go.
    pub to: Backend,
    /// Configuration of each connection ([`wire_config`](crate::wire_config)).
    pub config: Arc<Config>,
    /// Further addresses to announce to clients.
    pub announce: Vec<(IpAddr, Option<u16>)>,
    /// Listening addresses as clients know them, if those differ: pairs of the stack's address and the clients'
    /// address. The PROXY protocol reports the clients' address.
    pub outside: Vec<(SocketAddr, SocketAddr)>,
    /// Whether to report the client's address to the service (PROXY protocol, version 2). It does not apply to
    /// targets that clients name.
    pub proxy_protocol: bool,
    /// Where ended and refused connections are counted.
    pub metrics: Option<Metrics>,
    /// TLS with the clients.
    pub tls: Option<ServerTls>,
    /// Most connections at a time. Further ones are reset.
    pub max_connections: usize,
    /// Connections over which no bytes have passed for this long are reset. `None` disables it.
    pub idle_timeout: Option<Duration>,
    /// Like `idle_timeout`, for connections of which one direction is closed.
    pub half_close_timeout: Option<Duration>,
    /// How long open connections may take to end after draining began.
    pub drain: Duration,
}

impl GatewayOptions {
    /// The defaults: no announced addresses, no PROXY protocol, no TLS, 10 000 connections, the timeouts of
    /// [`limits`], 30 s to drain.
    pub fn new(listen: Vec<SocketAddr>, to: impl Into<Backend>, config: Arc<Config>) -> Self {
        Self {
            listen,
            to: to.into(),
            config,
            announce: Vec::new(),
            outside: Vec::new(),
            proxy_protocol: false,
            metrics: None,
            tls: None,
            max_connections: crate::limits::Limits::default().max_connections,
            idle_timeout: Some(limits::IDLE_TIMEOUT),
            half_close_timeout: Some(limits::HALF_CLOSE_TIMEOUT),
            drain: Duration::from_secs(30),
        }
    }
}

/// A gateway that listens.
#[derive(Debug)]
pub struct Gateway {
    network: Network,
    listeners: Vec<TcpListener>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    options: GatewayOptions,
    lifecycle: Lifecycle,
}

impl Gateway {
    /// Listens on all addresses.
    ///
    /// # Errors
    /// The errors of [`Network::listen`].
    pub async fn bind(network: &Network, options: GatewayOptions) -> Result<Self, NetError> {
        let mut listeners = Vec::new();
        for addr in &options.listen {
            let listen = ListenOptions {
                config: options.config.clone(),
                announce: options.announce.clone(),
                backlog: BACKLOG,
            };
            listeners.push(network.listen(*addr, listen).await?);
        }
        Ok(Self {
            network: network.clone(),
            listeners,
            shared: Arc::new(Shared {
                options,
                lifecycle: Lifecycle::default(),
            }),
        })
    }

    /// The addresses that the gateway listens on, in the order of the options.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().map(TcpListener::local_addr).collect()
    }

    /// The switch that stops the gateway.
    pub fn lifecycle(&self) -> Lifecycle {
        self.shared.lifecycle.clone()
    }

    /// Relays connections until the switch is set and all connections have ended.
    ///
    /// # Errors
    /// [`NetError::Stopped`] if the data path ended.
    pub async fn serve(self) -> Result<Summary, NetError> {
        let Self {
            network,
            mut listeners,
            shared,
        } = self;
        let options = &shared.options;
        let limits = (options.max_connections, options.drain);
        let watched = match &options.to {
            Backend::Service(backends) => Some(backends.clone()),
            Backend::Forward(_) => None,
        };
        // The probes end with the service.
        let mut probes = JoinSet::new();
        if let Some(backends) = watched {
            if let Some(metrics) = &options.metrics {
                let observed = backends.clone();
                metrics.backends(move || observed.statuses());
            }
            probes.spawn(async move { match backends.watch().await {} });
        }
        let mut first = 0;
        let accept = move |cx: &mut Context<'_>| poll_any(&mut listeners, &mut first, cx);
        service::serve(
            &network,
            &shared.lifecycle,
            limits,
            accept,
            |stream| serve_one(shared.clone(), stream),
            |stream: TcpStream| turn_away(&shared, &stream),
        )
        .await
    }
}

/// Accepts from all listeners in turn.
fn poll_any(
    listeners: &mut [TcpListener],
    first: &mut usize,
    cx: &mut Context<'_>,
) -> Poll<Result<TcpStream, NetError>> {
    let count = listeners.len().max(1);
    for i in 0..listeners.len() {
        let at = (*first + i) % count;
        if let Poll::Ready(accepted) = listeners[at].poll_accept(cx) {
            *first = at + 1;
            return Poll::Ready(accepted.map(|(stream, _)| stream));
        }
    }
    Poll::Pending
}

/// Refuses a connection because as many connections as allowed are open.
fn turn_away(shared: &Shared, stream: &TcpStream) {
    let (id, peer, outside) = (stream.id(), stream.peer_addr(), stream.outside_addr());
    tracing::warn!(connection = id, %peer, %outside, "refused: as many connections as allowed are open");
    if let Some(m) = &shared.options.metrics {
        m.refused(Refused::Connections);
    }
    stream.abort();
}

/// Relays one connection. Returns whether it was cut off because the gateway stops.
async fn serve_one(shared: Arc<Shared>, stream: TcpStream) -> bool {
    let begin = Instant::now();
    let (id, peer, outside) = (stream.id(), stream.peer_addr(), stream.outside_addr());
    let handle = stream.handle();
    let guest = shared.options.tls.as_ref().map(|tls| tls.guest(&stream));
    let ready = tokio::select! {
        ready = open(&shared, stream, guest.as_ref()) => ready,
        // Abort before `open` is dropped: dropping the stream would close the connection in order.
        () = async { shared.lifecycle.reached(Stage::Aborting).await; handle.abort() } => {
            Err((Some(Refused::Unreachable), io::ErrorKind::Interrupted.into()))
        }
    };
    let opened = match ready {
        Ok(opened) => opened,
        Err((None, _)) => {
            tracing::debug!(connection = id, %peer, %outside, "closed without a request");
            return false;
        }
        Err((Some(why), e)) => {
            if let Some(m) = &shared.options.metrics {
                m.refused(why);
            }
            tracing::warn!(connection = id, %peer, %outside, error = %e, "refused");
            return shared.lifecycle.stage() == Stage::Aborting;
        }
    };
    let target = opened.target.as_ref().map(display);
    let client = guest.as_ref().and_then(Guest::name);
    tracing::debug!(connection = id, %peer, %outside, client, target, "open");
    let options = RelayOptions {
        asking: Asking::Inside,
        idle: shared.options.idle_timeout,
        half_closed: shared.options.half_close_timeout,
        metrics: shared.options.metrics.clone(),
    };
    let report = relay::relay(opened.inside, opened.service, options, &shared.lifecycle).await;
    let info = handle.connection_info().await.ok();
    tracing::info!(
        connection = id,
        %peer,
        %outside,
        client,
        target,
        from_client = report.outward + opened.early,
        to_client = report.inward,
        duration_ms = begin.elapsed().as_millis() as u64,
        ended = %report.ended,
        error = report.error.map(|e| e.to_string()),
        multipath = info.as_ref().map(|i| i.multipath),
        subflows = info.as_ref().map(|i| i.subflows.len()),
        "closed"
    );
    report.ended == Ended::Aborted
}

/// Both sides of a connection that is ready to be relayed.
struct Opened {
    inside: Inside,
    service: KernelStream,
    /// The target that the client named.
    target: Option<Target>,
    /// Bytes of the client that the other side has received already.
    early: u64,
}

/// Whether a TLS handshake failed because the client went away. A client that stops is not refused.
fn left(e: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(e.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

/// Prepares both sides: TLS with the client, then the connection to the service with the PROXY header, or to the
/// target that the client names.
async fn open(
    shared: &Shared,
    stream: TcpStream,
    guest: Option<&Guest>,
) -> Result<Opened, (Option<Refused>, io::Error)> {
    let ends = (stream.outside_addr(), stream.local_addr());
    let mut inside = match shared.options.tls.as_ref().zip(guest) {
        None => Inside::Plain(stream),
        Some((tls, guest)) => secured(stream, &shared.lifecycle, |s| tls.accept_guest(s, guest))
            .await
            .map_err(|e| ((!left(&e)).then_some(Refused::Tls), e))?,
    };
    let backends = match &shared.options.to {
        Backend::Service(backends) => backends,
        Backend::Forward(forwarder) => {
            let Forwarded {
                service,
                target,
                early,
            } = forwarder.accept(&mut inside).await?;
            return Ok(Opened {
                inside,
                service,
                target: Some(target),
                early,
            });
        }
    };
    match service(&shared.options, backends, ends).await {
        Ok(service) => Ok(Opened {
            inside,
            service,
            target: None,
            early: 0,
        }),
        Err(e) => {
            // Abort before the stream is dropped, since dropping it would close the connection in order.
            inside.handle().abort();
            Err((Some(Refused::Unreachable), e))
        }
    }
}

/// The address by which a client at `source` knows the stack's address `local`.
fn known_as(
    outside: &[(SocketAddr, SocketAddr)],
    source: SocketAddr,
    local: SocketAddr,
) -> SocketAddr {
    let known = || outside.iter().filter(|o| o.0 == local).map(|o| o.1);
    let of_family = known().find(|o| o.is_ipv4() == source.is_ipv4());
    of_family.or(known().next()).unwrap_or(local)
}

async fn service(
    options: &GatewayOptions,
    backends: &Backends,
    (source, destination): (SocketAddr, SocketAddr),
) -> io::Result<KernelStream> {
    let mut service = backends.connect().await?;
    if options.proxy_protocol {
        let known = known_as(&options.outside, source, destination);
        let header = proxy_protocol::header(source, known);
        service.write_all(&header).await?;
    }
    Ok(service)
}

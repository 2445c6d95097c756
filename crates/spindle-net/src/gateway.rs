//! A gateway: relays the connections of Spindle's clients, over MPTCP or plain TCP, to a service that speaks
//! ordinary TCP, or to the targets that the clients name.

mod services;

use std::fmt;
use std::io;
use std::net::SocketAddr;
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
use services::Admitted;
pub use services::{Service, ServiceHandle};

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

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service(backends) => backends.fmt(f),
            Self::Forward(forwarder) => write!(f, "forward {}", forwarder.rules()),
        }
    }
}

impl From<SocketAddr> for Backend {
    fn from(service: SocketAddr) -> Self {
        Self::Service(service.into())
    }
}

/// Options of a gateway.
#[derive(Clone, Debug)]
pub struct GatewayOptions {
    /// The services. Everything else is common to them.
    pub services: Vec<Service>,
    /// Configuration of each connection ([`wire_config`](crate::wire_config)).
    pub config: Arc<Config>,
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
    /// One service, with the defaults of [`Service::new`].
    pub fn new(listen: Vec<SocketAddr>, to: impl Into<Backend>, config: Arc<Config>) -> Self {
        Self::of_services(vec![Service::new(listen, to)], config)
    }

    /// The defaults: no TLS, 10 000 connections, the timeouts of [`limits`], 30 s to drain.
    pub fn of_services(services: Vec<Service>, config: Arc<Config>) -> Self {
        Self {
            services,
            config,
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
    /// The listeners, each with the index of its service.
    listeners: Vec<(usize, TcpListener)>,
    handles: Vec<ServiceHandle>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    options: GatewayOptions,
    /// The metrics of each service.
    metrics: Vec<Option<Metrics>>,
    lifecycle: Lifecycle,
}

impl Gateway {
    /// Listens on all addresses of all services.
    ///
    /// # Errors
    /// The errors of [`Network::listen`].
    pub async fn bind(network: &Network, options: GatewayOptions) -> Result<Self, NetError> {
        let (mut listeners, mut handles, mut all_metrics) = (Vec::new(), Vec::new(), Vec::new());
        for (index, service) in options.services.iter().enumerate() {
            let metrics = options.metrics_of(service);
            let bound = bind_service(network, &options, service, metrics.as_ref()).await?;
            let handle = ServiceHandle::new(network, service.clone(), &bound, metrics.clone());
            handles.push(handle);
            all_metrics.push(metrics);
            listeners.extend(bound.into_iter().map(|l| (index, l)));
        }
        Ok(Self {
            network: network.clone(),
            listeners,
            handles,
            shared: Arc::new(Shared {
                options,
                metrics: all_metrics,
                lifecycle: Lifecycle::default(),
            }),
        })
    }

    /// The addresses that the gateway listens on, in the order of the options.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let addresses = self.listeners.iter().map(|(_, l)| l.local_addr());
        addresses.collect()
    }

    /// The services, in the order of the options.
    pub fn services(&self) -> Vec<ServiceHandle> {
        self.handles.clone()
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
            ..
        } = self;
        let options = &shared.options;
        let limits = (options.max_connections, options.drain);
        options.report_backends();
        // The probes end with the service.
        let mut probes = JoinSet::new();
        for backends in options.services.iter().filter_map(Service::backends) {
            let backends = backends.clone();
            probes.spawn(async move { match backends.watch().await {} });
        }
        let mut first = 0;
        let accept = move |cx: &mut Context<'_>| poll_any(&mut listeners, &mut first, cx);
        service::serve(
            &network,
            &shared.lifecycle,
            limits,
            accept,
            |(index, stream)| serve_one(shared.clone(), index, stream),
            |(index, stream): (usize, TcpStream)| turn_away(&shared, index, &stream),
        )
        .await
    }
}

impl GatewayOptions {
    /// The metrics of a service: those of the gateway, with the service's name if there are several.
    fn metrics_of(&self, service: &Service) -> Option<Metrics> {
        let metrics = self.metrics.as_ref()?;
        Some(match self.services.len() {
            1 => metrics.clone(),
            _ => metrics.of_service(service.name.clone()),
        })
    }

    /// Reports the states of all back ends.
    fn report_backends(&self) {
        let Some(metrics) = &self.metrics else {
            return;
        };
        let several = self.services.len() > 1;
        let observed = self.services.iter().filter_map(|s| {
            let name = several.then(|| s.name.clone());
            Some((name, s.backends()?.clone()))
        });
        let observed: Vec<_> = observed.collect();
        if observed.is_empty() {
            return;
        }
        metrics.backends(move || {
            let of = |(name, backends): &(Option<Arc<str>>, Backends)| {
                let name = name.clone();
                let states = backends.statuses().into_iter();
                states
                    .map(move |state| (name.clone(), state))
                    .collect::<Vec<_>>()
            };
            observed.iter().flat_map(of).collect()
        });
    }
}

/// Listens on the addresses of a service.
async fn bind_service(
    network: &Network,
    options: &GatewayOptions,
    service: &Service,
    metrics: Option<&Metrics>,
) -> Result<Vec<TcpListener>, NetError> {
    let mut listeners = Vec::new();
    for addr in &service.listen {
        let admitted = Admitted {
            networks: service.networks.clone(),
            metrics: metrics.cloned(),
        };
        let listen = ListenOptions {
            config: options.config.clone(),
            announce: service.announce.clone(),
            backlog: BACKLOG,
            admission: admitted.rule(),
        };
        listeners.push(network.listen(*addr, listen).await?);
    }
    Ok(listeners)
}

/// Accepts from all listeners in turn. Returns the index of the service with the connection.
fn poll_any(
    listeners: &mut [(usize, TcpListener)],
    first: &mut usize,
    cx: &mut Context<'_>,
) -> Poll<Result<(usize, TcpStream), NetError>> {
    let count = listeners.len().max(1);
    for i in 0..listeners.len() {
        let at = (*first + i) % count;
        let (index, listener) = &mut listeners[at];
        if let Poll::Ready(accepted) = listener.poll_accept(cx) {
            *first = at + 1;
            return Poll::Ready(accepted.map(|(stream, _)| (*index, stream)));
        }
    }
    Poll::Pending
}

impl Shared {
    /// The name of a service, if there are several.
    fn shown_name(&self, index: usize) -> Option<&str> {
        let services = &self.options.services;
        (services.len() > 1).then(|| &*services[index].name)
    }
}

/// Refuses a connection because as many connections as allowed are open.
fn turn_away(shared: &Shared, index: usize, stream: &TcpStream) {
    let (id, peer, outside) = (stream.id(), stream.peer_addr(), stream.outside_addr());
    let service = shared.shown_name(index);
    tracing::warn!(connection = id, service, %peer, %outside, "refused: as many connections as allowed are open");
    if let Some(m) = &shared.metrics[index] {
        m.refused(Refused::Connections);
    }
    stream.abort();
}

/// Relays one connection. Returns whether it was cut off because the gateway stops.
async fn serve_one(shared: Arc<Shared>, index: usize, stream: TcpStream) -> bool {
    let begin = Instant::now();
    let (id, peer, outside) = (stream.id(), stream.peer_addr(), stream.outside_addr());
    let (service, metrics) = (shared.shown_name(index), &shared.metrics[index]);
    let _open = metrics.as_ref().map(Metrics::open);
    let handle = stream.handle();
    let guest = shared.options.tls.as_ref().map(|tls| tls.guest(&stream));
    let ready = tokio::select! {
        ready = open(&shared, index, stream, guest.as_ref()) => ready,
        // Abort before `open` is dropped: dropping the stream would close the connection in order.
        () = async { shared.lifecycle.reached(Stage::Aborting).await; handle.abort() } => {
            Err((Some(Refused::Unreachable), io::ErrorKind::Interrupted.into()))
        }
    };
    let opened = match ready {
        Ok(opened) => opened,
        Err((None, _)) => {
            tracing::debug!(connection = id, service, %peer, %outside, "closed without a request");
            return false;
        }
        Err((Some(why), e)) => {
            if let Some(m) = metrics {
                m.refused(why);
            }
            tracing::warn!(connection = id, service, %peer, %outside, error = %e, "refused");
            return shared.lifecycle.stage() == Stage::Aborting;
        }
    };
    let target = opened.target.as_ref().map(display);
    let client = guest.as_ref().and_then(Guest::name);
    tracing::debug!(connection = id, service, %peer, %outside, client, target, "open");
    let options = RelayOptions {
        asking: Asking::Inside,
        idle: shared.options.idle_timeout,
        half_closed: shared.options.half_close_timeout,
        metrics: metrics.clone(),
    };
    let report = relay::relay(opened.inside, opened.service, options, &shared.lifecycle).await;
    let info = handle.connection_info().await.ok();
    tracing::info!(
        connection = id,
        service,
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
    index: usize,
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
    let behind = &shared.options.services[index];
    let backends = match &behind.to {
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
    match service(behind, backends, ends).await {
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
    behind: &Service,
    backends: &Backends,
    (source, destination): (SocketAddr, SocketAddr),
) -> io::Result<KernelStream> {
    let mut service = backends.connect().await?;
    if behind.proxy_protocol {
        let known = known_as(&behind.outside, source, destination);
        let header = proxy_protocol::header(source, known);
        service.write_all(&header).await?;
    }
    Ok(service)
}

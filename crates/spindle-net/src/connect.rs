//! The client side for programs that do not know Spindle: a local TCP port whose connections are relayed over
//! Spindle, to a gateway or to any server.

mod direct;
mod gateway;
mod named;
mod reached;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use socket2::SockRef;
use spindle_mptcp::{Config, StackError};
use tokio::net::{TcpListener as KernelListener, TcpStream as KernelStream};

use self::direct::Direct;
use self::reached::Reached;
use crate::dial;
pub use crate::dial::Sources;
use crate::error::NetError;
use crate::handshake::secured;
use crate::metrics::{Metrics, Refused};
use crate::pool::Pool;
use crate::proxy::Proxy;
use crate::relay::{self, Asking, Ended, Inside, RelayOptions};
use crate::service::{self, Lifecycle, Stage, Summary};
use crate::setup::{Listening, RedirectError, RedirectOptions, Redirection};
use crate::socket::{Network, TcpStream};
use crate::target::Targets;
use crate::tls::ClientTls;
use crate::trial;

/// Where a connect service opens its connections to.
#[derive(Clone, Debug)]
pub enum Destination {
    /// All connections go to this gateway or server, by the address that answers first.
    Via(Targets),
    /// Each program names its target: an address or a name. If a gateway connects to it, the name is resolved there.
    Programs(Proxy),
}

impl Destination {
    /// Whether a program knows only by a reset that its target was not reached.
    fn fails_by_reset(&self) -> bool {
        match self {
            Self::Via(_) => true,
            Self::Programs(proxy) => proxy.redirected,
        }
    }
}

/// Options of a connect service.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// Local addresses and ports of the system to listen on.
    pub listen: Vec<SocketAddr>,
    /// Where connections go. A name is looked up for each connection.
    pub destination: Destination,
    /// Addresses from which connections start. Those of the target's family are tried 250 ms apart, and the first
    /// connection that is established is used.
    pub local: Sources,
    /// Configuration of each connection ([`wire_config`](crate::wire_config)).
    pub config: Arc<Config>,
    /// Where ended and refused connections are counted.
    pub metrics: Option<Metrics>,
    /// TLS with the gateway.
    pub tls: Option<ClientTls>,
    /// How long it may take until an address of the target has answered. Then the program's connection is refused. `None`:
    /// as long as the stack repeats its SYNs.
    pub patience: Option<Duration>,
    /// Connections to the gateway that are kept ready at most, for programs that name their targets. It needs TLS.
    pub ready: usize,
    /// Most connections at a time. Further ones are reset.
    pub max_connections: usize,
    /// Connections over which no bytes have passed for this long are reset. `None` disables it.
    pub idle_timeout: Option<Duration>,
    /// Like `idle_timeout`, for connections of which one direction is closed.
    pub half_close_timeout: Option<Duration>,
    /// How long open connections may take to end after draining began.
    pub drain: Duration,
}

/// A connect service that listens.
#[derive(Debug)]
pub struct Connect {
    network: Network,
    listeners: Vec<KernelListener>,
    shared: Arc<Shared>,
    redirection: Option<Arc<Redirection>>,
}

#[derive(Debug)]
struct Shared {
    network: Network,
    options: ConnectOptions,
    lifecycle: Lifecycle,
    pool: Pool<Opened>,
    /// For programs that name their targets.
    reached: Reached,
}

impl Shared {
    /// The gateway to which connections are kept ready.
    fn ready_for(&self) -> Option<&Targets> {
        match &self.options.destination {
            Destination::Programs(proxy) if self.options.tls.is_some() => proxy.via.as_ref(),
            _ => None,
        }
    }

    /// How connections are relayed.
    fn relaying(&self) -> RelayOptions {
        RelayOptions {
            asking: Asking::Outside,
            idle: self.options.idle_timeout,
            half_closed: self.options.half_close_timeout,
            metrics: self.options.metrics.clone(),
        }
    }
}

impl Connect {
    /// Listens on all addresses.
    ///
    /// # Errors
    /// [`NetError::System`], which names the address that could not be bound.
    pub async fn bind(network: &Network, options: ConnectOptions) -> Result<Self, NetError> {
        let mut listeners = Vec::new();
        for addr in &options.listen {
            let bound = KernelListener::bind(addr).await;
            listeners.push(bound.map_err(NetError::system(format!("cannot listen on {addr}")))?);
        }
        Ok(Self::with(network, options, listeners))
    }

    /// Takes listeners of another process, perhaps of another network namespace, in addition to those of the options.
    ///
    /// # Errors
    /// [`NetError::System`], if the runtime cannot use a listener or an address could not be bound.
    pub async fn from_listeners(
        network: &Network,
        options: ConnectOptions,
        list: Vec<std::net::TcpListener>,
    ) -> Result<Self, NetError> {
        let mut connect = Self::bind(network, options).await?;
        for listener in list {
            let nonblocking = listener.set_nonblocking(true);
            let taken = nonblocking.and_then(|()| KernelListener::from_std(listener));
            let taken = taken.map_err(NetError::system("cannot use a listener"))?;
            connect.listeners.push(taken);
        }
        Ok(connect)
    }

    fn with(network: &Network, options: ConnectOptions, listeners: Vec<KernelListener>) -> Self {
        Self {
            network: network.clone(),
            listeners,
            redirection: None,
            shared: Arc::new(Shared {
                network: network.clone(),
                pool: Pool::new(options.ready),
                reached: Reached::default(),
                options,
                lifecycle: Lifecycle::default(),
            }),
        }
    }

    /// The addresses that the service listens on, in the order of the options.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners
            .iter()
            .filter_map(|l| l.local_addr().ok())
            .collect()
    }

    /// Installs rules that redirect programs' connections to this service, until it stops. [`Proxy::redirected`] must be set.
    /// Returns what was installed.
    ///
    /// # Errors
    /// [`RedirectError`], if the listening addresses do not fit or the system refuses the rules.
    pub fn redirect(&mut self, options: &RedirectOptions) -> Result<&Redirection, RedirectError> {
        let listening = |l: &KernelListener| {
            let at = l.local_addr().ok()?;
            let any_v6 = at.is_ipv6() && at.ip().is_unspecified();
            let both_families = any_v6 && SockRef::from(l).only_v6().is_ok_and(|only| !only);
            Some(Listening { at, both_families })
        };
        let listening: Vec<_> = self.listeners.iter().filter_map(listening).collect();
        let redirection = Redirection::install(&listening, options)?;
        Ok(self.redirection.insert(Arc::new(redirection)))
    }

    /// The switch that stops the service.
    pub fn lifecycle(&self) -> Lifecycle {
        self.shared.lifecycle.clone()
    }

    /// Tries one TLS handshake with the gateway, and logs in plain words if a certificate is refused. The service runs
    /// on in any case.
    pub fn trial(&self) -> impl Future<Output = ()> + Send + 'static {
        let shared = self.shared.clone();
        async move {
            let via = match &shared.options.destination {
                Destination::Via(via) => Some(via),
                Destination::Programs(proxy) => proxy.via.as_ref(),
            };
            if let Some(via) = via.filter(|_| shared.options.tls.is_some()) {
                let opened = dial(&shared, via).await.map(|opened| opened.inside);
                trial::judge(&via.to_string(), opened).await;
            }
        }
    }

    /// Relays connections until the switch is set and all connections have ended.
    ///
    /// # Errors
    /// [`NetError::Stopped`] if the data path ended.
    pub async fn serve(self) -> Result<Summary, NetError> {
        let Self {
            network,
            listeners,
            shared,
            redirection,
        } = self;
        let options = &shared.options;
        let limits = (options.max_connections, options.drain);
        let mut first = 0;
        let open = OpenListeners {
            redirection: redirection.clone(),
            listeners,
        };
        let accept = move |cx: &mut Context<'_>| poll_any(&open.listeners, &mut first, cx);
        let serving = service::serve(
            &network,
            &shared.lifecycle,
            limits,
            accept,
            |program| serve_one(shared.clone(), program),
            |(program, peer): Program| {
                tracing::warn!(%peer, "refused: as many connections as allowed are open");
                if let Some(m) = &shared.options.metrics {
                    m.refused(Refused::Connections);
                }
                relay::reset(&program);
            },
        );
        let summary = tokio::select! {
            summary = serving => summary,
            never = keep_ready(&shared) => match never {},
            never = gateway::watch(&shared) => match never {},
        };
        // The rules translate the packets of redirected connections until these have ended.
        drop(redirection);
        summary
    }
}

/// Keeps connections to the gateway ready until the service stops.
async fn keep_ready(shared: &Arc<Shared>) -> Infallible {
    if let Some(via) = shared.ready_for() {
        let open = || {
            let (shared, via) = (shared.clone(), via.clone());
            async move {
                let opened = dial(&shared, &via).await;
                let failed =
                    |(_, error): &Failed| tracing::debug!(%error, "no connection is ready");
                opened.inspect_err(failed).ok()
            }
        };
        tokio::select! {
            never = shared.pool.maintain(open) => match never {},
            () = shared.lifecycle.reached(Stage::Draining) => shared.pool.stop(),
        }
    }
    std::future::pending().await
}

/// The listeners of a service that accepts connections. The rules that lead programs to them are released before they close.
struct OpenListeners {
    redirection: Option<Arc<Redirection>>,
    listeners: Vec<KernelListener>,
}

impl Drop for OpenListeners {
    fn drop(&mut self) {
        if let Some(redirection) = &self.redirection {
            redirection.release();
        }
    }
}

/// A connection of a local program, and the program's address.
type Program = (KernelStream, SocketAddr);

fn poll_any(
    listeners: &[KernelListener],
    first: &mut usize,
    cx: &mut Context<'_>,
) -> Poll<Result<Program, NetError>> {
    let count = listeners.len().max(1);
    for i in 0..listeners.len() {
        let at = (*first + i) % count;
        if let Poll::Ready(accepted) = listeners[at].poll_accept(cx) {
            *first = at + 1;
            return Poll::Ready(accepted.map_err(service::accept_error));
        }
    }
    Poll::Pending
}

/// Relays one connection. Returns whether it was cut off because the service stops.
async fn serve_one(shared: Arc<Shared>, (mut program, peer): Program) -> bool {
    let begin = Instant::now();
    let opened = tokio::select! {
        opened = open(&shared, &mut program) => opened,
        () = shared.lifecycle.reached(Stage::Aborting) => {
            Err((Refused::Unreachable, io::ErrorKind::Interrupted.into()))
        }
    };
    let Opened {
        inside,
        id,
        reached,
        target,
        moved,
    } = match opened {
        Ok(Way::Spindle(opened)) => opened,
        Ok(Way::Direct(direct)) => return direct.relay(&shared, &program, peer).await,
        Err((why, e)) => {
            tracing::warn!(%peer, error = %e, "refused");
            if let Some(m) = &shared.options.metrics {
                m.refused(why);
            }
            if shared.options.destination.fails_by_reset() {
                relay::reset(&program);
            }
            return shared.lifecycle.stage() == Stage::Aborting;
        }
    };
    tracing::debug!(connection = id, %peer, %target, %reached, "open");
    let handle = inside.handle();
    let report = relay::relay(inside, program, shared.relaying(), &shared.lifecycle).await;
    let info = handle.connection_info().await.ok();
    tracing::info!(
        connection = id,
        %peer,
        %target,
        %reached,
        to_program = report.outward + moved.0,
        from_program = report.inward + moved.1,
        duration_ms = begin.elapsed().as_millis() as u64,
        ended = %report.ended,
        error = report.error.map(|e| e.to_string()),
        multipath = info.as_ref().map(|i| i.multipath),
        subflows = info.as_ref().map(|i| i.subflows.len()),
        "closed"
    );
    report.ended == Ended::Aborted
}

/// A connection that is ready to be relayed.
#[derive(Debug)]
struct Opened {
    inside: Inside,
    /// Its number.
    id: u64,
    /// The address that was reached: the target's, or the gateway's.
    reached: SocketAddr,
    /// The target, or the targets of which one was reached, for the log.
    target: String,
    /// Bytes that have already been sent to the program, and from it.
    moved: (u64, u64),
}

/// How a program's target was reached.
#[derive(Debug)]
enum Way {
    /// Over Spindle.
    Spindle(Opened),
    /// By the system's TCP, since the gateway could not be reached.
    Direct(Direct),
}

/// The reason why no connection was opened.
type Failed = (Refused, io::Error);

fn unreachable(e: impl Into<io::Error>) -> Failed {
    (Refused::Unreachable, e.into())
}

/// Determines the target and opens a connection to it.
async fn open(shared: &Shared, program: &mut KernelStream) -> Result<Way, Failed> {
    let options = &shared.options;
    program.set_nodelay(true).map_err(unreachable)?;
    match &options.destination {
        Destination::Via(via) => dial(shared, via).await.map(Way::Spindle),
        Destination::Programs(proxy) => named::open(shared, proxy, program).await,
    }
}

/// The metrics' name for the reason why a connection could not be opened.
fn refusal(e: &NetError) -> Refused {
    match e {
        NetError::Stack(StackError::TooManyConnections(_)) => Refused::Connections,
        NetError::Stack(StackError::NoMemory(_)) => Refused::Memory,
        _ => Refused::Unreachable,
    }
}

/// Opens a connection to one of the targets and performs the TLS handshake, if one is configured.
async fn dial(shared: &Shared, targets: &Targets) -> Result<Opened, Failed> {
    dial_within(shared, targets, shared.options.patience).await
}

/// The same if an address of the targets answers within this time.
async fn dial_within(
    shared: &Shared,
    targets: &Targets,
    patience: Option<Duration>,
) -> Result<Opened, Failed> {
    let options = &shared.options;
    let (local, config) = (&options.local, &options.config);
    let opened = dial::dial(&shared.network, local, targets, config, patience).await;
    match opened {
        Ok((stream, to)) => secure(shared, stream, to, targets).await,
        Err(e) => Err((refusal(&e), e.into())),
    }
}

async fn secure(
    shared: &Shared,
    stream: TcpStream,
    reached: SocketAddr,
    targets: &Targets,
) -> Result<Opened, Failed> {
    let id = stream.id();
    let inside = match &shared.options.tls {
        None => Inside::Plain(stream),
        Some(tls) => secured(stream, &shared.lifecycle, |s| tls.connect_or_return(s))
            .await
            .map_err(|e| (Refused::Tls, e))?,
    };
    Ok(Opened {
        inside,
        id,
        reached,
        target: targets.to_string(),
        moved: (0, 0),
    })
}

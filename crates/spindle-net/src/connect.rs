//! The client's side for programs that know nothing: a local TCP port whose connections go on over
//! Spindle, to a gateway or to any server.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use spindle_mptcp::{Config, StackError};
use tokio::net::{TcpListener as KernelListener, TcpStream as KernelStream};
use tokio::time::timeout;

use crate::error::NetError;
use crate::handshake::{expired, secured};
use crate::metrics::{Metrics, Refused};
use crate::relay::{self, Asking, Ended, Inside, RelayOptions};
use crate::service::{self, Lifecycle, Stage, Summary};
use crate::socket::{Network, TcpStream};
use crate::socks::{self, Reply, Target};
use crate::tls::ClientTls;
use crate::udp;

/// How long a program may take to say where to (SOCKS5).
const PATIENCE: Duration = Duration::from_secs(10);
/// How long an attempt may take to connect from one address to one address while others are left to be tried.
const ATTEMPT: Duration = Duration::from_secs(10);

/// Where the connections of a connect go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// All to this gateway or server.
    Via(Target),
    /// Where each program says by SOCKS5 (RFC 1928): to an address, or to a name that is resolved
    /// here. The link must reach any target, as a TUN device does.
    Socks5,
}

/// How a connect works.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// Local addresses and ports of the system to listen on.
    pub listen: Vec<SocketAddr>,
    /// Where connections go. A name is looked up for each connection.
    pub destination: Destination,
    /// Addresses that connections start from: the first of the target's family from which there is a way. If
    /// empty, the one that the system chooses for each connection, which is for links over UDP
    /// ([`UdpClientOptions::follow_system`](crate::udp::UdpClientOptions::follow_system)).
    pub local: Vec<IpAddr>,
    /// What each connection is made of ([`service::wire_config`]).
    pub config: Arc<Config>,
    /// Where ends and refusals are counted.
    pub metrics: Option<Metrics>,
    /// TLS with the gateway.
    pub tls: Option<ClientTls>,
    /// Connections at a time.
    pub max_connections: usize,
    /// Connections over which nothing has passed for this long are reset.
    pub idle_timeout: Option<Duration>,
    /// The same once one direction of a connection is closed.
    pub half_close_timeout: Option<Duration>,
    /// How long open connections may take to end after it was told to.
    pub drain: Duration,
}

/// A connect that listens.
#[derive(Debug)]
pub struct Connect {
    network: Network,
    listeners: Vec<KernelListener>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    network: Network,
    options: ConnectOptions,
    lifecycle: Lifecycle,
}

impl Connect {
    /// Listens on all addresses.
    ///
    /// # Errors
    /// [`NetError::System`] naming the address that could not be had.
    pub async fn bind(network: &Network, options: ConnectOptions) -> Result<Self, NetError> {
        let mut listeners = Vec::new();
        for addr in &options.listen {
            let bound = KernelListener::bind(addr).await;
            listeners.push(bound.map_err(NetError::system(format!("cannot listen on {addr}")))?);
        }
        Ok(Self {
            network: network.clone(),
            listeners,
            shared: Arc::new(Shared {
                network: network.clone(),
                options,
                lifecycle: Lifecycle::default(),
            }),
        })
    }

    /// The addresses it listens on, in the order of the options.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners
            .iter()
            .filter_map(|l| l.local_addr().ok())
            .collect()
    }

    /// The switch that ends it.
    pub fn lifecycle(&self) -> Lifecycle {
        self.shared.lifecycle.clone()
    }

    /// Relays connections until the switch is thrown and all is over.
    ///
    /// # Errors
    /// [`NetError::Stopped`] if the data path ended.
    pub async fn serve(self) -> Result<Summary, NetError> {
        let Self {
            network,
            listeners,
            shared,
        } = self;
        let options = &shared.options;
        let limits = (options.max_connections, options.drain);
        let mut first = 0;
        let accept = move |cx: &mut Context<'_>| poll_any(&listeners, &mut first, cx);
        service::serve(
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
        )
        .await
    }
}

/// A local program's connection and its end of it.
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

/// Relays one connection; whether it was cut off because the service ends.
async fn serve_one(shared: Arc<Shared>, (mut program, peer): Program) -> bool {
    let begin = Instant::now();
    let opened = tokio::select! {
        opened = open(&shared, &mut program) => opened,
        () = shared.lifecycle.reached(Stage::Aborting) => {
            Err((Refused::Unreachable, io::ErrorKind::Interrupted.into()))
        }
    };
    let (inside, id, target) = match opened {
        Ok(opened) => opened,
        Err((why, e)) => {
            tracing::warn!(%peer, error = %e, "refused");
            if let Some(m) = &shared.options.metrics {
                m.refused(why);
            }
            if shared.options.destination != Destination::Socks5 {
                relay::reset(&program);
            }
            return shared.lifecycle.stage() == Stage::Aborting;
        }
    };
    tracing::debug!(connection = id, %peer, %target, "open");
    let handle = inside.handle();
    let options = RelayOptions {
        asking: Asking::Outside,
        idle: shared.options.idle_timeout,
        half_closed: shared.options.half_close_timeout,
        metrics: shared.options.metrics.clone(),
    };
    let report = relay::relay(inside, program, options, &shared.lifecycle).await;
    let info = handle.connection_info().await.ok();
    tracing::info!(
        connection = id,
        %peer,
        %target,
        to_program = report.outward,
        from_program = report.inward,
        duration_ms = begin.elapsed().as_millis() as u64,
        ended = %report.ended,
        error = report.error.map(|e| e.to_string()),
        multipath = info.as_ref().map(|i| i.multipath),
        subflows = info.as_ref().map(|i| i.subflows.len()),
        "closed"
    );
    report.ended == Ended::Aborted
}

/// A connection, its number and where it goes; or why there is none.
type Opened = Result<(Inside, u64, SocketAddr), (Refused, io::Error)>;

fn unreachable(e: impl Into<io::Error>) -> (Refused, io::Error) {
    (Refused::Unreachable, e.into())
}

fn not_socks(e: impl Into<io::Error>) -> (Refused, io::Error) {
    (Refused::Socks, e.into())
}

/// Finds out where to and opens the connection there.
async fn open(shared: &Shared, program: &mut KernelStream) -> Opened {
    let options = &shared.options;
    program.set_nodelay(true).map_err(unreachable)?;
    if let Destination::Via(via) = &options.destination {
        return dial(shared, via).await;
    }
    let asked = timeout(PATIENCE, socks::accept(program)).await;
    let asked = asked
        .map_err(|_| not_socks(expired("SOCKS request")))?
        .map_err(|e| not_socks(io::Error::other(e)))?;
    let dialled = dial(shared, &asked).await;
    let (reply, bound) = match &dialled {
        Ok((_, _, target)) => (Reply::Succeeded, *target),
        Err((_, e)) => (e.kind().into(), SocketAddr::from(([0, 0, 0, 0], 0))),
    };
    let told = socks::reply(program, reply, bound).await;
    let opened = dialled?;
    told.map_err(not_socks)?;
    Ok(opened)
}

/// The addresses of a target, in the order in which they are to be tried.
async fn addresses(target: &Target) -> io::Result<Vec<SocketAddr>> {
    match target {
        Target::Address(addr) => Ok(vec![*addr]),
        Target::Name(name, port) => {
            let found = tokio::net::lookup_host((name.as_str(), *port)).await;
            let unknown =
                |e| io::Error::new(io::ErrorKind::HostUnreachable, format!("{name}: {e}"));
            Ok(found.map_err(unknown)?.collect())
        }
    }
}

/// Own addresses for a connection to `target`, in the order in which they are to be tried.
fn sources(local: &[IpAddr], target: SocketAddr) -> Vec<IpAddr> {
    if local.is_empty() {
        return udp::source_for(target).into_iter().collect();
    }
    let of_family = |l: &&IpAddr| l.is_ipv4() == target.is_ipv4();
    local.iter().filter(of_family).copied().collect()
}

/// How the metrics name what kept a connection from being opened.
fn refusal(e: &NetError) -> Refused {
    match e {
        NetError::Stack(StackError::TooManyConnections(_)) => Refused::Connections,
        NetError::Stack(StackError::NoMemory(_)) => Refused::Memory,
        _ => Refused::Unreachable,
    }
}

/// Connects to the first address of the target, from the first own address, that lets it.
async fn dial(shared: &Shared, target: &Target) -> Opened {
    let options = &shared.options;
    let mut pairs = Vec::new();
    for to in addresses(target).await.map_err(unreachable)? {
        let from = sources(&options.local, to);
        pairs.extend(from.into_iter().map(|from| (from, to)));
    }
    let mut failed = {
        let why = format!("{target}: no way to it from any local address of its family");
        unreachable(io::Error::new(io::ErrorKind::NetworkUnreachable, why))
    };
    let last = pairs.len().saturating_sub(1);
    for (i, (from, to)) in pairs.into_iter().enumerate() {
        let opening = shared.network.connect(from, to, options.config.clone());
        let opened = if i == last {
            opening.await
        } else {
            let opened = timeout(ATTEMPT, opening).await;
            opened.unwrap_or_else(|_| Err(NetError::TimedOut(to)))
        };
        match opened {
            Ok(stream) => return secure(shared, stream, to).await,
            Err(e) => {
                tracing::debug!(%from, %to, error = %e, "an attempt failed");
                failed = (refusal(&e), e.into());
            }
        }
    }
    Err(failed)
}

async fn secure(shared: &Shared, stream: TcpStream, target: SocketAddr) -> Opened {
    let id = stream.id();
    let inside = match &shared.options.tls {
        None => Inside::Plain(stream),
        Some(tls) => secured(stream, &shared.lifecycle, |s| tls.connect_or_return(s))
            .await
            .map_err(|e| (Refused::Tls, e))?,
    };
    Ok((inside, id, target))
}

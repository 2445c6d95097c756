//! The client side for programs that do not know Spindle: a local TCP port whose connections are relayed over
//! Spindle, to a gateway or to any server.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use spindle_mptcp::{Config, StackError};
use tokio::net::{TcpListener as KernelListener, TcpStream as KernelStream};
use tokio::time::timeout;

use crate::dial;
use crate::error::NetError;
use crate::handshake::{expired, secured};
use crate::metrics::{Metrics, Refused};
use crate::relay::{self, Asking, Ended, Inside, RelayOptions};
use crate::service::{self, Lifecycle, Stage, Summary};
use crate::socket::{Network, TcpStream};
use crate::socks::{self, Reply};
use crate::target::Target;
use crate::tls::ClientTls;

/// How long a program may take to send its SOCKS5 request.
const PATIENCE: Duration = Duration::from_secs(10);
/// Where a connect service opens its connections to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// All connections go to this gateway or server.
    Via(Target),
    /// Each program names its destination by SOCKS5 (RFC 1928): an address, or a name that is resolved here.
    /// The link must be able to reach any target, as a TUN device can.
    Socks5,
}

/// Options of a connect service.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// Local addresses and ports of the system to listen on.
    pub listen: Vec<SocketAddr>,
    /// Where connections go. A name is looked up for each connection.
    pub destination: Destination,
    /// Addresses from which connections start. Those of the target's family are tried in order until the target
    /// is reached from one of them. If the list is empty, the system chooses an address for each connection,
    /// which is meant for links over UDP
    /// ([`UdpClientOptions::follow_system`](crate::udp::UdpClientOptions::follow_system)).
    pub local: Vec<IpAddr>,
    /// Configuration of each connection ([`wire_config`](crate::wire_config)).
    pub config: Arc<Config>,
    /// Where ended and refused connections are counted.
    pub metrics: Option<Metrics>,
    /// TLS with the gateway.
    pub tls: Option<ClientTls>,
    /// How long it may take until an address of the target has answered. Then the program's connection is refused. `None`:
    /// as long as the stack repeats its SYNs.
    pub patience: Option<Duration>,
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
    /// [`NetError::System`], which names the address that could not be bound.
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

    /// The addresses that the service listens on, in the order of the options.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners
            .iter()
            .filter_map(|l| l.local_addr().ok())
            .collect()
    }

    /// The switch that stops the service.
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

/// A connection, its number and its target, or the reason why it could not be opened.
type Opened = Result<(Inside, u64, SocketAddr), (Refused, io::Error)>;

fn unreachable(e: impl Into<io::Error>) -> (Refused, io::Error) {
    (Refused::Unreachable, e.into())
}

fn not_socks(e: impl Into<io::Error>) -> (Refused, io::Error) {
    (Refused::Socks, e.into())
}

/// Determines the target and opens a connection to it.
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

/// The metrics' name for the reason why a connection could not be opened.
fn refusal(e: &NetError) -> Refused {
    match e {
        NetError::Stack(StackError::TooManyConnections(_)) => Refused::Connections,
        NetError::Stack(StackError::NoMemory(_)) => Refused::Memory,
        _ => Refused::Unreachable,
    }
}

/// Opens a connection to the target and performs the TLS handshake, if one is configured.
async fn dial(shared: &Shared, target: &Target) -> Opened {
    let options = &shared.options;
    let (local, config) = (&options.local, &options.config);
    let opened = dial::dial(&shared.network, local, target, config, options.patience).await;
    match opened {
        Ok((stream, to)) => secure(shared, stream, to).await,
        Err(e) => Err((refusal(&e), e.into())),
    }
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

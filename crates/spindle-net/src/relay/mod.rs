//! Joins a connection of Spindle to one of the system. Bytes, half-closes and resets are passed on in both
//! directions.

mod direct;
mod exchanges;
mod pump;
mod relayed_bytes;

use std::fmt;
use std::io;
use std::time::Duration;

use socket2::SockRef;
use spindle_mptcp::CloseReason;
use tokio::io::{AsyncRead, AsyncWrite, Interest};
use tokio::net::TcpStream as KernelStream;

use crate::metrics::{self, Metrics};
use crate::service::{Lifecycle, Stage};
use crate::socket::{ConnectionHandle, TcpStream};
pub(crate) use direct::direct;
use pump::{
    AnySink, AnySource, Failure, InsideSink, InsideSource, OutsideSink, OutsideSource, Sink, Source,
};
use relayed_bytes::RelayedBytes;

/// How long a side that was reset may take to hand over what it had received before, and how long the other
/// side may take to acknowledge what was sent to it.
const GRACE: Duration = Duration::from_secs(1);
/// How often to check whether that is done.
const LOOK: Duration = Duration::from_millis(5);
/// Checks per idle time.
const IDLE_LOOKS: u32 = 8;

/// Any stream over a connection of Spindle, such as TLS.
pub trait Wrapped: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Wrapped for T {}

/// Spindle's side of a relay.
pub enum Inside {
    /// The connection itself. Its bytes are not copied.
    Plain(TcpStream),
    /// A stream over the connection, and a handle of the connection.
    Wrapped(Box<dyn Wrapped>, ConnectionHandle),
}

impl fmt::Debug for Inside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Inside({:?})", self.handle())
    }
}

impl Inside {
    /// A handle of the connection.
    pub fn handle(&self) -> ConnectionHandle {
        match self {
            Self::Plain(stream) => stream.handle(),
            Self::Wrapped(_, handle) => handle.clone(),
        }
    }

    /// The stream of the peer's bytes, for what precedes the relay.
    pub(crate) fn stream(&mut self) -> &mut dyn Wrapped {
        match self {
            Self::Plain(stream) => stream,
            Self::Wrapped(stream, _) => stream.as_mut(),
        }
    }
}

/// How a relay ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Both directions were closed in order.
    Finished,
    /// Spindle's peer reset the connection, or was lost.
    PeerFailed,
    /// The system's side reset the connection, or was lost.
    OutsideFailed,
    /// No bytes passed for too long.
    Idle,
    /// One side had closed, and the other sent no bytes for too long.
    HalfClosed,
    /// The service resets its open connections.
    Aborted,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Finished => "finished",
            Self::PeerFailed => "peer failed",
            Self::OutsideFailed => "outside failed",
            Self::Idle => "idle",
            Self::HalfClosed => "half-closed",
            Self::Aborted => "aborted",
        })
    }
}

impl Ended {
    /// The metrics' name of this end.
    pub(crate) fn counted(self) -> metrics::Ended {
        match self {
            Self::Finished => metrics::Ended::Finished,
            Self::PeerFailed => metrics::Ended::PeerFailed,
            Self::OutsideFailed => metrics::Ended::LocalFailed,
            Self::Idle | Self::HalfClosed | Self::Aborted => metrics::Ended::Expired,
        }
    }
}

/// How much passed, and how the relay ended.
#[derive(Debug)]
pub struct Report {
    /// Bytes from Spindle's peer to the system's side.
    pub outward: u64,
    /// Bytes in the other direction.
    pub inward: u64,
    /// How the relay ended.
    pub ended: Ended,
    /// The error that ended the relay.
    pub error: Option<io::Error>,
}

/// Which side sends requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asking {
    /// Spindle's peer, as at a gateway.
    Inside,
    /// The system's side, as at a connect service.
    Outside,
}

/// Options of a relay.
#[derive(Clone, Debug)]
pub struct RelayOptions {
    /// Which side sends requests.
    pub asking: Asking,
    /// Both sides are reset if no bytes have passed for this long. `None` disables it.
    pub idle: Option<Duration>,
    /// Like `idle`, once one direction is closed.
    pub half_closed: Option<Duration>,
    /// Where response times and the end are counted.
    pub metrics: Option<Metrics>,
}

/// Relays until both directions are closed, one side fails, no bytes have passed for the idle time, or the
/// service aborts. If one side fails, the other is reset. The system's side gets an RST (SO_LINGER 0).
/// Spindle's peer gets an RST with MP_FASTCLOSE, after it has acknowledged what was sent to it before, for
/// which it has one second.
pub async fn relay(
    inside: Inside,
    outside: KernelStream,
    options: RelayOptions,
    lifecycle: &Lifecycle,
) -> Report {
    let handle = inside.handle();
    let limits = (options.idle, options.half_closed);
    let moved = RelayedBytes::new(options.asking, options.metrics.clone(), &handle);
    let (ended, error) = match inside {
        Inside::Plain(stream) => {
            let (read, write) = stream.into_split();
            let (mut from, mut to) = (InsideSource::new(read), InsideSink::new(write));
            let ends = Ends::new(&handle, &outside, &moved);
            ends.run(&mut from, &mut to, limits, lifecycle).await
        }
        Inside::Wrapped(stream, _) => {
            let (read, write) = tokio::io::split(stream);
            let (mut from, mut to) = (AnySource::new(read), AnySink::new(write, handle.clone()));
            let ends = Ends::new(&handle, &outside, &moved);
            ends.run(&mut from, &mut to, limits, lifecycle).await
        }
    };
    moved.end();
    if let Some(m) = &options.metrics {
        m.ended(ended.counted());
    }
    Report {
        outward: moved.outward(),
        inward: moved.inward(),
        ended,
        error,
    }
}

/// Makes the system's side be reset when it is dropped.
pub(crate) fn reset(outside: &KernelStream) {
    // If the system refuses the option, the stream ends with a FIN.
    let _ = SockRef::from(outside).set_linger(Some(Duration::ZERO));
}

/// Makes the system's side close in order when it is dropped.
fn in_order(outside: &KernelStream) {
    // This is a socket's default, unless `reset` was called.
    let _ = SockRef::from(outside).set_linger(None);
}

type End = (Ended, Option<io::Error>);

struct Ends<'a> {
    handle: &'a ConnectionHandle,
    outside: &'a KernelStream,
    moved: &'a RelayedBytes,
}

impl<'a> Ends<'a> {
    fn new(
        handle: &'a ConnectionHandle,
        outside: &'a KernelStream,
        moved: &'a RelayedBytes,
    ) -> Self {
        Self {
            handle,
            outside,
            moved,
        }
    }

    /// Runs both directions, then resets the sides that must be reset. Both halves of the inside stay alive
    /// until then, since dropping them would close the connection in order.
    async fn run(
        &self,
        from: &mut impl Source,
        to: &mut impl Sink,
        limits: (Option<Duration>, Option<Duration>),
        lifecycle: &Lifecycle,
    ) -> End {
        let end = self.both(from, to, limits, lifecycle).await;
        match end.0 {
            Ended::Finished => in_order(self.outside),
            Ended::PeerFailed => reset(self.outside),
            Ended::OutsideFailed => {
                reset(self.outside);
                let inward = self.moved.inward();
                delivered(self.handle, inward, lifecycle).await;
                self.handle.abort();
            }
            Ended::Idle | Ended::HalfClosed | Ended::Aborted => {
                reset(self.outside);
                self.handle.abort();
            }
        }
        end
    }

    async fn both(
        &self,
        from: &mut impl Source,
        to: &mut impl Sink,
        limits: (Option<Duration>, Option<Duration>),
        lifecycle: &Lifecycle,
    ) -> End {
        let mut sink = OutsideSink::new(self.outside);
        let mut source = OutsideSource::new(self.outside);
        let outward = pump::pump(
            from,
            &mut sink,
            |n| self.moved.add_outward(n),
            self.handle.share(),
        );
        let inward = pump::pump(
            &mut source,
            to,
            |n| self.moved.add_inward(n),
            self.handle.share(),
        );
        let directions = Directions {
            outward,
            inward,
            peer_reads_on: false,
        };
        let expired = |idle| expired(idle, || self.moved.total());
        directions
            .run(self.failed(), expired, limits, lifecycle)
            .await
    }

    /// Waits until either side is lost while it is not being read. The pumps get some time to notice this by
    /// themselves, with the data that were received before.
    async fn failed(&self) -> End {
        let end = tokio::select! {
            e = self.peer_failed() => (Ended::PeerFailed, Some(e)),
            e = self.outside_failed() => (Ended::OutsideFailed, Some(e)),
        };
        tokio::time::sleep(GRACE).await;
        end
    }

    async fn peer_failed(&self) -> io::Error {
        match self.handle.closed().await {
            Some(CloseReason::Finished) => std::future::pending().await,
            Some(reason) => io::Error::new(crate::error::kind_of(reason), reason),
            None => io::ErrorKind::NetworkDown.into(),
        }
    }

    async fn outside_failed(&self) -> io::Error {
        if let Err(e) = self.outside.ready(Interest::ERROR).await {
            return e;
        }
        // Reading the socket's error would take it from the pump that must get it.
        io::ErrorKind::ConnectionReset.into()
    }
}

/// The directions of a relay between a peer and the outside.
struct Directions<O, I> {
    /// From the peer to the outside.
    outward: O,
    /// From the outside to the peer.
    inward: I,
    /// Whether a peer that accepts no more data may have sent some that still wait to be read, as the outside may.
    peer_reads_on: bool,
}

impl<O, I> Directions<O, I>
where
    O: Future<Output = Result<(), Failure>>,
    I: Future<Output = Result<(), Failure>>,
{
    /// Runs both until they are done or the relay must end. `expired` ends when no bytes have passed for the time that it
    /// is given. The second limit applies once one direction is done.
    async fn run<X: Future<Output = ()>>(
        self,
        failed: impl Future<Output = End>,
        expired: impl Fn(Option<Duration>) -> X,
        (idle, half_closed): (Option<Duration>, Option<Duration>),
        lifecycle: &Lifecycle,
    ) -> End {
        let (outward, inward) = (self.outward, self.inward);
        let (all, half) = (expired(idle), expired(None));
        tokio::pin!(outward, inward, failed, all, half);
        let (mut outward_done, mut inward_done) = (false, false);
        // A side that accepts no more data: its reader has closed (EPIPE after its end of stream). What it has sent may
        // still wait to be read. The other side, which may go on sending for long, is notified at the end.
        let mut refused = None;
        while !(outward_done && inward_done) {
            tokio::select! {
                done = &mut outward, if !outward_done => {
                    outward_done = true;
                    match done {
                        Ok(()) => {}
                        Err(Failure::Source(e)) => return (Ended::PeerFailed, Some(e)),
                        Err(Failure::Sink(e)) => refused = Some((Ended::OutsideFailed, Some(e))),
                    }
                }
                done = &mut inward, if !inward_done => {
                    inward_done = true;
                    match done {
                        Ok(()) => {}
                        Err(Failure::Source(e)) => return (Ended::OutsideFailed, Some(e)),
                        Err(Failure::Sink(e)) if self.peer_reads_on => {
                            refused = Some((Ended::PeerFailed, Some(e)));
                        }
                        Err(Failure::Sink(e)) => return (Ended::PeerFailed, Some(e)),
                    }
                }
                end = &mut failed => return end,
                () = &mut all => return (Ended::Idle, None),
                () = &mut half => return (Ended::HalfClosed, None),
                () = lifecycle.reached(Stage::Aborting) => return (Ended::Aborted, None),
            }
            half.set(expired(half_closed));
        }
        refused.unwrap_or((Ended::Finished, None))
    }
}

/// Waits until no bytes have passed for this long. `total` returns how many have passed so far.
async fn expired(idle: Option<Duration>, total: impl Fn() -> u64) {
    let Some(idle) = idle else {
        return std::future::pending().await;
    };
    let (mut last, mut quiet) = (total(), 0);
    while quiet < IDLE_LOOKS {
        tokio::time::sleep(idle / IDLE_LOOKS).await;
        let now = total();
        quiet = if now == last { quiet + 1 } else { 0 };
        last = now;
    }
}

/// Waits, for a second at most, until the peer has acknowledged all data sent to it, which are at least `least`
/// bytes.
pub(crate) async fn delivered(handle: &ConnectionHandle, least: u64, lifecycle: &Lifecycle) {
    let all = async {
        while let Ok(info) = handle.connection_info().await {
            let given = info.written >= least && info.acknowledged >= info.written;
            if given || info.closed.is_some() {
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::select! {
        () = all => {}
        () = tokio::time::sleep(GRACE) => {}
        () = lifecycle.reached(Stage::Aborting) => {}
    }
}

//! The common parts of gateway and connect: their configuration, their life from the first connection to the
//! last, the signals that stop them, and their reports to a service manager.

mod huge_pages;
mod notify;
mod process;
mod signals;
mod watchdog;

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

pub use huge_pages::disable_huge_pages;
pub use notify::{Notifier, WATCHDOG_PROCESS};
pub use process::{detach, process_handle, wait_for_process};
pub use signals::{Signal, Signals, Stopper};
pub use watchdog::watch;

use crate::ConnectionStatus;
use crate::error::NetError;
use crate::handover::Step;
use crate::socket::Network;

/// Pause after an accept call that failed (no file descriptors).
const REST: Duration = Duration::from_millis(50);
/// How often a draining service checks whether its last bytes were acknowledged.
const LOOK: Duration = Duration::from_millis(20);
/// How long a draining service waits for peers to close as well, once they have all data. Some never do. A lost FIN is
/// sent again within this time if the path's timeout is shorter (RFC 6298, section 2: a second before the first
/// measurement).
const CLOSING: Duration = Duration::from_secs(1);
/// How often a service that was handed over checks whether it has anything left to do.
const IDLE_LOOK: Duration = Duration::from_millis(100);

/// The stage of a service's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The service accepts connections.
    Running,
    /// Another process accepts new connections. The service finishes its own, without a limit of time, and accepts
    /// those that clients had begun to open before.
    HandedOver,
    /// The service accepts no connections and finishes the open ones.
    Draining,
    /// Open connections are reset.
    Aborting,
}

/// The switch that stops a service. All clones share one state.
#[derive(Clone, Debug)]
pub struct Lifecycle {
    stage: Arc<watch::Sender<Stage>>,
}

impl Default for Lifecycle {
    fn default() -> Self {
        Self {
            stage: Arc::new(watch::Sender::new(Stage::Running)),
        }
    }
}

impl Lifecycle {
    /// The current stage.
    pub fn stage(&self) -> Stage {
        *self.stage.borrow()
    }

    /// Stops accepting and finishes the open connections.
    pub fn drain(&self) {
        self.to(Stage::Draining);
    }

    /// Resets the open connections.
    pub fn abort(&self) {
        self.to(Stage::Aborting);
    }

    /// Another process accepts new connections from now on.
    pub fn hand_over(&self) {
        self.to(Stage::HandedOver);
    }

    /// The other process no longer exists: the service accepts connections again, unless it was stopped.
    pub fn take_back(&self) {
        self.stage.send_if_modified(|s| {
            let handed_over = *s == Stage::HandedOver;
            if handed_over {
                *s = Stage::Running;
            }
            handed_over
        });
    }

    /// Goes one stage further, as each signal to stop does.
    pub fn advance(&self) {
        match self.stage() {
            Stage::Running | Stage::HandedOver => self.drain(),
            Stage::Draining | Stage::Aborting => self.abort(),
        }
    }

    fn to(&self, stage: Stage) {
        self.stage.send_if_modified(|s| {
            let later = stage > *s;
            *s = stage.max(*s);
            later
        });
    }

    /// Waits until the service accepts connections.
    pub async fn running(&self) {
        let mut watch = self.stage.subscribe();
        // The sender is in `self`, so the wait cannot fail.
        let _ = watch.wait_for(|s| *s == Stage::Running).await;
    }

    /// Waits until another process accepts new connections. Stays pending if the service stops otherwise.
    pub async fn handed_over(&self) {
        let mut watch = self.stage.subscribe();
        // The sender is in `self`, so the wait cannot fail.
        let _ = watch.wait_for(|s| *s == Stage::HandedOver).await;
    }

    /// Waits until this stage or a later one is reached.
    pub async fn reached(&self, stage: Stage) {
        let mut watch = self.stage.subscribe();
        // The sender is in `self`, so the wait cannot fail.
        let _ = watch.wait_for(|s| *s >= stage).await;
    }
}

/// The result of a service's run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Connections that were accepted.
    pub connections: u64,
    /// Of these, the connections that were cut off because draining took too long or was cut short.
    pub aborted: usize,
}

/// Accepts connections until told to drain, runs a task for each, then waits for the tasks. A task returns
/// whether its connection was cut off.
///
/// `accept` returns the next connection. Dropping it closes the listeners. Connections beyond `limit` at a time
/// are passed to `refuse`.
pub(crate) async fn serve<T, A, H, F>(
    network: &Network,
    lifecycle: &Lifecycle,
    (limit, drain): (usize, Duration),
    mut accept: A,
    handle: H,
    refuse: impl Fn(T),
) -> Result<Summary, NetError>
where
    A: FnMut(&mut Context<'_>) -> Poll<Result<T, NetError>>,
    H: Fn(T) -> F,
    F: Future<Output = bool> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    let mut summary = Summary::default();
    loop {
        tokio::select! {
            biased;
            () = lifecycle.reached(Stage::Draining) => break,
            Some(done) = tasks.join_next(), if !tasks.is_empty() => summary.ended(done),
            () = nothing_left(network, lifecycle), if tasks.is_empty() => break,
            accepted = poll_fn(&mut accept) => match accepted {
                Ok(connection) if tasks.len() >= limit => refuse(connection),
                Ok(connection) => {
                    summary.connections += 1;
                    tasks.spawn(handle(connection));
                }
                Err(e @ NetError::Stopped(_)) => return Err(e),
                Err(e) => {
                    tracing::warn!(error = %e, "cannot accept");
                    tokio::time::sleep(REST).await;
                }
            },
        }
    }
    drop(accept);
    tracing::info!(open = tasks.len(), "draining");
    let finished = async {
        while let Some(done) = tasks.join_next().await {
            summary.ended(done);
        }
        while unacknowledged(network).await > 0 {
            tokio::time::sleep(LOOK).await;
        }
    };
    let in_time = tokio::select! {
        () = finished => true,
        () = tokio::time::sleep(drain) => false,
        () = lifecycle.reached(Stage::Aborting) => false,
    };
    if in_time {
        tokio::select! {
            () = closed(network) => (),
            () = tokio::time::sleep(CLOSING) => (),
            () = lifecycle.reached(Stage::Aborting) => (),
        }
    } else {
        tracing::warn!(open = tasks.len(), "resetting what is still open");
        if tasks.is_empty() {
            summary.aborted += unacknowledged(network).await;
        }
    }
    lifecycle.abort();
    while let Some(done) = tasks.join_next().await {
        summary.ended(done);
    }
    Ok(summary)
}

/// Waits until another process has taken over and this one has nothing left to do.
async fn nothing_left(network: &Network, lifecycle: &Lifecycle) {
    lifecycle.reached(Stage::HandedOver).await;
    loop {
        tokio::time::sleep(IDLE_LOOK).await;
        let ended = async { network.hand_over(Step::End).await.map_or(true, |o| o.ended) };
        // The stage is read after the answer: this process may have taken the wire back meanwhile.
        if ended.await && lifecycle.stage() >= Stage::HandedOver {
            return;
        }
    }
}

/// Waits until both ends have closed every connection. A connection that is aborted while its FIN is not acknowledged
/// sends a reset right behind the FIN, and if the FIN is lost, the peer takes a complete response for one that was cut.
async fn closed(network: &Network) {
    let closing = |list: Vec<ConnectionStatus>| list.iter().any(|c| c.info.closed.is_none());
    while network.connections().await.is_ok_and(closing) {
        tokio::time::sleep(LOOK).await;
    }
}

/// Number of connections whose peers have not acknowledged all data sent to them, whether or not their relays
/// have ended.
async fn unacknowledged(network: &Network) -> usize {
    let list = network.connections().await.unwrap_or_default();
    let waiting = list
        .iter()
        .map(|c| &c.info)
        .filter(|i| i.closed.is_none() && i.acknowledged < i.written);
    waiting.count()
}

impl Summary {
    fn ended(&mut self, done: Result<bool, tokio::task::JoinError>) {
        match done {
            Ok(cut_off) => self.aborted += usize::from(cut_off),
            Err(e) => tracing::error!(error = %e, "a connection's task failed"),
        }
    }
}

/// The error for a failed accept call, which concerns one connection only.
pub(crate) fn accept_error(e: io::Error) -> NetError {
    NetError::system("accept")(e)
}

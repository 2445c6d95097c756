//! `--take-over`: a gateway takes over from another, and may be taken over itself.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use spindle_net::service::{Notifier, Signal, Signals, WATCHDOG_PROCESS};
use spindle_net::setup::Ownership;
use spindle_net::status::Totals;
use spindle_net::takeover::{Begun, Listener, Offered, Old};
use spindle_net::{NetError, Network};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::gateway::KIND;
use crate::failure::Failure;

/// The flag with which a gateway takes over.
const TAKE_OVER: &str = "--take-over";

/// Asks the gateway with this control socket for its descriptors. Returns `None` if none runs.
pub(super) async fn ask(control: &Path) -> Result<Option<Offered>, Failure> {
    let offered = Offered::ask(control).await?;
    if offered.is_none() {
        let control = control.display();
        tracing::info!(%control, "no gateway runs that could be taken over");
    }
    Ok(offered)
}

/// The listener of the metrics: the one of the old process if it has this address, so that no scrape is refused.
pub(super) async fn metrics_listener(
    addr: std::net::SocketAddr,
    offered: Option<&mut Offered>,
) -> std::io::Result<TcpListener> {
    let same = |l: &std::net::TcpListener| l.local_addr().is_ok_and(|a| a == addr);
    let given = offered.and_then(|o| o.metrics.take());
    match given.map(std::net::TcpListener::from).filter(same) {
        Some(listener) => TcpListener::from_std(listener),
        None => TcpListener::bind(addr).await,
    }
}

/// The process that was taken over, as the main loop sees it.
#[derive(Default)]
pub(super) struct Before {
    begun: Option<Arc<Begun>>,
    ended: Option<watch::Receiver<bool>>,
    setup: Option<Ownership>,
}

impl Before {
    /// Confirms that the old process is to drain, and logs when it has ended.
    ///
    /// If this process fails before that, the old one goes on and needs the set-up. So this process undoes the set-up at its
    /// end only once the old one has ended, or is to stop as well.
    pub(super) async fn confirm(
        begun: Option<Begun>,
        setup: Option<Ownership>,
    ) -> Result<Self, NetError> {
        let Some(begun) = begun.map(Arc::new) else {
            return Ok(Self::default());
        };
        begun.confirm().await?;
        let (end, ended) = watch::channel(false);
        let (waiting, owned) = (begun.clone(), setup.clone());
        tokio::spawn(async move {
            match waiting.ended().await {
                Ok(()) => own(owned.as_ref()),
                Err(error) => tracing::error!(%error, "it is not waited for"),
            }
            end.send_replace(true);
        });
        Ok(Self {
            begun: Some(begun),
            ended: Some(ended),
            setup,
        })
    }

    /// Passes a signal to stop on.
    pub(super) async fn stop(&self) {
        if let Some(begun) = &self.begun {
            begun.stop().await;
            own(self.setup.as_ref());
        }
    }

    /// Waits until it has ended, for at most this long, since what arrives for it still comes through this process.
    pub(super) async fn outlive(&self, drain: Duration, signals: &mut Signals) {
        let Some(mut ended) = self.ended.clone() else {
            return;
        };
        let deadline = tokio::time::sleep(drain);
        tokio::pin!(deadline);
        loop {
            tokio::select! {
                // An error means that the task that waits has ended, and the process with it.
                _ = ended.wait_for(|e| *e) => return,
                () = &mut deadline => return,
                signal = signals.next() => if signal == Signal::Stop {
                    self.stop().await;
                },
            }
        }
    }
}

/// From now on, this process undoes the set-up at its end.
fn own(setup: Option<&Ownership>) {
    if let Some(setup) = setup {
        setup.set_predecessor(false);
    }
}

/// Starts the program again with the same arguments, `more` and `--take-over`, from the file that it was started from, which may
/// have a newer version now.
pub(super) fn start_again(kind: &str, more: &[OsString]) {
    if kind != KIND {
        tracing::warn!("only a gateway can be taken over; restart this service");
        return;
    }
    let mut arguments = std::env::args_os();
    let program = arguments.next().unwrap_or_else(|| "spindle".into());
    let rest: Vec<_> = arguments.filter(|a| a != TAKE_OVER).collect();
    let mut command = Command::new(&program);
    command
        .args(rest)
        .args(more)
        .arg(TAKE_OVER)
        .env_remove(WATCHDOG_PROCESS);
    match command.spawn() {
        Ok(mut child) => {
            let pid = child.id();
            tracing::info!(pid, "started again, to be taken over");
            // Collects the exit status if the child ends first. If not, the child outlives this process.
            std::thread::spawn(move || {
                if let Ok(status) = child.wait() {
                    tracing::warn!(pid, %status, "the process that was started has ended");
                }
            });
        }
        Err(error) => {
            let program = program.to_string_lossy();
            tracing::error!(%program, %error, "cannot be started again");
        }
    }
}

/// Logs the totals of the process, since its metrics were last read some time before its end.
pub(super) async fn log_counters(network: &Network) {
    let Ok(counters) = network.counters().await else {
        return;
    };
    let t = Totals::from(&counters);
    tracing::info!(
        connections = t.connections,
        multipath = t.multipath,
        fallbacks = t.fallbacks,
        bytes_sent = t.bytes_sent,
        bytes_received = t.bytes_received,
        retransmissions = t.retransmissions,
        timeouts = t.timeouts,
        recoveries = t.recoveries,
        recoveries_useful = t.recoveries_useful,
        "the last counters"
    );
}

/// Lets other processes take over from this one.
pub(super) fn allow(old: Old, manager: Arc<Notifier>) -> Result<JoinHandle<()>, Failure> {
    let listener = Listener::bind(&old.control.path())?;
    Ok(tokio::spawn(async move {
        match old.serve(listener, |pid| manager.replaced_by(pid)).await {}
    }))
}

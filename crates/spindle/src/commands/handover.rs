//! `--take-over`: a gateway takes over from another, and may be taken over itself.

use std::path::Path;
use std::sync::Arc;

use spindle_net::NetError;
use spindle_net::service::Notifier;
use spindle_net::takeover::{Begun, Listener, Offered, Old};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::failure::Failure;

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
}

impl Before {
    /// Confirms that the old process is to drain, and logs when it has ended.
    pub(super) async fn confirm(begun: Option<Begun>) -> Result<Self, NetError> {
        let Some(begun) = begun.map(Arc::new) else {
            return Ok(Self::default());
        };
        begun.confirm().await?;
        let (end, ended) = watch::channel(false);
        let waiting = begun.clone();
        tokio::spawn(async move {
            waiting.ended().await;
            end.send_replace(true);
        });
        Ok(Self {
            begun: Some(begun),
            ended: Some(ended),
        })
    }

    /// Passes a signal to stop on.
    pub(super) async fn stop(&self) {
        if let Some(begun) = &self.begun {
            begun.stop().await;
        }
    }

    /// Whether there is no such process, or no more.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.as_ref().is_none_or(|e| *e.borrow())
    }

    /// Waits until it has ended.
    pub(super) async fn ended(&self) {
        if let Some(mut ended) = self.ended.clone() {
            // An error means that the task that waits has ended, and the process with it.
            let _ = ended.wait_for(|e| *e).await;
        }
    }
}

/// Lets other processes take over from this one.
pub(super) fn allow(old: Old, manager: Arc<Notifier>) -> Result<JoinHandle<()>, Failure> {
    let listener = Listener::bind(&old.control.path())?;
    Ok(tokio::spawn(async move {
        match old.serve(listener, |pid| manager.replaced_by(pid)).await {}
    }))
}

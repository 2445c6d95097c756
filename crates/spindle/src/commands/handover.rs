//! `--take-over`: a gateway takes over from another, and may be taken over itself.

use std::path::Path;
use std::sync::Arc;

use spindle_net::service::{Lifecycle, Notifier};
use spindle_net::status::Control;
use spindle_net::takeover::{Begun, Listener, Offered, Old};
use spindle_net::{NetError, Network};
use tokio::net::TcpListener;
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

/// The old process, as the main loop sees it.
#[derive(Clone, Default)]
pub(super) struct Before(Option<Arc<Begun>>);

impl Before {
    /// Confirms that the old process is to drain, and logs when it has ended.
    pub(super) async fn confirm(begun: Option<Begun>) -> Result<Self, NetError> {
        let Some(begun) = begun.map(Arc::new) else {
            return Ok(Self(None));
        };
        begun.confirm().await?;
        let waiting = begun.clone();
        tokio::spawn(async move { waiting.ended().await });
        Ok(Self(Some(begun)))
    }

    /// Passes a signal to stop on.
    pub(super) async fn stop(&self) {
        if let Some(begun) = &self.0 {
            begun.stop().await;
        }
    }
}

/// Lets other processes take over from this one. `control` is its control socket, `metrics` the listener of its metrics.
pub(super) fn allow(
    network: &Network,
    lifecycle: &Lifecycle,
    control: &Control,
    metrics: Option<std::net::TcpListener>,
    manager: Arc<Notifier>,
) -> Result<JoinHandle<()>, Failure> {
    let name = control.name();
    let listener = Listener::bind(&name.path())?;
    let old = Old {
        network: network.clone(),
        lifecycle: lifecycle.clone(),
        control: name,
        metrics,
    };
    Ok(tokio::spawn(async move {
        match old.serve(listener, |pid| manager.replaced_by(pid)).await {}
    }))
}

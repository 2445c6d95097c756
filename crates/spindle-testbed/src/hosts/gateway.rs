//! A gateway in front of a server on the kernel's TCP, like `spindle gateway --tun`.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;

use spindle_mptcp::Config;
use spindle_net::gateway::{Gateway, GatewayOptions};
use spindle_net::service::Lifecycle;
use spindle_net::{NetError, Network};
use tokio::sync::oneshot;

use crate::hosts::namespace::Namespace;
use crate::hosts::{PORT, kernel};

/// A host with a gateway.
pub(crate) struct GatewayHost {
    pub(crate) network: Network,
    namespace: Namespace,
    config: Arc<Config>,
}

/// The running gateway. Dropping it resets open connections and ends its thread.
pub(crate) struct RunningGateway {
    lifecycle: Lifecycle,
    thread: Option<JoinHandle<()>>,
}

impl Drop for RunningGateway {
    fn drop(&mut self) {
        self.lifecycle.abort();
        if let Some(thread) = self.thread.take() {
            // The panic handler has already reported a panic of the thread.
            let _ = thread.join();
        }
    }
}

impl GatewayHost {
    pub(crate) fn new(network: Network, namespace: Namespace, config: Arc<Config>) -> Self {
        Self {
            network,
            namespace,
            config,
        }
    }

    /// Opens the service's listener on the namespace's loopback, and the gateway to it on `local`.
    pub(crate) async fn listen(
        &self,
        local: SocketAddr,
    ) -> io::Result<(tokio::net::TcpListener, RunningGateway)> {
        let to = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), PORT);
        let service = kernel::listen(&self.namespace, to, false)?;
        let options = GatewayOptions::new(vec![local], to, self.config.clone());
        let (network, (up, ready)) = (self.network.clone(), oneshot::channel());
        // A thread belongs to the namespace that the thread starting it is in at that moment. The gateway must
        // make its connections to the service in this namespace.
        let thread = self.namespace.within(|| {
            std::thread::Builder::new()
                .name("gateway".to_owned())
                .spawn(move || run(&network, options, up))
        })??;
        let lifecycle = ready
            .await
            .map_err(|_| io::Error::other("the gateway's thread ended"))?
            .map_err(io::Error::other)?;
        let running = RunningGateway {
            lifecycle,
            thread: Some(thread),
        };
        Ok((service, running))
    }
}

fn run(
    network: &Network,
    options: GatewayOptions,
    up: oneshot::Sender<Result<Lifecycle, NetError>>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(source) => {
            let what = "cannot start the gateway's runtime".to_owned();
            // If sending fails, the waiting side no longer exists and the error has no receiver.
            let _ = up.send(Err(NetError::System { what, source }));
            return;
        }
    };
    runtime.block_on(async {
        match Gateway::bind(network, options).await {
            Ok(gateway) => {
                if up.send(Ok(gateway.lifecycle())).is_ok() {
                    // The gateway ends through its lifecycle or with the network.
                    let _ = gateway.serve().await;
                }
            }
            Err(e) => {
                let _ = up.send(Err(e));
            }
        }
    });
}

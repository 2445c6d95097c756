//! The services of a gateway: [`Service`] describes one, and [`ServiceHandle`] changes one that runs.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use spindle_mptcp::ListenerId;

use super::Backend;
use crate::backends::Backends;
use crate::error::NetError;
use crate::forward::Forwarder;
use crate::metrics::{Metrics, Refused};
use crate::networks::Networks;
use crate::socket::{Admission, Network, TcpListener};

/// One of a gateway's services: the addresses where it listens, and what is behind them.
#[derive(Clone, Debug)]
pub struct Service {
    /// The name for the log, the metrics and the status, unique within the gateway.
    pub name: Arc<str>,
    /// Addresses and ports to listen on, as the stack sees them.
    pub listen: Vec<SocketAddr>,
    /// Where connections go.
    pub to: Backend,
    /// Further addresses to announce to clients.
    pub announce: Vec<(IpAddr, Option<u16>)>,
    /// Listening addresses as clients know them, if those differ: pairs of the stack's address and the clients'
    /// address. The PROXY protocol reports the clients' address.
    pub outside: Vec<(SocketAddr, SocketAddr)>,
    /// Whether to report the client's address to the service (PROXY protocol, version 2). It does not apply to
    /// targets that clients name.
    pub proxy_protocol: bool,
    /// The networks whose clients may connect.
    pub networks: Networks,
}

impl Service {
    /// A service with the name of its first listening address, without announced addresses and the PROXY protocol, for
    /// clients of all networks.
    pub fn new(listen: Vec<SocketAddr>, to: impl Into<Backend>) -> Self {
        Self {
            name: listen
                .first()
                .map_or_else(String::new, SocketAddr::to_string)
                .into(),
            listen,
            to: to.into(),
            announce: Vec::new(),
            outside: Vec::new(),
            proxy_protocol: false,
            networks: Networks::default(),
        }
    }

    /// The back ends, unless clients name their targets.
    pub(super) fn backends(&self) -> Option<&Backends> {
        match &self.to {
            Backend::Service(backends) => Some(backends),
            Backend::Forward(_) => None,
        }
    }

    /// The listening addresses as clients know them.
    fn known_as(&self) -> Vec<SocketAddr> {
        match self.outside.is_empty() {
            true => self.listen.clone(),
            false => self.outside.iter().map(|(_, outside)| *outside).collect(),
        }
    }
}

/// The networks of a service, as its listeners ask for them. It counts whom they refuse.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) networks: Networks,
    pub(super) metrics: Option<Metrics>,
}

impl Admission for Admitted {
    fn admits(&self, peer: IpAddr) -> bool {
        self.networks.admits(peer)
    }

    fn refused(&self, _peer: IpAddr) {
        if let Some(metrics) = &self.metrics {
            metrics.refused(Refused::Network);
        }
    }
}

impl Admitted {
    /// The rule of listeners. `None` if it admits all clients.
    pub(super) fn rule(self) -> Option<Arc<dyn Admission>> {
        (!self.networks.is_empty()).then(|| Arc::new(self) as Arc<dyn Admission>)
    }
}

#[derive(Debug)]
struct Running {
    network: Network,
    service: Service,
    listeners: Vec<(ListenerId, SocketAddr)>,
    metrics: Option<Metrics>,
}

/// A service of a gateway that runs. All clones are the same service.
#[derive(Clone, Debug)]
pub struct ServiceHandle(Arc<Running>);

impl ServiceHandle {
    pub(super) fn new(
        network: &Network,
        service: Service,
        listeners: &[TcpListener],
        metrics: Option<Metrics>,
    ) -> Self {
        let listeners = listeners.iter().map(|l| (l.id(), l.local_addr()));
        Self(Arc::new(Running {
            network: network.clone(),
            service,
            listeners: listeners.collect(),
            metrics,
        }))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.service.name
    }

    /// The addresses where it listens, as clients know them.
    pub fn listen(&self) -> Vec<SocketAddr> {
        self.0.service.known_as()
    }

    /// Its back ends, unless clients name their targets.
    pub fn backends(&self) -> Option<&Backends> {
        self.0.service.backends()
    }

    /// The rules by which clients name their targets, unless it has back ends.
    pub fn forwarder(&self) -> Option<&Forwarder> {
        match &self.0.service.to {
            Backend::Service(_) => None,
            Backend::Forward(forwarder) => Some(forwarder),
        }
    }

    /// Where its connections go, in words.
    pub fn to(&self) -> &dyn fmt::Display {
        &self.0.service.to
    }

    /// Whether it listens on this address of the stack.
    pub fn accepts_at(&self, local: SocketAddr) -> bool {
        self.0.listeners.iter().any(|(_, l)| *l == local)
    }

    /// Admits clients of these networks only from now on, and resets the connections of others. A connection is judged by
    /// the address from which it was opened. Returns how many were reset.
    ///
    /// # Errors
    /// [`NetError::Stopped`].
    pub async fn set_networks(&self, networks: &Networks) -> Result<usize, NetError> {
        let mut reset = 0;
        for (id, _) in &self.0.listeners {
            let admitted = Admitted {
                networks: networks.clone(),
                metrics: self.0.metrics.clone(),
            };
            reset += self.0.network.set_admission(*id, admitted.rule()).await?;
        }
        Ok(reset)
    }
}

//! The metrics of each service, if a gateway has several.

use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Labels of a metric that may have the one of a service.
pub(super) type Labels = Vec<(&'static str, String)>;

/// The label of a service, if there is one, and another.
pub(super) fn labels(service: Option<&str>, other: (&'static str, &str)) -> Labels {
    let service = service.map(|name| ("service", name.to_owned()));
    let other = (other.0, other.1.to_owned());
    service.into_iter().chain([other]).collect()
}

/// The services that have metrics of their own, and their connections.
#[derive(Debug, Default)]
pub(super) struct Services {
    names: Mutex<Vec<Arc<str>>>,
    open: Family<Labels, Gauge>,
    accepted: Family<Labels, Counter>,
}

impl Services {
    /// Adds a service. Its metrics exist from now on, at 0.
    pub(super) fn add(&self, name: Arc<str>) {
        let label = vec![("service", name.to_string())];
        drop(self.open.get_or_create(&label));
        drop(self.accepted.get_or_create(&label));
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if !names.contains(&name) {
            names.push(name);
        }
    }

    /// The names of the services.
    pub(super) fn names(&self) -> Vec<Arc<str>> {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.clone()
    }

    /// Counts a connection of the service. It is open until the result is dropped.
    pub(super) fn open(&self, name: &str) -> OpenConnection {
        let label = vec![("service", name.to_owned())];
        self.accepted.get_or_create(&label).inc();
        let gauge = self.open.get_or_create_owned(&label);
        gauge.inc();
        OpenConnection(Some(gauge))
    }

    /// Registers the metrics, if there are services.
    pub(super) fn register(&self, registry: &mut Registry) {
        if self.names().is_empty() {
            return;
        }
        registry.register(
            "service_connections",
            "Connections of the service open now",
            self.open.clone(),
        );
        registry.register(
            "service_connections_accepted",
            "Connections of the service accepted from peers",
            self.accepted.clone(),
        );
    }
}

/// A connection that is counted as open until this is dropped.
#[derive(Debug)]
pub struct OpenConnection(pub(super) Option<Gauge>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        if let Some(gauge) = &self.0 {
            gauge.dec();
        }
    }
}

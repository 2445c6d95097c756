//! The back ends of a gateway's service as metrics.

use std::fmt::Error;
use std::net::SocketAddr;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// The state of a back end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendStatus {
    /// Where it listens.
    pub addr: SocketAddr,
    /// Its weight.
    pub weight: u32,
    /// Whether connections to it succeed, as far as is known.
    pub up: bool,
    /// Connections that were made to it.
    pub connections: u64,
    /// Connections to it that failed.
    pub failures: u64,
}

/// The states of the back ends at one moment.
#[derive(Debug)]
pub(super) struct States(pub(super) Vec<ServiceBackend>);

/// A back end, with the name of its service if there are several.
pub(super) type ServiceBackend = (Option<Arc<str>>, BackendStatus);

impl States {
    /// A metric with a value for each back end.
    fn encode_each<M: EncodeMetric>(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        (name, help): (&str, &str),
        metric: impl Fn(&BackendStatus) -> M,
    ) -> Result<(), Error> {
        let Some(first) = self.0.first() else {
            return Ok(());
        };
        let kind = metric(&first.1).metric_type();
        let mut family = encoder.encode_descriptor(name, help, None, kind)?;
        for (service, state) in &self.0 {
            let backend = ("backend", state.addr.to_string());
            let service = service.as_ref().map(|name| ("service", name.to_string()));
            let labels: Vec<_> = service.into_iter().chain([backend]).collect();
            metric(state).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

impl Collector for States {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let up = (
            "backend_up",
            "1 if connections to the back end succeed, 0 if it is down",
        );
        self.encode_each(&mut encoder, up, |s| ConstGauge::new(i64::from(s.up)))?;
        let connections = ("backend_connections", "Connections made to the back end");
        self.encode_each(&mut encoder, connections, |s| {
            ConstCounter::new(s.connections)
        })?;
        let failures = (
            "backend_failures",
            "Connections to the back end that failed",
        );
        self.encode_each(&mut encoder, failures, |s| ConstCounter::new(s.failures))
    }
}

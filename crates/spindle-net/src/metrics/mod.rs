//! Prometheus metrics of a gateway or connect service.
//!
//! Counters are read from the data path on request. Only what the data path does not know is own here:
//! response times, how connections ended, and what limits refused.

mod backends;
mod collect;
mod http;
mod paths;
mod process;
mod service;
mod uplinks;

use std::fmt::{self, Write};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

pub use backends::BackendStatus;
pub use http::{Observed, serve};
pub use service::OpenConnection;

use crate::tls::{Expiry, Owner};
use crate::uplinks::Uplinks;
use crate::{NetError, Network};
use service::{Labels, labels};

/// The first bucket of the response times in seconds. Each further bucket is twice as large.
const FIRST_BUCKET: f64 = 0.001;
const BUCKETS: u16 = 16;

/// How a relayed connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ended {
    /// Both directions were closed in order.
    Finished,
    /// The peer over Spindle reset the connection, or no path to the peer was left.
    PeerFailed,
    /// The other side (the service, or the local program) reset the connection.
    LocalFailed,
    /// The connection was idle for too long, or draining took too long.
    Expired,
}

impl Ended {
    const ALL: [Self; 4] = [
        Self::Finished,
        Self::PeerFailed,
        Self::LocalFailed,
        Self::Expired,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::PeerFailed => "peer_failed",
            Self::LocalFailed => "local_failed",
            Self::Expired => "expired",
        }
    }
}

/// Why a connection was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refused {
    /// The other side (the service, or the gateway) could not be reached.
    Unreachable,
    /// As many connections as allowed are open.
    Connections,
    /// The allowed memory is in use or reserved.
    Memory,
    /// The source had used up its share of the limits.
    Source,
    /// The TLS handshake failed.
    Tls,
    /// The client did not speak SOCKS as expected.
    Socks,
    /// The client did not request a tunnel by HTTP as expected.
    Http,
    /// The kernel had not redirected the connection, or to no target.
    Redirect,
    /// The user's name or password is wrong or missing.
    Authentication,
    /// No rule of the gateway allows the target that the client named.
    Rule,
    /// The client's network is not allowed.
    Network,
}

impl Refused {
    const ALL: [Self; 11] = [
        Self::Unreachable,
        Self::Connections,
        Self::Memory,
        Self::Source,
        Self::Tls,
        Self::Socks,
        Self::Http,
        Self::Redirect,
        Self::Authentication,
        Self::Rule,
        Self::Network,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Connections => "connections",
            Self::Memory => "memory",
            Self::Source => "source",
            Self::Tls => "tls",
            Self::Socks => "socks",
            Self::Http => "http",
            Self::Redirect => "redirect",
            Self::Authentication => "authentication",
            Self::Rule => "rule",
            Self::Network => "network",
        }
    }
}

impl EncodeLabelValue for Owner {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        encoder.write_str(match self {
            Self::Own => "own",
            Self::Authority => "authority",
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Whose {
    certificate: Owner,
}

/// Yields the states of the back ends.
struct BackendStates(Box<dyn Fn() -> Vec<backends::ServiceBackend> + Send + Sync>);

impl fmt::Debug for BackendStates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries((self.0)()).finish()
    }
}

#[derive(Debug)]
struct OwnMetrics {
    transport: String,
    ended: Family<Labels, Counter>,
    refused: Family<Labels, Counter>,
    services: service::Services,
    direct: Counter,
    response: Histogram,
    expiry: Family<Whose, Gauge>,
    backends: OnceLock<BackendStates>,
    uplinks: OnceLock<Uplinks>,
}

/// The metrics that a gateway or connect service counts itself. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Metrics {
    own: Arc<OwnMetrics>,
    /// The service of a gateway whose connections are counted, if there are several.
    service: Option<Arc<str>>,
}

impl Metrics {
    /// Metrics for connections of this transport, which becomes the label of all metrics.
    pub fn new(transport: &str) -> Self {
        let buckets = exponential_buckets(FIRST_BUCKET, 2.0, BUCKETS);
        let metrics = Self {
            own: Arc::new(OwnMetrics {
                transport: transport.to_owned(),
                ended: Family::default(),
                refused: Family::default(),
                services: service::Services::default(),
                direct: Counter::default(),
                response: Histogram::new(buckets),
                expiry: Family::default(),
                backends: OnceLock::new(),
                uplinks: OnceLock::new(),
            }),
            service: None,
        };
        metrics.none_yet();
        metrics
    }

    /// The same metrics for connections of this service, whose name becomes a label of what is counted for each of several
    /// services.
    pub fn of_service(&self, name: Arc<str>) -> Self {
        self.own.services.add(name.clone());
        let metrics = Self {
            own: self.own.clone(),
            service: Some(name),
        };
        metrics.none_yet();
        metrics
    }

    /// Creates the counters at 0, so that they exist from the beginning.
    fn none_yet(&self) {
        for how in Ended::ALL {
            drop(self.own.ended.get_or_create(&self.how(how)));
        }
        for why in Refused::ALL {
            drop(self.own.refused.get_or_create(&self.why(why)));
        }
    }

    fn how(&self, how: Ended) -> Labels {
        labels(self.service.as_deref(), ("how", how.name()))
    }

    fn why(&self, why: Refused) -> Labels {
        labels(self.service.as_deref(), ("why", why.name()))
    }

    /// Counts an open connection of the service, until the result is dropped.
    pub fn open(&self) -> OpenConnection {
        let service = self.service.as_ref();
        service.map_or(OpenConnection(None), |name| self.own.services.open(name))
    }

    /// Counts a relayed connection that has ended.
    pub fn ended(&self, how: Ended) {
        self.own.ended.get_or_create(&self.how(how)).inc();
    }

    /// Counts a connection that was refused.
    pub fn refused(&self, why: Refused) {
        self.own.refused.get_or_create(&self.why(why)).inc();
    }

    /// Counts a program's connection that was opened directly, since the gateway could not be reached.
    pub fn direct(&self) {
        self.own.direct.inc();
    }

    /// Records a response time: from the last byte of a request until the requesting side has acknowledged the
    /// last byte that was sent back before the next request or the end.
    pub fn response_time(&self, took: Duration) {
        self.own.response.observe(took.as_secs_f64());
    }

    /// Sets when the certificates in use end.
    pub fn certificates(&self, expiries: &[Expiry]) {
        for expiry in expiries {
            let certificate = expiry.owner;
            let gauge = self.own.expiry.get_or_create(&Whose { certificate });
            gauge.set(expiry.ends);
        }
    }

    /// Reports the states of a gateway's back ends from now on, each with the name of its service if there are several.
    /// A second call has no effect.
    pub fn backends(
        &self,
        states: impl Fn() -> Vec<(Option<Arc<str>>, BackendStatus)> + Send + Sync + 'static,
    ) {
        // The error is that there are some already.
        let _ = self.own.backends.set(BackendStates(Box::new(states)));
    }

    /// Reports the states of these uplinks from now on. A second call has no effect.
    pub fn uplinks(&self, uplinks: Uplinks) {
        // The error is that there are some already.
        let _ = self.own.uplinks.set(uplinks);
    }

    /// Number of response times observed, and their sum in seconds.
    #[cfg(test)]
    pub(crate) fn responses(&self) -> (u64, f64) {
        let mut registry = Registry::default();
        registry.register("r", "", self.own.response.clone());
        let mut out = String::new();
        text::encode(&mut out, &registry).unwrap();
        let value = |name| out.lines().find_map(|l| l.strip_prefix(name)).unwrap();
        let sum: f64 = value("r_sum ").parse().unwrap();
        // Sums of milliseconds, rounded to remove the error of adding binary fractions.
        (
            value("r_count ").parse().unwrap(),
            (sum * 1e6).round() / 1e6,
        )
    }

    /// The refused connections, including those that the stack refused by itself.
    fn all_refused(&self, snapshot: &collect::Snapshot) -> Family<Labels, Counter> {
        let all = Family::<Labels, Counter>::default();
        let names = self.own.services.names();
        for service in std::iter::once(None).chain(names.iter().map(Some)) {
            for why in Refused::ALL {
                let labels = labels(service.map(|s| &**s), ("why", why.name()));
                let here = self.own.refused.get_or_create(&labels).get();
                // What the stack refuses belongs to no service.
                let elsewhere = service.map_or_else(|| snapshot.refused(why), |_| 0);
                all.get_or_create(&labels).inc_by(here + elsewhere);
            }
        }
        all
    }

    /// All metrics in the OpenMetrics text format.
    ///
    /// # Errors
    /// [`NetError::Stopped`] if the data path has ended.
    pub async fn text(&self, network: &Network) -> Result<String, NetError> {
        let snapshot = collect::Snapshot::take(network).await?;
        let own = &self.own;
        let label = ("transport".into(), own.transport.clone().into());
        let refused = self.all_refused(&snapshot);
        let mut all = Registry::default();
        all.register_collector(Box::new(process::ProcessMetrics));
        let registry = all
            .sub_registry_with_prefix("spindle")
            .sub_registry_with_label(label);
        registry.register(
            "build",
            "The version that runs",
            Info::new([("version", env!("CARGO_PKG_VERSION"))]),
        );
        registry.register_collector(Box::new(snapshot.paths()));
        registry.register_collector(Box::new(snapshot));
        if let Some(states) = own.backends.get() {
            registry.register_collector(Box::new(backends::States((states.0)())));
        }
        if let Some(followed) = own.uplinks.get() {
            let (list, usage) = (followed.list(), followed.usage());
            registry.register_collector(Box::new(uplinks::Uplinks { list, usage }));
        }
        registry.register(
            "ended",
            "Relayed connections that are over",
            own.ended.clone(),
        );
        registry.register("refused", "Connections turned away", refused);
        registry.register(
            "direct",
            "Connections opened directly, since the gateway could not be reached",
            own.direct.clone(),
        );
        own.services.register(registry);
        registry.register_with_unit(
            "response_time",
            "From the last byte of a request to the acknowledgement of the last byte of its response",
            Unit::Seconds,
            own.response.clone(),
        );
        registry.register_with_unit(
            "certificate_expiry",
            "When a certificate in use ends, in seconds of Unix time",
            Unit::Seconds,
            own.expiry.clone(),
        );
        let mut out = String::new();
        // Writing to a string does not fail.
        let _ = text::encode(&mut out, &all);
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NetworkConfig, memory};

    #[tokio::test]
    async fn every_metric_has_the_transport_label() {
        let (link, _other) = memory::pair(64);
        let network = Network::start(NetworkConfig::default(), Box::new(link)).unwrap();
        let metrics = Metrics::new("fuso");
        metrics.ended(Ended::Finished);
        metrics.ended(Ended::Finished);
        metrics.refused(Refused::Tls);
        metrics.direct();
        metrics.response_time(Duration::from_millis(3));
        metrics.certificates(&[Expiry {
            owner: Owner::Own,
            place: "gateway.pem".to_owned(),
            ends: 1_800_000_000,
        }]);
        let state = BackendStatus {
            addr: "192.0.2.1:80".parse().unwrap(),
            weight: 1,
            up: true,
            connections: 7,
            failures: 0,
        };
        metrics.backends(move || vec![(None, state.clone())]);
        let text = metrics.text(&network).await.unwrap();
        for line in [
            "spindle_backend_up{transport=\"fuso\",backend=\"192.0.2.1:80\"} 1",
            "spindle_backend_failures_total{transport=\"fuso\",backend=\"192.0.2.1:80\"} 0",
            "spindle_ended_total{transport=\"fuso\",how=\"finished\"} 2",
            "spindle_refused_total{transport=\"fuso\",why=\"tls\"} 1",
            "spindle_refused_total{transport=\"fuso\",why=\"memory\"} 0",
            "spindle_direct_total{transport=\"fuso\"} 1",
            "spindle_response_time_seconds_bucket{transport=\"fuso\",le=\"0.004\"} 1",
            "spindle_certificate_expiry_seconds{transport=\"fuso\",certificate=\"own\"} 1800000000",
            "spindle_connections{transport=\"fuso\"} 0",
            "spindle_connections_half_open{transport=\"fuso\"} 0",
            "spindle_cookies_refused_total{transport=\"fuso\"} 0",
            "spindle_joins_unknown_total{transport=\"fuso\"} 0",
            "spindle_joins_prohibited_total{transport=\"fuso\"} 0",
            "spindle_add_addr_refused_total{transport=\"fuso\"} 0",
            "spindle_resets_withheld_total{transport=\"fuso\"} 0",
            "spindle_steps_total{transport=\"fuso\"} 0",
            "spindle_timeouts_total{transport=\"fuso\"} 0",
            "spindle_recoveries_useful_total{transport=\"fuso\"} 0",
            "spindle_subflows_ended_total{transport=\"fuso\",reason=\"peer_reset\"} 0",
            "spindle_turn_time_seconds_bucket{transport=\"fuso\",le=\"+Inf\"}",
            "spindle_repair_time_seconds_bucket{transport=\"fuso\",le=\"0.0512\"} 0",
            "spindle_repair_time_seconds_count{transport=\"fuso\"} 0",
            concat!(
                "spindle_build_info{transport=\"fuso\",version=\"",
                env!("CARGO_PKG_VERSION"),
                "\"} 1"
            ),
            "process_cpu_seconds_total ",
            "process_resident_memory_bytes ",
            "process_start_time_seconds 1",
            "process_open_fds ",
            "process_max_fds ",
            "# EOF",
        ] {
            assert!(text.contains(line), "{line} not in\n{text}");
        }
        network.shutdown().await;
    }

    #[tokio::test]
    async fn what_several_services_count_has_their_names() {
        let (link, _other) = memory::pair(64);
        let network = Network::start(NetworkConfig::default(), Box::new(link)).unwrap();
        let metrics = Metrics::new("fuso");
        let [web, mail] = ["web", "mail"].map(|name| metrics.of_service(name.into()));
        web.refused(Refused::Network);
        mail.ended(Ended::Finished);
        let open = [web.open(), mail.open(), mail.open()];
        let text = metrics.text(&network).await.unwrap();
        for line in [
            "spindle_refused_total{transport=\"fuso\",service=\"web\",why=\"network\"} 1",
            "spindle_refused_total{transport=\"fuso\",service=\"mail\",why=\"network\"} 0",
            "spindle_refused_total{transport=\"fuso\",why=\"source\"} 0",
            "spindle_ended_total{transport=\"fuso\",service=\"mail\",how=\"finished\"} 1",
            "spindle_service_connections{transport=\"fuso\",service=\"mail\"} 2",
        ] {
            assert!(text.contains(line), "{line} not in\n{text}");
        }
        drop(open);
        let text = metrics.text(&network).await.unwrap();
        for line in [
            "spindle_service_connections{transport=\"fuso\",service=\"mail\"} 0",
            "spindle_service_connections_accepted_total{transport=\"fuso\",service=\"mail\"} 2",
        ] {
            assert!(text.contains(line), "{line} not in\n{text}");
        }
        network.shutdown().await;
    }
}

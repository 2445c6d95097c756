//! Names that experiment files and the command line use: Spindle's own and those that other crates add.
//!
//! A custom crate makes a [`Registry`], adds to it, and passes it to `spindle::cli`. Its names can then be used
//! in experiment files and on the command line like Spindle's own.

use std::sync::{Arc, OnceLock};

use spindle_fabric::{Balancing, LinkId, Network, NetworkError, Queueing, Trace, balance};
use spindle_mptcp::congestion::{self, ControllerFactory};
use spindle_mptcp::entropy::EntropyFactory;
use spindle_mptcp::path_manager::PathManager;
use spindle_mptcp::scheduler::SchedulerFactory;
use spindle_mptcp::{Config, Variant, preset, preset_names, variants};

use crate::catalog::{Catalog, want_one_of};
use crate::claims::{self, Keys, ReadTest, Test};
use crate::document::{ExperimentError, Section};
use crate::identity::{VERSION, build_version};
use crate::link_properties::{self, LinkProperty, ReadLinkProperty};
use crate::link_traces::{self, ReadLinkTrace, TracePlace};
use crate::loss_models::{self, LossModel, LossPlace, ReadLossModel};
use crate::metrics::{self, MetricSpec};
use crate::queues::{self, ReadQueue};
use crate::topologies::{self, CustomKind, TopologyKind};
use crate::traffic::{self, TrafficKind};
use crate::workload::{self, Sizes};

/// How requests use connections of a transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Application {
    /// A request uses one connection.
    Plain,
    /// Requests for fewer bytes than `below` use two connections at once, whose paths are hashed separately.
    /// The first connection to finish counts, and the other is not cancelled (RepFlow, mechanisms A5.5).
    Replicated {
        /// The limit in bytes.
        below: u64,
    },
}

/// A transport by name.
#[derive(Clone)]
pub struct Transport {
    /// Its name.
    pub name: String,
    /// What it consists of, one line per part.
    pub parts: Vec<String>,
    /// How requests use its connections.
    pub application: Application,
    /// The name of the transport for background traffic if the traffic does not name one. `None` selects this
    /// transport.
    pub background: Option<String>,
    config: Arc<dyn Fn() -> Config + Send + Sync>,
}

impl Transport {
    /// What it is, in one line: its first part.
    pub fn summary(&self) -> &str {
        self.parts.first().map_or("", String::as_str)
    }

    /// A new configuration with the scenario's values at their defaults.
    pub fn config(&self) -> Config {
        (self.config)()
    }

    /// Everything that the transport consists of, as text. A custom policy with other parameters has a
    /// different text, even under the same name.
    pub fn configuration(&self) -> String {
        format!("{:?} {:?}", self.config(), self.application)
    }
}

impl std::fmt::Debug for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transport")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Makes the balancers of a network's switches.
pub type BalancerFactory = Arc<dyn Fn() -> Balancing + Send + Sync>;

/// A balancer by name.
#[derive(Clone)]
pub struct NamedBalancer {
    /// Its name.
    pub name: String,
    /// What it does, in one line. Empty if no description was given.
    pub part: String,
    make: BalancerFactory,
}

/// The suffix of a balancer's name that adds two strict priorities at every port, short flows first, with a
/// shared buffer (CAPS appendix B, mechanisms A5.13).
pub const WITH_PRIORITIES: &str = "-pq";

/// The balancer that is used if none is named.
pub const ECMP: &str = "ecmp";

pub use crate::topologies::{TopologyFactory, TopologyRequest};

/// The transports that combine others, each with what distinguishes it.
pub(crate) const COMBINED: [(&str, &str); 3] = [
    (
        "repflow",
        "two `tcp` connections for each request below 100 KB",
    ),
    ("ps-tcp", "`ps` for long flows, NewReno for the others"),
    (
        "mptcp-tcp",
        "MPTCP with 8 subflows for long flows, NewReno for the others",
    ),
];

/// RepFlow's limit (mechanisms A5.5).
const REPLICATED_BELOW: u64 = 100_000;

/// All names.
#[derive(Clone)]
pub struct Registry {
    transports: Catalog<Transport>,
    variants: Vec<Variant>,
    controllers: Vec<Arc<dyn ControllerFactory>>,
    balancers: Catalog<NamedBalancer>,
    topologies: Catalog<dyn TopologyKind>,
    claim_tests: Catalog<ReadTest>,
    loss_models: Catalog<ReadLossModel>,
    link_properties: Catalog<ReadLinkProperty>,
    queues: Catalog<ReadQueue>,
    link_traces: Catalog<ReadLinkTrace>,
    traffic_kinds: Catalog<dyn TrafficKind>,
    metrics: Catalog<&'static MetricSpec>,
    workloads: Catalog<Sizes>,
    composed: OnceLock<Box<Composed>>,
    /// Whether it contains anything that is not part of Spindle.
    extended: bool,
}

/// Transports with variants that were requested, as a list that only grows.
#[derive(Clone)]
struct Composed {
    transport: Transport,
    next: OnceLock<Box<Self>>,
}

impl Default for Registry {
    fn default() -> Self {
        Self::standard()
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registry")
            .field("transports", &self.transports)
            .field("balancers", &self.balancer_names())
            .field("topologies", &self.topologies)
            .field("claim_tests", &self.claim_tests)
            .field("loss_models", &self.loss_models)
            .field("link_properties", &self.link_properties)
            .field("queues", &self.queues)
            .field("link_traces", &self.link_traces)
            .field("traffic_kinds", &self.traffic_kinds)
            .field("metrics", &self.metrics)
            .field("workloads", &self.workloads)
            .finish()
    }
}

impl Registry {
    /// The names that come with Spindle.
    pub fn standard() -> Self {
        let mut registry = Self {
            transports: Catalog::new("transport"),
            variants: variants().to_vec(),
            controllers: congestion::built_in().to_vec(),
            balancers: Catalog::new("balancer"),
            topologies: topologies::built_in(),
            claim_tests: claims::built_in(),
            loss_models: loss_models::built_in(),
            link_properties: link_properties::built_in(),
            queues: queues::built_in(),
            link_traces: link_traces::built_in(),
            traffic_kinds: traffic::built_in(),
            metrics: metrics::built_in(),
            workloads: workload::built_in(),
            composed: OnceLock::new(),
            extended: false,
        };
        for name in preset_names() {
            if let Some(p) = preset(&name) {
                let config = p.config;
                let parts = p.parts.iter().map(|s| (*s).to_owned()).collect();
                registry = registry.transport(name, parts, move || config.clone());
            }
        }
        for b in balance::built_in() {
            registry = registry.balancer(b.name, b.summary, b.make);
        }
        Self {
            extended: false,
            ..registry.with_repflow().with_pairs()
        }
    }

    /// The version of results made with this registry: [`VERSION`], or [the version of this
    /// build](build_version) if something custom was added.
    pub fn version(&self) -> &'static str {
        if self.extended {
            build_version()
        } else {
            VERSION
        }
    }

    fn with_repflow(mut self) -> Self {
        let Some(tcp) = self.find("tcp").cloned() else {
            return self;
        };
        let mut parts = vec![
            "each request below 100 KB over two `tcp` connections, hashed to paths separately; the first to finish counts, the other is not cancelled (FUSO section 5.1, mechanisms A5.5)".to_owned(),
        ];
        parts.extend(tcp.parts.iter().cloned());
        let repflow = Transport {
            name: "repflow".to_owned(),
            parts,
            application: Application::Replicated {
                below: REPLICATED_BELOW,
            },
            background: None,
            config: tcp.config,
        };
        let summary = repflow.summary().to_owned();
        let place = "mptcp";
        self.transports
            .add_before(place, "repflow", summary, Arc::new(repflow));
        self
    }

    /// Adds transports with one transport per class of traffic (mechanisms A5.7): TCP for short flows, another
    /// for long ones.
    fn with_pairs(mut self) -> Self {
        for (name, long) in [("ps-tcp", "ps"), ("mptcp-tcp", "mptcp-8+newreno")] {
            let Some(short) = self.compose("tcp+newreno") else {
                return self;
            };
            let part = format!("long flows (background traffic) by `{long}`, the others:");
            let parts = std::iter::once(part).chain(short.parts);
            self = self.add(Transport {
                name: name.to_owned(),
                parts: parts.collect(),
                background: Some(long.to_owned()),
                ..short
            });
        }
        self
    }

    /// Adds a transport, or replaces the one with that name. `parts` describes what it consists of.
    #[must_use]
    pub fn transport(
        self,
        name: impl Into<String>,
        parts: Vec<String>,
        config: impl Fn() -> Config + Send + Sync + 'static,
    ) -> Self {
        self.add(Transport {
            name: name.into(),
            parts,
            application: Application::Plain,
            background: None,
            config: Arc::new(config),
        })
    }

    /// Adds a transport whose small requests are replicated, like RepFlow's.
    #[must_use]
    pub fn replicated_transport(
        self,
        name: impl Into<String>,
        parts: Vec<String>,
        below: u64,
        config: impl Fn() -> Config + Send + Sync + 'static,
    ) -> Self {
        self.add(Transport {
            name: name.into(),
            parts,
            application: Application::Replicated { below },
            background: None,
            config: Arc::new(config),
        })
    }

    fn add(mut self, transport: Transport) -> Self {
        let (name, summary) = (transport.name.clone(), transport.summary().to_owned());
        self.transports.add(name, summary, Arc::new(transport));
        self.composed = OnceLock::new();
        self.extended = true;
        self
    }

    /// Adds a congestion controller, or replaces the one with that name. Experiment files can set it for every
    /// transport (`congestion` of `[scenario]`), and it is a [variant](Variant::controller) of every transport.
    #[must_use]
    pub fn congestion_controller(mut self, factory: impl ControllerFactory + 'static) -> Self {
        let factory: Arc<dyn ControllerFactory> = Arc::new(factory);
        self.controllers.retain(|c| c.name() != factory.name());
        self.controllers.push(factory.clone());
        self.variant(Variant::controller(factory))
    }

    /// Adds a scheduler as a [variant](Variant::scheduler) of every multipath transport, or replaces the one
    /// with that name.
    #[must_use]
    pub fn scheduler(self, factory: impl SchedulerFactory + 'static) -> Self {
        self.variant(Variant::scheduler(Arc::new(factory)))
    }

    /// Adds a path manager as a [variant](Variant::path_manager) of every multipath transport, or replaces the
    /// one with that name.
    #[must_use]
    pub fn path_manager(self, manager: impl PathManager + 'static) -> Self {
        self.variant(Variant::path_manager(Arc::new(manager)))
    }

    /// Adds a policy of flow labels as a [variant](Variant::entropy) of every transport, or replaces the one with that
    /// name.
    #[must_use]
    pub fn entropy(self, factory: impl EntropyFactory + 'static) -> Self {
        self.variant(Variant::entropy(Arc::new(factory)))
    }

    /// Adds a variant, or replaces the one with that name. Transports that are already added with a variant in
    /// their configuration do not change.
    #[must_use]
    pub fn variant(mut self, variant: Variant) -> Self {
        self.variants.retain(|v| v.name() != variant.name());
        self.variants.push(variant);
        self.composed = OnceLock::new();
        self.extended = true;
        self
    }

    /// Adds a balancer, or replaces the one with that name. `summary` describes it in one line. A variant with
    /// the suffix [`WITH_PRIORITIES`] is available as well.
    #[must_use]
    pub fn balancer(
        mut self,
        name: impl Into<String>,
        summary: impl Into<String>,
        make: impl Fn() -> Balancing + Send + Sync + 'static,
    ) -> Self {
        let balancer = NamedBalancer {
            name: name.into(),
            part: summary.into(),
            make: Arc::new(make),
        };
        let (name, summary) = (balancer.name.clone(), balancer.part.clone());
        self.extended = true;
        self.balancers.add(name, summary, Arc::new(balancer));
        self
    }

    /// Adds a topology that is built from parameters in text form. Replaces the one with that name, if any. To
    /// read keys with units and ranges, use [`Self::topology_kind`].
    #[must_use]
    pub fn topology(
        self,
        name: impl Into<String>,
        build: impl Fn(&TopologyRequest) -> Result<Network, NetworkError> + Send + Sync + 'static,
    ) -> Self {
        let build = Arc::new(build);
        self.topology_kind(name, "", CustomKind { build })
    }

    /// Adds a topology that reads its own keys. Replaces the one with that name, if any. `summary` describes it
    /// in one line.
    #[must_use]
    pub fn topology_kind(
        mut self,
        name: impl Into<String>,
        summary: impl Into<String>,
        kind: impl TopologyKind + 'static,
    ) -> Self {
        self.extended = true;
        self.topologies.add(name, summary, Arc::new(kind));
        self
    }

    /// Adds a kind of traffic, the value of the key `kind` of `[traffic]`. Replaces the one with that name, if
    /// any. `summary` describes it in one line.
    #[must_use]
    pub fn traffic_kind(
        mut self,
        name: impl Into<String>,
        summary: impl Into<String>,
        kind: impl TrafficKind + 'static,
    ) -> Self {
        self.extended = true;
        self.traffic_kinds.add(name, summary, Arc::new(kind));
        self
    }

    /// Adds a test of claims, the value of the key `test`. Replaces the one with that name, if any. `summary`
    /// describes it in one line, and `read` reads its keys.
    #[must_use]
    pub fn claim_test(
        mut self,
        name: impl Into<String>,
        summary: impl Into<String>,
        read: impl Fn(&Keys<'_>) -> Result<Arc<dyn Test>, ExperimentError> + Send + Sync + 'static,
    ) -> Self {
        self.extended = true;
        self.claim_tests.add(name, summary, Arc::new(read));
        self
    }

    /// Adds a loss model, the value of the key `model` of `[loss]`. Replaces the one with that name, if any.
    /// `summary` describes it in one line, and `read` reads its keys.
    #[must_use]
    pub fn loss_model(
        mut self,
        name: impl Into<String>,
        summary: impl Into<String>,
        read: impl Fn(&Section<'_>, &LossPlace<'_>) -> Result<Arc<dyn LossModel>, ExperimentError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.extended = true;
        self.loss_models.add(name, summary, Arc::new(read));
        self
    }

    /// Adds a property of links, a key of `[links]`. Replaces the one with that key, if any. `summary` describes it
    /// in one line, and `read` reads the key `name`, which may be missing.
    #[must_use]
    pub fn link_property(
        mut self,
        name: impl Into<String>,
        summary: impl Into<String>,
        read: impl Fn(&Section<'_>) -> Result<Option<Arc<dyn LinkProperty>>, ExperimentError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.extended = true;
        self.link_properties.add(name, summary, Arc::new(read));
        self
    }

    /// Adds a queue discipline, the value of the key `name` of `[queue]`. Replaces the one with that name, if
    /// any. `summary` describes it in one line, and `read` reads its keys.
    #[must_use]
    pub fn queue(
        mut self,
        name: impl Into<String>,
        summary: impl Into<String>,
        read: impl Fn(&Section<'_>) -> Result<Queueing, ExperimentError> + Send + Sync + 'static,
    ) -> Self {
        self.extended = true;
        self.queues.add(name, summary, Arc::new(read));
        self
    }

    /// Adds a model of links whose rate and delay change, the value of the key `model` of `[link_trace]`.
    /// Replaces the one with that name, if any. `summary` describes it in one line, and `read` reads its keys.
    #[must_use]
    pub fn link_trace(
        mut self,
        name: impl Into<String>,
        summary: impl Into<String>,
        read: impl Fn(&Section<'_>, &TracePlace<'_>) -> Result<Trace, ExperimentError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.extended = true;
        self.link_traces.add(name, summary, Arc::new(read));
        self
    }

    /// Adds a metric: a ratio of two sums over runs. Replaces the one with that name, if any.
    #[must_use]
    pub fn metric(mut self, spec: &'static MetricSpec) -> Self {
        self.extended = true;
        self.metrics.add(spec.name, spec.title, Arc::new(spec));
        self
    }

    /// Adds a distribution of flow sizes, a value of the key `sizes`. Replaces the one with that name, if any.
    /// `summary` describes it in one line.
    #[must_use]
    pub fn sizes(
        mut self,
        name: impl Into<String>,
        summary: impl Into<String>,
        sizes: Sizes,
    ) -> Self {
        self.extended = true;
        self.workloads.add(name, summary, Arc::new(sizes));
        self
    }

    /// Returns the transport with that name. A name with one or more variants after plus signs
    /// (`fuso+roundrobin+held`, see [`Self::variants`]) stands for the transport with these changes.
    /// It is found only if the transport has what the variants change.
    pub fn find(&self, name: &str) -> Option<&Transport> {
        let known = self.transports.find(name).map(|e| &*e.item);
        if known.is_some() || !name.contains('+') {
            return known;
        }
        let made = self.compose(name)?;
        let mut place = &self.composed;
        loop {
            let entry = place.get_or_init(|| {
                Box::new(Composed {
                    transport: made.clone(),
                    next: OnceLock::new(),
                })
            });
            if entry.transport.name == name {
                return Some(&entry.transport);
            }
            place = &entry.next;
        }
    }

    fn compose(&self, name: &str) -> Option<Transport> {
        let mut names = name.split('+');
        let base = names.next()?;
        let base = &*self.transports.find(base)?.item;
        let mut config = base.config();
        let mut parts = vec![format!("all of `{}`, but:", base.name)];
        for name in names {
            let variant = self.variants.iter().find(|v| v.name() == name)?;
            config = variant.apply(config)?;
            parts.push(variant.part().to_owned());
        }
        parts.extend(base.parts.iter().cloned());
        Some(Transport {
            name: name.to_owned(),
            parts,
            application: base.application,
            background: base.background.clone(),
            config: Arc::new(move || config.clone()),
        })
    }

    /// One line that reports that there is no transport with that name, and lists the known names and the
    /// nearest one.
    pub fn no_such_transport(&self, name: &str) -> String {
        if let Some((base, _)) = name.split_once('+')
            && self.transports.find(base).is_some()
        {
            let variants: Vec<&str> = self.variants.iter().map(Variant::name).collect();
            return format!(
                "found transport \"{name}\", want behind each + a variant of what \"{base}\" has, of {}",
                variants.join(", ")
            );
        }
        self.transports.unknown(name)
    }

    /// Returns the balancer with that name, and whether the name requests two priorities at every port.
    pub fn find_balancer(&self, name: &str) -> Option<(&NamedBalancer, bool)> {
        let find = |name: &str| self.balancers.find(name).map(|e| &*e.item);
        let whole = find(name).map(|b| (b, false));
        whole.or_else(|| Some((find(name.strip_suffix(WITH_PRIORITIES)?)?, true)))
    }

    /// Describes the balancer with that name in one line.
    ///
    /// # Errors
    /// If there is no such balancer. The error is one line that lists the known names and the nearest one.
    pub fn explain_balancer(&self, name: &str) -> Result<String, String> {
        let Some((balancer, priorities)) = self.find_balancer(name) else {
            let mut names = self.balancer_names();
            names.insert(0, ECMP.to_owned());
            let names = names.iter().map(String::as_str);
            return Err(format!(
                "found balancer \"{name}\", {}",
                want_one_of(name, names)
            ));
        };
        let part = match balancer.part.as_str() {
            "" => "a balancer of your own",
            part => part,
        };
        let queues = match priorities {
            true => "; two strict priorities at every port, short flows first (mechanisms A5.13)",
            false => "",
        };
        Ok(format!("switches: {part}{queues}"))
    }

    /// Makes the balancer with that name for a simulation of `network`. If the name requests priorities, all
    /// ports of the network get two. Returns `None` if there is no such balancer.
    ///
    /// # Errors
    /// If a link of the network is impossible.
    pub fn equip(
        &self,
        name: &str,
        network: &mut Network,
    ) -> Result<Option<Balancing>, NetworkError> {
        let Some((balancer, priorities)) = self.find_balancer(name) else {
            return Ok(None);
        };
        if priorities {
            let links: Vec<LinkId> = (0..network.links().len() as u32).map(LinkId).collect();
            network.configure(&links, |spec| spec.priorities = true)?;
        }
        Ok(Some((balancer.make)()))
    }

    /// All transports, in order.
    pub fn transports(&self) -> impl Iterator<Item = &Transport> {
        self.transports.items()
    }

    /// The names of all transports.
    pub fn transport_names(&self) -> Vec<String> {
        self.transports.names().map(str::to_owned).collect()
    }

    /// All variants. Each changes one choice of a transport whose name it follows.
    pub fn variants(&self) -> &[Variant] {
        &self.variants
    }

    /// All congestion controllers that a scenario may set.
    pub fn congestion_controllers(&self) -> &[Arc<dyn ControllerFactory>] {
        &self.controllers
    }

    /// All balancers, without their counterparts with priorities.
    pub fn balancers(&self) -> impl Iterator<Item = &NamedBalancer> {
        self.balancers.items()
    }

    /// All topologies.
    pub fn topologies(&self) -> &Catalog<dyn TopologyKind> {
        &self.topologies
    }

    /// All tests of claims.
    pub fn claim_tests(&self) -> &Catalog<ReadTest> {
        &self.claim_tests
    }

    /// All loss models.
    pub fn loss_models(&self) -> &Catalog<ReadLossModel> {
        &self.loss_models
    }

    /// All properties of links.
    pub fn link_properties(&self) -> &Catalog<ReadLinkProperty> {
        &self.link_properties
    }

    /// All queue disciplines.
    pub fn queues(&self) -> &Catalog<ReadQueue> {
        &self.queues
    }

    /// All models of links whose rate and delay change.
    pub fn link_traces(&self) -> &Catalog<ReadLinkTrace> {
        &self.link_traces
    }

    /// All kinds of traffic.
    pub fn traffic_kinds(&self) -> &Catalog<dyn TrafficKind> {
        &self.traffic_kinds
    }

    /// The metrics that are a ratio of two sums over runs: Spindle's and those that other crates added.
    pub fn metrics(&self) -> &Catalog<&'static MetricSpec> {
        &self.metrics
    }

    /// All named distributions of flow sizes.
    pub fn workloads(&self) -> &Catalog<Sizes> {
        &self.workloads
    }

    /// The names of the balancers except `ecmp`: first without, then with priorities.
    pub fn balancer_names(&self) -> Vec<String> {
        let names = || self.balancers.names().map(str::to_owned);
        let plain = names().filter(|n| n != ECMP);
        let own = |n: &String| n.ends_with(WITH_PRIORITIES);
        let twins = names().filter(|n| !own(n));
        let mut all: Vec<String> = plain.collect();
        for twin in twins.map(|n| n + WITH_PRIORITIES) {
            if !all.contains(&twin) {
                all.push(twin);
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_and_added_names_are_found() {
        let r = Registry::standard().transport("mine", vec!["toy".to_owned()], Config::default);
        for name in [
            "tcp",
            "tlp",
            "repflow",
            "proactive",
            "mptcp",
            "fuso",
            "fuso-8",
            "mptcp-1",
            "mine",
        ] {
            assert!(r.find(name).is_some(), "{name}");
        }
        assert_eq!(
            r.find("repflow").unwrap().application,
            Application::Replicated { below: 100_000 }
        );
        assert!(
            r.no_such_transport("fuzo")
                .contains("did you mean \"fuso\"?")
        );
    }

    #[test]
    fn every_balancer_has_a_counterpart_with_priorities() {
        let r = Registry::standard().balancer("mine", "", || Balancing::RandomSpray);
        let expected = [
            "rps",
            "presto",
            "freeway",
            "caps",
            "caps-dark",
            "flowlet",
            "drill",
            "conga",
            "mine",
            "ecmp-pq",
            "rps-pq",
            "presto-pq",
            "freeway-pq",
            "caps-pq",
            "caps-dark-pq",
            "flowlet-pq",
            "drill-pq",
            "conga-pq",
            "mine-pq",
        ];
        assert_eq!(r.balancer_names(), expected);
        let network = spindle_fabric::topology::LeafSpine::default()
            .build()
            .unwrap();
        let all = |network: &Network, priorities| {
            let mut links = network.links().iter();
            links.all(|l| l.spec.priorities == priorities)
        };
        for name in expected.into_iter().chain([ECMP]) {
            let mut network = network.clone();
            let made = r.equip(name, &mut network).unwrap();
            assert!(made.is_some(), "{name}");
            assert!(all(&network, name.ends_with("-pq")), "{name}");
        }
        let mut untouched = network.clone();
        for name in ["", "-pq", "rsp", "rsp-pq", "rps-pq-pq"] {
            assert!(r.equip(name, &mut untouched).unwrap().is_none(), "{name}");
            assert!(all(&untouched, false), "{name}");
        }
        let told = r.explain_balancer("rps-pq").unwrap();
        assert!(
            told.contains("at random") && told.contains("priorities"),
            "{told}"
        );
        assert!(r.explain_balancer("mine").unwrap().ends_with("of your own"));
        let wrong = r.explain_balancer("rsp").unwrap_err();
        assert!(
            wrong.contains("want one of ecmp, rps") && wrong.contains("\"rps\"?"),
            "{wrong}"
        );
        let dark = r.equip("caps-dark", &mut untouched).unwrap().unwrap();
        assert!(format!("{dark:?}").contains("Dark"));
        assert!(
            r.balancers()
                .all(|b| !b.part.is_empty() || b.name == "mine")
        );
    }

    #[test]
    fn long_flows_share_the_paths_that_freeway_gives_them() {
        let told = Registry::standard().explain_balancer("freeway").unwrap();
        assert!(
            told.contains("at most all but one") && !told.contains("one each"),
            "{told}"
        );
    }

    #[test]
    fn a_custom_name_may_end_in_the_priority_suffix() {
        let r = Registry::standard().balancer("mine-pq", "", || Balancing::RandomSpray);
        assert_eq!(
            r.balancer_names()
                .iter()
                .filter(|n| n.starts_with("mine"))
                .count(),
            1
        );
        let (found, priorities) = r.find_balancer("mine-pq").unwrap();
        assert_eq!((found.name.as_str(), priorities), ("mine-pq", false));
    }

    #[test]
    fn variants_are_applied_after_plus_signs() {
        let r = Registry::standard();
        let t = r.find("fuso-8+roundrobin+held").expect("composed");
        let m = t.config().multipath.expect("multipath");
        assert_eq!(m.scheduler.name(), "roundrobin");
        assert!(!m.early_dsn_delivery && m.path_manager.planned_subflows() == 8);
        assert!(t.parts[1].contains("a segment each") && t.parts[2].contains("v0.90"));
        let again = r.find("fuso-8+roundrobin+held").expect("composed");
        assert!(std::ptr::eq(t, again), "made once");
        let replicated = r.find("repflow+dctcp").expect("composed");
        assert_eq!(
            replicated.application,
            Application::Replicated { below: 100_000 }
        );
        for bad in ["tcp+roundrobin", "fuso+", "fuso+what", "what+held", "+held"] {
            assert!(r.find(bad).is_none(), "{bad}");
        }
        let told = r.no_such_transport("tcp+roundrobin");
        assert!(told.contains("want behind each +"), "{told}");
    }
}

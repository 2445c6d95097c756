//! Experiments as data: files, scenarios, traffic, metrics, statistics, claims and results.
//!
//! An experiment is a TOML file with a topology, traffic, transports, losses, a sweep, metrics and claims. This
//! crate reads it, plans its flows, computes its metrics from runs and checks its claims. It makes no runs:
//! `spindle-lab` makes them in virtual time and `spindle-testbed` in real time, from the same plan.
//!
//! Plans are reproducible. Arrivals, sizes, ports and losses are drawn from separate random streams that do not
//! depend on the transport, so all transports of an experiment see the same traffic and losses. The runs of a
//! transport at a point are pooled, and each [`Metric`] is computed from the pool with a 95 % interval.
//!
//! ```
//! use spindle_experiment::registry::Registry;
//! use spindle_experiment::{Overrides, library};
//!
//! let registry = Registry::standard();
//! let file = library::find("fuso-fig4ab").expect("it is one of Spindle's experiments");
//! let experiment = file.read(&registry, &Overrides::default())?;
//! assert!(experiment.points.len() > 1 && !experiment.claims.is_empty());
//! # Ok::<(), spindle_experiment::ExperimentError>(())
//! ```
//!
//! # Modules
//!
//! The modules follow the path of an experiment. Read them in this order:
//!
//! 1. [`scenario`] is what one point of an experiment describes. The private module `file` reads the TOML file,
//!    and its types ([`Experiment`], [`Point`], [`Overrides`]) stand at the root. [`library`] has the
//!    experiments that come with Spindle.
//! 2. [`document`] is the parsed file, and [`catalog`] a list of named things. [`registry`] has the catalogs of
//!    transports, balancers, topologies, loss models, kinds of traffic, size distributions, metrics and tests
//!    of claims. Other crates can add to it. [`explain`] describes these names.
//! 3. [`topologies`], [`loss_models`], [`queues`] and [`link_traces`] describe the network, and [`network`] builds it. [`hosts`] has the
//!    addresses and the configurations of hosts, and [`mod@informed`] adds what hosts know of their network.
//! 4. [`workload`] has the size distributions and loss rates. [`traffic`] plans the flows of a run. [`rng`]
//!    provides the random streams.
//! 5. [`metrics`] defines what a run measures. [`stats`] pools runs and computes intervals. [`identity`] records
//!    what made a run.
//! 6. [`claims`] represents the papers' claims and gives verdicts on them. [`readings`] are choices for what the papers
//!    leave open, [`causes`] say why claims fail under all of them, and [`variations`] show whether verdicts depend on
//!    printed values. [`bound`] computes the FUSO paper's bound on timeouts.
//! 7. [`results`] has runs as data, JSON and tables, the hashes of claims and sizes, and the lock of verdicts.
//!    [`flow_trace`] has the events of one flow.

pub mod bound;
pub mod bystanders;
pub mod catalog;
pub mod causes;
pub mod claims;
pub mod document;
pub mod explain;
mod file;
pub mod flow_trace;
mod formula;
pub mod hosts;
pub mod identity;
pub mod informed;
pub mod library;
pub mod link_choice;
pub mod link_properties;
pub mod link_traces;
pub mod loss_models;
pub mod metrics;
pub mod network;
mod observed;
pub mod queues;
pub mod readings;
pub mod registry;
pub mod results;
pub mod rng;
pub mod scenario;
pub mod stats;
mod text_file;
pub mod topologies;
pub mod traffic;
mod transport_name;
pub mod units;
pub mod variations;
pub mod workload;

pub use document::{ExperimentError, Origin, suggestion};
pub use file::{
    Cdf, Context, Experiment, Limit, MIN_RUNS, Overrides, Point, Printed, Scale, rewrite,
};
pub use metrics::{Metric, RunResult};
pub use scenario::Scenario;
pub use transport_name::{
    Carrier, End, KERNEL_TRANSPORTS, KnownTransports, TransportName, TransportNameError,
};

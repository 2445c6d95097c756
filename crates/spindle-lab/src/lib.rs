//! Experiments as data: topology, traffic, transports, sweeps, metrics, claims and reports.
//!
//! The lab runs the protocol core (`spindle-mptcp`) over the simulated network (`spindle-fabric`) in virtual
//! time. An [`Experiment`] is read from a TOML file. Each combination of a point of its sweep, a transport, a
//! seed and a part of the seed's flows is one single-threaded simulation, called a run. A run gives a
//! [`RunResult`]. The runs of a transport at a point are pooled. Each [`Metric`] is computed from the pool with
//! a 95 % interval. The papers' claims are checked against these metrics.
//!
//! Results are reproducible. Arrivals, sizes, ports and losses are drawn from separate random streams that do
//! not depend on the transport, so all transports of an experiment see the same traffic and losses. The number
//! of threads does not affect results. Each run carries the version and the configuration that made it.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use spindle_lab::experiment::Overrides;
//! use spindle_lab::registry::Registry;
//! use spindle_lab::{library, output, sweep};
//!
//! let registry = Registry::standard();
//! let experiment = library::load(&registry, Path::new("mine.toml"), &Overrides::default())?;
//! let result = sweep::execute(&experiment, &registry, &sweep::Options::default())?;
//! print!("{}", output::table(&output::comparison(&experiment, &result)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Modules
//!
//! The modules follow the path of an experiment. Read them in this order:
//!
//! 1. [`experiment`] reads the file. [`library`] has the experiments that come with Spindle. [`registry`] has
//!    the names of transports, balancers and topologies, and other crates can add to it.
//! 2. [`workload`] has the size distributions and loss rates. [`traffic`] plans the flows of a run. [`rng`]
//!    provides the random streams.
//! 3. [`driver`] makes one run: it connects stacks, applications and the simulated network.
//! 4. [`sweep`] makes all runs of an experiment on several threads and stores them. [`identity`] records what
//!    made a run.
//! 5. [`metrics`] defines what a run measures. [`stats`] pools runs and computes intervals.
//! 6. [`claims`] represents the papers' claims and gives verdicts on them.
//! 7. [`output`] makes the JSON and the tables. [`present`] turns results into the plain data from which
//!    [`report`] writes pages. [`explain`] describes the names in a registry.
//!
//! The remaining modules are independent of this path. [`pcap`] writes captures.
//! [`mod@reference`] runs flow files of other simulators. [`bound`] computes the FUSO paper's
//! bound on timeouts.

pub mod bound;
pub mod claims;
pub mod driver;
pub mod experiment;
pub mod explain;
mod formula;
pub mod identity;
pub mod library;
pub mod metrics;
mod observed;
pub mod output;
pub mod pcap;
pub mod present;
mod progress;
pub mod reference;
pub mod registry;
pub mod report;
pub mod rng;
pub mod stats;
mod story;
pub mod sweep;
pub mod traffic;
pub mod workload;

pub use experiment::{Experiment, ExperimentError};
pub use metrics::{Metric, RunResult};

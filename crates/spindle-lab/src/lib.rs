//! Experiments as data: topology, traffic, transports, sweeps, metrics, claims and reports.
//!
//! An [`Experiment`] is read from TOML (or built in, see [`library`]); each of its points with a
//! transport and a seed is one run of the protocol core over the simulated fabric, and gives a
//! [`RunResult`]. Runs are pooled into metrics with intervals and checked against the papers'
//! claims.

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

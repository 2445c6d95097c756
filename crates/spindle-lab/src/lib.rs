//! Experiments as data: topology, traffic, transports, sweeps, metrics, claims and reports.
//!
//! An [`Experiment`] is read from TOML (or built in, see [`library`]); each of its points with a
//! transport and a seed is one run of the protocol core over the simulated fabric, and gives a
//! [`RunResult`]. Runs are pooled into metrics with intervals and checked against the papers'
//! claims.

pub mod bound;
pub mod claims;
pub mod experiment;
pub mod metrics;
pub mod pcap;
pub mod report;
pub mod rng;
pub mod stats;
pub mod workload;

pub use experiment::{Experiment, ExperimentError};
pub use metrics::{Metric, RunResult};

//! Experiments in virtual time: the packet-level lab.
//!
//! The lab runs the protocol core (`spindle-mptcp`) over the simulated network (`spindle-fabric`). It takes an
//! experiment of `spindle-experiment`. Each combination of a point of its sweep, a transport, a seed and a part
//! of the seed's flows is one single-threaded simulation, called a run. A run gives a
//! [`RunResult`](spindle_experiment::RunResult).
//!
//! Results are reproducible. The number of threads does not affect them, and each run carries the version and
//! the configuration that made it.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use spindle_experiment::registry::Registry;
//! use spindle_experiment::{Overrides, library, results};
//! use spindle_lab::sweep;
//!
//! let registry = Registry::standard();
//! let experiment = library::load(&registry, Path::new("mine.toml"), &Overrides::default())?;
//! let result = sweep::execute(&experiment, &registry, &sweep::Options::default())?;
//! print!("{}", results::table(&results::comparison(&experiment, &result)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Modules
//!
//! Read them in this order:
//!
//! 1. [`driver`] makes one run: it connects stacks, applications and the simulated network.
//! 2. [`sweep`] makes all runs of an experiment on several threads and stores them.
//! 3. [`story`] finds a flow that recovered from losses and records its events for a picture.
//! 4. [`pcap`] writes captures. [`flow_file`] runs flow files of other simulators.

pub mod driver;
pub mod flow_file;
pub mod pcap;
mod progress;
pub mod story;
pub mod sweep;

//! Experiments in real time, on real hosts.
//!
//! [`run()`] takes an experiment of [`spindle_experiment`] and carries out the same plan as a simulation. Sizes,
//! arrivals, ports and losses are drawn from the same random streams, but the hosts are real. A host is on the
//! kernel's TCP or MPTCP in a separate network namespace, or on a Spindle data path. Spindle reaches the
//! network in memory, over a TUN device, over UDP, or as a gateway in front of the kernel's TCP. Metrics,
//! tables and JSON are those of the lab, so both kinds of results can be compared.
//!
//! All packets cross the fabric's model of the network. One thread runs this model in real time ([`fabric`])
//! and measures how late it delivers each packet ([`lateness`]). A row of results is invalid if more than 1 of
//! 100 packets was later than a bound. Another thread measures how late threads without real-time priority wake
//! up.
//!
//! A run is divided into parts, and several parts run at a time. Each part has its own namespaces, devices,
//! threads and fabric. Namespaces and devices have no names outside this process, so they vanish with it,
//! however it ends.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use spindle_experiment::Overrides;
//! use spindle_experiment::library;
//! use spindle_experiment::registry::Registry;
//! use spindle_testbed::{Options, enter, output, run};
//!
//! enter()?; // while the process has only one thread
//! let registry = Registry::standard();
//! let experiment = library::load(&registry, Path::new("mine.toml"), &Overrides::default())?;
//! let outcome = run(&experiment, &registry, &Options::default(), |_| {})?;
//! print!("{}", output::text(&output::report(&experiment, &outcome)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Modules
//!
//! The folders stand on each other in this order:
//!
//! 1. `model` is the network between the hosts. [`sim_packet`] represents packets in transit: IP packets of a
//!    kernel, or segments of a Spindle host. [`fabric`] is the thread that runs the network's model in real
//!    time. [`lateness`] is its measure, and `wakeup_monitor` measures how late other threads wake up.
//! 2. `hosts` makes hosts: namespaces, sockets of the kernel, Spindle data paths and gateways.
//! 3. `workload` carries out the flows: it requests responses, serves them, and sends flows without requests.
//! 4. `run` divides an experiment into parts, carries them out, keeps finished ones, and makes the table and the
//!    JSON ([`output`]). [`exec`] runs the user's own programs in the hosts instead of the workload.

mod error;
pub mod exec;
mod hosts;
mod model;
mod run;
mod workload;

pub use error::TestbedError;
pub use hosts::namespace::enter;
pub use model::lateness::Lateness;
pub use model::{fabric, lateness, sim_packet};
pub use run::part::{Coded, PartOutput, RealTime};
pub use run::{Options, Outcome, Progress, Row, output, run, usual_jobs};

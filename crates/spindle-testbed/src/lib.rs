//! Experiments of the lab in real time, on real hosts.
//!
//! [`run()`] takes an experiment of [`spindle_lab`] and carries out the same plan as a simulation. Sizes,
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
//! use spindle_lab::experiment::Overrides;
//! use spindle_lab::library;
//! use spindle_lab::registry::Registry;
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
//! Read the public modules in this order:
//!
//! 1. [`sim_packet`] represents packets in transit: IP packets of a kernel, or segments of a Spindle host.
//! 2. [`fabric`] is the thread that runs the network model in real time. [`lateness`] is its measure.
//! 3. [`exec`] runs the user's own programs in the hosts instead of the workload.
//! 4. [`output`] makes the table and the JSON.
//!
//! The private modules follow the path of a run. `run` divides an experiment into parts, and `store` keeps
//! finished parts. `part` creates the hosts and the fabric of one part. `host`, `carrier`, `namespace`,
//! `kernel` and `gateway` make the kinds of hosts. `workload` carries out the flows: `serve` answers requests,
//! and `push` sends flows without requests. `wakeup_monitor` is the thread that measures how late threads wake up.

mod carrier;
mod clock;
mod error;
pub mod exec;
pub mod fabric;
mod gateway;
mod host;
mod kernel;
pub mod lateness;
mod namespace;
pub mod output;
mod part;
mod push;
mod run;
mod serve;
pub mod sim_packet;
mod store;
mod wakeup_monitor;
mod workload;

pub use error::TestbedError;
pub use lateness::Lateness;
pub use namespace::enter;
pub use part::{Coded, PartOutput, RealTime};
pub use run::{Options, Outcome, Progress, Row, run, usual_jobs};

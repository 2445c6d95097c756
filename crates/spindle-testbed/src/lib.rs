//! Experiments in real time.
//!
//! [`run`] takes the experiment files of the lab and runs them with real hosts: each host is on the
//! kernel's TCP or MPTCP in a network namespace of its own, or on Spindle. All packets cross the
//! fabric's model of the network, which one thread runs in real time ([`fabric`]); how late it
//! delivered them is measured, and a result is invalid if that was too late.
//!
//! Namespaces and devices have no names outside this process: they vanish with it, however it ends.

pub mod carried;
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
mod store;
mod witness;
mod workload;

pub use error::TestbedError;
pub use lateness::Lateness;
pub use namespace::enter;
pub use part::{Coded, PartOutput, RealTime};
pub use run::{Options, Outcome, Progress, Row, run, usual_jobs};

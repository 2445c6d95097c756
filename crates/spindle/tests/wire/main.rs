//! Spindle against the kernel's own MPTCP and real programs, in network namespaces. Takes root.
//!
//! `SPINDLE_WIRE=full` runs everything at full size.

mod death;
mod kernel;
mod programs;
mod rootless;
mod service;
mod spindle;
mod two_hosts;

/// Whether everything is to run at full size.
fn full() -> bool {
    std::env::var("SPINDLE_WIRE").is_ok_and(|v| v == "full")
}

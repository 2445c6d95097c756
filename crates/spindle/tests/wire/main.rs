//! Spindle against the kernel's own MPTCP and real programs, in network namespaces. Requires root.
//!
//! `SPINDLE_WIRE=full` runs everything at full size.

mod attacks;
mod bursts;
mod death;
mod dnat;
mod first_flight;
mod kernel;
mod link;
mod path_mtu;
mod paths;
mod programs;
mod rootless;
mod service;
mod spindle;
mod two_hosts;

/// Whether everything must run at full size.
fn full() -> bool {
    std::env::var("SPINDLE_WIRE").is_ok_and(|v| v == "full")
}

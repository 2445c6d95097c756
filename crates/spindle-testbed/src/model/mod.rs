//! The network between the hosts, in real time.

pub(crate) mod clock;
pub mod fabric;
pub mod lateness;
pub mod sim_packet;
pub(crate) mod wakeup_monitor;

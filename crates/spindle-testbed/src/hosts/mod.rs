//! Hosts of every kind: on the kernel's stack in a network namespace, on a Spindle data path, or behind a gateway.

pub(crate) mod build;
pub(crate) mod gateway;
pub(crate) mod host;
pub(crate) mod kernel;
pub(crate) mod namespace;

/// The port servers listen on.
pub(crate) const PORT: u16 = 80;

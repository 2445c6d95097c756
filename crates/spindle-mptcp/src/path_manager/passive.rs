//! [`Passive`]: no further subflows.

use std::net::IpAddr;

use spindle_wire::Endpoint;

use super::{PathManager, PathView};

/// Opens no subflows: "passive". The peer may open some.
#[derive(Clone, Copy, Debug)]
pub struct Passive;

impl PathManager for Passive {
    fn name(&self) -> &str {
        "passive"
    }

    fn summary(&self) -> &str {
        "opens no further subflows"
    }

    fn next(&self, _: &dyn PathView) -> Option<(IpAddr, Endpoint)> {
        None
    }
}

//! Topologies. Each is a struct of documented parameters that builds a [`Network`](crate::Network).
//!
//! | | hosts | cables (group) |
//! |---|---|---|
//! | [`FusoTestbed`] | `H1`.. | `H1.access` (access), `P1`.. (paths) |
//! | [`Dumbbell`] | `S1`.., `R1`.. | `S1.access`, `R1.access` (access), `bottleneck` (bottleneck) |
//! | [`FatTree`] | `h0`.. | `h0.access` (access), `pod0.edge0-agg0` (edge-agg), `pod0.agg0-core0` (agg-core) |
//! | [`DualHomed`] | `client`, `server` | `P1`.. (paths), `server.access` (access) |
//! | [`SharedPaths`] | `c0`.., `server` | `P1`.. (paths), `c0.access1`.., `server.access` (access) |
//! | [`Mesh`] | `H1`.. | `H1.access` (access), `R1-R2` (site), `R2-R6` (mesh) |
//! | [`LeafSpine`] | `h0`.. | `h0.access` (access), `leaf0-spine0` (leaf-spine) |
//!
//! [`Network::links_matching`](crate::Network::links_matching) describes how to select links by these names. In
//! all topologies except [`DualHomed`] and [`SharedPaths`] a host has one cable, so that host `n` has address `n`.

mod dual_homed;
mod dumbbell;
mod fat_tree;
mod fuso;
mod leaf_spine;
mod mesh;
mod shared_paths;

use spindle_units::{BitRate, Bytes, Duration};

use crate::{Buffer, Builder, LinkSpec, NetworkError, NodeId};

pub use dual_homed::DualHomed;
pub use dumbbell::Dumbbell;
pub use fat_tree::FatTree;
pub use fuso::FusoTestbed;
pub use leaf_spine::LeafSpine;
pub use mesh::Mesh;
pub use shared_paths::SharedPaths;

/// The largest number of hosts, switches or cables of any one kind that a topology makes. It catches mistyped
/// numbers.
const MOST: u32 = 1 << 20;

/// Checks that a count is from 1 to [`MOST`].
fn count(what: &str, parameter: &'static str, found: u64) -> Result<(), NetworkError> {
    if found == 0 || found > u64::from(MOST) {
        let remedy = "it is at least 1 and at most 1048576 in all";
        return Err(NetworkError::parameter(what, parameter, found, remedy));
    }
    Ok(())
}

/// The ports of hosts and switches that the topologies have in common.
#[derive(Clone, Debug)]
struct Ports {
    delay: Duration,
    host_buffer: Buffer,
    switch_buffer: Buffer,
    mark_above: Option<Bytes>,
    host_mark_above: Option<Bytes>,
    priorities: bool,
}

impl Ports {
    /// A link out of a host.
    fn host(&self, rate: BitRate) -> LinkSpec {
        LinkSpec {
            mark_above: self.host_mark_above,
            priorities: self.priorities,
            ..LinkSpec::new(rate, self.delay, self.host_buffer)
        }
    }

    /// A link out of a switch.
    fn switch(&self, rate: BitRate) -> LinkSpec {
        LinkSpec {
            mark_above: self.mark_above,
            priorities: self.priorities,
            ..LinkSpec::new(rate, self.delay, self.switch_buffer)
        }
    }

    /// Connects a host to a switch.
    fn access(
        &self,
        builder: &mut Builder,
        (host, switch): (NodeId, NodeId),
        name: &str,
        rate: BitRate,
    ) {
        let ends = (host, switch);
        let name = format!("{name}.access");
        builder.cable(name, "access", ends, self.host(rate), self.switch(rate));
    }

    /// Joins two switches.
    fn trunk(
        &self,
        builder: &mut Builder,
        ends: (NodeId, NodeId),
        (name, group): (String, &str),
        rate: BitRate,
    ) {
        builder.cable(name, group, ends, self.switch(rate), self.switch(rate));
    }
}

//! The topologies that experiment files can name.
//!
//! Each topology of Spindle is one file of this folder, which registers itself in [`built_in`]. Other crates add
//! theirs with [`Registry::topology`](crate::registry::Registry::topology), or with
//! [`Registry::topology_kind`](crate::registry::Registry::topology_kind) to read keys of their own.

mod cofuso_sim;
mod custom;
mod dual_homed;
mod dumbbell;
mod fat_tree;
mod file;
mod fuso_testbed;
mod leaf_spine;
mod links;
mod shared_paths;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use spindle_fabric::{Network, NetworkError};

use crate::catalog::Catalog;
use crate::document::{ExperimentError, Section};

pub(crate) use custom::CustomKind;
pub use custom::{TopologyFactory, TopologyRequest};
pub use dumbbell::Dumbbell;
pub use fat_tree::FatTree;
pub use leaf_spine::LeafSpine;
pub(crate) use links::buffer;
pub use links::{Buffer, LinkSettings, rate};

/// Largest number of hosts in a simulation. This many fit the 10.x.y.z addresses of hosts, and it is far more
/// than is worth simulating.
pub const MAX_HOSTS: u32 = 65_536;

/// Largest number of interfaces of a host: this many fit the addresses of interfaces.
pub const MAX_INTERFACES: u32 = 15;

/// The dimensions of a network, which can be built.
///
/// Its `Debug` text must contain everything that determines the network, except the settings of links: points
/// of a sweep with the same text share their results, and topologies are equal if their texts are.
pub trait Topology: fmt::Debug + Send + Sync {
    /// Builds the network with links that have these settings.
    ///
    /// # Errors
    /// An impossible dimension.
    fn build(&self, links: &LinkSettings) -> Result<Network, NetworkError>;

    /// The leaf that a host is in, or the pod in a fat tree. `None` if the topology has neither.
    fn place(&self, host: u32) -> Option<u32> {
        let _ = host;
        None
    }
}

/// The topology of a scenario, with its name and the settings of its links.
#[derive(Clone, Debug)]
pub struct NamedTopology {
    /// The name in experiment files.
    pub name: String,
    /// Settings that the links have in common.
    pub links: LinkSettings,
    /// The dimensions.
    pub topology: Arc<dyn Topology>,
}

impl NamedTopology {
    /// Builds the network.
    ///
    /// # Errors
    /// An impossible dimension.
    pub fn build(&self) -> Result<Network, NetworkError> {
        let network = self.topology.build(&self.links)?;
        Ok(match self.links.drop_unmarkable {
            true => network.dropping_unmarkable(),
            false => network,
        })
    }

    /// The leaf that a host is in, or the pod in a fat tree. `None` if the topology has neither.
    pub fn place(&self, host: u32) -> Option<u32> {
        self.topology.place(host)
    }
}

impl PartialEq for NamedTopology {
    fn eq(&self, other: &Self) -> bool {
        format!("{self:?}") == format!("{other:?}")
    }
}

/// Reads a topology from the table `[topology]` of an experiment file.
pub trait TopologyKind: Send + Sync {
    /// The settings of links that the file does not give.
    fn defaults(&self) -> LinkSettings {
        LinkSettings::default()
    }

    /// The keys of link settings that have no meaning in this topology, such as `priorities`.
    fn without(&self) -> &[&'static str] {
        &[]
    }

    /// Reads the topology's own keys. The keys of link settings were read before, with the result `links`.
    ///
    /// # Errors
    /// A value that is out of range.
    fn read(
        &self,
        section: &Section<'_>,
        links: &LinkSettings,
    ) -> Result<Arc<dyn Topology>, ExperimentError>;

    /// Like [`read`](Self::read), for topologies that read further files. Relative paths start from `directory`.
    ///
    /// # Errors
    /// A value that is out of range, or a mistake in such a file.
    fn read_from(
        &self,
        section: &Section<'_>,
        links: &LinkSettings,
        directory: &Path,
    ) -> Result<Arc<dyn Topology>, ExperimentError> {
        let _ = directory;
        self.read(section, links)
    }
}

/// The topologies that come with Spindle.
pub fn built_in() -> Catalog<dyn TopologyKind> {
    let mut catalog = Catalog::new("topology");
    for register in [
        fuso_testbed::register,
        fat_tree::register_fuso_sim,
        cofuso_sim::register,
        dumbbell::register,
        fat_tree::register,
        leaf_spine::register,
        dual_homed::register,
        shared_paths::register,
        file::register,
    ] {
        register(&mut catalog);
    }
    catalog
}

/// Reads `[topology]`. Relative paths in it start from `directory`.
///
/// # Errors
/// A name that is not in the catalog, or a value that the topology does not accept.
pub fn read(
    section: Section<'_>,
    catalog: &Catalog<dyn TopologyKind>,
    directory: &Path,
) -> Result<NamedTopology, ExperimentError> {
    let _: String = section.need("name")?;
    let Some(entry) = catalog.choice(&section, "name")? else {
        return Err(section.error("name", "missing, want the name of a topology"));
    };
    let links = LinkSettings::read(&section, entry.item.defaults())?;
    refuse_without(&section, (&links, &*entry.item), catalog)?;
    let topology = entry.item.read_from(&section, &links, directory)?;
    section.finish()?;
    Ok(NamedTopology {
        name: entry.name.clone(),
        links,
        topology,
    })
}

/// The entry `key` as a number from 1 to `most`, or `default`.
fn count(
    s: &Section<'_>,
    key: &'static str,
    default: u32,
    most: u32,
) -> Result<u32, ExperimentError> {
    let n = s.or(key, default)?;
    if n == 0 || n > most {
        return Err(s.error(key, format!("found {n}, want 1 to {most}")));
    }
    Ok(n)
}

/// Refuses settings of links that have no meaning in a topology.
fn refuse_without(
    section: &Section<'_>,
    (links, kind): (&LinkSettings, &dyn TopologyKind),
    catalog: &Catalog<dyn TopologyKind>,
) -> Result<(), ExperimentError> {
    for key in kind.without() {
        // Ports without priorities are what the topology has.
        let asked = section.has(key) && (*key != "priorities" || links.priorities);
        if asked {
            let with = catalog.entries().iter();
            let with = with.filter(|e| !e.item.without().contains(key));
            let names: Vec<&str> = with.map(|e| e.name.as_str()).collect();
            let problem = format!("has no meaning here, want it in {}", names.join(", "));
            return Err(section.error(key, problem));
        }
    }
    Ok(())
}

//! Topologies that another crate gives as a function of text parameters.

use std::fmt;
use std::sync::Arc;

use spindle_fabric::{Network, NetworkError};

use super::{LinkSettings, Topology, TopologyKind};
use crate::document::{ExperimentError, Section, Value};

/// What a topology is built from if it has no keys of its own.
#[derive(Clone, Debug)]
pub struct TopologyRequest {
    /// The file's `[topology.parameters]` as text.
    pub parameters: Vec<(String, String)>,
    /// The settings that all links should have, as far as the topology can apply them.
    pub links: LinkSettings,
}

/// Builds a topology.
pub type TopologyFactory =
    Arc<dyn Fn(&TopologyRequest) -> Result<Network, NetworkError> + Send + Sync>;

/// A topology that a function builds.
struct Custom {
    parameters: Vec<(String, String)>,
    build: TopologyFactory,
}

impl fmt::Debug for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Custom")
            .field("parameters", &self.parameters)
            .finish_non_exhaustive()
    }
}

impl Topology for Custom {
    fn build(&self, links: &LinkSettings) -> Result<Network, NetworkError> {
        (self.build)(&TopologyRequest {
            parameters: self.parameters.clone(),
            links: *links,
        })
    }
}

/// Reads a topology that a function builds. Its only key is the table `parameters`.
pub(crate) struct CustomKind {
    /// The function.
    pub(crate) build: TopologyFactory,
}

impl TopologyKind for CustomKind {
    fn read(
        &self,
        s: &Section<'_>,
        _: &LinkSettings,
    ) -> Result<Arc<dyn Topology>, ExperimentError> {
        Ok(Arc::new(Custom {
            parameters: parameters(s)?,
            build: Arc::clone(&self.build),
        }))
    }
}

fn parameters(s: &Section<'_>) -> Result<Vec<(String, String)>, ExperimentError> {
    let Some(node) = s.node("parameters") else {
        return Ok(Vec::new());
    };
    match &node.value {
        Value::Table(entries) => Ok(entries
            .iter()
            .map(|(k, n)| match &n.value {
                Value::Text(t) => (k.clone(), t.clone()),
                _ => (k.clone(), n.canonical()),
            })
            .collect()),
        _ => Err(s.error("parameters", format!("found {}, want a table", node.kind()))),
    }
}

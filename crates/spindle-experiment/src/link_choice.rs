//! [`LinkChoice`]: the links to which a section of an experiment file applies.

use spindle_fabric::{LinkId, Network, NetworkError, NodeKind};

use crate::document::{ExperimentError, Section};
use crate::loss_models::{Direction, links};

/// Links of a network by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkChoice {
    /// Links: hosts (their cables), cables such as `P1`, patterns such as `access:H4-H6`, or `all`. If empty,
    /// the links that start at switches.
    pub on: Vec<String>,
    /// The directions of these links.
    pub direction: Direction,
}

impl LinkChoice {
    /// Reads the keys `on` and `direction`. Without `on`, the choice is that of the links that start at
    /// switches.
    ///
    /// # Errors
    /// A name that matches no link.
    pub fn read(s: &Section<'_>, network: &Network) -> Result<Self, ExperimentError> {
        let direction = s.choice(
            "direction",
            &[
                ("both", Direction::Both),
                ("forward", Direction::Forward),
                ("backward", Direction::Backward),
            ],
        )?;
        let choice = Self {
            on: s.list("on")?.unwrap_or_default(),
            direction: direction.unwrap_or(Direction::Both),
        };
        let found = choice.links(network);
        found.map_err(|e| s.error("on", e.to_string()))?;
        Ok(choice)
    }

    /// The links.
    ///
    /// # Errors
    /// A name that matches no link.
    pub fn links(&self, network: &Network) -> Result<Vec<LinkId>, NetworkError> {
        if self.on.is_empty() {
            let mut links = links(network, "all", self.direction)?;
            links.retain(|id| {
                let from = network.link(*id).from;
                matches!(network.node(from).kind, NodeKind::Switch(_))
            });
            return Ok(links);
        }
        let mut all = Vec::new();
        for name in &self.on {
            all.extend(links(network, name, self.direction)?);
        }
        Ok(all)
    }
}

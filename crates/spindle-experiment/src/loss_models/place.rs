//! The links on which packets are lost.

use spindle_fabric::{CableId, LinkId, Network, NetworkError};

use crate::document::{ExperimentError, Section};

/// Direction on a link. A link between switches runs forward from the first switch to the second. A host's link
/// runs forward from the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Both, independently.
    Both,
    /// Forward only.
    Forward,
    /// Backward only.
    Backward,
}

impl Direction {
    /// The key `direction`, or both directions.
    ///
    /// # Errors
    /// If it is none of `both`, `forward` and `backward`.
    pub fn read(s: &Section<'_>) -> Result<Self, ExperimentError> {
        let choices = [
            ("both", Self::Both),
            ("forward", Self::Forward),
            ("backward", Self::Backward),
        ];
        Ok(s.choice("direction", &choices)?.unwrap_or(Self::Both))
    }
}

/// The links that a name in `[loss] on` stands for: a host's cable, `all`, or a pattern of the fabric ("P1",
/// "access:H4-H6").
///
/// # Errors
/// If the name matches no link.
pub fn links(
    network: &Network,
    name: &str,
    direction: Direction,
) -> Result<Vec<LinkId>, NetworkError> {
    let pattern = match name {
        "all" => "*".to_owned(),
        host if network.host_named(host).is_some() => format!("{host}.access"),
        other => other.to_owned(),
    };
    let mut links = network.links_matching(&pattern)?;
    links.retain(|link| match direction {
        Direction::Both => true,
        Direction::Forward => link.direction() == spindle_fabric::Direction::Up,
        Direction::Backward => link.direction() == spindle_fabric::Direction::Down,
    });
    Ok(links)
}

/// The cables that the names in `[loss] on` stand for, each once, in ascending order.
///
/// # Errors
/// If a name matches no link.
pub fn candidates(network: &Network, on: &[String]) -> Result<Vec<CableId>, NetworkError> {
    let mut cables = Vec::new();
    for name in on {
        let links = links(network, name, Direction::Both)?;
        cables.extend(links.iter().map(|l| l.cable()));
    }
    cables.sort_unstable();
    cables.dedup();
    Ok(cables)
}

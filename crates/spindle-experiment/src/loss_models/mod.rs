//! The loss models that experiment files can name.
//!
//! Each model of Spindle is one file of this folder, which registers itself in [`built_in`]. Other crates add
//! theirs with [`Registry::loss_model`](crate::registry::Registry::loss_model).

mod bernoulli;
mod black_hole;
mod gilbert;
mod gilbert_time;
mod lossy_links;
mod numbered;
mod outages;
mod place;
mod response;

use std::fmt;
use std::sync::Arc;

use spindle_fabric::{LinkId, Loss as LinkLoss, Network, NetworkError};

use crate::catalog::Catalog;
use crate::document::{ExperimentError, Section};
use crate::workload::LossyLinks;

pub use bernoulli::{Bernoulli, bernoulli};
pub use lossy_links::DrawnLinks;
pub use place::{Direction, candidates, links};
pub use response::ResponseLoss;

type Result<T> = std::result::Result<T, ExperimentError>;

/// A loss process on some links.
#[derive(Clone, Debug)]
pub struct Loss {
    /// Which packets are lost.
    pub model: Arc<dyn LossModel>,
    /// Links: hosts (their cables), cables such as `P1`, patterns such as `access:H4-H6`, or `all`.
    pub on: Vec<String>,
    /// The directions in which packets are lost.
    pub direction: Direction,
    /// Whether only packets with payload are lost.
    pub data_only: bool,
}

/// How losses are distributed.
///
/// The `Debug` text must contain everything that determines the losses: points of a sweep with the same text
/// share their results.
pub trait LossModel: fmt::Debug + Send + Sync {
    /// The process that loses packets on each link.
    ///
    /// # Errors
    /// An impossible parameter.
    fn process(&self) -> std::result::Result<LinkLoss, NetworkError>;

    /// Makes the links of a network lose packets, only those with payload if `data_only`. By default, each link
    /// gets the process. Models whose losses are drawn for each run, or belong to no link, do nothing here.
    ///
    /// # Errors
    /// An impossible parameter.
    fn apply(
        &self,
        network: &mut Network,
        links: &[LinkId],
        data_only: bool,
    ) -> std::result::Result<(), NetworkError> {
        let process = self.process()?;
        let process = match data_only {
            true => process.data_only(),
            false => process,
        };
        network.set_loss(links, &process);
        Ok(())
    }

    /// The rate, 0 to 1, if each packet is lost independently.
    fn independent_rate(&self) -> Option<f64> {
        None
    }

    /// The links to draw for each run, if links are drawn.
    fn lossy_links(&self) -> Option<&LossyLinks> {
        None
    }

    /// The packet of each response that is lost, if packets of responses are lost.
    fn response(&self) -> Option<ResponseLoss> {
        None
    }

    /// The model's name and what to use instead, if only the lab supports it.
    fn only_in_lab(&self) -> Option<(&'static str, &'static str)> {
        None
    }
}

/// The network and the links whose losses are read.
#[derive(Clone, Copy, Debug)]
pub struct LossPlace<'a> {
    /// The network.
    pub network: &'a Network,
    /// The key `on`: names of links, as in [`Loss::on`].
    pub on: &'a [String],
}

/// Reads a loss model's own keys from the table `[loss]`.
pub type ReadLossModel =
    dyn Fn(&Section<'_>, &LossPlace<'_>) -> Result<Arc<dyn LossModel>> + Send + Sync;

/// The loss models that come with Spindle.
pub fn built_in() -> Catalog<ReadLossModel> {
    let mut catalog = Catalog::new("loss model");
    for register in [
        bernoulli::register,
        gilbert::register,
        gilbert_time::register,
        black_hole::register,
        outages::register,
        numbered::register,
        lossy_links::register,
        response::register,
    ] {
        register(&mut catalog);
    }
    catalog
}

/// Reads the loss processes of a scenario: `[loss]`, or several `[[loss]]`.
///
/// # Errors
/// The first mistake.
pub fn read(
    root: &Section<'_>,
    network: &Network,
    catalog: &Catalog<ReadLossModel>,
) -> Result<Vec<Loss>> {
    let tables = root.tables("loss")?;
    let read = |s| loss(s, network, catalog);
    tables.into_iter().map(read).collect()
}

fn loss(s: Section<'_>, network: &Network, catalog: &Catalog<ReadLossModel>) -> Result<Loss> {
    let named = catalog.choice(&s, "model")?;
    let on: Vec<String> = s.list("on")?.unwrap_or_else(|| vec!["all".to_owned()]);
    let place = LossPlace { network, on: &on };
    let model = match named {
        Some(entry) => (entry.item)(&s, &place)?,
        None => bernoulli::read(&s, &place)?,
    };
    let direction = Direction::read(&s)?;
    for name in &on {
        links(network, name, direction).map_err(|e| s.error("on", e.to_string()))?;
    }
    let loss = Loss {
        model,
        on,
        direction,
        data_only: s.or("data_only", false)?,
    };
    s.finish()?;
    Ok(loss)
}

//! The loss model `periodic`: a link loses every n-th packet.

use std::sync::Arc;

use spindle_experiment::ExperimentError;
use spindle_experiment::document::Section;
use spindle_experiment::loss_models::{LossModel, LossPlace};
use spindle_fabric::{Loss, NetworkError};

/// What `spindle explain` prints.
pub(crate) const SUMMARY: &str = "every n-th packet of each link is lost";

/// Number of packets after which a link loses no more.
const LAST: u64 = 100_000;

/// Every `every`-th packet of each link is lost, up to the packet [`LAST`].
#[derive(Debug)]
struct Periodic {
    every: u64,
}

impl LossModel for Periodic {
    fn process(&self) -> Result<Loss, NetworkError> {
        Loss::nth((1..=LAST / self.every).map(|n| n * self.every))
    }
}

/// Reads `[loss]` with `model = "periodic"`.
pub(crate) fn read(
    section: &Section<'_>,
    _: &LossPlace<'_>,
) -> Result<Arc<dyn LossModel>, ExperimentError> {
    let every: u64 = section.need("every")?;
    if every < 2 {
        return Err(section.error("every", format!("found {every}, want 2 or more")));
    }
    Ok(Arc::new(Periodic { every }))
}

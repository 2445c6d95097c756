//! The extensions that both ends may agree on in the handshake.

use super::coding::Coded;
use super::parity::Parities;
use super::scatter::Phases;
use crate::stage::coding::PathEstimates;

/// The state of each extension. It is empty where the ends did not agree.
#[derive(Debug)]
pub(crate) struct Extensions {
    pub(super) parities: Parities,
    pub(super) scatter: Phases,
    pub(super) coded: Coded,
}

impl Extensions {
    /// State before an agreement. `path_estimates` are the host's path estimators.
    pub(super) fn new(path_estimates: PathEstimates) -> Self {
        Self {
            parities: Parities::default(),
            scatter: Phases::default(),
            coded: Coded::with(path_estimates),
        }
    }
}

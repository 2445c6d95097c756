//! What a host knows about the paths to its peers, for those of its connections that code.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::CodingConfig;
use super::estimator::{Estimators, Periods, Shared};

/// The estimators of a host, which all of its connections share.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathEstimates(Arc<Mutex<Estimators>>);

impl PathEstimates {
    /// The estimator of the path to a peer.
    pub(crate) fn to(&self, peer: IpAddr, config: &CodingConfig) -> Shared {
        self.get().of(config.destinations.of(peer), config.sampling)
    }

    /// Totals of the sampling periods of all paths.
    pub(crate) fn periods(&self) -> Periods {
        self.get().periods()
    }

    /// A stack serves its connections one after the other, so the lock is always free.
    fn get(&self) -> MutexGuard<'_, Estimators> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

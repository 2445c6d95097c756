//! What hosts have measured about the paths to their peers, for those of their connections that code.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::CodingConfig;
use super::estimator::{Estimators, Periods, Shared};

/// Which hosts share the estimates of paths.
#[derive(Clone, Debug, Default)]
pub enum Estimates {
    /// Each host has its own estimates (mechanisms A4.3).
    #[default]
    OfHost,
    /// The hosts that have the same [`Destinations`](super::Destinations) number share their estimates: those
    /// under one leaf switch. Their packets use the same paths. The paper does not state which hosts share
    /// estimates.
    OfRack(SharedEstimates),
}

impl Estimates {
    /// The same sharing, without any estimates so far.
    #[must_use]
    pub fn cleared(&self) -> Self {
        match self {
            Self::OfHost => Self::OfHost,
            Self::OfRack(_) => Self::OfRack(SharedEstimates::default()),
        }
    }

    /// Totals of the sampling periods of the shared estimators. A host's own are those of
    /// [`Stack::coding_periods`](crate::Stack::coding_periods).
    pub fn shared_periods(&self) -> Periods {
        match self {
            Self::OfHost => Periods::default(),
            Self::OfRack(shared) => shared.0.periods(),
        }
    }
}

/// Estimates that several hosts share. A clone shares them, too.
#[derive(Clone, Debug, Default)]
pub struct SharedEstimates(PathEstimates);

/// The estimators that all connections of a host share, or those of several hosts.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathEstimates(Arc<Mutex<Estimators>>);

impl PathEstimates {
    /// The estimator of the path from `local` to a peer. It is one of these, or one that hosts share.
    pub(crate) fn between(&self, local: IpAddr, peer: IpAddr, config: &CodingConfig) -> Shared {
        let destinations = &config.destinations;
        let (all, from) = match &config.estimates {
            Estimates::OfHost => (self, None),
            Estimates::OfRack(shared) => (&shared.0, Some(destinations.of(local))),
        };
        all.get()
            .between((from, destinations.of(peer)), config.sampling)
    }

    /// Totals of the sampling periods of all paths.
    pub(crate) fn periods(&self) -> Periods {
        self.get().periods()
    }

    /// The estimators. A stack serves its connections one after the other, so the lock of its own estimators is
    /// always free. Hosts that share estimators hold their lock for one lookup.
    fn get(&self) -> MutexGuard<'_, Estimators> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use spindle_units::{Duration, Instant};

    use super::*;

    /// The share of blocked packets that a host at `local` uses after a host at 10.0.0.1 has measured that
    /// half of the packets to 10.0.9.1 are blocked.
    fn learnt_at(local: &str, config: &CodingConfig) -> f64 {
        let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
        let [first, second] = [PathEstimates::default(), PathEstimates::default()];
        let peer = ip("10.0.9.1");
        let measured = first.between(ip("10.0.0.1"), peer, config);
        let at = |us| Instant::ZERO + Duration::from_micros(us);
        for us in [0, 300, 600] {
            measured.get().sample(at(us), Duration::from_micros(100));
        }
        measured.get().sample(at(601), Duration::from_millis(3));
        assert_eq!(measured.get().blocking(at(900)).get(), 0.5);
        let used = second.between(ip(local), peer, config);
        used.get().blocking(at(900)).get()
    }

    #[test]
    fn hosts_do_not_share_estimates_by_default() {
        let config = CodingConfig::default();
        assert_eq!(learnt_at("10.0.0.2", &config), 0.0);
    }

    #[test]
    fn hosts_of_one_rack_share_estimates_if_configured() {
        let config = || CodingConfig {
            estimates: Estimates::OfRack(SharedEstimates::default()),
            ..CodingConfig::default()
        };
        let of_rack = config();
        assert_eq!(learnt_at("10.0.0.2", &of_rack), 0.5);
        assert_eq!(of_rack.estimates.shared_periods().count, 2);
        assert_eq!(of_rack.estimates.cleared().shared_periods().count, 0);
        assert_eq!(learnt_at("10.0.1.2", &config()), 0.0, "another rack");
    }
}

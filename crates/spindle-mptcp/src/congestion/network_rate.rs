//! The rate of the slowest link, as all flows to one network measure it together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The smoothed rate of the slowest link on the path to a network, in bytes per second.
///
/// Clones share one value. Each flow that runs adds what it measures, and all of them use the same rate.
///
/// Of several flows at one bottleneck, those that use a higher rate expect more others, have a longer target, and take more.
/// What single flows measure at one bottleneck differs by ten times, because other flights arrive in between, and because
/// hosts measure times with a limited precision. The smoothed rate is too low, but it is the same for all.
#[derive(Clone, Debug, Default)]
pub struct NetworkRate(Arc<AtomicU64>);

/// A measured rate changes the smoothed one by this part of their difference. Tens of flows measure together, so that it is
/// smaller than that of a round-trip time (1/8; RFC 6298, section 2.3; our choice).
const PART: u64 = 64;
/// The rate of the network counts as at most so many times what a flow itself measured. More could be the rate of another
/// host's link (our choice).
const MOST_ABOVE_OWN: u64 = 4;

impl NetworkRate {
    /// Processes a measured rate, in bytes per second.
    pub fn on_rate(&self, rate: u64) {
        let smoothed = match self.get() {
            Some(before) => before - before / PART + rate / PART,
            None => rate,
        };
        self.0.store(smoothed.max(1), Ordering::Relaxed);
    }

    /// The rate that a flow uses if the largest one that it measured itself is `own`. `None` if neither is known.
    pub fn for_flow(&self, own: Option<u64>) -> Option<u64> {
        match (own, self.get()) {
            (Some(own), Some(network)) => Some(network.min(own.saturating_mul(MOST_ABOVE_OWN))),
            (own, network) => own.or(network),
        }
    }

    fn get(&self) -> Option<u64> {
        let rate = self.0.load(Ordering::Relaxed);
        (rate > 0).then_some(rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_flow_measures_is_known_to_all_of_them() {
        let (one, other) = (NetworkRate::default(), NetworkRate::default());
        let same = one.clone();
        one.on_rate(1000);
        assert_eq!(same.for_flow(None), Some(1000));
        assert_eq!(other.for_flow(None), None);
    }

    #[test]
    fn rate_follows_the_mean_of_what_is_measured() {
        let n = NetworkRate::default();
        n.on_rate(64_000);
        n.on_rate(128_000);
        assert_eq!(n.get(), Some(65_000));
        for _ in 0..1000 {
            n.on_rate(10_000);
            n.on_rate(30_000);
        }
        let rate = n.get().unwrap();
        assert!((19_000..21_000).contains(&rate), "{rate}");
    }

    #[test]
    fn flow_uses_the_rate_of_the_network_up_to_four_times_its_own() {
        let n = NetworkRate::default();
        assert_eq!(n.for_flow(Some(100)), Some(100));
        n.on_rate(1000);
        let of = [5000, 1000, 500, 250, 100].map(|own| n.for_flow(Some(own)));
        assert_eq!(of, [1000, 1000, 1000, 1000, 400].map(Some));
    }

    #[test]
    fn no_rate_overflows() {
        let n = NetworkRate::default();
        for rate in [u64::MAX, 0, u64::MAX] {
            n.on_rate(rate);
            assert!(n.for_flow(Some(u64::MAX)).is_some());
        }
    }
}

//! What a host knows about the paths to its peers without measuring them.

use std::net::IpAddr;
use std::sync::Arc;

use spindle_units::{BitRate, Duration};

use super::formulas::Blocking;
use super::{CodingConfig, Redundancy};

/// Determines which peers are reached by the same paths and share an estimate: those under one leaf switch
/// (mechanisms A4.3). It may also know properties of these paths.
pub trait Destinations: Send + Sync + std::fmt::Debug {
    /// A number that is the same for all such peers.
    fn of(&self, peer: IpAddr) -> u128;

    /// The rate of the bottleneck on the path from `local` to a peer, if it is known: C in CAPS's equation 4.
    /// Otherwise [`CodingConfig::rate`] is used.
    fn bottleneck(&self, local: IpAddr, peer: IpAddr) -> Option<BitRate> {
        let _ = (local, peer);
        None
    }

    /// The share of the paths from `local` to a peer that long flows block, if it is known in advance: p_B of
    /// CAPS section VI-A. It is used if [`KnownInAdvance::blocking`] is set.
    fn blocking(&self, local: IpAddr, peer: IpAddr) -> Option<Blocking> {
        let _ = (local, peer);
        None
    }

    /// The longest round-trip times from `local` to a peer on paths without and with long flows, if they are
    /// known in advance: RTT_S and RTT_L in CAPS's equation 4. They are used if
    /// [`KnownInAdvance::round_trips`] is set.
    fn round_trips(&self, local: IpAddr, peer: IpAddr) -> Option<(Duration, Duration)> {
        let _ = (local, peer);
        None
    }
}

/// Which values a host takes from [`Destinations`], if they are known there. The others are measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownInAdvance {
    /// The share of blocked packets. It then replaces the estimate during the whole connection (CAPS section
    /// VI-A: "can be estimated in advance at the sender", "fixed during their lifetime").
    pub blocking: bool,
    /// The round-trip times until one was measured. Otherwise they are
    /// [`FIRST_ROUND_TRIPS`](super::estimator::FIRST_ROUND_TRIPS).
    pub round_trips: bool,
}

/// Takes peers in one network, of 24 bits of IPv4 or 64 of IPv6, as reached by the same paths.
#[derive(Clone, Copy, Debug, Default)]
pub struct Networks;

impl Destinations for Networks {
    fn of(&self, peer: IpAddr) -> u128 {
        match peer {
            // These do not collide with IPv6's numbers, which are larger.
            IpAddr::V4(a) => u128::from(a.to_bits() >> 8),
            IpAddr::V6(a) => a.to_bits() >> 64 << 64,
        }
    }
}

impl CodingConfig {
    /// The configuration for a connection from `local` to a peer, with the known properties of the path.
    pub(crate) fn for_path(mut self: Arc<Self>, local: IpAddr, peer: IpAddr) -> Arc<Self> {
        let (known, destinations) = (self.known, &self.destinations);
        let rate = destinations.bottleneck(local, peer);
        let rate = rate.filter(|rate| *rate != self.rate);
        let estimated = known.blocking && self.redundancy == Redundancy::Estimated;
        let blocking = estimated
            .then(|| destinations.blocking(local, peer))
            .flatten();
        let round_trips = known
            .round_trips
            .then(|| destinations.round_trips(local, peer))
            .flatten();
        if let Some(rate) = rate {
            Arc::make_mut(&mut self).rate = rate;
        }
        if let Some(share) = blocking {
            Arc::make_mut(&mut self).redundancy = Redundancy::Blocking(share);
        }
        if let Some(round_trips) = round_trips {
            Arc::make_mut(&mut self).sampling.round_trips = round_trips;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::coding::estimator::FIRST_ROUND_TRIPS;

    const RATE: BitRate = BitRate(20_000_000);
    const ROUND_TRIPS: (Duration, Duration) =
        (Duration::from_millis(8), Duration::from_millis(161));

    /// Knows everything.
    #[derive(Debug)]
    struct Known(Blocking);

    impl Destinations for Known {
        fn of(&self, _: IpAddr) -> u128 {
            0
        }

        fn bottleneck(&self, _: IpAddr, _: IpAddr) -> Option<BitRate> {
            Some(RATE)
        }

        fn blocking(&self, _: IpAddr, _: IpAddr) -> Option<Blocking> {
            Some(self.0)
        }

        fn round_trips(&self, _: IpAddr, _: IpAddr) -> Option<(Duration, Duration)> {
            Some(ROUND_TRIPS)
        }
    }

    fn on_path(change: impl Fn(&mut CodingConfig)) -> Arc<CodingConfig> {
        let share = Blocking::new(4, 20).expect("a share");
        let mut config = CodingConfig {
            destinations: Arc::new(Known(share)),
            ..CodingConfig::default()
        };
        change(&mut config);
        let [local, peer] = ["10.0.0.1", "10.0.0.2"].map(|a| a.parse().expect("an address"));
        Arc::new(config).for_path(local, peer)
    }

    #[test]
    fn connection_takes_only_the_rate_from_destinations_by_default() {
        let config = on_path(|_| ());
        assert_eq!(config.rate, RATE);
        assert_eq!(config.redundancy, Redundancy::Estimated);
        assert_eq!(config.sampling.round_trips, FIRST_ROUND_TRIPS);
    }

    #[test]
    fn connection_takes_known_blocking_and_round_trips_if_configured() {
        let config = on_path(|c| {
            c.known = KnownInAdvance {
                blocking: true,
                round_trips: true,
            };
        });
        let Redundancy::Blocking(share) = config.redundancy else {
            panic!("{:?}", config.redundancy);
        };
        assert_eq!(share.get(), 0.2);
        assert_eq!(config.sampling.round_trips, ROUND_TRIPS);
    }

    #[test]
    fn fixed_redundancy_is_kept_if_blocking_is_known() {
        let config = on_path(|c| {
            c.known.blocking = true;
            c.redundancy = Redundancy::Packets(2);
        });
        assert_eq!(config.redundancy, Redundancy::Packets(2));
    }
}

//! What former subflows measured on the paths to a network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use spindle_units::Duration;

use crate::connection::PathSample;

/// The round-trip time and the losses that former subflows measured between a local address and a network of the peer
/// (RFC 9040, section 5: old_RTT and old_RTTvar; the losses are our addition).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathHistory {
    /// Smoothed round-trip time of the last subflow (RFC 6298, section 2).
    pub srtt: Duration,
    /// Its variation (RFC 6298, section 2).
    pub rttvar: Duration,
    /// The share of retransmitted segments, from 0 to 1. Later subflows weigh more.
    pub loss: f64,
    /// The segments over which `loss` was measured.
    pub(super) segments: f64,
}

/// Beyond this number of segments, older losses count half (our choice).
const LOSS_MEMORY: f64 = 2000.0;

impl PathHistory {
    /// The history after another subflow. `None` if there is none and the subflow measured no round-trip time.
    pub(super) fn after(before: Option<Self>, sample: &PathSample) -> Option<Self> {
        let mut history = match (before, sample.rtt) {
            (Some(before), None) => before,
            (before, Some((srtt, rttvar))) => Self {
                srtt,
                rttvar,
                loss: before.map_or(0.0, |b| b.loss),
                segments: before.map_or(0.0, |b| b.segments),
            },
            (None, None) => return None,
        };
        if history.segments > LOSS_MEMORY {
            history.segments /= 2.0;
        }
        let lost = history.loss * history.segments + sample.retransmitted as f64;
        history.segments += sample.sent as f64;
        history.loss = (lost / history.segments.max(1.0)).min(1.0);
        Some(history)
    }
}

/// A local address and the network of a peer: 24 bits of an IPv4 address and 64 of an IPv6 address. Hosts of a network
/// share the path to it (RFC 9040, section 6.2).
pub(super) type Route = (IpAddr, IpAddr);

/// The network of `remote`, as seen from `local`.
pub(super) fn route(local: IpAddr, remote: IpAddr) -> Route {
    let network = match remote {
        IpAddr::V4(a) => IpAddr::V4(Ipv4Addr::from_bits(a.to_bits() & !0xff)),
        IpAddr::V6(a) => IpAddr::V6(Ipv6Addr::from_bits(a.to_bits() & !u128::from(u64::MAX))),
    };
    (local, network)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(rtt_ms: Option<u64>, sent: u64, retransmitted: u64) -> PathSample {
        let ms = Duration::from_millis;
        PathSample {
            path: ([10, 0, 0, 1].into(), [10, 0, 0, 2].into()),
            window: 0,
            rtt: rtt_ms.map(|rtt| (ms(rtt), ms(1))),
            sent,
            retransmitted,
        }
    }

    #[test]
    fn last_round_trip_time_counts_and_losses_are_a_mean_over_segments() {
        let first = PathHistory::after(None, &sample(Some(20), 100, 10)).unwrap();
        assert_eq!((first.srtt, first.loss), (Duration::from_millis(20), 0.1));
        let second = PathHistory::after(Some(first), &sample(Some(30), 300, 0)).unwrap();
        assert_eq!(
            (second.srtt, second.loss),
            (Duration::from_millis(30), 0.025)
        );
        let unmeasured = PathHistory::after(Some(second), &sample(None, 0, 0)).unwrap();
        assert_eq!(unmeasured, second);
        assert_eq!(PathHistory::after(None, &sample(None, 100, 0)), None);
    }

    #[test]
    fn old_losses_fade() {
        let mut history = PathHistory::after(None, &sample(Some(20), 10_000, 1000)).unwrap();
        for _ in 0..20 {
            history = PathHistory::after(Some(history), &sample(Some(20), 1000, 0)).unwrap();
        }
        assert!(history.loss < 0.001, "{}", history.loss);
    }

    #[test]
    fn addresses_of_a_network_share_a_route() {
        let local: IpAddr = "10.0.0.1".parse().unwrap();
        let to = |remote: &str| route(local, remote.parse().unwrap());
        assert_eq!(to("192.0.2.7"), to("192.0.2.200"));
        assert_ne!(to("192.0.2.7"), to("192.0.3.7"));
        assert_eq!(to("2001:db8::1"), to("2001:db8::ffff:1"));
        assert_ne!(to("2001:db8::1"), to("2001:db8:0:1::1"));
    }
}

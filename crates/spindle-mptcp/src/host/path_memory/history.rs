//! What former subflows measured on the paths to a network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use spindle_units::Duration;

use crate::connection::PathSample;
use crate::scheduler::Earliest;

/// The round-trip time and the losses that former subflows measured between a local address and a network of the peer
/// (RFC 9040, section 5: old_RTT and old_RTTvar; the losses are our addition).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathHistory {
    /// Smoothed round-trip time of the last subflow (RFC 6298, section 2).
    pub srtt: Duration,
    /// Its variation (RFC 6298, section 2).
    pub rttvar: Duration,
    /// What was lost of the segments that this host sent.
    pub sent: LossShare,
    /// What was lost of the segments that the peer sent.
    pub received: LossShare,
}

/// The share of segments that were lost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LossShare {
    /// The share, from 0 to 1. Later subflows weigh more.
    pub share: f64,
    /// The segments over which it was measured.
    segments: f64,
}

/// Beyond this number of segments, older losses count half (our choice).
const LOSS_MEMORY: f64 = 2000.0;

/// After how many segments half of the measured share counts as usual: ten first flights (our choice).
const CHANCE_SEGMENTS: f64 = 100.0;

/// Segments of the first flight of a connection (RFC 6928).
const FIRST_FLIGHT: i32 = 10;

impl LossShare {
    /// The share after more segments, and how many of them were lost.
    fn after(self, (segments, lost): (u64, u64)) -> Self {
        let weight = match self.segments > LOSS_MEMORY {
            true => self.segments / 2.0,
            false => self.segments,
        };
        let all = weight + segments as f64;
        let share = (self.share * weight + lost as f64) / all.max(1.0);
        Self {
            share: share.min(1.0),
            segments: all,
        }
    }

    /// The share that is usual, which is less than the measured one as long as that may be chance.
    pub(super) fn usual(self) -> f64 {
        self.share * self.segments / (self.segments + CHANCE_SEGMENTS)
    }

    /// The probability that one of the segments of a first flight is lost. A path with few segments so far may lose more
    /// than it has shown (Laplace's rule of succession).
    fn of_first_flight(self) -> f64 {
        let share = (self.share * self.segments + 1.0) / (self.segments + 2.0);
        1.0 - (1.0 - share).powi(FIRST_FLIGHT)
    }
}

impl PathHistory {
    /// The history after another subflow. `None` if there is none and the subflow measured no round-trip time.
    pub(super) fn after(before: Option<Self>, sample: &PathSample) -> Option<Self> {
        let known = before.map(|b| (b.srtt, b.rttvar));
        let (srtt, rttvar) = sample.rtt.or(known)?;
        let (sent, received) = before.map(|b| (b.sent, b.received)).unwrap_or_default();
        Some(Self {
            srtt,
            rttvar,
            sent: sent.after(sample.sent),
            received: received.after(sample.received),
        })
    }

    /// The expected time until the first flight of a connection is acknowledged: a round trip, and the repair if any
    /// segment is lost, which takes as long as the scheduler [`Earliest`] expects. What counts is the direction that
    /// carried more.
    pub(in crate::host) fn first_flight(&self) -> Duration {
        let carried = match self.sent.segments >= self.received.segments {
            true => self.sent,
            false => self.received,
        };
        let trips = 1.0 + Earliest::default().repair * carried.of_first_flight();
        Duration::from_nanos((self.srtt.as_nanos() as f64 * trips) as u64)
    }

    /// The time by which the answer to a SYN is late: the timeout of RFC 6298 without its lower bound, and at least one
    /// and a quarter round trips.
    pub(in crate::host) fn answer_is_late_after(&self) -> Duration {
        self.srtt + (self.rttvar * 4).max(self.srtt / 4)
    }
}

/// A local address and the network of a peer: 24 bits of an IPv4 address and 48 of an IPv6 address, as many as sites have
/// (RFC 6177). Hosts of a network share the path to it (RFC 9040, section 6.2).
pub(super) type Route = (IpAddr, IpAddr);

/// The network of `remote`, as seen from `local`.
pub(super) fn route(local: IpAddr, remote: IpAddr) -> Route {
    (local, network_of(remote))
}

/// The network that contains this address, as the memory of paths counts networks: an IPv4 /24 or an IPv6 /48.
pub fn network_of(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(a) => Ipv4Addr::from_bits(a.to_bits() >> 8 << 8).into(),
        IpAddr::V6(a) => Ipv6Addr::from_bits(a.to_bits() >> 80 << 80).into(),
    }
}

/// The host of `remote`, as seen from `local`: an IPv4 address or the first 64 bits of an IPv6 address, since a host changes
/// the others (RFC 8981).
pub(super) fn host_route(local: IpAddr, remote: IpAddr) -> Route {
    let host = match remote {
        IpAddr::V4(a) => a.into(),
        IpAddr::V6(a) => Ipv6Addr::from_bits(a.to_bits() >> 64 << 64).into(),
    };
    (local, host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subflow::sender::LastWindow;
    use spindle_units::Instant;

    fn sample(rtt_ms: Option<u64>, sent: u64, retransmitted: u64) -> PathSample {
        let ms = Duration::from_millis;
        PathSample {
            path: ([10, 0, 0, 1].into(), [10, 0, 0, 2].into()),
            window: LastWindow {
                bytes: 0,
                at: Instant::ZERO,
                congested: false,
            },
            measured: None,
            rtt: rtt_ms.map(|rtt| (ms(rtt), ms(1))),
            sent: (sent, retransmitted),
            received: (0, 0),
        }
    }

    #[test]
    fn last_round_trip_time_counts_and_losses_are_a_mean_over_segments() {
        let first = PathHistory::after(None, &sample(Some(20), 100, 10)).unwrap();
        assert_eq!(
            (first.srtt, first.sent.share),
            (Duration::from_millis(20), 0.1)
        );
        let second = PathHistory::after(Some(first), &sample(Some(30), 300, 0)).unwrap();
        assert_eq!(
            (second.srtt, second.sent.share),
            (Duration::from_millis(30), 0.025)
        );
        let unmeasured = PathHistory::after(Some(second), &sample(None, 0, 0)).unwrap();
        assert_eq!(unmeasured, second);
        assert_eq!(PathHistory::after(None, &sample(None, 100, 0)), None);
    }

    #[test]
    fn first_flight_is_longer_where_segments_were_lost_or_few_were_sent() {
        let flight = |sent, lost| {
            let history = PathHistory::after(None, &sample(Some(20), sent, lost)).unwrap();
            history.first_flight().as_nanos() as f64 / 20e6
        };
        assert!((1.0..1.05).contains(&flight(1000, 0)));
        // One flight of ten segments in three has no loss.
        assert!((2.9..3.0).contains(&flight(1000, 100)));
        assert!(flight(10, 0) > flight(100, 0));
        let download = PathSample {
            received: (1000, 100),
            ..sample(Some(20), 10, 0)
        };
        let history = PathHistory::after(None, &download).unwrap();
        assert!(history.first_flight() > Duration::from_millis(50));
    }

    #[test]
    fn measured_share_is_usual_after_many_segments() {
        let usual = |sent, lost| LossShare::default().after((sent, lost)).usual();
        assert_eq!((usual(0, 0), usual(100, 10)), (0.0, 0.05));
        assert!((0.09..0.1).contains(&usual(1000, 100)));
    }

    #[test]
    fn old_losses_fade() {
        let mut history = PathHistory::after(None, &sample(Some(20), 10_000, 1000)).unwrap();
        for _ in 0..20 {
            history = PathHistory::after(Some(history), &sample(Some(20), 1000, 0)).unwrap();
        }
        assert!(history.sent.share < 0.001, "{history:?}");
    }

    #[test]
    fn addresses_of_a_network_share_a_route() {
        let local: IpAddr = "10.0.0.1".parse().unwrap();
        let to = |remote: &str| route(local, remote.parse().unwrap());
        assert_eq!(to("192.0.2.7"), to("192.0.2.200"));
        assert_ne!(to("192.0.2.7"), to("192.0.3.7"));
        assert_eq!(to("2001:db8::1"), to("2001:db8::ffff:1"));
        assert_eq!(to("2001:db8::1"), to("2001:db8:0:1::1"));
        assert_ne!(to("2001:db8::1"), to("2001:db8:1::1"));
        let host = |remote: &str| host_route(local, remote.parse().unwrap());
        assert_eq!(host("2001:db8::1"), host("2001:db8::ffff:1"));
        assert_ne!(host("2001:db8::1"), host("2001:db8:0:1::1"));
        assert_ne!(host("192.0.2.7"), host("192.0.2.200"));
    }
}

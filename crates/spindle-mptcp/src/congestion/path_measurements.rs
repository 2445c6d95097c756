//! What a controller measures of its path, whatever other flows send.

use std::cmp::Reverse;

use spindle_units::{Duration, Instant};

use super::NetworkRate;
use super::recent::{MEMORY, Recent};

/// The rate of the slowest link of a path in bytes per second, as a flight shows it. Hosts measure times with a limited
/// precision ([`Parameters::timing_precision`](super::Parameters::timing_precision)), so there are two estimates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasuredRate {
    /// The rate if the measured time is too short by as much as the precision allows.
    pub lower: u64,
    /// The rate if the measured time is right. A time that is much shorter than the precision, such as zero, counts as an
    /// eighth of it.
    pub upper: u64,
}

/// The path's own round-trip time and the rate of its slowest link, as measured in the last 10 to 20 s.
///
/// A subflow that begins while other flows fill the queue of its path cannot measure either of them. Its stack may remember
/// what a former subflow between the same hosts measured, and what subflows to other hosts of the peer's network measure
/// ([`crate::StackConfig::remembered_paths`]). The latter is a supposition: a host may be farther away than its neighbours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathMeasurements {
    rtt: Recent<Duration>,
    /// The lower estimate of the rate, in bytes per second.
    rate: Recent<Reverse<u64>>,
    /// The upper one.
    upper_rate: Recent<Reverse<u64>>,
    /// The smallest round-trip time of other hosts in the peer's network, until it proves wrong.
    supposed: Option<Duration>,
    /// What was supposed proved wrong: the path to the host is not that to others of its network.
    is_apart: bool,
}

impl PathMeasurements {
    /// After this time, measurements of a former subflow are not used. They are forgotten as long after that.
    pub const LIFETIME: Duration = MEMORY;

    /// Processes a measured round-trip time.
    pub fn on_rtt(&mut self, now: Instant, rtt: Duration) {
        self.rtt.on_sample(now, rtt);
    }

    /// Processes a measured rate of the slowest link.
    pub fn on_rate(&mut self, now: Instant, rate: MeasuredRate) {
        self.rate.on_sample(now, Reverse(rate.lower));
        self.upper_rate.on_sample(now, Reverse(rate.upper));
    }

    /// The smallest round-trip time, measured or supposed. It has no queue if the queue was empty at any time.
    pub fn smallest_rtt(&self) -> Option<Duration> {
        self.rtt.get().into_iter().chain(self.supposed).min()
    }

    /// The largest measured rate of the slowest link, in bytes per second. It may be too low ([`MeasuredRate::lower`]).
    pub fn rate(&self) -> Option<u64> {
        self.rate.get().map(|Reverse(rate)| rate)
    }

    /// The largest measured rate of the slowest link, in bytes per second. It may be too high ([`MeasuredRate::upper`]).
    pub fn upper_rate(&self) -> Option<u64> {
        self.upper_rate.get().map(|Reverse(rate)| rate)
    }

    /// Adds what another subflow to the same host measured or supposes.
    pub fn join(&mut self, other: &Self) {
        self.rtt.join(&other.rtt);
        self.rate.join(&other.rate);
        self.upper_rate.join(&other.upper_rate);
        self.is_apart |= other.is_apart;
        let supposed = self.supposed.or(other.supposed);
        self.supposed = supposed.filter(|_| !self.is_apart);
    }

    /// Supposes that the path without a queue is as long as that to other hosts of the network, unless this proved wrong before.
    pub fn suppose(&mut self, network: &NetworkMeasurements) {
        self.supposed = network.smallest.get().filter(|_| !self.is_apart);
    }

    /// What was supposed proves wrong.
    pub fn reject_supposition(&mut self) {
        self.is_apart |= self.supposed.take().is_some();
    }

    /// The measurements without what is supposed.
    #[must_use]
    pub fn without_supposition(&self) -> Self {
        Self {
            supposed: None,
            ..*self
        }
    }
}

/// The round-trip times that hosts of a network had in the last 10 to 20 s, in handshakes and until the end of subflows, and the
/// rate that running flows share.
///
/// Hosts of a network may be at different distances. A host belongs to those that share a path if its round-trip time is
/// one that they measure, without a queue or with theirs. Such hosts share the rate of the slowest link as well, while their
/// subflows run.
#[derive(Clone, Debug, Default)]
pub struct NetworkMeasurements {
    smallest: Recent<Duration>,
    /// The longest round-trip time of the hosts that share a path.
    longest: Recent<Reverse<Duration>>,
    rate: NetworkRate,
}

/// A round-trip time that is longer by at most this part is nearly as long (our choice).
const NEARLY: u64 = 4;

impl NetworkMeasurements {
    /// Processes the round-trip time of a handshake. Returns whether the host may have the path of the others.
    pub fn on_handshake(&mut self, now: Instant, rtt: Duration) -> bool {
        let shares = self.contains(rtt);
        self.smallest.on_sample(now, rtt);
        if shares {
            self.longest.on_sample(now, Reverse(rtt));
        }
        shares
    }

    /// A subflow has ended. It measured this, and its smoothed round-trip time is `srtt`.
    pub fn on_end(&mut self, now: Instant, measured: &PathMeasurements, srtt: Duration) {
        self.smallest.join(&measured.rtt);
        let smallest = self.smallest.get().zip(measured.rtt.get());
        let is_near = smallest.is_some_and(|(of_all, own)| is_nearly(own, of_all));
        if is_near || self.contains(srtt) {
            self.longest.on_sample(now, Reverse(srtt));
        }
    }

    /// The rate of the slowest link that running flows share.
    pub fn rate(&self) -> &NetworkRate {
        &self.rate
    }

    /// Whether hosts of the network measured a round-trip time that is nearly as long, or longer.
    fn contains(&self, rtt: Duration) -> bool {
        let longest = self.longest.get();
        longest.is_none_or(|Reverse(longest)| is_nearly(rtt, longest))
    }
}

fn is_nearly(rtt: Duration, bound: Duration) -> bool {
    rtt <= bound + bound / NEARLY
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn measured(rtt: u64) -> PathMeasurements {
        let mut m = PathMeasurements::default();
        m.on_rtt(Instant::ZERO, ms(rtt));
        m
    }

    /// A network whose hosts measured 20 ms at least and 60 ms at most.
    fn network() -> NetworkMeasurements {
        let mut n = NetworkMeasurements::default();
        n.on_handshake(Instant::ZERO, ms(21));
        n.on_end(Instant::ZERO, &measured(20), ms(60));
        n
    }

    #[test]
    fn subflows_to_one_host_share_the_largest_of_each_estimate() {
        let with = |lower, upper| {
            let mut m = PathMeasurements::default();
            m.on_rate(Instant::ZERO, MeasuredRate { lower, upper });
            m
        };
        let mut m = with(10, 40);
        m.join(&with(20, 30));
        assert_eq!((m.rate(), m.upper_rate()), (Some(20), Some(40)));
    }

    #[test]
    fn host_in_a_queue_supposes_the_round_trip_time_of_its_network() {
        let mut m = measured(50);
        m.suppose(&network());
        assert_eq!(m.smallest_rtt(), Some(ms(20)));
        m.on_rtt(Instant::ZERO, ms(10));
        assert_eq!(m.smallest_rtt(), Some(ms(10)));
    }

    #[test]
    fn supposition_that_proved_wrong_does_not_return_and_none_is_recorded() {
        let mut m = measured(50);
        m.suppose(&network());
        assert_eq!(m.without_supposition(), measured(50));
        m.reject_supposition();
        assert_eq!(m.smallest_rtt(), Some(ms(50)));
        let mut next = PathMeasurements::default();
        next.join(&m.without_supposition());
        next.suppose(&network());
        assert_eq!(next.smallest_rtt(), Some(ms(50)));
        let mut other = measured(50);
        other.suppose(&network());
        other.join(&m);
        assert_eq!(other.smallest_rtt(), Some(ms(50)));
    }

    #[test]
    fn host_may_have_the_path_of_its_network_if_others_measured_as_much_with_their_queue() {
        let shares = |rtt| network().on_handshake(Instant::ZERO, ms(rtt));
        assert_eq!([20, 60, 75, 76].map(shares), [true, true, true, false]);
    }

    #[test]
    fn host_that_is_farther_away_does_not_extend_what_the_network_measured() {
        let mut n = NetworkMeasurements::default();
        assert!(n.on_handshake(Instant::ZERO, ms(20)), "the first one");
        for _ in 0..2 {
            assert!(!n.on_handshake(Instant::ZERO, ms(50)));
            n.on_end(Instant::ZERO, &measured(50), ms(50));
        }
        // A queue that grows from handshake to handshake.
        let grows = [24, 30, 37, 46].map(|rtt| n.on_handshake(Instant::ZERO, ms(rtt)));
        assert_eq!(grows, [true; 4]);
    }
}

//! Round-trip time and retransmission timeout (RFC 6298).

use spindle_units::Duration;

use crate::tcp_config::{BackOff, RtoFloor, TcpConfig};

/// The longest interval between the probes of a path whose data were sent on another path, and between timeouts if
/// the back-off is bounded ([`BackOff::Bounded`]).
///
/// RFC 6298, rules 2.5 and 5.5, let a ceiling bound the doubling, "provided it is at least 60 seconds". That
/// ceiling protects a network that carries the whole connection: its load must keep falling until it fits.
/// Here, the load has already moved to another path, or only one segment per timeout remains on each path.
/// Waiting longer only delays the discovery that a path works again. Linux lets an administrator set the
/// ceiling of all connections to as little as one second (`net.ipv4.tcp_rto_max_ms`).
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// More doublings are not counted: a timeout of 1 ms exceeds the ceiling of 60 s after 16 (our choice).
const MOST_DOUBLINGS: u32 = 16;

/// Smoothed RTT, its variation, and the timeout computed from them.
#[derive(Clone, Debug)]
pub(crate) struct RttEstimator {
    smoothed: Option<Duration>,
    variation: Duration,
    minimum: Option<Duration>,
    latest: Option<Duration>,
    backoff: u32,
    /// The connection has other paths, so that the back-off of this path ends at [`PROBE_INTERVAL`].
    probing: bool,
    min_rto: Duration,
    floor: RtoFloor,
    max_rto: Duration,
    growth: BackOff,
    initial_rto: Duration,
    /// `initial_rto` comes from former subflows.
    expects: bool,
    /// The SYN exchange is complete.
    established: bool,
}

impl RttEstimator {
    /// An estimator without a measurement.
    pub(crate) fn new(config: &TcpConfig) -> Self {
        Self {
            smoothed: None,
            variation: Duration::ZERO,
            minimum: None,
            latest: None,
            backoff: 0,
            probing: false,
            min_rto: config.min_rto,
            floor: config.rto_floor,
            max_rto: config.max_rto,
            growth: config.back_off,
            initial_rto: config.initial_rto,
            expects: false,
            established: false,
        }
    }

    /// The SYN exchange is complete: the path works, and a bounded back-off applies, also if no RTT was measured since
    /// the SYN was repeated.
    pub(crate) fn establish(&mut self) {
        self.established = true;
    }

    /// Processes a measurement (RFC 6298, rules 2.2 and 2.3; alpha = 1/8, beta = 1/4) and ends the back-off
    /// (section 5, last paragraph).
    pub(crate) fn sample(&mut self, rtt: Duration) {
        let rtt = Duration::from_nanos(rtt.as_nanos().max(1));
        match self.smoothed {
            None => {
                self.smoothed = Some(rtt);
                self.variation = rtt / 2;
            }
            Some(srtt) => {
                let deviation = srtt.abs_diff(rtt);
                self.variation = (self.variation * 3 + deviation) / 4;
                self.smoothed = Some((srtt * 7 + rtt) / 8);
            }
        }
        self.minimum = Some(self.minimum.map_or(rtt, |m| m.min(rtt)));
        self.latest = Some(rtt);
        self.end_back_off();
    }

    pub(crate) fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }

    /// The mean deviation, if an RTT was measured (RFC 6298: RTTVAR).
    pub(crate) fn variation(&self) -> Option<Duration> {
        self.smoothed.map(|_| self.variation)
    }

    pub(crate) fn minimum(&self) -> Option<Duration> {
        self.minimum
    }

    pub(crate) fn latest(&self) -> Option<Duration> {
        self.latest
    }

    /// The timeout, including its back-off.
    pub(crate) fn rto(&self) -> Duration {
        let base = match self.smoothed {
            None => self.initial_rto,
            Some(srtt) => self.timeout(srtt, self.variation),
        };
        let bound = match self.growth {
            BackOff::Bounded { doublings } if self.established => Some(doublings),
            _ => None,
        };
        let doublings = self.backoff.min(bound.unwrap_or(MOST_DOUBLINGS));
        let ceiling = if self.probing || bound.is_some() {
            self.max_rto.min(PROBE_INTERVAL)
        } else {
            self.max_rto
        };
        (base * (1u64 << doublings)).min(ceiling.max(base))
    }

    /// Doubles the timeout (RFC 6298, rule 5.5).
    pub(crate) fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(MOST_DOUBLINGS);
    }

    /// New data were acknowledged, so the path works and the back-off ends (as RFC 6298 section 5 allows). The
    /// estimate itself changes only with a sample that Karn's rule admits.
    pub(crate) fn end_back_off(&mut self) {
        self.backoff = 0;
        self.probing = false;
    }

    /// The smoothed RTT and its variation, if measured.
    pub(crate) fn estimate(&self) -> Option<(Duration, Duration)> {
        self.smoothed.map(|srtt| (srtt, self.variation))
    }

    /// Former subflows measured this smoothed RTT and variation on the same path. Until the first measurement, the
    /// timeout is the one that they give (RFC 9040, section 5), if that is shorter. The variation counts as at least
    /// half of the RTT, as after a first measurement (RFC 6298, rule 2.2).
    pub(crate) fn expect(&mut self, srtt: Duration, variation: Duration) {
        let rto = self.timeout(srtt, variation.max(srtt / 2));
        self.initial_rto = self.initial_rto.min(rto);
        self.expects = true;
    }

    /// Whether [`Self::expect`] has set the timeout that applies until the first measurement.
    pub(crate) fn expects(&self) -> bool {
        self.expects
    }

    /// The timeout without back-off (RFC 6298, rule 2.3).
    fn timeout(&self, srtt: Duration, variation: Duration) -> Duration {
        match self.floor {
            RtoFloor::Timeout => (srtt + variation * 4).max(self.min_rto),
            RtoFloor::Variation => srtt + (variation * 4).max(self.min_rto),
        }
    }

    /// Sets the timeout to `rto` until the first measurement.
    pub(crate) fn restart(&mut self, rto: Duration) {
        self.initial_rto = rto;
        self.end_back_off();
    }

    /// Sets whether the timeout paces probes of a dead path.
    pub(crate) fn set_probing(&mut self, probing: bool) {
        self.probing = probing;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> TcpConfig {
        TcpConfig {
            min_rto: Duration::from_millis(5),
            ..TcpConfig::default()
        }
    }

    fn estimator() -> RttEstimator {
        RttEstimator::new(&config())
    }

    #[test]
    fn rto_matches_hand_computed_rfc_6298_values() {
        let mut e = estimator();
        assert_eq!(e.rto(), Duration::from_secs(1));
        e.sample(Duration::from_millis(80));
        assert_eq!(e.rto(), Duration::from_millis(80 + 4 * 40));
        e.sample(Duration::from_millis(160));
        // RTTVAR = 3/4*40 + 1/4*80 = 50, SRTT = 7/8*80 + 1/8*160 = 90.
        assert_eq!(e.smoothed(), Some(Duration::from_millis(90)));
        assert_eq!(e.rto(), Duration::from_millis(90 + 200));
    }

    /// The RTT of a path of 120 ms rose to 240 ms while a queue filled within one round trip. A segment that was
    /// retransmitted then timed out 0.1 ms before its acknowledgement arrived, and the whole window was sent
    /// again.
    #[test]
    fn rto_with_its_floor_on_the_variation_exceeds_an_rtt_that_a_growing_queue_doubles() {
        let rto = |floor| {
            let mut e = RttEstimator::new(&TcpConfig {
                rto_floor: floor,
                ..TcpConfig::default()
            });
            for _ in 0..200 {
                e.sample(Duration::from_millis(120));
            }
            e.rto()
        };
        assert_eq!(rto(RtoFloor::Timeout), Duration::from_millis(200));
        assert!(rto(RtoFloor::Variation) >= Duration::from_millis(320));
    }

    #[test]
    fn expected_rtt_shortens_the_timeout_until_a_measurement() {
        let mut e = estimator();
        e.expect(Duration::from_millis(20), Duration::from_millis(1));
        assert_eq!(e.rto(), Duration::from_millis(20 + 4 * 10));
        e.back_off();
        assert_eq!(e.rto(), Duration::from_millis(120));
        e.sample(Duration::from_millis(30));
        assert_eq!(e.rto(), Duration::from_millis(30 + 4 * 15));
        let mut slow = estimator();
        slow.expect(Duration::from_secs(2), Duration::ZERO);
        assert_eq!(slow.rto(), Duration::from_secs(1), "not longer");
    }

    #[test]
    fn rto_keeps_its_minimum_and_doubles_up_to_its_ceiling() {
        let mut e = estimator();
        e.sample(Duration::from_micros(280));
        assert_eq!(e.rto(), Duration::from_millis(5));
        e.back_off();
        assert_eq!(e.rto(), Duration::from_millis(10));
        for _ in 0..40 {
            e.back_off();
        }
        assert_eq!(e.rto(), Duration::from_secs(60));
        e.set_probing(true);
        assert_eq!(e.rto(), Duration::from_secs(1));
        e.sample(Duration::from_micros(280));
        assert_eq!(e.rto(), Duration::from_millis(5));
        for _ in 0..40 {
            e.back_off();
        }
        assert_eq!(e.rto(), Duration::from_secs(60), "a sample ends probing");
    }

    #[test]
    fn bounded_back_off_ends_after_its_doublings_or_at_one_second() {
        let mut e = RttEstimator::new(&TcpConfig {
            back_off: BackOff::Bounded { doublings: 5 },
            ..config()
        });
        for _ in 0..3 {
            e.back_off();
        }
        assert_eq!(e.rto(), Duration::from_secs(8), "SYNs back off as usual");
        let after = |e: &mut RttEstimator, times| {
            for _ in 0..times {
                e.back_off();
            }
            e.rto()
        };
        e.establish();
        assert_eq!(e.rto(), Duration::from_secs(1), "also without an RTT");
        assert_eq!(after(&mut e, 1), Duration::from_secs(1));
        e.sample(Duration::from_micros(280));
        assert_eq!(after(&mut e, 4), Duration::from_millis(80));
        assert_eq!(after(&mut e, 1), Duration::from_millis(160));
        assert_eq!(after(&mut e, 40), Duration::from_millis(160));
        let mut wide = RttEstimator::new(&TcpConfig {
            back_off: BackOff::Bounded { doublings: 5 },
            ..config()
        });
        wide.establish();
        wide.sample(Duration::from_millis(100));
        assert_eq!(after(&mut wide, 1), Duration::from_millis(600));
        assert_eq!(after(&mut wide, 1), Duration::from_secs(1));
        assert_eq!(after(&mut wide, 40), Duration::from_secs(1));
    }
}

//! Tail loss probe (RFC 8985, section 7).

use spindle_units::{Duration, Instant};

use crate::tcp_config::TailLossProbe;
use crate::types::SubflowPosition;

/// State of the tail loss probe.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tlp {
    /// When the probe is due.
    pub(crate) at: Option<Instant>,
    /// When RFC 8985's probe is due, if [`Self::at`] is earlier.
    pub(crate) regular_at: Option<Instant>,
    /// The episode that the last probe began: end of the data it covers, and whether it was a retransmission
    /// rather than new data. No second probe is sent until the episode ends.
    episode: Option<(SubflowPosition, bool)>,
}

impl Tlp {
    /// The probe timeout (RFC 8985, section 7.2; FUSO section 5.1: two smoothed RTTs). It is 1 s before the
    /// first measurement. It is never later than the retransmission timeout. At that limit the probe replaces
    /// the retransmission.
    pub(crate) fn timeout(
        config: TailLossProbe,
        srtt: Option<Duration>,
        single_segment: bool,
        until_rto: Duration,
    ) -> Duration {
        let pto = match srtt {
            None => Duration::from_secs(1),
            Some(srtt) if single_segment => srtt * 2 + config.max_ack_delay,
            Some(srtt) => srtt * 2,
        };
        pto.max(config.floor).min(until_rto)
    }

    /// The probe timeout of [`TailLossProbe::margin`], from now on, for a last segment that was sent `sent_ago` ago.
    /// `None` before the first measurement, and without a margin.
    pub(crate) fn early_timeout(
        config: TailLossProbe,
        srtt: Option<Duration>,
        sent_ago: Duration,
    ) -> Option<Duration> {
        let (srtt, margin) = (srtt?, config.margin?);
        let expected = (srtt + config.max_ack_delay).saturating_sub(sent_ago);
        Some((expected + Duration::from_secs_f64(srtt.as_secs_f64() * margin)).max(config.floor))
    }

    /// Whether a probe may be scheduled.
    pub(crate) fn may_arm(&self) -> bool {
        self.episode.is_none()
    }

    /// A probe is due although there are new data to send. An early one is for tails only: it waits until the regular time.
    /// Returns whether it does.
    pub(crate) fn defer(&mut self) -> bool {
        self.at = self.regular_at.take();
        self.at.is_some()
    }

    /// A probe was sent. `end` is the end of everything sent so far.
    pub(crate) fn on_probe(&mut self, end: SubflowPosition, repeat: bool) {
        (self.at, self.regular_at) = (None, None);
        self.episode = Some((end, repeat));
    }

    /// An acknowledgement up to `una` arrived. Returns true if it ended an episode whose retransmission filled
    /// a hole. In that case a loss was repaired, which is a congestion signal (RFC 8985, section 7.4).
    pub(crate) fn on_ack(&mut self, una: SubflowPosition, dsack: bool) -> bool {
        let Some((end, repeat)) = self.episode else {
            return false;
        };
        if repeat && dsack {
            self.episode = None;
            return false;
        }
        if una >= end {
            self.episode = None;
            return repeat && !dsack;
        }
        false
    }

    /// Ends the probe because a timeout or recovery takes over.
    pub(crate) fn cancel(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probe_timeout_is_two_rtts_plus_ack_delay_for_a_single_segment() {
        let c = TailLossProbe {
            max_ack_delay: Duration::from_millis(25),
            ..TailLossProbe::default()
        };
        let rtt = Some(Duration::from_micros(280));
        let far = Duration::from_secs(9);
        assert_eq!(Tlp::timeout(c, rtt, false, far), Duration::from_micros(560));
        assert_eq!(
            Tlp::timeout(c, rtt, true, far),
            Duration::from_micros(25_560)
        );
        assert_eq!(
            Tlp::timeout(c, rtt, true, Duration::from_millis(5)),
            Duration::from_millis(5)
        );
        let floored = TailLossProbe {
            floor: Duration::from_millis(10),
            ..c
        };
        assert_eq!(
            Tlp::timeout(floored, rtt, false, far),
            Duration::from_millis(10)
        );
    }

    #[test]
    fn early_probe_waits_until_the_acknowledgement_is_overdue() {
        let ms = Duration::from_millis;
        let early = TailLossProbe {
            margin: Some(0.25),
            ..TailLossProbe::default()
        };
        let after = |config, sent_ago| Tlp::early_timeout(config, Some(ms(40)), ms(sent_ago));
        assert_eq!(after(early, 0), Some(ms(50)));
        assert_eq!(after(early, 30), Some(ms(20)));
        assert_eq!(
            after(early, 90),
            Some(ms(10)),
            "other acknowledgements arrive"
        );
        let delayed = TailLossProbe {
            max_ack_delay: ms(25),
            ..early
        };
        assert_eq!(after(delayed, 30), Some(ms(45)));
        let floored = TailLossProbe {
            floor: ms(30),
            ..early
        };
        assert_eq!(after(floored, 90), Some(ms(30)));
        assert_eq!(after(TailLossProbe::default(), 0), None, "no margin");
        assert_eq!(
            Tlp::early_timeout(early, None, ms(0)),
            None,
            "no RTT is known"
        );
    }

    #[test]
    fn only_one_probe_is_sent_per_episode() {
        let mut t = Tlp::default();
        t.on_probe(SubflowPosition(100), true);
        assert!(!t.may_arm());
        assert!(!t.on_ack(SubflowPosition(50), false));
        assert!(
            t.on_ack(SubflowPosition(100), false),
            "the probe filled the hole"
        );
        assert!(t.may_arm());
        t.on_probe(SubflowPosition(200), true);
        assert!(
            !t.on_ack(SubflowPosition(200), true),
            "a D-SACK reports that the original had arrived"
        );
    }
}

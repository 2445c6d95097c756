//! HyStart++ (RFC 9406): leaves slow start when the round-trip time grows, before a loss occurs.

use spindle_units::Duration;

use super::AckSample;
use crate::types::SubflowPosition;

/// Bounds of the delay increase that ends slow start (RFC 9406, section 4.3).
const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
/// The delay increase as a share of the last round's minimum (RFC 9406, section 4.3).
const MIN_RTT_DIVISOR: u64 = 8;
/// Number of samples that a round needs before it is evaluated (RFC 9406, section 4.3).
pub(super) const N_RTT_SAMPLE: u32 = 8;
/// Factor by which Conservative Slow Start grows more slowly (RFC 9406, section 4.3).
pub(super) const CSS_GROWTH_DIVISOR: u64 = 4;
/// Rounds of Conservative Slow Start before congestion avoidance (RFC 9406, section 4.3).
const CSS_ROUNDS: u32 = 5;
/// L in segments for a sender that does not pace (RFC 9406, section 4.3).
pub(super) const L: u64 = 8;

/// RttThresh: the delay increase over `base` that counts (RFC 9406, section 4.2).
pub(super) fn delay_threshold(base: Duration) -> Duration {
    (base / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH)
}

/// Conservative Slow Start.
#[derive(Clone, Copy, Debug)]
struct Css {
    /// cssBaselineMinRtt.
    baseline: Duration,
    /// Rounds finished in Conservative Slow Start, including the round in which it began.
    rounds: u32,
}

/// The state of RFC 9406, section 4.2, for one slow start.
#[derive(Clone, Debug, Default)]
pub(super) struct HyStart {
    round: Round,
    css: Option<Css>,
}

/// A round (RFC 9406, section 4.2): as long as a window of data takes to be acknowledged.
#[derive(Clone, Debug, Default)]
pub(super) struct Round {
    /// windowEnd: the round ends when this byte is acknowledged.
    end: Option<SubflowPosition>,
    /// lastRoundMinRTT. `None` represents infinity.
    pub(super) last_min: Option<Duration>,
    /// currentRoundMinRTT. `None` represents infinity.
    pub(super) current_min: Option<Duration>,
    /// rttSampleCount.
    pub(super) samples: u32,
}

impl Round {
    /// Counts an acknowledgement in this round. Returns whether it is the last one.
    pub(super) fn on_ack(&mut self, s: &AckSample) -> bool {
        let end = *self.end.get_or_insert(s.next);
        if let Some(rtt) = s.rtt {
            self.on_rtt(rtt);
        }
        s.acked_to >= end
    }

    /// Counts a round-trip time.
    pub(super) fn on_rtt(&mut self, rtt: Duration) {
        self.current_min = Some(self.current_min.map_or(rtt, |min| min.min(rtt)));
        self.samples = self.samples.saturating_add(1);
    }

    /// Begins the next round, which ends when the byte `next` is acknowledged.
    pub(super) fn begin_next(&mut self, next: SubflowPosition) {
        self.end = Some(next);
        self.last_min = self.current_min.take();
        self.samples = 0;
    }
}

impl HyStart {
    /// The divisor for slow-start growth.
    pub(super) fn divisor(&self) -> u64 {
        if self.css.is_some() {
            CSS_GROWTH_DIVISOR
        } else {
            1
        }
    }

    /// Processes an acknowledgement. Returns true if slow start ends.
    pub(super) fn on_ack(&mut self, s: &AckSample) -> bool {
        let over = self.round.on_ack(s);
        self.judge();
        over && self.end_round(s.next)
    }

    /// Enters Conservative Slow Start if the delay has grown. Leaves it if the delay has shrunk.
    fn judge(&mut self) {
        let (Some(current), true) = (self.round.current_min, self.round.samples >= N_RTT_SAMPLE)
        else {
            return;
        };
        if let Some(css) = self.css {
            if current < css.baseline {
                self.css = None;
            }
        } else if let Some(last) = self.round.last_min
            && current >= last + delay_threshold(last)
        {
            self.css = Some(Css {
                baseline: current,
                rounds: 0,
            });
        }
    }

    fn end_round(&mut self, next: SubflowPosition) -> bool {
        self.round.begin_next(next);
        let Some(css) = &mut self.css else {
            return false;
        };
        css.rounds += 1;
        css.rounds >= CSS_ROUNDS
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    /// Processes eight acknowledgements of one round with this round-trip time. Returns whether slow start
    /// ended.
    fn round(h: &mut HyStart, number: &mut u64, ms: u64) -> bool {
        let mut over = false;
        for i in 1..=8 {
            let mut s = sample(1000);
            s.rtt = Some(Duration::from_millis(ms));
            s.acked_to = SubflowPosition(*number * 8000 + i * 1000);
            s.next = SubflowPosition((*number + 1 + i / 8) * 8000);
            over |= h.on_ack(&s);
        }
        *number += 1;
        over
    }

    fn after(rounds: &[u64]) -> (HyStart, u64, bool) {
        let (mut h, mut n, mut over) = (HyStart::default(), 0, false);
        for ms in rounds {
            over = round(&mut h, &mut n, *ms);
        }
        (h, n, over)
    }

    #[test]
    fn delay_increase_starts_css_and_five_css_rounds_end_slow_start() {
        // 100 ms / 8 = 12.5 ms is the threshold.
        assert_eq!(after(&[100, 100, 112]).0.divisor(), 1);
        let (mut h, mut n, over) = after(&[100, 100, 113]);
        assert_eq!((h.divisor(), over), (CSS_GROWTH_DIVISOR, false));
        let ends: Vec<bool> = (0..4).map(|_| round(&mut h, &mut n, 113)).collect();
        assert_eq!(
            ends.iter().filter(|e| **e).count(),
            1,
            "after the fifth round: {ends:?}"
        );
    }

    #[test]
    fn delay_decrease_in_css_resumes_slow_start() {
        let (mut h, mut n, _) = after(&[100, 100, 120]);
        assert_eq!(h.divisor(), CSS_GROWTH_DIVISOR);
        assert!(!round(&mut h, &mut n, 119));
        assert!(!round(&mut h, &mut n, 119));
        assert_eq!(h.divisor(), 1);
    }

    #[test]
    fn delay_threshold_is_between_4_ms_and_16_ms() {
        // At 1 ms an eighth would be 125 us, but 4 ms are needed.
        assert_eq!(after(&[1, 1, 4]).0.divisor(), 1);
        assert_eq!(after(&[1, 1, 5]).0.divisor(), CSS_GROWTH_DIVISOR);
        // At 800 ms an eighth would be 100 ms, but 16 ms are enough.
        assert_eq!(after(&[800, 800, 815]).0.divisor(), 1);
        assert_eq!(after(&[800, 800, 816]).0.divisor(), CSS_GROWTH_DIVISOR);
    }

    #[test]
    fn fewer_than_eight_samples_do_not_start_css() {
        let (mut h, n, _) = after(&[100, 100]);
        for i in 1..8 {
            let mut s = sample(1000);
            s.rtt = Some(Duration::from_millis(500));
            s.acked_to = SubflowPosition(n * 8000 + i);
            s.next = s.acked_to + 8000;
            assert!(!h.on_ack(&s));
        }
        assert_eq!(h.divisor(), 1);
    }
}

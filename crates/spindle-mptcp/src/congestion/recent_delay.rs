//! Leaves slow start if the round-trip time grows within a round, in two rounds in a row.
//!
//! HyStart++ (RFC 9406) compares the smallest round-trip times of whole rounds. The smallest is that of the
//! round's first segments, and it grows only if the round before left a queue. A round leaves none until the
//! window exceeds the bandwidth-delay product, and the window doubles before the next round shows it. If the
//! queue holds one round trip of data, it has overflowed by then, and half of a window is lost. Here the
//! smallest of the *latest* eight samples counts, which grows while the queue grows.
//!
//! A delay that grew for another reason must not end slow start, because CUBIC would then need seconds to reach
//! the path's capacity. So the first round with a delay only slows the growth down to a quarter, as in
//! Conservative Slow Start (RFC 9406, section 4.2). If the delay returns in the next round, slow start ends. If
//! not, it continues.

use spindle_units::Duration;

use super::AckSample;
use super::hystart::{CSS_GROWTH_DIVISOR, N_RTT_SAMPLE, Round, delay_threshold};
use crate::types::SubflowPosition;

/// Number of latest samples whose minimum counts.
const RECENT: usize = N_RTT_SAMPLE as usize;

/// The state for one slow start.
#[derive(Clone, Debug, Default)]
pub(super) struct RecentDelay {
    round: Round,
    /// The latest samples of this round.
    recent: [Duration; RECENT],
    /// The delay has grown in this round.
    delayed: bool,
    /// The delay grew in the last round, compared with this round-trip time.
    baseline: Option<Duration>,
}

impl RecentDelay {
    /// The divisor for slow-start growth.
    pub(super) fn divisor(&self) -> u64 {
        if self.delayed || self.baseline.is_some() {
            CSS_GROWTH_DIVISOR
        } else {
            1
        }
    }

    /// Processes an acknowledgement. Returns true if slow start ends.
    pub(super) fn on_ack(&mut self, s: &AckSample) -> bool {
        if let Some(rtt) = s.rtt {
            self.recent[self.round.samples as usize % RECENT] = rtt;
        }
        let over = self.round.on_ack(s);
        self.delayed |= self.delay_has_grown();
        let ends = self.delayed && self.baseline.is_some();
        if over {
            self.end_round(s.next);
        }
        ends
    }

    /// Whether the latest samples all exceed the last round's minimum by the threshold.
    fn delay_has_grown(&self) -> bool {
        let Some(base) = self.baseline.or(self.round.last_min) else {
            return false;
        };
        let least = self.recent.iter().min().copied().unwrap_or_default();
        self.round.samples >= N_RTT_SAMPLE && least >= base + delay_threshold(base)
    }

    fn end_round(&mut self, next: SubflowPosition) {
        let compared_with = self.baseline.or(self.round.last_min);
        self.baseline = compared_with.filter(|_| self.delayed);
        self.round.begin_next(next);
        self.delayed = false;
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    /// Processes the acknowledgements of one round with these round-trip times in milliseconds. All rounds of a
    /// test have the same number. Returns whether slow start ended.
    fn round(d: &mut RecentDelay, number: &mut SubflowPosition, rtts: &[u64]) -> bool {
        let mut over = false;
        let n = rtts.len() as u64;
        for (i, ms) in (1..).zip(rtts) {
            let mut s = sample(1000);
            s.rtt = Some(Duration::from_millis(*ms));
            s.acked_to = *number + i * 1000;
            s.next = *number + (n + i / n * n) * 1000;
            over |= d.on_ack(&s);
        }
        *number += n * 1000;
        over
    }

    /// A round whose queue grows from its first segment to its last.
    fn growing() -> Vec<u64> {
        (100..132).collect()
    }

    #[test]
    fn queue_that_grows_within_two_rounds_ends_slow_start() {
        let (mut d, mut n) = (RecentDelay::default(), SubflowPosition::SYN);
        assert!(!round(&mut d, &mut n, &[100; 32]));
        assert!(!round(&mut d, &mut n, &growing()));
        assert_eq!(d.divisor(), CSS_GROWTH_DIVISOR);
        assert!(round(&mut d, &mut n, &growing()));
    }

    #[test]
    fn growth_slows_down_as_soon_as_eight_samples_exceed_the_threshold() {
        let (mut d, mut n) = (RecentDelay::default(), SubflowPosition::SYN);
        round(&mut d, &mut n, &[100; 32]);
        // 100 ms / 8 = 12.5 ms is the threshold. The round has more acknowledgements than are processed here.
        for (i, ms) in (1..).zip([100, 120, 120, 120, 120, 120, 120, 120]) {
            let mut s = sample(1000);
            s.rtt = Some(Duration::from_millis(ms));
            s.acked_to = n + i;
            s.next = n + 100_000;
            assert!(!d.on_ack(&s));
        }
        assert_eq!(d.divisor(), 1, "one sample is as small as before");
        let mut s = sample(1000);
        s.rtt = Some(Duration::from_millis(113));
        s.acked_to = n + 9;
        assert!(!d.on_ack(&s));
        assert_eq!(d.divisor(), CSS_GROWTH_DIVISOR);
    }

    #[test]
    fn delay_that_does_not_return_in_the_next_round_lets_slow_start_continue() {
        let (mut d, mut n) = (RecentDelay::default(), SubflowPosition::SYN);
        for _ in 0..10 {
            assert!(!round(&mut d, &mut n, &[100; 32]));
            assert!(!round(&mut d, &mut n, &growing()));
            assert!(!round(&mut d, &mut n, &[105; 32]));
            assert_eq!(d.divisor(), 1);
        }
    }

    #[test]
    fn rounds_of_fewer_than_eight_samples_do_not_end_slow_start() {
        let (mut d, mut n) = (RecentDelay::default(), SubflowPosition::SYN);
        round(&mut d, &mut n, &[100; 7]);
        for _ in 0..10 {
            assert!(!round(&mut d, &mut n, &[500; 7]));
        }
    }
}

//! HyStart (Ha and Rhee 2008, "Hybrid Slow Start for High-Bandwidth and Long-Distance Networks") as CUBIC had it in
//! Linux 3.18 (`hystart_update`): leaves slow start if a train of acknowledgements lasts as long as half of the
//! round-trip time, or if the round-trip time grows.
//!
//! The clock counts milliseconds, as that of Linux 3.18 (`bictcp_clock`). In a network whose round-trip time is below
//! a millisecond, a train therefore ends slow start as soon as it extends into the next millisecond.

use spindle_units::{Duration, Instant};

use super::AckSample;
use super::hystart::N_RTT_SAMPLE;
use crate::types::SubflowPosition;

/// Smallest cwnd in segments at which slow start may end (Linux `hystart_low_window`).
const LOW_WINDOW: u64 = 16;
/// Longest time in milliseconds between two acknowledgements of a train (Linux `hystart_ack_delta`).
const ACK_DELTA: u64 = 2;
/// Bounds of the delay increase that ends slow start (Linux `HYSTART_DELAY_MIN`, `HYSTART_DELAY_MAX`).
const DELAY_MIN: Duration = Duration::from_millis(4);
const DELAY_MAX: Duration = Duration::from_millis(16);
/// The delay increase as a share of the smallest round-trip time (Linux `HYSTART_DELAY_THRESH`).
const DELAY_DIVISOR: u64 = 8;
/// Round-trip times are measured in this unit and are at least one unit (Linux `bictcp_acked`).
const RTT_UNIT: Duration = Duration::from_micros(125);

/// The state for one slow start.
#[derive(Clone, Debug, Default)]
pub(super) struct ClassicHyStart {
    round: Option<Round>,
    /// The smallest round-trip time of the connection.
    least: Option<Duration>,
}

/// A round: as long as a window of data takes to be acknowledged.
#[derive(Clone, Copy, Debug)]
struct Round {
    /// When it began, in milliseconds.
    start: u64,
    /// When the last acknowledgement of the train arrived, in milliseconds.
    last_ack: u64,
    /// The next round begins with an acknowledgement beyond this byte.
    end: SubflowPosition,
    /// The smallest of the first samples.
    least: Option<Duration>,
    /// Number of samples that `least` includes.
    samples: u32,
}

impl Round {
    fn new(now: Instant, end: SubflowPosition) -> Self {
        Self {
            start: now.as_millis(),
            last_ack: now.as_millis(),
            end,
            least: None,
            samples: 0,
        }
    }

    /// Whether the acknowledgement extends the train beyond half of the smallest round-trip time.
    fn is_long_train(&mut self, now: Instant, least: Duration) -> bool {
        let now = now.as_millis();
        if now.saturating_sub(self.last_ack) > ACK_DELTA {
            return false;
        }
        self.last_ack = now;
        now.saturating_sub(self.start) > (least / 2).as_millis()
    }

    /// Whether the first samples of the round all exceed the smallest round-trip time by the threshold.
    fn is_delayed(&mut self, rtt: Duration, least: Duration) -> bool {
        if self.samples < N_RTT_SAMPLE {
            self.least = Some(self.least.map_or(rtt, |l| l.min(rtt)));
            self.samples += 1;
            return false;
        }
        let threshold = (least / DELAY_DIVISOR).clamp(DELAY_MIN, DELAY_MAX);
        self.least.is_some_and(|l| l > least + threshold)
    }
}

impl ClassicHyStart {
    /// Processes an acknowledgement that arrived at a cwnd of `segments`. Returns true if slow start ends.
    pub(super) fn on_ack(&mut self, s: &AckSample, segments: u64) -> bool {
        let mut round = self.round.unwrap_or_else(|| Round::new(s.now, s.next));
        let mut ends = false;
        if let Some(rtt) = s.rtt {
            let units = (rtt.as_nanos() / RTT_UNIT.as_nanos()).max(1);
            let rtt = Duration::from_nanos(units.saturating_mul(RTT_UNIT.as_nanos()));
            let least = self.least.map_or(rtt, |l| l.min(rtt));
            self.least = Some(least);
            if segments >= LOW_WINDOW {
                ends = round.is_long_train(s.now, least);
                ends |= round.is_delayed(rtt, least);
            }
        }
        if s.acked_to > round.end {
            round = Round::new(s.now, s.next);
        }
        self.round = Some(round);
        ends
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    /// An acknowledgement at this time in microseconds, with a round-trip time in microseconds. It acknowledges
    /// up to `acked_to`, and 100 000 bytes beyond are in flight.
    fn ack(us: u64, rtt: u64, acked_to: u64) -> AckSample {
        AckSample {
            now: Instant::ZERO + Duration::from_micros(us),
            rtt: Some(Duration::from_micros(rtt)),
            acked_to: SubflowPosition(acked_to),
            next: SubflowPosition(acked_to + 100_000),
            ..sample(1000)
        }
    }

    /// The first acknowledgement of a train, in milliseconds after the first, that ends slow start. The
    /// acknowledgements are `gap` apart.
    fn train(gap: u64, rtt: u64, segments: u64) -> Option<u64> {
        let mut h = ClassicHyStart::default();
        let first = (0..100).find(|n| h.on_ack(&ack(n * gap * 1000, rtt * 1000, *n), segments));
        first.map(|n| n * gap)
    }

    #[test]
    fn ack_train_longer_than_half_of_the_rtt_ends_slow_start() {
        assert_eq!(train(1, 60, 16), Some(31));
        assert_eq!(train(2, 60, 16), Some(32));
    }

    #[test]
    fn acks_more_than_2_ms_apart_are_no_train() {
        assert_eq!(train(3, 60, 16), None);
    }

    #[test]
    fn cwnd_below_16_segments_does_not_end_slow_start() {
        assert_eq!(train(1, 60, 15), None);
    }

    #[test]
    fn ack_train_into_the_next_millisecond_ends_slow_start_at_an_rtt_below_1_ms() {
        let mut h = ClassicHyStart::default();
        assert!(!h.on_ack(&ack(900, 280, 1), 16));
        assert!(!h.on_ack(&ack(990, 280, 2), 16));
        assert!(h.on_ack(&ack(1010, 280, 3), 16));
    }

    /// Processes rounds of nine acknowledgements, 3 ms apart, with these round-trip times in milliseconds. Returns
    /// the number of the round that ends slow start, from 0 on.
    fn round_of_exit(rtts: &[u64]) -> Option<usize> {
        const ROUND: u64 = 1_000_000;
        let mut h = ClassicHyStart::default();
        let mut us = 0;
        let mut round = |base: u64, rtt: u64| {
            let mut over = false;
            for n in 1..=9 {
                us += 3000;
                let last = u64::from(n == 9);
                let mut s = ack(us, rtt * 1000, base + n + last * ROUND / 2);
                s.next = SubflowPosition(base + ROUND / 2 + last * ROUND);
                over |= h.on_ack(&s, 100);
            }
            over
        };
        let mut rounds = (0..).zip(rtts);
        rounds.position(|(n, rtt)| round(n * ROUND, *rtt))
    }

    #[test]
    fn eight_samples_above_the_least_rtt_by_an_eighth_end_slow_start() {
        // 100 ms / 8 = 12.5 ms.
        assert_eq!(round_of_exit(&[100, 112, 112]), None);
        assert_eq!(round_of_exit(&[100, 112, 113]), Some(2));
    }

    #[test]
    fn delay_increase_is_at_least_4_ms_and_at_most_16_ms() {
        assert_eq!(round_of_exit(&[10, 14]), None);
        assert_eq!(round_of_exit(&[10, 15]), Some(1));
        assert_eq!(round_of_exit(&[800, 816]), None);
        assert_eq!(round_of_exit(&[800, 817]), Some(1));
    }
}

//! Pacing: segments are sent at a rate somewhat above cwnd per round trip, not all at once.
//!
//! There is one mechanism: each transmission delays the time of the next one by its length divided by the rate.
//! A sender that is late (its window was full, its clock ticks coarsely, or it had nothing to send) may catch up by at
//! most ten segments, or one quantum if that is more.

use spindle_units::{Duration, Instant};

/// The rate in percent of cwnd per smoothed RTT while cwnd is below half of ssthresh, and after that (Linux
/// `tcp_pacing_ss_ratio` and `tcp_pacing_ca_ratio`). Slow start doubles the window in a round trip.
const SLOW_START_PERCENT: u64 = 200;
const AVOIDANCE_PERCENT: u64 = 120;
/// A quantum is the number of bytes that the rate allows in this time (Linux `tcp_tso_autosize`: `pacing_shift`
/// 10, about a millisecond).
const QUANTUM: Duration = Duration::from_millis(1);
/// A quantum is at least two segments and at most one burst.
const LEAST_SEGMENTS: u64 = 2;
const MOST_BYTES: u64 = 64 << 10;
/// The first segments of a connection are not paced, because no useful rate is known yet (Linux
/// `tcp_update_skb_after_send`: ten).
const UNPACED_SEGMENTS: u64 = 10;
/// The segments that may be sent at once after a pause: an initial window (RFC 9002, section 7.7). In slow start the
/// acknowledgements of a flight arrive together, and the last flight of a short response leaves after them. A path
/// that bore the initial window bears these segments as well, so the response need not wait for the pacer.
const CATCH_UP_SEGMENTS: u64 = 10;

/// The values that determine the rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct PacingInput {
    pub(super) cwnd: u64,
    pub(super) ssthresh: u64,
    pub(super) srtt: Option<Duration>,
    pub(super) mss: u64,
    /// Segments sent so far.
    pub(super) sent: u64,
    /// The upper estimate of the slowest link's rate in bytes per second, if it is known and the first flight is a remembered
    /// window.
    pub(super) remembered_rate: Option<u64>,
}

impl PacingInput {
    /// The rate in bytes per second, once the round-trip time is known.
    pub(super) fn bytes_per_second(&self) -> Option<u64> {
        let srtt = self.srtt.filter(|s| !s.is_zero())?.as_nanos();
        let percent = if self.cwnd < self.ssthresh / 2 {
            SLOW_START_PERCENT
        } else {
            AVOIDANCE_PERCENT
        };
        let scaled = u128::from(self.cwnd) * u128::from(percent) * 10_000_000;
        Some(((scaled / u128::from(srtt)) as u64).max(1))
    }

    /// The rate in bytes per second, and the number of bytes that may be sent at once. `None` if pacing does
    /// not apply, for example if the window takes no longer than [`QUANTUM`]. A remembered window is sent at the
    /// rate of the slowest link, where it makes no queue by itself: it need not take half of a round trip. If that rate is
    /// too high, the queue is a part of a window that the path carried before; if it is too low, every response waits.
    fn rate(&self) -> Option<(u64, u64)> {
        let rate = self
            .bytes_per_second()?
            .max(self.remembered_rate.unwrap_or(0));
        if self.sent < UNPACED_SEGMENTS {
            return None;
        }
        let per_quantum =
            (u128::from(rate) * u128::from(QUANTUM.as_nanos()) / 1_000_000_000) as u64;
        let least = LEAST_SEGMENTS * self.mss;
        let quantum = per_quantum.clamp(least, MOST_BYTES.max(least));
        (per_quantum < self.cwnd).then_some((rate, quantum))
    }
}

/// Time that `bytes` take at `rate` bytes per second.
fn time_for(bytes: u64, rate: u64) -> Duration {
    let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// The pacer of a subflow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pacer {
    /// The earliest time at which the next segment may be sent.
    next: Instant,
    /// A segment waits for that time.
    waiting: bool,
}

impl Pacer {
    /// Whether a segment may be sent now. If not, [`Self::deadline`] returns when it may.
    pub(super) fn may_send(&mut self, now: Instant, input: &PacingInput) -> bool {
        self.waiting = input.rate().is_some() && now < self.next;
        !self.waiting
    }

    /// The number of bytes that may be sent at once.
    pub(super) fn quantum(&self, input: &PacingInput) -> u64 {
        input.rate().map_or(u64::MAX, |(_, quantum)| quantum)
    }

    /// `bytes` were sent.
    pub(super) fn on_sent(&mut self, now: Instant, bytes: u64, input: &PacingInput) {
        let Some((rate, quantum)) = input.rate() else {
            return;
        };
        let credit = quantum.max(CATCH_UP_SEGMENTS * input.mss);
        let late = now.since(self.next).min(time_for(credit, rate));
        let from = Instant::from_nanos(now.as_nanos() - late.as_nanos().min(now.as_nanos()));
        self.next = self.next.max(from) + time_for(bytes, rate);
    }

    /// When the waiting segment may be sent.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.waiting.then_some(self.next)
    }

    /// The deadline has passed, and the sender must try again.
    pub(super) fn on_deadline(&mut self) {
        self.waiting = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(cwnd: u64, ssthresh: u64) -> PacingInput {
        PacingInput {
            cwnd,
            ssthresh,
            srtt: Some(Duration::from_millis(100)),
            mss: 1000,
            sent: 100,
            remembered_rate: None,
        }
    }

    fn ms(n: u64) -> Instant {
        Instant::from_nanos(1_000_000_000 + n * 1_000_000)
    }

    #[test]
    fn pacing_rate_is_200_percent_of_cwnd_per_rtt_in_slow_start_and_120_percent_later() {
        assert_eq!(input(100_000, u64::MAX).rate(), Some((2_000_000, 2000)));
        assert_eq!(input(100_000, 150_000).rate(), Some((1_200_000, 2000)));
        assert_eq!(input(10_000_000, 1).rate(), Some((120_000_000, 65_536)));
        let unmeasured = PacingInput {
            srtt: None,
            ..input(100_000, 1)
        };
        assert_eq!(unmeasured.rate(), None);
        let first = PacingInput {
            sent: 9,
            ..input(100_000, 1)
        };
        assert_eq!(first.rate(), None);
        let near = PacingInput {
            srtt: Some(Duration::from_millis(1)),
            ..input(100_000, 1)
        };
        assert_eq!(near.rate(), None, "a window fits within a millisecond");
        for (remembered, rate) in [(1_000_000, 2_000_000), (5_000_000, 5_000_000)] {
            let known = PacingInput {
                remembered_rate: Some(remembered),
                ..input(100_000, u64::MAX)
            };
            assert_eq!(known.rate(), Some((rate, rate / 1000)));
        }
    }

    #[test]
    fn paced_segments_are_sent_at_the_pacing_rate() {
        let i = input(100_000, 1);
        let mut p = Pacer::default();
        let (mut now, mut sent) = (ms(0), 0);
        while sent < 120_000 {
            if p.may_send(now, &i) {
                p.on_sent(now, 1000, &i);
                sent += 1000;
            } else {
                now = p.deadline().expect("it waits");
                p.on_deadline();
            }
        }
        // 1.2 windows per round trip, minus the ten segments sent at once and the last segment, after which no
        // segment waits.
        let took = now.since(ms(0)).as_micros();
        assert!((90_832..=90_834).contains(&took), "{took} us");
    }

    #[test]
    fn late_sender_catches_up_by_at_most_ten_segments() {
        let i = input(100_000, 1);
        let mut p = Pacer::default();
        p.on_sent(ms(0), 1000, &i);
        let late = ms(500);
        let mut at_once = 0;
        while p.may_send(late, &i) {
            p.on_sent(late, 1000, &i);
            at_once += 1;
        }
        assert_eq!(at_once, 11, "ten segments and the due one");
    }
}

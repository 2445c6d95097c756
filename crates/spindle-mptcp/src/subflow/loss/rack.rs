//! RACK: loss detection by time (RFC 8985, section 6).

use spindle_units::{Duration, Instant};

use crate::subflow::scoreboard::{Acked, Scoreboard, SentOrder};
use crate::types::SubflowPosition;

/// RACK's per-subflow state.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rack {
    /// Send time and end of the most recently sent segment that was delivered.
    newest: Option<SentOrder>,
    rtt: Duration,
    /// Highest position delivered so far.
    fack: SubflowPosition,
    reordering_seen: bool,
    /// Multiplier of min_RTT/4 (RFC 8985, section 6.2, step 4).
    multiplier: u64,
    /// Number of recoveries for which the enlarged window is kept (16 in that step).
    persist: u32,
    /// End of the round in which a D-SACK last enlarged the window.
    dsack_round: SubflowPosition,
}

impl Rack {
    /// Steps 1 to 3: processes the segments that an acknowledgement delivered.
    pub(crate) fn on_delivered(
        &mut self,
        now: Instant,
        acked: &Acked,
        min_rtt: Option<Duration>,
        una: SubflowPosition,
    ) {
        let Some((sent_at, end, repeated)) = acked.newest else {
            return;
        };
        let rtt = now.since(sent_at);
        // A retransmission that is acknowledged faster than any RTT shows that the original arrived.
        if repeated && min_rtt.is_some_and(|m| rtt < m) {
            return;
        }
        if self.newest.is_none_or(|n| n < (sent_at, end)) {
            self.newest = Some((sent_at, end));
            self.rtt = rtt;
        }
        if acked.original && !repeated && end < self.fack {
            self.reordering_seen = true;
        }
        self.fack = self.fack.max(end).max(una);
    }

    /// A D-SACK shows that the window was too small. Enlarges it, at most once per round.
    pub(crate) fn on_dsack(&mut self, una: SubflowPosition, next: SubflowPosition) {
        if una >= self.dsack_round {
            self.dsack_round = next;
            self.multiplier += 1;
            self.persist = 16;
        }
    }

    /// Recovery ended.
    pub(crate) fn on_recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.multiplier = 0;
        }
    }

    fn reordering_window(
        &self,
        settled: bool,
        min_rtt: Option<Duration>,
        srtt: Option<Duration>,
    ) -> Duration {
        if !self.reordering_seen && settled {
            return Duration::ZERO;
        }
        let base = min_rtt.unwrap_or(Duration::ZERO) / 4 * (self.multiplier + 1);
        base.min(srtt.unwrap_or(base))
    }

    /// Step 5: marks lost segments. Returns the newly marked bytes and when to check again. `settled` means in
    /// recovery, or enough segments are SACKed to reach the duplicate-ACK threshold.
    pub(crate) fn detect(
        &self,
        board: &mut Scoreboard,
        now: Instant,
        settled: bool,
        min_rtt: Option<Duration>,
        srtt: Option<Duration>,
    ) -> (u64, Option<Instant>) {
        let Some(newest) = self.newest else {
            return (0, None);
        };
        let window = self.reordering_window(settled, min_rtt, srtt);
        board.lose_older(newest, self.rtt + window, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subflow::scoreboard::Sent;
    use spindle_wire::Payload;

    fn board(n: u64) -> Scoreboard {
        let mut b = Scoreboard::default();
        for i in 0..n {
            let sent_at = Instant::from_nanos(i * 1000);
            let start = SubflowPosition::FIRST_BYTE + i * 1000;
            b.push(Sent::new(start, Payload::Length(1000), sent_at));
        }
        b
    }

    #[test]
    fn a_segment_sent_before_a_delivered_one_is_lost_after_rtt_and_window() {
        let mut b = board(3);
        let mut rack = Rack::default();
        let min = Some(Duration::from_micros(400));
        let acked = b.sack(SubflowPosition(2001), SubflowPosition(3001));
        let now = Instant::from_nanos(402_000);
        rack.on_delivered(now, &acked, min, SubflowPosition::FIRST_BYTE);
        let (lost, again) = rack.detect(&mut b, now, false, min, min);
        assert_eq!(lost, 0);
        // The later of the two segments: sent at 1 us + 400 us RTT + 100 us window.
        assert_eq!(again, Some(Instant::from_nanos(501_000)));
        let (lost, again) = rack.detect(&mut b, Instant::from_nanos(501_000), false, min, min);
        assert_eq!((lost, again), (2000, None));
        b.check();
    }
}

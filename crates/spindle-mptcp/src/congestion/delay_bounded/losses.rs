//! The share of segments that are lost in each round.

/// Weight of a round in the mean share of losses (our choice).
const LOSS_WEIGHT: f64 = 0.25;

/// The losses of each round.
///
/// In a round, the segments that are in flight at its beginning are acknowledged or found lost. During recovery, the
/// acknowledgement that ends the round may be late by some round trips, and later segments are found lost as well. So the
/// share is that of all bytes that arrived or were lost in the round, if these are more than the window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses {
    /// cwnd at the beginning of this round and of the one before. Zero if there was none.
    windows: [u64; 2],
    /// Bytes that had arrived, and losses counted, by the beginning of this round.
    before: (u64, u64),
    /// The mean share of segments lost in a round.
    pub(super) mean: f64,
    /// The share of segments lost in the last round.
    pub(super) last: f64,
}

impl Losses {
    /// An acknowledgement arrives while the window is `cwnd`. The first one begins the first round.
    pub(super) fn on_ack(&mut self, cwnd: u64) {
        if self.windows[0] == 0 {
            self.windows[0] = cwnd;
        }
    }

    /// A round has ended. `delivered` bytes arrived and `losses` segments were lost since the beginning of the connection.
    pub(super) fn end_round(&mut self, delivered: u64, losses: u64, mss: u64) {
        let arrived = delivered.saturating_sub(self.before.0);
        let lost = losses.saturating_sub(self.before.1).saturating_mul(mss);
        let all = arrived.saturating_add(lost).max(self.windows[0]).max(mss) as f64;
        self.last = lost as f64 / all;
        self.mean += LOSS_WEIGHT * (self.last - self.mean);
        self.before = (delivered, losses);
    }

    /// The next round begins with this window.
    pub(super) fn begin_next(&mut self, cwnd: u64) {
        self.windows = [cwnd, self.windows[0]];
    }

    /// At the end of a round: what arrived of its window, if the window was larger than the one before and most of the
    /// difference was lost, more than is lost on average. `None` in the first round.
    pub(super) fn lost_growth(&self) -> Option<u64> {
        let [sent, before] = self.windows;
        if before == 0 {
            return None;
        }
        let growth = sent.saturating_sub(before) as f64 / sent.max(1) as f64;
        let lost = self.last - self.mean > growth / 2.0;
        (growth > 0.0 && lost).then_some((sent as f64 * (1.0 - self.last)) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The end of the last of these rounds, which begin with so many segments in flight, and lose so many of them.
    fn rounds(rounds: &[(u64, u64)]) -> Losses {
        let (mut l, mut arrived, mut lost) = (Losses::default(), 0, 0);
        for (n, (window, losses)) in rounds.iter().enumerate() {
            match n {
                0 => l.on_ack(window * 1000),
                _ => l.begin_next(window * 1000),
            }
            lost += losses;
            arrived += (window - losses.min(window)) * 1000;
            l.end_round(arrived, lost, 1000);
        }
        l
    }

    #[test]
    fn losses_of_a_long_round_are_a_share_of_all_that_was_sent() {
        let mut l = Losses::default();
        l.on_ack(10_000);
        l.end_round(36_000, 4, 1000);
        assert_eq!(l.last, 0.1);
    }

    /// A loss in the first flight had counted as the loss of a whole window.
    #[test]
    fn losses_of_the_first_flight_are_a_share_of_the_initial_window() {
        let l = rounds(&[(10, 1)]);
        assert_eq!((l.last, l.lost_growth()), (0.1, None));
        assert!(l.mean < 0.1);
    }

    #[test]
    fn losses_of_a_round_are_a_share_of_the_window_at_its_beginning() {
        let l = rounds(&[(10, 1), (20, 5)]);
        assert_eq!(l.last, 0.25);
        assert!(l.mean > 0.05 && l.mean < 0.25);
        assert_eq!(rounds(&[(10, 99)]).last, 1.0, "at most all");
    }

    #[test]
    fn growth_is_lost_if_more_than_half_of_it_is() {
        // The window grew from 20 to 40 segments. A share of 1/4 is half of the growth.
        assert_eq!(rounds(&[(20, 0), (40, 10)]).lost_growth(), None);
        assert_eq!(rounds(&[(20, 0), (40, 14)]).lost_growth(), Some(26_000));
        assert_eq!(
            rounds(&[(40, 0), (40, 14)]).lost_growth(),
            None,
            "no growth"
        );
    }

    #[test]
    fn usual_losses_do_not_count_against_a_growth() {
        let mut usual = vec![(100, 10); 40];
        usual.push((110, 12));
        assert_eq!(rounds(&usual).lost_growth(), None);
        usual.pop();
        usual.push((110, 20));
        assert!(rounds(&usual).lost_growth().is_some());
    }
}

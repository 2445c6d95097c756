//! The share of segments that are lost in each round.

/// Weight of a round in the mean share of losses (our choice).
const LOSS_WEIGHT: f64 = 0.25;

/// The losses of the segments that were sent in one round.
///
/// In a round the segments of the round before are acknowledged or found lost.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses {
    /// cwnd at the beginning of this round, of the one before, and of the one before that.
    windows: [u64; 3],
    /// Losses counted by the beginning of this round.
    counted: u64,
    /// The mean share of segments lost in a round.
    pub(super) mean: f64,
    /// The share of segments lost in the round before this one.
    pub(super) last: f64,
}

impl Losses {
    /// The first flight is this window, and this share of segments is usually lost on the path. Without this, a loss in the
    /// first flight counts as that of a whole window.
    pub(super) fn expect(&mut self, share: f64, cwnd: u64) {
        self.windows = [cwnd, cwnd, 0];
        self.mean = share;
    }

    /// A round has ended, in which `losses` were counted since the beginning of the connection.
    pub(super) fn end_round(&mut self, losses: u64, mss: u64) {
        let sent = self.windows[1].max(mss) as f64;
        let lost = losses.saturating_sub(self.counted).saturating_mul(mss);
        self.last = (lost as f64 / sent).min(1.0);
        self.mean += LOSS_WEIGHT * (self.last - self.mean);
        self.counted = losses;
    }

    /// The next round begins with this window.
    pub(super) fn begin_round(&mut self, cwnd: u64) {
        self.windows = [cwnd, self.windows[0], self.windows[1]];
    }

    /// What arrived of a window, if the window was larger than the one before and most of the difference was lost, more
    /// than is lost on average.
    pub(super) fn lost_growth(&self) -> Option<u64> {
        let [_, sent, before] = self.windows;
        let growth = sent.saturating_sub(before) as f64 / sent.max(1) as f64;
        let lost = self.last - self.mean > growth / 2.0;
        (growth > 0.0 && lost).then_some((sent as f64 * (1.0 - self.last)) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds with these windows in segments, in which as many segments are found lost.
    fn rounds(rounds: &[(u64, u64)]) -> Losses {
        let (mut l, mut lost) = (Losses::default(), 0);
        for (window, losses) in rounds {
            l.begin_round(window * 1000);
            lost += losses;
            l.end_round(lost, 1000);
        }
        l
    }

    #[test]
    fn losses_of_a_round_are_a_share_of_the_window_before() {
        let l = rounds(&[(10, 0), (20, 1), (40, 5)]);
        assert_eq!(l.last, 0.25);
        assert!(l.mean > 0.05 && l.mean < 0.25);
        assert_eq!(rounds(&[(10, 0), (20, 99)]).last, 1.0, "at most all");
    }

    #[test]
    fn loss_in_the_first_flight_counts_as_a_window_unless_losses_are_expected() {
        let mut l = Losses::default();
        l.end_round(1, 1000);
        assert_eq!((l.last, l.mean), (1.0, 0.25));
        let mut l = Losses::default();
        l.expect(0.1, 20_000);
        l.end_round(2, 1000);
        assert_eq!((l.last, l.mean), (0.1, 0.1));
    }

    #[test]
    fn growth_is_lost_if_more_than_half_of_it_is() {
        // The window grew from 20 to 40 segments. A share of 1/4 is half of the growth.
        assert_eq!(rounds(&[(20, 0), (40, 0), (80, 10)]).lost_growth(), None);
        assert_eq!(
            rounds(&[(20, 0), (40, 0), (80, 14)]).lost_growth(),
            Some(26_000)
        );
        assert_eq!(
            rounds(&[(40, 0), (40, 0), (80, 14)]).lost_growth(),
            None,
            "no growth"
        );
    }

    #[test]
    fn usual_losses_do_not_count_against_a_growth() {
        let mut usual = vec![(100, 10); 40];
        usual.extend([(110, 10), (110, 12)]);
        assert_eq!(rounds(&usual).lost_growth(), None);
        usual.pop();
        usual.push((110, 20));
        assert!(rounds(&usual).lost_growth().is_some());
    }
}

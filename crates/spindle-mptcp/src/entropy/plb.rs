//! Protective Load Balancing.

use spindle_units::{Duration, Instant};

use super::{
    Entropy, EntropyFactory, EntropyParameters, EntropyView, Feedback, LabelStream, MarkedRounds,
};

/// Protective Load Balancing: another label after sustained congestion, if possible while nothing is in flight:
/// "plb". Needs ECN; DCTCP's exact echo gives the share of marks of each round.
///
/// Source: Qureshi et al., "PLB: Congestion Signals are Simple and Effective for Network Load Balancing", SIGCOMM
/// 2022. The values are those that Linux documents for `tcp_plb_*` (ip-sysctl, since Linux 6.2).
#[derive(Clone, Copy, Debug)]
pub struct Plb {
    /// A round is congested if at least this share of its segments was marked, in percent (K; Linux
    /// `tcp_plb_cong_thresh`, 128 of 256).
    pub congested_percent: u64,
    /// Consecutive congested rounds after which the label changes while nothing is in flight (M; Linux
    /// `tcp_plb_idle_rehash_rounds`).
    pub idle_rounds: u32,
    /// Consecutive congested rounds after which the label changes in any case (N; Linux `tcp_plb_rehash_rounds`).
    pub rounds: u32,
    /// After a retransmission timeout, congestion does not change the label for a random time of once to twice
    /// this duration, so that PLB does not return to a path that has failed (Linux `tcp_plb_suspend_rto_sec`).
    pub suspension: Duration,
}

impl Default for Plb {
    fn default() -> Self {
        Self {
            congested_percent: 50,
            idle_rounds: 3,
            rounds: 12,
            suspension: Duration::from_secs(60),
        }
    }
}

impl EntropyFactory for Plb {
    fn name(&self) -> &str {
        "plb"
    }

    fn summary(&self) -> &str {
        "PLB: another flow label after 3 congested rounds if nothing is in flight, after 12 in any case, and after each timeout (Qureshi et al. 2022; Linux tcp_plb)"
    }

    fn build(&self, p: &EntropyParameters) -> Box<dyn Entropy> {
        let mut labels = LabelStream::new(p.seed);
        let label = labels.draw();
        Box::new(PlbPolicy {
            settings: *self,
            labels,
            label,
            rounds: MarkedRounds::default(),
            congested: 0,
            suspended_until: Instant::ZERO,
        })
    }
}

#[derive(Debug)]
struct PlbPolicy {
    settings: Plb,
    labels: LabelStream,
    label: u32,
    rounds: MarkedRounds,
    /// Consecutive congested rounds, at most the number that changes the label in any case.
    congested: u32,
    suspended_until: Instant,
}

impl PlbPolicy {
    fn on_acknowledged(&mut self, view: &EntropyView, marked: bool) {
        if let Some(round) = self.rounds.on_acknowledged(view, marked) {
            self.congested = match round.reaches(self.settings.congested_percent) {
                true => (self.congested + 1).min(self.settings.rounds),
                false => 0,
            };
        }
        let idle = view.is_idle() && self.congested >= self.settings.idle_rounds;
        let due = idle || self.congested >= self.settings.rounds;
        if due && view.now >= self.suspended_until {
            self.label = self.labels.draw();
            self.congested = 0;
        }
    }

    /// The path may have failed: takes another, and stays on it for some time (Linux: `tcp_write_timeout` with
    /// `tcp_plb_update_state_upon_rto`).
    fn on_timeout(&mut self, now: Instant) {
        self.label = self.labels.draw();
        self.congested = 0;
        let once = self.settings.suspension;
        let more = self.labels.below(once.as_nanos().max(1));
        self.suspended_until = now + once + Duration::from_nanos(more);
    }
}

impl Entropy for PlbPolicy {
    fn next(&mut self, _: &EntropyView) -> u32 {
        self.label
    }

    fn feedback(&mut self, view: &EntropyView, _: u32, feedback: Feedback) {
        match feedback {
            Feedback::Acknowledged => self.on_acknowledged(view, false),
            Feedback::Marked => self.on_acknowledged(view, true),
            Feedback::Timeout | Feedback::SynTimeout => self.on_timeout(view.now),
            Feedback::Lost | Feedback::DuplicateSyn | Feedback::DuplicateData { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{policy, view};
    use super::*;

    /// Acknowledges rounds of 10 segments of 100 bytes, of which the first `marked` are marked. A window of 1000 bytes
    /// is in flight all the time, or with `idle` nothing at the end of each round. Returns the round in which the label
    /// changed first.
    fn first_change(p: &mut dyn Entropy, from: u64, marked: u64, idle: bool) -> Option<u64> {
        let label = p.next(&view(from, 1, 1));
        (from..from + 20).find(|round| {
            for segment in 0..10 {
                let acked_to = 1 + round * 1000 + (segment + 1) * 100;
                let sent_to = match idle {
                    true => 1 + (round + 1) * 1000,
                    false => acked_to + 1000,
                };
                let feedback = match segment < marked {
                    true => Feedback::Marked,
                    false => Feedback::Acknowledged,
                };
                p.feedback(&view(*round, acked_to, sent_to), label, feedback);
            }
            p.next(&view(*round, 1, 1)) != label
        })
    }

    #[test]
    fn plb_changes_the_label_after_twelve_congested_rounds() {
        let mut p = policy(&Plb::default());
        let changed = first_change(p.as_mut(), 0, 6, false).expect("it changes");
        assert!((12..=15).contains(&changed), "{changed}");
        let mut p = policy(&Plb::default());
        assert_eq!(first_change(p.as_mut(), 0, 4, false), None);
    }

    #[test]
    fn plb_changes_the_label_after_three_congested_rounds_if_idle() {
        let mut p = policy(&Plb::default());
        let changed = first_change(p.as_mut(), 0, 10, true).expect("it changes");
        assert!((2..=4).contains(&changed), "{changed}");
    }

    #[test]
    fn plb_changes_the_label_at_a_timeout_and_then_not_for_congestion() {
        let mut p = policy(&Plb::default());
        let before = p.next(&view(0, 1, 1));
        p.feedback(&view(0, 1, 1001), before, Feedback::Timeout);
        assert_ne!(p.next(&view(0, 1, 1)), before);
        assert_eq!(first_change(p.as_mut(), 0, 10, false), None);
        // The suspension ends at the latest after 120 s.
        let changed = first_change(p.as_mut(), 120_000, 10, false);
        assert!(changed.is_some());
    }
}

//! FlowBender.

use super::{
    Entropy, EntropyFactory, EntropyParameters, EntropyView, Feedback, LabelStream, MarkedRounds,
};

/// FlowBender: another label after a round trip with too many marks, and after a timeout: "flowbender". Needs ECN.
///
/// Source: Kabbani, Vamanan, Hasan and Duchene, "FlowBender: Flow-level Adaptive Routing for Improved Latency and
/// Throughput in Datacenter Networks", CoNEXT 2014. There a host changes the TTL, which takes one of a few
/// values; here it changes the flow label.
#[derive(Clone, Copy, Debug)]
pub struct FlowBender {
    /// A round is congested if more than this share of its segments was marked, in percent (T: 5 in the paper).
    pub congested_percent: u64,
    /// Consecutive congested rounds after which the label changes (N: 1 in the paper).
    pub rounds: u32,
}

impl Default for FlowBender {
    fn default() -> Self {
        Self {
            congested_percent: 5,
            rounds: 1,
        }
    }
}

impl EntropyFactory for FlowBender {
    fn name(&self) -> &str {
        "flowbender"
    }

    fn summary(&self) -> &str {
        "FlowBender: another flow label after a round trip with more than 5 % of marked segments, and after each timeout (Kabbani et al. 2014)"
    }

    fn build(&self, p: &EntropyParameters) -> Box<dyn Entropy> {
        let mut labels = LabelStream::new(p.seed);
        let label = labels.draw();
        Box::new(FlowBenderPolicy {
            settings: *self,
            labels,
            label,
            rounds: MarkedRounds::default(),
            congested: 0,
        })
    }
}

#[derive(Debug)]
struct FlowBenderPolicy {
    settings: FlowBender,
    labels: LabelStream,
    label: u32,
    rounds: MarkedRounds,
    /// Consecutive congested rounds.
    congested: u32,
}

impl FlowBenderPolicy {
    fn on_acknowledged(&mut self, view: &EntropyView, marked: bool) {
        let Some(round) = self.rounds.on_acknowledged(view, marked) else {
            return;
        };
        self.congested = match round.exceeds(self.settings.congested_percent) {
            true => self.congested + 1,
            false => 0,
        };
        if self.congested >= self.settings.rounds {
            self.change();
        }
    }

    fn change(&mut self) {
        self.label = self.labels.draw();
        self.congested = 0;
    }
}

impl Entropy for FlowBenderPolicy {
    fn next(&mut self, _: &EntropyView) -> u32 {
        self.label
    }

    fn feedback(&mut self, view: &EntropyView, _: u32, feedback: Feedback) {
        match feedback {
            Feedback::Acknowledged => self.on_acknowledged(view, false),
            Feedback::Marked => self.on_acknowledged(view, true),
            Feedback::Timeout | Feedback::SynTimeout => self.change(),
            Feedback::Lost | Feedback::DuplicateSyn | Feedback::DuplicateData { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{policy, view};
    use super::*;

    /// Acknowledges one round of 40 segments, `marked` of which are marked, and returns whether the label changed
    /// by its end.
    fn changes(p: &mut dyn Entropy, round: u64, marked: u64) -> bool {
        let label = p.next(&view(round, 1, 1));
        for segment in 0..40 {
            let acked_to = 1 + round * 4000 + (segment + 1) * 100;
            let feedback = match segment < marked {
                true => Feedback::Marked,
                false => Feedback::Acknowledged,
            };
            // A window of 4000 bytes is in flight.
            p.feedback(&view(round, acked_to, acked_to + 4000), label, feedback);
        }
        p.next(&view(round, 1, 1)) != label
    }

    #[test]
    fn flowbender_changes_the_label_after_one_round_with_more_than_five_percent_of_marks() {
        let mut p = policy(&FlowBender::default());
        let found = [0, 0, 2, 3, 0].map({
            let mut round = 0;
            move |marked| {
                round += 1;
                changes(p.as_mut(), round - 1, marked)
            }
        });
        // A round has 41 segments, one more than the window. 2 of them are less than 5 %.
        assert_eq!(found, [false, false, false, true, false]);
    }

    #[test]
    fn flowbender_changes_the_label_at_a_timeout_but_not_at_a_loss() {
        let mut p = policy(&FlowBender::default());
        let label = p.next(&view(0, 1, 1));
        p.feedback(&view(0, 1, 101), label, Feedback::Lost);
        assert_eq!(p.next(&view(0, 1, 1)), label);
        for feedback in [Feedback::Timeout, Feedback::SynTimeout] {
            let label = p.next(&view(0, 1, 1));
            p.feedback(&view(0, 1, 101), label, feedback);
            assert_ne!(p.next(&view(0, 1, 1)), label, "{feedback:?}");
        }
    }
}

//! A custom policy of flow labels: another label for each flowlet.

use spindle_mptcp::entropy::{
    Entropy, EntropyFactory, EntropyParameters, EntropyView, Feedback, LabelStream,
};
use spindle_units::{Duration, Instant};

/// A host takes another label after a pause. Segments before the pause have then left the old path, so that the new
/// path causes no reordering.
#[derive(Clone, Copy, Debug)]
pub struct Flowlets {
    /// The shortest pause, as a divisor of the smoothed round-trip time.
    pub divisor: u64,
}

impl EntropyFactory for Flowlets {
    fn name(&self) -> &str {
        "flowlets"
    }

    fn summary(&self) -> &str {
        "another flow label after a pause of half a round-trip time, and after each timeout"
    }

    fn build(&self, p: &EntropyParameters) -> Box<dyn Entropy> {
        let mut labels = LabelStream::new(p.seed);
        Box::new(Policy {
            settings: *self,
            label: labels.draw(),
            labels,
            last_sent: Instant::ZERO,
        })
    }
}

#[derive(Debug)]
struct Policy {
    settings: Flowlets,
    labels: LabelStream,
    label: u32,
    last_sent: Instant,
}

impl Entropy for Policy {
    fn next(&mut self, view: &EntropyView) -> u32 {
        let pause = view.srtt.unwrap_or(Duration::MAX) / self.settings.divisor;
        if view.now.since(self.last_sent) > pause {
            self.label = self.labels.draw();
        }
        self.last_sent = view.now;
        self.label
    }

    fn feedback(&mut self, _: &EntropyView, _: u32, feedback: Feedback) {
        if let Feedback::Timeout | Feedback::SynTimeout = feedback {
            self.label = self.labels.draw();
        }
    }
}

//! Recycled Entropy Packet Spraying.

use spindle_units::{Duration, Instant};

use super::{Entropy, EntropyFactory, EntropyParameters, EntropyView, Feedback, LabelStream};

/// Entries of the buffer of entropies (Bonato et al., arXiv 2407.21625).
const BUFFER: usize = 8;
/// Freezing ends this long after the timeout that began it (our choice: a few round trips of a data centre under load;
/// the paper leaves it open).
const FREEZING: Duration = Duration::from_millis(1);

/// REPS: labels whose packets were acknowledged without a mark are used again, once for each acknowledgement:
/// "reps". It sprays packets, so it needs ECN and loss detection that tolerates reordering, such as RACK's.
///
/// Packets get random labels until the first window has been sent (exploring), and whenever there is no label to
/// recycle. After a timeout the policy is frozen for some time: it draws no random labels, and uses those that it
/// remembers in turn, since acknowledgements have shown that their paths work.
///
/// Source: Bonato et al., "REPS: Recycled Entropy Packet Spraying for Adaptive Load Balancing and Failure
/// Mitigation", arXiv 2407.21625.
#[derive(Clone, Copy, Debug)]
pub struct Reps {
    /// How long freezing lasts.
    pub freezing: Duration,
}

impl Default for Reps {
    fn default() -> Self {
        Self { freezing: FREEZING }
    }
}

impl EntropyFactory for Reps {
    fn name(&self) -> &str {
        "reps"
    }

    fn summary(&self) -> &str {
        "REPS: a flow label for each packet, recycled after an acknowledgement without a mark; a buffer of 8; frozen after a timeout (Bonato et al. 2024)"
    }

    fn build(&self, p: &EntropyParameters) -> Box<dyn Entropy> {
        Box::new(RepsPolicy {
            freezing: self.freezing,
            labels: LabelStream::new(p.seed),
            buffer: [Entry::default(); BUFFER],
            head: 0,
            valid: 0,
            exploring: None,
            frozen_until: None,
        })
    }
}

/// A label of the buffer. Label 0 marks an entry that was never filled.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    label: u32,
    /// It was not used since its acknowledgement.
    valid: bool,
}

#[derive(Debug)]
struct RepsPolicy {
    freezing: Duration,
    labels: LabelStream,
    buffer: [Entry; BUFFER],
    /// The entry that is written next. The oldest valid entry is `valid` places before it.
    head: usize,
    /// Number of valid entries.
    valid: usize,
    /// Packets that still get random labels. `None` before the first packet with data.
    exploring: Option<u64>,
    /// The end of freezing, while frozen.
    frozen_until: Option<Instant>,
}

impl RepsPolicy {
    /// A label was acknowledged without a mark.
    fn remember(&mut self, view: &EntropyView, label: u32) {
        let entry = Entry { label, valid: true };
        let replaced = std::mem::replace(&mut self.buffer[self.head], entry);
        self.valid += usize::from(!replaced.valid);
        self.head = (self.head + 1) % BUFFER;
        if self.frozen_until.is_some_and(|end| view.now > end) {
            self.frozen_until = None;
            self.exploring = Some(view.window_segments);
        }
    }

    /// Takes the oldest label that was not used since its acknowledgement. While frozen, used ones too.
    fn recycle(&mut self) -> u32 {
        if self.valid > 0 {
            let oldest = (self.head + BUFFER - self.valid) % BUFFER;
            self.valid -= 1;
            self.buffer[oldest].valid = false;
            return self.buffer[oldest].label;
        }
        // Frozen: all remembered labels in turn, the next write following them.
        for _ in 0..BUFFER {
            let label = self.buffer[self.head].label;
            self.head = (self.head + 1) % BUFFER;
            if label != 0 {
                return label;
            }
        }
        self.labels.draw()
    }
}

impl Entropy for RepsPolicy {
    fn next(&mut self, view: &EntropyView) -> u32 {
        // Acknowledgements do not consume labels of the buffer, since nothing acknowledges them.
        if !view.carries_data {
            return self.labels.draw();
        }
        let exploring = *self.exploring.get_or_insert(view.window_segments);
        if self.frozen_until.is_none() && exploring > 0 {
            self.exploring = Some(exploring - 1);
            return self.labels.draw();
        }
        if self.valid == 0 && self.frozen_until.is_none() {
            return self.labels.draw();
        }
        self.recycle()
    }

    fn feedback(&mut self, view: &EntropyView, entropy: u32, feedback: Feedback) {
        match feedback {
            Feedback::Acknowledged => self.remember(view, entropy),
            Feedback::Timeout if self.frozen_until.is_none() && self.exploring == Some(0) => {
                self.frozen_until = Some(view.now + self.freezing);
            }
            Feedback::Timeout
            | Feedback::Marked
            | Feedback::Lost
            | Feedback::SynTimeout
            | Feedback::DuplicateSyn
            | Feedback::DuplicateData { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{policy, view};
    use super::*;

    fn sent(p: &mut dyn Entropy, n: usize) -> Vec<u32> {
        (0..n).map(|_| p.next(&view(0, 1, 1))).collect()
    }

    fn acknowledge(p: &mut dyn Entropy, ms: u64, labels: &[u32], feedback: Feedback) {
        for label in labels {
            p.feedback(&view(ms, 1, 1), *label, feedback);
        }
    }

    /// A policy that has sent the first window of 10 packets.
    fn explored() -> (Box<dyn Entropy>, Vec<u32>) {
        let mut p = policy(&Reps::default());
        let labels = sent(p.as_mut(), 10);
        (p, labels)
    }

    #[test]
    fn reps_recycles_labels_without_marks_once_and_oldest_first() {
        let (mut p, labels) = explored();
        acknowledge(p.as_mut(), 0, &labels[..3], Feedback::Acknowledged);
        acknowledge(p.as_mut(), 0, &labels[3..5], Feedback::Marked);
        assert_eq!(sent(p.as_mut(), 3), labels[..3]);
        let random = sent(p.as_mut(), 2);
        assert!(random.iter().all(|l| !labels.contains(l)));
    }

    #[test]
    fn reps_remembers_the_last_eight_labels() {
        let (mut p, labels) = explored();
        acknowledge(p.as_mut(), 0, &labels, Feedback::Acknowledged);
        assert_eq!(sent(p.as_mut(), 8), labels[2..]);
        assert!(!labels.contains(&sent(p.as_mut(), 1)[0]));
    }

    #[test]
    fn reps_explores_for_the_first_window() {
        let mut p = policy(&Reps::default());
        let first = sent(p.as_mut(), 5);
        acknowledge(p.as_mut(), 0, &first, Feedback::Acknowledged);
        assert!(sent(p.as_mut(), 5).iter().all(|l| !first.contains(l)));
        assert_eq!(sent(p.as_mut(), 5), first);
    }

    #[test]
    fn reps_frozen_by_a_timeout_uses_known_labels_until_freezing_ends() {
        let (mut p, labels) = explored();
        acknowledge(p.as_mut(), 0, &labels[..3], Feedback::Acknowledged);
        acknowledge(p.as_mut(), 0, &labels[4..5], Feedback::Timeout);
        let used = sent(p.as_mut(), 9);
        assert!(used.iter().all(|l| labels[..3].contains(l)), "{used:?}");
        // The first acknowledgement after freezing ends it, and a window is explored.
        acknowledge(p.as_mut(), 2, &labels[..1], Feedback::Acknowledged);
        let random = sent(p.as_mut(), 10);
        assert!(random.iter().all(|l| !labels.contains(l)));
        assert_eq!(sent(p.as_mut(), 1), labels[..1]);
    }

    #[test]
    fn reps_gives_acknowledgements_random_labels() {
        let (mut p, labels) = explored();
        acknowledge(p.as_mut(), 0, &labels[..1], Feedback::Acknowledged);
        let mut v = view(0, 1, 1);
        v.carries_data = false;
        assert!(!labels.contains(&p.next(&v)));
        assert_eq!(sent(p.as_mut(), 1), labels[..1]);
    }
}

//! A table of path entropies, from which paths that lose packets are retired.

use spindle_units::{Duration, Instant};

use super::{Entropy, EntropyFactory, EntropyParameters, EntropyView, Feedback, LabelStream};

/// Labels of a table (our choice: several for each path of a fat tree with 8-port switches).
const SIZE: usize = 64;
/// A retired label is probed after this many smoothed round-trip times (our choice).
const PROBE_AFTER: u64 = 16;
/// The round-trip time before the first measurement (our choice).
const UNKNOWN_RTT: Duration = Duration::from_millis(1);

/// A table of labels, which packets use in turn. A label that lost a packet is retired at once. Later one packet probes
/// it, and the label returns if the packet is acknowledged: "path-table". It sprays packets, so it needs loss
/// detection that tolerates reordering, such as RACK's.
///
/// Source: the retirement and probing of entropy values in public descriptions of MRC (Multipath Reliable Connection)
/// and of the Ultra Ethernet transport. Number of labels and times are our choice.
#[derive(Clone, Copy, Debug)]
pub struct PathTable {
    /// Number of labels, at least 1.
    pub size: usize,
    /// A retired label is probed after this many smoothed round-trip times.
    pub probe_after: u64,
}

impl Default for PathTable {
    fn default() -> Self {
        Self {
            size: SIZE,
            probe_after: PROBE_AFTER,
        }
    }
}

impl EntropyFactory for PathTable {
    fn name(&self) -> &str {
        "path-table"
    }

    fn summary(&self) -> &str {
        "packets take 64 flow labels in turn; a label that lost a packet is retired and probed later (as in MRC and Ultra Ethernet)"
    }

    fn build(&self, p: &EntropyParameters) -> Box<dyn Entropy> {
        let mut labels = LabelStream::new(p.seed);
        let entry = |_| Entry {
            label: labels.draw(),
            retired_at: None,
            probed: false,
        };
        Box::new(PathTablePolicy {
            probe_after: self.probe_after,
            entries: (0..self.size.max(1)).map(entry).collect(),
            next: 0,
            retired: 0,
        })
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    label: u32,
    /// When it was retired, if it is.
    retired_at: Option<Instant>,
    /// A probe with it is in flight.
    probed: bool,
}

#[derive(Debug)]
struct PathTablePolicy {
    probe_after: u64,
    entries: Vec<Entry>,
    /// The entry whose turn it is.
    next: usize,
    /// Number of retired entries.
    retired: usize,
}

impl PathTablePolicy {
    /// Whether a packet may use the entry. A packet with data may probe a retired one.
    fn admits(&self, view: &EntropyView, entry: &Entry) -> bool {
        let Some(since) = entry.retired_at else {
            return true;
        };
        let wait = view.srtt.unwrap_or(UNKNOWN_RTT) * self.probe_after;
        view.carries_data && !entry.probed && view.now >= since + wait
    }

    fn retire(&mut self, now: Instant, label: u32) {
        for entry in self.entries.iter_mut().filter(|e| e.label == label) {
            self.retired += usize::from(entry.retired_at.is_none());
            (entry.retired_at, entry.probed) = (Some(now), false);
        }
    }

    fn restore(&mut self, label: u32) {
        let probed = |e: &&mut Entry| e.label == label && e.probed;
        for entry in self.entries.iter_mut().filter(probed) {
            self.retired -= usize::from(entry.retired_at.is_some());
            (entry.retired_at, entry.probed) = (None, false);
        }
    }
}

impl Entropy for PathTablePolicy {
    fn next(&mut self, view: &EntropyView) -> u32 {
        for _ in 0..self.entries.len() {
            let i = self.next;
            self.next = (i + 1) % self.entries.len();
            if self.admits(view, &self.entries[i]) {
                self.entries[i].probed = self.entries[i].retired_at.is_some();
                return self.entries[i].label;
            }
        }
        // All are retired: any may work as well as another.
        let i = self.next;
        self.next = (i + 1) % self.entries.len();
        self.entries[i].probed |= view.carries_data;
        self.entries[i].label
    }

    fn feedback(&mut self, view: &EntropyView, entropy: u32, feedback: Feedback) {
        match feedback {
            Feedback::Lost | Feedback::Timeout => self.retire(view.now, entropy),
            Feedback::Acknowledged | Feedback::Marked if self.retired > 0 => self.restore(entropy),
            Feedback::Acknowledged
            | Feedback::Marked
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

    const FOUR: PathTable = PathTable {
        size: 4,
        probe_after: 16,
    };

    fn sent(p: &mut dyn Entropy, ms: u64, n: usize) -> Vec<u32> {
        (0..n).map(|_| p.next(&view(ms, 1, 1))).collect()
    }

    #[test]
    fn path_table_uses_its_labels_in_turn() {
        let mut p = policy(&FOUR);
        let labels = sent(p.as_mut(), 0, 8);
        assert_eq!(labels[..4], labels[4..]);
    }

    #[test]
    fn path_table_retires_a_label_at_its_first_loss_and_probes_it_once() {
        let mut p = policy(&FOUR);
        let labels = sent(p.as_mut(), 0, 4);
        p.feedback(&view(0, 1, 1), labels[1], Feedback::Lost);
        let rest = [labels[0], labels[2], labels[3]];
        assert_eq!(sent(p.as_mut(), 15, 6), [rest, rest].concat());
        // With a round-trip time of 1 ms it is probed after 16 ms, by one packet.
        assert_eq!(sent(p.as_mut(), 16, 4), labels);
        assert_eq!(sent(p.as_mut(), 17, 3), rest);
        p.feedback(&view(18, 1, 1), labels[1], Feedback::Acknowledged);
        assert_eq!(sent(p.as_mut(), 18, 4), labels);
    }

    #[test]
    fn path_table_waits_again_after_a_lost_probe() {
        let mut p = policy(&FOUR);
        let labels = sent(p.as_mut(), 0, 4);
        p.feedback(&view(0, 1, 1), labels[1], Feedback::Timeout);
        assert_eq!(sent(p.as_mut(), 16, 4), labels);
        p.feedback(&view(20, 1, 1), labels[1], Feedback::Lost);
        assert!(!sent(p.as_mut(), 35, 6).contains(&labels[1]));
        assert!(sent(p.as_mut(), 36, 4).contains(&labels[1]));
    }

    #[test]
    fn late_acknowledgement_does_not_restore_a_retired_label() {
        let mut p = policy(&FOUR);
        let labels = sent(p.as_mut(), 0, 4);
        p.feedback(&view(0, 1, 1), labels[1], Feedback::Lost);
        p.feedback(&view(1, 1, 1), labels[1], Feedback::Acknowledged);
        assert!(!sent(p.as_mut(), 2, 6).contains(&labels[1]));
    }

    #[test]
    fn path_table_still_sends_when_all_labels_are_retired() {
        let mut p = policy(&FOUR);
        let labels = sent(p.as_mut(), 0, 4);
        for label in &labels {
            p.feedback(&view(0, 1, 1), *label, Feedback::Lost);
        }
        assert_eq!(sent(p.as_mut(), 1, 4), labels);
        p.feedback(&view(2, 1, 1), labels[2], Feedback::Acknowledged);
        assert_eq!(sent(p.as_mut(), 2, 2), [labels[2]; 2]);
    }
}

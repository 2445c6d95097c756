//! The labels of a subflow's segments: which segment had which, and what became of it.
//!
//! A subflow has this state only if a policy is configured ([`crate::entropy`]).

use std::collections::VecDeque;

use spindle_units::Instant;
use spindle_wire::{Endpoint, flow_hash, protocol};

use super::{InitialNumbers, Subflow};
use crate::config::Config;
use crate::entropy::{Entropy, EntropyParameters, EntropyView, Feedback, LABELS};
use crate::random::mix;
use crate::ranges::Ranges;
use crate::types::{SubflowId, SubflowPosition};

/// The labels of at most this many unacknowledged segments are remembered. Beyond that the oldest are forgotten, and
/// the policy gets no feedback about their segments (our choice: 6 MB in flight at an MSS of 1460).
const MOST_SEGMENTS: usize = 4096;

/// A segment with data that was sent and is not acknowledged cumulatively.
#[derive(Clone, Copy, Debug)]
struct Labelled {
    start: SubflowPosition,
    end: SubflowPosition,
    /// The label of its last transmission.
    entropy: u32,
    /// Its delivery was reported to the policy.
    reported: bool,
}

/// A policy, and the labels that it has given.
#[derive(Debug)]
pub(crate) struct PathEntropy {
    policy: Box<dyn Entropy>,
    /// In order of sequence space, without gaps but those of forgotten segments.
    sent: VecDeque<Labelled>,
    /// The ranges whose delivery was reported, beyond the cumulative acknowledgement.
    reported: Ranges<SubflowPosition>,
    /// The label given last.
    last: u32,
    /// Segments with old data that arrived since the last new data.
    duplicates: u32,
}

impl PathEntropy {
    /// The policy of a new subflow, if one is configured. A host that does not see the subflow's packets cannot guess
    /// the seed, because it cannot guess the initial sequence number (RFC 6437, section 3).
    pub(super) fn new(
        config: &Config,
        subflow: SubflowId,
        (local, remote): (Endpoint, Endpoint),
        initial: InitialNumbers,
    ) -> Option<Box<Self>> {
        let factory = config.entropy.as_ref()?;
        let flow = flow_hash(local, remote, protocol::TCP);
        let seed = mix(flow, u64::from(initial.sequence.0));
        Some(Box::new(Self {
            policy: factory.build(&EntropyParameters { subflow, seed }),
            sent: VecDeque::new(),
            reported: Ranges::default(),
            last: 0,
            duplicates: 0,
        }))
    }

    /// The label of the segment that is about to be sent.
    pub(super) fn next(&mut self, view: &EntropyView) -> u32 {
        self.last = self.policy.next(view) % LABELS;
        self.last
    }

    /// The segment, or burst, that got the last label has the sequence space `[start, end)`, in segments of at most
    /// `unit` bytes.
    pub(super) fn on_sent(&mut self, start: SubflowPosition, end: SubflowPosition, unit: u64) {
        if let Some(last) = self.sent.back()
            && start < last.end
        {
            if let Some(i) = self.index_of(start) {
                self.sent[i].entropy = self.last;
            }
            return;
        }
        let mut at = start;
        while at < end {
            let to = (at + unit.max(1)).min(end);
            if self.sent.len() >= MOST_SEGMENTS {
                self.sent.pop_front();
            }
            self.sent.push_back(Labelled {
                start: at,
                end: to,
                entropy: self.last,
                reported: false,
            });
            at = to;
        }
    }

    /// The index of the segment that contains position `at`.
    fn index_of(&self, at: SubflowPosition) -> Option<usize> {
        let i = self.sent.partition_point(|s| s.end <= at);
        self.sent.get(i).filter(|s| s.start <= at).map(|_| i)
    }

    /// Reports segments that an acknowledgement newly covers: everything below `ack`, and the SACK blocks `sacks`.
    pub(super) fn on_ack(
        &mut self,
        view: &EntropyView,
        ack: SubflowPosition,
        sacks: &[(SubflowPosition, SubflowPosition)],
        marked: bool,
    ) {
        let feedback = match marked {
            true => Feedback::Marked,
            false => Feedback::Acknowledged,
        };
        while let Some(&front) = self.sent.front()
            && front.end <= ack
        {
            self.sent.pop_front();
            if !front.reported {
                self.policy.feedback(view, front.entropy, feedback);
            }
        }
        if !self.reported.is_empty() {
            self.reported.remove_below(ack);
        }
        for &(left, right) in sacks {
            self.on_sack(view, left.max(ack), right, feedback);
        }
    }

    /// Reports the segments of a SACK block that were not reported yet. Its cost depends on their number, and not on
    /// the length of the block.
    fn on_sack(
        &mut self,
        view: &EntropyView,
        left: SubflowPosition,
        right: SubflowPosition,
        feedback: Feedback,
    ) {
        let mut at = left;
        while at < right {
            if let Some((_, end)) = self.reported.containing(at) {
                at = end;
                continue;
            }
            let i = self.sent.partition_point(|s| s.end <= at);
            let Some(s) = self.sent.get_mut(i).filter(|s| s.end <= right) else {
                break;
            };
            at = s.end;
            let entropy = s.entropy;
            if !std::mem::replace(&mut s.reported, true) {
                self.policy.feedback(view, entropy, feedback);
            }
        }
        self.reported.insert(left, at);
    }

    /// Loss detection found the segment at `start` to be lost.
    fn on_lost(&mut self, view: &EntropyView, start: SubflowPosition) {
        if let Some(i) = self.index_of(start)
            && !self.sent[i].reported
        {
            let entropy = self.sent[i].entropy;
            self.policy.feedback(view, entropy, Feedback::Lost);
        }
    }

    /// The retransmission timer expired.
    fn on_timeout(&mut self, view: &EntropyView) {
        let first = self.sent.iter().find(|s| !s.reported);
        let entropy = first.map_or(self.last, |s| s.entropy);
        self.policy.feedback(view, entropy, Feedback::Timeout);
    }

    /// Something happened that concerns the segment sent last.
    fn report(&mut self, view: &EntropyView, feedback: Feedback) {
        self.policy.feedback(view, self.last, feedback);
    }

    /// A segment with data arrived. `new` states whether any of its data are new.
    fn on_data(&mut self, view: &EntropyView, new: bool) {
        if new {
            self.duplicates = 0;
            return;
        }
        self.duplicates = self.duplicates.saturating_add(1);
        let consecutive = self.duplicates;
        self.report(view, Feedback::DuplicateData { consecutive });
    }
}

/// What happened to the subflow that its policy must know.
#[derive(Clone, Copy, Debug)]
pub(super) enum PathEvent {
    /// The retransmission timer expired.
    Timeout,
    /// The SYN or SYN/ACK was not answered in time.
    SynTimeout,
    /// The SYN was received again.
    DuplicateSyn,
    /// Data arrived of which none are new.
    DuplicateData,
    /// New data arrived.
    NewData,
    /// The segment at this position is lost.
    Lost(SubflowPosition),
}

impl Subflow {
    /// What the policy may know about the subflow.
    pub(super) fn entropy_view(&self, now: Instant, carries_data: bool) -> EntropyView {
        EntropyView {
            now,
            srtt: self.tx.srtt(),
            acked_to: self.tx.una,
            next: self.tx.nxt,
            window_segments: self.tx.cc.cwnd() / self.tx.mss.max(1),
            carries_data,
        }
    }

    /// The label of the next segment; 0 without a policy.
    #[inline]
    pub(super) fn next_label(&mut self, now: Instant, carries_data: bool) -> u32 {
        match self.entropy {
            None => 0,
            Some(_) => self.policy_label(now, carries_data),
        }
    }

    #[inline(never)] // only with a policy
    fn policy_label(&mut self, now: Instant, carries_data: bool) -> u32 {
        let view = self.entropy_view(now, carries_data);
        self.entropy.as_mut().map_or(0, |e| e.next(&view))
    }

    /// Reports the segments that an acknowledgement with these SACK blocks newly covers.
    #[inline(never)] // only with a policy
    pub(super) fn note_deliveries(
        &mut self,
        now: Instant,
        sacks: &[(SubflowPosition, SubflowPosition)],
        echo: bool,
    ) {
        let view = self.entropy_view(now, false);
        let marked = echo && self.tx.ecn;
        if let Some(e) = &mut self.entropy {
            e.on_ack(&view, view.acked_to, sacks, marked);
        }
    }

    /// Notifies the policy, if there is one.
    #[inline]
    pub(super) fn note_path_event(&mut self, now: Instant, event: PathEvent) {
        if self.entropy.is_some() {
            self.report_path_event(now, event);
        }
    }

    #[inline(never)] // only with a policy
    fn report_path_event(&mut self, now: Instant, event: PathEvent) {
        let view = self.entropy_view(now, false);
        let Some(e) = &mut self.entropy else {
            return;
        };
        match event {
            PathEvent::Timeout => e.on_timeout(&view),
            PathEvent::SynTimeout => e.report(&view, Feedback::SynTimeout),
            PathEvent::DuplicateSyn => e.report(&view, Feedback::DuplicateSyn),
            PathEvent::DuplicateData => e.on_data(&view, false),
            PathEvent::NewData => e.on_data(&view, true),
            PathEvent::Lost(start) => e.on_lost(&view, start),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use spindle_units::Duration;

    use super::*;

    /// A policy that numbers its labels from 1 and records feedback.
    #[derive(Debug)]
    struct Recorder(u32, Arc<Mutex<Vec<(u32, Feedback)>>>);

    impl Entropy for Recorder {
        fn next(&mut self, _: &EntropyView) -> u32 {
            self.0 += 1;
            self.0
        }

        fn feedback(&mut self, _: &EntropyView, entropy: u32, feedback: Feedback) {
            self.1.lock().expect("one thread").push((entropy, feedback));
        }
    }

    const VIEW: EntropyView = EntropyView {
        now: Instant::ZERO,
        srtt: Some(Duration::from_millis(1)),
        acked_to: SubflowPosition::FIRST_BYTE,
        next: SubflowPosition::FIRST_BYTE,
        window_segments: 10,
        carries_data: true,
    };

    fn at(position: u64) -> SubflowPosition {
        SubflowPosition::SYN + position
    }

    /// The feedback that the policy received since the last call.
    type Received = Arc<Mutex<Vec<(u32, Feedback)>>>;

    fn recorded() -> (PathEntropy, Received) {
        let received = Received::default();
        let entropy = PathEntropy {
            policy: Box::new(Recorder(0, received.clone())),
            sent: VecDeque::new(),
            reported: Ranges::default(),
            last: 0,
            duplicates: 0,
        };
        (entropy, received)
    }

    /// Sends `n` segments of 100 bytes from position 1 on, with labels from 1 on.
    fn send(e: &mut PathEntropy, n: u64) {
        for k in 0..n {
            e.next(&VIEW);
            e.on_sent(at(1 + k * 100), at(101 + k * 100), 100);
        }
    }

    fn take(received: &Received) -> Vec<(u32, Feedback)> {
        std::mem::take(&mut received.lock().expect("one thread"))
    }

    #[test]
    fn each_segment_is_reported_once_with_its_label() {
        let (mut e, received) = recorded();
        send(&mut e, 6);
        e.on_ack(&VIEW, at(101), &[(at(201), at(301))], false);
        assert_eq!(
            take(&received),
            [(1, Feedback::Acknowledged), (3, Feedback::Acknowledged)]
        );
        // The block grows in both directions, and ends within the last segment.
        e.on_ack(&VIEW, at(101), &[(at(201), at(550))], true);
        assert_eq!(
            take(&received),
            [(4, Feedback::Marked), (5, Feedback::Marked)]
        );
        e.on_ack(&VIEW, at(601), &[], false);
        assert_eq!(
            take(&received),
            [(2, Feedback::Acknowledged), (6, Feedback::Acknowledged)]
        );
        assert!(e.sent.is_empty() && e.reported.is_empty());
    }

    #[test]
    fn retransmitted_segment_counts_with_its_last_label() {
        let (mut e, received) = recorded();
        send(&mut e, 3);
        e.on_lost(&VIEW, at(101));
        e.next(&VIEW);
        e.on_sent(at(101), at(201), 100);
        e.on_ack(&VIEW, at(201), &[], false);
        assert_eq!(
            take(&received),
            [
                (2, Feedback::Lost),
                (1, Feedback::Acknowledged),
                (4, Feedback::Acknowledged)
            ]
        );
    }

    #[test]
    fn timeout_concerns_the_first_segment_that_has_not_arrived() {
        let (mut e, received) = recorded();
        send(&mut e, 3);
        e.on_ack(&VIEW, at(1), &[(at(1), at(101))], false);
        take(&received);
        e.on_timeout(&VIEW);
        assert_eq!(take(&received), [(2, Feedback::Timeout)]);
    }

    #[test]
    fn segments_of_a_burst_are_reported_one_by_one() {
        let (mut e, received) = recorded();
        e.next(&VIEW);
        e.on_sent(at(1), at(251), 100);
        e.on_ack(&VIEW, at(251), &[], false);
        assert_eq!(take(&received), [(1, Feedback::Acknowledged); 3]);
    }

    #[test]
    fn memory_is_bounded_when_nothing_is_acknowledged() {
        let (mut e, received) = recorded();
        let n = 2 * MOST_SEGMENTS as u64;
        send(&mut e, n);
        assert_eq!(e.sent.len(), MOST_SEGMENTS);
        e.on_ack(&VIEW, at(1), &[(at(1), at(1 + n * 100))], false);
        e.on_lost(&VIEW, at(1));
        assert_eq!(take(&received).len(), MOST_SEGMENTS);
    }

    #[test]
    fn duplicates_are_counted_from_the_last_new_data() {
        let (mut e, received) = recorded();
        for new in [false, false, true, false] {
            e.on_data(&VIEW, new);
        }
        let counts = [1, 2, 1].map(|consecutive| (0, Feedback::DuplicateData { consecutive }));
        assert_eq!(take(&received), counts);
    }
}

//! Repeats over the same path, where there is no other one.

use std::collections::VecDeque;

use super::{Action, SegmentView, SentView, SubflowView, View, Window};
use crate::types::{SubflowId, SubflowPosition};

/// Most segments that are remembered. Older ones are not repeated (our choice: more than the largest window with which a
/// connection begins).
const MOST: usize = 64;

/// The transmissions of a connection that may be repeated over their own path, each of them once: those of new data and
/// those of segments that were found lost.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    /// Transmissions, the oldest first.
    sent: VecDeque<(SubflowId, SegmentView)>,
    /// The segment whose repeat was requested last.
    requested: Option<(SubflowId, SubflowPosition)>,
    /// The connection has several paths, or a peer that decodes parities.
    is_off: bool,
}

impl Repeats {
    /// Takes note of a transmission.
    pub(super) fn on_sent(&mut self, sent: &SentView) {
        let this = (sent.subflow, sent.segment.position);
        if self.requested.take_if(|r| *r == this).is_some() || self.is_off {
            return;
        }
        if sent.new || sent.segment.retransmitted {
            if self.sent.len() == MOST {
                self.sent.pop_front();
            }
            self.sent.push_back((sent.subflow, sent.segment));
        }
    }

    /// The only subflow that can send now, and its oldest transmission that is not repeated or acknowledged yet. `None` if
    /// there is no room for it. A transmission is forgotten after a smoothed RTT, when its acknowledgement is due.
    pub(super) fn candidate<'a>(
        &mut self,
        view: &View<'a>,
    ) -> Option<(&'a SubflowView, SegmentView)> {
        let mut usable = view.subflows.iter().filter(|s| s.usable);
        let only = usable.next().filter(|_| usable.next().is_none());
        self.is_off = view.decodes || only.is_none();
        if self.is_off {
            self.sent.clear();
        }
        let s = only?;
        while let Some((of, segment)) = self.sent.front() {
            let is_acked = segment.position < s.acked_to;
            let is_over = s
                .srtt
                .is_some_and(|srtt| view.now.since(segment.sent_at) >= srtt);
            if *of == s.id && !is_acked && !is_over {
                let room = !s.paced && s.in_flight + u64::from(segment.len) <= s.cwnd;
                return room.then_some((s, *segment));
            }
            self.sent.pop_front();
        }
        None
    }

    /// Requests the repeat of the candidate.
    pub(super) fn request(&mut self) -> Action {
        let Some((of, segment)) = self.sent.pop_front() else {
            return Action::Nothing;
        };
        self.requested = Some((of, segment.position));
        Action::Repeat {
            of,
            position: segment.position,
            window: Window::Inside,
            ect: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use spindle_units::{Duration, Instant};

    use super::super::Trigger;
    use super::super::tests::{subflow, view};
    use super::*;
    use crate::types::DataOffset;

    const RTT: Duration = Duration::from_millis(20);

    fn path(id: u8) -> SubflowView {
        SubflowView {
            srtt: Some(RTT),
            ..subflow(SubflowId(id))
        }
    }

    /// Takes note of a segment of 1000 bytes that was sent at 0.
    fn note(repeats: &mut Repeats, at: u64, new: bool, retransmitted: bool) {
        repeats.on_sent(&SentView {
            now: Instant::ZERO,
            subflow: SubflowId(0),
            segment: SegmentView {
                position: SubflowPosition::FIRST_BYTE + at,
                len: 1000,
                offset: DataOffset::START + at,
                sent_at: Instant::ZERO,
                retransmitted,
            },
            new,
        });
    }

    fn two_segments() -> Repeats {
        let mut repeats = Repeats::default();
        note(&mut repeats, 0, true, false);
        note(&mut repeats, 1000, true, false);
        repeats
    }

    /// The position after the first byte of the segment that may be repeated, if any.
    fn candidate(repeats: &mut Repeats, view: &View<'_>) -> Option<u64> {
        let (_, segment) = repeats.candidate(view)?;
        Some(segment.position - SubflowPosition::FIRST_BYTE)
    }

    #[test]
    fn each_transmission_is_repeated_once_and_a_retransmission_again() {
        let (mut repeats, subflows) = (two_segments(), [path(0)]);
        let v = view(&subflows, false, Trigger::Sent);
        for at in [0, 1000] {
            assert_eq!(candidate(&mut repeats, &v), Some(at));
            assert!(matches!(repeats.request(), Action::Repeat { .. }));
            note(&mut repeats, at, false, false); // the repeat itself
        }
        assert_eq!(candidate(&mut repeats, &v), None);
        assert_eq!(repeats.request(), Action::Nothing);
        note(&mut repeats, 0, false, true);
        assert_eq!(candidate(&mut repeats, &v), Some(0));
    }

    #[test]
    fn segment_that_is_acknowledged_or_due_is_not_repeated() {
        let mut subflows = [path(0)];
        subflows[0].acked_to = SubflowPosition::FIRST_BYTE + 1000;
        let mut v = view(&subflows, false, Trigger::Ack);
        assert_eq!(candidate(&mut two_segments(), &v), Some(1000));
        v.now = Instant::ZERO + RTT;
        assert_eq!(candidate(&mut two_segments(), &v), None);
    }

    #[test]
    fn nothing_is_repeated_without_room_next_to_another_path_or_if_the_peer_decodes() {
        let is_repeated = |change: fn(&mut [SubflowView; 2]), decodes| {
            let mut subflows = [path(0), path(1)];
            subflows[1].usable = false;
            change(&mut subflows);
            let mut v = view(&subflows, false, Trigger::Ack);
            v.decodes = decodes;
            candidate(&mut two_segments(), &v).is_some()
        };
        assert!(is_repeated(|_| {}, false));
        assert!(!is_repeated(|_| {}, true));
        assert!(!is_repeated(|s| s[1].usable = true, false));
        assert!(!is_repeated(|s| s[0].usable = false, false));
        assert!(!is_repeated(|s| s[0].in_flight = s[0].cwnd, false));
    }

    #[test]
    fn number_of_remembered_transmissions_is_limited() {
        let mut repeats = Repeats::default();
        (0..1000).for_each(|i| note(&mut repeats, i * 1000, true, false));
        assert_eq!(repeats.sent.len(), MOST);
    }
}

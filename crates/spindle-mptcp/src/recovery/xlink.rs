//! XLINK's re-injection (Z. Zheng et al., "XLINK: QoE-Driven Multi-Path QUIC Transport in Large-scale Video
//! Services", SIGCOMM 2021).

use spindle_units::{Duration, Instant};

use super::choice::copy_over_fastest_other;
use super::{
    Action, Capabilities, MessageView, Prospect, Recovery, RecoveryFactory, SegmentView, View,
};

/// The policy. Packets that are not acknowledged are sent once more over another path, the oldest data first,
/// inside that path's window.
///
/// - **Priority.** Ordinary data are re-injected only if there are no new data. The first video frame is
///   re-injected ahead of new data: here, a message with a priority above 0 ([`super::MessageHints`]), up to its
///   length or to [`Self::first_frame`].
/// - **Double thresholding control** by the player's feedback, the play time that is left: re-injection is off
///   above [`Self::high`] and on below [`Self::low`]. In between it is on if the play time is shorter than the
///   longest time of delivery, the smoothed RTT plus its variation, of all paths with data in flight. The time
///   until the deadline of the message stands for the play time, since there is no player. Without a deadline
///   re-injection is always on, as it is in XLINK before the first feedback.
/// - **Cost.** XLINK bounds its cost by the thresholds only. The preset also has a cost budget
///   ([`crate::Config::recovery_budget`]).
///
/// In QUIC, the acknowledgement of either copy settles both. In MPTCP the DATA_ACK does, while each subflow
/// still repairs its own sequence space. A byte stream has no streams whose priorities could be compared, so
/// that messages on one connection are sent in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Xlink {
    /// With less time left, re-injection is on. 100 ms by default (our choice; the paper sets it by the
    /// distribution of play times).
    pub low: Duration,
    /// With more time left, re-injection is off. 1 s by default (our choice).
    pub high: Duration,
    /// Most bytes of a message with priority that are re-injected ahead of new data. 128 KiB by default, as in
    /// XLINK's library (github.com/alibaba/xquic, `XQC_MP_FIRST_FRAME_OFFSET`).
    pub first_frame: u64,
}

impl Default for Xlink {
    fn default() -> Self {
        Self {
            low: Duration::from_millis(100),
            high: Duration::from_secs(1),
            first_frame: 128 * 1024,
        }
    }
}

impl Xlink {
    /// The time left at which re-injection is switched on: between the thresholds, the time of delivery.
    fn threshold(&self, deliver: Duration) -> Duration {
        deliver.min(self.high).max(self.low)
    }

    /// Whether a segment belongs to the part of a message that is re-injected ahead of new data.
    fn is_urgent(&self, message: Option<MessageView>, segment: &SegmentView) -> bool {
        message.is_some_and(|m| {
            let length = m.hints.length.unwrap_or(u64::MAX).min(self.first_frame);
            let frame = m.start..m.start + length;
            m.hints.priority > 0 && frame.contains(&segment.offset)
        })
    }
}

/// The longest time that data in flight take to arrive and to be acknowledged: the largest sum of smoothed RTT
/// and variation of the paths with data in flight.
fn time_of_delivery(view: &View<'_>) -> Duration {
    let busy = view.subflows.iter().filter(|s| s.in_flight > 0);
    let times = busy.filter_map(|s| Some(s.srtt? + s.rttvar?));
    times.max().unwrap_or(Duration::ZERO)
}

#[derive(Debug)]
struct XlinkPolicy {
    settings: Xlink,
    /// When re-injection will be switched on, if it is off.
    opens: Option<Instant>,
}

impl RecoveryFactory for Xlink {
    fn build(&self, _seed: u64) -> Box<dyn Recovery> {
        Box::new(XlinkPolicy {
            settings: *self,
            opens: None,
        })
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }
}

impl XlinkPolicy {
    /// Whether re-injection is on. If not, [`Self::opens`] is when it will be.
    fn is_on(&mut self, view: &View<'_>) -> bool {
        let deadline = view.message.and_then(|m| m.hints.deadline);
        let Some(deadline) = deadline else {
            return true;
        };
        let threshold = self.settings.threshold(time_of_delivery(view));
        let on = deadline.since(view.now) <= threshold;
        self.opens = (!on).then(|| view.now + (deadline.since(view.now) - threshold));
        on
    }
}

impl Recovery for XlinkPolicy {
    fn is_interested(&self, prospect: &Prospect) -> bool {
        prospect.outstanding
    }

    fn on_opportunity(&mut self, view: &View<'_>) -> Action {
        self.opens = None;
        let may = |segment: &SegmentView| {
            !view.new_data || self.settings.is_urgent(view.message, segment)
        };
        let mut candidates: Vec<_> = view
            .subflows
            .iter()
            .filter_map(|s| Some((s.oldest_unprotected.filter(|segment| may(segment))?, s)))
            .collect();
        if candidates.is_empty() || !self.is_on(view) {
            return Action::Nothing;
        }
        candidates.sort_by_key(|(segment, s)| (segment.offset, s.id));
        for (segment, of) in candidates {
            let len = u64::from(segment.len);
            let paid = view.budget_left.is_none_or(|left| len <= left);
            if let Some(copy) = copy_over_fastest_other(view, of, &segment).filter(|_| paid) {
                return copy;
            }
        }
        Action::Nothing
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.opens
    }

    fn is_immediate(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{subflow, view};
    use super::super::{MessageHints, SubflowView, Trigger, Window};
    use super::*;
    use crate::types::{DataOffset, SubflowId, SubflowPosition};

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// A slow path with a segment in flight, and two fast paths that are idle.
    fn paths() -> [SubflowView; 3] {
        let mut s = [0, 1, 2].map(|n| subflow(SubflowId(n)));
        (s[0].srtt, s[0].rttvar) = (Some(ms(200)), Some(ms(50)));
        s[0].in_flight = 1000;
        s[0].oldest_unprotected = Some(SegmentView {
            position: SubflowPosition::FIRST_BYTE,
            len: 1000,
            offset: DataOffset::START + 5_000,
            sent_at: Instant::ZERO,
            retransmitted: false,
        });
        (s[1].srtt, s[2].srtt) = (Some(ms(40)), Some(ms(30)));
        s
    }

    fn message(
        deadline: Option<Duration>,
        priority: u8,
        length: Option<u64>,
    ) -> Option<MessageView> {
        Some(MessageView {
            hints: MessageHints {
                deadline: deadline.map(|d| Instant::ZERO + d),
                priority,
                length,
            },
            start: DataOffset::START,
        })
    }

    const COPY: Action = Action::Copy {
        of: SubflowId(0),
        position: SubflowPosition::FIRST_BYTE,
        on: SubflowId(2),
        window: Window::Inside,
    };

    #[test]
    fn unacknowledged_segment_is_copied_over_the_fastest_other_path_without_new_data() {
        let subflows = paths();
        let mut policy = Xlink::default().build(1);
        let mut ask = |new_data| policy.on_opportunity(&view(&subflows, new_data, Trigger::Ack));
        assert_eq!(ask(false), COPY);
        assert_eq!(ask(true), Action::Nothing);
    }

    #[test]
    fn data_of_a_message_with_priority_are_copied_ahead_of_new_data_up_to_the_first_frame() {
        let mut subflows = paths();
        let mut policy = Xlink::default().build(1);
        let mut ask = |offset: u64, message| {
            if let Some(s) = &mut subflows[0].oldest_unprotected {
                s.offset = DataOffset::START + offset;
            }
            let mut v = view(&subflows, true, Trigger::Sent);
            v.message = message;
            policy.on_opportunity(&v)
        };
        assert_eq!(ask(5_000, message(None, 1, None)), COPY);
        assert_eq!(ask(5_000, message(None, 0, None)), Action::Nothing);
        assert_eq!(ask(5_000, message(None, 1, Some(5_000))), Action::Nothing);
        assert_eq!(ask(131_071, message(None, 1, None)), COPY);
        assert_eq!(ask(131_072, message(None, 1, None)), Action::Nothing);
    }

    #[test]
    fn double_thresholds_switch_by_the_time_left_and_the_time_of_delivery() {
        let subflows = paths();
        let mut policy = Xlink::default().build(1);
        let mut ask = |left| {
            let mut v = view(&subflows, false, Trigger::Ack);
            v.message = message(Some(ms(left)), 0, None);
            (policy.on_opportunity(&v), policy.next_timeout())
        };
        // The time of delivery is 250 ms, that of the slow path.
        let at = |n| Some(Instant::ZERO + ms(n));
        assert_eq!(ask(1_500), (Action::Nothing, at(1_250)), "above both");
        assert_eq!(ask(300), (Action::Nothing, at(50)), "it will arrive");
        assert_eq!(ask(250), (COPY, None), "it may be late");
        assert_eq!(ask(90), (COPY, None), "below both");
    }

    #[test]
    fn time_of_delivery_counts_only_within_the_thresholds() {
        let s = Xlink::default();
        assert_eq!(s.threshold(ms(20)), ms(100));
        assert_eq!(s.threshold(ms(300)), ms(300));
        assert_eq!(s.threshold(ms(5_000)), ms(1_000));
    }

    #[test]
    fn copy_that_the_budget_does_not_cover_is_not_requested() {
        let subflows = paths();
        let mut policy = Xlink::default().build(1);
        let mut ask = |left| {
            let mut v = view(&subflows, false, Trigger::Ack);
            v.budget_left = Some(left);
            policy.on_opportunity(&v)
        };
        assert_eq!((ask(999), ask(1000)), (Action::Nothing, COPY));
    }
}

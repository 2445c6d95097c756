//! Reinjection by age: a segment that is in flight for too long is copied over another path (xquic's deadline
//! controller).

use spindle_units::{Duration, Instant};

use super::choice::{Late, copy_late};
use super::{Action, Capabilities, Recovery, RecoveryFactory, View};

/// The policy. A segment that was sent longer ago than `max(lower_bound, min(factor * smallest smoothed RTT,
/// hard_deadline))` and is not acknowledged is sent once more over another path, ahead of new data and inside
/// that path's window. Each segment is reinjected at most once.
///
/// In QUIC, the acknowledgement of either copy settles both. In MPTCP the DATA_ACK does, while each subflow
/// still repairs its own sequence space. xquic's other trigger, a packet sent on a path of class LOW, has no
/// counterpart here, because subflows have no classes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeadlineReinjection {
    /// The multiple of the smallest smoothed RTT of all paths that is too long.
    pub factor: f64,
    /// Upper limit of the deadline; `None` for no limit.
    pub hard_deadline: Option<Duration>,
    /// Lower limit of the deadline.
    pub lower_bound: Duration,
}

impl Default for DeadlineReinjection {
    /// xquic's defaults: 2.0, none, zero.
    fn default() -> Self {
        Self {
            factor: 2.0,
            hard_deadline: None,
            lower_bound: Duration::ZERO,
        }
    }
}

impl DeadlineReinjection {
    fn deadline(&self, view: &View<'_>) -> Option<Duration> {
        let fastest = view.subflows.iter().filter_map(|s| s.srtt).min();
        let scaled = fastest
            .map(|rtt| Duration::from_nanos((rtt.as_nanos() as f64 * self.factor.max(0.0)) as u64));
        let most = match (scaled, self.hard_deadline) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        most.map(|d| d.max(self.lower_bound))
    }
}

#[derive(Debug)]
struct DeadlinePolicy {
    settings: DeadlineReinjection,
    /// When the next segment will be too old, if none is yet.
    due: Option<Instant>,
}

impl RecoveryFactory for DeadlineReinjection {
    fn build(&self, _seed: u64) -> Box<dyn Recovery> {
        Box::new(DeadlinePolicy {
            settings: *self,
            due: None,
        })
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }
}

impl Recovery for DeadlinePolicy {
    fn on_opportunity(&mut self, view: &View<'_>) -> Action {
        self.due = None;
        let Some(deadline) = self.settings.deadline(view) else {
            return Action::Nothing;
        };
        match copy_late(view, |_, segment| Some(segment.sent_at + deadline)) {
            Late::Copy(copy) => return copy,
            Late::Next(at) => self.due = Some(at),
            Late::Nothing => {}
        }
        Action::Nothing
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.due
    }

    fn is_immediate(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{subflow, view};
    use super::super::{SegmentView, Trigger, Window};
    use super::*;
    use crate::types::{DataOffset, SubflowId, SubflowPosition};

    fn in_flight_since(micros: u64) -> Option<SegmentView> {
        Some(SegmentView {
            position: SubflowPosition::FIRST_BYTE,
            len: 1000,
            offset: DataOffset::START,
            sent_at: Instant::ZERO + Duration::from_micros(micros),
            retransmitted: false,
        })
    }

    #[test]
    fn segment_older_than_two_rtts_is_copied_over_the_fastest_other_path() {
        let mut subflows = [
            subflow(SubflowId(0)),
            subflow(SubflowId(1)),
            subflow(SubflowId(2)),
        ];
        subflows[0].oldest_unprotected = in_flight_since(100);
        subflows[2].srtt = Some(Duration::from_micros(200));
        let mut policy = DeadlineReinjection::default().build(1);
        let at = |micros| Instant::ZERO + Duration::from_micros(micros);
        let mut v = view(&subflows, true, Trigger::Sent);
        v.now = at(499);
        assert_eq!(policy.on_opportunity(&v), Action::Nothing);
        assert_eq!(policy.next_timeout(), Some(at(500)), "100 us + 2 x 200 us");
        v.now = at(500);
        let copy = Action::Copy {
            of: SubflowId(0),
            position: SubflowPosition::FIRST_BYTE,
            on: SubflowId(2),
            window: Window::Inside,
        };
        assert_eq!(policy.on_opportunity(&v), copy, "new data or not");
        assert_eq!(policy.next_timeout(), None);
    }

    #[test]
    fn late_segment_is_not_copied_on_its_own_path_or_beyond_the_window() {
        let mut subflows = [subflow(SubflowId(0)), subflow(SubflowId(1))];
        subflows[0].oldest_unprotected = in_flight_since(0);
        subflows[1].in_flight = subflows[1].cwnd;
        let mut policy = DeadlineReinjection::default().build(1);
        let mut v = view(&subflows, false, Trigger::Timer);
        v.now = Instant::ZERO + Duration::from_millis(9);
        assert_eq!(policy.on_opportunity(&v), Action::Nothing);
        assert_eq!(
            policy.next_timeout(),
            None,
            "no timer that would fire indefinitely"
        );
    }

    #[test]
    fn deadline_respects_its_lower_and_upper_limits() {
        let subflows = [subflow(SubflowId(0))];
        let v = view(&subflows, false, Trigger::Ack);
        let of = |lower, hard| {
            let settings = DeadlineReinjection {
                lower_bound: Duration::from_micros(lower),
                hard_deadline: hard,
                ..DeadlineReinjection::default()
            };
            settings.deadline(&v).map(|d| d.as_micros())
        };
        assert_eq!(of(0, None), Some(560));
        assert_eq!(of(0, Some(Duration::from_micros(300))), Some(300));
        assert_eq!(of(1000, Some(Duration::from_micros(300))), Some(1000));
    }
}

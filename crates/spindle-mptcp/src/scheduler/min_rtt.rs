//! The scheduler of the papers: the lowest smoothed round-trip time.

use super::{Assignment, Decision, Scheduler, SchedulerFactory, View};

/// The subflow with room and the lowest smoothed RTT (mechanisms A0): "minrtt". Subflows without a measurement
/// sort last. Ties go to the lower identifier.
#[derive(Clone, Copy, Debug)]
pub struct MinRtt;

impl SchedulerFactory for MinRtt {
    fn name(&self) -> &str {
        "minrtt"
    }

    fn summary(&self) -> &str {
        "the subflow with room and the lowest smoothed RTT (mechanisms A0)"
    }

    fn build(&self) -> Box<dyn Scheduler> {
        Box::new(*self)
    }
}

impl Scheduler for MinRtt {
    fn pick(&mut self, view: &View<'_>) -> Decision {
        if view.unsent == 0 {
            return Decision::Wait;
        }
        let candidates = view.candidates.iter();
        let best = candidates.min_by_key(|c| (c.srtt.map_or(u64::MAX, |d| d.as_nanos()), c.id));
        best.map(|c| Assignment::new_data(c.id)).into()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{candidate, view};
    use super::*;
    use crate::types::SubflowId;

    #[test]
    fn min_rtt_picks_the_lowest_rtt_and_unmeasured_subflows_last() {
        let mut s = MinRtt.build();
        let list = [
            candidate(SubflowId(0), None, 0),
            candidate(SubflowId(1), Some(300), 0),
            candidate(SubflowId(2), Some(200), 0),
        ];
        assert_eq!(s.pick(&view(&list, 1)), Decision::new_data(SubflowId(2)));
        assert_eq!(
            s.pick(&view(&list[..1], 1)),
            Decision::new_data(SubflowId(0))
        );
        assert_eq!(s.pick(&view(&list, 0)), Decision::Wait);
    }
}

//! FUSO: copies the segment that is most likely lost from the worst subflow over the best subflow (FUSO section
//! 3).

use std::sync::Arc;

use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::choice::{self, Apart};
use super::{
    Action, Capabilities, Eligibility, PathMetric, Prospect, Recovery, RecoveryFactory, View,
    Window, WorstOf,
};

/// FUSO's policy; the value is also its own factory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fuso {
    /// The path metric.
    pub metric: PathMetric,
    /// Which segments may be copied.
    pub eligibility: Eligibility,
    /// The subflows among which the worst is chosen.
    pub worst_of: WorstOf,
    /// The best subflow is never the worst itself; the paper allows that (FUSO section 3.2.1).
    pub elsewhere: bool,
    /// Among the best subflows, which the metric considers equal, one that is not the worst itself is preferred
    /// to the one with the lower identifier (mechanisms A1.2 has the identifier).
    pub ties_elsewhere: bool,
}

#[derive(Debug)]
struct FusoPolicy {
    settings: Fuso,
    rng: Xoshiro256PlusPlus,
}

impl RecoveryFactory for Fuso {
    fn build(&self, seed: u64) -> Box<dyn Recovery> {
        Box::new(FusoPolicy {
            settings: *self,
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
        })
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    fn for_unmodified_receivers(&self) -> Option<Arc<dyn RecoveryFactory>> {
        Some(Arc::new(Self {
            eligibility: Eligibility::NotDataAcked,
            ..*self
        }))
    }
}

impl Recovery for FusoPolicy {
    fn eligibility(&self) -> Eligibility {
        self.settings.eligibility
    }

    fn is_interested(&self, prospect: &Prospect) -> bool {
        choice::should_recover(prospect, self.settings.eligibility)
    }

    fn on_opportunity(&mut self, view: &View<'_>) -> Action {
        if !self.is_interested(&view.prospect()) {
            return Action::Nothing;
        }
        let settings = &self.settings;
        let Some(worst) = choice::worst(view, settings.worst_of, &settings.metric) else {
            return Action::Nothing;
        };
        let Some(segment) = worst.oldest_unprotected else {
            return Action::Nothing;
        };
        let held_back = choice::is_held_back(view, worst.id, settings.eligibility);
        let apart = Apart {
            always: held_back || settings.elsewhere,
            on_ties: settings.ties_elsewhere,
        };
        let bytes = u64::from(segment.len);
        let ranking = &settings.metric;
        let best = choice::best(view, worst.id, bytes, apart, ranking, &mut self.rng);
        let Some(best) = best else {
            return Action::Nothing;
        };
        Action::Copy {
            of: worst.id,
            position: segment.position,
            on: best.id,
            window: Window::Inside,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{subflow, view};
    use super::*;
    use crate::recovery::{SegmentView, Trigger};
    use crate::types::{DataOffset, SubflowId, SubflowPosition};
    use spindle_units::Instant;

    fn eligible(position: u64) -> Option<SegmentView> {
        Some(SegmentView {
            position: SubflowPosition(position),
            len: 1000,
            offset: DataOffset(position),
            sent_at: Instant::ZERO,
            retransmitted: false,
        })
    }

    #[test]
    fn oldest_segment_of_the_worst_subflow_is_copied_over_the_best() {
        let mut subflows = [
            subflow(SubflowId(0)),
            subflow(SubflowId(1)),
            subflow(SubflowId(2)),
        ];
        subflows[1].retransmitted = 1;
        subflows[1].oldest_unprotected = eligible(4001);
        subflows[2].oldest_unprotected = eligible(1);
        let mut policy = Fuso::default().build(1);
        let action = policy.on_opportunity(&view(&subflows, false, Trigger::Ack));
        assert_eq!(
            action,
            Action::Copy {
                of: SubflowId(1),
                position: SubflowPosition(4001),
                on: SubflowId(0),
                window: Window::Inside
            }
        );
    }

    #[test]
    fn new_data_or_full_windows_or_no_trigger_prevent_a_copy() {
        let mut subflows = [subflow(SubflowId(0)), subflow(SubflowId(1))];
        subflows[1].oldest_unprotected = eligible(1);
        let mut policy = Fuso::default().build(1);
        assert_eq!(
            policy.on_opportunity(&view(&subflows, true, Trigger::Ack)),
            Action::Nothing
        );
        assert_eq!(
            policy.on_opportunity(&view(&subflows, false, Trigger::Timer)),
            Action::Nothing
        );
        for s in &mut subflows {
            s.in_flight = s.cwnd;
        }
        assert_eq!(
            policy.on_opportunity(&view(&subflows, false, Trigger::Ack)),
            Action::Nothing
        );
    }

    #[test]
    fn window_blocked_data_prevent_a_copy_only_for_modified_receivers() {
        let mut subflows = [subflow(SubflowId(0)), subflow(SubflowId(1))];
        subflows[1].oldest_unprotected = eligible(1);
        let blocked = View {
            window_blocked: true,
            ..view(&subflows, true, Trigger::Ack)
        };
        let fuso = Fuso::default();
        assert_eq!(fuso.build(1).on_opportunity(&blocked), Action::Nothing);
        let towards_held = fuso.for_unmodified_receivers().expect("a variant");
        assert!(matches!(
            towards_held.build(1).on_opportunity(&blocked),
            Action::Copy {
                of: SubflowId(1),
                on: SubflowId(0),
                ..
            }
        ));
    }

    /// For a receiver that holds back data that are out of order within their subflow, a copy on the same
    /// subflow is of no use, and no second copy is made.
    #[test]
    fn no_copy_is_sent_on_the_same_subflow_while_the_other_is_paced() {
        let mut subflows = [subflow(SubflowId(0)), subflow(SubflowId(1))];
        subflows[0].oldest_unprotected = eligible(1);
        subflows[0].retransmitted = 1;
        subflows[1].paced = true;
        let policy = || {
            let held_back = Fuso::default().for_unmodified_receivers();
            held_back.expect("a variant").build(1)
        };
        let v = view(&subflows, false, Trigger::Ack);
        assert_eq!(policy().on_opportunity(&v), Action::Nothing);
        subflows[1].paced = false;
        let v = view(&subflows, false, Trigger::Ack);
        let action = policy().on_opportunity(&v);
        assert!(matches!(
            action,
            Action::Copy {
                of: SubflowId(0),
                on: SubflowId(1),
                ..
            }
        ));
    }

    #[test]
    fn best_and_worst_subflow_may_be_the_same() {
        let mut subflows = [subflow(SubflowId(0))];
        subflows[0].oldest_unprotected = eligible(1);
        let action =
            Fuso::default()
                .build(1)
                .on_opportunity(&view(&subflows, false, Trigger::AppDrained));
        assert_eq!(
            action,
            Action::Copy {
                of: SubflowId(0),
                position: SubflowPosition(1),
                on: SubflowId(0),
                window: Window::Inside
            }
        );
    }

    #[test]
    fn choice_among_subflows_that_never_sent_is_random_but_repeatable() {
        let mut subflows = [
            subflow(SubflowId(0)),
            subflow(SubflowId(1)),
            subflow(SubflowId(2)),
        ];
        subflows[0].in_flight = subflows[0].cwnd;
        subflows[0].oldest_unprotected = eligible(1);
        subflows[1].sent = 0;
        subflows[2].sent = 0;
        let chosen = |seed| match Fuso::default().build(seed).on_opportunity(&view(
            &subflows,
            false,
            Trigger::Ack,
        )) {
            Action::Copy { on, .. } => on,
            other => panic!("{other:?}"),
        };
        let picks: Vec<_> = (0..64).map(chosen).collect();
        assert!(picks.contains(&SubflowId(1)) && picks.contains(&SubflowId(2)));
        assert_eq!(picks, (0..64).map(chosen).collect::<Vec<_>>());
    }

    #[test]
    fn ties_elsewhere_prefers_a_subflow_other_than_the_worst() {
        let mut subflows = [subflow(SubflowId(0)), subflow(SubflowId(1))];
        subflows[0].oldest_unprotected = eligible(1);
        let v = view(&subflows, false, Trigger::Ack);
        for (ties_elsewhere, on) in [(false, SubflowId(0)), (true, SubflowId(1))] {
            let settings = Fuso {
                ties_elsewhere,
                ..Fuso::default()
            };
            let action = settings.build(1).on_opportunity(&v);
            assert!(matches!(action, Action::Copy { of: SubflowId(0), on: o, .. } if o == on));
        }
    }

    #[test]
    fn each_setting_changes_its_own_rule() {
        let mut subflows = [subflow(SubflowId(0)), subflow(SubflowId(1))];
        subflows[0].oldest_unprotected = eligible(1);
        subflows[1].retransmitted = 1;
        subflows[1].in_flight = 1000;
        let v = view(&subflows, false, Trigger::Ack);
        let on = |settings: Fuso| match settings.build(1).on_opportunity(&v) {
            Action::Copy { of, on, .. } => Some((of, on)),
            _ => None,
        };
        assert_eq!(on(Fuso::default()), Some((SubflowId(0), SubflowId(0))));
        let elsewhere = Fuso {
            elsewhere: true,
            ..Fuso::default()
        };
        assert_eq!(on(elsewhere), Some((SubflowId(0), SubflowId(1))));
        let ties = Fuso {
            ties_elsewhere: true,
            ..Fuso::default()
        };
        assert_eq!(
            on(ties),
            Some((SubflowId(0), SubflowId(0))),
            "no tie: the other one has had a loss"
        );
        let literal = Fuso {
            worst_of: WorstOf::InFlight,
            ..Fuso::default()
        };
        assert_eq!(on(literal), None, "the worst has nothing to copy");
    }
}

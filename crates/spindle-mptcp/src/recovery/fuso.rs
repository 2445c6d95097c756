//! FUSO: copy what is most likely lost from the worst subflow over the best (FUSO section 3).

use std::sync::Arc;

use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{
    Action, Eligibility, PathMetric, Prospect, Recovery, RecoveryFactory, SubflowView, Trigger,
    View, Window,
};
use crate::random::reduce;
use crate::subflow::SubflowId;

/// Among which subflows the worst is looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WorstOf {
    /// Those with a segment that may be copied (catalogue A1.3, our choice).
    #[default]
    Copyable,
    /// Those with data in flight, as the paper has it to the letter: if the worst of them has nothing
    /// to copy, there is no recovery now, as in the authors' code.
    InFlight,
}

/// FUSO's policy; the value is also its own factory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fuso {
    /// The path metric.
    pub metric: PathMetric,
    /// What may be copied.
    pub eligibility: Eligibility,
    /// Among which subflows the worst is looked for.
    pub worst_of: WorstOf,
    /// The best subflow is never the worst itself; the paper allows that (FUSO section 3.2.1).
    pub elsewhere: bool,
    /// Among best subflows that the metric holds for equal one that is not the worst itself goes before
    /// the lower identifier (catalogue A1.2 has the identifier).
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

    fn as_fuso(&self) -> Option<Fuso> {
        Some(*self)
    }

    fn for_unmodified_receivers(&self) -> Option<Arc<dyn RecoveryFactory>> {
        Some(Arc::new(Self {
            eligibility: Eligibility::NotDataAcked,
            ..*self
        }))
    }
}

impl FusoPolicy {
    /// argmax of C_l over the subflows with an eligible segment.
    fn worst<'a>(&self, view: &'a View<'_>) -> Option<&'a SubflowView> {
        let of = self.settings.worst_of;
        let candidates = view.subflows.iter().filter(|s| match of {
            WorstOf::Copyable => s.oldest_unprotected.is_some(),
            WorstOf::InFlight => s.in_flight > 0,
        });
        candidates.max_by(|a, b| self.settings.metric.worse(a, b))
    }

    /// argmin of C_l over the subflows with room; random if none of them has ever sent.
    ///
    /// A receiver that holds back what is out of order in its subflow cannot hand up a copy on
    /// subflow `of` before the original: there it goes only if no other subflow is usable. On a lone
    /// subflow it does not go at all: were MPTCP's options to vanish at that moment, such a receiver
    /// would fall back and take the copy for what follows.
    fn best<'a>(
        &mut self,
        view: &'a View<'_>,
        of: SubflowId,
        bytes: u64,
    ) -> Option<&'a SubflowView> {
        let alone = view.subflows.len() == 1;
        let others = view.subflows.iter().any(|s| s.usable && s.id != of);
        let Fuso {
            metric,
            eligibility,
            ..
        } = self.settings;
        let held_back = (alone || others) && eligibility == Eligibility::NotDataAcked;
        let elsewhere = held_back || self.settings.elsewhere;
        let candidates = || {
            let usable = view.subflows.iter().filter(|s| s.has_room(bytes));
            usable.filter(|s| !(elsewhere && s.id == of))
        };
        let mut best = candidates().min_by(|a, b| metric.better(a, b))?;
        if self.settings.ties_elsewhere && best.id == of {
            let equal = candidates().find(|s| s.id != of && metric.is_tie(s, best));
            best = equal.unwrap_or(best);
        }
        if !metric.draws_among_unknown() || metric.cost(best).is_finite() {
            return Some(best);
        }
        let n = candidates().count() as u64;
        let k = reduce(self.rng.next_u64(), n) as usize;
        candidates().nth(k)
    }
}

impl Recovery for FusoPolicy {
    fn eligibility(&self) -> Eligibility {
        self.settings.eligibility
    }

    fn is_interested(&self, prospect: &Prospect) -> bool {
        // A1.1, rule 2: two trigger points, no timer.
        let triggers = prospect.triggers;
        let triggered = triggers.contains(Trigger::Ack) || triggers.contains(Trigger::AppDrained);
        // Ours: a window that such a receiver's held data fill is opened only by filling the hole.
        let waits = self.eligibility() == Eligibility::NotDataAcked && prospect.window_blocked;
        let new_data = prospect.new_data && !waits;
        triggered && !new_data && prospect.room && prospect.outstanding
    }

    fn on_opportunity(&mut self, view: &View<'_>) -> Action {
        if !self.is_interested(&view.prospect()) {
            return Action::Nothing;
        }
        let Some(worst) = self.worst(view) else {
            return Action::Nothing;
        };
        let Some(segment) = worst.oldest_unprotected else {
            return Action::Nothing;
        };
        let Some(best) = self.best(view, worst.id, u64::from(segment.len)) else {
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
    use crate::recovery::SegmentView;
    use spindle_units::Instant;

    fn eligible(position: u64) -> Option<SegmentView> {
        Some(SegmentView {
            position,
            len: 1000,
            offset: position,
            sent_at: Instant::ZERO,
        })
    }

    #[test]
    fn the_oldest_segment_of_the_worst_goes_over_the_best() {
        let mut subflows = [subflow(0), subflow(1), subflow(2)];
        subflows[1].retransmitted = 1;
        subflows[1].oldest_unprotected = eligible(4001);
        subflows[2].oldest_unprotected = eligible(1);
        let mut policy = Fuso::default().build(1);
        let action = policy.on_opportunity(&view(&subflows, false, Trigger::Ack));
        assert_eq!(
            action,
            Action::Copy {
                of: 1,
                position: 4001,
                on: 0,
                window: Window::Inside
            }
        );
    }

    #[test]
    fn new_data_a_full_window_or_no_trigger_stop_it() {
        let mut subflows = [subflow(0), subflow(1)];
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
    fn data_behind_a_full_window_stop_it_only_for_modified_receivers() {
        let mut subflows = [subflow(0), subflow(1)];
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
            Action::Copy { of: 1, on: 0, .. }
        ));
    }

    #[test]
    fn best_and_worst_may_be_one() {
        let mut subflows = [subflow(0)];
        subflows[0].oldest_unprotected = eligible(1);
        let action =
            Fuso::default()
                .build(1)
                .on_opportunity(&view(&subflows, false, Trigger::AppDrained));
        assert_eq!(
            action,
            Action::Copy {
                of: 0,
                position: 1,
                on: 0,
                window: Window::Inside
            }
        );
    }

    #[test]
    fn among_subflows_that_never_sent_the_choice_is_random_but_reproducible() {
        let mut subflows = [subflow(0), subflow(1), subflow(2)];
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
        assert!(picks.contains(&1) && picks.contains(&2));
        assert_eq!(picks, (0..64).map(chosen).collect::<Vec<_>>());
    }

    #[test]
    fn a_tie_may_be_settled_in_favour_of_another_path() {
        let mut subflows = [subflow(0), subflow(1)];
        subflows[0].oldest_unprotected = eligible(1);
        let v = view(&subflows, false, Trigger::Ack);
        for (ties_elsewhere, on) in [(false, 0), (true, 1)] {
            let settings = Fuso {
                ties_elsewhere,
                ..Fuso::default()
            };
            let action = settings.build(1).on_opportunity(&v);
            assert!(matches!(action, Action::Copy { of: 0, on: o, .. } if o == on));
        }
    }

    #[test]
    fn rules_may_be_changed_one_by_one() {
        let mut subflows = [subflow(0), subflow(1)];
        subflows[0].oldest_unprotected = eligible(1);
        subflows[1].retransmitted = 1;
        subflows[1].in_flight = 1000;
        let v = view(&subflows, false, Trigger::Ack);
        let on = |settings: Fuso| match settings.build(1).on_opportunity(&v) {
            Action::Copy { of, on, .. } => Some((of, on)),
            _ => None,
        };
        assert_eq!(on(Fuso::default()), Some((0, 0)));
        let elsewhere = Fuso {
            elsewhere: true,
            ..Fuso::default()
        };
        assert_eq!(on(elsewhere), Some((0, 1)));
        let ties = Fuso {
            ties_elsewhere: true,
            ..Fuso::default()
        };
        assert_eq!(on(ties), Some((0, 0)), "no tie: the other one has lost");
        let literal = Fuso {
            worst_of: WorstOf::InFlight,
            ..Fuso::default()
        };
        assert_eq!(on(literal), None, "the worst has nothing to copy");
    }
}

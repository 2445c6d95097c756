//! Every byte on every subflow.

use super::{Assignment, Decision, Portion, Scheduler, SchedulerFactory, View};

/// Every byte on every subflow: "redundant".
#[derive(Clone, Copy, Debug)]
pub struct Redundant;

impl SchedulerFactory for Redundant {
    fn name(&self) -> &str {
        "redundant"
    }

    fn summary(&self) -> &str {
        "every byte on every subflow"
    }

    fn build(&self) -> Box<dyn Scheduler> {
        Box::new(*self)
    }
}

impl Scheduler for Redundant {
    fn repeats(&self) -> bool {
        true
    }

    fn pick(&mut self, view: &View<'_>) -> Decision {
        let (acked, sent) = (view.acked_to, view.sent_to);
        let candidates = view.candidates.iter();
        let behind = candidates
            .filter(|c| c.carried_to.max(acked) < sent)
            .min_by_key(|c| (c.carried_to, c.id));
        if let Some(c) = behind {
            return Decision::Assign(Assignment {
                subflow: c.id,
                portion: Portion::Again(c.carried_to.max(acked)),
            });
        }
        let first = view.candidates.first().filter(|_| view.unsent > 0);
        first.map(|c| Assignment::new_data(c.id)).into()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{candidate, view};
    use super::*;
    use crate::types::{DataOffset, SubflowId};

    #[test]
    fn redundant_resends_data_that_a_subflow_has_not_carried() {
        let mut s = Redundant.build();
        let list = [
            candidate(SubflowId(0), None, 3000),
            candidate(SubflowId(1), None, 1000),
        ];
        let acked = |to| View {
            acked_to: DataOffset(to),
            sent_to: DataOffset(3000),
            ..view(&list, 5)
        };
        let again = |from| {
            Decision::Assign(Assignment {
                subflow: SubflowId(1),
                portion: Portion::Again(DataOffset(from)),
            })
        };
        assert_eq!(s.pick(&acked(0)), again(1000));
        assert_eq!(s.pick(&acked(2000)), again(2000));
        assert_eq!(s.pick(&acked(3000)), Decision::new_data(SubflowId(0)));
    }
}

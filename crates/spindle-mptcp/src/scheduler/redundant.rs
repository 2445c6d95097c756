//! Every byte on every subflow.

use super::{Assignment, Candidate, Scheduler, SchedulerFactory};
use crate::types::DataOffset;

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

    fn pick(
        &mut self,
        candidates: &[Candidate],
        acked: DataOffset,
        sent: DataOffset,
        unsent: u64,
    ) -> Option<Assignment> {
        let behind = candidates
            .iter()
            .filter(|c| c.carried_to.max(acked) < sent)
            .min_by_key(|c| (c.carried_to, c.id));
        if let Some(c) = behind {
            return Some(Assignment {
                subflow: c.id,
                again_from: Some(c.carried_to.max(acked)),
            });
        }
        if unsent == 0 {
            return None;
        }
        Some(Assignment::new_data(candidates.first()?.id))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::candidate;
    use super::*;
    use crate::types::SubflowId;

    #[test]
    fn redundant_resends_data_that_a_subflow_has_not_carried() {
        let mut s = Redundant.build();
        let list = [
            candidate(SubflowId(0), None, 3000),
            candidate(SubflowId(1), None, 1000),
        ];
        assert_eq!(
            s.pick(&list, DataOffset(0), DataOffset(3000), 5),
            Some(Assignment {
                subflow: SubflowId(1),
                again_from: Some(DataOffset(1000))
            })
        );
        assert_eq!(
            s.pick(&list, DataOffset(2000), DataOffset(3000), 5),
            Some(Assignment {
                subflow: SubflowId(1),
                again_from: Some(DataOffset(2000))
            })
        );
        assert_eq!(
            s.pick(&list, DataOffset(3000), DataOffset(3000), 5),
            Some(Assignment::new_data(SubflowId(0)))
        );
    }
}

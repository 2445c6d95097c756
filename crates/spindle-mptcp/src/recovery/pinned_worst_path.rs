//! A policy whose worst subflow is given in advance, for experiments that exclude its choice (CoFUSO section
//! 6.1.1, Fig 9a: "we ensure that both always find this sub-flow as the worst").

use std::sync::Arc;

use spindle_units::Instant;

use super::{
    Action, Capabilities, DropView, Eligibility, Prospect, Recovery, RecoveryFactory,
    RecoveryReceiver, SentView, SubflowView, View,
};
use crate::types::SubflowId;

/// Wraps another policy. As long as there is something to protect on the given subflow, the policy is shown
/// nothing to protect on any other subflow. The rest of the view is unchanged, so the policy chooses the best
/// subflow itself.
#[derive(Clone, Debug)]
pub struct PinnedWorstPath {
    /// The wrapped policy.
    pub policy: Arc<dyn RecoveryFactory>,
    /// The subflow that is the worst.
    pub worst: SubflowId,
}

#[derive(Debug)]
struct PinnedWorstPolicy {
    policy: Box<dyn Recovery>,
    worst: SubflowId,
    /// The subflows that the wrapped policy is shown.
    subflows: Vec<SubflowView>,
}

// A method with a default that is not forwarded would change the wrapped policy.
#[deny(clippy::missing_trait_methods)]
impl RecoveryFactory for PinnedWorstPath {
    fn build(&self, seed: u64) -> Box<dyn Recovery> {
        Box::new(PinnedWorstPolicy {
            policy: self.policy.build(seed),
            worst: self.worst,
            subflows: Vec::new(),
        })
    }

    fn capabilities(&self) -> Capabilities {
        self.policy.capabilities()
    }

    fn for_unmodified_receivers(&self) -> Option<Arc<dyn RecoveryFactory>> {
        let policy = self.policy.for_unmodified_receivers()?;
        Some(Arc::new(Self {
            policy,
            worst: self.worst,
        }))
    }

    fn build_receiver(&self) -> Option<Box<dyn RecoveryReceiver>> {
        self.policy.build_receiver()
    }
}

// As above: every method is forwarded.
#[deny(clippy::missing_trait_methods)]
impl Recovery for PinnedWorstPolicy {
    fn on_sent(&mut self, sent: &SentView) {
        self.policy.on_sent(sent);
    }

    fn on_loss_hint(&mut self, now: Instant, subflow: SubflowId, timeout: bool) {
        self.policy.on_loss_hint(now, subflow, timeout);
    }

    fn on_subflow_ended(&mut self, subflow: SubflowId) {
        self.policy.on_subflow_ended(subflow);
    }

    fn on_drop(&mut self, drop: &DropView) -> Action {
        self.policy.on_drop(drop)
    }

    fn is_interested(&self, prospect: &Prospect) -> bool {
        self.policy.is_interested(prospect)
    }

    fn on_opportunity(&mut self, view: &View<'_>) -> Action {
        let worst = self.worst;
        let given = |s: &SubflowView| s.id == worst && s.oldest_unprotected.is_some();
        if !view.subflows.iter().any(given) {
            return self.policy.on_opportunity(view);
        }
        self.subflows.clear();
        self.subflows.extend_from_slice(view.subflows);
        for s in self.subflows.iter_mut().filter(|s| s.id != worst) {
            s.oldest_unprotected = None;
            s.uncoded = None;
        }
        self.policy.on_opportunity(&View {
            subflows: &self.subflows,
            ..*view
        })
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.policy.next_timeout()
    }

    fn eligibility(&self) -> Eligibility {
        self.policy.eligibility()
    }

    fn longest_block(&self) -> usize {
        self.policy.longest_block()
    }

    fn is_immediate(&self) -> bool {
        self.policy.is_immediate()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{subflow, view};
    use super::super::{Fuso, SegmentView, Trigger};
    use super::*;
    use crate::types::{DataOffset, SubflowPosition};

    #[test]
    fn given_subflow_is_the_worst_while_it_has_something_to_protect() {
        let mut subflows = [subflow(SubflowId(0)), subflow(SubflowId(1))];
        // The wrapped policy alone chooses the subflow with the loss.
        subflows[1].retransmitted = 1;
        for s in &mut subflows {
            s.oldest_unprotected = Some(SegmentView {
                position: SubflowPosition::FIRST_BYTE,
                len: 1000,
                offset: DataOffset(u64::from(s.id.0) * 1000),
                sent_at: Instant::ZERO,
                retransmitted: false,
            });
        }
        let of = |subflows: &[SubflowView], given: bool| {
            let fuso = Fuso::default();
            let policy: Arc<dyn RecoveryFactory> = Arc::new(fuso);
            let mut policy = match given {
                true => PinnedWorstPath {
                    policy,
                    worst: SubflowId(0),
                }
                .build(1),
                false => policy.build(1),
            };
            match policy.on_opportunity(&view(subflows, false, Trigger::Ack)) {
                Action::Copy { of, .. } => of,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(
            (of(&subflows, false), of(&subflows, true)),
            (SubflowId(1), SubflowId(0))
        );
        subflows[0].oldest_unprotected = None;
        assert_eq!(of(&subflows, true), SubflowId(1));
    }
}

//! The data path's part in a handover of its link's wire.

use std::io;

use super::{Driver, take};
use crate::handover::{Outcome, Step, unsupported};

impl Driver {
    /// Does a step of a handover.
    pub(super) fn hand_over(&mut self, step: Step) -> io::Result<Outcome> {
        // Nothing that was read before may stay unhandled.
        self.settle();
        let link = self.link.handover().ok_or_else(unsupported)?;
        let mut outcome = Outcome::default();
        match step {
            Step::Offer => outcome.descriptors = link.offer()?,
            Step::Leave(successor) => {
                link.leave(successor)?;
                outcome.half_open = self.stack.half_open_ends();
            }
            Step::Return => link.resume()?,
            Step::Begin(predecessor) => link.begin(predecessor)?,
            Step::End => {
                let now = self.clock.now();
                outcome.ended = !link.has_predecessor()
                    && self.connections.nothing_left()
                    && self.stack.half_open() == 0
                    && !self.stack.awaits_cookies(now);
                if outcome.ended {
                    link.close();
                }
            }
        }
        Ok(outcome)
    }

    /// Handles packets of subflows that the link does not know, if they may belong to a predecessor.
    pub(super) fn settle(&mut self) {
        let Some(link) = self.link.handover() else {
            return;
        };
        let now = self.clock.now();
        let stack = &self.stack;
        let mut arrived = Vec::new();
        link.settle(now, &|packet| stack.expects(now, packet), &mut |arrival| {
            arrived.push(arrival);
        });
        for arrival in arrived {
            take(&mut self.stack, &mut self.path_signals, now, arrival);
        }
    }
}

//! The data path's part in a handover of its link's wire.

use std::io;

use spindle_wire::Packet;

use super::{Driver, Taker};
use crate::handover::{Outcome, Step, unsupported};
use crate::link::{Arrival, PacketSink};

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
                // What the predecessor has answered comes to it through this process.
                outcome.half_open.extend(link.half_open());
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
        let mut taker = Taker {
            stack: &mut self.stack,
            gate: &mut self.gate,
            signals: &mut self.path_signals,
            clock: self.clock,
        };
        link.settle(now, &mut taker);
    }
}

impl PacketSink for Taker<'_> {
    fn expects(&self, packet: &Packet) -> bool {
        self.stack.expects(self.clock.now(), packet)
    }

    fn take(&mut self, arrival: Arrival) {
        self.take(arrival);
    }
}

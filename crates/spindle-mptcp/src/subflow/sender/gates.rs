//! What may delay a segment that the windows allow: pacing and the host's output queue.

use spindle_units::Instant;

use super::output_queue::OutputQueue;
use super::pacing::{Pacer, PacingInput};
use crate::types::or_far_future;

/// The pacer and the output queue, each only if it is configured.
#[derive(Clone, Debug)]
pub(super) struct Gates {
    pacer: Option<Pacer>,
    output: Option<OutputQueue>,
}

impl Gates {
    /// A pacer if `pacing` is set, and an output queue of at most `output_limit` bytes.
    pub(super) fn new(pacing: bool, output_limit: Option<u64>) -> Self {
        Self {
            pacer: pacing.then(Pacer::default),
            output: output_limit.map(OutputQueue::new),
        }
    }

    /// Whether [`Self::are_open`] could ever return false.
    #[inline]
    pub(super) fn exist(&self) -> bool {
        self.pacer.is_some() || self.output.is_some()
    }

    /// Whether there is a pacer.
    #[inline]
    pub(super) fn pace(&self) -> bool {
        self.pacer.is_some()
    }

    /// Whether a segment may be sent now. If not, [`Self::deadline`] returns when it may.
    pub(super) fn are_open(&mut self, now: Instant, input: &PacingInput) -> bool {
        if let Some(output) = &mut self.output
            && !output.has_room(now)
        {
            return false;
        }
        self.pacer.as_mut().is_none_or(|p| p.may_send(now, input))
    }

    /// Bytes that may be sent in one burst.
    pub(super) fn quantum(&self, input: &PacingInput) -> u64 {
        self.pacer.map_or(u64::MAX, |p| p.quantum(input))
    }

    /// `bytes` were sent.
    pub(super) fn on_sent(&mut self, now: Instant, bytes: u64, input: &PacingInput) {
        if let Some(pacer) = &mut self.pacer {
            pacer.on_sent(now, bytes, input);
        }
    }

    /// `bytes` just sent will leave the host's output queue at time `leaves`.
    pub(super) fn on_handed_over(&mut self, bytes: u64, leaves: Instant) {
        if let Some(output) = &mut self.output {
            output.push(bytes, leaves);
        }
    }

    /// When the next segment may be sent, if one waits. [`Instant::FAR_FUTURE`] otherwise.
    #[inline(never)] // only with pacing or an output limit
    pub(super) fn deadline(&self) -> Instant {
        let paced = self.pacer.as_ref().and_then(Pacer::deadline);
        let held = self.output.as_ref().and_then(OutputQueue::deadline);
        or_far_future(paced).min(or_far_future(held))
    }

    /// Ends one wait whose time has come. Returns false if there is none.
    pub(super) fn on_deadline(&mut self, now: Instant) -> bool {
        if let Some(pacer) = &mut self.pacer
            && pacer.deadline().is_some_and(|t| t <= now)
        {
            pacer.on_deadline();
            return true;
        }
        if let Some(output) = &mut self.output
            && output.deadline().is_some_and(|t| t <= now)
        {
            output.on_deadline();
            return true;
        }
        false
    }
}

//! Prefetches a stack for segments that arrive soon (docs/performance.md). It changes no result.

use spindle_units::prefetch;
use spindle_wire::Segment;

use super::table::FourTuple;
use super::{Handle, Stack};

impl Stack {
    /// Number of steps of [`Self::prefetch`].
    pub const STEPS_AHEAD: u32 = 6;

    /// Prefetches into the processor's cache what a segment with these endpoints will need when it is
    /// [received](Self::receive). This has no effect on behaviour.
    ///
    /// It is for simulators, which know the segments that arrive soon. Each step follows a pointer that the
    /// step before prefetched. All segments should therefore take step 0 (the stack) first, then all step 1
    /// (the tuple), and likewise the steps for its slot, the connection, the subflow, and what the subflow
    /// points to.
    #[inline]
    pub fn prefetch(&mut self, segment: &Segment, step: u32) {
        let tuple: FourTuple = (segment.dst, segment.src);
        match step {
            0 => prefetch(self),
            1 => {
                self.table.find(&tuple);
                self.timers.prefetch_first();
            }
            _ => self.table.prefetch(&tuple, step - 2),
        }
    }

    /// The connection of a segment with these endpoints, if [`Self::prefetch`] found it recently.
    #[inline]
    pub fn prefetched(&self, segment: &Segment) -> Option<Handle> {
        self.table.prefetched(&(segment.dst, segment.src))
    }
}

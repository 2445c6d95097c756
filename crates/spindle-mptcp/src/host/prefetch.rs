//! Prefetches a stack for packets that arrive soon (docs/performance.md). It changes no result.

use spindle_units::prefetch;
use spindle_wire::Packet;

use super::table::FourTuple;
use super::{Handle, Stack};

impl Stack {
    /// Number of steps of [`Self::prefetch`].
    pub const STEPS_AHEAD: u32 = 6;

    /// Prefetches into the processor's cache what a packet with these endpoints will need when it is
    /// [received](Self::receive). This has no effect on behaviour.
    ///
    /// It is for simulators, which know the packets that arrive soon. Each step follows a pointer that the
    /// step before prefetched. All packets should therefore take step 0 (the stack) first, then all step 1
    /// (the tuple), and likewise the steps for its slot, the connection, the subflow, and what the subflow
    /// points to.
    #[inline]
    pub fn prefetch(&mut self, packet: &Packet, step: u32) {
        let tuple: FourTuple = (packet.dst(), packet.src());
        match step {
            0 => prefetch(self),
            1 => {
                self.table.find(&tuple);
                self.timers.prefetch_first();
            }
            _ => self.table.prefetch(&tuple, step - 2),
        }
    }

    /// The connection of a packet with these endpoints, if [`Self::prefetch`] found it recently.
    #[inline]
    pub fn prefetched(&self, packet: &Packet) -> Option<Handle> {
        self.table.prefetched(&(packet.dst(), packet.src()))
    }
}

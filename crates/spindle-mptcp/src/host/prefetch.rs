//! Prefetches a stack for packets that arrive soon (docs/performance.md). It changes no result.

use spindle_wire::Packet;

use super::{Handle, Stack};
use crate::types::SubflowId;

/// Where a packet that arrives soon will be processed, according to [`Stack::expect`].
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    slot: u32,
    subflow: SubflowId,
}

impl Stack {
    /// Number of steps of [`Self::prefetch`].
    pub const PREFETCH_STEPS: u32 = 4;

    /// Finds where a packet that arrives soon will be processed, and prefetches what all packets need. The
    /// stack itself should have been prefetched before. `None` if no connection will receive the packet.
    #[inline]
    pub fn expect(&mut self, packet: &Packet) -> Option<Expected> {
        self.timers.prefetch_first();
        let (slot, subflow) = self.table.find(&(packet.dst(), packet.src()))?;
        Some(Expected { slot, subflow })
    }

    /// The connection that will receive an expected packet. `None` if it no longer exists.
    #[inline]
    pub fn expected_at(&self, expected: Expected) -> Option<Handle> {
        self.table.handle(expected.slot)
    }

    /// Prefetches into the processor's cache what an expected packet will need when it is
    /// [received](Self::receive). This has no effect on behaviour.
    ///
    /// It is for simulators, which know the packets that arrive soon. Each step follows a pointer that the
    /// step before prefetched: to the connection's slot, the connection, the subflow, and what the subflow
    /// points to. All packets should therefore take step 0 first, then all step 1, and so on up to
    /// [`Self::PREFETCH_STEPS`].
    #[inline]
    pub fn prefetch(&self, expected: Expected, step: u32) {
        if step == 0 {
            self.table.prefetch(expected.slot);
        } else if let Some(c) = self.table.connection(expected.slot) {
            c.prefetch(expected.subflow, step - 1);
        }
    }
}

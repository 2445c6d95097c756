//! Prefetches a connection for a segment that arrives soon (docs/performance.md). It changes no result.

use spindle_units::prefetch;

use super::Connection;
use crate::types::SubflowId;

impl Connection {
    /// Prefetches what a segment of subflow `id` needs. Step 0 prefetches the connection, step 1 the subflow
    /// and other parts of the connection, and later steps the memory that the subflow points to.
    #[inline]
    pub(crate) fn prefetch(&self, id: SubflowId, step: u32) {
        match step {
            0 => prefetch(self),
            1 => {
                self.subflows.prefetch(id);
                self.policy.sender.as_deref().into_iter().for_each(prefetch);
                self.coupling.prefetch();
                self.send.prefetch();
            }
            _ => {
                self.index(id)
                    .into_iter()
                    .for_each(|i| self.subflows[i].prefetch());
            }
        }
    }
}

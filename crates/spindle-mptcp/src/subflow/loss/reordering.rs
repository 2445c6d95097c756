//! A duplicate-ACK threshold that rises if segments were reordered and not lost.

/// The extent of reordering seen on a subflow.
///
/// RR-TCP (Zhang, Karp, Floyd and Peterson 2003) measures the reordering behind every retransmission that a
/// D-SACK shows to be unnecessary. This type does the same. It never lowers the threshold again, since flows
/// short enough to scatter see too few such events to learn from (MMPTCP section 2.4).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reordering {
    /// Number of segments beyond the oldest hole that had arrived when the hole was last closed, in this
    /// recovery.
    extent: u32,
    /// The threshold that would have prevented the unnecessary retransmission. 0 before any is known.
    pub(crate) raised: u32,
}

impl Reordering {
    /// Recovery begins.
    pub(crate) fn on_recovery(&mut self) {
        self.extent = 0;
    }

    /// The oldest hole was closed after `beyond` segments behind it had arrived.
    pub(crate) fn on_closed(&mut self, beyond: u32) {
        self.extent = self.extent.max(beyond);
    }

    /// A D-SACK reported an unnecessary retransmission. The threshold rises to at most `most`.
    pub(crate) fn on_needless(&mut self, most: Option<u32>) {
        if let Some(most) = most {
            self.raised = self.raised.max(self.extent.saturating_add(1).min(most));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threshold_rises_to_the_observed_reordering_up_to_its_maximum() {
        let mut r = Reordering::default();
        r.on_closed(4);
        r.on_needless(None);
        assert_eq!(r.raised, 0, "not configured");
        r.on_needless(Some(30));
        assert_eq!(r.raised, 5);
        r.on_recovery();
        r.on_closed(2);
        r.on_needless(Some(30));
        assert_eq!(r.raised, 5, "never lowered");
        r.on_closed(40);
        r.on_needless(Some(30));
        assert_eq!(r.raised, 30);
    }
}

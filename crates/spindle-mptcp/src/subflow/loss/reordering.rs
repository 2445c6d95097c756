//! A duplicate-ACK threshold that rises where segments turn out to have been reordered, not lost.

/// How far segments of a subflow were seen to overtake each other.
///
/// RR-TCP (Zhang, Karp, Floyd and Peterson 2003) measures the reordering behind every repeat that a
/// D-SACK shows to have been needless. So does this; it never lowers the threshold again, since flows
/// short enough to scatter see too few such events to learn from (MMPTCP section 2.4).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reordering {
    /// Segments beyond the oldest hole that had arrived when it was last closed, in this recovery.
    extent: u32,
    /// The threshold that would have kept quiet; 0 before any is known.
    pub(crate) raised: u32,
}

impl Reordering {
    /// Recovery begins.
    pub(crate) fn on_recovery(&mut self) {
        self.extent = 0;
    }

    /// The oldest hole was closed while `beyond` segments behind it had arrived.
    pub(crate) fn on_closed(&mut self, beyond: u32) {
        self.extent = self.extent.max(beyond);
    }

    /// A D-SACK says that a repeat was needless; the threshold rises to `most` at most.
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
    fn the_threshold_rises_to_what_would_have_kept_quiet_and_no_further() {
        let mut r = Reordering::default();
        r.on_closed(4);
        r.on_needless(None);
        assert_eq!(r.raised, 0, "not asked for");
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

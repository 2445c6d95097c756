//! Undo of spurious retransmissions by D-SACK (RFC 2883, RFC 3708).

use crate::types::SubflowPosition;

/// Counts the retransmissions of one recovery episode that D-SACKs have not yet reported as unnecessary.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Undo {
    episode: Option<(SubflowPosition, i64)>,
    repeated: bool,
    /// Deliberate verbatim repeats (proactive recovery). Their D-SACKs are no evidence.
    deliberate: u64,
}

impl Undo {
    /// An episode begins. `una` is the first unacknowledged position.
    pub(crate) fn begin(&mut self, una: SubflowPosition) {
        self.episode = Some((una, 0));
        self.repeated = false;
    }

    /// The evidence is no longer valid (RFC 3708: another timeout, or the episode ended long ago).
    pub(crate) fn end(&mut self) {
        self.episode = None;
    }

    pub(crate) fn on_repeat(&mut self) {
        if let Some((_, n)) = &mut self.episode {
            *n += 1;
            self.repeated = true;
        }
    }

    pub(crate) fn on_deliberate_repeat(&mut self) {
        self.deliberate += 1;
    }

    /// Processes a D-SACK for data from `left` on. Returns whether it counts as a spurious retransmission, and
    /// whether all retransmissions of the episode are now known to be unnecessary.
    pub(crate) fn on_dsack(&mut self, left: SubflowPosition) -> (bool, bool) {
        if self.deliberate > 0 {
            self.deliberate -= 1;
            return (false, false);
        }
        let Some((una, n)) = &mut self.episode else {
            return (true, false);
        };
        if left < *una {
            return (true, false);
        }
        *n -= 1;
        let all = self.repeated && *n <= 0;
        if all {
            self.episode = None;
        }
        (true, all)
    }
}

/// Bounds the cost of undoing. An undo visits the segments that were marked lost, and so does the next search
/// for losses. A peer can trigger both with a few acknowledgements. Each acknowledgement therefore earns a
/// limited credit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UndoCredit {
    /// Number of acknowledgements that had arrived when an undo was last requested.
    acknowledgements: u64,
    /// Number of segments that undos may still visit. Negative after an undo that visited more.
    left: i64,
}

impl Default for UndoCredit {
    fn default() -> Self {
        Self {
            acknowledgements: 0,
            left: Self::SAVED,
        }
    }
}

impl UndoCredit {
    /// Credit per acknowledgement, in visited segments.
    const PER_ACKNOWLEDGEMENT: i64 = 32;
    /// Number of times that an undo visits the segments: to remove marks, and to search for losses,
    /// retransmissions and holes from the first segment on.
    const PASSES: i64 = 4;
    /// Maximum credit in segments, and the credit of a new subflow.
    const SAVED: i64 = 4096;

    /// Whether the credit allows an undo after `acknowledgements` acknowledgements in total.
    pub(crate) fn grants(&mut self, acknowledgements: u64) -> bool {
        let new = i64::try_from(acknowledgements - self.acknowledgements).unwrap_or(i64::MAX);
        let more = new.saturating_mul(Self::PER_ACKNOWLEDGEMENT);
        self.left = self.left.saturating_add(more).min(Self::SAVED);
        self.acknowledgements = acknowledgements;
        self.left > 0
    }

    /// An undo visited `segments` segments.
    pub(crate) fn spend(&mut self, segments: u64) {
        let cost = i64::try_from(segments).unwrap_or(i64::MAX);
        self.left = self.left.saturating_sub(cost.saturating_mul(Self::PASSES));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undo_when_dsacks_report_every_retransmission_unnecessary() {
        let mut u = Undo::default();
        u.begin(SubflowPosition(1000));
        u.on_repeat();
        u.on_repeat();
        assert_eq!(u.on_dsack(SubflowPosition(1000)), (true, false));
        assert_eq!(u.on_dsack(SubflowPosition(2000)), (true, true));
    }

    #[test]
    fn number_of_undos_is_limited_by_acknowledgements() {
        let mut credit = UndoCredit::default();
        let mut granted = |acknowledgements, segments| {
            let granted = credit.grants(acknowledgements);
            if granted {
                credit.spend(segments);
            }
            granted
        };
        assert_eq!(
            (1..5000).filter(|n| granted(*n, 10_000)).count(),
            1 + 4,
            "one at once, which overdraws the credit, then one per 1250 acknowledgements"
        );
        assert!(
            (10_000..13_000).all(|n| granted(n, 8)),
            "undos of few segments cost no more than the credit"
        );
    }

    #[test]
    fn dsacks_for_deliberate_repeats_do_not_count_for_undo() {
        let mut u = Undo::default();
        u.begin(SubflowPosition(1000));
        u.on_repeat();
        u.on_deliberate_repeat();
        assert_eq!(u.on_dsack(SubflowPosition(1000)), (false, false));
        assert_eq!(u.on_dsack(SubflowPosition(1000)), (true, true));
    }
}

//! Undo of spurious retransmissions by D-SACK (RFC 2883, RFC 3708).

/// Counts the repeats of one recovery episode that D-SACKs have not yet reported needless.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Undo {
    episode: Option<(u64, i64)>,
    repeated: bool,
    /// Verbatim repeats made on purpose (proactive recovery): their D-SACKs say nothing.
    deliberate: u64,
}

impl Undo {
    /// An episode begins with `una` the first unacknowledged position.
    pub(crate) fn begin(&mut self, una: u64) {
        self.episode = Some((una, 0));
        self.repeated = false;
    }

    /// The evidence is gone (RFC 3708: a timeout on top, or the episode is long over).
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

    /// A D-SACK for data from `left` on. Returns whether it counts as a spurious retransmission,
    /// and whether all repeats of the episode are now known needless.
    pub(crate) fn on_dsack(&mut self, left: u64) -> (bool, bool) {
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

/// Bounds what undoing costs: it goes through all segments outstanding, as does the next look for losses, and
/// a peer can ask for both with a few acknowledgements. Each acknowledgement pays for some of that.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UndoCredit {
    /// Acknowledgements until the last undo, and what was left of their credit then.
    acknowledgements: u64,
    left: u64,
}

impl UndoCredit {
    /// What an acknowledgement pays for, in segments gone through: with one for each segment that is eight
    /// undos in a window of data, more than reordering brings about.
    const PER_ACKNOWLEDGEMENT: u64 = 32;
    /// Times that an undo goes through all segments: to take marks back, and to look for losses, repeats and
    /// holes from the first segment on.
    const PASSES: u64 = 4;
    /// Undos of all that is outstanding that can be saved up, at most.
    const SAVED: u64 = 4;

    /// Whether an undo is paid for, with `outstanding` segments and after so many acknowledgements in all; if
    /// so the credit is spent.
    pub(crate) fn spend(&mut self, acknowledgements: u64, outstanding: usize) -> bool {
        let cost = Self::PASSES * outstanding as u64;
        // Where there is little to go through nobody needs to count.
        let most = Self::SAVED * cost.max(1024);
        let more = Self::PER_ACKNOWLEDGEMENT * (acknowledgements - self.acknowledgements);
        let start = if self.acknowledgements == 0 { most } else { 0 };
        let credit = (self.left + more + start).min(most);
        self.acknowledgements = acknowledgements;
        let granted = credit >= cost;
        self.left = if granted { credit - cost } else { credit };
        granted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undone_when_every_repeat_was_needless() {
        let mut u = Undo::default();
        u.begin(1000);
        u.on_repeat();
        u.on_repeat();
        assert_eq!(u.on_dsack(1000), (true, false));
        assert_eq!(u.on_dsack(2000), (true, true));
    }

    #[test]
    fn undos_are_paid_for_by_acknowledgements() {
        let outstanding = 10_000;
        let mut credit = UndoCredit::default();
        let granted = |credit: &mut UndoCredit, from: u64| {
            (from..from + 5000)
                .filter(|n| credit.spend(*n, outstanding))
                .count()
        };
        assert_eq!(
            granted(&mut credit, 1),
            4 + 3,
            "four at once, then one for 1250 acknowledgements"
        );
        assert_eq!(granted(&mut credit, 5001), 4);
        let mut few = UndoCredit::default();
        assert!((1..1000).all(|n| few.spend(n, 8)));
    }

    #[test]
    fn deliberate_repeats_are_no_evidence() {
        let mut u = Undo::default();
        u.begin(1000);
        u.on_repeat();
        u.on_deliberate_repeat();
        assert_eq!(u.on_dsack(1000), (false, false));
        assert_eq!(u.on_dsack(1000), (true, true));
    }
}

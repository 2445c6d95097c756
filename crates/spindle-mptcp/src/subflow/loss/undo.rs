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

/// Bounds what undoing costs: it goes through what was found lost, as does the next look for losses, and a peer can
/// ask for both with a few acknowledgements. Each acknowledgement pays for some of that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UndoCredit {
    /// Acknowledgements that had come when an undo was last asked for.
    acknowledgements: u64,
    /// Segments that undos may still go through; below zero after an undo that went through more.
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
    /// What an acknowledgement pays for, in segments gone through.
    const PER_ACKNOWLEDGEMENT: i64 = 32;
    /// Times that an undo goes through the segments: to take marks back, and to look for losses, repeats and holes
    /// from the first segment on.
    const PASSES: i64 = 4;
    /// Segments that can be saved up, and that a new subflow has.
    const SAVED: i64 = 4096;

    /// Whether an undo is paid for after so many acknowledgements in all.
    pub(crate) fn grants(&mut self, acknowledgements: u64) -> bool {
        let new = i64::try_from(acknowledgements - self.acknowledgements).unwrap_or(i64::MAX);
        let more = new.saturating_mul(Self::PER_ACKNOWLEDGEMENT);
        self.left = self.left.saturating_add(more).min(Self::SAVED);
        self.acknowledgements = acknowledgements;
        self.left > 0
    }

    /// An undo went through so many segments.
    pub(crate) fn spend(&mut self, segments: u64) {
        let cost = i64::try_from(segments).unwrap_or(i64::MAX);
        self.left = self.left.saturating_sub(cost.saturating_mul(Self::PASSES));
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
            "one at once, which overdraws it, then one for 1250 acknowledgements"
        );
        assert!(
            (10_000..13_000).all(|n| granted(n, 8)),
            "few segments cost no more than is paid"
        );
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

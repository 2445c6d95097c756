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
    fn deliberate_repeats_are_no_evidence() {
        let mut u = Undo::default();
        u.begin(1000);
        u.on_repeat();
        u.on_deliberate_repeat();
        assert_eq!(u.on_dsack(1000), (false, false));
        assert_eq!(u.on_dsack(1000), (true, true));
    }
}

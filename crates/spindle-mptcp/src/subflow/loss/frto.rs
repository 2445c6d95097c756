//! F-RTO: detects whether a retransmission timeout was spurious (RFC 5682).

/// The state of F-RTO after a timeout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Frto {
    /// Not in progress.
    #[default]
    Off,
    /// Step 1 is done: only the first unacknowledged segment is retransmitted.
    Repeated,
    /// Step 2: that segment was acknowledged. Up to two new segments are sent instead of retransmissions.
    Probing,
}

/// The conclusion from an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrtoVerdict {
    /// Not decided yet.
    Wait,
    /// The timeout was genuine or cannot be classified: recovers as usual.
    Genuine,
    /// Segments sent before the timeout arrived, so the timeout was spurious.
    Spurious,
}

impl Frto {
    /// Whether retransmissions other than that of the first segment must wait.
    pub(crate) fn holds_repeats(self) -> bool {
        self != Self::Off
    }

    /// An acknowledgement arrived (RFC 5682, section 2.1 and, for SACK, 3.1).
    ///
    /// - `advanced`: it is cumulative for new data.
    /// - `complete`: it covers all data that were outstanding at the timeout.
    /// - `original`: it newly covers a segment that was never retransmitted.
    /// - `duplicate`: it is a duplicate ACK.
    pub(crate) fn on_ack(
        &mut self,
        advanced: bool,
        complete: bool,
        original: bool,
        duplicate: bool,
    ) -> FrtoVerdict {
        let verdict = match *self {
            Self::Off => return FrtoVerdict::Wait,
            Self::Repeated if complete || (duplicate && !original) => FrtoVerdict::Genuine,
            Self::Repeated if advanced => {
                *self = Self::Probing;
                return FrtoVerdict::Wait;
            }
            Self::Repeated => FrtoVerdict::Wait,
            Self::Probing if original => FrtoVerdict::Spurious,
            Self::Probing if advanced || duplicate => FrtoVerdict::Genuine,
            Self::Probing => FrtoVerdict::Wait,
        };
        if verdict != FrtoVerdict::Wait {
            *self = Self::Off;
        }
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeout_is_spurious_if_originals_are_acknowledged_in_step_2() {
        let mut f = Frto::Repeated;
        assert_eq!(f.on_ack(true, false, false, false), FrtoVerdict::Wait);
        assert_eq!(f, Frto::Probing);
        assert_eq!(f.on_ack(true, false, true, false), FrtoVerdict::Spurious);
        assert_eq!(f, Frto::Off);
    }

    #[test]
    fn timeout_is_genuine_if_either_step_gets_a_duplicate_ack() {
        let mut f = Frto::Repeated;
        assert_eq!(f.on_ack(false, false, false, true), FrtoVerdict::Genuine);
        let mut f = Frto::Probing;
        assert_eq!(f.on_ack(false, false, false, true), FrtoVerdict::Genuine);
    }

    #[test]
    fn timeout_counts_as_genuine_if_everything_is_acknowledged_at_once() {
        let mut f = Frto::Repeated;
        assert_eq!(f.on_ack(true, true, true, false), FrtoVerdict::Genuine);
    }
}

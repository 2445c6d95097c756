//! F-RTO: was the retransmission timeout spurious? (RFC 5682)

/// Where F-RTO stands after a timeout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Frto {
    /// Not in progress.
    #[default]
    Off,
    /// Step 1 done: only the first unacknowledged segment is repeated.
    Repeated,
    /// Step 2: that was acknowledged; up to two new segments leave instead of repeats.
    Probing,
}

/// What the sender is to do about an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrtoVerdict {
    /// Nothing new is known.
    Wait,
    /// The timeout was genuine, or it cannot be told: recover as usual.
    Genuine,
    /// Segments sent before the timeout arrived: it was spurious.
    Spurious,
}

impl Frto {
    /// Whether repeats other than the first segment's are to wait.
    pub(crate) fn holds_repeats(self) -> bool {
        self != Self::Off
    }

    /// An acknowledgement came (RFC 5682, section 2.1 and, for SACK, 3.1). `advanced`: it is
    /// cumulative for new data; `complete`: it covers all that was outstanding at the timeout;
    /// `original`: it newly covers a segment that was never repeated; `duplicate`.
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
    fn spurious_when_originals_arrive_after_the_repeat() {
        let mut f = Frto::Repeated;
        assert_eq!(f.on_ack(true, false, false, false), FrtoVerdict::Wait);
        assert_eq!(f, Frto::Probing);
        assert_eq!(f.on_ack(true, false, true, false), FrtoVerdict::Spurious);
        assert_eq!(f, Frto::Off);
    }

    #[test]
    fn genuine_on_a_duplicate_at_either_step() {
        let mut f = Frto::Repeated;
        assert_eq!(f.on_ack(false, false, false, true), FrtoVerdict::Genuine);
        let mut f = Frto::Probing;
        assert_eq!(f.on_ack(false, false, false, true), FrtoVerdict::Genuine);
    }

    #[test]
    fn nothing_can_be_told_when_all_is_acknowledged_at_once() {
        let mut f = Frto::Repeated;
        assert_eq!(f.on_ack(true, true, true, false), FrtoVerdict::Genuine);
    }
}

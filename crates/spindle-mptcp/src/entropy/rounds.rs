//! The share of marked segments in each round trip.

use super::EntropyView;
use crate::types::SubflowPosition;

/// The segments acknowledged in one round trip, and how many of them had a congestion mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MarkedShare {
    /// Acknowledged segments, marked or not.
    pub acknowledged: u64,
    /// Of these, marked segments.
    pub marked: u64,
}

impl MarkedShare {
    /// Whether more than `percent` % of the segments were marked.
    pub fn exceeds(&self, percent: u64) -> bool {
        self.marked * 100 > self.acknowledged * percent
    }

    /// Whether at least `percent` % of the segments were marked.
    pub fn reaches(&self, percent: u64) -> bool {
        self.marked * 100 >= self.acknowledged * percent
    }
}

/// Divides acknowledgements into rounds of one window each, as DCTCP's observation windows (RFC 8257, section 3.3): a
/// round ends when data are acknowledged that were sent after its beginning.
#[derive(Clone, Copy, Debug, Default)]
pub struct MarkedRounds {
    current: MarkedShare,
    end: SubflowPosition,
}

impl MarkedRounds {
    /// Counts an acknowledged segment. Returns the share of a round that ends with it.
    pub fn on_acknowledged(&mut self, view: &EntropyView, marked: bool) -> Option<MarkedShare> {
        self.current.acknowledged += 1;
        self.current.marked += u64::from(marked);
        if view.acked_to <= self.end {
            return None;
        }
        self.end = view.next;
        Some(std::mem::take(&mut self.current))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::view;
    use super::*;

    #[test]
    fn round_ends_when_data_sent_after_its_beginning_are_acknowledged() {
        let mut rounds = MarkedRounds::default();
        let share = |acknowledged, marked| {
            Some(MarkedShare {
                acknowledged,
                marked,
            })
        };
        // The first acknowledgement ends the empty round before the data.
        assert_eq!(
            rounds.on_acknowledged(&view(0, 101, 301), false),
            share(1, 0)
        );
        assert_eq!(rounds.on_acknowledged(&view(0, 201, 401), true), None);
        assert_eq!(rounds.on_acknowledged(&view(0, 301, 501), false), None);
        assert_eq!(
            rounds.on_acknowledged(&view(0, 401, 601), true),
            share(3, 2)
        );
        assert_eq!(rounds.on_acknowledged(&view(0, 601, 601), true), None);
    }

    #[test]
    fn share_is_compared_with_both_kinds_of_threshold() {
        let share = |acknowledged, marked| MarkedShare {
            acknowledged,
            marked,
        };
        assert!(share(4, 2).reaches(50) && !share(4, 2).exceeds(50));
        assert!(!share(5, 2).reaches(50));
        assert!(share(20, 2).exceeds(5) && !share(20, 1).exceeds(5));
    }
}

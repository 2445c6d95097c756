//! The queue at the end of a round.

use spindle_units::Duration;

use super::super::AckSample;
use crate::types::SubflowPosition;

/// The smallest round-trip time of the second half of a round.
///
/// A window that grows by several segments at once sends them as a burst. The first one still meets the queue of the
/// smaller window, so that the smallest round-trip time of the whole round shows the growth only a round later. By then,
/// a step that doubles has doubled once more.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SecondHalf {
    /// The second half begins after this byte is acknowledged. `None` in the first round, which counts as a whole.
    after: Option<SubflowPosition>,
    smallest: Option<Duration>,
}

impl SecondHalf {
    /// Processes an acknowledgement of the round.
    pub(super) fn on_ack(&mut self, s: &AckSample) {
        if let Some(rtt) = s.rtt
            && self.after.is_none_or(|after| s.acked_to > after)
        {
            self.smallest = Some(self.smallest.map_or(rtt, |least| least.min(rtt)));
        }
    }

    /// The round ends with this acknowledgement, and the next one begins. Returns the smallest round-trip time of the
    /// second half, if there was any.
    pub(super) fn end_round(&mut self, s: &AckSample) -> Option<Duration> {
        let outstanding = s.next.max(s.acked_to) - s.acked_to;
        self.after = Some(s.acked_to + outstanding / 2);
        self.smallest.take()
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::{MSS, sample};
    use super::*;

    #[test]
    fn first_segment_of_a_burst_does_not_hide_the_queue_of_the_others() {
        let mut half = SecondHalf::default();
        let ack = |half: &mut SecondHalf, segment: u64, ms| {
            let mut s = sample(MSS);
            s.acked_to = SubflowPosition::FIRST_BYTE + segment * MSS;
            s.next = SubflowPosition::FIRST_BYTE + 10 * MSS;
            s.rtt = Some(Duration::from_millis(ms));
            half.on_ack(&s);
            s
        };
        let last = ack(&mut half, 2, 20);
        assert_eq!(half.end_round(&last), Some(Duration::from_millis(20)));
        // Segments 3 to 10 are outstanding.
        for (segment, ms) in [(3, 20), (5, 22), (6, 23), (8, 25), (10, 26)] {
            ack(&mut half, segment, ms);
        }
        let last = ack(&mut half, 10, 27);
        assert_eq!(half.end_round(&last), Some(Duration::from_millis(25)));
        assert_eq!(half.end_round(&last), None, "no samples");
    }
}

//! Whether cwnd limits the sender.

use spindle_units::Instant;

/// How the sender uses its window.
///
/// Hosts take packets in batches, so that several acknowledgements may arrive before the sender can transmit again. From one
/// to the next the bytes in flight become fewer, although cwnd still limits the sender. Those before the first one count for
/// the whole batch. Linux decides when it transmits, for the same effect (`tcp_cwnd_validate`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WindowUse {
    /// When the last segment was sent.
    pub(super) last_sent: Option<Instant>,
    batch: Option<Batch>,
}

/// Acknowledgements between two transmission opportunities.
#[derive(Clone, Copy, Debug)]
struct Batch {
    /// The number of opportunities before it.
    opportunity: u64,
    /// Bytes in flight before its first acknowledgement.
    in_flight: u64,
}

impl WindowUse {
    /// An acknowledgement arrives after so many transmission opportunities, with so many bytes in flight. Returns the bytes in
    /// flight before the first acknowledgement since the last opportunity.
    pub(super) fn before_batch(&mut self, opportunity: u64, in_flight: u64) -> u64 {
        match self.batch {
            Some(batch) if batch.opportunity == opportunity => batch.in_flight,
            _ => {
                self.batch = Some(Batch {
                    opportunity,
                    in_flight,
                });
                in_flight
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_acknowledgement_since_the_last_opportunity_counts() {
        let mut used = WindowUse::default();
        let calls = [(0, 10), (0, 8), (0, 2), (1, 12), (1, 1), (3, 5)];
        let before = calls.map(|(opportunity, flight)| used.before_batch(opportunity, flight));
        assert_eq!(before, [10, 10, 10, 12, 12, 5]);
    }
}

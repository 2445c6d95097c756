//! How the sender uses its window: how much was in flight, and when it last sent.

use spindle_units::Instant;

/// How the sender uses its window.
///
/// The window restarts after an idle time (RFC 5681, section 4.1), and grows only if cwnd limits the sender, which the bytes in
/// flight show. Hosts take packets in batches, so that several acknowledgements may arrive before the sender can transmit
/// again. From one to the next the bytes in flight become fewer, although cwnd still limits the sender. The most since its
/// last opportunity to transmit count. Linux decides when it transmits, for the same effect (`tcp_cwnd_validate`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WindowUse {
    /// When the last segment was sent.
    pub(super) last_sent: Option<Instant>,
    /// Transmission opportunities before the last acknowledgement.
    opportunities: u64,
    /// The most bytes in flight before an acknowledgement since the last opportunity.
    in_flight: u64,
}

impl WindowUse {
    /// An acknowledgement arrives after so many transmission opportunities, with so many bytes in flight. Returns the most bytes
    /// in flight since the last opportunity.
    pub(super) fn on_ack(&mut self, opportunities: u64, in_flight: u64) -> u64 {
        if opportunities != self.opportunities {
            self.opportunities = opportunities;
            self.in_flight = 0;
        }
        self.in_flight = self.in_flight.max(in_flight);
        self.in_flight
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_bytes_in_flight_since_the_last_opportunity_count() {
        let mut used = WindowUse::default();
        let calls = [(0, 10), (0, 8), (0, 2), (1, 7), (1, 12), (1, 1), (3, 5)];
        let most = calls.map(|(opportunities, flight)| used.on_ack(opportunities, flight));
        assert_eq!(most, [10, 10, 10, 7, 12, 12, 5]);
    }
}

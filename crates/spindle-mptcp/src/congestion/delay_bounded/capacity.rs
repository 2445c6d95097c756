//! The rate of a path's slowest link, from a flight that was sent at once.

use spindle_units::{Duration, Instant};

use super::super::AckSample;
use super::recent::Recent;

/// Acknowledgements after the first one that a flight needs. Fewer leave the time between them to chance.
const LEAST_ACKS: u32 = 4;

/// A flight was sent at once if its segments were sent within this share of the time within which they arrived (our
/// choice).
const AT_ONCE: f64 = 0.25;

/// The rate of the slowest link of a path.
///
/// The segments of an initial window are sent at once, and so are those after a pause. They arrive at the rate of the
/// slowest link, one behind the other, also if other flows fill a queue in front of it (packet pairs: Keshav, SIGCOMM
/// 1991). Other windows are sent as acknowledgements arrive, and show nothing. If other flights arrive at the same
/// time, between these segments, the rate is too low, so the largest one of the last seconds counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Capacity {
    flight: Option<Flight>,
    bytes_per_second: Recent<f64>,
}

/// A flight whose acknowledgements arrive.
#[derive(Clone, Copy, Debug)]
struct Flight {
    /// When the first acknowledged segment was sent, and when its acknowledgement arrived.
    first: (Instant, Instant),
    /// The same for the last one.
    last: (Instant, Instant),
    /// Acknowledgements after the first one, and the bytes that they acknowledged.
    acks: u32,
    bytes: u64,
    /// Losses of the subflow when the first acknowledgement arrived.
    losses: u64,
}

impl Default for Capacity {
    fn default() -> Self {
        Self {
            flight: None,
            bytes_per_second: Recent::new(f64::max),
        }
    }
}

impl Capacity {
    /// Processes an acknowledgement of the round.
    pub(super) fn on_ack(&mut self, s: &AckSample) {
        let times = s.rtt.map(|rtt| {
            let sent = s.now.as_nanos().saturating_sub(rtt.as_nanos());
            (Instant::from_nanos(sent), s.now)
        });
        match (&mut self.flight, times) {
            (Some(flight), times) => {
                flight.bytes = flight.bytes.saturating_add(s.acked);
                flight.acks = flight.acks.saturating_add(1);
                flight.last = times.unwrap_or(flight.last);
            }
            (None, Some(times)) => {
                self.flight = Some(Flight {
                    first: times,
                    last: times,
                    acks: 0,
                    bytes: 0,
                    losses: s.losses,
                });
            }
            (None, None) => {}
        }
    }

    /// A round has ended, and the subflow has counted so many losses. A flight that lost nothing and was sent at once
    /// shows the rate.
    pub(super) fn end_round(&mut self, losses: u64) {
        let Some(flight) = self.flight.take() else {
            return;
        };
        let sent = flight.last.0.since(flight.first.0).as_secs_f64();
        let arrived = flight.last.1.since(flight.first.1).as_secs_f64();
        let at_once = arrived > 0.0 && sent <= arrived * AT_ONCE;
        if at_once && flight.acks >= LEAST_ACKS && flight.losses == losses {
            let rate = flight.bytes as f64 / arrived;
            self.bytes_per_second.on_sample(flight.last.1, rate);
        }
    }

    /// The bytes that the slowest link sends in this time, if its rate is known.
    pub(super) fn bytes_in(&self, time: Duration) -> Option<f64> {
        Some(self.bytes_per_second.get()? * time.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::{MSS, sample};
    use super::*;

    const RTT: Duration = Duration::from_millis(20);

    /// The bytes of a round trip after a flight of ten segments that were sent and that arrived with these spacings.
    fn carried(c: &mut Capacity, sent: u64, arrived: u64, lost: u64) -> Option<u64> {
        let at = |spacing: u64, i| Duration::from_micros(spacing) * i;
        for i in 0..10 {
            let mut s = sample(MSS);
            s.now = Instant::ZERO + RTT + at(arrived, i);
            s.rtt = Some(RTT + at(arrived, i) - at(sent, i));
            c.on_ack(&s);
        }
        c.end_round(lost);
        c.bytes_in(RTT).map(|b| b.round() as u64)
    }

    #[test]
    fn rate_is_that_at_which_segments_arrive_that_were_sent_at_once() {
        let mut c = Capacity::default();
        assert_eq!(carried(&mut c, 0, 100, 0), Some(200 * MSS));
        assert_eq!(carried(&mut c, 10, 50, 0), Some(400 * MSS));
    }

    #[test]
    fn flight_between_others_does_not_hide_the_rate() {
        let mut c = Capacity::default();
        carried(&mut c, 0, 100, 0);
        assert_eq!(carried(&mut c, 0, 800, 0), Some(200 * MSS));
    }

    #[test]
    fn flight_that_lost_segments_or_was_not_sent_at_once_or_is_short_shows_nothing() {
        let mut c = Capacity::default();
        assert_eq!(carried(&mut c, 0, 100, 1), None, "losses");
        assert_eq!(carried(&mut c, 0, 0, 0), None, "arrived at once");
        assert_eq!(
            carried(&mut c, 50, 100, 0),
            None,
            "spaced by acknowledgements"
        );
        (0..4).for_each(|_| c.on_ack(&sample(MSS)));
        c.end_round(0);
        assert_eq!(c.bytes_in(RTT), None, "short");
    }
}

//! The rate of a path's slowest link, from a flight that was sent at once.

use spindle_units::{Duration, Instant};

use super::super::{AckSample, MeasuredRate};

/// Acknowledgements after the first one that a flight needs. Fewer leave the time between them to chance, unless the hosts'
/// timing precision bounds it.
const LEAST_ACKS: u32 = 4;

/// A flight was sent at once if its segments were sent within this share of the time within which they arrived (our
/// choice).
const AT_ONCE: f64 = 0.25;

/// Most measured times are wrong by less than the timing precision over this number, because hosts are seldom as late as
/// they may be (our choice).
const USUAL_ERROR_DIVISOR: u64 = 8;

/// The rate of the slowest link of a path.
///
/// The segments of an initial window are sent at once, and so are those after a pause. They arrive at the rate of the
/// slowest link, one behind the other, also if other flows fill a queue in front of it (packet pairs: Keshav, SIGCOMM
/// 1991). Other windows are sent as acknowledgements arrive, and show nothing. If other flights arrive at the same
/// time, between these segments, the rate is too low, so the largest one of the last seconds counts
/// ([`super::super::PathMeasurements`]). Hosts measure times with a limited precision: a few segments arrive within that
/// time, and the rate might be anything. So there are two estimates.
#[derive(Clone, Copy, Debug)]
pub(super) struct Capacity {
    /// By how much measured times may be wrong.
    precision: Duration,
    flight: Option<Flight>,
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

impl Capacity {
    pub(super) fn new(precision: Duration) -> Self {
        Self {
            precision,
            flight: None,
        }
    }

    /// Forgets the flight. The path may have changed.
    pub(super) fn restart(&mut self) {
        self.flight = None;
    }

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
    pub(super) fn end_round(&mut self, losses: u64) -> Option<MeasuredRate> {
        let flight = self.flight.take()?;
        let sent = flight.last.0.since(flight.first.0).as_secs_f64();
        let measured = flight.last.1.since(flight.first.1);
        let longest = (measured + self.precision).as_secs_f64();
        let shortest = measured
            .max(self.precision / USUAL_ERROR_DIVISOR)
            .as_secs_f64();
        let at_once = longest > 0.0 && sent <= longest * AT_ONCE;
        let is_exact = self.precision == Duration::ZERO;
        let least = if is_exact { LEAST_ACKS } else { 1 };
        let shows = at_once && flight.acks >= least && flight.losses == losses;
        let rate = |time: f64| (flight.bytes as f64 / time) as u64;
        shows.then(|| MeasuredRate {
            lower: rate(longest),
            upper: rate(shortest),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::{MSS, sample};
    use super::*;

    const RTT: Duration = Duration::from_millis(20);

    /// The segments of a round trip at the rates that a flight of ten segments shows, which were sent and arrived with
    /// these spacings in microseconds: the lower and the upper one.
    fn carried(sent: u64, arrived: u64, lost: u64) -> Option<(u64, u64)> {
        carried_with(Duration::ZERO, sent, arrived, lost)
    }

    fn carried_with(precision: Duration, sent: u64, arrived: u64, lost: u64) -> Option<(u64, u64)> {
        let mut c = Capacity::new(precision);
        let at = |spacing: u64, i| Duration::from_micros(spacing) * i;
        for i in 0..10 {
            let mut s = sample(MSS);
            s.now = Instant::ZERO + RTT + at(arrived, i);
            s.rtt = Some(RTT + at(arrived, i) - at(sent, i));
            c.on_ack(&s);
        }
        let segments = |rate: u64| (rate as f64 * RTT.as_secs_f64() / MSS as f64).round() as u64;
        let rate = c.end_round(lost)?;
        Some((segments(rate.lower), segments(rate.upper)))
    }

    #[test]
    fn rate_is_that_at_which_segments_arrive_that_were_sent_at_once() {
        assert_eq!(carried(0, 100, 0), Some((200, 200)));
        assert_eq!(carried(10, 50, 0), Some((400, 400)));
    }

    #[test]
    fn flight_that_is_shorter_than_the_precision_does_not_make_the_lower_rate_too_high() {
        let ms = Duration::from_millis(1);
        // Nine segments arrive after the first one, within 0.9 ms or less.
        assert_eq!(carried_with(ms, 0, 100, 0), Some((95, 200)));
        assert_eq!(carried_with(ms, 0, 1, 0), Some((178, 1440)));
        assert_eq!(carried_with(ms, 0, 10_000, 0), Some((2, 2)));
    }

    #[test]
    fn flight_that_lost_segments_or_was_not_sent_at_once_or_is_short_shows_nothing() {
        assert_eq!(carried(0, 100, 1), None, "losses");
        assert_eq!(carried(0, 0, 0), None, "arrived at once");
        assert_eq!(carried(50, 100, 0), None, "spaced by acknowledgements");
        let mut c = Capacity::new(Duration::ZERO);
        (0..4).for_each(|_| c.on_ack(&sample(MSS)));
        assert_eq!(c.end_round(0), None, "short");
    }
}

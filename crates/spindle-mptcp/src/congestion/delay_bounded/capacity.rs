//! The rate of a path's slowest link, from a flight that was sent at once.

use spindle_units::{Duration, Instant};

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
/// time, between these segments, or if some of these are lost, the rate is too low, so the largest one of the last seconds
/// counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Capacity {
    flight: Option<Flight>,
    bytes_per_second: Recent<f64>,
    /// Whether more of the first flight was lost than arrived. `None` until it is over.
    crowded: Option<bool>,
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
    /// The bytes that the first one acknowledged.
    before: u64,
    /// A retransmission has arrived. What arrives from now on was sent later.
    over: bool,
}

impl Default for Capacity {
    fn default() -> Self {
        Self {
            flight: None,
            bytes_per_second: Recent::new(f64::max),
            crowded: None,
        }
    }
}

impl Capacity {
    /// An acknowledgement of so many bytes, cumulative or selective. The last of the segments was sent once, and took `rtt`.
    pub(super) fn on_arrival(&mut self, now: Instant, bytes: u64, rtt: Duration) {
        let sent = now.as_nanos().saturating_sub(rtt.as_nanos());
        let times = (Instant::from_nanos(sent), now);
        match &mut self.flight {
            Some(flight) if !flight.over => {
                flight.bytes = flight.bytes.saturating_add(bytes);
                flight.acks = flight.acks.saturating_add(1);
                flight.last = times;
            }
            Some(_) => {}
            None => {
                self.flight = Some(Flight {
                    first: times,
                    last: times,
                    acks: 0,
                    bytes: 0,
                    before: bytes,
                    over: false,
                });
            }
        }
    }

    /// An acknowledgement of a retransmission.
    pub(super) fn on_repair(&mut self) {
        if let Some(flight) = &mut self.flight {
            flight.over = true;
        }
    }

    /// A round has ended, in which so many bytes were found lost. A flight that was sent at once shows the rate.
    pub(super) fn end_round(&mut self, lost: u64) {
        let flight = self.flight.take();
        let arrived = flight.map_or(0, |f| f.bytes.saturating_add(f.before));
        self.crowded.get_or_insert(lost > arrived);
        let Some(flight) = flight else {
            return;
        };
        let sent = flight.last.0.since(flight.first.0).as_secs_f64();
        let arrived = flight.last.1.since(flight.first.1).as_secs_f64();
        let at_once = arrived > 0.0 && sent <= arrived * AT_ONCE;
        if at_once && flight.acks >= LEAST_ACKS {
            let rate = flight.bytes as f64 / arrived;
            self.bytes_per_second.on_sample(flight.last.1, rate);
        }
    }

    /// The bytes that the slowest link sends in this time, if its rate is known. If it is not, and more of the first flight
    /// was lost than arrived, they are infinitely many: others fill the path, and this flow has a small share of it.
    pub(super) fn bytes_in(&self, time: Duration) -> Option<f64> {
        match (self.bytes_per_second.get(), self.crowded) {
            (Some(rate), _) => Some(rate * time.as_secs_f64()),
            (None, Some(true)) => Some(f64::INFINITY),
            (None, _) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::MSS;
    use super::*;

    const RTT: Duration = Duration::from_millis(20);

    /// A flight of ten segments that were sent and that arrived with these spacings in us.
    fn fly(c: &mut Capacity, sent: u64, arrived: u64) {
        let at = |spacing: u64, i| Duration::from_micros(spacing) * i;
        for i in 0..10 {
            let now = Instant::ZERO + RTT + at(arrived, i);
            c.on_arrival(now, MSS, RTT + at(arrived, i) - at(sent, i));
        }
    }

    /// The segments of a round trip after such a flight.
    fn carried(c: &mut Capacity, sent: u64, arrived: u64) -> Option<u64> {
        fly(c, sent, arrived);
        c.end_round(0);
        segments(c)
    }

    fn segments(c: &Capacity) -> Option<u64> {
        c.bytes_in(RTT).map(|b| b.round() as u64 / MSS)
    }

    #[test]
    fn rate_is_that_at_which_segments_arrive_that_were_sent_at_once() {
        let mut c = Capacity::default();
        assert_eq!(carried(&mut c, 0, 100), Some(200));
        assert_eq!(carried(&mut c, 10, 50), Some(400));
    }

    #[test]
    fn flight_between_others_does_not_hide_the_rate() {
        let mut c = Capacity::default();
        carried(&mut c, 0, 100);
        assert_eq!(carried(&mut c, 0, 800), Some(200));
    }

    #[test]
    fn flight_that_was_not_sent_at_once_or_is_short_shows_nothing() {
        let mut c = Capacity::default();
        assert_eq!(carried(&mut c, 0, 0), None, "arrived at once");
        assert_eq!(carried(&mut c, 50, 100), None, "spaced by acknowledgements");
        (0..4).for_each(|_| c.on_arrival(Instant::ZERO + RTT, MSS, RTT));
        c.end_round(0);
        assert_eq!(segments(&c), None, "short");
    }

    #[test]
    fn repairs_do_not_count_as_arrivals_of_the_flight() {
        let mut c = Capacity::default();
        fly(&mut c, 0, 100);
        c.on_repair();
        c.on_arrival(Instant::ZERO + RTT * 3, 100 * MSS, RTT);
        c.end_round(2 * MSS);
        assert_eq!(segments(&c), Some(200));
    }

    #[test]
    fn path_is_crowded_if_most_of_the_first_flight_is_lost_until_a_flight_shows_the_rate() {
        let mut c = Capacity::default();
        c.on_arrival(Instant::ZERO + RTT, 4 * MSS, RTT);
        c.end_round(6 * MSS);
        assert_eq!(c.bytes_in(RTT), Some(f64::INFINITY));
        assert_eq!(carried(&mut c, 0, 100), Some(200));
        let mut c = Capacity::default();
        c.on_arrival(Instant::ZERO + RTT, 6 * MSS, RTT);
        c.end_round(4 * MSS);
        c.end_round(6 * MSS);
        assert_eq!(c.bytes_in(RTT), None, "a later flight");
    }
}

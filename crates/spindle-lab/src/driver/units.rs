//! Coding units as the network sees them: when enough of a unit's packets have arrived, and which of them
//! were blocked on their way (CAPS sections VI-B and VI-C, Figs 6c, 8c and 8d).
//!
//! Enough are as many as the unit has segments, as the paper reckons. A packet is blocked by the paper's own
//! rule for round trips (section IX-C): if its round trip, which is its way there and a way back as short as
//! any, is more than twice the smoothed mean of them all. Nobody waits for its acknowledgement here, so the
//! mean is that of the periods before its own.

use std::collections::{HashMap, VecDeque};

use spindle_mptcp::stage::coding::CodingConfig;
use spindle_mptcp::stage::coding::estimator::Estimator;
use spindle_units::{Duration, Instant};
use spindle_wire::{Coded, CodedKind, Endpoint, Segment};

use crate::metrics::UnitsOfFlows;

/// Units of a connection on their way that are known at most; the oldest is forgotten first.
const MOST: usize = 256;

/// A unit on its way.
#[derive(Debug)]
struct Unit {
    number: u16,
    window: u64,
    sent: Instant,
    k: u8,
    /// Packets that have arrived; the network repeats none.
    arrived: u8,
    /// Whether one of them was blocked.
    blocked: bool,
}

/// Units that a connection sent at one time.
#[derive(Debug, Default)]
struct Window {
    number: u64,
    /// Its units that lack packets.
    open: u32,
}

/// One direction of a connection.
#[derive(Debug, Default)]
struct Way {
    units: VecDeque<Unit>,
    windows: VecDeque<Window>,
    /// Windows so far.
    begun: u64,
}

/// All units of a run.
#[derive(Debug, Default)]
pub(super) struct Units {
    ways: HashMap<(Endpoint, Endpoint), Way>,
    rtt: RoundTrips,
    /// What they came to.
    pub(super) so_far: UnitsOfFlows,
}

impl Units {
    /// A host sends a segment.
    #[inline]
    pub(super) fn sent(&mut self, now: Instant, segment: &Segment) {
        if let Some((coded, k)) = encoded(segment) {
            self.add(now, (segment.src, segment.dst), coded, k);
        }
    }

    fn add(&mut self, now: Instant, ends: (Endpoint, Endpoint), coded: &Coded, k: u8) {
        let way = self.ways.entry(ends).or_default();
        let last = way.units.back();
        if last.is_some_and(|u| u.number == coded.unit) {
            return;
        }
        self.so_far.units += 1;
        if last.is_none_or(|u| u.sent != now) {
            way.begun += 1;
            let number = way.begun;
            way.windows.push_back(Window { number, open: 0 });
        }
        if let Some(window) = way.windows.back_mut() {
            window.open += 1;
        }
        way.units.push_back(Unit {
            number: coded.unit,
            window: way.begun,
            sent: now,
            k,
            arrived: 0,
            blocked: false,
        });
        if way.units.len() > MOST {
            way.units.pop_front();
        }
        if way.windows.len() > MOST {
            way.windows.pop_front();
        }
    }

    /// A host receives a segment.
    #[inline]
    pub(super) fn arrives(&mut self, now: Instant, segment: &Segment) {
        if let Some((coded, _)) = encoded(segment) {
            self.take(now, (segment.src, segment.dst), coded);
        }
    }

    fn take(&mut self, now: Instant, ends: (Endpoint, Endpoint), coded: &Coded) {
        let Some(way) = self.ways.get_mut(&ends) else {
            return;
        };
        let of_it = |u: &Unit| u.number == coded.unit;
        let Some(at) = way.units.iter().rposition(of_it) else {
            return;
        };
        let unit = &mut way.units[at];
        let took = now.since(unit.sent);
        unit.blocked |= self.rtt.blocks(now, took);
        unit.arrived += 1;
        if unit.arrived < unit.k {
            return;
        }
        let all = &mut self.so_far;
        all.at_once += u64::from(!unit.blocked);
        all.segments += u64::from(unit.k);
        all.delay_ns += took.as_nanos() * u64::from(unit.k);
        let number = unit.window;
        way.units.remove(at);
        if let Some(at) = way.windows.iter().position(|w| w.number == number) {
            // Units are all sent by the time that the first is complete.
            way.windows[at].open -= 1;
            if way.windows[at].open == 0 {
                all.windows += 1;
                all.window_ns += took.as_nanos();
                way.windows.remove(at);
            }
        }
        if way.units.is_empty() && way.windows.is_empty() {
            self.ways.remove(&ends);
        }
    }
}

fn encoded(segment: &Segment) -> Option<(&Coded, u8)> {
    let coded = segment.coded()?;
    match coded.kind {
        CodedKind::Encoded { sources, .. } => Some((coded, sources)),
        CodedKind::Ack { .. } => None,
    }
}

/// The round trips of all packets, judged as a sender judges its own.
#[derive(Debug)]
struct RoundTrips {
    /// The shortest way there, which stands for ways back.
    back: Option<Duration>,
    estimator: Estimator,
}

impl Default for RoundTrips {
    fn default() -> Self {
        Self {
            back: None,
            estimator: Estimator::new(CodingConfig::default().sampling),
        }
    }
}

impl RoundTrips {
    /// Whether a packet whose way took so long was blocked; it counts in its period's mean.
    fn blocks(&mut self, now: Instant, took: Duration) -> bool {
        let back = self.back.map_or(took, |b| b.min(took));
        self.back = Some(back);
        self.estimator.sample(now, took + back)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(n: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(n)
    }

    fn ends() -> (Endpoint, Endpoint) {
        let end = |port| Endpoint {
            addr: [10, 0, 0, 1].into(),
            port,
        };
        (end(1), end(2))
    }

    fn packet(unit: u16, index: u8, sources: u8) -> Coded {
        Coded {
            unit,
            index,
            timestamp: 0,
            kind: CodedKind::Encoded {
                sources,
                total: sources + 1,
                len: 0,
                twin: None,
            },
        }
    }

    /// Units of one segment, one after the other and 50 us on their way each, so that there is a mean.
    fn learnt() -> Units {
        let mut units = Units::default();
        for n in 0..20 {
            let at = u64::from(n) * 100;
            units.add(us(at), ends(), &packet(n, 0, 1), 1);
            units.take(us(at + 50), ends(), &packet(n, 0, 1));
        }
        units
    }

    #[test]
    fn a_unit_is_there_when_as_many_packets_as_segments_are() {
        let mut units = learnt();
        let one = units.so_far;
        assert_eq!((one.units, one.at_once, one.segments), (20, 20, 20));
        assert_eq!((one.windows, one.delay_ns), (20, 20 * 50_000));
        for index in 0..3 {
            units.add(us(3000), ends(), &packet(20, index, 2), 2);
        }
        units.take(us(3050), ends(), &packet(20, 0, 2));
        assert_eq!(units.so_far.segments, 20);
        units.take(us(3060), ends(), &packet(20, 2, 2));
        units.take(us(3061), ends(), &packet(20, 1, 2));
        let two = units.so_far;
        assert_eq!((two.units, two.at_once, two.segments), (21, 21, 22));
        assert_eq!(two.delay_ns - one.delay_ns, 2 * 60_000);
        assert!(units.ways.is_empty(), "what is over takes no room");
    }

    #[test]
    fn blocked_packets_make_it_late_and_not_at_once() {
        let mut units = learnt();
        let before = units.so_far;
        units.add(us(3000), ends(), &packet(20, 0, 2), 2);
        units.take(us(3050), ends(), &packet(20, 0, 2));
        // 160 us and 50 back are more than twice 100.
        units.take(us(3160), ends(), &packet(20, 1, 2));
        let after = units.so_far;
        assert_eq!(after.at_once, before.at_once);
        assert_eq!(after.segments, before.segments + 2);
        assert_eq!(after.window_ns - before.window_ns, 160_000);
        // 140 us are not.
        units.add(us(4000), ends(), &packet(21, 0, 1), 1);
        units.take(us(4140), ends(), &packet(21, 1, 1));
        assert_eq!(units.so_far.at_once, before.at_once + 1);
    }

    #[test]
    fn a_window_is_all_that_is_sent_at_one_time() {
        let mut units = Units::default();
        for n in 0..3 {
            units.add(us(10), ends(), &packet(n, 0, 1), 1);
        }
        units.add(us(20), ends(), &packet(3, 0, 1), 1);
        for (n, at) in [(0, 60), (2, 70), (3, 90)] {
            units.take(us(at), ends(), &packet(n, 0, 1));
        }
        let some = units.so_far;
        assert_eq!((some.units, some.windows, some.window_ns), (4, 1, 70_000));
        units.take(us(110), ends(), &packet(1, 0, 1));
        let all = units.so_far;
        assert_eq!((all.windows, all.window_ns), (2, 170_000));
    }

    #[test]
    fn what_is_known_of_a_connection_is_bounded() {
        let mut units = Units::default();
        for n in 0..1000 {
            units.add(us(u64::from(n)), ends(), &packet(n, 0, 1), 1);
        }
        let way = &units.ways[&ends()];
        assert_eq!((way.units.len(), way.windows.len()), (MOST, MOST));
        // Of one that is forgotten nothing counts.
        units.take(us(2000), ends(), &packet(3, 0, 1));
        assert_eq!((units.so_far.units, units.so_far.segments), (1000, 0));
    }
}

//! Coding units as seen in the network: when enough of a unit's packets have arrived, and which of its packets
//! were blocked in transit (CAPS sections VI-B and VI-C, Figs 6c, 8c and 8d).
//!
//! As in the paper, a unit is complete when as many of its packets have arrived as it has segments. A packet is
//! blocked by the paper's own rule for round trips (section IX-C): its round-trip time is more than twice the
//! smoothed mean of all round-trip times. The round-trip time of a packet is its one-way delay plus the
//! shortest one-way delay of all packets, which stands for that of the return path. No sender waits for an acknowledgement
//! here, so the mean is that of the periods before the packet's own.

use std::collections::{HashMap, VecDeque};

use spindle_experiment::metrics::UnitsOfFlows;
use spindle_mptcp::stage::coding::CodingConfig;
use spindle_mptcp::stage::coding::estimator::Estimator;
use spindle_units::{Duration, Instant};
use spindle_wire::{CodedKind, CodingHeader, Endpoint, Packet};

/// Largest number of units in flight that are known for a connection. The oldest unit is forgotten first.
const MOST: usize = 256;

/// A unit in flight.
#[derive(Debug)]
struct Unit {
    number: u16,
    window: u64,
    sent: Instant,
    k: u8,
    /// Number of packets that have arrived. The network duplicates no packet.
    arrived: u8,
    /// Whether one of them was blocked.
    blocked: bool,
}

/// Units that a connection sent at the same time.
#[derive(Debug, Default)]
struct Window {
    number: u64,
    /// Number of its units that lack packets.
    open: u32,
}

/// One direction of a connection.
#[derive(Debug, Default)]
struct Direction {
    units: VecDeque<Unit>,
    windows: VecDeque<Window>,
    /// Number of windows so far.
    begun: u64,
}

/// All units of a run.
#[derive(Debug, Default)]
pub(super) struct Units {
    directions: HashMap<(Endpoint, Endpoint), Direction>,
    rtt: RoundTrips,
    /// Totals over all units so far.
    pub(super) so_far: UnitsOfFlows,
}

impl Units {
    /// Records that a host sends a packet.
    #[inline]
    pub(super) fn sent(&mut self, now: Instant, packet: &Packet) {
        if let Some((coded, k)) = encoded(packet) {
            self.add(now, (packet.src(), packet.dst()), coded, k);
        }
    }

    fn add(&mut self, now: Instant, ends: (Endpoint, Endpoint), coded: &CodingHeader, k: u8) {
        let direction = self.directions.entry(ends).or_default();
        let last = direction.units.back();
        if last.is_some_and(|u| u.number == coded.unit) {
            return;
        }
        self.so_far.units += 1;
        if last.is_none_or(|u| u.sent != now) {
            direction.begun += 1;
            let number = direction.begun;
            direction.windows.push_back(Window { number, open: 0 });
        }
        if let Some(window) = direction.windows.back_mut() {
            window.open += 1;
        }
        direction.units.push_back(Unit {
            number: coded.unit,
            window: direction.begun,
            sent: now,
            k,
            arrived: 0,
            blocked: false,
        });
        if direction.units.len() > MOST {
            direction.units.pop_front();
        }
        if direction.windows.len() > MOST {
            direction.windows.pop_front();
        }
    }

    /// Records that a host receives a packet.
    #[inline]
    pub(super) fn arrives(&mut self, now: Instant, packet: &Packet) {
        if let Some((coded, _)) = encoded(packet) {
            self.take(now, (packet.src(), packet.dst()), coded);
        }
    }

    fn take(&mut self, now: Instant, ends: (Endpoint, Endpoint), coded: &CodingHeader) {
        let Some(direction) = self.directions.get_mut(&ends) else {
            return;
        };
        let of_it = |u: &Unit| u.number == coded.unit;
        let Some(at) = direction.units.iter().rposition(of_it) else {
            return;
        };
        let unit = &mut direction.units[at];
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
        direction.units.remove(at);
        if let Some(at) = direction.windows.iter().position(|w| w.number == number) {
            // All units have been sent by the time when the first is complete.
            direction.windows[at].open -= 1;
            if direction.windows[at].open == 0 {
                all.windows += 1;
                all.window_ns += took.as_nanos();
                direction.windows.remove(at);
            }
        }
        if direction.units.is_empty() && direction.windows.is_empty() {
            self.directions.remove(&ends);
        }
    }
}

/// The header of an encoded packet, and the number of segments in its unit.
fn encoded(packet: &Packet) -> Option<(&CodingHeader, u8)> {
    let header = &packet.coded()?.header;
    match header.kind {
        CodedKind::Encoded { sources, .. } => Some((header, sources)),
        CodedKind::Ack { .. } => None,
    }
}

/// The round-trip times of all packets, judged like a sender judges its own.
#[derive(Debug)]
struct RoundTrips {
    /// The shortest one-way delay, which stands for that of the return path.
    return_delay: Option<Duration>,
    estimator: Estimator,
}

impl Default for RoundTrips {
    fn default() -> Self {
        Self {
            return_delay: None,
            estimator: Estimator::new(CodingConfig::default().sampling),
        }
    }
}

impl RoundTrips {
    /// Whether a packet with this one-way delay was blocked. The packet counts in the mean of its period.
    fn blocks(&mut self, now: Instant, took: Duration) -> bool {
        let return_delay = self.return_delay.map_or(took, |d| d.min(took));
        self.return_delay = Some(return_delay);
        self.estimator.sample(now, took + return_delay)
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

    fn packet(unit: u16, index: u8, sources: u8) -> CodingHeader {
        CodingHeader {
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

    /// Sends units of one segment one after the other, each 50 us in transit, so that a mean exists.
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
    fn unit_is_complete_when_as_many_packets_as_segments_arrived() {
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
        assert!(
            units.directions.is_empty(),
            "completed units are still stored"
        );
    }

    #[test]
    fn unit_with_a_blocked_packet_does_not_count_as_at_once() {
        let mut units = learnt();
        let before = units.so_far;
        units.add(us(3000), ends(), &packet(20, 0, 2), 2);
        units.take(us(3050), ends(), &packet(20, 0, 2));
        // 160 us, plus 50 us for the return path, are more than twice 100 us.
        units.take(us(3160), ends(), &packet(20, 1, 2));
        let after = units.so_far;
        assert_eq!(after.at_once, before.at_once);
        assert_eq!(after.segments, before.segments + 2);
        assert_eq!(after.window_ns - before.window_ns, 160_000);
        // 140 us plus 50 us are not.
        units.add(us(4000), ends(), &packet(21, 0, 1), 1);
        units.take(us(4140), ends(), &packet(21, 1, 1));
        assert_eq!(units.so_far.at_once, before.at_once + 1);
    }

    #[test]
    fn units_sent_at_the_same_time_are_one_window() {
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
    fn units_and_windows_of_a_connection_are_bounded() {
        let mut units = Units::default();
        for n in 0..1000 {
            units.add(us(u64::from(n)), ends(), &packet(n, 0, 1), 1);
        }
        let direction = &units.directions[&ends()];
        assert_eq!(
            (direction.units.len(), direction.windows.len()),
            (MOST, MOST)
        );
        // Packets of a forgotten unit do not count.
        units.take(us(2000), ends(), &packet(3, 0, 1));
        assert_eq!((units.so_far.units, units.so_far.segments), (1000, 0));
    }
}

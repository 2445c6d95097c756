//! The search for the path MTU (RFC 8899), in bytes of UDP payload. It has no clock and no socket.

use spindle_units::{Duration, Instant};

/// BASE_PLPMTU (RFC 8899, section 5.1.2).
pub(super) const BASE: u16 = 1200;
/// MIN_PLPMTU: IPv4's 576 bytes less the headers (RFC 8899, section 5.1.2: no less is of use).
pub(super) const LEAST: u16 = 548;
/// MAX_PROBES (RFC 8899, section 5.1.2).
const MAX_PROBES: u8 = 3;
/// Tries beyond MAX_PROBES, at doubling intervals, on a path that carries no packets. After the last try, the
/// search waits until the path carries packets, so that a connection without traffic is not probed
/// indefinitely.
const MORE_PROBES: u8 = 6;
/// PROBE_TIMER while no round trip has been measured: the least value that section 5.1.1 then allows.
const PROBE_TIMER: Duration = Duration::from_secs(1);
/// Minimum of the timer that is derived from a measured round trip (section 5.1.1).
const LEAST_PROBE_TIMER: Duration = Duration::from_millis(100);
/// PMTU_RAISE_TIMER (section 5.1.1).
const RAISE_TIMER: Duration = Duration::from_secs(600);
/// The search ends when the largest size that passes and the smallest that does not are this close: 1 % of an
/// Ethernet frame.
const GAP: u16 = 16;

struct Probe {
    number: u64,
    size: u16,
    sent: Instant,
    tries: u8,
    /// A packet has arrived from the peer since the first try, so the path carries packets.
    heard: bool,
}

/// The state of the search on one path.
pub(super) struct Search {
    /// The size that passes (PLPMTU).
    passes: u16,
    /// The smallest size that was found not to pass, less one.
    limit: u16,
    /// The largest size that the interface or the peer's probes allow.
    most: u16,
    probe: Option<Probe>,
    next: Option<Instant>,
    rtt: Option<Duration>,
    /// The search has ended until the raise timer.
    resting: bool,
}

impl Search {
    /// A path whose interface accepts `most` bytes. The first probe is due at once.
    pub(super) fn new(now: Instant, most: u16) -> Self {
        let most = most.max(LEAST);
        Self {
            passes: BASE.min(most),
            limit: most,
            most,
            probe: None,
            next: (most > BASE).then_some(now),
            rtt: None,
            resting: false,
        }
    }

    /// Bytes of UDP payload that pass.
    pub(super) fn passes(&self) -> u16 {
        self.passes
    }

    /// The largest size that is tried.
    pub(super) fn most(&self) -> u16 {
        self.most
    }

    /// When [`Self::due`] must be called.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.next
    }

    /// The probe that must be sent now, if one is due: its size and number. The number is `number`, unless an
    /// earlier probe is repeated.
    pub(super) fn due(&mut self, now: Instant, number: u64) -> Option<(u16, u64)> {
        if self.next.is_none_or(|at| at > now) {
            return None;
        }
        let timer = self.timer();
        if let Some(p) = &mut self.probe {
            // While no packets arrive at all, the loss of a probe does not show that its size was the reason.
            if p.tries < MAX_PROBES || !p.heard {
                p.tries += 1;
                p.sent = now;
                let more = p.tries.saturating_sub(MAX_PROBES);
                self.next = (more < MORE_PROBES).then(|| now + timer * (1 << more));
                return Some((p.size, p.number));
            }
            self.limit = p.size.saturating_sub(1).max(self.passes);
            self.probe = None;
        } else if std::mem::take(&mut self.resting) {
            // The raise timer has expired: begin again with the largest size.
            self.limit = self.most;
        }
        self.start(now, number)
    }

    /// Begins the next probe of the search, or ends it.
    fn start(&mut self, now: Instant, number: u64) -> Option<(u16, u64)> {
        let gap = self.limit.saturating_sub(self.passes);
        let whole = self.limit == self.most && gap > 0;
        if !whole && gap < GAP {
            self.next = (self.passes < self.most).then(|| now + RAISE_TIMER);
            self.resting = true;
            return None;
        }
        let size = if whole {
            self.most
        } else {
            self.passes + gap.div_ceil(2)
        };
        self.probe = Some(Probe {
            number,
            size,
            sent: now,
            tries: 1,
            heard: false,
        });
        self.next = Some(now + self.timer());
        Some((size, number))
    }

    fn timer(&self) -> Duration {
        self.rtt.map_or(PROBE_TIMER, |rtt| {
            Duration::from_nanos(rtt.as_nanos().saturating_mul(4)).max(LEAST_PROBE_TIMER)
        })
    }

    /// Records that a packet other than an answer to a probe arrived from the peer. If a probe waits for the
    /// path to carry packets again, it is tried at once. Returns whether this is so.
    pub(super) fn heard(&mut self, now: Instant) -> bool {
        let Some(p) = self.probe.as_mut().filter(|p| !p.heard) else {
            return false;
        };
        p.heard = true;
        let waited = p.tries > MAX_PROBES;
        if waited {
            p.tries = 0;
            self.next = Some(now);
        }
        waited
    }

    /// Records the acknowledgement of a probe. Returns whether more passes than before.
    pub(super) fn acknowledged(&mut self, now: Instant, number: u64, size: u16) -> bool {
        let Some(p) = self.probe.take_if(|p| p.number == number && p.size == size) else {
            return false;
        };
        if p.tries == 1 {
            self.rtt = Some(now.since(p.sent));
        }
        self.next = Some(now);
        let more = p.size > self.passes;
        self.passes = self.passes.max(p.size);
        self.limit = self.limit.max(self.passes);
        more
    }

    /// A router or the system reports that no more than `size` bytes pass (section 4.6.1). Returns whether less
    /// passes than was assumed.
    pub(super) fn too_big(&mut self, now: Instant, size: u16) -> bool {
        if size < LEAST || size >= self.limit {
            return false;
        }
        self.resting = false;
        self.limit = size;
        self.probe.take_if(|p| p.size > size);
        self.next = Some(now);
        let less = size < self.passes;
        self.passes = self.passes.min(size);
        less
    }

    /// The peer's probe of this size arrived, so as much may pass in the other direction.
    pub(super) fn offered(&mut self, now: Instant, size: u16) {
        if size > self.most {
            self.resting = false;
            (self.most, self.limit) = (size, size);
            self.probe = None;
            self.next = Some(now);
        }
    }

    /// Packets of `size` bytes are lost (section 4.3), or the path has changed. Returns whether less passes
    /// than was assumed.
    pub(super) fn restart(&mut self, now: Instant, size: u16) -> bool {
        let before = self.passes;
        let less = if size.min(before) > BASE { BASE } else { LEAST };
        self.passes = less.min(before);
        self.limit = self.most;
        self.resting = false;
        self.probe = None;
        self.next = Some(now);
        self.passes < before
    }

    /// The path has changed: returns to the base, unless less passes.
    pub(super) fn moved(&mut self, now: Instant) -> bool {
        self.passes > BASE && self.restart(now, self.passes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the search on a path of `capacity` until nothing is due for long. Returns the sizes of the probes.
    fn run(s: &mut Search, capacity: u16, mut now: Instant) -> Vec<u16> {
        let mut sizes = Vec::new();
        let end = now + Duration::from_secs(300);
        while let Some(at) = s.next_timeout().filter(|at| *at < end) {
            now = now.max(at);
            let number = sizes.len() as u64;
            if let Some((size, number)) = s.due(now, number) {
                sizes.push(size);
                s.heard(now);
                if size <= capacity {
                    s.acknowledged(now + Duration::from_millis(30), number, size);
                }
            }
        }
        sizes
    }

    #[test]
    fn a_path_that_carries_the_largest_size_needs_one_probe() {
        let mut s = Search::new(Instant::ZERO, 1472);
        assert_eq!(s.passes(), BASE);
        assert_eq!(run(&mut s, 1472, Instant::ZERO), [1472]);
        assert_eq!((s.passes(), s.next_timeout()), (1472, None));
    }

    #[test]
    fn the_size_of_a_narrow_path_is_found_to_within_the_gap() {
        for capacity in [1200, 1201, 1300, 1400, 1471, 5000] {
            let mut s = Search::new(Instant::ZERO, 8972);
            let probes = run(&mut s, capacity, Instant::ZERO);
            let passes = s.passes();
            assert!(passes <= capacity && capacity - passes < GAP, "{passes}");
            assert!(probes.len() < 45, "{probes:?}");
            assert!(s.next_timeout().is_some(), "it will be tried again");
        }
    }

    #[test]
    fn a_path_that_widens_is_found_by_the_raise_timer() {
        let mut s = Search::new(Instant::ZERO, 1472);
        run(&mut s, 1300, Instant::ZERO);
        assert!(s.passes() <= 1300);
        let raise = s.next_timeout().expect("the raise timer");
        run(&mut s, 1472, raise);
        assert_eq!(s.passes(), 1472);
    }

    #[test]
    fn a_black_hole_lowers_the_size_to_the_base_and_then_to_the_minimum() {
        let now = Instant::ZERO;
        let mut s = Search::new(now, 1472);
        run(&mut s, 1472, now);
        assert!(s.restart(now, 1472));
        assert_eq!(s.passes(), BASE);
        assert!(s.restart(now, BASE));
        assert_eq!(s.passes(), LEAST);
        assert!(!s.restart(now, LEAST), "no less");
        run(&mut s, 1472, now);
        assert_eq!(s.passes(), 1472);
    }

    #[test]
    fn reports_of_routers_lower_the_size_and_never_raise_it() {
        let now = Instant::ZERO;
        let mut s = Search::new(now, 1472);
        run(&mut s, 1472, now);
        assert!(!s.too_big(now, 9000));
        assert!(!s.too_big(now, 100), "implausible");
        assert!(s.too_big(now, 1372));
        assert_eq!(s.passes(), 1372);
        assert!(!s.acknowledged(now, 77, 1472), "no such probe");
        assert_eq!(s.passes(), 1372);
    }

    #[test]
    fn a_peers_probe_raises_the_largest_size_that_is_tried() {
        let now = Instant::ZERO;
        let mut s = Search::new(now, BASE);
        assert_eq!(s.next_timeout(), None);
        s.offered(now, 1472);
        assert_eq!(s.due(now, 5), Some((1472, 5)));
    }
    #[test]
    fn lost_packets_below_the_base_lower_the_size_to_the_minimum() {
        let mut s = Search::new(Instant::ZERO, 1472);
        run(&mut s, 1472, Instant::ZERO);
        assert!(s.restart(Instant::ZERO, 1190));
        assert_eq!(s.passes(), LEAST);
    }

    #[test]
    fn after_an_outage_the_largest_size_is_found_again() {
        let mut s = Search::new(Instant::ZERO, 1472);
        run(&mut s, 1472, Instant::ZERO);
        let mut now = Instant::ZERO + Duration::from_secs(1);
        s.restart(now, 1472);
        s.restart(now, BASE);
        // No packets pass: only the largest size is tried, and not indefinitely.
        let (number, mut tries) = (7, 0);
        while let Some(at) = s.next_timeout() {
            now = at;
            assert_eq!(s.due(now, number), Some((1472, number)));
            tries += 1;
        }
        assert_eq!(tries, MAX_PROBES + MORE_PROBES);
        // The path carries packets again.
        now += Duration::from_secs(300);
        assert!(s.heard(now), "the probe is due at once");
        assert_eq!(s.due(now, 8), Some((1472, number)));
        assert!(s.acknowledged(now + Duration::from_millis(30), number, 1472));
        assert_eq!((s.passes(), s.resting), (1472, false));
    }
}

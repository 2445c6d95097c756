//! Black hole detection and the search for the segment size that a path carries (RFC 4821, RFC 8899). If full
//! segments disappear without an ICMP message while small ones pass, the segment size falls to the largest size
//! that passed. It rises again as larger segments, sent one at a time with data, are acknowledged.

use spindle_units::{Duration, Instant};

use crate::types::SubflowPosition;

/// Timeouts of full segments, without delivery of a full segment in between, after which a path that carries
/// small segments is a black hole. The value is MAX_PROBES (RFC 8899, section 5.1.2), and `tcp_retries1` of
/// Linux, which `tcp_write_timeout` uses.
const TIMEOUTS: u32 = 3;
/// After this many consecutive timeouts the first outstanding data are retransmitted in a small segment, to see
/// whether it passes. A single timeout may have any cause.
const TIMEOUTS_BEFORE_SMALL: u32 = 2;
/// A size that was lost this many times is assumed not to pass: MAX_PROBES (RFC 8899, section 5.1.2).
const MOST_TRIES: u32 = 3;
/// The search ends when the size that passes and the size that may pass differ by less than this, in bytes
/// (Linux: `tcp_probe_threshold`).
const NEAR: u64 = 8;
/// Time until larger sizes are tried again (RFC 1191, section 6.3; RFC 8899, section 5.1.1: PMTU_RAISE_TIMER;
/// Linux: `tcp_probe_interval`).
const RAISE_AFTER: Duration = Duration::from_secs(600);

/// An outstanding probe: a segment with data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Probe {
    /// Its position.
    pub(super) start: SubflowPosition,
    /// Its payload in bytes.
    pub(super) len: u64,
    /// The size that is known to pass if the probe passes. It is less than `len` once options take more of a
    /// segment.
    pub(super) shows: u64,
}

/// The known state of a path. Sizes are payload bytes of a segment.
#[derive(Debug)]
pub(super) struct MtuSearch {
    /// The small size, which passes on nearly every path.
    base: u64,
    /// No segment is made smaller than this.
    least: u64,
    /// Timeouts of segments above `base` since one was delivered.
    timeouts: u32,
    /// The largest segment of up to `base` bytes that was delivered since the first of these timeouts.
    small: u64,
    /// The largest size that may pass. The size in use is the sender's `mss`.
    high: u64,
    /// How often the size under test was lost.
    tries: u32,
    /// The search pauses until this time.
    rests_until: Option<Instant>,
    pub(super) probe: Option<Probe>,
}

impl MtuSearch {
    /// `base` and `least` are the small sizes, `most` is the size that both ends agreed on.
    pub(super) fn new(base: u64, least: u64, most: u64) -> Self {
        Self {
            base: base.min(most),
            least: least.min(most),
            timeouts: 0,
            small: 0,
            high: most,
            tries: 0,
            rests_until: None,
            probe: None,
        }
    }

    /// Options take `bytes` more bytes of every segment.
    pub(super) fn shorten(&mut self, bytes: u64) {
        let probed = self.probe.as_mut().map(|p| &mut p.shows);
        for size in [&mut self.base, &mut self.least, &mut self.high]
            .into_iter()
            .chain(probed)
        {
            *size = size.saturating_sub(bytes).max(1);
        }
    }

    /// Whether the sizes of delivered segments are needed.
    pub(super) fn watches(&self) -> bool {
        self.timeouts > 0
    }

    /// A segment of `len` bytes was delivered.
    pub(super) fn on_delivered(&mut self, len: u64) {
        if len > self.base {
            (self.timeouts, self.small) = (0, 0);
        } else {
            self.small = self.small.max(len);
        }
    }

    /// The timer expired for the `in_row`-th consecutive time without progress. The first outstanding segment
    /// has `front` payload bytes.
    pub(super) fn on_timeout(&mut self, front: u64, in_row: u32) -> Verdict {
        self.timeouts += u32::from(front > self.base);
        if self.timeouts >= TIMEOUTS && self.small >= self.least {
            let passes = self.small;
            (self.timeouts, self.small) = (0, 0);
            return Verdict::BlackHole(passes);
        }
        // The size is halved at every second timeout.
        let halvings = (in_row / TIMEOUTS_BEFORE_SMALL).saturating_sub(1).min(16);
        let small = (self.base >> halvings).max(self.least);
        match in_row >= TIMEOUTS_BEFORE_SMALL && front > small {
            true => Verdict::TrySmall(small),
            false => Verdict::Nothing,
        }
    }

    /// The path carries `mss`, which is the current size. Nothing is known about larger sizes except that
    /// `high` is the limit. The search begins at once, or later (`rests`) if a router reported the size.
    pub(super) fn begin(&mut self, now: Instant, high: u64, rests: bool) {
        self.high = high;
        self.tries = 0;
        self.probe = None;
        self.rests_until = rests.then(|| now + RAISE_AFTER);
    }

    /// The next size to try, above `mss`, which passes, and up to `agreed`.
    pub(super) fn next_size(&self, now: Instant, mss: u64, agreed: u64) -> Option<u64> {
        if mss >= agreed || self.probe.is_some() {
            return None;
        }
        let high = match self.rests_until {
            Some(at) if now < at => return None,
            Some(_) => agreed,
            None => self.high.min(agreed),
        };
        match high.saturating_sub(mss) {
            0..NEAR if high < agreed => None,
            0..NEAR => Some(high),
            gap => Some(mss + gap.div_ceil(2)),
        }
    }

    /// A probe was sent.
    pub(super) fn on_probe(&mut self, probe: Probe, agreed: u64) {
        if self.rests_until.take().is_some() {
            (self.high, self.tries) = (agreed, 0);
        }
        self.probe = Some(probe);
    }

    /// The probe was delivered.
    pub(super) fn passed(&mut self) {
        self.probe = None;
        self.tries = 0;
    }

    /// The probe was lost. `mss` is the size that passes.
    pub(super) fn lost(&mut self, now: Instant, mss: u64) {
        let Some(probe) = self.probe.take() else {
            return;
        };
        self.tries += 1;
        if self.tries < MOST_TRIES {
            return;
        }
        self.tries = 0;
        self.high = probe.shows - 1;
        if self.high.saturating_sub(mss) < NEAR {
            self.rests_until = Some(now + RAISE_AFTER);
        }
    }
}

/// The conclusion from a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Nothing,
    /// The first outstanding segment must be retransmitted in pieces of this many bytes.
    TrySmall(u64),
    /// Segments of this many bytes pass, but full segments do not.
    BlackHole(u64),
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::ZERO;

    #[test]
    fn black_hole_needs_three_timeouts_of_full_segments_and_a_delivered_small_one() {
        let mut search = MtuSearch::new(1024, 512, 1460);
        assert_eq!(search.on_timeout(1460, 1), Verdict::Nothing);
        assert_eq!(search.on_timeout(1460, 2), Verdict::TrySmall(1024));
        search.on_delivered(1024);
        assert_eq!(search.on_timeout(1460, 1), Verdict::BlackHole(1024));
    }

    #[test]
    fn delivered_full_segment_or_dead_path_is_no_black_hole() {
        let mut search = MtuSearch::new(1024, 512, 1460);
        for in_row in 1..10 {
            let verdict = search.on_timeout(1460, in_row);
            assert!(!matches!(verdict, Verdict::BlackHole(_)), "nothing passed");
        }
        search.on_delivered(1460);
        search.on_delivered(1024);
        assert_eq!(search.on_timeout(1460, 1), Verdict::Nothing);
    }

    #[test]
    fn mtu_search_converges_to_the_path_size_and_restarts_after_ten_minutes() {
        let (passes, agreed) = (1260, 1460);
        let mut search = MtuSearch::new(1024, 512, agreed);
        let mut mss = 1024;
        search.begin(NOW, agreed, false);
        let mut probes = 0;
        let mut run = |search: &mut MtuSearch, now, mss: &mut u64, passes| {
            while let Some(size) = search.next_size(now, *mss, agreed) {
                let (start, len, shows) = (SubflowPosition::FIRST_BYTE, size, size);
                search.on_probe(Probe { start, len, shows }, agreed);
                probes += 1;
                assert!(probes < 60, "the search does not end");
                if size <= passes {
                    search.passed();
                    *mss = size;
                } else {
                    search.lost(now, *mss);
                }
            }
        };
        run(&mut search, NOW, &mut mss, passes);
        assert!((passes - NEAR..=passes).contains(&mss), "{mss}");
        let later = NOW + RAISE_AFTER;
        assert_eq!(search.next_size(NOW, mss, agreed), None);
        run(&mut search, later, &mut mss, agreed);
        assert_eq!(mss, agreed);
    }
}

//! The sender's estimate of how many packets are blocked (CAPS sections VI-A, VI-B and IX-C; mechanisms A4.3).
//!
//! Short flows are too short for an estimate of their own, so a host keeps one [`Estimator`] for each
//! [destination](super::Destinations), which all connections to it share.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use spindle_units::{Duration, Instant};

use super::formulas::Blocking;

/// Most destinations of which a host keeps estimates. Beyond this limit, the estimates that no connection uses
/// are dropped.
const MAX_DESTINATIONS: usize = 4096;
/// How many sampling periods the largest small and the largest large round-trip time are taken over: 10 ms with
/// periods of 200 us (mechanisms A4.6), and as many periods if they are longer.
const MEMORY: u64 = 50;
/// RTT_S and RTT_L, the round-trip times of paths without and with long flows, until one was measured: those of
/// an empty network of 100 us and of a full queue of 256 packets at 1 Gbps (mechanisms A4.6).
pub const FIRST_ROUND_TRIPS: (Duration, Duration) =
    (Duration::from_micros(100), Duration::from_millis(3));
/// The largest share of blocked packets that is used: no more than half of the samples can be above twice their
/// own mean (mechanisms A4.3).
const MOST: (u32, u32) = (1, 2);

/// The largest value of the last [`MEMORY`] periods, to within half of that time. Without new values the last
/// result stands, as for the share of blocked packets.
#[derive(Clone, Copy, Debug)]
struct WindowedMax {
    half: Duration,
    /// The largest value of the current half, and of the half before it.
    halves: [Option<Duration>; 2],
    turns: Option<Instant>,
}

impl WindowedMax {
    fn new(memory: Duration) -> Self {
        Self {
            half: memory / 2,
            halves: [None; 2],
            turns: None,
        }
    }

    fn add(&mut self, now: Instant, value: Duration) {
        if self.turns.is_none_or(|at| now >= at) {
            let next = self.turns.is_some_and(|at| now < at + self.half);
            self.halves = [None, self.halves[0].filter(|_| next)];
            self.turns = Some(now + self.half);
        }
        self.halves[0] = self.halves[0].max(Some(value));
    }

    fn get(&self) -> Option<Duration> {
        self.halves[0].max(self.halves[1])
    }
}

/// How the share of blocked packets is computed from samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// Length of a sampling period: two round trips without a queue (CAPS section IX-C: 200 us).
    pub period: Duration,
    /// What counts in addition to the last period.
    pub share: Share,
    /// RTT_S and RTT_L until one was measured, by default [`FIRST_ROUND_TRIPS`].
    pub round_trips: (Duration, Duration),
}

/// The samples of which the share of blocked packets is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Share {
    /// The samples of the last period that had any (CAPS section VI-B).
    #[default]
    Last,
    /// The samples of all periods, each period weighted with 7/8 of the next one, like the smoothed round-trip
    /// time. A single late packet then does not stand for all packets (our choice).
    Smoothed,
}

/// Totals of the sampling periods of one path, or of several. The first period of each path is left out,
/// because the smoothed mean begins with it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Periods {
    /// Periods with samples.
    pub count: u64,
    /// The relative difference between RTT_avg and RTT_smooth, which includes that RTT_avg already (CAPS Fig
    /// 19), summed.
    pub apart: f64,
    /// The shares p_B of blocked packets, summed.
    pub blocking: f64,
}

impl Periods {
    /// The sum of both.
    #[must_use]
    pub fn plus(self, o: Self) -> Self {
        Self {
            count: self.count + o.count,
            apart: self.apart + o.apart,
            blocking: self.blocking + o.blocking,
        }
    }

    fn add(&mut self, mean: Duration, smooth: Duration, blocking: Blocking) {
        let smooth = smooth.as_nanos().max(1);
        self.count += 1;
        self.apart += mean.as_nanos().abs_diff(smooth) as f64 / smooth as f64;
        self.blocking += blocking.get();
    }
}

/// What is known about the path to one destination.
#[derive(Clone, Debug)]
pub struct Estimator {
    sampling: Sampling,
    /// When the current sampling period ends.
    ends: Option<Instant>,
    /// Samples of this period, their sum in nanoseconds, and how many of them are large.
    samples: u32,
    sum: u64,
    large: u32,
    smooth: Option<Duration>,
    blocking: Blocking,
    /// The weighted numbers of large samples and of all samples, in 1/256.
    weighed: (u64, u64),
    short: WindowedMax,
    long: WindowedMax,
    /// The first sample of all, which the samples of the first period are compared with.
    first: Option<Duration>,
    /// The mean of the last period. Like the periods, it is only for observers.
    mean: Option<Duration>,
    periods: Periods,
}

impl Estimator {
    /// Makes an estimator without samples, for which no packet is blocked.
    pub fn new(sampling: Sampling) -> Self {
        let memory = sampling.period * MEMORY;
        Self {
            sampling,
            weighed: (0, 0),
            ends: None,
            samples: 0,
            sum: 0,
            large: 0,
            smooth: None,
            blocking: Blocking::NONE,
            short: WindowedMax::new(memory),
            long: WindowedMax::new(memory),
            first: None,
            mean: None,
            periods: Periods::default(),
        }
    }

    /// Adds the round-trip time of a packet.
    ///
    /// Returns whether it is large: more than twice the smoothed mean of the periods before (CAPS section
    /// IX-C).
    pub fn sample(&mut self, now: Instant, rtt: Duration) -> bool {
        self.close(now);
        self.ends.get_or_insert(now + self.sampling.period);
        let usual = self.smooth.unwrap_or(*self.first.get_or_insert(rtt));
        self.samples = self.samples.saturating_add(1);
        self.sum = self.sum.saturating_add(rtt.as_nanos());
        let large = rtt > usual * 2;
        if large {
            self.large = self.large.saturating_add(1);
            self.long.add(now, rtt);
        } else {
            self.short.add(now, rtt);
        }
        large
    }

    /// Ends the sampling period if it is over.
    fn close(&mut self, now: Instant) {
        if self.ends.is_none_or(|at| now < at) {
            return;
        }
        self.ends = None;
        let Some(mean) = self.sum.checked_div(u64::from(self.samples)) else {
            return;
        };
        let before = self.smooth;
        let smooth = match before {
            None => Duration::from_nanos(mean),
            // RTT_smooth = 7/8 RTT_smooth + 1/8 RTT_avg (CAPS section VI-A).
            Some(smooth) => Duration::from_nanos((smooth.as_nanos() * 7 + mean) / 8),
        };
        self.smooth = Some(smooth);
        let mean = Duration::from_nanos(mean);
        self.mean = Some(mean);
        let (large, samples) = (u64::from(self.large) << 8, u64::from(self.samples) << 8);
        self.weighed = match self.sampling.share {
            Share::Last => (large, samples),
            Share::Smoothed => {
                let faded = |weight: u64| weight - weight / 8;
                (
                    faded(self.weighed.0) + large,
                    faded(self.weighed.1) + samples,
                )
            }
        };
        self.blocking = capped(self.weighed).unwrap_or(self.blocking);
        if before.is_some() {
            self.periods.add(mean, smooth, self.blocking);
        }
        (self.samples, self.sum, self.large) = (0, 0, 0);
    }

    /// The share of packets that are blocked, p_B = n_L / n of the last sampling period with samples; at
    /// most a half.
    pub fn blocking(&mut self, now: Instant) -> Blocking {
        self.close(now);
        self.blocking
    }

    /// RTT_S and RTT_L (mechanisms A4.6): the longest of the recent round-trip times that count as short, and
    /// the longest of those that count as long.
    pub fn round_trips(&self) -> (Duration, Duration) {
        let (first_short, first_long) = self.sampling.round_trips;
        let short = self.short.get().unwrap_or(first_short);
        let long = self.long.get().unwrap_or(first_long);
        (short, long.max(short))
    }

    /// RTT_avg of the last sampling period and RTT_smooth, once a period is over.
    pub fn means(&self) -> Option<(Duration, Duration)> {
        self.mean.zip(self.smooth)
    }

    /// Totals of the sampling periods that are over.
    pub fn periods(&self) -> Periods {
        self.periods
    }
}

/// The share `large / all`, but no more than [`MOST`].
fn capped((large, all): (u64, u64)) -> Option<Blocking> {
    let (most, of) = MOST;
    if large * u64::from(of) > all * u64::from(most) {
        return Blocking::new(most, of).ok();
    }
    let scale = |weight: u64| u32::try_from(weight).ok();
    Blocking::new(scale(large)?, scale(all)?).ok()
}

/// An estimator that several connections share.
#[derive(Clone, Debug)]
pub(crate) struct Shared(Arc<Mutex<Estimator>>);

impl Shared {
    /// The estimator. A stack serves its connections one after the other, so the lock is free unless another
    /// host shares the estimator.
    pub(crate) fn get(&self) -> MutexGuard<'_, Estimator> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The number of the leaf switch of the sending hosts, if several hosts share estimators, and the number of the
/// destination.
type Ends = (Option<u128>, u128);

/// The estimators of a host, or of several hosts.
#[derive(Debug, Default)]
pub(crate) struct Estimators {
    all: BTreeMap<Ends, Shared>,
}

impl Estimators {
    /// The estimator of the paths between two ends. It is made with this `sampling` if there is none yet.
    pub(crate) fn between(&mut self, ends: Ends, sampling: Sampling) -> Shared {
        if self.all.len() >= MAX_DESTINATIONS && !self.all.contains_key(&ends) {
            self.all
                .retain(|_, shared| Arc::strong_count(&shared.0) > 1);
        }
        let new = || Shared(Arc::new(Mutex::new(Estimator::new(sampling))));
        self.all.entry(ends).or_insert_with(new).clone()
    }

    /// Totals of the sampling periods of all estimators.
    pub(crate) fn periods(&self) -> Periods {
        let each = self.all.values().map(|shared| shared.get().periods());
        each.fold(Periods::default(), Periods::plus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_micros(200);
    const SAMPLING: Sampling = Sampling {
        period: PERIOD,
        share: Share::Last,
        round_trips: FIRST_ROUND_TRIPS,
    };

    fn us(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    fn at(n: u64) -> Instant {
        Instant::ZERO + us(n)
    }

    /// An estimator whose smoothed round trip is 100 us.
    fn settled() -> Estimator {
        let mut e = Estimator::new(SAMPLING);
        (0..10).for_each(|k| _ = e.sample(at(k), us(100)));
        assert_eq!(e.blocking(at(200)).get(), 0.0);
        e
    }

    #[test]
    fn samples_above_twice_the_smoothed_mean_count_as_blocked() {
        let mut e = settled();
        for k in 0..40 {
            let rtt = if k % 10 == 0 { us(3000) } else { us(150) };
            e.sample(at(200 + k), rtt);
        }
        assert_eq!(e.blocking(at(399)).get(), 0.0, "the period goes on");
        let p = e.blocking(at(400));
        assert_eq!((p.get(), p.redundancy(10)), (0.1, 2));
        assert_eq!(e.round_trips(), (us(150), us(3000)));
        // Without new samples, the last results stand.
        assert_eq!(e.blocking(at(900_000)).get(), 0.1);
        assert_eq!(e.round_trips(), (us(150), us(3000)));
        e.sample(at(900_000), us(120));
        assert_eq!(e.round_trips(), (us(120), us(3000)));
    }

    #[test]
    fn round_trips_are_remembered_for_fifty_periods() {
        let period = PERIOD * 80;
        let mut e = Estimator::new(Sampling { period, ..SAMPLING });
        assert_eq!(e.round_trips(), FIRST_ROUND_TRIPS);
        e.sample(at(0), us(9000));
        e.sample(at(1), us(8000));
        e.sample(at(390_000), us(8000));
        assert_eq!(e.round_trips().0, us(9000));
        e.sample(at(800_000), us(8000));
        assert_eq!(e.round_trips().0, us(8000));
        // Fifty periods of 200 us are over.
        let mut e = settled();
        e.sample(at(12_000), us(80));
        assert_eq!(e.round_trips().0, us(80));
    }

    #[test]
    fn share_of_blocked_packets_is_at_most_one_half() {
        let mut e = settled();
        (0..10).for_each(|k| _ = e.sample(at(200 + k), us(500)));
        assert_eq!(e.blocking(at(400)).get(), 0.5);
    }

    #[test]
    fn smoothed_share_does_not_follow_a_single_late_packet() {
        let share = Share::Smoothed;
        let mut e = Estimator::new(Sampling { share, ..SAMPLING });
        let mut last = settled();
        for e in [&mut e, &mut last] {
            (0..10).for_each(|k| _ = e.sample(at(k), us(100)));
            (0..10).for_each(|k| _ = e.sample(at(200 + k), us(100)));
            e.sample(at(400), us(3000));
        }
        assert_eq!(last.blocking(at(600)).get(), 0.5);
        let p = e.blocking(at(600)).get();
        assert!((0.05..0.07).contains(&p), "1 of 17.4: {p}");
    }

    #[test]
    fn smoothed_mean_moves_by_an_eighth() {
        let mut e = settled();
        e.sample(at(200), us(180));
        e.blocking(at(400));
        assert_eq!(e.means(), Some((us(180), us(110))));
    }

    #[test]
    fn periods_are_summed_except_the_first() {
        let mut e = settled();
        assert_eq!(e.periods(), Periods::default());
        e.sample(at(200), us(180));
        e.sample(at(300), us(60));
        e.sample(at(500), us(800));
        // 120 us against 102.5 us smoothed, then 800 us, which is blocked, against 189.6875 us smoothed.
        e.blocking(at(900));
        let p = e.periods();
        assert_eq!((p.count, p.blocking), (2, 0.5));
        let apart = (120.0 - 102.5) / 102.5 + (800.0 - 189.6875) / 189.6875;
        assert!((p.apart - apart).abs() < 1e-4, "{p:?} {apart}");

        let mut all = Estimators::default();
        (0..3).for_each(|d| *all.between((None, d), SAMPLING).get() = e.clone());
        let three = Periods::default().plus(p).plus(p).plus(p);
        assert_eq!(all.periods(), three);
    }

    #[test]
    fn destination_has_one_estimator_while_it_is_used() {
        let mut all = Estimators::default();
        let first = all.between((None, 1), SAMPLING);
        first.get().sample(at(1), us(70));
        assert_eq!(all.between((None, 1), SAMPLING).get().samples, 1);
        (2..2 + 2 * MAX_DESTINATIONS as u128).for_each(|d| drop(all.between((None, d), SAMPLING)));
        assert!(all.all.len() <= MAX_DESTINATIONS);
        assert_eq!(all.between((None, 1), SAMPLING).get().samples, 1);
    }
}

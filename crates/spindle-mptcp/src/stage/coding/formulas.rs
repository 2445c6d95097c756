//! What coding costs and gains, by the formulas of CAPS (section VI, equations 1 to 7).
//!
//! A short flow's packets are spread over all paths. Packets on paths with long flows are *blocked*, each with
//! probability p_B. A coding unit sends k packets as k + r coded packets, any k of which yield all k. This
//! module computes how large r should be, how often a unit gets through unblocked, how long a window of w
//! packets takes, and which k minimises that time.
//!
//! Nothing here allocates. [`optimal_unit`] walks over all k once. Each step takes a few multiplications and a
//! power.

use std::fmt;
use std::str::FromStr;

use spindle_units::{BitRate, Duration, Probability};

/// The share of packets that are blocked, p_B: a ratio of whole numbers, so that
/// [`Self::redundancy`] is exact. At most [`Self::MOST`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocking {
    blocked: u32,
    of: u32,
}

/// Not a valid share of blocked packets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "found {found}, want a share of blocked packets from 0 to 0.99, as in \"0.3\", \"30%\" or \"4/40\""
)]
pub struct BlockingError {
    /// The value that was given.
    pub found: String,
}

impl Blocking {
    /// Nothing is blocked.
    pub const NONE: Self = Self { blocked: 0, of: 1 };
    /// The largest share: a unit then needs 99 redundant packets for each of its own. Beyond it the formulas
    /// have no useful result (our choice; the estimator stays at or below a half).
    pub const MOST: Self = Self {
        blocked: 99,
        of: 100,
    };
    /// The denominator to which a share given as a fraction is rounded.
    const PARTS: u32 = 1_000_000;

    /// `blocked` of `of`: n_L of n (CAPS section VI-B).
    ///
    /// # Errors
    /// If `of` is 0 or the share is above [`Self::MOST`].
    pub fn new(blocked: u32, of: u32) -> Result<Self, BlockingError> {
        let most = u64::from(of) * u64::from(Self::MOST.blocked);
        if of == 0 || u64::from(blocked) * u64::from(Self::MOST.of) > most {
            return Err(BlockingError {
                found: format!("{blocked}/{of}"),
            });
        }
        Ok(Self { blocked, of })
    }

    /// The share that is this probability, to the nearest millionth.
    ///
    /// # Errors
    /// If it is above [`Self::MOST`].
    pub fn from_probability(p: Probability) -> Result<Self, BlockingError> {
        let parts = (p.get() * f64::from(Self::PARTS)).round() as u32;
        Self::new(parts, Self::PARTS).map_err(|_| BlockingError {
            found: p.to_string(),
        })
    }

    /// The share as a number, 0 to 0.99.
    pub fn get(self) -> f64 {
        f64::from(self.blocked) / f64::from(self.of)
    }

    /// Redundant packets to send with a unit of `k`, so that on average k packets arrive unblocked: `ceil(k n_L
    /// / (n - n_L))` (CAPS section VI-B). It is computed in whole numbers, because inexact fractions give wrong
    /// ceilings. At most `u32::MAX`.
    pub fn redundancy(self, k: u32) -> u32 {
        let (blocked, free) = (u64::from(self.blocked), u64::from(self.of - self.blocked));
        let r = (u64::from(k) * blocked).div_ceil(free);
        u32::try_from(r).unwrap_or(u32::MAX)
    }
}

impl FromStr for Blocking {
    type Err = BlockingError;

    /// Reads "0.3", "30%" (both to the nearest millionth) or "4/40".
    fn from_str(text: &str) -> Result<Self, BlockingError> {
        let wrong = || BlockingError {
            found: format!("\"{text}\""),
        };
        let share = match text.split_once('/') {
            Some((blocked, of)) => {
                let number = |t: &str| t.trim().parse().map_err(|_| wrong());
                Self::new(number(blocked)?, number(of)?)
            }
            None => Self::from_probability(text.parse().map_err(|_| wrong())?),
        };
        share.map_err(|_| wrong())
    }
}

impl fmt::Display for Blocking {
    /// As a percentage if that is exact, else as a ratio.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = |p: &Probability| {
            let parts = (p.get() * f64::from(Self::PARTS)).round();
            parts * f64::from(self.of) == f64::from(self.blocked) * f64::from(Self::PARTS)
        };
        match Probability::new(self.get()).ok().filter(exact) {
            Some(p) => p.fmt(f),
            None => f.pad(&format!("{}/{}", self.blocked, self.of)),
        }
    }
}

/// The properties of the paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conditions {
    /// Rate of the bottleneck, C.
    pub rate: BitRate,
    /// Bytes of a coded packet, MSS in the equations.
    pub packet: u32,
    /// The longest round trip on paths without long flows, RTT_S.
    pub rtt_short: Duration,
    /// The longest round trip on paths with long flows, RTT_L.
    pub rtt_long: Duration,
}

/// How the units in a window of w packets are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Units {
    /// w/k, as in the equations.
    #[default]
    Fraction,
    /// w/k rounded down.
    Whole,
}

impl Units {
    /// Units of `k` packets in a window of `w`.
    fn count(self, w: u32, k: u32) -> f64 {
        match self {
            Self::Fraction => f64::from(w) / f64::from(k),
            Self::Whole => f64::from(w / k),
        }
    }
}

impl Conditions {
    /// The time that a packet adds to the mean wait for a unit, in nanoseconds: MSS/(2C).
    fn half_packet(&self) -> f64 {
        f64::from(self.packet) * 8e9 / (2.0 * self.rate.0.max(1) as f64)
    }

    /// How long a packet of a unit of `k` waits for the others on average, d_B = (k-1) MSS / (2C)
    /// (equation 3).
    pub fn buffering_delay(&self, k: u32) -> Duration {
        nanos(f64::from(k.saturating_sub(1)) * self.half_packet())
    }

    /// The mean time of a window of `w` packets in units of `k` that get through unblocked with
    /// probability `p_s` each, d_w (equations 4 and 6).
    pub fn coded_delay(&self, w: u32, k: u32, p_s: f64, units: Units) -> Duration {
        let k = k.max(1);
        nanos(self.coded(k, p_s.clamp(0.0, 1.0).powf(units.count(w, k))))
    }

    /// d_w in nanoseconds if all units get through unblocked with probability `all`.
    fn coded(&self, k: u32, all: f64) -> f64 {
        let (short, long) = self.rtts();
        let wait = f64::from(k - 1) * self.half_packet();
        long + (short - long + wait) * all
    }

    /// The mean time of a window of `w` packets without coding, d_wnc (equation 5).
    pub fn uncoded_delay(&self, w: u32, blocking: Blocking) -> Duration {
        let (short, long) = self.rtts();
        let all = (1.0 - blocking.get()).powf(f64::from(w));
        nanos(all * short + (1.0 - all) * long)
    }

    fn rtts(&self) -> (f64, f64) {
        let ns = |d: Duration| d.as_nanos() as f64;
        (ns(self.rtt_short), ns(self.rtt_long))
    }
}

/// Rounds to the nearest nanosecond.
fn nanos(ns: f64) -> Duration {
    Duration::from_nanos(ns.round() as u64)
}

/// The probability that exactly `j` of `k + r` packets are blocked, p_B(j) (equation 1).
pub fn blocked(j: u32, k: u32, r: u32, blocking: Blocking) -> f64 {
    share(k, r, blocking, |i| i == u64::from(j))
}

/// The probability that a unit of `k + r` packets gets through unblocked: at most `r` of them are blocked, p_S
/// (equation 2). The error is below 1e-12.
pub fn unblocked(k: u32, r: u32, blocking: Blocking) -> f64 {
    share(k, r, blocking, |j| j <= u64::from(r))
}

/// Terms smaller than this, relative to the largest one, are left out.
const NEGLIGIBLE: f64 = 1e-24;

/// The probability that the number of blocked packets of `k + r` is one of those `wanted`. Terms are taken
/// relative to the largest, outwards from it, and divided by their sum. However many packets there are, no term
/// overflows, and not all terms vanish.
fn share(k: u32, r: u32, blocking: Blocking, wanted: impl Fn(u64) -> bool) -> f64 {
    let n = u64::from(k) + u64::from(r);
    let odds = f64::from(blocking.blocked) / f64::from(blocking.of - blocking.blocked);
    let mode = (((n + 1) as f64 * blocking.get()) as u64).min(n);
    let (mut all, mut hits) = (0.0, 0.0);
    let mut take = |j: u64, term: f64| {
        all += term;
        if wanted(j) {
            hits += term;
        }
        term > NEGLIGIBLE
    };
    let (mut j, mut term) = (mode, 1.0);
    while take(j, term) && j < n {
        term *= (n - j) as f64 / (j + 1) as f64 * odds;
        j += 1;
    }
    let (mut j, mut term) = (mode, 1.0);
    while j > 0 {
        term *= j as f64 / ((n - j + 1) as f64 * odds);
        j -= 1;
        if !take(j, term) {
            break;
        }
    }
    (hits / all).min(1.0)
}

/// The probability that the first `units * k` packets to arrive, of `units` units of `k + r` in any order, hold
/// `k` of each unit: `C(k+r, k)^units / C(units (k+r), units k)` (CAPS section VI-C, the model behind Fig 7;
/// the formula printed for 7b is misprinted). The time is proportional to the number of packets.
pub fn all_at_once(k: u32, r: u32, units: u32) -> f64 {
    let (k, n, units) = (u64::from(k), u64::from(k) + u64::from(r), u64::from(units));
    let ln = units as f64 * ln_choose(n, k) - ln_choose(units * n, units * k);
    ln.exp().min(1.0)
}

/// The logarithm of the number of ways to choose `k` of `n`.
fn ln_choose(n: u64, k: u64) -> f64 {
    let k = k.min(n - k);
    (1..=k).map(|i| ((n - k + i) as f64 / i as f64).ln()).sum()
}

/// The share of all traffic that coding adds, eta (equation 7, first form), if only short flows are coded, a
/// unit of `k` has `r` redundant packets, and long flows send `ratio` times as many packets.
pub fn overhead(k: u32, r: u32, ratio: f64) -> f64 {
    let added = f64::from(r) / f64::from(k.max(1));
    added / (1.0 + ratio.max(0.0) + added)
}

/// Like [`overhead`], but with exactly as much redundancy as compensates for blocked packets, not rounded up to
/// whole packets: p_B / (1 + g (1 - p_B)) (equation 7, second form).
pub fn overhead_unrounded(blocking: Blocking, ratio: f64) -> f64 {
    let p = blocking.get();
    p / (1.0 + ratio.max(0.0) * (1.0 - p))
}

/// The redundant packets of a unit in the equations from which k follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Redundant {
    /// Rounded up to whole packets, as they are sent ([`Blocking::redundancy`]).
    #[default]
    Whole,
    /// Not rounded: k p_B / (1 - p_B).
    Unrounded,
}

/// The k from 1 to `w` that minimises d_w (equations 4 and 6), with r by [`Blocking::redundancy`]. If several k
/// do, the smallest. 1 for a `w` of 0.
///
/// The time is proportional to `w / (1 - p_B)`: some 4 us for a window of 64 packets, 15 us for 256; see
/// [`LastOptimum`].
pub fn optimal_unit(w: u32, blocking: Blocking, conditions: &Conditions, units: Units) -> u32 {
    let mut walk = Walk::new(blocking);
    fastest(w, conditions, units, |_| {
        walk.next();
        walk.unblocked()
    })
}

/// Like [`optimal_unit`], but p_S of each k is that of [`unblocked_unrounded`]. The time is proportional to the
/// square of `w`.
pub fn optimal_unit_unrounded(
    w: u32,
    blocking: Blocking,
    conditions: &Conditions,
    units: Units,
) -> u32 {
    fastest(w, conditions, units, |k| unblocked_unrounded(k, blocking))
}

/// The smallest k from 1 to `w` that minimises d_w, if a unit of k gets through unblocked with probability
/// `p_s(k)`. `p_s` is called for each k, in ascending order.
fn fastest(w: u32, conditions: &Conditions, units: Units, mut p_s: impl FnMut(u32) -> f64) -> u32 {
    let (mut best, mut least) = (1, f64::INFINITY);
    for k in 1..=w {
        let delay = conditions.coded(k, p_s(k).powf(units.count(w, k)));
        if delay < least {
            (best, least) = (k, delay);
        }
    }
    best
}

/// The probability that a unit of `k` packets with r = k p_B / (1 - p_B) redundant packets gets through unblocked,
/// if r is not rounded to whole packets: p_S (equation 2) for real r. The sum of equation 2 is the regularised
/// incomplete beta function I of 1 - p_B with the parameters k and r + 1, which is defined for real r. For whole k
/// it is a finite sum. The time is proportional to k.
pub fn unblocked_unrounded(k: u32, blocking: Blocking) -> f64 {
    let p = blocking.get();
    let b = f64::from(k) * p / (1.0 - p) + 1.0;
    // I = 1 - p^b (1 + b q / 1! + b (b+1) q^2 / 2! + ...), with k terms and q = 1 - p.
    let (mut term, mut sum) = (p.powf(b), 0.0);
    for i in 0..k {
        sum += term;
        term *= (b + f64::from(i)) / f64::from(i + 1) * (1.0 - p);
    }
    (1.0 - sum).clamp(0.0, 1.0)
}

/// What an optimum depends on: w, p_B, the paths, and how units and redundant packets are counted.
type Inputs = (u32, Blocking, Conditions, (Units, Redundant));

/// The last optimum, which is computed again only if its inputs have changed.
#[derive(Clone, Copy, Debug, Default)]
pub struct LastOptimum {
    last: Option<(Inputs, u32)>,
}

impl LastOptimum {
    /// Returns [`optimal_unit`] or [`optimal_unit_unrounded`] of the same inputs.
    pub fn get(
        &mut self,
        w: u32,
        blocking: Blocking,
        conditions: &Conditions,
        (units, redundant): (Units, Redundant),
    ) -> u32 {
        let asked = (w, blocking, *conditions, (units, redundant));
        match self.last {
            Some((known, k)) if known == asked => k,
            _ => {
                let optimum = match redundant {
                    Redundant::Whole => optimal_unit,
                    Redundant::Unrounded => optimal_unit_unrounded,
                };
                let k = optimum(w, blocking, conditions, units);
                self.last = Some((asked, k));
                k
            }
        }
    }
}

/// Computes p_S of one k after the other, with r by [`Blocking::redundancy`]. From P(at most r of n are
/// blocked) and P(exactly r are blocked) follow the same probabilities for one more packet. The latter stays
/// near the middle of its distribution, so it never vanishes.
#[derive(Clone, Debug)]
struct Walk {
    blocking: Blocking,
    k: u32,
    r: u32,
    at_most: f64,
    just: f64,
}

impl Walk {
    /// At k = 0.
    fn new(blocking: Blocking) -> Self {
        Self {
            blocking,
            k: 0,
            r: 0,
            at_most: 1.0,
            just: 1.0,
        }
    }

    /// Moves on to the next k.
    fn next(&mut self) {
        let p = self.blocking.get();
        let n = |walk: &Self| f64::from(walk.k) + f64::from(walk.r);
        // One packet more, and at most r blocked: this fails if r were blocked before and the new packet is
        // blocked.
        self.at_most -= p * self.just;
        self.k += 1;
        self.just *= (1.0 - p) * n(self) / f64::from(self.k);
        let r = self.blocking.redundancy(self.k);
        while self.r < r {
            // One packet more and one blocked packet more: this also holds if r + 1 were blocked before and the
            // new packet is not blocked.
            self.r += 1;
            let step = self.just * p / f64::from(self.r);
            self.at_most += step * f64::from(self.k);
            self.just = step * n(self);
        }
    }

    /// p_S of the current k.
    fn unblocked(&self) -> f64 {
        self.at_most.clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests;

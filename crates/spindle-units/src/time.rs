//! [`Instant`] and [`Duration`]: whole nanoseconds in 64 bits, enough for 584 years.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};
use std::str::FromStr;

use crate::UnitError;
use crate::quantity::{Kind, Unit, write_decimal};

const UNITS: [Unit; 4] = [
    Unit {
        name: "s",
        factor: 1_000_000_000,
    },
    Unit {
        name: "ms",
        factor: 1_000_000,
    },
    Unit {
        name: "us",
        factor: 1_000,
    },
    Unit {
        name: "ns",
        factor: 1,
    },
];

const DURATION: Kind = Kind {
    what: "a duration",
    accepted: "a number with ns, us, ms, s or min, as in \"280us\" or \"1.5s\"",
    units: &[
        Unit {
            name: "ns",
            factor: 1,
        },
        Unit {
            name: "us",
            factor: 1_000,
        },
        Unit {
            name: "\u{b5}s",
            factor: 1_000,
        },
        Unit {
            name: "\u{3bc}s",
            factor: 1_000,
        },
        Unit {
            name: "ms",
            factor: 1_000_000,
        },
        Unit {
            name: "s",
            factor: 1_000_000_000,
        },
        Unit {
            name: "min",
            factor: 60_000_000_000,
        },
    ],
    without_unit: None,
    rounds: true,
};

const INSTANT: Kind = Kind {
    what: "a point in time",
    ..DURATION
};

/// A point in time: nanoseconds since the start of the run (virtual clock) or since the driver's
/// epoch (real clock). Never negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

/// A span of time in nanoseconds, never negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(u64);

impl Instant {
    /// The start of the clock.
    pub const ZERO: Self = Self(0);
    /// Later than any event; used as "never".
    pub const FAR_FUTURE: Self = Self(u64::MAX);

    /// The instant `nanos` nanoseconds after the start of the clock.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the start of the clock.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole microseconds since the start of the clock.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// Whole milliseconds since the start of the clock.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Seconds since the start of the clock.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 * 1e-9
    }

    /// The span from `earlier` to `self`, or zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl Duration {
    /// The empty span.
    pub const ZERO: Self = Self(0);
    /// The longest span.
    pub const MAX: Self = Self(u64::MAX);

    /// A span of `n` nanoseconds.
    pub const fn from_nanos(n: u64) -> Self {
        Self(n)
    }

    /// A span of `n` microseconds.
    pub const fn from_micros(n: u64) -> Self {
        Self(n.saturating_mul(1_000))
    }

    /// A span of `n` milliseconds.
    pub const fn from_millis(n: u64) -> Self {
        Self(n.saturating_mul(1_000_000))
    }

    /// A span of `n` seconds.
    pub const fn from_secs(n: u64) -> Self {
        Self(n.saturating_mul(1_000_000_000))
    }

    /// A span of `s` seconds, rounded to the nearest nanosecond. Negative numbers and NaN become zero.
    pub fn from_secs_f64(s: f64) -> Self {
        Self((s * 1e9).round() as u64)
    }

    /// The span in nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The span in whole microseconds.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// The span in whole milliseconds.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// The span in seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 * 1e-9
    }

    /// Whether the span is zero.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// `self - other`, or zero if the difference would be negative.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// The absolute difference of two spans.
    pub const fn abs_diff(self, other: Self) -> Self {
        Self(self.0.abs_diff(other.0))
    }
}

/// Writes the largest unit that does not exceed the span, with as many decimals as needed.
fn write_span(f: &mut fmt::Formatter<'_>, nanos: u64) -> fmt::Result {
    // Zero is smaller than every unit; it is written as "0s".
    let at = UNITS.iter().position(|u| nanos >= u.factor).unwrap_or(0);
    write_decimal(f, nanos, &UNITS[at])
}

impl fmt::Display for Duration {
    /// Writes "280us", "1.5s" or "200ns". The text is exact: it parses back to the same span.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_span(f, self.0)
    }
}

impl fmt::Display for Instant {
    /// Writes the span since the start of the clock in the form of a [`Duration`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_span(f, self.0)
    }
}

impl FromStr for Duration {
    type Err = UnitError;

    /// Reads "280us", "5ms", "1.5s" or "200ns" and rounds to the nearest nanosecond.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        DURATION.parse(text).map(Self)
    }
}

impl FromStr for Instant {
    type Err = UnitError;

    /// Reads the span since the start of the clock in the form of a [`Duration`].
    fn from_str(text: &str) -> Result<Self, UnitError> {
        INSTANT.parse(text).map(Self)
    }
}

impl From<Duration> for std::time::Duration {
    fn from(d: Duration) -> Self {
        Self::from_nanos(d.0)
    }
}

impl From<std::time::Duration> for Duration {
    /// Spans longer than 584 years become [`Duration::MAX`].
    fn from(d: std::time::Duration) -> Self {
        Self(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl Sum for Duration {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, d: Duration) -> Self {
        Self(self.0.saturating_add(d.0))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, d: Duration) {
        *self = *self + d;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;
    fn sub(self, d: Duration) -> Self {
        Self(self.0.saturating_sub(d.0))
    }
}

impl Add for Duration {
    type Output = Self;
    fn add(self, d: Self) -> Self {
        Self(self.0.saturating_add(d.0))
    }
}

impl AddAssign for Duration {
    fn add_assign(&mut self, d: Self) {
        *self = *self + d;
    }
}

impl Sub for Duration {
    type Output = Self;
    fn sub(self, d: Self) -> Self {
        self.saturating_sub(d)
    }
}

impl SubAssign for Duration {
    fn sub_assign(&mut self, d: Self) {
        *self = *self - d;
    }
}

impl Mul<u64> for Duration {
    type Output = Self;
    fn mul(self, n: u64) -> Self {
        Self(self.0.saturating_mul(n))
    }
}

impl Div<u64> for Duration {
    type Output = Self;
    fn div(self, n: u64) -> Self {
        Self(self.0 / n)
    }
}

//! [`Bytes`] and [`BitRate`].

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub};
use std::str::FromStr;

use crate::quantity::{Kind, Unit, write_decimal};
use crate::{Duration, UnitError};

const fn unit(name: &'static str, factor: u64) -> Unit {
    Unit { name, factor }
}

const SIZE: Kind = Kind {
    what: "a size",
    accepted: "a number of bytes, plain or with B, KB, MB, GB, TB (powers of 1000) or KiB, MiB, \
               GiB, TiB (powers of 1024), as in \"128KB\", \"1MiB\" or \"64\"",
    units: &[
        unit("B", 1),
        unit("KB", 1_000),
        unit("kB", 1_000),
        unit("MB", 1_000_000),
        unit("GB", 1_000_000_000),
        unit("TB", 1_000_000_000_000),
        unit("KiB", 1 << 10),
        unit("MiB", 1 << 20),
        unit("GiB", 1 << 30),
        unit("TiB", 1 << 40),
    ],
    without_unit: Some(1),
    rounds: false,
};

const RATE: Kind = Kind {
    what: "a rate",
    accepted: "a number with bps, Kbps, Mbps, Gbps or Tbps (powers of 1000), as in \"300Mbps\"",
    units: &[
        unit("bps", 1),
        unit("Kbps", 1_000),
        unit("kbps", 1_000),
        unit("Mbps", 1_000_000),
        unit("Gbps", 1_000_000_000),
        unit("Tbps", 1_000_000_000_000),
    ],
    without_unit: None,
    rounds: true,
};

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

/// A rate in bits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BitRate(pub u64);

impl BitRate {
    /// The time needed to send `bytes` bytes at this rate, rounded to the nearest nanosecond. A rate of zero
    /// takes [`Duration::MAX`].
    pub fn time_to_send(self, bytes: u64) -> Duration {
        if self.0 == 0 {
            return Duration::MAX;
        }
        let bits_ns = u128::from(bytes) * 8 * 1_000_000_000;
        let rate = u128::from(self.0);
        let nanos = (bits_ns + rate / 2) / rate;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The number of whole bytes that this rate sends in `time`, at most `u64::MAX`.
    pub fn bytes_in(self, time: Duration) -> Bytes {
        let bytes = u128::from(self.0) * u128::from(time.as_nanos()) / 8_000_000_000;
        Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Bytes {
    type Output = Self;
    /// Returns zero if the difference would be negative.
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Mul<u64> for Bytes {
    type Output = Self;
    fn mul(self, n: u64) -> Self {
        Self(self.0.saturating_mul(n))
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self(0), Add::add)
    }
}

impl FromStr for Bytes {
    type Err = UnitError;

    /// Reads "128KB" (128000), "1MiB", "64B" or a plain number of bytes. Decimals are allowed if the result is
    /// a whole number of bytes: "1.5KB".
    fn from_str(text: &str) -> Result<Self, UnitError> {
        SIZE.parse(text).map(Self)
    }
}

impl fmt::Display for Bytes {
    /// Writes the largest unit that needs at most one decimal ("1.5MB"). If there is no such unit, it writes
    /// the largest power of 1024 that divides the number ("64KiB"), and otherwise bytes. The text is exact: it
    /// parses back to the same number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DECIMAL: [Unit; 4] = [
            unit("TB", 1_000_000_000_000),
            unit("GB", 1_000_000_000),
            unit("MB", 1_000_000),
            unit("KB", 1_000),
        ];
        const BINARY: [Unit; 4] = [
            unit("TiB", 1 << 40),
            unit("GiB", 1 << 30),
            unit("MiB", 1 << 20),
            unit("KiB", 1 << 10),
        ];
        let decimal = DECIMAL
            .iter()
            .find(|u| self.0 >= u.factor && self.0.is_multiple_of(u.factor / 10));
        if let Some(u) = decimal {
            return write_decimal(f, self.0, u);
        }
        match BINARY
            .iter()
            .find(|u| self.0 >= u.factor && self.0.is_multiple_of(u.factor))
        {
            Some(u) => f.pad(&format!("{}{}", self.0 / u.factor, u.name)),
            None => write_decimal(f, self.0, &unit("B", 1)),
        }
    }
}

impl FromStr for BitRate {
    type Err = UnitError;

    /// Reads "1.5Gbps", "300Mbps", "500Kbps" or "9600bps" and rounds to the nearest bit per second.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        RATE.parse(text).map(Self)
    }
}

impl fmt::Display for BitRate {
    /// Writes the largest unit that does not exceed the rate, with as many decimals as needed. The text is
    /// exact: it parses back to the same rate.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [Unit; 5] = [
            unit("Tbps", 1_000_000_000_000),
            unit("Gbps", 1_000_000_000),
            unit("Mbps", 1_000_000),
            unit("Kbps", 1_000),
            unit("bps", 1),
        ];
        let at = UNITS
            .iter()
            .position(|u| self.0 >= u.factor)
            .unwrap_or(UNITS.len() - 1);
        write_decimal(f, self.0, &UNITS[at])
    }
}

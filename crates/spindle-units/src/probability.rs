//! [`Probability`]: a number from 0 to 1.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use crate::UnitError;

/// A probability or a fraction: 0 to 1, both included. Written "2%" or "0.02".
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Probability(f64);

impl Probability {
    /// The probability of an event that never happens.
    pub const ZERO: Self = Self(0.0);
    /// The probability of an event that always happens.
    pub const ONE: Self = Self(1.0);

    /// The probability `p`.
    ///
    /// # Errors
    /// Returns [`UnitError::OutOfRange`] if `p` is below 0, above 1 or not a number.
    pub fn new(p: f64) -> Result<Self, UnitError> {
        if (0.0..=1.0).contains(&p) {
            // Adding zero turns -0 into 0, so that equality, order and hash agree.
            Ok(Self(p + 0.0))
        } else {
            Err(UnitError::OutOfRange {
                found: p.to_string(),
            })
        }
    }

    /// The probability as a number from 0 to 1.
    pub const fn get(self) -> f64 {
        self.0
    }

    /// Whether the probability is exactly zero.
    pub fn is_zero(self) -> bool {
        self.0 == 0.0
    }

    /// `1 - self`.
    pub fn complement(self) -> Self {
        Self(1.0 - self.0)
    }
}

// A probability is never NaN and never -0, so the order is total and equal values have equal bits.
impl Eq for Probability {}

impl Ord for Probability {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Probability {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for Probability {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

impl FromStr for Probability {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let found = text.trim();
        let value = match found.strip_suffix('%') {
            // Shifting the decimal point in the text is exact. Dividing by 100 is not.
            Some(percent) => shift_decimal(percent.trim(), -2),
            None => found.parse().ok(),
        };
        // The `f64` parser accepts "inf" and "nan", but they are not probabilities.
        let value = value
            .filter(|v: &f64| v.is_finite())
            .ok_or(UnitError::NotANumber {
                found: found.into(),
                what: "a probability",
                accepted: "a number from 0 to 1 or a percentage, as in \"0.02\" or \"2%\"",
            })?;
        Self::new(value).map_err(|_| UnitError::OutOfRange {
            found: found.into(),
        })
    }
}

/// Returns the number in `text` times ten to the power of `by`, correctly rounded.
fn shift_decimal(text: &str, by: i32) -> Option<f64> {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let exponent = exponent.parse::<i32>().ok()?.checked_add(by)?;
    format!("{mantissa}e{exponent}").parse().ok()
}

impl fmt::Display for Probability {
    /// Writes a percentage if it parses back to the same number, and the plain number otherwise.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = shift_decimal(&format!("{:e}", self.0), 2).map(|p| format!("{p}%"));
        match percent.filter(|p| p.parse() == Ok(*self)) {
            Some(p) => f.pad(&p),
            None => f.pad(&self.0.to_string()),
        }
    }
}

//! The text form that all quantities share: a decimal number and a unit, read and written exactly.

use std::fmt::{self, Write as _};

use crate::UnitError;

/// A unit: its name and its size in base units.
pub(crate) struct Unit {
    pub(crate) name: &'static str,
    pub(crate) factor: u64,
}

/// The kind of quantity to read: its units, its rules, and its names for error messages.
pub(crate) struct Kind {
    /// The quantity's name with its article: "a duration".
    pub(crate) what: &'static str,
    /// The accepted text forms, for error messages.
    pub(crate) accepted: &'static str,
    /// The units. Their names are compared exactly.
    pub(crate) units: &'static [Unit],
    /// The factor of a number without a unit, if one is allowed.
    pub(crate) without_unit: Option<u64>,
    /// Whether a value between two base units is rounded to the nearest one; otherwise it is an error.
    pub(crate) rounds: bool,
}

impl Kind {
    /// Reads `text` as this kind of quantity, in base units.
    pub(crate) fn parse(&self, text: &str) -> Result<u64, UnitError> {
        let found = text.trim();
        let split = found
            .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+')))
            .unwrap_or(found.len());
        let (number, unit) = (found[..split].trim(), found[split..].trim());
        if number.starts_with('-') && number.len() > 1 {
            return Err(UnitError::Negative {
                found: found.into(),
                what: self.what,
            });
        }
        let (mantissa, decimals) = decimal(number.strip_prefix('+').unwrap_or(number))
            .ok_or_else(|| self.not_a_number(found))?
            .ok_or_else(|| self.overflow(found))?;
        self.scale(found, mantissa, decimals, self.factor(found, unit)?)
    }

    fn factor(&self, found: &str, unit: &str) -> Result<u64, UnitError> {
        if unit.is_empty() {
            return self.without_unit.ok_or_else(|| UnitError::MissingUnit {
                found: found.into(),
                what: self.what,
                accepted: self.accepted,
            });
        }
        self.units
            .iter()
            .find(|u| u.name == unit)
            .map(|u| u.factor)
            .ok_or_else(|| UnitError::UnknownUnit {
                found: found.into(),
                what: self.what,
                unit: unit.into(),
                accepted: self.accepted,
            })
    }

    fn scale(
        &self,
        found: &str,
        mantissa: u128,
        decimals: u32,
        factor: u64,
    ) -> Result<u64, UnitError> {
        let product = mantissa
            .checked_mul(u128::from(factor))
            .ok_or_else(|| self.overflow(found))?;
        // `decimal` keeps at most 19 decimals, so the power fits.
        let divisor = 10u128.pow(decimals);
        if !self.rounds && product % divisor != 0 {
            return Err(UnitError::NotWhole {
                found: found.into(),
                what: self.what,
            });
        }
        u64::try_from(product / divisor + u128::from(product % divisor * 2 >= divisor))
            .map_err(|_| self.overflow(found))
    }

    fn not_a_number(&self, found: &str) -> UnitError {
        UnitError::NotANumber {
            found: found.into(),
            what: self.what,
            accepted: self.accepted,
        }
    }

    fn overflow(&self, found: &str) -> UnitError {
        UnitError::Overflow {
            found: found.into(),
            what: self.what,
        }
    }
}

/// Reads `digits[.digits]` as a mantissa and its number of decimals. `None` means that the text is not a
/// number, `Some(None)` that the number is too large. Decimals after the 19th are cut: no unit needs more.
fn decimal(text: &str) -> Option<Option<(u128, u32)>> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !digits(whole) || !digits(fraction) {
        return None;
    }
    let fraction = fraction.trim_end_matches('0');
    let fraction = &fraction[..fraction.len().min(19)];
    let mut mantissa: u128 = 0;
    for digit in whole.bytes().chain(fraction.bytes()) {
        let next = mantissa
            .checked_mul(10)
            .and_then(|m| m.checked_add(u128::from(digit - b'0')));
        match next {
            Some(m) => mantissa = m,
            None => return Some(None),
        }
    }
    Some(Some((mantissa, fraction.len() as u32)))
}

/// Writes `value / unit.factor` with as many decimals as needed, then the unit. The factor must be a power of
/// ten.
pub(crate) fn write_decimal(f: &mut fmt::Formatter<'_>, value: u64, unit: &Unit) -> fmt::Result {
    let mut text = String::with_capacity(24);
    write!(text, "{}", value / unit.factor)?;
    let rest = value % unit.factor;
    if rest != 0 {
        let width = unit.factor.ilog10() as usize;
        let decimals = format!("{rest:0width$}");
        write!(text, ".{}", decimals.trim_end_matches('0'))?;
    }
    text.push_str(unit.name);
    f.pad(&text)
}

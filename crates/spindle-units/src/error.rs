//! [`UnitError`]: what was wrong with the text of a quantity.

use thiserror::Error;

/// Why a text is not the quantity it should be. Each variant carries the text as it was found.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum UnitError {
    /// The text does not start with a decimal number.
    #[error("`{found}` is not {what}: it does not start with a number; accepted is {accepted}")]
    NotANumber {
        /// The text.
        found: String,
        /// What it should have been.
        what: &'static str,
        /// What is accepted.
        accepted: &'static str,
    },
    /// There is no unit where one is needed.
    #[error("`{found}` is not {what}: the unit is missing; accepted is {accepted}")]
    MissingUnit {
        /// The text.
        found: String,
        /// What it should have been.
        what: &'static str,
        /// What is accepted.
        accepted: &'static str,
    },
    /// The unit is none of those known; units are case-sensitive.
    #[error("`{found}` is not {what}: unknown unit `{unit}`; accepted is {accepted}")]
    UnknownUnit {
        /// The text.
        found: String,
        /// What it should have been.
        what: &'static str,
        /// The unit found.
        unit: String,
        /// What is accepted.
        accepted: &'static str,
    },
    /// The number is negative.
    #[error("`{found}` is not {what}: it must not be negative")]
    Negative {
        /// The text.
        found: String,
        /// What it should have been.
        what: &'static str,
    },
    /// The number is larger than 64 bits of the base unit hold.
    #[error("`{found}` is not {what}: it is too large (the most is 2^64 - 1 of the smallest unit)")]
    Overflow {
        /// The text.
        found: String,
        /// What it should have been.
        what: &'static str,
    },
    /// The number is no whole number of the base unit.
    #[error("`{found}` is not {what}: it is not a whole number of the smallest unit")]
    NotWhole {
        /// The text.
        found: String,
        /// What it should have been.
        what: &'static str,
    },
    /// A probability outside 0 to 1.
    #[error("`{found}` is not a probability: it must be between 0 and 1 (0% and 100%)")]
    OutOfRange {
        /// The text.
        found: String,
    },
}

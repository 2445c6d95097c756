//! [`UnitError`]: why a text is not a valid quantity.

use thiserror::Error;

/// Why a text is not the quantity it should be. Each variant contains the text that was found.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum UnitError {
    /// The text does not start with a decimal number.
    #[error("`{found}` is not {what}: it does not start with a number; accepted is {accepted}")]
    NotANumber {
        /// The text.
        found: String,
        /// The expected quantity with its article, such as "a duration".
        what: &'static str,
        /// The accepted text forms.
        accepted: &'static str,
    },
    /// The unit is missing, and this quantity needs one.
    #[error("`{found}` is not {what}: the unit is missing; accepted is {accepted}")]
    MissingUnit {
        /// The text.
        found: String,
        /// The expected quantity with its article.
        what: &'static str,
        /// The accepted text forms.
        accepted: &'static str,
    },
    /// The unit is unknown. Units are case-sensitive.
    #[error("`{found}` is not {what}: unknown unit `{unit}`; accepted is {accepted}")]
    UnknownUnit {
        /// The text.
        found: String,
        /// The expected quantity with its article.
        what: &'static str,
        /// The unit that was found.
        unit: String,
        /// The accepted text forms.
        accepted: &'static str,
    },
    /// The number is negative.
    #[error("`{found}` is not {what}: it must not be negative")]
    Negative {
        /// The text.
        found: String,
        /// The expected quantity with its article.
        what: &'static str,
    },
    /// The number of base units does not fit in 64 bits.
    #[error("`{found}` is not {what}: it is too large (the most is 2^64 - 1 of the smallest unit)")]
    Overflow {
        /// The text.
        found: String,
        /// The expected quantity with its article.
        what: &'static str,
    },
    /// The quantity is not a whole number of base units, and this kind of quantity is not rounded.
    #[error("`{found}` is not {what}: it is not a whole number of the smallest unit")]
    NotWhole {
        /// The text.
        found: String,
        /// The expected quantity with its article.
        what: &'static str,
    },
    /// The probability is below 0 or above 1.
    #[error("`{found}` is not a probability: it must be between 0 and 1 (0% and 100%)")]
    OutOfRange {
        /// The text.
        found: String,
    },
}

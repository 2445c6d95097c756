//! Formats numbers for people: three significant digits, the unit that fits, digits in groups.
//!
//! A narrow no-break space (U+202F) stands between number and unit, so that no line breaks between them. A
//! value that is not a finite number prints as a dash.

/// The dash that is printed if there is no number.
pub const NONE: &str = "\u{2013}";

/// The space between a number and its unit and between groups of digits.
const THIN: char = '\u{202f}';

/// What a number measures, and therefore how it is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// A time in microseconds.
    Micros,
    /// A fraction of one, printed as a percentage.
    Fraction,
    /// A whole number of items.
    Count,
    /// A size in bytes (KB = 1000 B).
    Bytes,
    /// A rate in bits per second.
    BitsPerSecond,
    /// A ratio: "1.24 times".
    Times,
    /// A number without a unit.
    Plain,
}

impl Quantity {
    /// `value` with its unit.
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Micros => micros(value),
            Self::Fraction => percent(value),
            Self::Count => grouped(value),
            Self::Bytes => bytes(value),
            Self::BitsPerSecond => bit_rate(value),
            Self::Times => times(value),
            Self::Plain => significant(value, 3),
        }
    }

    /// A 95 % interval, "2.31 ms to 2.46 ms".
    pub fn show_interval(self, (low, high): (f64, f64)) -> String {
        format!("{} to {}", self.show(low), self.show(high))
    }
}

/// `value` with `digits` significant digits, without trailing zeros after the decimal point. The exponent form
/// is used beyond 10^15 and below 10^-6.
pub fn significant(value: f64, digits: usize) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    let value = round_significant(value, digits);
    if value == 0.0 {
        return "0".to_owned();
    }
    let magnitude = value.abs().log10().floor() as i32;
    if !(-6..15).contains(&magnitude) {
        return format!("{value:.*e}", digits.saturating_sub(1));
    }
    let decimals = (digits as i32 - 1 - magnitude).clamp(0, 12) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// `value` rounded to `digits` significant digits.
fn round_significant(value: f64, digits: usize) -> f64 {
    // The decimal printer rounds correctly. Powers of ten in binary would not.
    let rounded = format!("{value:.*e}", digits.saturating_sub(1)).parse();
    rounded
        .ok()
        .filter(|v: &f64| v.is_finite())
        .unwrap_or(value)
}

/// `value` in the largest of `units` (factor, name; ascending) that keeps it at one or more.
fn with_unit(value: f64, units: &[(f64, &str)]) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    let rounded = round_significant(value, 3);
    let fits = |unit: &&(f64, &str)| rounded.abs() >= unit.0;
    match units.iter().rev().find(fits).or_else(|| units.first()) {
        Some((factor, name)) => format!("{}{THIN}{name}", significant(rounded / factor, 3)),
        None => significant(rounded, 3),
    }
}

/// A time given in microseconds: "812 µs", "2.41 ms", "1.5 s".
pub fn micros(us: f64) -> String {
    if us == 0.0 {
        return format!("0{THIN}\u{b5}s");
    }
    const UNITS: [(f64, &str); 4] = [(1e-3, "ns"), (1.0, "\u{b5}s"), (1e3, "ms"), (1e6, "s")];
    with_unit(us, &UNITS)
}

/// A fraction of one as a percentage: 0.00096 is "0.096%".
pub fn percent(fraction: f64) -> String {
    if !fraction.is_finite() {
        return NONE.to_owned();
    }
    format!("{}%", significant(fraction * 100.0, 3))
}

/// A ratio: "1.24×".
pub fn times(ratio: f64) -> String {
    if ratio.is_finite() {
        format!("{}\u{d7}", significant(ratio, 3))
    } else {
        NONE.to_owned()
    }
}

/// A size in bytes, KB = 1000 B: "1.46 KB".
pub fn bytes(n: f64) -> String {
    const UNITS: [(f64, &str); 5] = [
        (1.0, "B"),
        (1e3, "KB"),
        (1e6, "MB"),
        (1e9, "GB"),
        (1e12, "TB"),
    ];
    with_unit(n, &UNITS)
}

/// A rate in bits per second: "940 Mbps".
pub fn bit_rate(bps: f64) -> String {
    const UNITS: [(f64, &str); 5] = [
        (1.0, "bps"),
        (1e3, "kbps"),
        (1e6, "Mbps"),
        (1e9, "Gbps"),
        (1e12, "Tbps"),
    ];
    with_unit(bps, &UNITS)
}

/// A count with its digits in groups of three: "15 000".
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() * 2);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(THIN);
        }
        out.push(c);
    }
    out
}

/// A count that is given as a floating-point number. A count that is not whole keeps three digits.
fn grouped(value: f64) -> String {
    if (0.0..1e15).contains(&value) && value.fract() == 0.0 {
        count(value as u64)
    } else {
        significant(value, 3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(s: String) -> String {
        s.replace(THIN, " ")
    }

    #[test]
    fn times_are_shown_in_a_fitting_unit() {
        let cases = [
            (0.0, "0 µs"),
            (0.28, "280 ns"),
            (280.0, "280 µs"),
            (812.34, "812 µs"),
            (999.6, "1 ms"),
            (2412.0, "2.41 ms"),
            (1.5e6, "1.5 s"),
            (-2412.0, "-2.41 ms"),
            (7.2e9, "7200 s"),
        ];
        for (us, text) in cases {
            assert_eq!(plain(micros(us)), text, "{us}");
        }
    }

    #[test]
    fn non_finite_values_are_shown_as_a_dash() {
        for v in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            for q in [
                Quantity::Micros,
                Quantity::Fraction,
                Quantity::Bytes,
                Quantity::Plain,
            ] {
                assert_eq!(q.show(v), NONE);
            }
        }
    }

    #[test]
    fn percentages_counts_sizes_and_rates() {
        assert_eq!(percent(0.00096), "0.096%");
        assert_eq!(percent(0.0), "0%");
        assert_eq!(percent(1.0), "100%");
        assert_eq!(plain(count(15_000)), "15 000");
        assert_eq!(plain(count(999)), "999");
        assert_eq!(plain(count(1_000_000)), "1 000 000");
        assert_eq!(plain(bytes(1460.0)), "1.46 KB");
        assert_eq!(plain(bytes(0.0)), "0 B");
        assert_eq!(plain(bit_rate(9.4e8)), "940 Mbps");
        assert_eq!(plain(Quantity::Count.show(2.5)), "2.5");
    }

    #[test]
    fn extreme_values_are_shown_with_an_exponent() {
        assert_eq!(significant(1.234e300, 3), "1.23e300");
        assert_eq!(significant(1.234e-9, 3), "1.23e-9");
        assert_eq!(significant(f64::MAX, 3), "1.80e308");
    }
}

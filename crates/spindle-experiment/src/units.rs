//! The text forms of times, rates, sizes and shares in experiment files and on the command line.

use spindle_units::{BitRate, Bytes, Duration, Probability};

/// What is accepted as a text form, for error messages.
pub const DURATION: &str = "a time such as \"280us\" (units ns, us, ms, s)";
/// See [`DURATION`].
pub const RATE: &str = "a rate such as \"1Gbps\" (units bps, kbps, Mbps, Gbps, Tbps)";
/// See [`DURATION`].
pub const SIZE: &str = "a size such as \"128KB\" (units B, KB, MB, GB = powers of 1000; KiB, MiB, GiB = powers of 1024)";
/// See [`DURATION`].
pub const SHARE: &str = "a share from 0 to 1 or 0% to 100%, such as \"2%\"";

/// See [`DURATION`].
pub const LOAD: &str = "a rate such as \"10Mbps\" or a share of the capacity such as \"50%\"";

/// A time such as `280us`. `None` if the unit is missing or unknown, or if the number is negative.
pub fn duration(text: &str) -> Option<Duration> {
    text.parse().ok()
}

/// A rate such as `1Gbps`. `None` if the unit is missing or unknown, or if the number is negative.
pub fn rate(text: &str) -> Option<BitRate> {
    text.parse().ok()
}

/// A size such as `128KB` in bytes. `None` if the unit is missing or unknown, or if the number is negative.
pub fn size(text: &str) -> Option<u64> {
    text.parse::<Bytes>().ok().map(|b| b.0)
}

/// A share such as `2%` or `0.02`. `None` if it is outside 0 to 1.
pub fn share(text: &str) -> Option<f64> {
    text.parse::<Probability>().ok().map(Probability::get)
}

/// A share written as a percentage: `0.00125` as `0.125%`.
pub fn percent(share: f64) -> String {
    let text = format!("{:.6}", share * 100.0);
    format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Any quantity as a plain number in its base unit: times in microseconds, rates in bits per second, sizes in
/// bytes, shares from 0 up (not limited to 1), numbers unchanged.
pub fn quantity(text: &str) -> Option<f64> {
    duration(text)
        .map(|d| d.as_nanos() as f64 / 1e3)
        .or_else(|| rate(text).map(|r| r.0 as f64))
        .or_else(|| size(text).map(|s| s as f64))
        .or_else(|| match text.trim().strip_suffix('%') {
            Some(percent) => percent.trim().parse::<f64>().ok().map(|v| v / 100.0),
            None => text.trim().parse().ok(),
        })
        .filter(|v: &f64| v.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_with_units_are_converted_exactly() {
        assert_eq!(duration("280us"), Some(Duration::from_micros(280)));
        assert_eq!(duration("2.5 ms"), Some(Duration::from_micros(2500)));
        assert_eq!(rate("1Gbps"), Some(BitRate(1_000_000_000)));
        assert_eq!(size("128KB"), Some(128_000));
        assert_eq!(size("128KiB"), Some(131_072));
        assert_eq!(share("0.125%"), Some(0.00125));
        assert_eq!(share("0.02"), Some(0.02));
        assert_eq!(percent(0.00125), "0.125%");
        assert_eq!(percent(0.02), "2%");
        assert_eq!(percent(0.0), "0%");
        assert_eq!(quantity("2.4ms"), Some(2400.0));
        assert_eq!(quantity("450%"), Some(4.5));
    }

    #[test]
    fn wrong_units_and_signs_are_refused() {
        for bad in ["280", "-1ms", "5 parsecs", "", "ms", "nan us", "1e400s"] {
            assert_eq!(duration(bad), None, "{bad}");
        }
        assert_eq!(rate("10MB"), None);
        assert_eq!(rate("-1Gbps"), None);
        assert_eq!(size("10Mbps"), None);
        assert_eq!(share("-2%"), None);
        assert_eq!(share("101%"), None);
        assert_eq!(share("2ms"), None);
    }
}

//! Points that are computed and not run: a paper's formulas as traffic of kind `formula`
//! (docs/reference/experiment-file.md, "`kind = \"formula\"`").
//!
//! Such a point has the same result for every seed. Its metrics are therefore exact, and claims about them need
//! no intervals.

use serde::{Deserialize, Serialize};
use spindle_mptcp::stage::coding::formulas::{
    Blocking, Conditions, Units, all_at_once, optimal_unit, overhead, overhead_unrounded, unblocked,
};
use spindle_units::Duration;

use crate::metrics::show_us;

/// The series that a formula is evaluated for. They take the place of transports in other experiments.
pub(crate) const SERIES: [&str; 2] = [CODED, UNCODED];

/// The series with coding.
const CODED: &str = "coded";
/// The series without coding.
const UNCODED: &str = "uncoded";

/// CAPS's formulas (section VI) with their parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Formula {
    /// The share of packets that are blocked, p_B.
    pub blocking: Blocking,
    /// Packets of a unit, k. `None` selects the optimum.
    pub k: Option<u32>,
    /// Redundant packets of a unit, r. `None` applies the paper's rule.
    pub redundancy: Option<u32>,
    /// Packets of the window, w.
    pub window: u32,
    /// The paths.
    pub conditions: Conditions,
    /// The ratio of long flows' packets to short flows' packets, g.
    pub ratio: f64,
    /// How many units the window counts as.
    pub units: Units,
}

/// A number that a formula gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Computed {
    /// Redundant packets of a unit by the rule, r. It is absent if the point gives r.
    Redundancy,
    /// Probability that a unit gets through unblocked, p_S.
    Unblocked,
    /// Probability that the first packets to arrive, as many as the window has, complete the whole window.
    AtOnce,
    /// The optimal size of a unit, regardless of the size that the point uses.
    Optimum,
    /// Mean wait for the rest of a unit, d_B, microseconds.
    Buffering,
    /// Mean time of the window, d_w or d_wnc, microseconds.
    Delay,
    /// What coding adds to all traffic, eta, by the form of the equation without k and without rounding up.
    Overhead,
    /// What coding adds to all traffic, eta, with whole redundant packets.
    OverheadWhole,
}

/// All computed metrics, by name.
pub(crate) const COMPUTED_METRICS: [(&str, Computed); 8] = [
    ("caps.redundancy", Computed::Redundancy),
    ("caps.unblocked", Computed::Unblocked),
    ("caps.at-once", Computed::AtOnce),
    ("caps.optimum", Computed::Optimum),
    ("caps.buffering", Computed::Buffering),
    ("caps.delay", Computed::Delay),
    ("caps.overhead", Computed::Overhead),
    ("caps.overhead.whole", Computed::OverheadWhole),
];

impl Computed {
    /// The quantity's name in a sentence.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Redundancy => "redundant packets of a unit",
            Self::Unblocked => "units that get through unblocked",
            Self::AtOnce => "windows whole with the first packets to arrive",
            Self::Optimum => "optimal size of a unit",
            Self::Buffering => "wait for the rest of a unit",
            Self::Delay => "mean time of a window",
            Self::Overhead => "overhead",
            Self::OverheadWhole => "overhead with whole packets",
        }
    }

    /// A value as text with its unit.
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Buffering | Self::Delay => show_us(value),
            _ if self.is_count() => value.to_string(),
            _ => crate::units::percent((value * 1e6).round() / 1e6),
        }
    }

    /// Whether the quantity is a plain number.
    pub const fn is_count(self) -> bool {
        matches!(self, Self::Redundancy | Self::Optimum)
    }

    /// Whether the quantity is a time.
    pub const fn is_time(self) -> bool {
        matches!(self, Self::Buffering | Self::Delay)
    }
}

fn us(d: Duration) -> f64 {
    d.as_nanos() as f64 / 1e3
}

impl Formula {
    /// Evaluates the formulas for a series, `coded` or `uncoded`. Returns nothing for any other name.
    pub fn evaluate(&self, series: &str) -> Vec<(Computed, f64)> {
        match series {
            CODED => self.coded(),
            UNCODED => {
                let delay = self.conditions.uncoded_delay(self.window, self.blocking);
                vec![(Computed::Delay, us(delay))]
            }
            _ => Vec::new(),
        }
    }

    fn coded(&self) -> Vec<(Computed, f64)> {
        let (w, c) = (self.window, &self.conditions);
        let optimum = optimal_unit(w, self.blocking, c, self.units);
        let k = self.k.unwrap_or(optimum);
        let rule = self.blocking.redundancy(k);
        let r = self.redundancy.unwrap_or(rule);
        let p_s = unblocked(k, r, self.blocking);
        let mut values = vec![
            (Computed::Unblocked, p_s),
            (Computed::Optimum, f64::from(optimum)),
            (Computed::Buffering, us(c.buffering_delay(k))),
            (Computed::Delay, us(c.coded_delay(w, k, p_s, self.units))),
            (Computed::OverheadWhole, overhead(k, r, self.ratio)),
        ];
        if self.redundancy.is_none() {
            let overhead = overhead_unrounded(self.blocking, self.ratio);
            values.push((Computed::Redundancy, f64::from(rule)));
            values.push((Computed::Overhead, overhead));
        }
        if w.is_multiple_of(k) {
            values.push((Computed::AtOnce, all_at_once(k, r, w / k)));
        }
        values
    }

    /// The parameters as pairs of name and value, for the reader.
    pub fn settings(&self) -> Vec<(String, String)> {
        let c = &self.conditions;
        [
            ("blocked packets", self.blocking.to_string()),
            ("window", format!("{} packets", self.window)),
            ("rate", c.rate.to_string()),
            ("packet", format!("{} B", c.packet)),
            ("RTT without long flows", c.rtt_short.to_string()),
            ("RTT with long flows", c.rtt_long.to_string()),
            (
                "long flows' packets over short flows'",
                self.ratio.to_string(),
            ),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindle_units::BitRate;

    fn formula() -> Formula {
        Formula {
            blocking: Blocking::new(1, 5).expect("a share"),
            k: None,
            redundancy: None,
            window: 64,
            conditions: Conditions {
                rate: BitRate(1_000_000_000),
                packet: 1500,
                rtt_short: Duration::from_micros(100),
                rtt_long: Duration::from_millis(3),
            },
            ratio: 9.0,
            units: Units::Fraction,
        }
    }

    fn value(values: &[(Computed, f64)], what: Computed) -> Option<f64> {
        values.iter().find(|(c, _)| *c == what).map(|(_, v)| *v)
    }

    #[test]
    fn values_are_those_of_the_formulas() {
        let values = formula().evaluate(CODED);
        let of = |what| value(&values, what);
        assert_eq!(of(Computed::Optimum), Some(61.0));
        assert_eq!(of(Computed::Redundancy), Some(16.0));
        assert_eq!(of(Computed::AtOnce), None, "61 does not divide 64");
        let delay = of(Computed::Delay).expect("a delay");
        assert!((delay - 1429.0).abs() < 0.5, "{delay}");
        let uncoded = formula().evaluate(UNCODED);
        assert!(value(&uncoded, Computed::Delay) > Some(2999.99));
        assert!(formula().evaluate("tcp").is_empty());
    }

    #[test]
    fn a_given_redundancy_is_not_reported_as_computed() {
        let given = Formula {
            k: Some(32),
            redundancy: Some(8),
            ..formula()
        };
        let values = given.evaluate(CODED);
        assert_eq!(value(&values, Computed::Redundancy), None);
        assert_eq!(value(&values, Computed::Overhead), None);
        assert!(value(&values, Computed::AtOnce).is_some());
    }
}

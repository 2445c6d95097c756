//! Points that are computed, not run: a paper's formulas as traffic of kind `formula`
//! (docs/reference/experiment-file.md, "`kind = \"formula\"`").
//!
//! Such a point has one result whatever the seed, so its metrics are exact and claims about them
//! need no intervals.

use serde::{Deserialize, Serialize};
use spindle_mptcp::stage::coding::formulas::{
    Blocking, Conditions, Units, all_at_once, optimal_unit, overhead, overhead_unrounded, unblocked,
};
use spindle_units::Duration;

use crate::metrics::show_us;

/// What a formula is evaluated for; stands where other experiments have transports.
pub(crate) const SERIES: [&str; 2] = [CODED, UNCODED];

/// With coding.
const CODED: &str = "coded";
/// Without.
const UNCODED: &str = "uncoded";

/// CAPS's formulas (section VI) with their parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Formula {
    /// The share of packets that are blocked, p_B.
    pub blocking: Blocking,
    /// Packets of a unit, k; none: the optimum.
    pub k: Option<u32>,
    /// Redundant packets of a unit, r; none: by the rule.
    pub redundancy: Option<u32>,
    /// Packets of the window, w.
    pub window: u32,
    /// The paths.
    pub conditions: Conditions,
    /// Long flows' packets over short flows', g.
    pub ratio: f64,
    /// How many units the window counts as.
    pub units: Units,
}

/// A number that a formula gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Computed {
    /// Redundant packets of a unit by the rule, r; not where they are given.
    Redundancy,
    /// Probability that a unit gets through unblocked, p_S.
    Unblocked,
    /// Probability that as many packets as the window has, the first to arrive, bring all of it.
    AtOnce,
    /// The optimal size of a unit, whatever the point's.
    Optimum,
    /// Mean wait for the rest of a unit, d_B, microseconds.
    Buffering,
    /// Mean time of the window, d_w or d_wnc, microseconds.
    Delay,
    /// What coding adds to all traffic, by the form that has no k and no rounding up, eta.
    Overhead,
    /// The same with whole redundant packets.
    OverheadWhole,
}

/// All of them by the names of their metrics.
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
    /// What it is called in a sentence.
    pub(crate) const fn title(self) -> &'static str {
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

    /// A value of it as text with its unit.
    pub(crate) fn show(self, value: f64) -> String {
        match self {
            Self::Buffering | Self::Delay => show_us(value),
            _ if self.is_count() => value.to_string(),
            _ => crate::experiment::units::percent((value * 1e6).round() / 1e6),
        }
    }

    /// Whether it is a mere number.
    pub(crate) const fn is_count(self) -> bool {
        matches!(self, Self::Redundancy | Self::Optimum)
    }

    /// Whether it is a time.
    pub(crate) const fn is_time(self) -> bool {
        matches!(self, Self::Buffering | Self::Delay)
    }
}

fn us(d: Duration) -> f64 {
    d.as_nanos() as f64 / 1e3
}

impl Formula {
    /// What the formulas give for one of [`SERIES`]; nothing for another name.
    pub(crate) fn evaluate(&self, series: &str) -> Vec<(Computed, f64)> {
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

    /// Its parameters for the reader, name and value.
    pub(crate) fn settings(&self) -> Vec<(String, String)> {
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
    fn what_is_given_is_no_result() {
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

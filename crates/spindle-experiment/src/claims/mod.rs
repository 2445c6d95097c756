//! Claims of the papers as data, and their verdicts.
//!
//! A claim names a metric, transports, points of the sweep and a test. Comparisons use paired runs: every
//! transport runs with the same seeds. Resampling draws *runs*, because the flows of one run share connections
//! and paths. A comparison holds or fails if its 95 % interval lies wholly on one side. Otherwise it is tied. A
//! claim over several comparisons fails if one of them fails, holds if all of them hold, and is tied otherwise.

mod best;
mod distances;
mod evaluate;
mod largest;
mod points;
mod read;
mod shape;
#[cfg(test)]
mod tests;

pub use best::NearBest;
pub use evaluate::point_bound;
pub use evaluate::{PointView, evaluate};

use serde::Serialize;

use crate::metrics::Metric;
use crate::units;

/// Whether a claim states a number or an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A number printed in the paper.
    Numeric,
    /// An order of schemes stated in words.
    Ordering,
}

/// The verdict on a claim, at 95 %.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It holds.
    Holds,
    /// It does not hold.
    Fails,
    /// The runs do not distinguish the two sides.
    Tied,
    /// There is no data to check it against.
    NotCheckable,
}

impl Verdict {
    /// The verdict's name in JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Fails => "fails",
            Self::Tied => "tied",
            Self::NotCheckable => "not-checkable",
        }
    }

    /// The verdict over several: fails if one fails, holds if all hold, otherwise tied. It is not checkable if
    /// there are none.
    pub fn all(each: impl IntoIterator<Item = Self>) -> Self {
        let mut sum = None;
        for verdict in each {
            sum = match (sum, verdict) {
                (_, Self::Fails) => return Self::Fails,
                (None, v) => Some(v),
                (Some(Self::Holds), Self::Holds) => Some(Self::Holds),
                _ => Some(Self::Tied),
            };
        }
        sum.unwrap_or(Self::NotCheckable)
    }
}

/// A claim.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The claim's id.
    pub id: String,
    /// Whether it states a number or an order.
    pub kind: Kind,
    /// The claim in words.
    pub text: String,
    /// The paper's statement, with the section.
    pub paper: String,
    /// The metric that is compared.
    pub metric: Metric,
    /// How the metric is tested.
    pub test: Test,
    /// Conditions on the points where it is tested.
    pub filter: Vec<Condition>,
    /// A remark that is added to every verdict, such as how an ambiguous sentence was read.
    pub note: Option<String>,
}

/// How a claim is tested.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    /// The metric of each transport is below the value at each point.
    Below {
        /// Transports.
        of: Vec<String>,
        /// The value, in the metric's unit.
        value: f64,
    },
    /// The metric of each transport is above the value at each point.
    Above {
        /// Transports.
        of: Vec<String>,
        /// The value, in the metric's unit.
        value: f64,
    },
    /// The metric of each transport is about the value at each point. The comparison holds if the metric's
    /// interval lies within the slack around the value. It fails if the interval lies wholly outside.
    About {
        /// Transports.
        of: Vec<String>,
        /// The value, in the metric's unit.
        value: f64,
        /// How far from the value still counts as "about", in the metric's unit.
        slack: f64,
    },
    /// At each point, and against each of the others, `of` is lower by a share within the range. The comparison
    /// holds if the interval of `(other - of) / other` overlaps the range. It is tied if that interval contains
    /// 0 and the range does not.
    Decrease {
        /// The transport.
        of: String,
        /// The others.
        against: Vec<String>,
        /// Lower and upper end of the range.
        between: (f64, f64),
        /// How far outside the range still counts as "about".
        slack: f64,
    },
    /// `of` lowers the metric by up to `up_to` against any of the others. The test compares `up_to`, with a
    /// slack for "about", with the largest reduction `(other - of) / other` over all points and others.
    Reduction {
        /// The transport.
        of: String,
        /// The others.
        against: Vec<String>,
        /// The largest reduction claimed, 0 to 1.
        up_to: f64,
        /// How far below `up_to` still counts as "about".
        slack: f64,
    },
    /// `of` raises the metric by up to `up_to` against any of the others. The test compares `up_to`, with a
    /// slack for "about", with the largest increase `(of - other) / other` over all points and others.
    LargestIncrease {
        /// The transport.
        of: String,
        /// The others.
        against: Vec<String>,
        /// The largest increase claimed, 0 or more.
        up_to: f64,
        /// How far below `up_to` still counts as "about".
        slack: f64,
    },
    /// At each point, `of` is higher than `against` by a share within the range. The verdict follows the rules
    /// of [`Self::Decrease`].
    Increase {
        /// The transport.
        of: String,
        /// The other.
        against: String,
        /// Lower and upper end of the range.
        between: (f64, f64),
        /// How far outside the range still counts as "about".
        slack: f64,
    },
    /// Every transport of a group is lower than every transport of the next group, at each point.
    Order {
        /// The groups, lowest first.
        groups: Vec<Vec<String>>,
    },
    /// `of` is nowhere higher than any of the others. Each comparison must hold or be tied. The claim is tied
    /// if `of` is lower at no point.
    Lowest {
        /// The transport.
        of: String,
        /// The others.
        against: Vec<String>,
    },
    /// `of` is nowhere lower than any of the others. Each comparison must hold or be tied. The claim is tied if
    /// `of` is higher at no point.
    Highest {
        /// The transport.
        of: String,
        /// The others.
        against: Vec<String>,
    },
    /// The two differ by at most a share of the second, at each point. Equal values do not differ, even if both
    /// are zero.
    Similar {
        /// The transport.
        of: String,
        /// The other.
        against: String,
        /// The largest relative difference.
        within: f64,
    },
    /// The share of flows with a timeout is at or above the bound of FUSO section 2.2 (mechanisms C3) for the
    /// point's loss rate and fixed flow size. The upper end of its interval is compared with the bound. With
    /// `within`, its interval must also overlap the bound plus or minus that share.
    Bound {
        /// The transport.
        of: String,
        /// The largest relative distance from the bound, if one is claimed.
        within: Option<f64>,
    },
    /// The metric grows with the axis to a power within the range (slope in a log-log plane).
    Growth {
        /// The transport.
        of: String,
        /// The axis.
        axis: String,
        /// Range of the exponent.
        between: (f64, f64),
    },
    /// The metric of each transport has this shape along the axis, for each setting of the other axes. No step
    /// goes in the opposite direction, and the values at the ends differ.
    Shape {
        /// Transports.
        of: Vec<String>,
        /// Another transport. If given, the distance `(against - of) / against` is tested in place of the
        /// metric.
        against: Option<String>,
        /// The axis.
        axis: String,
        /// The shape.
        shape: Shape,
    },
    /// The metric of each transport is lower at one value of the axis than at another, for each setting of the
    /// other axes.
    BetweenPoints {
        /// Transports.
        of: Vec<String>,
        /// The axis.
        axis: String,
        /// The axis' value where the metric is low.
        low: String,
        /// The axis' value where the metric is high.
        high: String,
        /// By how much the metric is lower.
        change: Change,
    },
    /// Each transport is near the best of all at each point, in the claim's metric and in those of the test.
    NearBest(NearBest),
    /// Each transport is not near the best of all at some point in some of the metrics.
    NotNearBest(NearBest),
    /// At each point, `of` minus `against` is within the range, in the metric's unit. The comparison holds if
    /// the interval of the difference overlaps the range.
    Difference {
        /// The transport.
        of: String,
        /// The other.
        against: String,
        /// Lower and upper end of the range.
        between: (f64, f64),
        /// How far outside the range still counts as "about".
        slack: f64,
    },
    /// At each point, the Kolmogorov-Smirnov distance of the two transports' completion times is below this
    /// value.
    Ks {
        /// The transport.
        of: String,
        /// The other.
        against: String,
        /// The distance, 0 to 1.
        below: f64,
    },
    /// At each point, about this share of flows takes less time by a share within the range. Each flow is
    /// compared with the same flow under the other transport. The comparison holds if the interval of the share
    /// of flows overlaps `share` plus or minus the slack.
    Gains {
        /// The transport.
        of: String,
        /// The other.
        against: String,
        /// Lower and upper end of the gain `(other - of) / other`.
        gain: (f64, f64),
        /// The share of flows, 0 to 1.
        share: f64,
        /// How far from `share` still counts as "about".
        slack: f64,
    },
    /// The claim cannot be checked, for this reason.
    NotCheckable(String),
}

/// By how much a metric is lower at one point than at another: `(high - low) / high`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// By any amount: the interval of the difference is above zero.
    Any,
    /// By a share within this range: its interval overlaps the range.
    Between(f64, f64),
    /// By up to the first share, with the second as the slack for "about". The test uses the largest share over
    /// all pairs of points and transports.
    UpTo(f64, f64),
}

/// How a metric may change along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// It never falls.
    Rising,
    /// It never rises.
    Falling,
    /// It falls, then rises.
    Valley,
    /// It rises, then falls.
    Peak,
}

impl Test {
    /// The metrics that it uses in addition to the claim's.
    pub fn also(&self) -> &[Metric] {
        match self {
            Self::NearBest(t) | Self::NotNearBest(t) => &t.also,
            _ => &[],
        }
    }
}

/// A condition on a sweep's axis, such as `loss < 1%`.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    axis: String,
    relation: Relation,
    value: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Less,
    LessOrEqual,
    Equal,
    GreaterOrEqual,
    Greater,
}

impl Condition {
    /// Reads `axis < value`, with `<`, `<=`, `=`, `>=` or `>`.
    pub fn parse(text: &str) -> Option<Self> {
        const RELATIONS: [(&str, Relation); 5] = [
            ("<=", Relation::LessOrEqual),
            (">=", Relation::GreaterOrEqual),
            ("<", Relation::Less),
            (">", Relation::Greater),
            ("=", Relation::Equal),
        ];
        let (sign, relation) = RELATIONS.iter().find(|(sign, _)| text.contains(sign))?;
        let (axis, value) = text.split_once(sign)?;
        let (axis, value) = (axis.trim().to_owned(), value.trim().to_owned());
        let ordered = *relation == Relation::Equal || units::quantity(&value).is_some();
        (!axis.is_empty() && !value.is_empty() && ordered).then_some(Self {
            axis,
            relation: *relation,
            value,
        })
    }

    /// The axis that the condition is on.
    pub fn axis(&self) -> &str {
        &self.axis
    }

    /// Whether a point with these settings meets the condition.
    pub fn holds(&self, set: &[(String, String)]) -> bool {
        let Some((_, found)) = set.iter().find(|(axis, _)| *axis == self.axis) else {
            return false;
        };
        let (Some(a), Some(b)) = (units::quantity(found), units::quantity(&self.value)) else {
            return self.relation == Relation::Equal && *found == self.value;
        };
        match self.relation {
            Relation::Less => a < b,
            Relation::LessOrEqual => a <= b,
            Relation::Equal => (a - b).abs() <= 1e-12 * b.abs(),
            Relation::GreaterOrEqual => a >= b,
            Relation::Greater => a > b,
        }
    }
}

/// A claim and its result.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The claim's id.
    pub id: String,
    /// Whether it states a number or an order.
    pub kind: Kind,
    /// The claim in words.
    pub text: String,
    /// The paper's statement.
    pub paper: String,
    /// What was measured, and from which runs.
    pub measured: String,
    /// The verdict.
    pub verdict: Verdict,
    /// The reason for the verdict.
    pub why: String,
}

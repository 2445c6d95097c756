//! Claims of the papers as data, and their verdicts.
//!
//! A claim names a metric, transports, points of the sweep and a test. Comparisons use paired runs: every
//! transport runs with the same seeds. Resampling draws *runs*, because the flows of one run share connections
//! and paths. A comparison holds or fails if its 95 % interval lies wholly on one side ([`Claimed`] has the rule
//! for ranges). Otherwise it is tied. A claim over several comparisons holds if all of them hold. It fails if
//! more of them fail than chance explains, by a test that is corrected for their number, and is tied otherwise.
//! One comparison in a hundred decides neither.
//!
//! Each test is one file of this folder, which registers itself in [`built_in`]. Other crates add theirs with
//! [`Registry::claim_test`](crate::registry::Registry::claim_test).

mod best;
mod bound;
mod change;
mod condition;
mod distances;
mod evaluate;
mod finding;
mod growth;
mod judge;
mod keys;
mod largest;
mod limits;
mod not_checkable;
mod onset;
mod order;
mod points;
mod read;
mod shape;
mod similar;
mod test;
#[cfg(test)]
mod tests;
mod values;

pub use bound::point_bound;
pub use condition::Condition;
pub use evaluate::evaluate;
pub use finding::{Claimed, Finding, Measured};
pub use judge::{Judge, PointView};
pub use keys::Keys;
pub use test::{Findings, ReadTest, Test};
pub use values::{PointValues, TransportValue};

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::catalog::Catalog;
use crate::metrics::Metric;

/// The tests that come with Spindle.
pub fn built_in() -> Catalog<ReadTest> {
    let mut catalog = Catalog::new("test");
    for register in [
        limits::register,
        change::register,
        largest::register,
        order::register,
        similar::register,
        bound::register,
        growth::register,
        onset::register,
        shape::register,
        points::register,
        best::register,
        distances::register,
        not_checkable::register,
    ] {
        register(&mut catalog);
    }
    catalog
}

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    pub test: Arc<dyn Test>,
    /// Conditions on the points where it is tested.
    pub filter: Vec<Condition>,
    /// A remark that is added to every verdict, such as how an ambiguous sentence was read.
    pub note: Option<String>,
    /// The claim's table in the file except for its `note`, in one canonical text form. It decides the claim's hash.
    pub written: String,
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
    /// The values at each point, in the claim's metric and then in each other metric of its test. Empty if the claim
    /// cannot be checked.
    pub points: Vec<PointValues>,
}

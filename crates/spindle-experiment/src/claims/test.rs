//! What a test of claims is.

use std::fmt;
use std::sync::Arc;

use super::{Judge, Keys, Verdict};
use crate::document::ExperimentError;
use crate::metrics::Metric;
use crate::stats::Interval;

/// How a claim is tested, with the values that the file gives.
pub trait Test: fmt::Debug + Send + Sync {
    /// Makes the comparisons at the points of `judge`. There is at least one point.
    ///
    /// # Errors
    /// The reason why the claim cannot be checked, such as a transport that was not run.
    fn findings(&self, judge: &Judge<'_>) -> Findings;

    /// The transports whose values are reported with the verdict, in that order. A name may occur twice.
    fn transports(&self) -> Vec<&str>;

    /// The metrics that it uses in addition to the claim's.
    fn also(&self) -> &[Metric] {
        &[]
    }

    /// The verdict over all comparisons.
    fn verdict(&self, findings: &[Finding]) -> Verdict {
        Verdict::all(findings.iter().map(|f| f.verdict))
    }

    /// The reason why no runs can check the claim, if there is one.
    fn not_checkable(&self) -> Option<&str> {
        None
    }

    /// Whether it compares the share of flows with a timeout with the bound of FUSO section 2.2, so that a
    /// figure should draw the bound.
    fn has_rto_bound(&self) -> bool {
        false
    }
}

/// Reads a test from the table of a claim.
pub type ReadTest = dyn Fn(&Keys<'_>) -> Result<Arc<dyn Test>, ExperimentError> + Send + Sync;

/// One comparison: its verdict, and a text with the place and the values.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The verdict on this comparison alone.
    pub verdict: Verdict,
    /// The place and the values, in one line.
    pub text: String,
}

/// The findings, or the reason why there are none.
pub type Findings = Result<Vec<Finding>, String>;

/// Whether an interval overlaps a claimed range: the comparison holds if it does, and fails otherwise.
pub fn meets(i: Interval, (low, high): (f64, f64)) -> Verdict {
    match i.high < low || i.low > high {
        true => Verdict::Fails,
        false => Verdict::Holds,
    }
}

/// Whether a change, as a share, is within a claimed range: its interval overlaps the range. It is tied if its
/// interval contains 0 and the range does not.
pub fn change_within(i: Interval, (low, high): (f64, f64)) -> Verdict {
    let none = i.low <= 0.0 && i.high >= 0.0;
    let claimed = low > 0.0 || high < 0.0;
    match meets(i, (low, high)) {
        Verdict::Holds if none && claimed => Verdict::Tied,
        verdict => verdict,
    }
}

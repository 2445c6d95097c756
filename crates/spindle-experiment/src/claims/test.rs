//! What a test of claims is.

use std::fmt;
use std::sync::Arc;

use super::finding::every;
use super::{Finding, Judge, Keys, Verdict};
use crate::document::ExperimentError;
use crate::metrics::Metric;

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

    /// The verdict over all comparisons: whether every one holds.
    fn verdict(&self, findings: &[Finding]) -> Verdict {
        every(findings)
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

/// The findings, or the reason why there are none.
pub type Findings = Result<Vec<Finding>, String>;

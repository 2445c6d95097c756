//! Percentiles that need more flows than completed.

use serde::Serialize;

use super::Metric;

/// Flows that must lie beyond a percentile above p90. The number of flows beyond a percentile varies by its square
/// root: fifty by a seventh, five by nearly half. So p99 needs 5000 flows, and p99.9 needs 50 000.
const BEYOND: f64 = 50.0;

/// Percentiles above this one (0 to 1) need [`BEYOND`] flows beyond them. Of lower ones the interval over runs
/// shows how sure they are.
const HIGHEST_OF_FEW: f64 = 0.9;

/// Fewer flows completed, over all pooled runs, than a percentile needs to be shown or judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{flows} flows, want {want}")]
pub struct TooFewFlows {
    /// Flows that completed.
    pub flows: u64,
    /// Flows that the percentile needs.
    pub want: u64,
}

impl TooFewFlows {
    /// What a table shows in place of a value.
    pub const SHOWN: &'static str = "too few flows";
}

impl Metric {
    /// Number of completed flows that the metric needs to be shown or judged. 0 if it is not a percentile above p90.
    pub fn wanted_flows(self) -> u64 {
        let q = match self {
            Self::FctPercentile(q) => q,
            Self::Spec(spec) => spec.samples().map_or(0.0, |(q, _)| q),
            _ => 0.0,
        };
        match q > HIGHEST_OF_FEW && q < 1.0 {
            true => (BEYOND / (1.0 - q)).round() as u64,
            false => 0,
        }
    }

    /// Checks that `flows` completed flows suffice for the metric.
    ///
    /// # Errors
    /// If the metric needs more.
    pub fn check_flows(self, flows: u64) -> Result<(), TooFewFlows> {
        let want = self.wanted_flows();
        match flows < want {
            true => Err(TooFewFlows { flows, want }),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentile_above_p90_needs_fifty_flows_beyond_it() {
        let of = |name| Metric::parse(name).unwrap().wanted_flows();
        assert_eq!((of("fct.p99"), of("fct.p999")), (5_000, 50_000));
        assert_eq!((of("fct.p95"), of("fct.p90"), of("fct.p50")), (1_000, 0, 0));
        assert_eq!((of("fct.mean"), of("fct.max")), (0, 0));
    }

    #[test]
    fn flows_below_the_wanted_number_are_an_error_that_names_both() {
        let p99 = Metric::FctPercentile(0.99);
        assert_eq!(p99.check_flows(5_000), Ok(()));
        let error = p99.check_flows(4_999).unwrap_err();
        assert_eq!(error.to_string(), "4999 flows, want 5000");
    }
}

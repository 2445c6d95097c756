//! The metric `abandoned`: flows that ended with an error.

use spindle_experiment::metrics::{MetricSpec, Unit};

/// Flows whose connection ended with an error, divided by all flows.
pub(crate) static ABANDONED: MetricSpec = MetricSpec {
    name: "abandoned",
    title: "flows that ended with an error",
    unit: Unit::Share,
    needs: None,
    of: |run| Some((run.aborted as f64, run.flows as f64)),
};

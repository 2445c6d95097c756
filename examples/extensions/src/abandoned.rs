//! The metric `abandoned`: flows that ended with an error.

use spindle_experiment::metrics::{Form, MetricSpec, Unit};

/// Flows whose connection ended with an error, divided by all flows.
pub(crate) static ABANDONED: MetricSpec = MetricSpec {
    name: "abandoned",
    title: "flows that ended with an error",
    unit: Unit::Share,
    needs: None,
    form: Form::Ratio(|run| Some((run.aborted as f64, run.flows as f64))),
};

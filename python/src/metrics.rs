//! Selection of the metrics in tables.

use pyo3::prelude::*;
use spindle_experiment::metrics::Metric;
use spindle_experiment::{Experiment, results};

use crate::names;

/// A metric by its name.
pub(crate) type Named = (&'static str, Metric);

/// Metrics of a table.
pub(crate) struct Chosen {
    /// In the order of columns.
    pub(crate) metrics: Vec<Named>,
    /// Whether metrics that were not measured are columns as well.
    pub(crate) all: bool,
}

/// The requested metrics. Without a request, the usual metrics and those of the experiment's columns and
/// claims, as far as they were measured.
pub(crate) fn chosen(experiment: &Experiment, asked: Option<Vec<String>>) -> PyResult<Chosen> {
    if let Some(asked) = asked {
        let metrics = asked.iter().map(|name| names::metric(name));
        return Ok(Chosen {
            metrics: metrics.collect::<PyResult<_>>()?,
            all: true,
        });
    }
    let usual = results::METRICS
        .iter()
        .filter_map(|name| Metric::named(name));
    let claims = experiment.claims.iter().filter_map(|c| name_of(c.metric));
    let mut metrics: Vec<Named> = Vec::new();
    for metric in usual
        .chain(experiment.columns.iter().copied())
        .chain(claims)
    {
        if !metrics.iter().any(|(name, _)| *name == metric.0) {
            metrics.push(metric);
        }
    }
    Ok(Chosen {
        metrics,
        all: false,
    })
}

fn name_of(metric: Metric) -> Option<Named> {
    let mut named = Metric::all_names().filter_map(Metric::named);
    named.find(|(_, m)| *m == metric)
}

/// The name of a metric's column, since the count of completed flows has the name of their share.
pub(crate) fn column(name: &str) -> String {
    match name {
        "completed" => "completed.share".to_owned(),
        name => name.to_owned(),
    }
}

//! Names of built-in experiments, transports, balancers and metrics.

use std::sync::LazyLock;

use pyo3::prelude::*;
use spindle_experiment::library::{self, BuiltIn};
use spindle_experiment::metrics::Metric;
use spindle_experiment::readings::{READINGS, Reading};
use spindle_experiment::registry::Registry;
use spindle_experiment::variations::Variation;
use spindle_experiment::{ExperimentError, suggestion};

use crate::errors;

/// The names that Spindle itself defines.
pub(crate) static REGISTRY: LazyLock<Registry> = LazyLock::new(Registry::standard);

/// Id, paper and whether it reproduces something, of all built-in experiments.
#[pyfunction]
pub(crate) fn experiments() -> Vec<(&'static str, Option<&'static str>)> {
    library::EXPERIMENTS
        .iter()
        .map(|e| (e.id, e.paper))
        .collect()
}

/// Path and text of a built-in experiment.
#[pyfunction]
pub(crate) fn builtin(id: &str) -> PyResult<(&'static str, &'static str)> {
    match library::find(id) {
        Some(e) => Ok((e.path, e.text)),
        None => Err(errors::unknown(&library::no_such_scenario(id))),
    }
}

/// Ids of reproductions: those given, all of a paper, or all.
#[pyfunction]
pub(crate) fn reproductions(
    ids: Vec<String>,
    paper: Option<&str>,
    all: bool,
) -> PyResult<Vec<&'static str>> {
    let chosen = match (paper, all) {
        (_, true) => Ok(library::reproductions().collect()),
        (Some(paper), _) => library::of_paper(paper),
        (None, _) => library::of_ids(ids.iter().map(String::as_str)),
    };
    let chosen: Vec<&BuiltIn> = chosen.map_err(|e| errors::unknown(&e))?;
    Ok(chosen.iter().map(|e| e.id).collect())
}

/// Name, title and papers of all readings.
#[pyfunction]
pub(crate) fn readings() -> PyResult<Vec<(&'static str, String, Vec<String>)>> {
    let of = |r: &Reading| Ok((r.name, r.title()?, r.papers()?));
    let all: Result<_, ExperimentError> = READINGS.iter().map(of).collect();
    all.map_err(errors::experiment)
}

/// Name and title of all variations.
#[pyfunction]
pub(crate) fn variations() -> Vec<(&'static str, &'static str)> {
    Variation::ALL.map(|v| (v.name(), v.title())).to_vec()
}

/// The description of a transport, or a list of all names.
#[pyfunction]
#[pyo3(signature = (name=None))]
pub(crate) fn explain(name: Option<&str>) -> PyResult<String> {
    match name {
        None => Ok(spindle_experiment::explain::names(&REGISTRY)),
        Some(name) => spindle_experiment::explain::transport(&REGISTRY, name)
            .map_err(|text| errors::unknown_name(&text)),
    }
}

/// Names of transports.
#[pyfunction]
pub(crate) fn transports() -> Vec<String> {
    REGISTRY.transport_names()
}

/// Names of balancers.
#[pyfunction]
pub(crate) fn balancers() -> Vec<String> {
    REGISTRY.balancers().map(|b| b.name.clone()).collect()
}

/// Name, title and unit of all metrics.
#[pyfunction]
pub(crate) fn metrics() -> Vec<(&'static str, String, &'static str)> {
    Metric::all_names()
        .filter_map(Metric::named)
        .map(|(name, m)| (name, m.title(), m.unit()))
        .collect()
}

/// The metric of that name.
pub(crate) fn metric(name: &str) -> PyResult<(&'static str, Metric)> {
    Metric::named(name).ok_or_else(|| {
        let near = suggestion(name, Metric::all_names());
        errors::unknown_name(&format!(
            "found \"{name}\", want the name of a metric{near}"
        ))
    })
}

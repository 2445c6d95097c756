//! Verdicts over several experiments, as `spindle reproduce` gathers them.

use pyo3::prelude::*;
use spindle_experiment::{library, results};
use spindle_report::Overview;
use spindle_report::present::{self, Reproduction as Verdicts};

use crate::errors;
use crate::names::REGISTRY;
use crate::results::{Results, json};

/// The verdicts so far, and the joint table if there is one.
#[pyclass(module = "spindle._native")]
#[derive(Default)]
pub(crate) struct Reproduction {
    verdicts: Vec<results::Verdicts>,
    overview: Overview,
}

#[pymethods]
impl Reproduction {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Adds an experiment. Returns whether it is a scenario of a joint table.
    fn add(&mut self, py: Python<'_>, results: &Results) -> bool {
        let (experiment, result) = (&results.experiment, &results.result);
        self.verdicts
            .push(py.detach(|| results::verdicts(experiment, result)));
        let paper = experiment.paper.as_deref().and_then(library::paper);
        let joint = paper.is_some_and(|p| p.joint);
        if joint {
            let scenario = py.detach(|| present::scenario(&REGISTRY, experiment, result));
            self.overview.scenarios.push(scenario);
        }
        joint
    }

    /// The JSON of `spindle reproduce --json` at that scale.
    fn to_json(&self, scale: &str) -> PyResult<String> {
        let reproduction = Verdicts {
            scale: scale.to_owned(),
            reading: None,
            variation: None,
            experiments: self.verdicts.clone(),
            overview: self.overview(),
        };
        json(&reproduction).map_err(|e| errors::internal(&e))
    }

    /// The joint table as the command line prints it, if there is one.
    fn overview_text(&self) -> Option<String> {
        self.overview().as_ref().map(present::overview_table)
    }
}

impl Reproduction {
    fn overview(&self) -> Option<Overview> {
        (!self.overview.scenarios.is_empty()).then(|| self.overview.clone())
    }
}

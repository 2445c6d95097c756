//! Verdicts over several experiments, as `spindle reproduce` gathers them.

use pyo3::prelude::*;
use spindle_experiment::{library, results};
use spindle_report::Arena;
use spindle_report::present::{self, Reproduction as Verdicts};

use crate::errors;
use crate::results::{Results, json};

/// The verdicts so far, and the results of the arena.
#[pyclass(module = "spindle._native")]
#[derive(Default)]
pub(crate) struct Reproduction {
    verdicts: Vec<results::Verdicts>,
    arena: Arena,
}

#[pymethods]
impl Reproduction {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Adds an experiment. Returns whether it is a network of the arena.
    fn add(&mut self, py: Python<'_>, results: &Results) -> bool {
        let (experiment, result) = (&results.experiment, &results.result);
        self.verdicts
            .push(py.detach(|| results::verdicts(experiment, result)));
        let paper = experiment.paper.as_deref().and_then(library::paper);
        let joint = paper.is_some_and(|p| p.joint);
        if joint {
            let networks = py.detach(|| present::networks(experiment, result));
            self.arena.networks.extend(networks);
        }
        joint
    }

    /// The JSON of `spindle reproduce --json` at that scale, with that reading and that variation.
    #[pyo3(signature = (scale, reading=None, variation=None))]
    fn to_json(
        &self,
        scale: &str,
        reading: Option<String>,
        variation: Option<String>,
    ) -> PyResult<String> {
        let reproduction = Verdicts {
            scale: scale.to_owned(),
            reading,
            variation,
            experiments: self.verdicts.clone(),
            arena: self.arena(),
        };
        json(&reproduction).map_err(|e| errors::internal(&e))
    }

    /// The arena's table as the command line prints it, if there is one.
    fn arena_text(&self) -> Option<String> {
        self.arena().as_ref().map(present::arena_table)
    }
}

impl Reproduction {
    fn arena(&self) -> Option<Arena> {
        (!self.arena.networks.is_empty()).then(|| self.arena.clone())
    }
}

//! The JSON of `reproduce`.

use serde::Serialize;
use spindle_experiment::results::Verdicts;

use crate::Arena;

/// The JSON of `reproduce`.
#[derive(Clone, Debug, Serialize)]
pub struct Reproduction {
    /// The name of the scale.
    pub scale: String,
    /// The reading of the papers. `None` is the default reading.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reading: Option<String>,
    /// The variation of all experiments. `None` if they are as printed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variation: Option<String>,
    /// The experiments.
    pub experiments: Vec<Verdicts>,
    /// The results of the arena's networks, if any were run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arena: Option<Arena>,
}

//! Helpers that the tests of whole runs share.

use std::path::Path;

use spindle_experiment::registry::Registry;
use spindle_experiment::{Experiment, Overrides, library};

/// An experiment with one transport. `text` is the rest of its file.
pub(crate) fn experiment(transport: &str, text: &str) -> Experiment {
    let text = format!("transports = [\"{transport}\"]\n{text}");
    let file = ("test.toml", text.as_str());
    library::parse(
        &Registry::standard(),
        file,
        Path::new("."),
        &Overrides::default(),
    )
    .unwrap()
}

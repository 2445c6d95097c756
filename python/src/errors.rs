//! The lab's errors as the package's exceptions, which are written in Python (`spindle/errors.py`).

use pyo3::prelude::*;
use spindle_experiment::library::UnknownName;
use spindle_experiment::{ExperimentError, Origin};
use spindle_lab::driver::RunError;

/// An exception of the package, made with these arguments.
fn raised<'py, A>(py: Python<'py>, class: &str, arguments: A) -> PyErr
where
    A: pyo3::call::PyCallArgs<'py>,
{
    let made = py
        .import("spindle.errors")
        .and_then(|module| module.getattr(class))
        .and_then(|class| class.call1(arguments));
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(e) => e,
    }
}

/// A mistake in an experiment: the text, and separately file, line, flag, key and problem.
pub(crate) fn experiment(e: ExperimentError) -> PyErr {
    let (file, line, flag) = match &e.origin {
        Origin::Line { file, line } => (Some(file), Some(*line), None),
        Origin::File(file) => (Some(file), None, None),
        Origin::Flag(flag) => (None, None, Some(flag)),
    };
    let (file, flag) = (file.map(|f| f.as_ref()), flag.map(|f| f.as_ref()));
    let arguments = (e.to_string(), file, line, flag, &e.key, &e.problem);
    Python::attach(|py| {
        let arguments: (
            String,
            Option<&str>,
            Option<u32>,
            Option<&str>,
            &String,
            &String,
        ) = arguments;
        raised(py, "ExperimentError", arguments)
    })
}

/// A run that cannot be made.
pub(crate) fn run(e: &RunError) -> PyErr {
    let class = match e {
        RunError::Stopped => "Stopped",
        _ => "RunError",
    };
    Python::attach(|py| raised(py, class, (e.to_string(),)))
}

/// An unknown name.
pub(crate) fn unknown(e: &UnknownName) -> PyErr {
    unknown_name(&e.to_string())
}

/// An unknown name, from a message.
pub(crate) fn unknown_name(text: &str) -> PyErr {
    Python::attach(|py| raised(py, "UnknownName", (text,)))
}

/// A stored run that cannot be used.
pub(crate) fn store(text: &str) -> PyErr {
    Python::attach(|py| raised(py, "StoreError", (text,)))
}

/// An internal error of the lab.
pub(crate) fn internal(text: &str) -> PyErr {
    Python::attach(|py| raised(py, "SpindleError", (text,)))
}

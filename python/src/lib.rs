//! Spindle's lab for Python: the native part of the package `spindle`.
//!
//! Everything that decides or judges results is in the lab: the runs of an experiment and their identity,
//! metrics, intervals and verdicts. This layer converts them to text in the lab's own formats (TOML, lines of
//! JSON) and to Arrow tables, releases Python's lock while the lab works, and respects
//! Ctrl-C.

mod errors;
mod experiment;
mod interrupt;
mod metrics;
mod names;
mod reproduction;
mod results;
mod runs;
mod tables;
mod trace;

use pyo3::prelude::*;

/// As in the `spindle` program: a network's packets and connections exceed the reach of the processor's TLB
/// with small pages.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The lab, for the package around it.
#[pymodule]
fn _native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("VERSION", spindle_experiment::identity::VERSION)?;
    m.add_class::<experiment::Experiment>()?;
    m.add_class::<interrupt::Stop>()?;
    m.add_class::<runs::Runs>()?;
    m.add_class::<results::Results>()?;
    m.add_class::<reproduction::Reproduction>()?;
    m.add_class::<tables::Table>()?;
    m.add_class::<trace::Trace>()?;
    m.add_function(wrap_pyfunction!(runs::run_jobs, m)?)?;
    m.add_function(wrap_pyfunction!(runs::head, m)?)?;
    m.add_function(wrap_pyfunction!(trace::flows, m)?)?;
    m.add_function(wrap_pyfunction!(trace::trace, m)?)?;
    m.add_function(wrap_pyfunction!(names::experiments, m)?)?;
    m.add_function(wrap_pyfunction!(names::builtin, m)?)?;
    m.add_function(wrap_pyfunction!(names::reproductions, m)?)?;
    m.add_function(wrap_pyfunction!(names::readings, m)?)?;
    m.add_function(wrap_pyfunction!(names::variations, m)?)?;
    m.add_function(wrap_pyfunction!(names::explain, m)?)?;
    m.add_function(wrap_pyfunction!(names::transports, m)?)?;
    m.add_function(wrap_pyfunction!(names::balancers, m)?)?;
    m.add_function(wrap_pyfunction!(names::metrics, m)?)?;
    Ok(())
}

//! Experiments: a text, the settings that override it, and the experiment parsed from both.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use pyo3::prelude::*;
use spindle_experiment::readings::{self, Reading};
use spindle_experiment::variations::Variation;
use spindle_experiment::{Experiment as Read, Overrides, Scale, library, rewrite};
use spindle_lab::driver::RunError;
use spindle_lab::sweep::{Job, jobs};

use crate::errors;
use crate::names::REGISTRY;

/// An experiment, ready to run.
#[pyclass(frozen, module = "spindle._native")]
pub(crate) struct Experiment {
    source: Option<Source>,
    read: Arc<Read>,
    jobs: OnceLock<Vec<Job>>,
}

/// The source of the experiment; a part of an experiment has no separate text.
struct Source {
    name: String,
    text: String,
    directory: PathBuf,
    overrides: Overrides,
}

/// The identity of a run: configuration, transport, seed, part, parts.
pub(crate) type Key = (String, String, u64, u64, u64);

/// A point: the sweep's values, and the configuration's hash.
type PointOf = (Vec<(String, String)>, String);

/// A claim: id, kind, text, the paper's statement, metric.
type ClaimOf = (String, String, String, String, String);

fn scale(name: &str) -> PyResult<Scale> {
    [Scale::Quick, Scale::Full, Scale::Paper]
        .into_iter()
        .find(|s| s.name() == name)
        .ok_or_else(|| {
            let text = format!("found scale \"{name}\", want one of quick, full, paper-scale");
            errors::unknown_name(&text)
        })
}

/// The reading of that name. It must be one of the paper that the experiment in the file belongs to.
fn reading(name: &str, file: (&str, &str), directory: &Path) -> PyResult<&'static Reading> {
    let plain = library::parse(&REGISTRY, file, directory, &Overrides::default())
        .map_err(errors::experiment)?;
    readings::find(name, plain.paper.as_deref().as_slice()).map_err(|e| errors::unknown(&e))
}

fn variation(name: &str) -> PyResult<Variation> {
    Variation::find(name).map_err(|e| errors::unknown_name(&format!("--vary: {e}")))
}

#[pymethods]
impl Experiment {
    /// Reads a text that errors call `name`.
    #[new]
    #[pyo3(signature = (name, text, directory, *, set=vec![], loss=None, flows=None, seeds=None,
                        seed=None, transports=None, scale=None, reading=None, variation=None))]
    #[expect(clippy::too_many_arguments, reason = "each is a flag of its own")]
    fn new(
        name: String,
        text: String,
        directory: PathBuf,
        set: Vec<String>,
        loss: Option<String>,
        flows: Option<String>,
        seeds: Option<String>,
        seed: Option<String>,
        transports: Option<String>,
        scale: Option<&str>,
        reading: Option<&str>,
        variation: Option<&str>,
    ) -> PyResult<Self> {
        let reading = reading.map(|r| self::reading(r, (&name, &text), &directory));
        let overrides = Overrides {
            set,
            loss,
            flows,
            seeds,
            seed,
            transports,
            scale: scale.map(self::scale).transpose()?,
            reading: reading.transpose()?,
            variation: variation.map(self::variation).transpose()?,
        };
        let read = library::parse(&REGISTRY, (&name, &text), &directory, &overrides)
            .map_err(errors::experiment)?;
        let source = Source {
            name,
            text,
            directory,
            overrides,
        };
        Ok(Self::from(Some(source), read))
    }

    #[getter]
    fn id(&self) -> &str {
        &self.read.id
    }

    #[getter]
    fn title(&self) -> &str {
        &self.read.title
    }

    #[getter]
    fn paper(&self) -> Option<&str> {
        self.read.paper.as_deref()
    }

    #[getter]
    fn source(&self) -> &str {
        &self.read.source
    }

    #[getter]
    fn asks(&self) -> &str {
        &self.read.asks
    }

    #[getter]
    fn notes(&self) -> Vec<String> {
        self.read.notes.clone()
    }

    #[getter]
    fn transports(&self) -> Vec<String> {
        self.read.transports.iter().map(|t| t.to_string()).collect()
    }

    #[getter]
    fn seed(&self) -> u64 {
        self.read.seed
    }

    #[getter]
    fn seeds(&self) -> u64 {
        self.read.seeds
    }

    #[getter]
    fn parts(&self) -> u64 {
        self.read.parts()
    }

    #[getter]
    fn points(&self) -> Vec<PointOf> {
        let point = |p: &spindle_experiment::Point| (p.set.clone(), format!("{:016x}", p.hash));
        self.read.points.iter().map(point).collect()
    }

    #[getter]
    fn claims(&self) -> Vec<ClaimOf> {
        let claim = |c: &spindle_experiment::claims::Claim| {
            (
                c.id.clone(),
                format!("{:?}", c.kind).to_lowercase(),
                c.text.clone(),
                c.paper.clone(),
                c.metric.title(),
            )
        };
        self.read.claims.iter().map(claim).collect()
    }

    /// The text with all settings applied, and with the files that it names. It has the choices of a reading, but not
    /// a variation, which changes no key.
    fn to_toml(&self) -> PyResult<String> {
        let Some(s) = &self.source else {
            return Err(errors::internal("a part of an experiment has no text"));
        };
        rewrite(&s.name, &s.text, &s.overrides, &s.directory).map_err(errors::experiment)
    }

    /// The identity of each of its runs, with the number of its point.
    fn keys(&self) -> PyResult<Vec<(usize, Key)>> {
        let key = |j: &Job| (j.point, key(j));
        Ok(self.jobs()?.iter().map(key).collect())
    }

    /// The part of it at these points, with these transports and this seed. `None` selects all of them.
    #[pyo3(signature = (points=None, transports=None, seed=None))]
    fn only(
        &self,
        points: Option<Vec<usize>>,
        transports: Option<Vec<String>>,
        seed: Option<u64>,
    ) -> Self {
        let seeds = match seed {
            Some(seed) => seed..seed.saturating_add(1),
            None => self.read.seed..self.read.seed + self.read.seeds,
        };
        let part = self.read.only(
            |p| points.as_ref().is_none_or(|all| all.contains(&p)),
            |t| {
                let name = t.to_string();
                transports.as_ref().is_none_or(|all| all.contains(&name))
            },
            seeds,
        );
        Self::from(None, part)
    }
}

impl Experiment {
    fn from(source: Option<Source>, read: Read) -> Self {
        Self {
            source,
            read: Arc::new(read),
            jobs: OnceLock::new(),
        }
    }

    /// The parsed experiment.
    pub(crate) fn read(&self) -> &Arc<Read> {
        &self.read
    }

    /// Its runs.
    pub(crate) fn jobs(&self) -> PyResult<&[Job]> {
        if let Some(jobs) = self.jobs.get() {
            return Ok(jobs);
        }
        let made = jobs(&self.read, &REGISTRY, None).map_err(|e: RunError| errors::run(&e))?;
        Ok(self.jobs.get_or_init(|| made))
    }
}

fn key(job: &Job) -> Key {
    let k = &job.key;
    (
        k.configuration.clone(),
        k.transport.clone(),
        k.seed,
        k.part,
        k.parts,
    )
}

//! The register of claims: the verdicts of one or more reproductions side by side, with a column for each reading. It
//! can be written as a page of [Markdown](Register::markdown) or as a [site](Register::write_site).

mod arena;
mod markdown;
mod robustness;
mod site;
mod values;

pub use arena::ArenaPage;

use std::path::{Path, PathBuf};

use serde::Deserialize;
use spindle_experiment::ExperimentError;
use spindle_experiment::claims::Verdict;
use spindle_experiment::library::{self, Paper, UnknownName};
use spindle_experiment::results::Verdicts;
use spindle_experiment::variations::Variation;

use crate::ReportError;

/// Why a register was not made.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// The file cannot be read.
    #[error("{}: cannot be read: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system reported.
        source: std::io::Error,
    },
    /// The file does not contain verdicts.
    #[error("{}: found no verdicts: {source}; want a file that `reproduce --json` has written", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The mistake.
        source: serde_json::Error,
    },
    /// Two files have verdicts on the same experiment at the same scale and in the same reading.
    #[error("{}: {experiment} ({column}) is in an earlier file as well; give one of the files", path.display())]
    Twice {
        /// The file.
        path: PathBuf,
        /// The experiment.
        experiment: String,
        /// The reading and the scale.
        column: String,
    },
    /// Runs of different versions would stand in one column of a paper.
    #[error(
        "{}: {experiment} ({column}) was run by version {found}, other experiments of the paper by {expected}; \
         run both again with one version",
        path.display()
    )]
    MixedVersions {
        /// The file.
        path: PathBuf,
        /// The experiment.
        experiment: String,
        /// The reading and the scale.
        column: String,
        /// The version of the other experiments.
        expected: String,
        /// The version of this experiment.
        found: String,
    },
    /// The verdicts are those of an unknown variation.
    #[error("{}: variation: {source}", path.display())]
    Variation {
        /// The file.
        path: PathBuf,
        /// The mistake.
        source: UnknownName,
    },
    /// A file has no results of the arena that can be read.
    #[error("{}: {problem}, want a file of reproduce arena --json", path.display())]
    Arena {
        /// The file.
        path: PathBuf,
        /// The mistake.
        problem: String,
    },
    /// An experiment of the library cannot be read.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// A page cannot be written.
    #[error(transparent)]
    Page(#[from] ReportError),
}

/// A file of `reproduce --json`.
#[derive(Debug, Deserialize)]
struct ResultFile {
    scale: String,
    reading: Option<String>,
    variation: Option<String>,
    experiments: Vec<Experiment>,
}

/// An experiment of a file.
#[derive(Debug, Deserialize)]
struct Experiment {
    id: String,
    version: String,
    claims: Vec<Claim>,
}

/// A claim of a file.
#[derive(Debug, Deserialize)]
struct Claim {
    id: String,
    text: String,
    paper: String,
    measured: String,
    verdict: Verdict,
    why: String,
}

/// The verdicts at one scale, in one reading and with at most one variation.
#[derive(Debug)]
struct Column {
    reading: String,
    scale: String,
    variation: Option<Variation>,
    experiments: Vec<Experiment>,
}

/// The name of the default reading.
const DEFAULT: &str = "default";

/// The verdicts of one or more reproductions.
#[derive(Debug, Default)]
pub struct Register {
    /// Those with the values that the papers print.
    columns: Vec<Column>,
    /// Those with a variation.
    varied: Vec<Column>,
}

/// Verdicts in the order in which they are counted.
const VERDICTS: [Verdict; 4] = [
    Verdict::Holds,
    Verdict::Tied,
    Verdict::Fails,
    Verdict::NotCheckable,
];

impl Register {
    /// Reads files of `reproduce --json`. Files of the same scale and reading form one column. Those with a variation
    /// show which verdicts of the column are [robust](Self::robustness).
    ///
    /// # Errors
    /// A file cannot be read, has no verdicts, repeats an experiment, or mixes versions within a paper.
    pub fn read(files: &[PathBuf]) -> Result<Self, RegisterError> {
        let mut register = Self::default();
        for path in files {
            let text = std::fs::read_to_string(path).map_err(|source| RegisterError::Io {
                path: path.clone(),
                source,
            })?;
            register.add(path, &text)?;
        }
        Ok(register)
    }

    /// Adds the verdicts of one file.
    fn add(&mut self, path: &Path, text: &str) -> Result<(), RegisterError> {
        let file: ResultFile =
            serde_json::from_str(text).map_err(|source| RegisterError::Format {
                path: path.to_owned(),
                source,
            })?;
        let variation = file.variation.as_deref().map(Variation::find);
        let variation = variation
            .transpose()
            .map_err(|source| RegisterError::Variation {
                path: path.to_owned(),
                source,
            })?;
        let column = self.column(file.reading.as_deref(), &file.scale, variation);
        for experiment in file.experiments {
            column.check(path, &experiment)?;
            column.experiments.push(experiment);
        }
        Ok(())
    }

    /// The verdicts of one reproduction. `reading` is `None` for the default reading of the papers.
    pub fn of(reading: Option<&str>, scale: &str, verdicts: &[Verdicts]) -> Self {
        let mut register = Self::default();
        let column = register.column(reading, scale, None);
        column.experiments = verdicts.iter().map(Experiment::of).collect();
        register
    }

    /// The column of that reading, scale and variation, which is added if there is none.
    fn column(
        &mut self,
        reading: Option<&str>,
        scale: &str,
        variation: Option<Variation>,
    ) -> &mut Column {
        let columns = match variation {
            None => &mut self.columns,
            Some(_) => &mut self.varied,
        };
        let reading = reading.unwrap_or(DEFAULT);
        let same =
            |c: &Column| c.reading == reading && c.scale == scale && c.variation == variation;
        let index = columns.iter().position(same).unwrap_or_else(|| {
            columns.push(Column {
                reading: reading.to_owned(),
                scale: scale.to_owned(),
                variation,
                experiments: Vec::new(),
            });
            columns.len() - 1
        });
        &mut columns[index]
    }

    /// The papers with the ids of their experiments and the columns that contain some of these. A paper without
    /// verdicts is left out.
    fn papers(&self) -> impl Iterator<Item = (&'static Paper, Vec<&'static str>, Vec<&Column>)> {
        let papers = library::PAPERS.iter().filter(|p| !p.joint);
        papers.filter_map(|paper| {
            let ids: Vec<&str> = library::EXPERIMENTS
                .iter()
                .filter(|b| b.paper == Some(paper.id))
                .map(|b| b.id)
                .collect();
            let has = |c: &&Column| ids.iter().any(|id| c.find(id).is_some());
            let columns: Vec<&Column> = self.columns.iter().filter(has).collect();
            (!columns.is_empty()).then_some((paper, ids, columns))
        })
    }
}

impl Experiment {
    fn of(verdicts: &Verdicts) -> Self {
        let claims = verdicts.claims.iter().map(|c| Claim {
            id: c.id.clone(),
            text: c.text.clone(),
            paper: c.paper.clone(),
            measured: c.measured.clone(),
            verdict: c.verdict,
            why: c.why.clone(),
        });
        Self {
            id: verdicts.id.clone(),
            version: verdicts.version.clone(),
            claims: claims.collect(),
        }
    }
}

impl Column {
    /// Its name: the reading, the scale and the variation.
    fn name(&self) -> String {
        let (reading, scale) = (&self.reading, &self.scale);
        match self.variation {
            None => format!("{reading}, {scale}"),
            Some(variation) => format!("{reading}, {scale}, {}", variation.name()),
        }
    }

    /// The experiment with that id, if it was run and has claims.
    fn find(&self, id: &str) -> Option<&Experiment> {
        let has = |e: &&Experiment| e.id == id && !e.claims.is_empty();
        self.experiments.iter().find(has)
    }

    /// The version that made the runs of the experiments `ids`, of one paper; empty if none of them was run.
    fn version(&self, ids: &[&str]) -> &str {
        let first = ids.iter().find_map(|id| self.find(id));
        first.map_or("", |e| e.version.as_str())
    }

    /// The claim with that id of an experiment.
    fn claim(&self, experiment: &str, id: &str) -> Option<&Claim> {
        self.find(experiment)?.claims.iter().find(|c| c.id == id)
    }

    /// Checks that an experiment of a file can stand in this column.
    fn check(&self, path: &Path, experiment: &Experiment) -> Result<(), RegisterError> {
        let id = &experiment.id;
        if self.experiments.iter().any(|e| e.id == *id) {
            return Err(RegisterError::Twice {
                path: path.to_owned(),
                experiment: id.clone(),
                column: self.name(),
            });
        }
        let paper = |id: &str| library::find(id).and_then(|b| b.paper);
        let other = |e: &&Experiment| paper(&e.id) == paper(id) && e.version != experiment.version;
        match self.experiments.iter().find(other) {
            None => Ok(()),
            Some(other) => Err(RegisterError::MixedVersions {
                path: path.to_owned(),
                experiment: id.clone(),
                column: self.name(),
                expected: other.version.clone(),
                found: experiment.version.clone(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn file(
        reading: &str,
        version: &str,
        experiments: &[(&str, &[(&str, &str)])],
    ) -> String {
        let claim = |(id, verdict): &(&str, &str)| {
            format!(
                "{{\"id\":\"{id}\",\"kind\":\"numeric\",\"text\":\"sentence | {id}\",\"paper\":\"5 ms\",\
                 \"measured\":\"value in {reading}\",\"verdict\":\"{verdict}\",\"why\":\"\"}}"
            )
        };
        let one = |(id, claims): &(&str, &[(&str, &str)])| {
            let claims: Vec<String> = claims.iter().map(claim).collect();
            format!(
                "{{\"id\":\"{id}\",\"version\":\"{version}\",\"claims\":[{}]}}",
                claims.join(",")
            )
        };
        let experiments: Vec<String> = experiments.iter().map(one).collect();
        let reading = match reading {
            "" => String::new(),
            name => format!("\"reading\":\"{name}\","),
        };
        format!(
            "{{\"scale\":\"quick\",{reading}\"experiments\":[{}]}}",
            experiments.join(",")
        )
    }

    /// A file of the default reading with a variation.
    pub(super) fn file_of(
        variation: Option<&str>,
        experiments: &[(&str, &[(&str, &str)])],
    ) -> String {
        let file = file("", "1", experiments);
        match variation {
            Some(name) => file.replacen('{', &format!("{{\"variation\":\"{name}\","), 1),
            None => file,
        }
    }

    pub(super) fn register(files: &[String]) -> Result<Register, RegisterError> {
        let mut register = Register::default();
        for file in files {
            register.add(Path::new("v.json"), file)?;
        }
        Ok(register)
    }

    const CLAIMS: &[(&str, &str)] = &[
        ("fuso-fig1-n1", "holds"),
        ("fuso-fig1-n2", "fails"),
        ("fuso-fig1-n3", "tied"),
        ("fuso-fig1-n4", "not-checkable"),
    ];

    #[test]
    fn claims_that_fail_have_a_row_and_the_others_share_that_of_the_experiment() {
        let page = register(&[file("", "1", &[("fuso-fig1", CLAIMS)])])
            .unwrap()
            .markdown();
        for line in [
            "## FUSO: Fast and Cautious",
            "| default | quick | 1 | 1 | 1 | 1 | 1 | 1 |",
            "| claim | the paper | measured | default | cause |",
            "| **fuso-fig1** holds: n1; tied: n3; not-checkable: n4 | | | 1/4 | |",
            "| `n2` sentence \\| fuso-fig1-n2 | 5 ms | value in  | fails | none |",
            "Causes of the 1 claims that fail in every column; 1 have none:",
        ] {
            assert!(page.lines().any(|l| l == line), "{line}: {page}");
        }
    }

    #[test]
    fn claim_that_fails_in_some_readings_has_a_row_with_a_verdict_for_each() {
        let other: &[(&str, &str)] = &[
            ("fuso-fig1-n1", "tied"),
            ("fuso-fig1-n2", "holds"),
            ("fuso-fig1-n3", "fails"),
        ];
        let files = [
            file("", "1", &[("fuso-fig1", CLAIMS)]),
            file("linux-3.18", "1", &[("fuso-fig1", other)]),
        ];
        let page = register(&files).unwrap().markdown();
        for line in [
            "| claim | the paper | measured | default | linux-3.18 | cause |",
            "| **fuso-fig1** holds in some: n1; not-checkable: n4; fails in some: n3 | | | 1/4 | 1/3 | |",
            "| `n2` sentence \\| fuso-fig1-n2 | 5 ms | value in  | fails | holds |  |",
        ] {
            assert!(page.lines().any(|l| l == line), "{line}: {page}");
        }
        assert!(!page.contains("Causes of"), "{page}");
    }

    #[test]
    fn claim_that_fails_in_every_reading_refers_to_its_cause() {
        let claim = &spindle_experiment::causes::all()[0].claims[0];
        let (paper, rest) = claim.split_once('-').unwrap();
        let figure = rest.rsplit_once('-').unwrap().0;
        let experiment = format!("{paper}-{figure}");
        let page = register(&[file("", "1", &[(&experiment, &[(claim, "fails")])])])
            .unwrap()
            .markdown();
        assert!(page.contains("| fails | 1 |"), "{page}");
        let cause = &spindle_experiment::causes::all()[0];
        let because = cause.because.word();
        let listed = format!("1. ({because}) {} `{}`", cause.text, cause.command);
        assert!(page.contains(&listed), "{page}");
    }

    #[test]
    fn experiment_in_two_files_of_one_reading_is_refused() {
        let same = file("", "1", &[("fuso-fig1", CLAIMS)]);
        let wrong = register(&[same.clone(), same]).unwrap_err();
        assert!(matches!(wrong, RegisterError::Twice { .. }), "{wrong}");
    }

    #[test]
    fn unknown_variation_is_refused() {
        let wrong = register(&[file_of(Some("lower-loads"), &[("fuso-fig1", CLAIMS)])]);
        let wrong = wrong.unwrap_err().to_string();
        assert!(
            wrong.starts_with("v.json: variation: found \"lower-loads\""),
            "{wrong}"
        );
    }

    #[test]
    fn versions_are_not_mixed_within_a_paper_and_a_reading() {
        let first = file("", "1", &[("fuso-fig1", CLAIMS)]);
        let wrong =
            register(&[first.clone(), file("", "2", &[("fuso-fig2", CLAIMS)])]).unwrap_err();
        let RegisterError::MixedVersions {
            expected, found, ..
        } = &wrong
        else {
            panic!("{wrong}");
        };
        assert_eq!((expected.as_str(), found.as_str()), ("1", "2"));
        register(&[first.clone(), file("", "2", &[("caps-fig1", CLAIMS)])]).unwrap();
        register(&[first, file("linux-3.18", "2", &[("fuso-fig2", CLAIMS)])]).unwrap();
    }
}

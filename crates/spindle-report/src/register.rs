//! The register of claims: the verdicts of one or more reproductions in one page of Markdown, with a column for each
//! reading.
//!
//! The page has a table for each paper. An experiment has one row, which lists the claims whose verdicts agree in all
//! columns. A claim has a row with its sentence, the paper's number and the measured value if it fails in a column or
//! if columns differ.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use spindle_experiment::claims::Verdict;
use spindle_experiment::library;

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
}

/// A file of `reproduce --json`.
#[derive(Debug, Deserialize)]
struct ResultFile {
    scale: String,
    reading: Option<String>,
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
}

/// The verdicts at one scale and in one reading.
#[derive(Debug)]
struct Column {
    reading: String,
    scale: String,
    experiments: Vec<Experiment>,
}

/// The verdicts of one or more reproductions.
#[derive(Debug, Default)]
pub struct Register {
    columns: Vec<Column>,
}

/// Verdicts in the order in which they are counted.
const VERDICTS: [Verdict; 4] = [
    Verdict::Holds,
    Verdict::Tied,
    Verdict::Fails,
    Verdict::NotCheckable,
];

impl Register {
    /// Reads files of `reproduce --json`. Files of the same scale and reading form one column.
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
        let reading = file.reading.unwrap_or_else(|| "default".to_owned());
        let same = |c: &Column| c.reading == reading && c.scale == file.scale;
        let index = self.columns.iter().position(same).unwrap_or_else(|| {
            self.columns.push(Column {
                reading: reading.clone(),
                scale: file.scale.clone(),
                experiments: Vec::new(),
            });
            self.columns.len() - 1
        });
        let column = &mut self.columns[index];
        for experiment in file.experiments {
            column.check(path, &experiment)?;
            column.experiments.push(experiment);
        }
        Ok(())
    }

    /// The page.
    pub fn markdown(&self) -> String {
        let mut text = String::from(
            "# Register of claims\n\nWritten by `spindle register` from files of `spindle reproduce --json`. A row in bold is an experiment: it lists the\n\
             claims whose verdicts agree in all columns. A claim that fails in a column, or on which columns differ, has a row.\n",
        );
        for paper in library::PAPERS.iter().filter(|p| !p.joint) {
            let ids: Vec<&str> = library::EXPERIMENTS
                .iter()
                .filter(|b| b.paper == Some(paper.id))
                .map(|b| b.id)
                .collect();
            let columns: Vec<&Column> = self
                .columns
                .iter()
                .filter(|c| ids.iter().any(|id| c.find(id).is_some()))
                .collect();
            if !columns.is_empty() {
                let _ = write!(text, "\n## {}\n\n", paper.title);
                counts(&mut text, &columns, &ids);
                table(&mut text, &columns, &ids);
            }
        }
        text
    }
}

impl Column {
    /// Its name: the reading and the scale.
    fn name(&self) -> String {
        format!("{}, {}", self.reading, self.scale)
    }

    /// The experiment with that id, if it was run and has claims.
    fn find(&self, id: &str) -> Option<&Experiment> {
        let has = |e: &&Experiment| e.id == id && !e.claims.is_empty();
        self.experiments.iter().find(has)
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

/// Writes the number of claims with each verdict, a row for each column.
fn counts(text: &mut String, columns: &[&Column], ids: &[&str]) {
    text.push_str(
        "| reading | scale | version | experiments | holds | tied | fails | not checkable |\n",
    );
    text.push_str("|---|---|---|---|---|---|---|---|\n");
    for column in columns {
        let found: Vec<&Experiment> = ids.iter().filter_map(|id| column.find(id)).collect();
        let version = found.first().map_or("", |e| e.version.as_str());
        let claims = || found.iter().flat_map(|e| &e.claims);
        let of = |v: Verdict| claims().filter(|c| c.verdict == v).count().to_string();
        let numbers = VERDICTS.map(of).join(" | ");
        let (reading, scale, n) = (&column.reading, &column.scale, found.len());
        let _ = writeln!(
            text,
            "| {reading} | {scale} | {version} | {n} | {numbers} |"
        );
    }
    text.push('\n');
}

/// Writes the table of a paper's claims.
fn table(text: &mut String, columns: &[&Column], ids: &[&str]) {
    let names: Vec<String> = columns.iter().map(|c| c.name()).collect();
    let _ = writeln!(
        text,
        "| claim | the paper | measured | {} |",
        names.join(" | ")
    );
    let _ = writeln!(text, "|---|---|---|{}", "---|".repeat(columns.len()));
    for id in ids {
        let of: Vec<Option<&Experiment>> = columns.iter().map(|c| c.find(id)).collect();
        if of.iter().any(Option::is_some) {
            rows(text, id, &of);
        }
    }
}

/// Writes the rows of an experiment, which each column may have run.
fn rows(text: &mut String, id: &str, columns: &[Option<&Experiment>]) {
    let mut claims: Vec<&str> = Vec::new();
    for claim in columns.iter().flatten().flat_map(|e| &e.claims) {
        if !claims.contains(&claim.id.as_str()) {
            claims.push(&claim.id);
        }
    }
    let short = |claim: &str| {
        claim
            .strip_prefix(id)
            .map_or(claim, |c| c.trim_start_matches('-'))
            .to_owned()
    };
    let mut agreed = VERDICTS.map(|v| (v, Vec::new()));
    let mut own = Vec::new();
    for claim in claims {
        let found: Vec<Option<&Claim>> = columns
            .iter()
            .map(|e| e.and_then(|e| e.claims.iter().find(|c| c.id == claim)))
            .collect();
        let mut verdicts = found.iter().flatten().map(|c| c.verdict);
        let first = verdicts.next();
        let same = verdicts.all(|v| Some(v) == first);
        match agreed.iter_mut().find(|(v, _)| Some(*v) == first) {
            Some((v, names)) if same && *v != Verdict::Fails => names.push(short(claim)),
            _ => own.push((short(claim), found)),
        }
    }
    let lists: Vec<String> = agreed
        .iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(verdict, names)| format!("{}: {}", verdict.word(), names.join(", ")))
        .collect();
    let tallies: Vec<String> = columns.iter().map(|e| tally(*e)).collect();
    let heading = format!("**{id}** {}", lists.join("; "));
    let _ = writeln!(
        text,
        "| {} | | | {} |",
        heading.trim_end(),
        tallies.join(" | ")
    );
    for (name, found) in own {
        claim_row(text, &name, &found);
    }
}

/// How many claims of an experiment hold: "3 of 5".
fn tally(experiment: Option<&Experiment>) -> String {
    experiment.map_or_else(String::new, |e| {
        let holds = e.claims.iter().filter(|c| c.verdict == Verdict::Holds);
        format!("{} of {}", holds.count(), e.claims.len())
    })
}

/// Longest sentence, statement and measured value of a row, in characters. Results as JSON have the whole texts.
const LONGEST: [usize; 3] = [110, 90, 150];

/// Writes the row of one claim. The value is that of the first column in which the claim fails.
fn claim_row(text: &mut String, name: &str, columns: &[Option<&Claim>]) {
    let ran = || columns.iter().flatten();
    let Some(shown) = ran()
        .find(|c| c.verdict == Verdict::Fails)
        .or_else(|| ran().next())
    else {
        return;
    };
    let [sentence, paper, measured] = LONGEST;
    let verdicts: Vec<&str> = columns
        .iter()
        .map(|c| c.map_or("", |c| c.verdict.word()))
        .collect();
    let _ = writeln!(
        text,
        "| `{name}` {} | {} | {} | {} |",
        cell(&shown.text, sentence),
        cell(&shown.paper, paper),
        cell(&shown.measured, measured),
        verdicts.join(" | ")
    );
}

/// A text as a cell of a table, cut to a number of characters.
fn cell(text: &str, longest: usize) -> String {
    let text = text
        .replace('\n', " ")
        .replace('|', "\\|")
        .replace('<', "&lt;");
    if text.chars().count() <= longest {
        return text;
    }
    let cut: String = text.chars().take(longest - 1).collect();
    let words = cut
        .rsplit_once(' ')
        .map_or(cut.as_str(), |(words, _)| words);
    format!("{}\u{2026}", words.trim_end_matches('\\'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(reading: &str, version: &str, experiments: &[(&str, &[(&str, &str)])]) -> String {
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

    fn register(files: &[String]) -> Result<Register, RegisterError> {
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
            "| **fuso-fig1** holds: n1; tied: n3; not-checkable: n4 | | | 1 of 4 |",
            "| `n2` sentence \\| fuso-fig1-n2 | 5 ms | value in  | fails |",
        ] {
            assert!(page.lines().any(|l| l == line), "{line}: {page}");
        }
    }

    #[test]
    fn claim_on_which_readings_differ_has_a_row_with_a_verdict_for_each() {
        let other: &[(&str, &str)] = &[("fuso-fig1-n1", "tied"), ("fuso-fig1-n3", "tied")];
        let files = [
            file("", "1", &[("fuso-fig1", CLAIMS)]),
            file("linux-3.18", "1", &[("fuso-fig1", other)]),
        ];
        let page = register(&files).unwrap().markdown();
        for line in [
            "| claim | the paper | measured | default, quick | linux-3.18, quick |",
            "| **fuso-fig1** tied: n3; not-checkable: n4 | | | 1 of 4 | 0 of 2 |",
            "| `n1` sentence \\| fuso-fig1-n1 | 5 ms | value in  | holds | tied |",
            "| `n2` sentence \\| fuso-fig1-n2 | 5 ms | value in  | fails |  |",
        ] {
            assert!(page.lines().any(|l| l == line), "{line}: {page}");
        }
    }

    #[test]
    fn experiment_in_two_files_of_one_reading_is_refused() {
        let same = file("", "1", &[("fuso-fig1", CLAIMS)]);
        let wrong = register(&[same.clone(), same]).unwrap_err();
        assert!(matches!(wrong, RegisterError::Twice { .. }), "{wrong}");
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

    #[test]
    fn long_texts_are_cut_at_a_word() {
        assert_eq!(cell("one two three", 13), "one two three");
        assert_eq!(cell("one two three", 10), "one two\u{2026}");
    }
}

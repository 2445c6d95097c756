//! Whether verdicts depend on values that the papers print: a page from reproductions with a
//! [variation](spindle_experiment::variations).

use std::fmt::Write as _;

use spindle_experiment::claims::Verdict;
use spindle_experiment::library::Paper;
use spindle_experiment::variations::Variation;

use super::{Column, Experiment, Register};

/// How a verdict compares with those of the variations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Robustness {
    /// All variations have the same verdict.
    Robust,
    /// Some variations have another verdict, but none has the opposite one.
    Uncertain,
    /// The claim holds in one run and fails in another.
    Fragile,
}

impl Robustness {
    /// All of them, in the order in which they are counted.
    pub(super) const ALL: [Self; 3] = [Self::Robust, Self::Uncertain, Self::Fragile];

    /// Its name.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Robust => "robust",
            Self::Uncertain => "uncertain",
            Self::Fragile => "fragile",
        }
    }
}

/// A claim's verdict in a column and the verdicts of the column's variations.
pub(super) struct Varied<'a> {
    claim: &'a str,
    verdict: Verdict,
    others: Vec<(Variation, Verdict)>,
}

impl Varied<'_> {
    pub(super) fn robustness(&self) -> Robustness {
        let any = |v| self.verdict == v || self.others.iter().any(|(_, other)| *other == v);
        if any(Verdict::Holds) && any(Verdict::Fails) {
            return Robustness::Fragile;
        }
        match self.others.iter().all(|(_, other)| *other == self.verdict) {
            true => Robustness::Robust,
            false => Robustness::Uncertain,
        }
    }

    /// The number of variations that were run.
    pub(super) fn variations(&self) -> usize {
        self.others.len()
    }

    /// The variations with another verdict, grouped by it: "fails with half-buffers, lower-load; tied with other-seeds".
    pub(super) fn changes(&self) -> String {
        let with = |verdict: Verdict| {
            let others = self.others.iter().filter(|(_, other)| *other == verdict);
            let names: Vec<&str> = others.map(|(variation, _)| variation.name()).collect();
            format!("{} with {}", verdict.word(), names.join(", "))
        };
        let changed =
            |v: &Verdict| *v != self.verdict && self.others.iter().any(|(_, other)| other == v);
        let groups = super::VERDICTS.into_iter().filter(changed).map(with);
        groups.collect::<Vec<_>>().join("; ")
    }
}

impl Register {
    /// A claim of a column with the verdicts of the column's variations. `None` if it was not run with any, or is not
    /// checkable.
    pub(super) fn varied<'a>(
        &self,
        column: &'a Column,
        experiment: &str,
        claim: &str,
    ) -> Option<Varied<'a>> {
        let found = column.claim(experiment, claim)?;
        let verdict = |c: &Column| Some((c.variation?, c.claim(experiment, claim)?.verdict));
        let others: Vec<_> = self.variations_of(column).filter_map(verdict).collect();
        let counts = found.verdict != Verdict::NotCheckable && !others.is_empty();
        counts.then_some(Varied {
            claim: &found.id,
            verdict: found.verdict,
            others,
        })
    }

    /// The columns with the variations of a column.
    fn variations_of(&self, column: &Column) -> impl Iterator<Item = &Column> {
        let of = |c: &&Column| c.reading == column.reading && c.scale == column.scale;
        self.varied.iter().filter(of)
    }

    /// The page on the variations, in Markdown. Columns without variations are left out.
    pub fn robustness(&self) -> String {
        let mut text = String::from(
            "# Robustness of the verdicts\n\nWritten by `spindle register --robustness` from files of `spindle reproduce --vary NAME --json`. A variation changes one\n\
             printed value in all experiments of a paper. A verdict is robust if every variation has the same, fragile if the claim holds in one run\n\
             and fails in another, and uncertain if runs differ without that, such as a claim that holds and is tied with other seeds. An experiment without the value,\n\
             such as the load of clients that wait for their last response, stays as it is.\n",
        );
        for (paper, ids, columns) in self.papers() {
            for column in columns {
                self.part(&mut text, paper, &ids, column);
            }
        }
        text
    }

    /// Writes the part of a paper and a column.
    fn part(&self, text: &mut String, paper: &Paper, ids: &[&str], column: &Column) {
        let found = ids.iter().filter_map(|id| column.find(id));
        let varied: Vec<(&Experiment, Vec<Varied<'_>>)> = found
            .map(|e| {
                let claims = e.claims.iter();
                (
                    e,
                    claims
                        .filter_map(|c| self.varied(column, &e.id, &c.id))
                        .collect(),
                )
            })
            .collect();
        let all: Vec<&Varied<'_>> = varied.iter().flat_map(|(_, of)| of).collect();
        if all.is_empty() {
            return;
        }
        let counts = Robustness::ALL.map(|kind| {
            let of_it = all.iter().filter(|v| v.robustness() == kind).count();
            format!("{of_it} {}", kind.word())
        });
        let (name, verdicts) = (column.name(), all.len());
        let has = |c: &&Column| ids.iter().any(|id| c.find(id).is_some());
        let run = self.variations_of(column).filter(has).count();
        let known = Variation::ALL.len();
        let _ = writeln!(
            text,
            "\n## {}\n\n{name}, {run} of {known} variations: of {verdicts} verdicts {}.\n",
            paper.title,
            counts.join(", ")
        );
        variations(text, &all);
        fragile(text, &varied);
    }
}

/// Writes a row for each variation: how many verdicts it leaves, changes and reverses.
fn variations(text: &mut String, all: &[&Varied<'_>]) {
    text.push_str(
        "| variation | | same verdict | another | the opposite |\n|---|---|---|---|---|\n",
    );
    for variation in Variation::ALL {
        let pairs = all.iter().filter_map(|v| {
            let other = v.others.iter().find(|(of, _)| *of == variation)?;
            Some((v.verdict, other.1))
        });
        let pairs: Vec<(Verdict, Verdict)> = pairs.collect();
        if pairs.is_empty() {
            continue;
        }
        let same = pairs.iter().filter(|(own, other)| own == other).count();
        let opposite = |(own, other): &&(Verdict, Verdict)| {
            matches!(
                (own, other),
                (Verdict::Holds, Verdict::Fails) | (Verdict::Fails, Verdict::Holds)
            )
        };
        let opposite = pairs.iter().filter(opposite).count();
        let (name, title) = (variation.name(), variation.title());
        let another = pairs.len() - same - opposite;
        let _ = writeln!(
            text,
            "| {name} | {title} | {same} | {another} | {opposite} |"
        );
    }
}

/// Writes a row for each fragile verdict.
fn fragile(text: &mut String, varied: &[(&Experiment, Vec<Varied<'_>>)]) {
    let is_fragile = |v: &&Varied<'_>| v.robustness() == Robustness::Fragile;
    let mut fragile = varied
        .iter()
        .flat_map(|(_, of)| of)
        .filter(is_fragile)
        .peekable();
    if fragile.peek().is_none() {
        return;
    }
    text.push_str("\n| fragile claim | verdict | with variations |\n|---|---|---|\n");
    for v in fragile {
        let _ = writeln!(
            text,
            "| `{}` | {} | {} |",
            v.claim,
            v.verdict.word(),
            v.changes()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{file_of, register};
    const ID: &str = "fuso-fig1";

    /// Claims and their verdicts.
    type Claims<'a> = &'a [(&'a str, &'a str)];

    fn page(verdicts: [(Option<&str>, Claims<'_>); 3]) -> String {
        let files = verdicts.map(|(variation, claims)| file_of(variation, &[(ID, claims)]));
        register(&files).unwrap().robustness()
    }

    #[test]
    fn verdict_is_robust_fragile_or_uncertain_by_the_verdicts_of_its_variations() {
        let page = page([
            (
                None,
                &[
                    ("fuso-fig1-n1", "holds"),
                    ("fuso-fig1-n2", "fails"),
                    ("fuso-fig1-n3", "holds"),
                    ("fuso-fig1-n4", "not-checkable"),
                    ("fuso-fig1-n5", "tied"),
                ],
            ),
            (
                Some("half-buffers"),
                &[
                    ("fuso-fig1-n1", "holds"),
                    ("fuso-fig1-n2", "holds"),
                    ("fuso-fig1-n3", "holds"),
                    ("fuso-fig1-n4", "not-checkable"),
                    ("fuso-fig1-n5", "holds"),
                ],
            ),
            (
                Some("lower-load"),
                &[
                    ("fuso-fig1-n1", "holds"),
                    ("fuso-fig1-n2", "tied"),
                    ("fuso-fig1-n3", "tied"),
                    ("fuso-fig1-n4", "not-checkable"),
                    ("fuso-fig1-n5", "fails"),
                ],
            ),
        ]);
        for line in [
            "default, quick, 2 of 8 variations: of 4 verdicts 1 robust, 1 uncertain, 2 fragile.",
            "| half-buffers | switch buffers x 0.5 | 2 | 1 | 1 |",
            "| lower-load | load x 0.8 | 1 | 3 | 0 |",
            "| `fuso-fig1-n2` | fails | holds with half-buffers; tied with lower-load |",
            "| `fuso-fig1-n5` | tied | holds with half-buffers; fails with lower-load |",
        ] {
            assert!(page.lines().any(|l| l == line), "{line}: {page}");
        }
        assert!(!page.contains("other-seeds"), "it was not run: {page}");
    }

    #[test]
    fn variation_is_no_column_of_the_register() {
        let claims: Claims<'_> = &[("fuso-fig1-n1", "fails")];
        let files = [
            file_of(None, &[(ID, claims)]),
            file_of(Some("lower-load"), &[(ID, claims)]),
        ];
        let page = register(&files).unwrap().markdown();
        assert!(
            page.contains("| claim | the paper | measured | default | cause |"),
            "{page}"
        );
    }

    #[test]
    fn variation_of_another_reading_does_not_count() {
        let claims: Claims<'_> = &[("fuso-fig1-n1", "fails")];
        let other = file_of(Some("lower-load"), &[(ID, claims)]);
        let other = other.replace("\"scale\":\"quick\"", "\"scale\":\"full\"");
        let page = register(&[file_of(None, &[(ID, claims)]), other])
            .unwrap()
            .robustness();
        assert!(!page.contains("## "), "{page}");
    }
}

//! The register as one page of Markdown.
//!
//! The page has a table for each paper. An experiment has one row, which lists its claims by verdict. A claim that fails
//! in the first column that has it, also has a row with its sentence, the paper's number and the measured value. If it
//! fails in every column, it refers to its [cause](spindle_experiment::causes).

use std::fmt::Write as _;

use spindle_experiment::causes::{self, Cause};
use spindle_experiment::claims::Verdict;

use super::{Claim, Column, Experiment, Register, VERDICTS};

impl Register {
    /// The page.
    pub fn markdown(&self) -> String {
        let mut text = String::from(
            "# Register of claims\n\nWritten by `spindle register` from files of `spindle reproduce --json`. A row in bold is an experiment: it lists the\n\
             claims by verdict, and how many hold in each column. A claim that fails in the first column has a row. If it fails in every column, it\n\
             refers to its cause: the paper contradicts itself (paper), an unknown part of the set-up (set-up), the schemes as the paper describes\n\
             them (scheme), the size of the runs (scale), or not found (open).\n",
        );
        for (paper, ids, columns) in self.papers() {
            let _ = write!(text, "\n## {}\n\n", paper.title);
            counts(&mut text, &columns, &ids);
            table(&mut text, &columns, &ids);
        }
        text
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
        let version = column.version(ids);
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

/// Writes the table of a paper's claims, and below it the causes to which its rows refer.
fn table(text: &mut String, columns: &[&Column], ids: &[&str]) {
    let one_scale = columns.iter().all(|c| c.scale == columns[0].scale);
    let name = |c: &&Column| match one_scale {
        true => c.reading.clone(),
        false => c.name(),
    };
    let names: Vec<String> = columns.iter().map(name).collect();
    let _ = writeln!(
        text,
        "| claim | the paper | measured | {} | cause |",
        names.join(" | ")
    );
    let _ = writeln!(text, "|---|---|---|{}---|", "---|".repeat(columns.len()));
    let mut causes = Causes::default();
    for id in ids {
        let of: Vec<Option<&Experiment>> = columns.iter().map(|c| c.find(id)).collect();
        if of.iter().any(Option::is_some) {
            rows(text, id, &of, &mut causes);
        }
    }
    causes.write(text);
}

/// The causes to which a paper's rows refer.
#[derive(Default)]
struct Causes {
    named: Vec<&'static Cause>,
    /// The number of claims that fail in every column that has them.
    failing: usize,
    /// How many of these have no cause.
    without: usize,
}

impl Causes {
    /// The cell of a claim that fails in every column: the number of its cause.
    fn cell(&mut self, claim: &str) -> String {
        self.failing += 1;
        let Some(cause) = causes::of(claim) else {
            self.without += 1;
            return "none".to_owned();
        };
        let known = self.named.iter().position(|c| *c == cause);
        let index = known.unwrap_or_else(|| {
            self.named.push(cause);
            self.named.len() - 1
        });
        (index + 1).to_string()
    }

    fn write(&self, text: &mut String) {
        if self.failing == 0 {
            return;
        }
        let (failing, without) = (self.failing, self.without);
        let _ = writeln!(
            text,
            "\nCauses of the {failing} claims that fail in every column; {without} have none:\n"
        );
        for (n, cause) in self.named.iter().enumerate() {
            let (n, because) = (n + 1, cause.because.word());
            let _ = writeln!(text, "{n}. ({because}) {} `{}`", cause.text, cause.command);
        }
    }
}

/// The groups of an experiment's claims without rows of their own.
const GROUPS: [&str; 5] = [
    "holds",
    "holds in some",
    "tied",
    "not-checkable",
    "fails in some",
];

/// The index in [`GROUPS`] of a claim with these verdicts.
fn group(verdicts: &[Verdict]) -> usize {
    let any = |v: Verdict| verdicts.contains(&v);
    if any(Verdict::Fails) {
        return 4;
    }
    match any(Verdict::Holds) {
        true if verdicts.iter().all(|v| *v == Verdict::Holds) => 0,
        true => 1,
        false if any(Verdict::Tied) => 2,
        false => 3,
    }
}

/// The ids of an experiment's claims in any column, in order.
pub(super) fn claims_of<'a>(columns: &[Option<&'a Experiment>]) -> Vec<&'a str> {
    let mut claims: Vec<&str> = Vec::new();
    for claim in columns.iter().flatten().flat_map(|e| &e.claims) {
        if !claims.contains(&claim.id.as_str()) {
            claims.push(&claim.id);
        }
    }
    claims
}

/// Writes the rows of an experiment, which each column may have run.
fn rows(text: &mut String, id: &str, columns: &[Option<&Experiment>], causes: &mut Causes) {
    let claims = claims_of(columns);
    let mut groups = GROUPS.map(|_| Vec::new());
    let mut failing = Vec::new();
    for claim in claims {
        let found: Vec<Option<&Claim>> = columns
            .iter()
            .map(|e| e.and_then(|e| e.claims.iter().find(|c| c.id == claim)))
            .collect();
        let verdicts: Vec<Verdict> = found.iter().flatten().map(|c| c.verdict).collect();
        match verdicts.first() == Some(&Verdict::Fails) {
            true => failing.push((claim, found)),
            false => groups[group(&verdicts)].push(short(claim, id)),
        }
    }
    let lists: Vec<String> = GROUPS
        .iter()
        .zip(&groups)
        .filter(|(_, names)| !names.is_empty())
        .map(|(group, names)| format!("{group}: {}", names.join(", ")))
        .collect();
    let tallies: Vec<String> = columns.iter().map(|e| tally(*e)).collect();
    let heading = format!("**{id}** {}", lists.join("; "));
    let _ = writeln!(
        text,
        "| {} | | | {} | |",
        heading.trim_end(),
        tallies.join(" | ")
    );
    for (claim, found) in failing {
        let verdicts = found.iter().flatten();
        let cause = match verdicts.clone().all(|c| c.verdict == Verdict::Fails) {
            true => causes.cell(claim),
            false => String::new(),
        };
        claim_row(text, short(claim, id), &found, &cause);
    }
}

/// The claim's id without that of its experiment.
pub(super) fn short<'a>(claim: &'a str, experiment: &str) -> &'a str {
    let rest = claim.strip_prefix(experiment);
    rest.map_or(claim, |r| r.trim_start_matches('-'))
}

/// How many claims of an experiment hold: "3/5".
fn tally(experiment: Option<&Experiment>) -> String {
    experiment.map_or_else(String::new, |e| {
        let holds = e.claims.iter().filter(|c| c.verdict == Verdict::Holds);
        format!("{}/{}", holds.count(), e.claims.len())
    })
}

/// Longest sentence, statement and measured value of a row, in characters. Results as JSON have the whole texts.
const LONGEST: [usize; 3] = [110, 90, 150];

/// Writes the row of one claim. The value is that of the first column in which the claim fails.
fn claim_row(text: &mut String, name: &str, columns: &[Option<&Claim>], cause: &str) {
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
        "| `{name}` {} | {} | {} | {} | {cause} |",
        cell(&shown.text, sentence),
        cell(&shown.paper, paper),
        cell(&shown.measured, measured),
        verdicts.join(" | ")
    );
}

/// A text as a cell of a table, cut to a number of characters.
pub(super) fn cell(text: &str, longest: usize) -> String {
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
    use super::cell;

    #[test]
    fn long_texts_are_cut_at_a_word() {
        assert_eq!(cell("one two three", 13), "one two three");
        assert_eq!(cell("one two three", 10), "one two\u{2026}");
    }
}

//! The measured value of every claim in each column, next to the paper's, as a page of Markdown.

use std::fmt::Write as _;

use spindle_experiment::claims::Verdict;

use super::markdown::{cell, claims_of, short};
use super::{Claim, Column, Register};

/// Longest sentence, statement of the paper and measured value, in characters.
const LONGEST: [usize; 3] = [78, 48, 94];

impl Register {
    /// The page. Each paper has a table with a row for each claim. A claim that is not checkable has no row: the paper
    /// has no number for it, or there are too few flows.
    pub fn values(&self) -> String {
        let mut text = String::from(
            "# Values of the papers and of the lab\n\nWritten by `spindle register --values` from files of `spindle reproduce --json`. A cell has the verdict and what was found, with\n\
             95 % intervals. Long texts are cut; files of `--json` have the whole texts.\n",
        );
        for (paper, ids, columns) in self.papers() {
            let _ = write!(text, "\n## {}\n\n", paper.title);
            let names: Vec<String> = columns.iter().map(|c| c.name()).collect();
            let versions: Vec<String> = columns
                .iter()
                .map(|c| format!("{} {}", c.name(), c.version(&ids)))
                .collect();
            let _ = writeln!(text, "Versions: {}.\n", versions.join("; "));
            let _ = writeln!(text, "| claim | the paper | {} |", names.join(" | "));
            let _ = writeln!(text, "|---|---|{}", "---|".repeat(columns.len()));
            for id in ids {
                rows(&mut text, id, &columns);
            }
        }
        text
    }
}

/// Writes the rows of an experiment.
fn rows(text: &mut String, id: &str, columns: &[&Column]) {
    let experiments: Vec<_> = columns.iter().map(|c| c.find(id)).collect();
    let row = |claim: &str| -> Vec<Option<&Claim>> {
        columns.iter().map(|c| c.claim(id, claim)).collect()
    };
    let decided = |cells: &Vec<Option<&Claim>>| {
        let mut ran = cells.iter().flatten();
        ran.any(|c| c.verdict != Verdict::NotCheckable)
    };
    let claims = claims_of(&experiments);
    let mut shown = claims
        .into_iter()
        .map(|c| (c, row(c)))
        .filter(|(_, r)| decided(r))
        .peekable();
    if shown.peek().is_none() {
        return;
    }
    let _ = writeln!(text, "| **{id}** | |{}", " |".repeat(columns.len()));
    for (claim, cells) in shown {
        let Some(first) = cells.iter().flatten().next() else {
            continue;
        };
        let [sentence, paper, measured] = LONGEST;
        let value = |c: &Option<&Claim>| match c {
            Some(c) => {
                let found = without_units(&without_counts(found(c)));
                format!("{}: {}", c.verdict.word(), cell(&found, measured))
            }
            None => String::new(),
        };
        let values: Vec<String> = cells.iter().map(value).collect();
        let _ = writeln!(
            text,
            "| `{}` {} | {} | {} |",
            short(claim, id),
            cell(&first.text, sentence),
            cell(&first.paper, paper),
            values.join(" | ")
        );
    }
}

/// What was found: the reason of the verdict, such as "largest reduction 78.8 %", or the measured values if the reason
/// only counts comparisons.
fn found(claim: &Claim) -> &str {
    let only_counts = claim.why.starts_with("of ") && !claim.why.contains(':');
    match claim.why.is_empty() || only_counts {
        true => &claim.measured,
        false => without_claimed(&claim.why),
    }
}

/// A reason without the claimed value at its end, which the paper's column has.
fn without_claimed(why: &str) -> &str {
    let found = why
        .split_once("claimed about")
        .map_or(why, |(found, _)| found);
    found.trim_end_matches([' ', ',', ';'])
}

/// A reason with its counts of comparisons and the words between them in their shortest form, so that numbers fit: "0 of 5 hold,
/// 2 tied: load 10%: than mptcp 14.6%".
fn without_counts(why: &str) -> String {
    let Some((counts, rest)) = why.split_once(": ") else {
        return why.to_owned();
    };
    let words: Vec<&str> = counts.split([' ', ',']).filter(|w| !w.is_empty()).collect();
    let [
        "of",
        all,
        "comparisons",
        hold,
        "hold",
        tied,
        "are",
        "tied",
        _,
        "fail",
    ] = words[..]
    else {
        return why.to_owned();
    };
    let tied = match tied {
        "0" => String::new(),
        tied => format!(", {tied} tied"),
    };
    let comparisons: Vec<String> = rest.split("; ").map(without_subject).collect();
    format!("{hold} of {all} hold{tied}: {}", comparisons.join("; "))
}

/// "load 10%: fuso is lower than mptcp by 14.6%" as "load 10%: than mptcp 14.6%": the claim's sentence has the rest.
fn without_subject(comparison: &str) -> String {
    let short = |sign: &str| {
        let (before, after) = comparison.split_once(sign)?;
        let (other, by) = after.split_once(" by ")?;
        let point = before.rsplit_once(": ").map_or("", |(point, _)| point);
        Some(format!("{point}: than {other} {by}"))
    };
    short(" is lower than ")
        .or_else(|| short(" is higher than "))
        .unwrap_or_else(|| comparison.to_owned())
}

/// Intervals without the unit, where the value in front of them has it: "1.5 ms [1.2 ms to 1.9 ms]" as "1.5 ms [1.2 to 1.9]".
fn without_units(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, interval, after)) = rest
        .split_once(" [")
        .and_then(|(before, more)| more.split_once(']').map(|(i, after)| (before, i, after)))
    {
        let number = |s: &str| {
            s.trim_start_matches(|c: char| "+-.0123456789".contains(c))
                .len()
        };
        let bounds = interval.split_once(" to ").map(|(from, to)| {
            let unit = &from[from.len() - number(from)..];
            let same = to.ends_with(unit) && to.len() > unit.len() && before.ends_with(unit);
            match same {
                true => format!(
                    "{} to {}",
                    &from[..from.len() - unit.len()],
                    &to[..to.len() - unit.len()]
                ),
                false => interval.to_owned(),
            }
        });
        let bounds = bounds.unwrap_or_else(|| interval.to_owned());
        let _ = write!(out, "{before} [{bounds}]");
        rest = after;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::tests::{file, register};
    use super::*;

    #[test]
    fn every_checkable_claim_has_a_row_with_the_value_of_each_column() {
        let claims = [
            ("fuso-fig1-n1", "holds"),
            ("fuso-fig1-n2", "fails"),
            ("fuso-fig1-n3", "not-checkable"),
        ];
        let other = [("fuso-fig1-n1", "tied"), ("fuso-fig1-n3", "not-checkable")];
        let page = register(&[
            file("", "1", &[("fuso-fig1", &claims)]),
            file("linux-3.18", "1", &[("fuso-fig1", &other)]),
        ])
        .unwrap()
        .values();
        for line in [
            "## FUSO: Fast and Cautious",
            "Versions: default, quick 1; linux-3.18, quick 1.",
            "| claim | the paper | default, quick | linux-3.18, quick |",
            "| **fuso-fig1** | | | |",
            "| `n1` sentence \\| fuso-fig1-n1 | 5 ms | holds: value in  | tied: value in linux-3.18 |",
            "| `n2` sentence \\| fuso-fig1-n2 | 5 ms | fails: value in  |  |",
        ] {
            assert!(page.lines().any(|l| l == line), "{line}: {page}");
        }
        assert!(!page.contains("fuso-fig1-n3"), "{page}");
    }

    #[test]
    fn reason_is_shown_unless_it_only_counts_comparisons() {
        let claim = |why: &str| Claim {
            id: String::new(),
            text: String::new(),
            paper: String::new(),
            measured: "5 ms".to_owned(),
            verdict: Verdict::Tied,
            why: why.to_owned(),
        };
        for (why, shown) in [
            ("largest reduction 78.8%", "largest reduction 78.8%"),
            ("at 4%: 78.8%, claimed about 82% (within 5)", "at 4%: 78.8%"),
            ("of 3 comparisons 3 hold, 0 are tied, 0 fail", "5 ms"),
            (
                "of 3 comparisons 2 hold: loss 4%: 8 ms",
                "of 3 comparisons 2 hold: loss 4%: 8 ms",
            ),
            ("", "5 ms"),
        ] {
            assert_eq!(found(&claim(why)), shown);
        }
    }

    #[test]
    fn counts_and_words_are_shortened_so_that_numbers_fit() {
        for (why, shown) in [
            (
                "of 5 comparisons 0 hold, 2 are tied, 3 fail: shorts 60: caps@caps is lower than tcp@rps by -57.1% [-64.3% to -51.5%]; \
                 shorts 80: caps@caps is lower than tcp@rps by -70.7% [-76.1% to -64.9%]",
                "0 of 5 hold, 2 tied: shorts 60: than tcp@rps -57.1% [-64.3 to -51.5]; shorts 80: than tcp@rps -70.7% [-76.1 to -64.9]",
            ),
            (
                "of 6 comparisons 5 hold, 0 are tied, 1 fail: loss 2%: tlp 3.599 ms [3.367 ms to 3.848 ms], tcp 5.977 ms",
                "5 of 6 hold: loss 2%: tlp 3.599 ms [3.367 to 3.848], tcp 5.977 ms",
            ),
            (
                "tcp 0.9 ms [850.0 us to 1.1 ms], b 6.889 [6.552 to 7.228]",
                "tcp 0.9 ms [850.0 us to 1.1 ms], b 6.889 [6.552 to 7.228]",
            ),
            ("an open [bracket", "an open [bracket"),
        ] {
            assert_eq!(without_units(&without_counts(why)), shown);
        }
    }

    #[test]
    fn experiment_without_checkable_claims_is_left_out() {
        let claims = [("caps-fig1-n1", "not-checkable")];
        let mut register = register(&[]).unwrap();
        let file = file("", "1", &[("caps-fig1", &claims)]);
        register.add(Path::new("v.json"), &file).unwrap();
        assert!(!register.values().contains("**caps-fig1**"));
    }
}

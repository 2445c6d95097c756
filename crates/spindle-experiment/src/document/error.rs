//! One-line errors that name the file, the line, the key, what was found and what is accepted.

use std::fmt;
use std::sync::Arc;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A line of a file, counted from 1.
    Line {
        /// The file as the user named it.
        file: Arc<str>,
        /// The line.
        line: u32,
    },
    /// A file as a whole, because something is missing in it.
    File(Arc<str>),
    /// A flag of the command line, such as `--set loss=2%`.
    Flag(Arc<str>),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line { file, line } => write!(f, "{file}:{line}"),
            Self::File(file) => f.write_str(file),
            Self::Flag(flag) => f.write_str(flag),
        }
    }
}

/// Why an experiment cannot be read or run as it is written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{origin}: {}{problem}", KeyPrefix(.key))]
pub struct ExperimentError {
    /// Where the error is.
    pub origin: Origin,
    /// The dotted key. It is empty if the error is not about a key.
    pub key: String,
    /// What was found and what would be accepted, in one line.
    pub problem: String,
}

impl ExperimentError {
    /// An error at `origin` about `key`. Line breaks in `problem` become spaces.
    pub fn new(origin: Origin, key: impl Into<String>, problem: impl Into<String>) -> Self {
        let problem = problem
            .into()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        Self {
            origin,
            key: key.into(),
            problem,
        }
    }
}

struct KeyPrefix<'a>(&'a str);

impl fmt::Display for KeyPrefix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            Ok(())
        } else {
            write!(f, "{}: ", self.0)
        }
    }
}

/// The least number of characters for which names that begin with them are suggested.
const MIN_PREFIX: usize = 2;

/// The error for a name that nothing has. It lists the names that exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnknownName(pub(crate) String);

/// `, did you mean "..."?` for the entry of `accepted` that was probably meant by `found`. The text is empty if
/// there is no such entry.
///
/// Entries that begin with `found` come first, and of these the shortest. Without one it is the entry with the
/// fewest differing letters, at most a third of the letters of `found` or two. Upper and lower case are equal.
pub fn suggestion<'a>(found: &str, accepted: impl IntoIterator<Item = &'a str>) -> String {
    let accepted: Vec<&str> = accepted.into_iter().collect();
    beginning_with(found, &accepted)
        .or_else(|| nearest(found, &accepted))
        .map(|candidate| format!(", did you mean \"{candidate}\"?"))
        .unwrap_or_default()
}

/// The shortest candidate that begins with `prefix`. Of several, the first in alphabetical order.
fn beginning_with<'a>(prefix: &str, candidates: &[&'a str]) -> Option<&'a str> {
    if prefix.chars().count() < MIN_PREFIX {
        return None;
    }
    let prefix = prefix.to_lowercase();
    candidates
        .iter()
        .copied()
        .filter(|c| c.to_lowercase().starts_with(&prefix))
        .min_by_key(|c| (c.chars().count(), *c))
}

/// The candidate with the least edit distance to `found`, if that is small.
fn nearest<'a>(found: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let limit = (found.chars().count() / 3).max(2);
    let rated = candidates.iter().map(|c| (distance(found, c), *c));
    let (_, best) = rated.filter(|(d, _)| *d <= limit).min()?;
    Some(best)
}

/// Edit distance with adjacent transpositions (optimal string alignment), ignoring case.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.to_lowercase().chars().collect();
    let b: Vec<char> = b.to_lowercase().chars().collect();
    let mut rows = vec![(0..=b.len()).collect::<Vec<_>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let substitute = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = substitute.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggestion_is_the_entry_with_this_beginning_or_the_nearest_one() {
        assert_eq!(
            suggestion("mtpcp", ["tcp", "mptcp", "fuso"]),
            ", did you mean \"mptcp\"?"
        );
        assert_eq!(
            suggestion("sizs", ["size", "sizes"]),
            ", did you mean \"size\"?"
        );
        assert_eq!(suggestion("quic", ["tcp", "mptcp", "fuso"]), "");
        assert_eq!(
            suggestion("leaf", ["lead", "leaf-spine-spine", "leaf-spine"]),
            ", did you mean \"leaf-spine\"?"
        );
    }

    #[test]
    fn names_that_begin_with_the_word_are_suggested_before_nearer_names() {
        for (found, accepted, expected) in [
            (
                "fuso-si",
                vec!["fuso-1", "fuso-testbed", "fuso-sim"],
                "fuso-sim",
            ),
            ("ro", vec!["rps", "roundrobin", "redundant"], "roundrobin"),
            (
                "mmptcp-",
                vec!["mptcp", "mmptcp-lt", "mmptcp-as"],
                "mmptcp-as",
            ),
            ("FUSO", vec!["fuso-1", "fuso"], "fuso"),
        ] {
            let expected = format!(", did you mean \"{expected}\"?");
            assert_eq!(suggestion(found, accepted), expected, "{found}");
        }
    }

    #[test]
    fn empty_word_and_one_letter_are_no_prefix() {
        assert_eq!(suggestion("", ["roundrobin"]), "");
        assert_eq!(suggestion("r", ["roundrobin"]), "");
    }

    #[test]
    fn error_is_one_line_with_place_and_key() {
        let origin = Origin::Line {
            file: "a.toml".into(),
            line: 3,
        };
        let e = ExperimentError::new(origin, "loss.rate", "found\n -1,  want a share");
        assert_eq!(e.to_string(), "a.toml:3: loss.rate: found -1, want a share");
        let e = ExperimentError::new(Origin::Flag("--loss".into()), "", "bad");
        assert_eq!(e.to_string(), "--loss: bad");
    }
}

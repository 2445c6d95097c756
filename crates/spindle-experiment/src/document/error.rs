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

/// `, did you mean "..."?` for the entry of `accepted` that `found` most likely stands for. The text is empty if
/// there is no such entry. The first choice is the shortest entry that begins with `found`, if `found` has at
/// least [`SHORTEST_PREFIX`] letters. The second choice is the nearest entry, if it differs in at most a third of
/// the letters of `found`, or in at most two letters.
pub fn suggestion<'a>(found: &str, accepted: impl IntoIterator<Item = &'a str>) -> String {
    let limit = (found.chars().count() / 3).max(2);
    let start = found.to_lowercase();
    let rank = |candidate: &str| {
        let begins = start.chars().count() >= SHORTEST_PREFIX
            && candidate.to_lowercase().starts_with(&start);
        match begins {
            true => Some((false, candidate.len())),
            false => Some((true, distance(found, candidate))).filter(|(_, d)| *d <= limit),
        }
    };
    accepted
        .into_iter()
        .filter_map(|candidate| Some((rank(candidate)?, candidate)))
        .min()
        .map(|(_, candidate)| format!(", did you mean \"{candidate}\"?"))
        .unwrap_or_default()
}

/// Fewest letters that count as the beginning of a name (our choice).
const SHORTEST_PREFIX: usize = 3;

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

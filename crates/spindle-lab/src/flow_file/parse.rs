//! Flow lists: `id src dst pkts start_ns fpath rpath`, one flow per line.

use spindle_units::Duration;

/// A one-way transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BulkFlow {
    /// The flow's number in the list.
    pub id: u64,
    /// Sending host, from 0.
    pub src: u32,
    /// Receiving host, from 0.
    pub dst: u32,
    /// Number of full packets to send.
    pub packets: u64,
    /// Start time.
    pub start: Duration,
    /// Path number of the data, if prescribed (reference flows).
    pub forward_path: u32,
    /// Path number of the acknowledgements.
    pub reverse_path: u32,
}

/// Why a flow list cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlowsError {
    /// A line is not seven whole numbers.
    #[error(
        "line {line}: found \"{found}\", want seven whole numbers: id src dst pkts start_ns fpath rpath"
    )]
    Line {
        /// The line, from 1.
        line: usize,
        /// The text of the line.
        found: String,
    },
    /// The numbers of a flow are invalid.
    #[error("line {line}: {problem}")]
    Flow {
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        problem: String,
    },
    /// No line has a flow.
    #[error("found no flows, want one or more lines: id src dst pkts start_ns fpath rpath")]
    Empty,
}

/// Reads a flow list. Empty lines are skipped, and so is the rest of a line from `#` on.
///
/// # Errors
/// See [`FlowsError`].
pub fn parse(text: &str) -> Result<Vec<BulkFlow>, FlowsError> {
    let mut list = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let content = line.split('#').next().unwrap_or("").trim();
        if content.is_empty() {
            continue;
        }
        let wrong = || FlowsError::Line {
            line: i + 1,
            found: content.chars().take(60).collect(),
        };
        let numbers: Vec<u64> = content
            .split_whitespace()
            .map(|w| w.parse().map_err(|_| wrong()))
            .collect::<Result<_, _>>()?;
        let &[id, src, dst, packets, start, forward, reverse] = &numbers[..] else {
            return Err(wrong());
        };
        let small = |n: u64| u32::try_from(n).map_err(|_| wrong());
        let problem = match (packets, src == dst) {
            (0, _) => Some("a flow of 0 packets, want 1 or more"),
            (_, true) => Some("source and destination are the same host"),
            _ => None,
        };
        if let Some(problem) = problem {
            return Err(FlowsError::Flow {
                line: i + 1,
                problem: problem.to_owned(),
            });
        }
        list.push(BulkFlow {
            id,
            src: small(src)?,
            dst: small(dst)?,
            packets,
            start: Duration::from_nanos(start),
            forward_path: small(forward)?,
            reverse_path: small(reverse)?,
        });
    }
    if list.is_empty() {
        Err(FlowsError::Empty)
    } else {
        Ok(list)
    }
}

/// Checks that every flow fits a k-ary fat tree: hosts below k^3/4 and paths below (k/2)^2.
///
/// # Errors
/// The first flow that does not fit, as one line of text.
pub fn check_fat_tree(list: &[BulkFlow], k: u32) -> Result<(), String> {
    if k < 2 || k % 2 == 1 || k > 64 {
        return Err(format!(
            "found {k}, want an even number of ports from 2 to 64"
        ));
    }
    let (hosts, paths) = (k * k * k / 4, (k / 2) * (k / 2));
    for flow in list {
        let host = flow.src.max(flow.dst);
        if host >= hosts {
            return Err(format!(
                "flow {}: host {host}, but k={k} has hosts 0 to {}",
                flow.id,
                hosts - 1
            ));
        }
        let path = flow.forward_path.max(flow.reverse_path);
        if path >= paths {
            return Err(format!(
                "flow {}: path {path}, but k={k} has paths 0 to {}",
                flow.id,
                paths - 1
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_flow_lists_are_read_and_invalid_ones_refused() {
        let list = parse("# c\n0 0 8 6907 0 1 1\n1 1 9 5 1000 0 3\n").unwrap();
        assert_eq!(
            (list.len(), list[1].reverse_path, list[1].start.as_micros()),
            (2, 3, 1)
        );
        assert_eq!(check_fat_tree(&list, 4), Ok(()));
        assert!(check_fat_tree(&list, 2).unwrap_err().contains("host 8"));
        assert!(check_fat_tree(&list, 3).unwrap_err().contains("even"));
        assert_eq!(parse("\n"), Err(FlowsError::Empty));
        assert!(matches!(
            parse("1 2 3\n"),
            Err(FlowsError::Line { line: 1, .. })
        ));
        assert!(matches!(
            parse("0 1 2 0 0 0 0\n"),
            Err(FlowsError::Flow { line: 1, .. })
        ));
        assert!(matches!(
            parse("0 1 1 9 0 0 0\n"),
            Err(FlowsError::Flow { .. })
        ));
        assert!(matches!(
            parse("0 -1 1 9 0 0 0\n"),
            Err(FlowsError::Line { .. })
        ));
    }
}

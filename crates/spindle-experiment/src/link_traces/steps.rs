//! `steps`: a list of instants, each with a rate and a delay, in the experiment file or in a CSV file.

use std::sync::Arc;

use spindle_fabric::{Steps, Trace, TraceStep};
use spindle_units::{Duration, Instant};

use super::{ReadLinkTrace, Result, TracePlace};
use crate::catalog::Catalog;
use crate::document::{Node, Section, Value};
use crate::units;

/// Prefix of the name of a file.
const FILE: &str = "file:";

/// The first line of a CSV file.
const HEADER: &str = "at,rate,delay";

/// What `steps` can be.
const WANT: &str = "want a list such as [{ at = \"0s\", rate = \"10Mbps\", delay = \"20ms\" }], \"file:PATH\", or \
                    { csv = \"what such a file contains\" }";

/// Why a text is not a list of steps.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
enum CsvError {
    #[error("line 1: found \"{0}\", want the header {HEADER}")]
    Header(String),
    #[error(
        "line {line}: found \"{found}\", want a time, a rate and a delay such as 100ms,12Mbps,30ms"
    )]
    Line { line: usize, found: String },
}

/// Reads lines of `at,rate,delay` with units after a line with these names. Empty lines are skipped.
fn csv(text: &str) -> std::result::Result<Vec<TraceStep>, CsvError> {
    let mut lines = text.lines().zip(1..);
    let header = lines.next().map_or("", |(line, _)| line.trim());
    if header != HEADER {
        return Err(CsvError::Header(header.to_owned()));
    }
    let step = |line: &str| {
        let (at, rest) = line.split_once(',')?;
        let (rate, delay) = rest.split_once(',')?;
        Some(TraceStep {
            at: Instant::ZERO + units::duration(at.trim())?,
            rate: units::rate(rate.trim())?,
            delay: units::duration(delay.trim())?,
        })
    };
    let lines = lines.filter(|(line, _)| !line.trim().is_empty());
    lines
        .map(|(found, line)| {
            step(found).ok_or_else(|| CsvError::Line {
                line,
                found: found.to_owned(),
            })
        })
        .collect()
}

/// One step of a list in the experiment file.
fn inline(s: &Section<'_>) -> Result<TraceStep> {
    let step = TraceStep {
        at: Instant::ZERO + s.need::<Duration>("at")?,
        rate: s.need("rate")?,
        delay: s.need("delay")?,
    };
    s.check()?;
    Ok(step)
}

fn list(s: &Section<'_>, node: &Node, place: &TracePlace<'_>) -> Result<Vec<TraceStep>> {
    match &node.value {
        Value::List(items) => items
            .iter()
            .enumerate()
            .map(|(i, n)| inline(&Section::new(s.path(&format!("steps[{}]", i + 1)), n)?))
            .collect(),
        Value::Text(text) => {
            let Some(name) = text.strip_prefix(FILE) else {
                return Err(s.error("steps", format!("found \"{text}\", {WANT}")));
            };
            let path = place.directory.join(name);
            let text = std::fs::read_to_string(&path)
                .map_err(|e| s.error("steps", format!("cannot read {}: {e}", path.display())))?;
            csv(&text).map_err(|e| s.error("steps", format!("{}: {e}", path.display())))
        }
        Value::Table(_) => {
            let table = Section::new(s.path("steps"), node)?;
            let text: String = table.need("csv")?;
            table.check()?;
            csv(&text).map_err(|e| table.error("csv", e.to_string()))
        }
        _ => Err(s.error("steps", format!("found {}, {WANT}", node.kind()))),
    }
}

fn read(s: &Section<'_>, place: &TracePlace<'_>) -> Result<Trace> {
    let Some(node) = s.node("steps") else {
        return Err(s.error("steps", format!("missing, {WANT}")));
    };
    let steps = list(s, node, place)?;
    let steps = Steps::new(steps, s.get("period")?);
    let steps = steps.map_err(|e| s.error("steps", e.to_string()))?;
    Ok(Trace::new(steps))
}

pub(super) fn register(catalog: &mut Catalog<ReadLinkTrace>) {
    let summary = "a list of instants, each with a rate and a delay";
    catalog.add("steps", summary, Arc::new(read));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_lines_are_times_rates_and_delays_with_units() {
        let steps = csv("at,rate,delay\n0s,10Mbps,20ms\n\n1500ms, 0bps, 25ms\n").unwrap();
        let seen = steps
            .iter()
            .map(|s| (s.at.as_millis(), s.rate.0, s.delay.as_millis()));
        assert!(seen.eq([(0, 10_000_000, 20), (1500, 0, 25)]));
    }

    #[test]
    fn wrong_csv_line_is_reported_with_its_number() {
        let error = csv("at,rate,delay\n0s,10Mbps,20ms\n5,1Mbps,1ms\n").unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("line 3: found \"5,1Mbps,1ms\"")
        );
        assert!(
            csv("0s,1Mbps,1ms")
                .unwrap_err()
                .to_string()
                .contains("header")
        );
    }
}

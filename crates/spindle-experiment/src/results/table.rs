//! Results and verdicts as tables for people.

use std::fmt::Write as _;

use super::comparison::{ColumnSummary, Comparison, PointSummary, TransportSummary, Verdicts};
use crate::metrics::{TooFewFlows, show_us, show_us_interval};

/// Formats a comparison as a table for people. The 95 % interval stands below each value.
pub fn table(comparison: &Comparison) -> String {
    let mut text = String::new();
    if comparison.points.iter().any(|p| p.computed) {
        return computed_table(comparison);
    }
    for point in &comparison.points {
        let set: Vec<String> = point
            .set
            .0
            .iter()
            .map(|(a, v)| format!("{a} {v}"))
            .collect();
        let set = if set.is_empty() {
            String::new()
        } else {
            format!(" ({})", set.join(", "))
        };
        let _ = writeln!(
            text,
            "{}{set}; below each value its 95% interval",
            comparison.scenario
        );
        let names = point.transports.0.iter().map(|(n, _)| n.len());
        let width = names.max().unwrap_or(0).max(9);
        heading(&mut text, point, width);
        for (name, t) in &point.transports.0 {
            transport_rows(&mut text, name, t, width);
        }
        wanted_flows(&mut text, point, width);
        text.push('\n');
    }
    text
}

/// Formats computed points as a table with one line per point and series.
fn computed_table(comparison: &Comparison) -> String {
    let mut text = format!("{}; computed\n", comparison.scenario);
    let rows = comparison.points.iter().flat_map(|point| {
        let set: Vec<String> = point
            .set
            .0
            .iter()
            .map(|(a, v)| format!("{a} {v}"))
            .collect();
        let label = move |name: &str| [&set[..], &[name.to_owned()]].concat().join(", ");
        let transports = point.transports.0.iter();
        transports.map(move |(name, t)| (label(name), &t.columns.0))
    });
    let rows: Vec<(String, &Vec<(String, ColumnSummary)>)> = rows.collect();
    let width = rows.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
    let _ = write!(text, "{:width$}", "");
    for (name, _) in rows.first().map_or(&[][..], |(_, columns)| columns) {
        let _ = write!(text, " {name:>COMPUTED$}");
    }
    for (label, columns) in rows {
        let _ = write!(text, "\n{label:width$}");
        for (_, column) in columns {
            let _ = write!(text, " {:>COMPUTED$}", column.shown);
        }
    }
    text.push_str("\n\n");
    text
}

/// Width of a column of computed points: the length of the longest name, `caps.overhead.whole`.
const COMPUTED: usize = 19;

fn heading(text: &mut String, point: &PointSummary, width: usize) {
    let first = point.transports.0.first();
    let own = first.map_or(&[][..], |(_, t)| &t.columns.0);
    let mut line = format!("{:width$}  {:>7}", "transport", "flows");
    if own.is_empty() {
        let _ = write!(
            line,
            " {:>16} {:>16} {:>16} {:>16} {:>16} {:>14} {:>6} {:>7}",
            "mean", "p50", "p90", "p99", "p99.9", "timeouts", "late", "extra"
        );
    }
    for (name, _) in own {
        let _ = write!(line, " {name:>COLUMN$}");
    }
    let _ = writeln!(text, "{line}");
}

/// Width of a column that an experiment requests: the length of the longest name.
const COLUMN: usize = 25;

/// Writes the rows of one transport if the experiment requests its own columns.
fn own_rows(text: &mut String, name: &str, t: &TransportSummary, width: usize) {
    let mut lines = [
        format!("{name:width$}  {:>7}", t.completed),
        format!("{:width$}  {:>7}", "", ""),
    ];
    for (_, column) in &t.columns.0 {
        let _ = write!(lines[0], " {:>COLUMN$}", column.shown);
        let _ = write!(lines[1], " {:>COLUMN$}", column.shown_ci95);
    }
    for line in lines {
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

/// Writes the rows of one transport. Its name takes `width` columns.
fn transport_rows(text: &mut String, name: &str, t: &TransportSummary, width: usize) {
    match t.columns.is_empty() {
        true => usual_rows(text, name, t, width),
        false => own_rows(text, name, t, width),
    }
    remarks(text, t, width);
}

fn usual_rows(text: &mut String, name: &str, t: &TransportSummary, width: usize) {
    let f = &t.fct_us;
    let tail = |v: Option<f64>| v.map_or_else(|| TooFewFlows::SHOWN.to_owned(), show_us);
    let _ = writeln!(
        text,
        "{name:width$}  {:>7} {:>16} {:>16} {:>16} {:>16} {:>16} {:>13.3}% {:>6} {:>6.1}%",
        t.completed,
        show_us(f.mean),
        show_us(f.p50),
        show_us(f.p90),
        tail(f.p99),
        tail(f.p999),
        t.timeout_fraction * 100.0,
        t.late_timeouts,
        t.extra_load * 100.0,
    );
    let [low, high] = t.timeout_fraction_ci95.map(|v| v * 100.0);
    let tail = |ends: Option<[f64; 2]>| ends.map_or_else(String::new, show_us_interval);
    let _ = writeln!(
        text,
        "{:width$}  {:>7} {:>16} {:>16} {:>16} {:>16} {:>16} {:>14}",
        "",
        "",
        show_us_interval(f.ci95.mean),
        show_us_interval(f.ci95.p50),
        show_us_interval(f.ci95.p90),
        tail(f.ci95.p99),
        tail(f.ci95.p999),
        format!("{low:.3}-{high:.3}%"),
    );
}

/// Writes the numbers of flows that the percentiles need that a table does not show.
fn wanted_flows(text: &mut String, point: &PointSummary, width: usize) {
    let mut wanted: Vec<(&str, u64)> = Vec::new();
    for (_, t) in &point.transports.0 {
        let columns = t.columns.0.iter();
        let columns = columns.filter_map(|(name, c)| Some((name.as_str(), c.too_few?)));
        let usual = t
            .fct_us
            .too_few
            .0
            .iter()
            .map(|(name, few)| (&name[..], *few));
        // The table of the usual columns does not have p95.
        let usual = usual.filter(|(name, _)| t.columns.is_empty() && *name != "p95");
        for (name, few) in columns.chain(usual) {
            if !wanted.iter().any(|(n, _)| *n == name) {
                wanted.push((name, few.want));
            }
        }
    }
    let wanted: Vec<String> = wanted
        .iter()
        .map(|(n, want)| format!("{n} {want}"))
        .collect();
    if !wanted.is_empty() {
        let list = wanted.join(", ").replace("p999", "p99.9");
        let _ = writeln!(text, "{:width$}  flows wanted: {list}", "");
    }
}

/// Writes remarks about unusual results.
fn remarks(text: &mut String, t: &TransportSummary, width: usize) {
    if t.completed < t.flows {
        let open = t.flows - t.completed - t.aborted - t.cut_off;
        let why = match t.given_up {
            0 => String::new(),
            n => format!(" ({n} since nothing got through)"),
        };
        let mut left = vec![
            format!("{} aborted{why}", t.aborted),
            format!("{open} unfinished"),
        ];
        if t.cut_off > 0 {
            left.push(format!("{} under way at the end", t.cut_off));
        }
        let _ = writeln!(text, "{:width$}  {}", "", left.join(", "));
    }
    if t.cold_connections > 0 {
        let connections = match t.cold_connections {
            1 => "1 connection".to_owned(),
            n => format!("{n} connections"),
        };
        let _ = writeln!(
            text,
            "{:width$}  {connections} began cold: not warm when the measurement started",
            ""
        );
    }
    if t.bytes_corrupted > 0 {
        let _ = writeln!(text, "{:width$}  {} bytes corrupted", "", t.bytes_corrupted);
    }
}

/// Formats verdicts as a table for people.
pub fn verdict_table(verdicts: &Verdicts) -> String {
    let mut text = format!(
        "{} (claims and sizes {})\n",
        verdicts.id, verdicts.registered.hash
    );
    for claim in &verdicts.claims {
        let _ = writeln!(
            text,
            "  {:13} {}: {}",
            claim.verdict.word(),
            claim.id,
            claim.text
        );
        let _ = writeln!(text, "  {:13} {}", "", claim.measured);
        if !claim.why.is_empty() {
            let _ = writeln!(text, "  {:13} {}", "", claim.why);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::RunResult;
    use crate::results::comparison::{Ordered, summary};

    /// The rows of 100 times as many flows as `hundreds`.
    fn rows(hundreds: u64) -> String {
        let run = |_| RunResult {
            flows: 50 * hundreds,
            completed: 50 * hundreds,
            fct_ns: (1..=50 * hundreds).map(|i| i * 1000).collect(),
            ..RunResult::default()
        };
        let runs: Vec<RunResult> = (0..2).map(run).collect();
        let point = PointSummary {
            set: Ordered::default(),
            transports: Ordered(vec![("tcp".to_owned(), summary(&runs, &[]))]),
            computed: false,
        };
        let mut text = String::new();
        heading(&mut text, &point, 9);
        transport_rows(&mut text, "tcp", &point.transports.0[0].1, 9);
        wanted_flows(&mut text, &point, 9);
        text
    }

    #[test]
    fn table_shows_a_percentile_only_if_enough_flows_completed() {
        let few = rows(10);
        assert_eq!(few.matches("too few flows").count(), 2, "{few}");
        assert!(few.contains("450.0 us"), "p90 is shown: {few}");
        assert!(
            few.ends_with("flows wanted: p99 5000, p99.9 50000\n"),
            "{few}"
        );
        let more = rows(50);
        assert!(
            more.contains("2.475 ms") && more.ends_with("flows wanted: p99.9 50000\n"),
            "{more}"
        );
        assert!(!rows(500).contains("flows wanted"));
    }

    #[test]
    fn cold_connections_are_reported_in_singular_and_plural() {
        let told = |cold_connections: u64| {
            let run = RunResult {
                cold_connections,
                ..RunResult::default()
            };
            let mut text = String::new();
            remarks(&mut text, &summary(&[run], &[]), 3);
            text
        };
        let why = "began cold: not warm when the measurement started";
        assert_eq!(told(0), "");
        assert_eq!(told(1), format!("     1 connection {why}\n"));
        assert_eq!(told(2), format!("     2 connections {why}\n"));
    }
}

//! The table and the JSON of the testbed: the lab's, with lateness added.

use std::fmt::Write as _;

use serde::Serialize;
use spindle_experiment::Experiment;
use spindle_experiment::metrics::show_us;
use spindle_experiment::results::{Comparison, Ordered, comparison, table};

use crate::model::fabric::LinkReport;
use crate::model::lateness::LatenessSummary;
use crate::run::part::Coded;
use crate::run::{Outcome, Row};

/// The JSON of `testbed`: that of `run`, with the results that only real time has.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The fields of `run`'s JSON.
    #[serde(flatten)]
    pub comparison: Comparison,
    /// Per point, the rows by transport.
    pub testbed: Vec<Ordered<RowReport>>,
}

/// The effects of real time on one row.
#[derive(Clone, Debug, Serialize)]
pub struct RowReport {
    /// How late packets were delivered, microseconds.
    pub lateness_us: LatenessSummary,
    /// How late a thread without real-time priority woke up, microseconds. The hosts' threads have no real-time
    /// priority either. `packets` is the number of wake-ups.
    pub hosts_late_us: LatenessSummary,
    /// False if the testbed fell behind. The row's numbers are then invalid.
    pub valid: bool,
    /// The share of one core that the fabric's thread used.
    pub fabric_load: f64,
    /// Packets that a host's interface did not accept.
    pub refused: u64,
    /// What Spindle's hosts coded. It is left out if they coded nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coded: Option<Coded>,
    /// The links of the row's last run.
    pub links: Vec<LinkReport>,
}

impl From<&Row> for RowReport {
    fn from(row: &Row) -> Self {
        Self {
            lateness_us: row.lateness.summary(),
            hosts_late_us: row.hosts.summary(),
            valid: !row.fell_behind,
            fabric_load: (row.fabric_load * 1e4).round() / 1e4,
            refused: row.refused,
            coded: Some(row.coded).filter(|c| *c != Coded::default()),
            links: row.links.clone(),
        }
    }
}

/// Builds the JSON.
pub fn report(experiment: &Experiment, outcome: &Outcome) -> Report {
    let rows = |rows: &Vec<Row>| {
        let one = |r: &Row| (r.name.to_string(), RowReport::from(r));
        Ordered(rows.iter().map(one).collect())
    };
    Report {
        comparison: comparison(experiment, &outcome.result),
        testbed: outcome.rows.iter().map(rows).collect(),
    }
}

/// Formats the tables for people.
pub fn text(report: &Report) -> String {
    let mut text = table(&report.comparison);
    let names = report
        .testbed
        .iter()
        .flat_map(|p| &p.0)
        .map(|(n, _)| n.len());
    let width = names.max().unwrap_or(0).max(9);
    let _ = writeln!(
        text,
        "{:width$}  {:>10} {:>12} {:>10} {:>10} {:>11} {:>10}",
        "transport", "delivered", "late p50", "p99", "max", "fabric CPU", "hosts p99"
    );
    for (name, row) in report.testbed.iter().flat_map(|p| &p.0) {
        let late = &row.lateness_us;
        let _ = writeln!(
            text,
            "{name:width$}  {:>10} {:>12} {:>10} {:>10} {:>10.1}% {:>10}{}",
            late.packets,
            show_us(late.p50),
            show_us(late.p99),
            show_us(late.max),
            row.fabric_load * 100.0,
            show_us(row.hosts_late_us.p99),
            if row.valid {
                ""
            } else {
                "  INVALID: fell behind"
            },
        );
    }
    text
}

/// Whether every flow completed uncorrupted and no row fell behind.
pub fn all_well(outcome: &Outcome) -> bool {
    let in_time = outcome.rows.iter().flatten().all(|r| !r.fell_behind);
    in_time && spindle_experiment::results::all_well(&outcome.result)
}

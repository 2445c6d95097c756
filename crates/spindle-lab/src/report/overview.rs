//! One table over several experiments: the same transports in different scenarios.

use maud::{Markup, html};
use serde::{Serialize, Serializer};

use super::format::{NONE, Quantity, count};
use super::model::Estimate;
use super::page::{Page, badge};

/// One table over several experiments, each a scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Overview {
    /// The scenarios, in the order they are to be shown.
    pub scenarios: Vec<OverviewScenario>,
}

/// A scenario and what each transport did in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OverviewScenario {
    /// The experiment's id, `overview-loss`.
    pub id: String,
    /// Its title.
    pub title: String,
    /// The transport that [`OverviewRow::p99_over_oracle`] is measured by, if one ran.
    pub oracle: Option<String>,
    /// The transports, in the experiment's order; by their names in any text form.
    #[serde(serialize_with = "by_name")]
    pub transports: Vec<OverviewRow>,
    /// What the scenario is, and who is missing in it and why, each a sentence or two.
    pub notes: Vec<String>,
}

/// What one transport did in one scenario, over all runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OverviewRow {
    /// The transport, `fuso` or `tcp@rps-pq`.
    #[serde(skip)]
    pub transport: String,
    /// Short flows that completed.
    pub flows: u64,
    /// Mean completion time of short flows, microseconds.
    pub mean_us: Option<Estimate>,
    /// Its 99th percentile.
    pub p99_us: Option<Estimate>,
    /// Its 99.9th percentile.
    pub p999_us: Option<Estimate>,
    /// Mean goodput of long flows, bits per second.
    pub long_bps: Option<Estimate>,
    /// Short flows' payload bytes beyond the first copy, own retransmissions excepted, over all of
    /// theirs, 0 to 1.
    pub extra_load: Option<Estimate>,
    /// The 99th percentile over the oracle's in the same runs.
    pub p99_over_oracle: Option<Estimate>,
}

fn by_name<S: Serializer>(rows: &[OverviewRow], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(rows.iter().map(|row| (&row.transport, row)))
}

impl OverviewRow {
    /// What stands above [`Self::cells`].
    pub const COLUMNS: [(&'static str, Quantity); 6] = [
        ("mean", Quantity::Micros),
        ("p99", Quantity::Micros),
        ("p99.9", Quantity::Micros),
        ("long flows", Quantity::BitsPerSecond),
        ("extra", Quantity::Fraction),
        ("p99/oracle", Quantity::Times),
    ];

    /// The values, a column each.
    pub fn cells(&self) -> [Option<Estimate>; 6] {
        [
            self.mean_us,
            self.p99_us,
            self.p999_us,
            self.long_bps,
            self.extra_load,
            self.p99_over_oracle,
        ]
    }
}

const CAPTION: &str = "Completion times of short flows, throughput of long ones, bytes that short \
    flows send twice, and how the 99th percentile compares with the oracle's. Below each value is \
    its 95% interval, resampled over runs: what lies within each other's intervals is not told apart.";

impl Overview {
    /// The table, each scenario's heading leading to its figure below.
    pub(super) fn table(&self, page: &mut Page, href: impl Fn(&str) -> String) -> Markup {
        html! {
            section id="table" {
                h2 { "All in one table" }
                p { (CAPTION) }
                div class="scroll" tabindex="0" role="region" aria-label="all transports" {
                    table {
                        thead {
                            tr {
                                th scope="col" { "transport" }
                                th scope="col" { "flows" }
                                @for (name, _) in OverviewRow::COLUMNS { th scope="col" { (name) } }
                            }
                        }
                        @for s in &self.scenarios {
                            tbody {
                                tr {
                                    th scope="rowgroup" colspan="8" { a href=(href(&s.id)) { (s.title) } }
                                }
                                @for t in &s.transports { (row(page, t)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn row(page: &mut Page, row: &OverviewRow) -> Markup {
    html! {
        tr {
            th scope="row" { (badge(page, &row.transport)) }
            td { (count(row.flows)) }
            @for ((_, quantity), cell) in OverviewRow::COLUMNS.iter().zip(row.cells()) {
                td {
                    @match cell {
                        Some(e) => {
                            (quantity.show(e.value))
                            @if let Some(ci) = e.ci95 { small { (quantity.show_interval(ci)) } }
                        }
                        None => (NONE),
                    }
                }
            }
        }
    }
}

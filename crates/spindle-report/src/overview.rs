//! A joint table over several experiments: the same transports in different scenarios.

use maud::{Markup, html};
use serde::{Serialize, Serializer};

use spindle_experiment::metrics::{Metric, TooFewFlows};

use super::compare::too_few_flows;
use super::format::{NONE, Quantity, count};
use super::model::Estimate;
use super::page::{Page, badge, scrolling};

/// A joint table over several experiments, each of which is a scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Overview {
    /// The scenarios, in display order.
    pub scenarios: Vec<OverviewScenario>,
}

/// A scenario and the results of each transport in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OverviewScenario {
    /// The experiment's id, such as `overview-loss`.
    pub id: String,
    /// Its title.
    pub title: String,
    /// The transport that [`OverviewRow::p90_over_oracle`] compares with, if one ran.
    pub oracle: Option<String>,
    /// The transports, in the experiment's order. Text forms list them by name.
    #[serde(serialize_with = "by_name")]
    pub transports: Vec<OverviewRow>,
    /// Descriptions of the scenario, and which transports are missing in it and why, a sentence or two each.
    pub notes: Vec<String>,
}

/// The results of one transport in one scenario, over all runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OverviewRow {
    /// The transport, `fuso` or `tcp@rps-pq`.
    #[serde(skip)]
    pub transport: String,
    /// Short flows that completed.
    pub flows: u64,
    /// Mean completion time of short flows, microseconds.
    pub mean_us: Option<Estimate>,
    /// 90th percentile of the completion time of short flows, microseconds.
    pub p90_us: Option<Estimate>,
    /// 99th percentile of the completion time of short flows, microseconds. `None` if too few of them completed
    /// ([`Metric::wanted_flows`]).
    pub p99_us: Option<Estimate>,
    /// 99.9th percentile of the completion time of short flows, microseconds. `None` if too few of them
    /// completed.
    pub p999_us: Option<Estimate>,
    /// Mean goodput of long flows, bits per second.
    pub long_bps: Option<Estimate>,
    /// Short flows' payload bytes beyond the first copy, without their subflows' own retransmissions, divided
    /// by all of their payload bytes, 0 to 1.
    pub extra_load: Option<Estimate>,
    /// The 90th percentile divided by the oracle's in the same runs.
    pub p90_over_oracle: Option<Estimate>,
}

fn by_name<S: Serializer>(rows: &[OverviewRow], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(rows.iter().map(|row| (&row.transport, row)))
}

impl OverviewRow {
    /// The headings of [`Self::cells`].
    pub const COLUMNS: [(&'static str, Quantity); 7] = [
        ("mean", Quantity::Micros),
        ("p90", Quantity::Micros),
        ("p99", Quantity::Micros),
        ("p99.9", Quantity::Micros),
        ("long flows", Quantity::BitsPerSecond),
        ("extra", Quantity::Fraction),
        ("p90/oracle", Quantity::Times),
    ];

    /// The values, one per column.
    pub fn cells(&self) -> [Option<Estimate>; 7] {
        [
            self.mean_us,
            self.p90_us,
            self.p99_us,
            self.p999_us,
            self.long_bps,
            self.extra_load,
            self.p90_over_oracle,
        ]
    }

    /// The reason why a column of [`Self::COLUMNS`] has no value, if it is a percentile of too few flows.
    pub fn too_few(&self, column: &str) -> Option<TooFewFlows> {
        let share = match column {
            "p99" => 0.99,
            "p99.9" => 0.999,
            _ => return None,
        };
        Metric::FctPercentile(share).check_flows(self.flows).err()
    }
}

const CAPTION: &str = "Completion times of short flows, throughput of long ones, bytes that short \
    flows send twice, and how the 90th percentile compares with the oracle's. Below each value is \
    its 95% interval, resampled over runs: what lies within each other's intervals is not told apart.";

impl Overview {
    /// The table. Each scenario's heading links to its figure below.
    pub(super) fn table(&self, page: &mut Page, href: impl Fn(&str) -> String) -> Markup {
        html! {
            section id="table" {
                h2 { "All in one table" }
                p { (CAPTION) }
                (scrolling("all transports", html! {
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
                                    th scope="rowgroup" colspan="9" { a href=(href(&s.id)) { (s.title) } }
                                }
                                @for t in &s.transports { (row(page, t)) }
                            }
                        }
                    }
                }))
            }
        }
    }
}

fn row(page: &mut Page, row: &OverviewRow) -> Markup {
    html! {
        tr {
            th scope="row" { (badge(page, &row.transport)) }
            td { (count(row.flows)) }
            @for ((name, quantity), cell) in OverviewRow::COLUMNS.iter().zip(row.cells()) {
                td {
                    @match cell {
                        Some(e) => {
                            (quantity.show(e.value))
                            @if let Some(ci) = e.ci95 { small { (quantity.show_interval(ci)) } }
                        }
                        None => @match row.too_few(name) {
                            Some(few) => (too_few_flows(few)),
                            None => (NONE),
                        },
                    }
                }
            }
        }
    }
}

//! The arena: how transports compare in several networks, and what each costs there.

use maud::{Markup, html};
use serde::{Deserialize, Serialize};

use spindle_experiment::metrics::{Metric, TooFewFlows};

use super::compare::too_few_flows;
use super::format::{NONE, Quantity, count};
use super::model::Estimate;
use super::page::{Page, badge, scrolling};

/// The results of all networks of the arena.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Arena {
    /// The networks, in display order.
    pub networks: Vec<ArenaNetwork>,
}

/// A network at one point of its sweep, and the results of each transport in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ArenaNetwork {
    /// The experiment's id, such as `arena-random-loss`.
    pub id: String,
    /// Its title.
    pub title: String,
    /// The point: axes and values, such as `loss.rate 2%`. Empty if there is one point only.
    pub set: String,
    /// The first seed and the number of seeds.
    pub seeds: (u64, u64),
    /// What the [tail](ArenaRow::tail_us) is: `p99`, or `p90` if too few flows completed under one of the transports
    /// ([`Metric::wanted_flows`]), or `longest` if the experiment is about single events and has the column `fct.max`.
    pub tail: String,
    /// The transports, in the experiment's order.
    pub transports: Vec<ArenaRow>,
    /// Remarks on the network, a sentence or two each.
    pub notes: Vec<String>,
}

/// The results of one transport in one network, over all runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ArenaRow {
    /// The transport, such as `fuso` or `tcp@rps-pq`.
    pub transport: String,
    /// Flows that completed.
    pub flows: u64,
    /// The share of flows that completed, 0 to 1. Others were given up, and no percentile covers them.
    pub completed: f64,
    /// Mean completion time, microseconds.
    pub mean_us: Option<Estimate>,
    /// 90th percentile of the completion time, microseconds.
    pub p90_us: Option<Estimate>,
    /// 99th percentile of the completion time, microseconds. `None` if too few flows completed.
    pub p99_us: Option<Estimate>,
    /// The completion time by which transports are ranked ([`ArenaNetwork::tail`]), microseconds.
    pub tail_us: Option<Estimate>,
    /// The tail over the lowest tail of all transports, in the same runs.
    pub over_best: Option<Estimate>,
    /// Payload bytes beyond the first copy, without the subflows' own retransmissions, over all payload bytes, 0 to 1.
    pub extra_load: Option<Estimate>,
    /// Mean goodput of long flows, bits per second.
    pub long_bps: Option<Estimate>,
    /// 90th percentile of the completion time of bystanders, microseconds.
    pub bystanders_us: Option<Estimate>,
    /// Mean time that a packet of a short flow waits in queues, microseconds.
    pub queueing_us: Option<Estimate>,
}

impl ArenaRow {
    /// The headings of [`Self::cells`].
    pub const COLUMNS: [(&'static str, Quantity); 8] = [
        ("mean", Quantity::Micros),
        ("p90", Quantity::Micros),
        ("p99", Quantity::Micros),
        ("over best", Quantity::Times),
        ("extra", Quantity::Fraction),
        ("long flows", Quantity::BitsPerSecond),
        ("bystanders", Quantity::Micros),
        ("queueing", Quantity::Micros),
    ];

    /// The values, one per column.
    pub fn cells(&self) -> [Option<Estimate>; 8] {
        [
            self.mean_us,
            self.p90_us,
            self.p99_us,
            self.over_best,
            self.extra_load,
            self.long_bps,
            self.bystanders_us,
            self.queueing_us,
        ]
    }

    /// The reason why a column of [`Self::COLUMNS`] has no value, if it is a percentile of too few flows.
    pub fn too_few(&self, column: &str) -> Option<TooFewFlows> {
        match column {
            "p99" => Metric::FctPercentile(0.99).check_flows(self.flows).err(),
            _ => None,
        }
    }
}

impl ArenaNetwork {
    /// The title with the point.
    pub fn heading(&self) -> String {
        match self.set.as_str() {
            "" => self.title.clone(),
            set => format!("{}: {set}", self.title),
        }
    }
}

const CAPTION: &str = "Completion times of short flows; the tail (p99, p90 where some transport has too few \
    flows, or the longest) over the lowest of all transports in the same runs; and the price: bytes that short flows send twice, the \
    goodput of long flows, the 90th percentile of bystanders, who have plain TCP, and how long short flows' packets \
    wait in queues. Below each value is its 95% interval: what lies within each other's intervals is not told apart.";

impl Arena {
    /// The table. Each network's heading links to its figure below.
    pub(super) fn table(&self, page: &mut Page, href: impl Fn(&str) -> String) -> Markup {
        let columns = ArenaRow::COLUMNS.len() + 2;
        html! {
            section id="table" {
                h2 { "All networks in one table" }
                p { (CAPTION) }
                (scrolling("all transports", html! {
                    table {
                        thead {
                            tr {
                                th scope="col" { "transport" }
                                th scope="col" { "flows" }
                                @for (name, _) in ArenaRow::COLUMNS { th scope="col" { (name) } }
                            }
                        }
                        @for n in &self.networks {
                            tbody {
                                tr {
                                    th scope="rowgroup" colspan=(columns) { a href=(href(&n.id)) { (n.heading()) } }
                                }
                                @for t in &n.transports { (row(page, t)) }
                            }
                        }
                    }
                }))
            }
        }
    }
}

fn row(page: &mut Page, row: &ArenaRow) -> Markup {
    html! {
        tr {
            th scope="row" { (badge(page, &row.transport)) }
            td { (count(row.flows)) }
            @for ((name, quantity), cell) in ArenaRow::COLUMNS.iter().zip(row.cells()) {
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

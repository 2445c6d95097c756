//! The data that a report is made from.

use serde::{Deserialize, Serialize};
use spindle_experiment::Limit;
use spindle_experiment::claims::Outcome;
use spindle_experiment::flow_trace::FlowTrace;
use spindle_experiment::identity::RunIdentity;

use super::arena::Arena;
use super::format::Quantity;

/// A measured value with its 95 % interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The value.
    pub value: f64,
    /// Lower and upper end of the 95 % interval, if one could be computed.
    pub ci95: Option<(f64, f64)>,
}

impl Estimate {
    /// A value without an interval.
    pub const fn exact(value: f64) -> Self {
        Self { value, ci95: None }
    }

    /// A value with its 95 % interval.
    pub const fn new(value: f64, low: f64, high: f64) -> Self {
        Self {
            value,
            ci95: Some((low, high)),
        }
    }

    /// Whether both values have an interval and the two intervals do not overlap.
    pub fn is_apart_from(&self, other: &Self) -> bool {
        match (self.ci95, other.ci95) {
            (Some((a, b)), Some((c, d))) => b < c || d < a,
            _ => false,
        }
    }

    /// Whether the interval spans a factor of 2 or more. Such a value is too uncertain to be compared with others.
    pub fn is_wide(&self) -> bool {
        self.ci95
            .is_some_and(|(low, high)| high > low && high >= 2.0 * low)
    }
}

/// The page of `compare` and `run`.
#[derive(Clone, Debug, Default)]
pub struct CompareReport {
    /// The page's title, "T1, 2% loss on path 1".
    pub title: String,
    /// The scenario in words, one paragraph per line.
    pub scenario: String,
    /// The command that made the results.
    pub command: String,
    /// The version of all its runs, and the configurations of its points.
    pub identity: RunIdentity,
    /// The settings to show, name and value.
    pub settings: Vec<(String, String)>,
    /// The points of the sweep. A single point has no settings.
    pub points: Vec<ComparePoint>,
    /// Flows to draw.
    pub flows: Vec<FlowTrace>,
    /// Remarks to the reader, one sentence each.
    pub notes: Vec<String>,
    /// The runs behind the results, for a separate page.
    pub runs: RunList,
}

/// One point of a sweep: all transports under the same settings.
#[derive(Clone, Debug, Default)]
pub struct ComparePoint {
    /// The values that the sweep set here, name and value.
    pub set: Vec<(String, String)>,
    /// The transports, in display order.
    pub transports: Vec<TransportResult>,
}

/// The results of one transport at one point, over all seeds.
#[derive(Clone, Debug, Default)]
pub struct TransportResult {
    /// The transport, `fuso` or `tcp@rps-pq`.
    pub name: String,
    /// Its runs, as an index into [`RunList::groups`].
    pub group: Option<usize>,
    /// Flows started.
    pub flows: u64,
    /// Flows that completed.
    pub completed: u64,
    /// Flows that ended with an error.
    pub aborted: u64,
    /// Completion times of the completed flows in microseconds, in any order.
    pub fct_us: Vec<f64>,
    /// Mean completion time in microseconds.
    pub mean_us: Option<Estimate>,
    /// Median completion time in microseconds.
    pub p50_us: Option<Estimate>,
    /// 90th percentile in microseconds.
    pub p90_us: Option<Estimate>,
    /// 95th percentile in microseconds. Like the next two, `None` if too few flows completed
    /// ([`Metric::wanted_flows`](spindle_experiment::metrics::Metric::wanted_flows)).
    pub p95_us: Option<Estimate>,
    /// 99th percentile in microseconds.
    pub p99_us: Option<Estimate>,
    /// 99.9th percentile in microseconds.
    pub p999_us: Option<Estimate>,
    /// Longest completion time in microseconds.
    pub max_us: Option<f64>,
    /// Share of flows during which a retransmission timer fired, 0 to 1.
    pub timeout_fraction: Option<Estimate>,
    /// Timeouts that a request waited for.
    pub timeouts: u64,
    /// Timeouts after the request was complete.
    pub late_timeouts: u64,
    /// Fast retransmits.
    pub fast_retransmits: u64,
    /// Retransmissions of data that had arrived.
    pub spurious_retransmits: u64,
    /// Payload bytes beyond the first copy, without a subflow's own retransmissions, divided by all payload
    /// bytes sent, 0 to 1.
    pub extra_load: Option<Estimate>,
    /// Mean goodput in bits per second.
    pub goodput_bps: Option<Estimate>,
}

/// The runs behind a page, by point and transport.
#[derive(Clone, Debug, Default)]
pub struct RunList {
    /// Name of the page and of the experiment, such as `fuso-fig4ab`.
    pub id: String,
    /// The file that holds the runs, relative to the report's directory, if one was written.
    pub store: Option<String>,
    /// The runs of a transport at a point.
    pub groups: Vec<RunGroup>,
}

/// The runs of one transport at one point.
#[derive(Clone, Debug, Default)]
pub struct RunGroup {
    /// The values that the sweep set, name and value.
    pub set: Vec<(String, String)>,
    /// The transport.
    pub transport: String,
    /// The identity that each of the runs must have.
    pub identity: RunIdentity,
    /// The 90th percentile over all runs in microseconds.
    pub p90_us: Option<Estimate>,
    /// The 99th percentile over all runs in microseconds. `None` if too few flows completed.
    pub p99_us: Option<Estimate>,
    /// The runs.
    pub rows: Vec<RunRow>,
}

/// One run.
#[derive(Clone, Debug, Default)]
pub struct RunRow {
    /// The run's identity.
    pub identity: RunIdentity,
    /// The run's seed.
    pub seed: u64,
    /// Which part of the seed's flows, from 0.
    pub part: u64,
    /// Flows started.
    pub flows: u64,
    /// Flows that completed.
    pub completed: u64,
    /// Flows during which a retransmission timer fired.
    pub timed_out: u64,
    /// Mean completion time in microseconds.
    pub mean_us: Option<f64>,
    /// Median in microseconds.
    pub p50_us: Option<f64>,
    /// 90th percentile in microseconds.
    pub p90_us: Option<f64>,
    /// Longest completion time in microseconds.
    pub max_us: Option<f64>,
    /// Extra payload bytes divided by all payload bytes, 0 to 1.
    pub extra_load: Option<f64>,
    /// The command that lists the run's slowest flows.
    pub follow: String,
}

/// The pages of `reproduce` for one paper.
#[derive(Clone, Debug, Default)]
pub struct FigureReport {
    /// The pages' title, which is the paper's.
    pub title: String,
    /// An introduction for the first page, one paragraph per line.
    pub introduction: String,
    /// A table over all figures, if each of them is a scenario of a joint table.
    pub arena: Option<Arena>,
    /// The figures, in the paper's order. All must have the same version.
    pub figures: Vec<Figure>,
}

/// One figure or table of a paper.
#[derive(Clone, Debug, Default)]
pub struct Figure {
    /// Its id, such as `fuso-fig4ab`.
    pub id: String,
    /// Its title.
    pub title: String,
    /// The place in the paper.
    pub source: String,
    /// The question that the figure asks.
    pub asks: String,
    /// The command that made our results.
    pub command: String,
    /// The version of all its runs, and the configurations of its points.
    pub identity: RunIdentity,
    /// The parameters, name and value.
    pub parameters: Vec<(String, String)>,
    /// The experiment's file. The report gets a copy of it.
    pub file: Option<String>,
    /// Our pictures.
    pub plots: Vec<LinePlot>,
    /// The paper's claims and the verdicts on them.
    pub claims: Vec<Outcome>,
    /// How far the schemes are from the oracle, if it ran.
    pub oracle: Option<OracleDistance>,
    /// A flow to draw on a separate page.
    pub flow: Option<FlowTrace>,
    /// The command that draws that flow alone.
    pub flow_command: String,
    /// The runs behind the figure, for a separate page.
    pub runs: RunList,
    /// Remarks, one sentence each.
    pub notes: Vec<String>,
}

/// Lines over a swept value.
#[derive(Clone, Debug)]
pub struct LinePlot {
    /// What the plot shows.
    pub title: String,
    /// The swept value.
    pub x: AxisSpec,
    /// The measured value.
    pub y: AxisSpec,
    /// The lines.
    pub series: Vec<LineSeries>,
}

/// An axis of a [`LinePlot`].
#[derive(Clone, Debug)]
pub struct AxisSpec {
    /// Its name, without the unit.
    pub name: String,
    /// The quantity that it measures.
    pub quantity: Quantity,
    /// Whether the axis is logarithmic. Values of zero and below are then left out.
    pub log: bool,
    /// Names of the values 0, 1, ... if the values are cases and not numbers.
    pub cases: Vec<String>,
}

impl AxisSpec {
    /// A value of the axis as text.
    pub fn show(&self, value: f64) -> String {
        let case = self.cases.get(value as usize);
        case.map_or_else(|| self.quantity.show(value), Clone::clone)
    }
}

/// One line of a [`LinePlot`].
#[derive(Clone, Debug, Default)]
pub struct LineSeries {
    /// The name of the transport or of the reference.
    pub name: String,
    /// Whether the values are a reference that was not measured: a bound or a formula.
    pub reference: bool,
    /// The name whose colour the line has, if it differs from the line's name: a transport's name, or
    /// `series#0` and so on for lines that differ in something else.
    pub colour: Option<String>,
    /// The points, in any order.
    pub points: Vec<SeriesPoint>,
    /// The numbers that the paper prints for points of this line, in any order.
    pub paper: Vec<PaperNumber>,
}

impl LineSeries {
    /// The name whose colour the line has.
    pub fn colour(&self) -> &str {
        self.colour.as_deref().unwrap_or(&self.name)
    }
}

/// A number that the paper prints for a point of a line.
#[derive(Clone, Debug, PartialEq)]
pub struct PaperNumber {
    /// The swept value.
    pub x: f64,
    /// The printed value.
    pub y: f64,
    /// The side on which the metric stays, if the paper prints a limit.
    pub limit: Option<Limit>,
    /// The place in the paper, such as `Table 7`.
    pub source: String,
    /// How the number was obtained, if the paper does not print it.
    pub read: Option<String>,
}

impl PaperNumber {
    /// The number as text: "116 ms" or "below 2.4 ms".
    pub fn show(&self, quantity: Quantity) -> String {
        let value = quantity.show(self.y);
        match self.limit {
            Some(Limit::Below) => format!("below {value}"),
            Some(Limit::Above) => format!("above {value}"),
            None => value,
        }
    }

    /// The place in the paper, and how the number was obtained if the paper does not print it.
    pub fn origin(&self) -> String {
        match &self.read {
            Some(read) => format!("{}, read {read}", self.source),
            None => self.source.clone(),
        }
    }
}

/// A point of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeriesPoint {
    /// The swept value.
    pub x: f64,
    /// The measured value.
    pub y: Estimate,
    /// The runs from which the value was computed, as an index into the figure's [`RunList::groups`].
    pub group: Option<usize>,
}

/// How far schemes are from the oracle. The oracle learns of each loss at once and its repairs are never lost.
/// Control, scheduler and paths are the same.
#[derive(Clone, Debug, Default)]
pub struct OracleDistance {
    /// The oracle's name.
    pub oracle: String,
    /// Values divided by the oracle's. A value of 1 equals the oracle.
    pub plots: Vec<LinePlot>,
    /// Schemes whose interval lies wholly below the oracle's value at some point.
    pub beaten: Vec<Beaten>,
}

/// A scheme that beats the oracle somewhere.
#[derive(Clone, Debug)]
pub struct Beaten {
    /// The scheme.
    pub transport: String,
    /// The points and metrics at which it beats the oracle, with the ratio and its interval: "loss 4%: p99 FCT
    /// 0.93 times [0.90 to 0.96]".
    pub at: Vec<String>,
    /// The advantages that it has over the oracle. Empty if control, scheduler and paths are the same.
    pub by: Vec<String>,
}

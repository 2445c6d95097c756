//! What a run measured, and the metrics computed from it (mechanisms B0).

mod few_flows;
mod spec;
mod table;

use serde::{Deserialize, Serialize};

use crate::catalog::Catalog;
use crate::stats::Interval;

pub use few_flows::TooFewFlows;
pub(crate) use spec::built_in;
pub(crate) use spec::ratio;
pub use spec::{Form, MetricSpec, Unit};
pub use table::SPECS;

pub use crate::formula::Computed;
pub use crate::observed::{
    BystandersOfRun, CodingOfFlows, DeadlinesOfFlows, GoodputOfGroup, LinksOfGroup, Observations,
    ObservedMetric, PacketsOfClass, PacketsOfFlows, PathsOfFlows, RecoveryOfFlows,
    SPARE_WINDOWS_MS, TimersOfFlows, UnitsOfFlows, WaitsOfClass, WindowsOfClass, WindowsOfFlows,
};

/// A cable that was drawn to be lossy in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LossyCable {
    /// The cable's name.
    pub cable: String,
    /// The cable's group, which indicates its place in the network.
    pub group: String,
    /// The cable's loss rate, 0 to 1.
    pub rate: f64,
}

/// What one run (one transport, one point, one seed and part) measured. Everything that is ever printed is
/// computed from these values, so a stored run can replace a new one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// Flows started.
    pub flows: u64,
    /// Flows whose last byte arrived.
    pub completed: u64,
    /// Flows whose connection ended with an error. Flows that neither completed nor aborted were unfinished at
    /// the time limit.
    pub aborted: u64,
    /// Of the aborted flows, those whose connections were all given up because nothing arrived from the other
    /// end for as long as hosts try. Their SYNs and the answers to them, or all later packets, were lost.
    #[serde(default, skip_serializing_if = "none")]
    pub given_up: u64,
    /// Completion times of the completed flows in nanoseconds, in the order in which the flows were issued.
    pub fct_ns: Vec<u64>,
    /// Flows during which a retransmission timer fired on any subflow of either end.
    pub flows_with_timeout: u64,
    /// Retransmission timers that fired between issue and completion of a flow.
    pub timeouts: u64,
    /// Retransmission timers that fired at other times, when no flow was waiting for them.
    pub late_timeouts: u64,
    /// Entries into loss recovery without a timer.
    pub fast_retransmits: u64,
    /// Retransmissions that proved unnecessary (D-SACK, F-RTO).
    pub spurious_retransmits: u64,
    /// Payload bytes sent in total.
    pub payload_bytes: u64,
    /// Of these, bytes beyond the first copy that are not a subflow's own retransmissions: recovery copies,
    /// duplicates, probes, second connections.
    pub extra_bytes: u64,
    /// Sum over completed flows of size divided by completion time, bits per second.
    pub goodput_sum_bps: f64,
    /// Response bytes handed to the application.
    pub bytes_delivered: u64,
    /// Of these, bytes that differ from what was sent.
    pub bytes_corrupted: u64,
    /// Sum over flows of the extra share of their payload bytes: [`Self::extra_bytes`] over
    /// [`Self::payload_bytes`], computed for each flow separately (FUSO section 5.2.2).
    #[serde(default)]
    pub flow_extra_sum: f64,
    /// How many flows that sum covers. Flows that shared a connection at the same time count as one.
    #[serde(default)]
    pub flow_extra_count: u64,
    /// Background flows. The fields above do not count them.
    #[serde(flatten)]
    pub background: BackgroundFlows,
    /// Flows in progress when the run reached its configured end.
    #[serde(default, skip_serializing_if = "none")]
    pub cut_off: u64,
    /// What the experiment requested to observe, except [`Self::recovery`] and [`Self::sizes`], which have
    /// another place in the JSON.
    #[serde(flatten)]
    pub observed: Observations,
    /// Cables that were drawn to be lossy.
    #[serde(default)]
    pub lossy: Vec<LossyCable>,
    /// What proactive recovery did for each flow, if it was observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<RecoveryOfFlows>,
    /// The flows' sizes in bytes, if they were observed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<u64>,
    /// The results of the formulas, if the point was computed and not run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub computed: Vec<(Computed, f64)>,
    /// Persistent connections that were not warmed up within the time limit for it. Their flows began with an
    /// initial window.
    #[serde(default, skip_serializing_if = "none")]
    pub cold_connections: u64,
    /// Events the engine executed.
    pub events: u64,
    /// Packets that finished a link.
    pub packet_hops: u64,
    /// Virtual time, nanoseconds.
    pub sim_ns: u64,
}

/// The background flows of a run. In the JSON, these are fields of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BackgroundFlows {
    /// Flows started.
    #[serde(default, rename = "background_flows")]
    pub flows: u64,
    /// Flows whose last byte arrived.
    #[serde(default, rename = "background_completed")]
    pub completed: u64,
    /// Flows whose connection ended with an error.
    #[serde(default, rename = "background_aborted")]
    pub aborted: u64,
    /// Sum over completed flows of size divided by completion time, bits per second.
    #[serde(default, rename = "background_goodput_sum_bps")]
    pub goodput_sum_bps: f64,
    /// Sum of the squares of these goodputs.
    #[serde(
        default,
        rename = "background_goodput_squares",
        skip_serializing_if = "zero"
    )]
    pub goodput_squares: f64,
}

fn none(n: &u64) -> bool {
    *n == 0
}

fn zero(v: &f64) -> bool {
    *v == 0.0
}

/// A number computed from the runs of one transport at one point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Metric {
    /// Mean completion time, microseconds.
    FctMean,
    /// Standard deviation of the completion time over flows, microseconds.
    FctDeviation,
    /// A percentile of the completion time (0 to 1), nearest rank, microseconds.
    FctPercentile(f64),
    /// The longest completion time, microseconds.
    FctMax,
    /// Flows with a timeout divided by all flows.
    TimeoutFraction,
    /// Extra payload bytes divided by all payload bytes.
    ExtraLoad,
    /// Mean goodput of flows, bits per second.
    Goodput,
    /// Mean goodput of all flows, including the background's, bits per second.
    GoodputAll,
    /// Mean goodput of background flows, bits per second.
    GoodputBackground,
    /// Standard deviation of the goodput over completed background flows, bits per second.
    GoodputBackgroundDeviation,
    /// An entry of [`SPECS`], or a metric that another crate added.
    Spec(&'static MetricSpec),
    /// A metric with parameters, of data that runs have only if the experiment requests it.
    Observed(ObservedMetric),
}

impl Metric {
    /// The names accepted by [`Self::parse`], in addition to those of [`ObservedMetric`].
    pub const NAMES: [&'static str; 17] = [
        "fct.mean",
        "fct.stdev",
        "fct.p10",
        "fct.p25",
        "fct.p50",
        "fct.p75",
        "fct.p90",
        "fct.p95",
        "fct.p99",
        "fct.p999",
        "fct.max",
        "timeout_fraction",
        "extra_load",
        "goodput",
        "goodput.all",
        "goodput.background",
        "goodput.background.stdev",
    ];

    /// Returns the metric with that name.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "fct.mean" => Self::FctMean,
            "fct.stdev" => Self::FctDeviation,
            "fct.p10" => Self::FctPercentile(0.1),
            "fct.p25" => Self::FctPercentile(0.25),
            "fct.p50" => Self::FctPercentile(0.5),
            "fct.p75" => Self::FctPercentile(0.75),
            "fct.p90" => Self::FctPercentile(0.9),
            "fct.p95" => Self::FctPercentile(0.95),
            "fct.p99" => Self::FctPercentile(0.99),
            "fct.p999" => Self::FctPercentile(0.999),
            "fct.max" => Self::FctMax,
            "timeout_fraction" => Self::TimeoutFraction,
            "extra_load" => Self::ExtraLoad,
            "goodput" => Self::Goodput,
            "goodput.all" => Self::GoodputAll,
            "goodput.background" => Self::GoodputBackground,
            "goodput.background.stdev" => Self::GoodputBackgroundDeviation,
            name => {
                let ratio = spec::find(name).map(Self::Spec);
                return ratio.or_else(|| ObservedMetric::parse(name).map(Self::Observed));
            }
        })
    }

    /// Returns the metric with that name among Spindle's and those of a registry's catalog.
    pub fn parse_with(name: &str, added: &Catalog<&'static MetricSpec>) -> Option<Self> {
        let ratio = added.find(name).map(|e| Self::Spec(*e.item));
        ratio.or_else(|| Self::parse(name))
    }

    /// What must be observed for this metric, by its name in experiment files. `None` if every run has the data.
    pub const fn needs(self) -> Option<&'static str> {
        match self {
            Self::Spec(spec) => spec.needs,
            Self::Observed(o) => Some(o.needs()),
            _ => None,
        }
    }

    /// The names of all metrics of Spindle.
    pub fn all_names() -> impl Iterator<Item = &'static str> + Clone {
        let ratios = SPECS.iter().map(|s| s.name);
        let names = Self::NAMES.into_iter().chain(ratios);
        names.chain(ObservedMetric::names())
    }

    /// The names of all metrics of Spindle, and of those that other crates added to a registry's catalog.
    pub fn all_names_with(
        added: &Catalog<&'static MetricSpec>,
    ) -> impl Iterator<Item = &'static str> + Clone {
        let own = |name: &&str| !SPECS.iter().any(|s| s.name == *name);
        let added: Vec<&'static str> = added.items().map(|s| s.name).filter(own).collect();
        Self::all_names().chain(added)
    }

    /// Returns the metric with that name, together with the name.
    pub fn named(name: &str) -> Option<(&'static str, Self)> {
        let known = Self::all_names().find(|n| *n == name)?;
        Some((known, Self::parse(known)?))
    }

    /// The metric's name in a sentence.
    pub fn title(self) -> String {
        match self {
            Self::FctMean => "mean FCT".to_owned(),
            Self::FctDeviation => "standard deviation of the FCT".to_owned(),
            Self::FctPercentile(q) => format!("p{} FCT", format!("{}", q * 100.0).replace('.', "")),
            Self::FctMax => "longest FCT".to_owned(),
            Self::TimeoutFraction => "flows with a timeout".to_owned(),
            Self::ExtraLoad => "extra load".to_owned(),
            Self::Goodput => "goodput".to_owned(),
            Self::GoodputAll => "goodput of all flows".to_owned(),
            Self::GoodputBackground => "goodput of background flows".to_owned(),
            Self::GoodputBackgroundDeviation => {
                "standard deviation of the goodput of background flows".to_owned()
            }
            Self::Spec(spec) => spec.title.to_owned(),
            Self::Observed(o) => o.title(),
        }
    }

    /// A value as text with its unit.
    pub fn show(self, value: f64) -> String {
        match self {
            Self::FctMean | Self::FctDeviation | Self::FctPercentile(_) | Self::FctMax => {
                show_us(value)
            }
            Self::Spec(spec) => spec.unit.show(value),
            _ if self.is_rate() => format!("{:.4} Mbps", value / 1e6),
            Self::Observed(o) => o.show(value),
            _ => crate::units::percent((value * 1e6).round() / 1e6),
        }
    }

    /// The unit of the metric's values: `us`, `bit/s`, `B`, or `1` for shares and plain numbers.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::FctMean | Self::FctDeviation | Self::FctPercentile(_) | Self::FctMax => "us",
            Self::Spec(spec) => spec.unit.name(),
            _ if self.is_rate() => "bit/s",
            _ if self.is_size() => "B",
            Self::Observed(o) if o.is_time() => "us",
            _ => "1",
        }
    }

    /// Whether the metric is a share, 0 to 1.
    pub const fn is_share(self) -> bool {
        match self {
            Self::TimeoutFraction | Self::ExtraLoad => true,
            Self::Spec(spec) => matches!(spec.unit, Unit::Share | Unit::SmallShare),
            Self::Observed(o) => o.is_share(),
            _ => false,
        }
    }

    /// The part of the interval of `value` that the metric can have: none is below 0, and a share of a whole is not
    /// above 1. A relative distance counts as a share and may have a value above 1.
    pub fn possible(self, interval: Interval, value: f64) -> Interval {
        let bounded = self.is_share() && value <= 1.0;
        interval.within(0.0, if bounded { 1.0 } else { f64::INFINITY })
    }

    /// Whether the metric is computed and not measured.
    pub const fn is_computed(self) -> bool {
        matches!(self, Self::Observed(ObservedMetric::Computed(_)))
    }

    /// Whether the metric is a size in bytes.
    pub const fn is_size(self) -> bool {
        match self {
            Self::Spec(spec) => matches!(spec.unit, Unit::Bytes),
            _ => false,
        }
    }

    /// Whether the metric is a plain number.
    pub const fn is_count(self) -> bool {
        match self {
            Self::Spec(spec) => matches!(spec.unit, Unit::Number),
            Self::Observed(o) => o.is_count(),
            _ => false,
        }
    }

    /// Whether the metric is a rate, bits per second.
    pub const fn is_rate(self) -> bool {
        match self {
            Self::Spec(spec) => matches!(spec.unit, Unit::BitsPerSecond),
            Self::Goodput
            | Self::GoodputAll
            | Self::GoodputBackground
            | Self::GoodputBackgroundDeviation => true,
            _ => false,
        }
    }
}

/// Bytes as a text of four significant digits in B, KB or MB.
pub fn show_bytes(bytes: f64) -> String {
    let (factor, unit) = match bytes {
        v if v < 1e3 => (1.0, "B"),
        v if v < 1e6 => (1e3, "KB"),
        _ => (1e6, "MB"),
    };
    format!("{} {unit}", four_digits(bytes / factor))
}

/// Microseconds as a text of four significant digits in us, ms or s.
pub fn show_us(us: f64) -> String {
    let (factor, unit) = unit_of(us);
    format!("{} {unit}", four_digits(us / factor))
}

/// An interval in microseconds, with the unit that fits its upper end: "1.656-1.918 ms".
pub fn show_us_interval([low, high]: [f64; 2]) -> String {
    let (factor, unit) = unit_of(high);
    format!(
        "{}-{} {unit}",
        four_digits(low / factor),
        four_digits(high / factor)
    )
}

/// The unit that shows a time in microseconds best.
fn unit_of(us: f64) -> (f64, &'static str) {
    match us {
        v if v < 1e3 => (1.0, "us"),
        v if v < 1e6 => (1e3, "ms"),
        _ => (1e6, "s"),
    }
}

fn four_digits(value: f64) -> String {
    let digits = match value {
        v if v >= 100.0 => 1,
        v if v >= 10.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_of_a_share_ends_at_one_and_no_interval_begins_below_zero() {
        let wide = Interval {
            low: -0.1,
            high: 1.3,
        };
        let ends = |name: &str, value| {
            let i = Metric::parse(name).unwrap().possible(wide, value);
            (i.low, i.high)
        };
        assert_eq!(ends("completed", 0.6), (0.0, 1.0));
        assert_eq!(ends("fct.mean", 0.6), (0.0, 1.3));
        assert_eq!(ends("rtt.tracking", 1.2), (0.0, 1.3));
    }

    #[test]
    fn every_name_is_a_metric() {
        for name in Metric::NAMES {
            assert!(Metric::parse(name).is_some(), "{name}");
        }
        assert_eq!(Metric::FctPercentile(0.99).title(), "p99 FCT");
        assert_eq!(Metric::FctPercentile(0.999).title(), "p999 FCT");
    }

    #[test]
    fn every_metric_has_its_unit() {
        let unit = |name| Metric::parse(name).unwrap().unit();
        assert_eq!((unit("fct.p99"), unit("coding.delay")), ("us", "us"));
        assert_eq!(
            (unit("goodput.background"), unit("size.p50")),
            ("bit/s", "B")
        );
        assert_eq!((unit("timeout_fraction"), unit("timeouts.max")), ("1", "1"));
    }

    #[test]
    fn values_are_shown_with_four_digits_and_a_fitting_unit() {
        assert_eq!(show_us(2400.0), "2.400 ms");
        assert_eq!(show_us(312.34), "312.3 us");
        assert_eq!(show_us_interval([981.2, 2400.0]), "0.981-2.400 ms");
        assert_eq!(Metric::TimeoutFraction.show(0.00096), "0.096%");
    }

    #[test]
    fn json_of_a_run_with_all_fields_keeps_its_text() {
        let text = [
            r#"{"flows":10,"completed":8,"aborted":1,"given_up":1,"fct_ns":[1000,18446744073709551615],"flows_with_timeout":2,"timeouts":3,"late_timeouts":4,"fast_retransmits":5,"#,
            r#""spurious_retransmits":6,"payload_bytes":7000,"extra_bytes":800,"goodput_sum_bps":0.1,"bytes_delivered":9,"bytes_corrupted":1,"flow_extra_sum":0.25,"flow_extra_count":2,"#,
            r#""background_flows":3,"background_completed":2,"background_aborted":1,"background_goodput_sum_bps":500000000.0,"background_goodput_squares":2.5e+17,"#,
            r#""cut_off":1,"timers":{"timeouts":[1,2],"retransmits":[3]},"links":[{"group":"access","busy_s":0.5,"time_s":2.0,"offered":5,"dropped":1}],"#,
            r#""packets":{"short":{"sent":1,"dropped":0},"others":{"sent":2,"dropped":1}},"paths":{"short":{"packets":3,"queueing_ns":4,"overtaken":1},"long":{"packets":3,"queueing_ns":4,"overtaken":1},"ways":4,"used":2},"goodput":[{"group":"core","bytes":5,"room":6.5}],"#,
            r#""coding":{"units":0,"decoded":1,"segments":2,"encoded":3,"extra":4,"extra_bytes":5,"payload_bytes":6,"received":7,"late":8,"periods":9,"apart":0.3,"blocking":0.7},"units":{"units":0,"at_once":1,"segments":2,"delay_ns":3,"windows":4,"window_ns":5},"#,
            r#""windows":{"short":{"packets":1,"segments":2.5},"long":{"packets":0,"segments":0.0}},"lossy":[{"cable":"P1","group":"paths","rate":0.01}],"recovery":{"first_hits":[1],"packets":2,"useful":1,"spare":[[1,2,3]]},"#,
            r#""sizes":[5,6],"computed":[["delay",1.5]],"cold_connections":1,"events":11,"packet_hops":12,"sim_ns":13}"#,
        ]
        .concat();
        let run: RunResult = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&run).unwrap(), text);
        assert_eq!(run.background.goodput_squares, 2.5e17);
        assert_eq!(run.observed.links[0].group, "access");
    }

    #[test]
    fn json_of_an_empty_run_leaves_out_what_was_not_observed() {
        let run = RunResult::default();
        let text = serde_json::to_string(&run).unwrap();
        assert!(
            text.contains("\"background_flows\":0") && !text.contains("timers"),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<RunResult>(&text).unwrap(), run);
    }
}

//! The page of `compare` and `run`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use maud::{Markup, html};
use spindle_experiment::metrics::{Metric, TooFewFlows};

use super::distinct::distinct;
use super::error::ReportError;
use super::flow::flow_section;
use super::format::{NONE, Quantity, count, micros};
use super::model::{ComparePoint, CompareReport, Estimate, RunList, TransportResult};
use super::page::{Kind, Page, badge, command, paragraphs, provenance, scrolling, settings};
use super::plot::{BarPanel, BarRow, Distribution, bar_panels, ccdf};

/// A column of bars: its title, its unit and the function that returns its value.
type Column = (
    &'static str,
    Quantity,
    fn(&TransportResult) -> Option<Estimate>,
);

impl CompareReport {
    /// Writes `index.html` and its pictures into `directory`, which is created if necessary. Returns the path
    /// of the page.
    ///
    /// # Errors
    /// [`ReportError::MixedVersions`] and [`ReportError::MixedConfigurations`] if a run does not have the
    /// report's identity. [`ReportError::Io`] if a file cannot be written.
    pub fn write(&self, directory: &Path) -> Result<PathBuf, ReportError> {
        self.runs.check("", &self.identity)?;
        let mut page = Page::default();
        let body = self.body(&mut page);
        if !self.runs.groups.is_empty() {
            self.runs
                .write(directory, "../index.html", &self.identity)?;
        }
        page.write(directory, "index.html", &self.title, &body)
    }

    fn body(&self, page: &mut Page) -> Markup {
        html! {
            header {
                h1 { (self.title) }
                (paragraphs(&self.scenario))
                (settings(&self.settings))
                (command(&self.command))
            }
            main {
                @if self.points.len() > 1 {
                    nav aria-label="points" {
                        @for (i, point) in self.points.iter().enumerate() {
                            a href=(format!("#point-{i}")) { (label(point, i)) } " "
                        }
                    }
                }
                @for (i, point) in self.points.iter().enumerate() {
                    (self.point(page, i, point))
                }
                @for trace in &self.flows {
                    section { h2 { "One flow, segment by segment" } (flow_section(page, trace)) }
                }
                @for note in &self.notes { p class="note" { (note) } }
            }
            footer { (provenance(&self.identity)) }
        }
    }

    fn point(&self, page: &mut Page, i: usize, point: &ComparePoint) -> Markup {
        let suffix = if self.points.len() > 1 {
            format!("-{i}")
        } else {
            String::new()
        };
        let looks = distinct(point.transports.iter().map(|t| t.name.as_str()));
        page.repaint(looks.clone());
        let samples: Vec<Distribution<'_>> = point
            .transports
            .iter()
            .map(|t| Distribution {
                name: &t.name,
                colour: &looks[&t.name],
                samples: &t.fct_us,
                marked: [t.p99_us, t.p999_us],
            })
            .collect();
        html! {
            section id=(format!("point-{i}")) {
                @if self.points.len() > 1 { h2 class="point" { (label(point, i)) } }
                @if let Some(line) = headline(&point.transports) { p class="headline" { (line) } }
                h2 { "Completion times" }
                (page.figure(&format!("fct{suffix}"), CCDF_CAPTION, Kind::Plain, |l| {
                    ccdf(l, "distribution of flow completion times", &samples)
                }))
                h2 { "The tail" }
                (page.figure(&format!("tail{suffix}"), TAIL_CAPTION, Kind::Plain, |l| {
                    bar_panels(l, "percentiles of flow completion time", &panels(&TAIL, point, &looks))
                }))
                h2 { "Timeouts and extra load" }
                (page.figure(&format!("timeouts{suffix}"), COST_CAPTION, Kind::Plain, |l| {
                    bar_panels(l, "timeouts and extra load", &panels(&COST, point, &looks))
                }))
                h2 { "The numbers" }
                (table(page, &self.runs, &point.transports))
            }
        }
    }
}

const CCDF_CAPTION: &str = "Both axes are logarithmic: each step down is ten times fewer flows. \
    Marks stand at 1%, at 0.1% and at the slowest flow; whiskers are 95% intervals of the first two, \
    resampled over runs, one above the other for all schemes.";
const TAIL_CAPTION: &str = "Each panel has its own scale from zero. Whiskers are 95% intervals, \
    resampled over runs. Percentiles are nearest rank on all flows. \
    A percentile above the 90th is shown if fifty flows lie beyond it.";
const COST_CAPTION: &str = "A flow counts as timed out if a retransmission timer fired between \
    request and last byte. Extra load is payload sent beyond the first copy, own retransmissions \
    excepted, over all payload sent.";

const TAIL: [Column; 5] = [
    ("Median", Quantity::Micros, |t| t.p50_us),
    ("90th percentile", Quantity::Micros, |t| t.p90_us),
    ("95th percentile", Quantity::Micros, |t| t.p95_us),
    ("99th percentile", Quantity::Micros, |t| t.p99_us),
    ("99.9th percentile", Quantity::Micros, |t| t.p999_us),
];

const COST: [Column; 2] = [
    ("Flows with a timeout", Quantity::Fraction, |t| {
        t.timeout_fraction
    }),
    ("Extra load", Quantity::Fraction, |t| t.extra_load),
];

fn panels(
    columns: &[Column],
    point: &ComparePoint,
    looks: &BTreeMap<String, String>,
) -> Vec<BarPanel> {
    let row = |t: &TransportResult, get: fn(&TransportResult) -> Option<Estimate>| BarRow {
        name: t.name.clone(),
        colour: looks[&t.name].clone(),
        value: get(t),
        href: None,
        paper: Vec::new(),
    };
    columns
        .iter()
        .map(|(title, quantity, get)| BarPanel {
            title: (*title).to_owned(),
            quantity: *quantity,
            rows: point.transports.iter().map(|t| row(t, *get)).collect(),
        })
        .filter(|panel: &BarPanel| panel.rows.iter().any(|r| r.value.is_some()))
        .collect()
}

fn label(point: &ComparePoint, i: usize) -> String {
    if point.set.is_empty() {
        return format!("point {}", i + 1);
    }
    let pairs: Vec<String> = point
        .set
        .iter()
        .map(|(k, v)| format!("{k} = {v}"))
        .collect();
    pairs.join(", ")
}

/// The main result in one sentence: which transport has the shortest 99th percentile, and whether the intervals
/// distinguish it from the next. If too few flows completed under any transport, it is the 90th percentile.
fn headline(transports: &[TransportResult]) -> Option<String> {
    let mut completed = transports.iter().filter(|t| t.completed > 0);
    let (share, of): (u32, fn(&TransportResult) -> Option<Estimate>) =
        match completed.all(|t| t.p99_us.is_some()) {
            true => (99, |t| t.p99_us),
            false => (90, |t| t.p90_us),
        };
    let fine = |t: &'_ &TransportResult| of(t).is_some_and(|e| e.value.is_finite());
    let mut ranked: Vec<&TransportResult> = transports.iter().filter(fine).collect();
    let time = |t: &TransportResult| of(t).unwrap_or_default();
    ranked.sort_by(|a, b| time(a).value.total_cmp(&time(b).value));
    let (first, second) = (ranked.first()?, ranked.get(1)?);
    let last = ranked.last()?;
    let verb = match (time(first).ci95, time(second).ci95) {
        (Some(_), Some(_)) if time(first).is_apart_from(&time(second)) => "has the shortest tail",
        (Some(_), Some(_)) => "has the shortest tail, though its interval meets the next one's",
        _ => "has the shortest tail (no interval: too few runs)",
    };
    let times = time(last).value / time(first).value;
    let factor = if times.is_finite() && times >= 1.05 {
        format!("; {} takes {times:.1} times as long", last.name)
    } else {
        String::new()
    };
    Some(format!(
        "{} {verb}: {share}% of its flows are done within {}{factor}. Next is {} with {}.",
        first.name,
        with_interval(time(first)),
        second.name,
        with_interval(time(second))
    ))
}

/// A time with its interval: "1.36 ms [1.31 ms to 1.42 ms]".
fn with_interval(time: Estimate) -> String {
    let value = micros(time.value);
    match time.ci95 {
        Some(ci) => format!("{value} [{}]", Quantity::Micros.show_interval(ci)),
        None => value,
    }
}

fn table(page: &mut Page, runs: &RunList, transports: &[TransportResult]) -> Markup {
    html! {
        (scrolling("results", html! {
            table {
                thead {
                    tr {
                        th scope="col" { "transport" }
                        @for name in COLUMNS { th scope="col" { (name) } }
                    }
                }
                tbody {
                    @for t in transports {
                        tr {
                            th scope="row" {
                                (badge(page, &t.name))
                                @if let Some(href) = runs.href(t.group) {
                                    " " a href=(href) title="its runs" { small { "runs" } }
                                }
                            }
                            @for cell in cells(t) { (cell) }
                        }
                    }
                }
            }
        }))
    }
}

const COLUMNS: [&str; 16] = [
    "flows",
    "completed",
    "aborted",
    "mean",
    "p50",
    "p90",
    "p95",
    "p99",
    "p99.9",
    "max",
    "timed out",
    "timeouts",
    "late timeouts",
    "fast retr.",
    "extra load",
    "goodput",
];

fn cells(t: &TransportResult) -> Vec<Markup> {
    let time = Quantity::Micros;
    let number = |n: u64| html! { td { (count(n)) } };
    vec![
        number(t.flows),
        number(t.completed),
        number(t.aborted),
        estimate(time, t.mean_us),
        estimate(time, t.p50_us),
        estimate(time, t.p90_us),
        tail(t, 0.95, t.p95_us),
        tail(t, 0.99, t.p99_us),
        tail(t, 0.999, t.p999_us),
        estimate(time, t.max_us.map(Estimate::exact)),
        estimate(Quantity::Fraction, t.timeout_fraction),
        number(t.timeouts),
        number(t.late_timeouts),
        number(t.fast_retransmits),
        estimate(Quantity::Fraction, t.extra_load),
        estimate(Quantity::BitsPerSecond, t.goodput_bps),
    ]
}

/// The cell of the percentile `share` (0 to 1), which has no value if too few flows completed.
fn tail(t: &TransportResult, share: f64, value: Option<Estimate>) -> Markup {
    match (value, Metric::FctPercentile(share).check_flows(t.completed)) {
        (None, Err(few)) => html! { td { (too_few_flows(few)) } },
        _ => estimate(Quantity::Micros, value),
    }
}

/// What a cell shows in place of a percentile of too few flows.
pub(super) fn too_few_flows(few: TooFewFlows) -> Markup {
    html! { (TooFewFlows::SHOWN) small { (few) } }
}

pub(super) fn estimate(quantity: Quantity, value: Option<Estimate>) -> Markup {
    html! {
        td {
            @match value {
                Some(e) => {
                    (quantity.show(e.value))
                    @if let Some(ci) = e.ci95 { small { (quantity.show_interval(ci)) } }
                }
                None => (NONE),
            }
        }
    }
}

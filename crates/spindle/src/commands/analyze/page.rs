//! The result as a page of pictures.

use std::path::{Path, PathBuf};

use spindle_experiment::identity::RunIdentity;
use spindle_report::format::Quantity;
use spindle_report::{AxisSpec, Estimate, Figure, FigureReport, LinePlot, LineSeries, SeriesPoint};

use super::super::command;
use super::caps::{Analysis, OfShare, OfUnit};
use crate::failure::Failure;

/// A picture over k: its title, the quantity, and the value.
type Shown = (&'static str, Quantity, fn(&OfUnit) -> f64);

const PICTURES: [Shown; 5] = [
    ("time of a window, d_w", Quantity::Micros, |u| u.d_w_us),
    ("unit unblocked, p_S", Quantity::Fraction, |u| u.p_s),
    ("redundant packets, r", Quantity::Plain, |u| f64::from(u.r)),
    ("wait for a unit, d_B", Quantity::Micros, |u| u.d_b_us),
    ("overhead, eta", Quantity::Fraction, |u| u.eta),
];

/// Writes `index.html` and its pictures. Returns the page's path.
pub(super) fn write(analysis: &Analysis, directory: &Path) -> Result<PathBuf, Failure> {
    let figure = Figure {
        id: "analyze-caps".to_owned(),
        title: "Coding units of CAPS".to_owned(),
        source: "CAPS section VI, equations 1 to 7".to_owned(),
        command: command(),
        identity: RunIdentity::here(String::new()),
        parameters: parameters(analysis),
        plots: PICTURES.iter().map(|p| picture(analysis, p)).collect(),
        notes: analysis.blocking.iter().map(note).collect(),
        ..Figure::default()
    };
    let report = FigureReport {
        title: "CAPS by its formulas".to_owned(),
        introduction: "What coding costs and gains by the paper's formulas. Nothing was sent."
            .to_owned(),
        figures: vec![figure],
        ..FigureReport::default()
    };
    report
        .write(directory)
        .map_err(|e| Failure::Other(e.to_string()))
}

fn parameters(a: &Analysis) -> Vec<(String, String)> {
    let micros = |v| Quantity::Micros.show(v);
    let units = if a.whole_units { "whole ones" } else { "w/k" };
    [
        ("window", format!("{} packets", a.window)),
        ("rate", Quantity::BitsPerSecond.show(a.rate_bps as f64)),
        ("packet", format!("{} B", a.mss)),
        ("RTT without long flows", micros(a.rtt_short_us)),
        ("RTT with long flows", micros(a.rtt_long_us)),
        ("long flows' packets over short flows'", a.ratio.to_string()),
        ("units of a window", units.to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec()
}

fn note(share: &OfShare) -> String {
    let micros = |v| Quantity::Micros.show(v);
    format!(
        "p_B {}: k = {} is optimal, a window then takes {}; without coding {}.",
        share.shown,
        share.optimal_k,
        micros(share.optimal_d_w_us),
        micros(share.d_wnc_us)
    )
}

fn picture(analysis: &Analysis, (title, quantity, value): &Shown) -> LinePlot {
    let axis = |name: &str, quantity| AxisSpec {
        name: name.to_owned(),
        quantity,
        log: false,
        cases: Vec::new(),
    };
    let point = |u: &OfUnit| SeriesPoint {
        x: f64::from(u.k),
        y: Estimate::exact(value(u)),
        group: None,
    };
    let line = |(i, share): (usize, &OfShare)| LineSeries {
        name: format!("p_B {}", share.shown),
        colour: Some(format!("series#{i}")),
        points: share.units.iter().map(point).collect(),
        ..LineSeries::default()
    };
    LinePlot {
        title: (*title).to_owned(),
        x: axis("packets of a unit, k", Quantity::Plain),
        y: axis(title, *quantity),
        series: analysis.blocking.iter().enumerate().map(line).collect(),
    }
}

//! Pictures of a sweep: which pictures there are, and what their axes show.

use spindle_experiment::{Experiment, Point, Printed, units};

use crate::format::Quantity;
use crate::{AxisSpec, LinePlot, LineSeries, PaperNumber, SeriesPoint};

/// A value to be drawn, computed from the runs of one transport at one point.
pub(super) struct Value {
    /// The name of its line.
    pub(super) name: String,
    /// Whether it is a reference that was not measured.
    pub(super) reference: bool,
    /// The point's number in the sweep.
    pub(super) point: usize,
    /// The value with its interval.
    pub(super) y: crate::Estimate,
    /// The index of the group of its runs.
    pub(super) group: Option<usize>,
    /// Where the number comes from, if the paper prints it and it was not measured.
    pub(super) printed: Option<Printed>,
}

/// Lines over the last axis of the sweep, separately for each of several sweeps. If there are other axes,
/// several transports get one picture for each combination of those axes' values. A single transport gets one
/// line for each combination, in one picture.
pub(super) fn plots(
    experiment: &Experiment,
    title: &str,
    y: &AxisSpec,
    values: &[Value],
) -> Vec<LinePlot> {
    let several = experiment.transports.len() > 1;
    let sweeps = sweeps(experiment);
    let mut list: Vec<LinePlot> = Vec::new();
    for value in values {
        let point = &experiment.points[value.point];
        let Some(points) = sweeps
            .iter()
            .find(|s| s.iter().any(|p| same_axes(p, point)))
        else {
            continue;
        };
        let others = others(points);
        let title = match (sweeps.len(), point.set.last()) {
            (2.., Some((axis, _))) => format!("{title}, over {axis}"),
            _ => title.to_owned(),
        };
        let rest = &point.set[..point.set.len().saturating_sub(1)];
        let (plot, name, colour) = if several && !rest.is_empty() {
            let rest: Vec<String> = rest.iter().map(|(a, v)| format!("{a} {v}")).collect();
            let plot = format!("{title}, {}", rest.join(", "));
            (plot, value.name.clone(), None)
        } else {
            let rest: String = rest.iter().map(|(_, v)| format!(" {v}")).collect();
            let name = format!("{}{rest}", value.name);
            let number = others.iter().position(|o| *o == rest);
            let colour = number.filter(|_| !rest.is_empty());
            (title, name, colour.map(|n| format!("series#{n}")))
        };
        let at = list
            .iter()
            .position(|p| p.title == plot)
            .unwrap_or_else(|| {
                list.push(LinePlot {
                    title: plot,
                    x: swept(points),
                    y: y.clone(),
                    series: Vec::new(),
                });
                list.len() - 1
            });
        let x = place(points, &list[at].x, point, value.point);
        let line = line(&mut list[at].series, name, value.reference);
        line.colour = colour;
        match &value.printed {
            None => line.points.push(SeriesPoint {
                x,
                y: value.y,
                group: value.group,
            }),
            Some(printed) => line.paper.push(PaperNumber {
                x,
                y: value.y.value,
                limit: printed.limit,
                source: printed.source.clone(),
                read: printed.read.clone(),
            }),
        }
    }
    list
}

fn same_axes(a: &Point, b: &Point) -> bool {
    let axes = |p: &Point| {
        p.set
            .iter()
            .map(|(axis, _)| axis.clone())
            .collect::<Vec<_>>()
    };
    axes(a) == axes(b)
}

/// The points of each of the experiment's sweeps. Sweeps are distinguished by their axes.
fn sweeps(experiment: &Experiment) -> Vec<Vec<&Point>> {
    let mut list: Vec<Vec<&Point>> = Vec::new();
    for point in &experiment.points {
        match list.iter_mut().find(|s| same_axes(s[0], point)) {
            Some(sweep) => sweep.push(point),
            None => list.push(vec![point]),
        }
    }
    list
}

/// The settings of all axes but the last, each combination once, in order.
fn others(points: &[&Point]) -> Vec<String> {
    let mut list = Vec::new();
    for point in points {
        let rest = &point.set[..point.set.len().saturating_sub(1)];
        let text: String = rest.iter().map(|(_, v)| format!(" {v}")).collect();
        if !list.contains(&text) {
            list.push(text);
        }
    }
    list
}

/// The line with that name. It is added if it does not exist.
fn line(series: &mut Vec<LineSeries>, name: String, reference: bool) -> &mut LineSeries {
    let at = series.iter().position(|s| s.name == name);
    let at = at.unwrap_or_else(|| {
        series.push(LineSeries {
            name,
            reference,
            ..LineSeries::default()
        });
        series.len() - 1
    });
    &mut series[at]
}

/// The values of the last axis, each once, in order.
fn texts<'a>(points: &[&'a Point]) -> Vec<&'a str> {
    let mut texts: Vec<&str> = Vec::new();
    for (_, value) in points.iter().filter_map(|p| p.set.last()) {
        if !texts.contains(&value.as_str()) {
            texts.push(value);
        }
    }
    texts
}

/// The last axis of the sweep.
fn swept(points: &[&Point]) -> AxisSpec {
    let texts = texts(points);
    let axis = points.first().and_then(|p| p.set.last());
    let axis = axis.map_or_else(String::new, |(axis, _)| axis.clone());
    let numbers = texts.iter().all(|t| units::quantity(t).is_some());
    let all = |f: fn(&str) -> bool| !texts.is_empty() && texts.iter().all(|t| f(t));
    let quantity = match () {
        () if all(|t| t.ends_with('%')) => Quantity::Fraction,
        () if all(|t| units::rate(t).is_some()) => Quantity::BitsPerSecond,
        () if all(|t| t.ends_with('B')) => Quantity::Bytes,
        () if all(|t| units::duration(t).is_some()) => Quantity::Micros,
        () => Quantity::Plain,
    };
    AxisSpec {
        log: numbers && (axis == "loss" || axis == "loss.rate"),
        quantity,
        cases: match numbers {
            true => Vec::new(),
            false => texts.iter().map(|t| (*t).to_owned()).collect(),
        },
        name: axis,
    }
}

fn place(points: &[&Point], axis: &AxisSpec, point: &Point, index: usize) -> f64 {
    let Some((_, text)) = point.set.last() else {
        return index as f64;
    };
    let case = || texts(points).iter().position(|t| t == text);
    let number = axis
        .cases
        .is_empty()
        .then(|| units::quantity(text))
        .flatten();
    number.unwrap_or_else(|| case().unwrap_or(index) as f64)
}

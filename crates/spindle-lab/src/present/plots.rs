//! Pictures of a sweep: which there are, and what stands on their axes.

use crate::experiment::{Experiment, Point, units};
use crate::report::format::Quantity;
use crate::report::{AxisSpec, LinePlot, LineSeries, SeriesPoint};

/// A value to be drawn, computed from the runs of one transport at one point.
pub(super) struct Value {
    /// The line it is on.
    pub(super) name: String,
    /// Whether it was not measured.
    pub(super) reference: bool,
    /// The point's number in the sweep.
    pub(super) point: usize,
    /// Where it stands.
    pub(super) y: crate::report::Estimate,
    /// The group of its runs.
    pub(super) group: Option<usize>,
}

/// Lines over the last axis of the sweep. If there are other axes, several transports get a picture
/// for each of those axes' values; a single one gets lines in one picture.
pub(super) fn plots(
    experiment: &Experiment,
    title: &str,
    y: &AxisSpec,
    values: &[Value],
) -> Vec<LinePlot> {
    let apart = experiment.transports.len() > 1;
    let mut list: Vec<LinePlot> = Vec::new();
    let others = others(experiment);
    for value in values {
        let point = &experiment.points[value.point];
        let rest = &point.set[..point.set.len().saturating_sub(1)];
        let (plot, name, colour) = if apart && !rest.is_empty() {
            let rest: Vec<String> = rest.iter().map(|(a, v)| format!("{a} {v}")).collect();
            let plot = format!("{title}, {}", rest.join(", "));
            (plot, value.name.clone(), None)
        } else {
            let rest: String = rest.iter().map(|(_, v)| format!(" {v}")).collect();
            let name = format!("{}{rest}", value.name);
            let number = others.iter().position(|o| *o == rest);
            let colour = number.filter(|_| !rest.is_empty());
            (
                title.to_owned(),
                name,
                colour.map(|n| format!("series#{n}")),
            )
        };
        let at = list
            .iter()
            .position(|p| p.title == plot)
            .unwrap_or_else(|| {
                list.push(LinePlot {
                    title: plot,
                    x: swept(experiment),
                    y: y.clone(),
                    series: Vec::new(),
                });
                list.len() - 1
            });
        let x = place(experiment, &list[at].x, point, value.point);
        let line = line(&mut list[at].series, name, value.reference);
        line.colour = colour;
        line.points.push(SeriesPoint {
            x,
            y: value.y,
            group: value.group,
        });
    }
    list
}

/// What all axes but the last are set to, each combination once, in order.
fn others(experiment: &Experiment) -> Vec<String> {
    let mut list = Vec::new();
    for point in &experiment.points {
        let rest = &point.set[..point.set.len().saturating_sub(1)];
        let text: String = rest.iter().map(|(_, v)| format!(" {v}")).collect();
        if !list.contains(&text) {
            list.push(text);
        }
    }
    list
}

/// The line of that name, which is begun if need be.
fn line(series: &mut Vec<LineSeries>, name: String, reference: bool) -> &mut LineSeries {
    let at = series.iter().position(|s| s.name == name);
    let at = at.unwrap_or_else(|| {
        series.push(LineSeries {
            name,
            reference,
            colour: None,
            points: Vec::new(),
        });
        series.len() - 1
    });
    &mut series[at]
}

/// The values of the last axis, each once, in their order.
fn texts(experiment: &Experiment) -> Vec<&str> {
    let mut texts: Vec<&str> = Vec::new();
    for (_, value) in experiment.points.iter().filter_map(|p| p.set.last()) {
        if !texts.contains(&value.as_str()) {
            texts.push(value);
        }
    }
    texts
}

/// The last axis of the sweep.
fn swept(experiment: &Experiment) -> AxisSpec {
    let texts = texts(experiment);
    let axis = experiment.points.first().and_then(|p| p.set.last());
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

fn place(experiment: &Experiment, axis: &AxisSpec, point: &Point, index: usize) -> f64 {
    let Some((_, text)) = point.set.last() else {
        return index as f64;
    };
    let case = || texts(experiment).iter().position(|t| t == text);
    let number = axis
        .cases
        .is_empty()
        .then(|| units::quantity(text))
        .flatten();
    number.unwrap_or_else(|| case().unwrap_or(index) as f64)
}

//! Lines over a swept value, one per transport, with 95 % intervals as whiskers.

use super::super::palette::{Look, Marker};
use super::super::{AxisSpec, LinePlot, LineSeries, SeriesPoint};
use super::frame::{Area, Axis, KeyEntry, draw_frame, draw_key, empty_picture};
use super::scale::{Scale, round_up};
use super::svg::number;
use super::{Layout, Picture};

/// The plot of a figure.
pub(crate) fn line_plot(layout: Layout, plot: &LinePlot) -> Picture {
    let points = || {
        plot.series
            .iter()
            .flat_map(|s| &s.points)
            .filter(|q| shown(plot, q))
    };
    if points().next().is_none() {
        return empty_picture(layout, &plot.title);
    }
    let mut p = Picture::new(layout.width(), 0.0, &plot.title);
    let keys: Vec<KeyEntry> = plot
        .series
        .iter()
        .map(|s| KeyEntry {
            name: s.name.clone(),
            look: series_look(&mut p, s),
            marked: !s.reference,
        })
        .collect();
    let top = draw_key(&mut p, layout, 4.0, &keys) + 30.0;
    let area = Area {
        left: 64.0,
        right: layout.width() - layout.pick(24.0, 18.0),
        top,
        bottom: top + layout.pick(330.0, 280.0),
    };
    let x = axis(
        &plot.x,
        points().map(|q| q.x),
        (area.left + 10.0, area.right - 10.0),
        false,
    );
    let heights = points().flat_map(|q| {
        let (low, high) = q.y.ci95.unwrap_or((q.y.value, q.y.value));
        [low, q.y.value, high]
    });
    let y = axis(&plot.y, heights, (area.bottom, area.top), true);
    let x = Axis {
        ticks: layout.pick(8.0, 4.0) as usize,
        ..x
    };
    draw_frame(&mut p, area, &x, &y);
    for s in &plot.series {
        draw_series(&mut p, plot, s, &x.scale, &y.scale);
    }
    p.set_height(area.bottom + 50.0);
    p
}

/// Whether a point can be drawn: finite, and positive where an axis is logarithmic.
fn shown(plot: &LinePlot, q: &SeriesPoint) -> bool {
    let fits = |v: f64, axis: &AxisSpec| v.is_finite() && (!axis.log || v > 0.0);
    fits(q.x, &plot.x) && fits(q.y.value, &plot.y)
}

fn axis<'a>(
    spec: &'a AxisSpec,
    values: impl Iterator<Item = f64>,
    span: (f64, f64),
    from_zero: bool,
) -> Axis<'a> {
    let fine = values.filter(|v| v.is_finite() && (!spec.log || *v > 0.0));
    let (low, high) = fine.fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(v), h.max(v)));
    let scale = match (spec.log, from_zero) {
        (true, true) => Scale::log((low * 0.8, high * 1.25), span),
        (true, false) => Scale::log((low, high), span),
        (false, true) if low >= 0.0 => Scale::linear((0.0, round_up(high)), span),
        _ => Scale::linear((low, high), span),
    };
    Axis {
        scale,
        quantity: spec.quantity,
        name: &spec.name,
        ticks: 6,
    }
}

/// A reference line - a bound, a paper's value - is drawn dotted in the page's ink.
fn series_look(p: &mut Picture, s: &LineSeries) -> Look {
    if s.reference {
        let class = "reference".to_owned();
        Look {
            class,
            light: String::new(),
            dark: String::new(),
            dash: "1 4",
            marker: Marker::Ring,
        }
    } else {
        p.look(&s.name)
    }
}

fn draw_series(p: &mut Picture, plot: &LinePlot, s: &LineSeries, x: &Scale, y: &Scale) {
    let look = series_look(p, s);
    let mut points: Vec<&SeriesPoint> = s.points.iter().filter(|q| shown(plot, q)).collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    let mut path = String::new();
    for q in &points {
        let verb = if path.is_empty() { 'M' } else { 'L' };
        path += &format!("{verb}{} {}", number(x.at(q.x)), number(y.at(q.y.value)));
    }
    if points.len() > 1 {
        p.el("path")
            .a("class", &format!("series {}", look.class))
            .a("stroke-dasharray", look.dash)
            .a("d", &path)
            .end();
    }
    for q in points {
        let (at, value) = (x.at(q.x), y.at(q.y.value));
        let mut text = format!(
            "{}: {} at {}",
            s.name,
            plot.y.quantity.show(q.y.value),
            plot.x.quantity.show(q.x)
        );
        if let Some(ci) = q.y.ci95.filter(|(l, h)| l.is_finite() && h.is_finite()) {
            let (low, high) = (y.at(ci.0), y.at(ci.1));
            let class = format!("error {}", look.class);
            p.line(&class, (at, low), (at, high));
            p.line(&class, (at - 4.0, low), (at + 4.0, low));
            p.line(&class, (at - 4.0, high), (at + 4.0, high));
            text += &format!(" (95% interval {})", plot.y.quantity.show_interval(ci));
        }
        if !s.reference || s.points.len() == 1 {
            p.marker(&look, (at, value), 4.5).tip(&text);
        }
    }
}

//! Lines over a swept value, one per transport, with 95 % intervals as whiskers.

use spindle_experiment::Limit;

use super::super::palette::{Look, Marker};
use super::super::{AxisSpec, LinePlot, LineSeries, SeriesPoint};
use super::frame::{
    Area, Axis, KeyEntry, KeyMark, draw_frame, draw_key, empty_picture, paper_entry,
};
use super::scale::{Scale, round_up};
use super::svg::{PAPER_RADIUS, number};
use super::{Layout, Picture};

/// The distance between schemes at the same case, in user units.
const DODGE: f64 = 7.0;
/// Where a point of a line is in the picture.
type Place<'a> = dyn Fn((f64, f64)) -> (f64, f64) + 'a;

/// The radius of the mark of a measured value, in user units.
const DOT_RADIUS: f64 = 4.5;

/// The plot of a figure. `link` returns the address of the runs of a point. The points of cases stand side by
/// side, and the points of numbers are joined by lines.
pub(crate) fn line_plot(
    layout: Layout,
    plot: &LinePlot,
    link: &dyn Fn(Option<usize>) -> Option<String>,
) -> Picture {
    let points = || {
        let all = plot.series.iter().flat_map(|s| &s.points);
        all.filter(|q| shown(plot, (q.x, q.y.value)))
    };
    let printed = || {
        let all = plot.series.iter().flat_map(|s| &s.paper);
        all.filter(|p| shown(plot, (p.x, p.y)))
    };
    let swept = || points().map(|q| q.x).chain(printed().map(|p| p.x));
    if swept().next().is_none() {
        return empty_picture(layout, &plot.title);
    }
    let mut p = Picture::new(layout.width(), 0.0, &plot.title);
    let keys = keys(&mut p, plot, printed().next().is_some());
    let top = draw_key(&mut p, layout, 4.0, &keys) + 30.0;
    let area = Area {
        left: 64.0,
        right: layout.width() - layout.pick(24.0, 18.0),
        top,
        bottom: top + layout.pick(330.0, 280.0),
    };
    let cases = !plot.x.cases.is_empty();
    let inset = if cases {
        let room = (area.right - area.left) / plot.x.cases.len() as f64;
        room / 2.0
    } else {
        10.0
    };
    let x = axis(
        &plot.x,
        swept(),
        (area.left + inset, area.right - inset),
        false,
    );
    let heights = points().flat_map(|q| {
        let (low, high) = q.y.ci95.unwrap_or((q.y.value, q.y.value));
        [low, q.y.value, high]
    });
    let heights = heights.chain(printed().map(|p| p.y));
    let y = axis(&plot.y, heights, (area.bottom, area.top), true);
    let x = Axis {
        ticks: layout.pick(8.0, 4.0) as usize,
        values: few(swept()),
        ..x
    };
    draw_frame(&mut p, area, &x, &y);
    let middle = (plot.series.len() as f64 - 1.0) / 2.0;
    let place = |i: usize, (px, py): (f64, f64)| {
        let aside = if cases {
            (i as f64 - middle) * dodge(layout, plot)
        } else {
            0.0
        };
        (x.scale.at(px) + aside, y.scale.at(py))
    };
    let marks = printed_marks(plot, &place);
    for mark in &marks {
        let look = series_look(&mut p, mark.series);
        p.paper_marker(&look, mark.limit, mark.at).tip(&mark.text);
    }
    for (i, s) in plot.series.iter().enumerate() {
        draw_series(
            &mut p,
            plot,
            s,
            (&|at| place(i, at), &y.scale),
            &marks,
            link,
        );
    }
    p.set_height(area.bottom + 50.0);
    p
}

/// The entries of the key: one for each line, and one for the paper if it prints numbers.
fn keys(p: &mut Picture, plot: &LinePlot, paper: bool) -> Vec<KeyEntry> {
    let line = |s: &LineSeries| KeyEntry {
        name: s.name.clone(),
        look: series_look(p, s),
        mark: match s.reference {
            true => KeyMark::Line,
            false => KeyMark::Measured,
        },
    };
    let lines = plot.series.iter().map(line);
    lines.chain(paper.then(paper_entry)).collect()
}

/// The swept values, if there are so few that the axis can name each. Otherwise the list is empty.
fn few(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut list: Vec<f64> = values.collect();
    list.sort_by(f64::total_cmp);
    list.dedup();
    if list.len() > 10 {
        list.clear();
    }
    list
}

/// The distance between schemes at a case, chosen so that all have room.
fn dodge(layout: Layout, plot: &LinePlot) -> f64 {
    let room = (layout.width() - 90.0) / plot.x.cases.len().max(1) as f64;
    DODGE.min(room * 0.8 / plot.series.len().max(1) as f64)
}

/// Whether a point can be drawn. It must be finite, and positive on a logarithmic axis.
fn shown(plot: &LinePlot, (x, y): (f64, f64)) -> bool {
    let fits = |v: f64, axis: &AxisSpec| v.is_finite() && (!axis.log || v > 0.0);
    fits(x, &plot.x) && fits(y, &plot.y)
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
        spec,
        ticks: 6,
        values: Vec::new(),
    }
}

/// A reference line, such as a bound or a paper's value, is dotted. It has the page's text colour unless a
/// colour is given.
fn series_look(p: &mut Picture, s: &LineSeries) -> Look {
    let named = s.colour();
    if !s.reference {
        return p.look(named);
    }
    let class = match &s.colour {
        Some(_) => p.look(named).class,
        None => "reference".to_owned(),
    };
    Look {
        class,
        light: String::new(),
        dark: String::new(),
        dash: "1 4",
        marker: Marker::Ring,
    }
}

/// The mark of a number that the paper prints.
struct PrintedMark<'a> {
    series: &'a LineSeries,
    limit: Option<Limit>,
    at: (f64, f64),
    text: String,
}

impl PrintedMark<'_> {
    /// Whether the mark of a measured value covers a part of this one.
    fn is_under(&self, (x, y): (f64, f64)) -> bool {
        (self.at.0 - x).hypot(self.at.1 - y) < PAPER_RADIUS + DOT_RADIUS
    }
}

/// The marks of all lines' printed numbers. `place` returns where a point of a line is.
fn printed_marks<'a>(
    plot: &'a LinePlot,
    place: &dyn Fn(usize, (f64, f64)) -> (f64, f64),
) -> Vec<PrintedMark<'a>> {
    let mut marks = Vec::new();
    for (i, s) in plot.series.iter().enumerate() {
        for number in s.paper.iter().filter(|n| shown(plot, (n.x, n.y))) {
            marks.push(PrintedMark {
                series: s,
                limit: number.limit,
                at: place(i, (number.x, number.y)),
                text: format!(
                    "paper, {}: {} at {} ({})",
                    s.name,
                    number.show(plot.y.quantity),
                    plot.x.show(number.x),
                    number.origin()
                ),
            });
        }
    }
    marks
}

fn draw_series(
    p: &mut Picture,
    plot: &LinePlot,
    s: &LineSeries,
    (at, y): (&Place<'_>, &Scale),
    marks: &[PrintedMark<'_>],
    link: &dyn Fn(Option<usize>) -> Option<String>,
) {
    let look = series_look(p, s);
    let mut points: Vec<&SeriesPoint> = s
        .points
        .iter()
        .filter(|q| shown(plot, (q.x, q.y.value)))
        .collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    let mut path = String::new();
    for q in &points {
        let verb = if path.is_empty() { 'M' } else { 'L' };
        let (px, py) = at((q.x, q.y.value));
        path += &format!("{verb}{} {}", number(px), number(py));
    }
    if points.len() > 1 && plot.x.cases.is_empty() {
        p.el("path")
            .a("class", &format!("series {}", look.class))
            .a("stroke-dasharray", look.dash)
            .a("d", &path)
            .end();
    }
    for q in points {
        let (x, value) = at((q.x, q.y.value));
        let mut text = format!(
            "{}: {} at {}",
            s.name,
            plot.y.quantity.show(q.y.value),
            plot.x.show(q.x)
        );
        if let Some(ci) = q.y.ci95.filter(|(l, h)| l.is_finite() && h.is_finite()) {
            let (low, high) = (y.at(ci.0), y.at(ci.1));
            let class = format!("error {}", look.class);
            p.line(&class, (x, low), (x, high));
            p.line(&class, (x - 4.0, low), (x + 4.0, low));
            p.line(&class, (x - 4.0, high), (x + 4.0, high));
            text += &format!(" (95% interval {})", plot.y.quantity.show_interval(ci));
        }
        if !s.reference || s.points.len() == 1 {
            for mark in marks.iter().filter(|m| m.is_under((x, value))) {
                text += &format!("; {}", mark.text);
            }
            let href = link(q.group);
            p.open_link(href.as_deref());
            p.marker(&look, (x, value), DOT_RADIUS).tip(&text);
            p.close_link(href.as_deref());
        }
    }
}

//! A plot on the page of a figure: its picture with each kind of vertical axis, its files and its table of values.

use std::fmt::Write as _;

use maud::{Markup, html};
use spindle_experiment::Limit;

use crate::distinct::distinct;
use crate::format::NONE;
use crate::model::{LinePlot, LineSeries, PaperNumber, RunList, SeriesPoint};
use crate::page::{Attached, Kind, Page, View, badge_of, scrolling};
use crate::plot::{BarPanel, BarRow, Layout, Picture, bar_panels, line_plot};
use crate::runs::CAPTURE;

/// The end of the caption of a picture with numbers that the paper prints.
const PAPER_CAPTION: &str = "Hollow marks are numbers that the paper prints. A triangle points to the side of a \
    printed limit on which the value stays.";

/// Pictures below each other. Pictures of the same metric, which differ in the settings of other axes, stand
/// side by side.
pub(super) fn plots(
    page: &mut Page,
    runs: &RunList,
    stem: &str,
    plots: &[LinePlot],
    caption: &str,
) -> Markup {
    let one_metric = |a: &LinePlot, b: &LinePlot| a.y.name == b.y.name;
    let mut number = 0..;
    let mut draw = |page: &mut Page, plot: &LinePlot, kind: Kind| {
        let stem = format!("{stem}-{}", number.next().unwrap_or(0));
        html! {
            div {
                h3 { (plot.title) }
                (drawn(page, &stem, (caption, kind), runs, plot))
                (values(page, runs, plot))
            }
        }
    };
    html! {
        @for group in plots.chunk_by(one_metric) {
            @if let [plot] = group { (draw(page, plot, Kind::Plain)) } @else {
                div class="multiples" {
                    @for plot in group { (draw(page, plot, Kind::Small)) }
                }
            }
        }
    }
}

/// The picture of a plot with its files. It has both kinds of vertical axis if all values are above zero, and the
/// plot's own kind is shown first.
fn drawn(
    page: &mut Page,
    stem: &str,
    (caption, kind): (&str, Kind),
    runs: &RunList,
    plot: &LinePlot,
) -> Markup {
    let plot = &painted(page, plot);
    let mut other = plot.clone();
    other.y.log = !plot.y.log;
    let name = |log: bool| if log { "logarithmic" } else { "linear" };
    let own = |l: Layout| picture(l, runs, plot);
    let second = |l: Layout| picture(l, runs, &other);
    let mut views = vec![View {
        name: name(plot.y.log),
        draw: &own,
    }];
    let measured = plot
        .series
        .iter()
        .flat_map(|s| &s.points)
        .map(|q| q.y.value);
    let printed = plot.series.iter().flat_map(|s| &s.paper).map(|p| p.y);
    if swept(plot).len() > 1 && measured.chain(printed).all(|y| y > 0.0) {
        views.push(View {
            name: name(other.y.log),
            draw: &second,
        });
    }
    let csv = Attached {
        ending: ".csv",
        text: csv(plot),
        name: "CSV",
    };
    let has_paper = plot.series.iter().any(|s| !s.paper.is_empty());
    let caption = match has_paper {
        true => format!("{caption} {PAPER_CAPTION}"),
        false => caption.to_owned(),
    };
    page.figure_with(stem, (&caption, vec![csv]), kind, &views)
}

/// The plot with the lines' looks on this page.
fn painted(page: &Page, plot: &LinePlot) -> LinePlot {
    let mut plot = plot.clone();
    for s in &mut plot.series {
        let look = page.colour(s.colour());
        if look != s.colour() {
            s.colour = Some(look.to_owned());
        }
    }
    plot
}

/// Gives the lines of a figure's plots looks that differ from each other, the same in every plot.
pub(super) fn paint<'a>(page: &mut Page, plots: impl IntoIterator<Item = &'a LinePlot>) {
    let lines = plots.into_iter().flat_map(|p| &p.series);
    let measured = lines.filter(|s| !s.reference).map(LineSeries::colour);
    page.repaint(distinct(measured));
}

/// The values of a plot as lines of comma-separated fields: the line, the swept value, the value, the ends of its
/// 95 % interval, the number that the paper prints, and whether that number is a limit. All are in the units of the
/// metrics.
fn csv(plot: &LinePlot) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let mut text = format!(
        "series,{},{},low,high,paper,limit\n",
        quoted(&plot.x.name),
        quoted(&plot.y.name)
    );
    for s in &plot.series {
        for x in swept(plot) {
            let measured = s.points.iter().filter(|q| q.x.total_cmp(&x).is_eq());
            let printed: Vec<&PaperNumber> = printed_at(s, x).collect();
            let measured: Vec<&SeriesPoint> = measured.collect();
            let shown = plot.x.cases.get(x as usize);
            let shown = shown.map_or_else(|| x.to_string(), |case| quoted(case));
            for i in 0..measured.len().max(printed.len()) {
                let value = measured.get(i).map(|q| match q.y.ci95 {
                    Some((low, high)) => format!("{},{low},{high}", q.y.value),
                    None => format!("{},,", q.y.value),
                });
                let paper = printed.get(i).map(|p| match p.limit {
                    Some(Limit::Below) => format!("{},below", p.y),
                    Some(Limit::Above) => format!("{},above", p.y),
                    None => format!("{},", p.y),
                });
                let (value, paper) = (
                    value.as_deref().unwrap_or(",,"),
                    paper.as_deref().unwrap_or(","),
                );
                let _ = writeln!(text, "{},{shown},{value},{paper}", quoted(&s.name));
            }
        }
    }
    text
}

/// The numbers that the paper prints for a point of a line.
fn printed_at(s: &LineSeries, x: f64) -> impl Iterator<Item = &PaperNumber> {
    s.paper.iter().filter(move |p| p.x.total_cmp(&x).is_eq())
}

/// Lines over the swept value. If there is only one value, lines would be dots above each other, so bars are
/// drawn.
fn picture(layout: Layout, runs: &RunList, plot: &LinePlot) -> Picture {
    let xs = swept(plot);
    if xs.len() != 1 {
        return line_plot(layout, plot, &|group| runs.href(group));
    }
    let drawn = |s: &&LineSeries| !s.points.is_empty() || !s.paper.is_empty();
    let rows = plot.series.iter().filter(drawn).map(|s| BarRow {
        name: s.name.clone(),
        colour: s.colour().to_owned(),
        value: s.points.first().map(|q| q.y),
        href: s.points.first().and_then(|q| runs.href(q.group)),
        paper: s.paper.clone(),
    });
    let title = match plot.x.name.as_str() {
        "" => plot.y.name.clone(),
        axis => format!("{} at {axis} {}", plot.y.name, plot.x.show(xs[0])),
    };
    let panel = BarPanel {
        title,
        quantity: plot.y.quantity,
        rows: rows.collect(),
    };
    bar_panels(layout, &plot.title, &[panel])
}

/// The values of the swept axis, in ascending order.
fn swept(plot: &LinePlot) -> Vec<f64> {
    let measured = plot.series.iter().flat_map(|s| &s.points).map(|q| q.x);
    let printed = plot.series.iter().flat_map(|s| &s.paper).map(|p| p.x);
    let mut xs: Vec<f64> = measured.chain(printed).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup_by(|a, b| a.total_cmp(b).is_eq());
    xs
}

/// The values behind a picture, collapsed. The page's script adds buttons to each cell that copy the command of the
/// cell's run, and this command with the table's addition for a capture.
fn values(page: &mut Page, runs: &RunList, plot: &LinePlot) -> Markup {
    let xs = swept(plot);
    html! {
        @if !xs.is_empty() {
            details {
                summary { "Values" }
                (scrolling("values", html! {
                    table data-capture=(CAPTURE) {
                        thead {
                            tr {
                                th scope="col" { (plot.x.name) }
                                @for x in &xs { th scope="col" { (plot.x.show(*x)) } }
                            }
                        }
                        tbody {
                            @for s in &plot.series {
                                tr {
                                    th scope="row" {
                                        @if s.reference { (s.name) } @else { (badge_of(page, &s.name, s.colour())) }
                                    }
                                    @for x in &xs { (value_cell(runs, plot, s, *x)) }
                                }
                                @if !s.paper.is_empty() { (paper_row(page, plot, s, &xs)) }
                            }
                        }
                    }
                }))
            }
        }
    }
}

fn value_cell(runs: &RunList, plot: &LinePlot, s: &LineSeries, x: f64) -> Markup {
    let y = plot.y.quantity;
    let point = s.points.iter().find(|q| q.x.total_cmp(&x).is_eq());
    let follow = point.and_then(|q| runs.follow(q.group));
    html! {
        td data-trace=[follow] {
            @match point {
                Some(q) => {
                    @match runs.href(q.group) {
                        Some(href) => a href=(href) { (y.show(q.y.value)) },
                        None => (y.show(q.y.value)),
                    }
                    @if let Some(ci) = q.y.ci95 { small { (y.show_interval(ci)) } }
                }
                None => (NONE),
            }
        }
    }
}

/// The row of a table with the numbers that the paper prints for a line.
fn paper_row(page: &mut Page, plot: &LinePlot, s: &LineSeries, xs: &[f64]) -> Markup {
    let look = page.look(s.colour());
    html! {
        tr class="paper" {
            th scope="row" aria-label=(format!("{}, paper", s.name)) {
                span class=(format!("swatch hollow {}", look.class)) {} "paper"
            }
            @for x in xs {
                td {
                    @if printed_at(s, *x).next().is_none() { (NONE) }
                    @for p in printed_at(s, *x) {
                        span { (p.show(plot.y.quantity)) } small { (p.origin()) }
                    }
                }
            }
        }
    }
}

//! The page of `reproduce`: one per paper, a section per figure.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use maud::{Markup, html};

use spindle_experiment::identity::RunIdentity;

use super::claims::{cards, dots, tally};
use super::error::{ReportError, check_identities};
use super::flow::write_flow;
use super::format::NONE;
use super::model::{Beaten, Figure, FigureReport, LinePlot, LineSeries, OracleDistance, RunList};
use super::page::{
    Attached, Kind, Page, badge, command, file_stem, paragraphs, provenance, settings, write_file,
};
use super::plot::{BarPanel, BarRow, Layout, Picture, bar_panels, line_plot};

/// The directory of the pages of flows, relative to the report's.
const FLOWS: &str = "flows";

impl FigureReport {
    /// Writes `index.html` and its pictures into `directory`, which is created if necessary. Each figure also
    /// gets a page of its runs and a page for the flow that it draws. Returns the path of the page.
    ///
    /// # Errors
    /// [`ReportError::MixedVersions`] if two figures, or a figure and one of its runs, have different versions.
    /// [`ReportError::MixedConfigurations`] if a run does not have its point's configuration.
    /// [`ReportError::Io`] if a file cannot be written.
    pub fn write(&self, directory: &Path) -> Result<PathBuf, ReportError> {
        self.check()?;
        let mut page = Page::default();
        page.broad();
        let body = self.body(&mut page);
        for f in &self.figures {
            if let Some(text) = &f.file {
                write_file(directory, &format!("{}.toml", anchor(f)), text)?;
            }
            let back = format!("../index.html#{}", anchor(f));
            if !f.runs.groups.is_empty() {
                f.runs.write(directory, &back, &f.identity)?;
            }
            if let Some(flow) = &f.flow {
                let name = format!("{}.html", anchor(f));
                let back = (back.as_str(), "\u{2190} back to the figures");
                write_flow(
                    flow,
                    &directory.join(FLOWS),
                    &name,
                    &f.flow_command,
                    Some(back),
                )?;
            }
        }
        page.write(directory, "index.html", &self.title, &body)
    }

    fn check(&self) -> Result<(), ReportError> {
        let Some(first) = self.figures.first() else {
            return Ok(());
        };
        for figure in &self.figures {
            // Figures naturally have different configurations. Only the version must be the same.
            let same = RunIdentity {
                version: first.identity.version.clone(),
                configuration: figure.identity.configuration.clone(),
            };
            let place = format!("figure {}", figure.id);
            check_identities(&same, &place, [&figure.identity])?;
            figure.runs.check(&format!("{place}, "), &figure.identity)?;
        }
        Ok(())
    }

    fn body(&self, page: &mut Page) -> Markup {
        let claims = || self.figures.iter().flat_map(|f| &f.claims);
        html! {
            header {
                h1 { (self.title) }
                (paragraphs(&self.introduction))
                (tally(claims()))
                @if let Some((_, scale)) = self.figures.iter().flat_map(|f| &f.parameters).find(|p| p.0 == SCALE) {
                    p { "Run at the scale " b { (scale) } "; each figure's parameters are below it." }
                }
                nav aria-label="figures" {
                    ul class="contents" {
                        @for f in &self.figures {
                            li {
                                a href=(format!("#{}", anchor(f))) { (heading(f)) }
                                (dots(&f.claims))
                            }
                        }
                    }
                }
            }
            @if let Some(overview) = &self.overview {
                (overview.table(page, |id| format!("#{}", file_stem(id))))
            }
            main { @for f in &self.figures { (section(page, f)) } }
            footer {
                @if let Some(f) = self.figures.first() { p { "Spindle " (f.identity.version) } }
            }
        }
    }
}

fn anchor(f: &Figure) -> String {
    file_stem(&f.id)
}

/// The figure's number in its paper, if it has one, and its title.
fn heading(f: &Figure) -> String {
    let number = f.source.split([',', ';']).map(str::trim);
    match number.into_iter().find(|part| part.starts_with("Fig ")) {
        Some(number) => format!("{number}: {}", f.title),
        None => f.title.clone(),
    }
}

fn section(page: &mut Page, f: &Figure) -> Markup {
    html! {
        section id=(anchor(f)) {
            h2 { (heading(f)) " " code class="id" { (f.id) } }
            @if !f.source.is_empty() { p class="source" { (f.source) } }
            @if !f.asks.is_empty() { p class="asks" { (f.asks) } }
            div class="columns" {
                div {
                    (plots(page, &f.runs, &f.id, &f.plots, caption(f)))
                    @if let Some(oracle) = &f.oracle { (distance(page, f, oracle)) }
                }
                div {
                    (cards(&f.claims))
                    @for note in &f.notes { p class="note" { (note) } }
                }
            }
            p class="more" {
                @if !f.runs.groups.is_empty() { a href=(f.runs.page()) { "All its runs" } }
                @if f.flow.is_some() {
                    a href=(format!("{FLOWS}/{}.html", anchor(f))) { "One flow, segment by segment" }
                }
            }
            details {
                summary { "Parameters and command" }
                (settings(&f.parameters))
                @if f.file.is_some() {
                    p { a href=(format!("{}.toml", anchor(f))) { "The experiment's file" } }
                }
                (command(&f.command))
                (provenance(&f.identity))
            }
        }
    }
}

/// The parameter that states how much was run.
const SCALE: &str = "scale";

const CAPTION: &str = "Whiskers are 95% intervals, resampled over runs. A point leads to its runs.";
const COMPUTED_CAPTION: &str = "Computed by formulas: nothing was sent.";
const ORACLE_CAPTION: &str = "Each scheme's value over the oracle's in the same runs: 1\u{d7} is as \
    good. Whiskers are 95% intervals of the ratio, resampled over paired runs.";

/// The caption below a figure's pictures.
fn caption(f: &Figure) -> &'static str {
    match f.runs.groups.is_empty() {
        true => COMPUTED_CAPTION,
        false => CAPTION,
    }
}

/// Pictures below each other. Pictures of the same metric, which differ in the settings of other axes, stand
/// side by side.
fn plots(page: &mut Page, runs: &RunList, stem: &str, plots: &[LinePlot], caption: &str) -> Markup {
    let one_metric = |a: &LinePlot, b: &LinePlot| a.y.name == b.y.name;
    let mut number = 0..;
    let mut draw = |page: &mut Page, plot: &LinePlot, kind: Kind| {
        let stem = format!("{stem}-{}", number.next().unwrap_or(0));
        html! {
            div {
                h3 { (plot.title) }
                (page.figure_with(&stem, (caption, attached(runs, plot)), kind, |l| picture(l, runs, plot)))
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

/// The files next to a plot: its values, and the picture with the other kind of vertical axis, if all values are above
/// zero.
fn attached(runs: &RunList, plot: &LinePlot) -> Vec<Attached> {
    let mut files = vec![Attached {
        ending: ".csv",
        text: csv(plot),
        name: "CSV",
    }];
    let points = || plot.series.iter().flat_map(|s| &s.points);
    if swept(plot).len() > 1 && points().all(|q| q.y.value > 0.0) {
        let mut other = plot.clone();
        other.y.log = !plot.y.log;
        files.push(Attached {
            ending: if other.y.log {
                "-log.svg"
            } else {
                "-linear.svg"
            },
            text: picture(Layout::ALL[0], runs, &other).standalone(),
            name: if other.y.log {
                "logarithmic axis"
            } else {
                "linear axis"
            },
        });
    }
    files
}

/// The values of a plot as lines of comma-separated fields: the line, the swept value, the value, and the ends of its
/// 95 % interval, in the units of the metrics.
fn csv(plot: &LinePlot) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let mut text = format!(
        "series,{},{},low,high\n",
        quoted(&plot.x.name),
        quoted(&plot.y.name)
    );
    for s in &plot.series {
        for q in &s.points {
            let ends =
                q.y.ci95
                    .map_or_else(|| ",".to_owned(), |(low, high)| format!("{low},{high}"));
            let x = plot
                .x
                .cases
                .get(q.x as usize)
                .map_or_else(|| q.x.to_string(), |case| quoted(case));
            let _ = writeln!(text, "{},{x},{},{ends}", quoted(&s.name), q.y.value);
        }
    }
    text
}

/// Lines over the swept value. If there is only one value, lines would be dots above each other, so bars are
/// drawn.
fn picture(layout: Layout, runs: &RunList, plot: &LinePlot) -> Picture {
    let xs = swept(plot);
    if xs.len() != 1 {
        return line_plot(layout, plot, &|group| runs.href(group));
    }
    let rows = plot.series.iter().filter_map(|s| {
        s.points.first().map(|q| BarRow {
            name: s.name.clone(),
            value: Some(q.y),
            href: runs.href(q.group),
        })
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
    let points = plot.series.iter().flat_map(|s| &s.points);
    let mut xs: Vec<f64> = points.map(|q| q.x).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup_by(|a, b| a.total_cmp(b).is_eq());
    xs
}

/// How far the schemes are from the oracle, which schemes beat it, and with which advantages.
fn distance(page: &mut Page, f: &Figure, oracle: &OracleDistance) -> Markup {
    html! {
        h3 { "Distance from the " (badge(page, &oracle.oracle)) }
        p {
            "The oracle learns of each loss the instant it happens and its repairs are never lost; \
             control, scheduler and paths are those of MPTCP."
        }
        (plots(page, &f.runs, &format!("{}-oracle", f.id), &oracle.plots, ORACLE_CAPTION))
        @if oracle.beaten.is_empty() {
            p { "No scheme beats it beyond its interval." }
        } @else {
            p { "Who beats it beyond the interval, and by what:" }
            div class="scroll" tabindex="0" role="region" aria-label="schemes that beat the oracle" {
                table {
                    thead {
                        tr {
                            th scope="col" { "scheme" }
                            th scope="col" class="text" { "it has" }
                            th scope="col" class="text" { "where" }
                        }
                    }
                    tbody { @for b in &oracle.beaten { (beaten(page, b)) } }
                }
            }
        }
    }
}

fn beaten(page: &mut Page, b: &Beaten) -> Markup {
    html! {
        tr class=[b.by.is_empty().then_some("row-fails")] {
            th scope="row" { (badge(page, &b.transport)) }
            td class="text" {
                @if b.by.is_empty() {
                    "nothing else: the same control, scheduler and paths, so this is not expected"
                } @else { (b.by.join("; ")) }
            }
            td class="text" { (b.at.join("; ")) }
        }
    }
}

/// The values behind a picture, collapsed.
fn values(page: &mut Page, runs: &RunList, plot: &LinePlot) -> Markup {
    let xs = swept(plot);
    html! {
        @if !xs.is_empty() {
            details {
                summary { "Values" }
                div class="scroll" tabindex="0" role="region" aria-label="values" {
                    table {
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
                                        @if s.reference { (s.name) } @else { (badge(page, &s.name)) }
                                    }
                                    @for x in &xs { (value_cell(runs, plot, s, *x)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn value_cell(runs: &RunList, plot: &LinePlot, s: &LineSeries, x: f64) -> Markup {
    let y = plot.y.quantity;
    let point = s.points.iter().find(|q| q.x.total_cmp(&x).is_eq());
    html! {
        td {
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

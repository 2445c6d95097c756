//! The pages of `reproduce`: for each paper a first page, and a page for each figure.

mod plots;

use std::path::{Path, PathBuf};

use maud::{Markup, html};

use spindle_experiment::identity::RunIdentity;

use self::plots::{paint, plots};
use super::claims::{cards, dots, tally};
use super::error::{ReportError, check_identities};
use super::flow::write_flow;
use super::model::{Beaten, Figure, FigureReport, OracleDistance};
use super::page::{
    Page, badge, command, file_stem, paragraphs, provenance, scrolling, settings, write_file,
};

/// The directory of the pages of flows, relative to the report's.
const FLOWS: &str = "flows";

impl FigureReport {
    /// Writes `index.html` and a page for each figure into `directory`, which is created if necessary. Each figure
    /// also gets a page of its runs and a page for the flow that it draws. If there is one figure, `index.html`
    /// contains it as well. Returns the path of `index.html`.
    ///
    /// # Errors
    /// [`ReportError::MixedVersions`] if two figures, or a figure and one of its runs, have different versions.
    /// [`ReportError::MixedConfigurations`] if a run does not have its point's configuration.
    /// [`ReportError::Io`] if a file cannot be written.
    pub fn write(&self, directory: &Path) -> Result<PathBuf, ReportError> {
        self.check()?;
        for (i, f) in self.figures.iter().enumerate() {
            self.write_figure(directory, i, f)?;
        }
        let mut page = Page::default();
        page.broad();
        let body = self.first_page(&mut page);
        page.write(directory, "index.html", &self.title, &body)
    }

    /// Writes the page of a figure, the pages of its runs and its flow, and the experiment's file.
    fn write_figure(&self, directory: &Path, i: usize, f: &Figure) -> Result<(), ReportError> {
        if let Some(text) = &f.file {
            write_file(directory, &format!("{}.toml", anchor(f)), text)?;
        }
        let back = format!("../{}", file_name(f));
        if !f.runs.groups.is_empty() {
            f.runs.write(directory, &back, &f.identity)?;
        }
        if let Some(flow) = &f.flow {
            let name = format!("{}.html", anchor(f));
            let back = (back.as_str(), "\u{2190} back to the figure");
            let flows = directory.join(FLOWS);
            write_flow(flow, &flows, &name, &f.flow_command, Some(back))?;
        }
        let mut page = Page::default();
        page.broad();
        let title = format!("{} \u{2013} {}", heading(f), self.title);
        let body = self.figure_page(&mut page, i, f);
        page.write(directory, &file_name(f), &title, &body)?;
        Ok(())
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

    /// The first page: an introduction, the table over all figures, and the list of figures. A single figure takes
    /// the place of the list.
    fn first_page(&self, page: &mut Page) -> Markup {
        let claims = || self.figures.iter().flat_map(|f| &f.claims);
        html! {
            header {
                h1 { (self.title) }
                (paragraphs(&self.introduction))
                (tally(claims()))
                @if let Some((_, scale)) = self.figures.iter().flat_map(|f| &f.parameters).find(|p| p.0 == SCALE) {
                    p { "Run at the scale " b { (scale) } "; each figure's parameters are on its page." }
                }
            }
            @if let Some(arena) = &self.arena {
                (arena.table(page, |id| format!("{}.html", file_stem(id))))
            }
            main {
                @if let [f] = self.figures.as_slice() { (section(page, f)) } @else {
                    @for f in &self.figures { (entry(f)) }
                }
            }
            footer {
                @if let Some(f) = self.figures.first() { p { "Spindle " (f.identity.version) } }
            }
        }
    }

    /// The page of the figure with the number `i`.
    fn figure_page(&self, page: &mut Page, i: usize, f: &Figure) -> Markup {
        let before = i.checked_sub(1).and_then(|i| self.figures.get(i));
        let after = self.figures.get(i + 1);
        html! {
            header {
                nav aria-label="figures" {
                    a href="index.html" { "All figures" } " "
                    @if let Some(f) = before { a href=(file_name(f)) rel="prev" { "\u{2190} " (heading(f)) } " " }
                    @if let Some(f) = after { a href=(file_name(f)) rel="next" { (heading(f)) " \u{2192}" } }
                }
                h1 { (self.title) }
            }
            main { (section(page, f)) }
            footer { p { "Spindle " (f.identity.version) } }
        }
    }
}

/// A figure in the list of the first page.
fn entry(f: &Figure) -> Markup {
    html! {
        section class="entry" id=(anchor(f)) {
            h2 { a href=(file_name(f)) { (heading(f)) } " " code class="id" { (f.id) } }
            @if !f.asks.is_empty() { p class="asks" { (f.asks) } }
            div class="more" { (dots(&f.claims)) (tally(f.claims.iter())) }
        }
    }
}

/// The name of a figure's page.
fn file_name(f: &Figure) -> String {
    format!("{}.html", anchor(f))
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
    let of_oracle = f.oracle.iter().flat_map(|o| &o.plots);
    paint(page, f.plots.iter().chain(of_oracle));
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
                    (cards(page, &f.claims))
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
            (scrolling("schemes that beat the oracle", html! {
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
            }))
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

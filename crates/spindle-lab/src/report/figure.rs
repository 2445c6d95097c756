//! The page of `reproduce`: one per paper, a section per figure.

use std::path::{Path, PathBuf};

use maud::{Markup, html};

use super::error::ReportError;
use super::format::{NONE, count};
use super::model::{Claim, ClaimKind, Figure, FigureReport, LinePlot, LineSeries, Verdict};
use super::page::{Page, badge, command, paragraphs, provenance, settings};
use super::plot::line_plot;

impl FigureReport {
    /// Writes `index.html` and its pictures into `directory`, made if need be, and returns the
    /// path of the page.
    ///
    /// # Errors
    /// [`ReportError::MixedVersions`] if two figures, or a figure and one of its runs, are of
    /// different versions; [`ReportError::MixedConfigurations`] if a run is not of its figure's
    /// configuration; [`ReportError::Io`] if a file cannot be written.
    pub fn write(&self, directory: &Path) -> Result<PathBuf, ReportError> {
        self.check()?;
        let mut page = Page::default();
        let body = self.body(&mut page);
        page.write(directory, &self.title, &body)
    }

    fn check(&self) -> Result<(), ReportError> {
        let Some(first) = self.figures.first() else {
            return Ok(());
        };
        for figure in &self.figures {
            // Figures differ in configuration by nature; only the version must be one.
            let same = super::RunIdentity {
                version: first.identity.version.clone(),
                configuration: figure.identity.configuration.clone(),
            };
            same.check(
                &format!("figure {}", figure.id),
                std::slice::from_ref(&figure.identity),
            )?;
            for series in figure.plots.iter().flat_map(|p| &p.series) {
                let place = format!("figure {}, {}", figure.id, series.name);
                figure.identity.check(&place, &series.runs)?;
            }
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
                nav aria-label="figures" {
                    ul class="contents" {
                        @for f in &self.figures {
                            li {
                                a href=(format!("#{}", anchor(f))) { (f.id) } " " (f.title) " "
                                span class="dots" aria-hidden="true" {
                                    @for c in &f.claims {
                                        span class=(format!("pip {}", c.verdict.word())) {}
                                    }
                                }
                            }
                        }
                    }
                }
            }
            main { @for f in &self.figures { (section(page, f)) } }
            footer {
                @if let Some(f) = self.figures.first() { p { "Spindle " (f.identity.version) } }
            }
        }
    }
}

fn anchor(f: &Figure) -> String {
    super::page::file_stem(&f.id)
}

/// How many claims there are of each verdict.
fn tally<'a>(claims: impl Iterator<Item = &'a Claim> + Clone) -> Markup {
    let all = [
        Verdict::Holds,
        Verdict::Tied,
        Verdict::Fails,
        Verdict::NotCheckable,
    ];
    let number = |v: Verdict| claims.clone().filter(|c| c.verdict == v).count() as u64;
    html! {
        p class="tally" {
            @for v in all {
                @if number(v) > 0 { (verdict_badge(v)) " " (count(number(v))) " " }
            }
        }
    }
}

fn section(page: &mut Page, f: &Figure) -> Markup {
    html! {
        section id=(anchor(f)) {
            h2 { (f.title) " " code class="id" { (f.id) } }
            @if !f.asks.is_empty() { p class="asks" { (f.asks) } }
            @for (i, plot) in f.plots.iter().enumerate() {
                h3 { (plot.title) }
                (page.figure(&format!("{}-{i}", f.id), LINES_CAPTION, false, |l| line_plot(l, plot)))
                (values(page, plot))
            }
            (claim_table(&f.claims))
            @for note in &f.notes { p class="note" { (note) } }
            details {
                summary { "Parameters and command" }
                (settings(&f.parameters))
                (command(&f.command))
                (provenance(&f.identity))
            }
        }
    }
}

const LINES_CAPTION: &str = "Whiskers are 95% intervals over runs.";

fn verdict_badge(v: Verdict) -> Markup {
    let sign = match v {
        Verdict::Holds => "\u{2713}",
        Verdict::Fails => "\u{2717}",
        Verdict::Tied => "=",
        Verdict::NotCheckable => "?",
    };
    let text = match v {
        Verdict::NotCheckable => "not checkable",
        other => other.word(),
    };
    html! { span class=(format!("verdict {}", v.word())) { (sign) " " (text) } }
}

fn claim_table(claims: &[Claim]) -> Markup {
    html! {
        @if !claims.is_empty() {
            h3 { "What the paper says" }
            table class="claims" {
                thead {
                    tr {
                        @for name in ["verdict", "claim", "paper", "measured"] {
                            th scope="col" { (name) }
                        }
                    }
                }
                tbody { @for c in claims { (claim_row(c)) } }
            }
        }
    }
}

fn claim_row(c: &Claim) -> Markup {
    let kind = match c.kind {
        ClaimKind::Numeric => "number",
        ClaimKind::Ordering => "order",
    };
    html! {
        tr {
            td data-label="verdict" { (verdict_badge(c.verdict)) }
            td data-label="claim" {
                (c.text) " " small { code { (c.id) } ", " (kind) }
                @if !c.why.is_empty() { p class="why" { (c.why) } }
            }
            td data-label="paper" { (or_none(&c.paper)) }
            td data-label="measured" { (or_none(&c.measured)) }
        }
    }
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { NONE } else { text }
}

/// The values behind a picture, folded away.
fn values(page: &mut Page, plot: &LinePlot) -> Markup {
    let mut xs: Vec<f64> = plot
        .series
        .iter()
        .flat_map(|s| &s.points)
        .map(|q| q.x)
        .collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    html! {
        @if !xs.is_empty() {
            details {
                summary { "Values" }
                div class="scroll" tabindex="0" role="region" aria-label="values" {
                    table {
                        thead {
                            tr {
                                th scope="col" { (plot.x.name) }
                                @for x in &xs { th scope="col" { (plot.x.quantity.show(*x)) } }
                            }
                        }
                        tbody {
                            @for s in &plot.series {
                                tr {
                                    th scope="row" {
                                        @if s.reference { (s.name) } @else { (badge(page, &s.name)) }
                                    }
                                    @for x in &xs { (value_cell(plot, s, *x)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn value_cell(plot: &LinePlot, s: &LineSeries, x: f64) -> Markup {
    let y = plot.y.quantity;
    let point = s.points.iter().find(|q| q.x.total_cmp(&x).is_eq());
    html! {
        td {
            @match point {
                Some(q) => {
                    (y.show(q.y.value))
                    @if let Some(ci) = q.y.ci95 { small { (y.show_interval(ci)) } }
                }
                None => (NONE),
            }
        }
    }
}

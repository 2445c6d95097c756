//! The frame that every page shares, and the writing of a report's files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use maud::{DOCTYPE, Markup, PreEscaped, html};

use spindle_experiment::identity::RunIdentity;

use super::error::ReportError;
use super::palette::{Look, style_rules};
use super::plot::{Layout, Picture, STYLE};

/// How a picture is placed on its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// As wide as its column.
    Plain,
    /// One of several pictures side by side, drawn as for a phone.
    Small,
    /// With buttons, wheel, drag and pinch that zoom into its time axis.
    Zoomable,
}

impl Kind {
    const fn class(self) -> &'static str {
        match self {
            Self::Plain => "figure",
            Self::Small => "figure small",
            Self::Zoomable => "figure zoomable",
        }
    }
}

fn zoom_bar() -> Markup {
    html! {
        div class="zoom" role="group" aria-label="zoom" hidden="hidden" {
            span class="range" role="status" {}
            button type="button" data-zoom="in" aria-label="zoom in" { "+" }
            button type="button" data-zoom="out" aria-label="zoom out" { "\u{2212}" }
            button type="button" data-zoom="left" aria-label="earlier" { "\u{2190}" }
            button type="button" data-zoom="right" aria-label="later" { "\u{2192}" }
            button type="button" data-zoom="all" { "whole" }
        }
    }
}

/// The buttons that choose a picture's vertical axis. Without the page's script they are hidden.
fn axis_bar(views: &[View<'_>]) -> Markup {
    html! {
        div class="axes" role="group" aria-label="vertical axis" hidden="hidden" {
            @for (i, view) in views.iter().enumerate() {
                button type="button" data-axis=(view.name) aria-pressed=(i == 0) { (view.name) }
            }
        }
    }
}

/// One way to draw a picture.
pub(crate) struct View<'a> {
    /// Its name for readers, in the page's address and in the name of its file: `linear`, `logarithmic`.
    pub(crate) name: &'static str,
    /// Draws the picture for a width.
    pub(crate) draw: &'a dyn Fn(Layout) -> Picture,
}

/// A file next to a picture.
pub(crate) struct Attached {
    /// What follows the picture's name in the file's name, such as `.csv`.
    pub(crate) ending: &'static str,
    /// The file's text.
    pub(crate) text: String,
    /// The name of the link to it.
    pub(crate) name: &'static str,
}

/// A page under construction, with the pictures that will be written with it.
#[derive(Default)]
pub(crate) struct Page {
    files: Vec<(String, String)>,
    transports: BTreeSet<String>,
    /// Names that have the looks of other names, which differ from those of the other lines of a figure.
    colours: BTreeMap<String, String>,
    broad: bool,
    /// The script of this page alone.
    script: &'static str,
}

impl Page {
    /// Adds a picture that is drawn for both widths. Returns its markup. `stem` is the name of its file, and
    /// `caption` is the text below it.
    pub(crate) fn figure(
        &mut self,
        stem: &str,
        caption: &str,
        kind: Kind,
        draw: impl Fn(Layout) -> Picture,
    ) -> Markup {
        let view = View {
            name: "",
            draw: &draw,
        };
        self.figure_with(stem, (caption, Vec::new()), kind, &[view])
    }

    /// Adds a picture as [`Self::figure`] does, with several views of which one is shown at a time, and with files
    /// that stand next to it. The first view is shown until a reader chooses another one. The other views'
    /// files have the view's name after the picture's name.
    pub(crate) fn figure_with(
        &mut self,
        stem: &str,
        (caption, attached): (&str, Vec<Attached>),
        kind: Kind,
        views: &[View<'_>],
    ) -> Markup {
        let stem = self.free_stem(stem);
        let several = views.len() > 1;
        let mut links = Vec::new();
        let mut pictures = String::new();
        for (i, view) in views.iter().enumerate() {
            let [wide, narrow] = Layout::ALL.map(view.draw);
            self.transports.extend(wide.transports().map(str::to_owned));
            let name = several.then_some(view.name);
            if kind != Kind::Small {
                pictures += &wide.inline("wide", name, i > 0);
            }
            pictures += &narrow.inline("narrow", name, i > 0);
            let file = match i {
                0 => format!("{stem}.svg"),
                _ => format!("{stem}-{}.svg", view.name),
            };
            links.push((file.clone(), name));
            self.files.push((file, wide.standalone()));
        }
        let mut others = Vec::new();
        for Attached { ending, text, name } in attached {
            let file = format!("{stem}{ending}");
            self.files.push((file.clone(), text));
            others.push((file, name));
        }
        html! {
            figure class=(kind.class()) id=[several.then_some(&stem)] {
                @if kind == Kind::Zoomable { (zoom_bar()) }
                @if several { (axis_bar(views)) }
                (PreEscaped(pictures))
                figcaption {
                    (caption)
                    @for (file, view) in links {
                        " " a class="picture" href=(file) download=(file) data-axis=[view] {
                            "SVG" @if let Some(view) = view { ", " (view) }
                        }
                    }
                    @for (file, name) in others { " " a href=(file) { (name) } }
                }
            }
        }
    }

    /// `stem` with only characters that every file system accepts, different from all earlier stems.
    fn free_stem(&self, stem: &str) -> String {
        let stem = file_stem(stem);
        let taken = |s: &str| self.files.iter().any(|(f, _)| f == &format!("{s}.svg"));
        let numbered = (2..).map(|i| format!("{stem}-{i}"));
        std::iter::once(stem.clone())
            .chain(numbered)
            .find(|s| !taken(s))
            .unwrap_or(stem)
    }

    /// The look of a transport, whose colours the page will define.
    pub(crate) fn look(&mut self, name: &str) -> Look {
        let name = self.colour(name).to_owned();
        let look = super::palette::look(&name);
        self.transports.insert(name);
        look
    }

    /// The name whose look a name has on this page.
    pub(crate) fn colour<'a>(&'a self, name: &'a str) -> &'a str {
        self.colours.get(name).map_or(name, String::as_str)
    }

    /// From here on, these names have the looks of other names.
    pub(crate) fn repaint(&mut self, colours: impl IntoIterator<Item = (String, String)>) {
        self.colours = colours.into_iter().collect();
    }

    /// Lets the page be as wide as a desktop window, for text next to pictures.
    pub(crate) fn broad(&mut self) {
        self.broad = true;
    }

    /// Adds a script that only this page needs.
    pub(crate) fn script(&mut self, text: &'static str) {
        self.script = text;
    }

    /// The whole page.
    fn render(&self, title: &str, body: &Markup) -> String {
        let rules = style_rules(self.transports.iter().map(String::as_str));
        let theme = include_str!("assets/theme.css");
        let style = format!("{theme}{STYLE}{}{rules}", include_str!("assets/page.css"));
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="generator" content="Spindle";
                    title { (title) }
                    style { (PreEscaped(style)) }
                }
                body class=[self.broad.then_some("broad")] {
                    (body)
                    div id="tip" role="status" hidden="hidden" {}
                    script { (PreEscaped(include_str!("assets/page.js"))) (PreEscaped(self.script)) }
                }
            }
        }
        .into_string()
    }

    /// Writes `name` and the pictures into `directory`, which is created if necessary. Returns the path of the
    /// page.
    pub(crate) fn write(
        &self,
        directory: &Path,
        name: &str,
        title: &str,
        body: &Markup,
    ) -> Result<PathBuf, ReportError> {
        for (name, svg) in &self.files {
            write_file(directory, name, svg)?;
        }
        write_file(directory, name, &self.render(title, body))
    }
}

/// Writes a file into `directory`, which is created if necessary. Returns its path.
pub(crate) fn write_file(directory: &Path, name: &str, text: &str) -> Result<PathBuf, ReportError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| ReportError::Io { path, source }
    };
    fs::create_dir_all(directory).map_err(failed(directory))?;
    let path = directory.join(name);
    fs::write(&path, text).map_err(failed(&path))?;
    Ok(path)
}

/// A name of at most 60 lower-case letters, digits and hyphens.
pub(crate) fn file_stem(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_ascii_alphanumeric() {
            out.push(c.to_ascii_lowercase());
        } else if !out.is_empty() && !out.ends_with('-') {
            out.push('-');
        }
        if out.len() >= 60 {
            break;
        }
    }
    let out = out.trim_end_matches('-');
    if out.is_empty() {
        "picture".to_owned()
    } else {
        out.to_owned()
    }
}

/// A transport's name with a dot in its colour.
pub(crate) fn badge(page: &mut Page, name: &str) -> Markup {
    badge_of(page, name, name)
}

/// A name with a dot in the colour of another name.
pub(crate) fn badge_of(page: &mut Page, name: &str, colour: &str) -> Markup {
    let class = format!("swatch {}", page.look(colour).class);
    html! { span class=(class) {} (name) }
}

/// The frame of a table that scrolls sideways if the page is narrower than the table. Screen readers announce it with
/// `label`.
pub(crate) fn scrolling(label: &str, table: Markup) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="region" aria-label=(label) { (table) }
    }
}

/// Paragraphs, one per line of `text`.
pub(crate) fn paragraphs(text: &str) -> Markup {
    html! { @for line in text.lines().filter(|l| !l.trim().is_empty()) { p { (line) } } }
}

/// Names and values, as a list that collapses on a phone.
pub(crate) fn settings(pairs: &[(String, String)]) -> Markup {
    html! {
        @if !pairs.is_empty() {
            dl class="settings" {
                @for (name, value) in pairs { div { dt { (name) } dd { (value) } } }
            }
        }
    }
}

/// The command that made something, ready to be copied.
pub(crate) fn command(line: &str) -> Markup {
    html! { @if !line.is_empty() { pre class="command" { code { (line) } } } }
}

/// The version and configuration that made the results.
pub(crate) fn provenance(identity: &RunIdentity) -> Markup {
    html! {
        @if !identity.version.is_empty() {
            p class="provenance" {
                "Spindle " (identity.version)
                @if !identity.configuration.is_empty() {
                    ", configuration " code { (identity.configuration) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_stems_are_safe_and_distinct() {
        assert_eq!(file_stem("../../etc/passwd"), "etc-passwd");
        assert_eq!(file_stem("Fig 4(a): 99th"), "fig-4-a-99th");
        assert_eq!(file_stem("\u{3000}"), "picture");
        let mut page = Page::default();
        for _ in 0..3 {
            let _ = page.figure("a", "", Kind::Plain, |l| Picture::new(l.width(), 1.0, ""));
        }
        let names: Vec<_> = page.files.iter().map(|f| f.0.as_str()).collect();
        assert_eq!(names, ["a.svg", "a-2.svg", "a-3.svg"]);
    }
}

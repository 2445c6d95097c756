//! The register as a site: one page with all claims, which can be sorted and filtered, and for each paper a page with
//! the measured values and commands behind its verdicts.
//!
//! The site consists of files without a server and without other files than its own. All rows are in the page; its
//! script only hides and orders them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use maud::{Markup, html};
use spindle_experiment::causes::{self, Because, Cause};
use spindle_experiment::claims::Verdict;
use spindle_experiment::library::{self, BuiltIn, Paper};
use spindle_experiment::registry::Registry;
use spindle_experiment::{Experiment as Definition, Overrides};

use super::robustness::{Robustness, Varied};
use super::{Claim, Column, DEFAULT, Register, RegisterError, VERDICTS};
use crate::claims::{name, sign, verdict_badge};
use crate::page::{Page, badge, command, file_stem, scrolling};

/// A paper's part of the site.
struct Part<'a> {
    paper: &'static Paper,
    columns: Vec<&'a Column>,
    experiments: Vec<Section<'a>>,
}

/// An experiment with its claims.
struct Section<'a> {
    built_in: &'static BuiltIn,
    title: String,
    source: String,
    claims: Vec<Row<'a>>,
    /// The address of the figure's page, if the directory contains it.
    figure: Option<String>,
}

/// A claim with its verdicts.
struct Row<'a> {
    claim: &'a Claim,
    transports: Vec<String>,
    verdicts: Vec<(&'a Column, &'a Claim)>,
    /// The verdict of the first column that was run with variations.
    varied: Option<Varied<'a>>,
}

impl Register {
    /// Writes the site into `directory`, which is created if necessary. Returns the path of its first page. A claim
    /// leads to its figure if the paper's directory contains the figure's page, as `reproduce --all --out`
    /// writes it.
    ///
    /// # Errors
    /// A page cannot be written.
    pub fn write_site(
        &self,
        registry: &Registry,
        directory: &Path,
    ) -> Result<PathBuf, RegisterError> {
        let parts = self.parts(registry, directory)?;
        for part in &parts {
            let mut page = Page::default();
            let title = format!("Claims of {}", part.paper.title);
            let body = part.details(&mut page);
            page.write(directory, &part.file(), &title, &body)?;
        }
        let mut page = Page::default();
        page.broad();
        page.script(include_str!("../assets/register.js"));
        let body = overview(&parts, directory);
        Ok(page.write(directory, "index.html", "Register of claims", &body)?)
    }

    fn parts(&self, registry: &Registry, directory: &Path) -> Result<Vec<Part<'_>>, RegisterError> {
        let parts = self.papers().map(|(paper, ids, columns)| {
            let built_in = ids.iter().filter_map(|id| library::find(id));
            let sections = built_in.map(|b| {
                let definition = b.read(registry, &Overrides::default())?;
                let figure = figure_page(directory, b);
                Ok(Section::new(self, b, &definition, &columns, figure))
            });
            let sections: Result<Vec<_>, RegisterError> = sections.collect();
            let mut experiments = sections?;
            experiments.retain(|s| !s.claims.is_empty());
            Ok(Part {
                paper,
                columns,
                experiments,
            })
        });
        parts.collect()
    }
}

/// Whether `directory` has the page with a paper's figures.
fn has_page(directory: &Path, paper: &Paper) -> bool {
    directory.join(paper.id).join("index.html").exists()
}

/// The address of the page of an experiment's figure, if `directory` contains it.
fn figure_page(directory: &Path, built_in: &BuiltIn) -> Option<String> {
    let address = format!("{}/{}.html", built_in.paper?, file_stem(built_in.id));
    directory.join(&address).exists().then_some(address)
}

impl<'a> Section<'a> {
    fn new(
        register: &Register,
        built_in: &'static BuiltIn,
        definition: &Definition,
        columns: &[&'a Column],
        figure: Option<String>,
    ) -> Self {
        let claims = definition.claims.iter().filter_map(|defined| {
            let of = |c: &&'a Column| Some((*c, c.claim(built_in.id, &defined.id)?));
            let verdicts: Vec<_> = columns.iter().filter_map(of).collect();
            let varied = |c: &&'a Column| register.varied(c, built_in.id, &defined.id);
            let transports: BTreeSet<&str> = defined.test.transports().into_iter().collect();
            Some(Row {
                claim: verdicts.first()?.1,
                transports: transports.into_iter().map(str::to_owned).collect(),
                varied: columns.iter().find_map(varied),
                verdicts,
            })
        });
        Self {
            built_in,
            title: definition.title.clone(),
            source: definition.source.clone(),
            claims: claims.collect(),
            figure,
        }
    }
}

impl Row<'_> {
    /// Whether the claim fails in every column.
    fn fails_in_all(&self) -> bool {
        let mut verdicts = self.verdicts.iter().map(|(_, claim)| claim.verdict);
        verdicts.all(|v| v == Verdict::Fails)
    }

    /// The cause, if the claim fails in every column.
    fn cause(&self) -> Option<&'static Cause> {
        let cause = causes::of(&self.claim.id)?;
        self.fails_in_all().then_some(cause)
    }

    /// Whether the verdict depends on values that the paper prints, if variations were run.
    fn robustness(&self) -> &'static str {
        let varied = self.varied.as_ref();
        varied.map_or("not varied", |v| v.robustness().word())
    }

    /// What the claim is filtered by: its cause, or whether it holds in some or in all columns.
    fn outcome(&self) -> &'static str {
        let verdicts = || self.verdicts.iter().map(|(_, claim)| claim.verdict);
        match self.cause() {
            Some(cause) => cause.because.word(),
            None if self.fails_in_all() => "no cause",
            None if verdicts().all(|v| v == Verdict::Holds) => "holds in all",
            None if verdicts().any(|v| v == Verdict::Holds) => "holds in some",
            None => "undecided",
        }
    }
}

impl Part<'_> {
    /// The name of the page with the values behind the verdicts.
    fn file(&self) -> String {
        format!("claims-{}.html", self.paper.id)
    }

    /// The page with the values behind the verdicts.
    fn details(&self, page: &mut Page) -> Markup {
        html! {
            header {
                p { a href="index.html" { "Register of claims" } }
                h1 { "Claims of " (self.paper.title) }
                p { (self.paper.citation) }
            }
            main {
                @for section in &self.experiments {
                    section id=(file_stem(section.built_in.id)) {
                        h2 { (section.title) " " code class="id" { (section.built_in.id) } }
                        p class="source" { (section.source) }
                        @if let Some(href) = &section.figure {
                            p { a href=(href) { "Figure, runs and seeds" } }
                        }
                        @for row in &section.claims { (details_of(page, section, row)) }
                    }
                }
            }
        }
    }
}

/// One claim with the value, the verdict and the command of each reading.
fn details_of(page: &mut Page, section: &Section<'_>, row: &Row<'_>) -> Markup {
    html! {
        article class="claim" id=(row.claim.id) {
            div class="top" {
                span { @for t in &row.transports { (badge(page, t)) " " } }
                code class="id" { (row.claim.id) }
            }
            h3 { (row.claim.text) }
            p { "The paper: " (row.claim.paper) }
            @if let Some(cause) = row.cause() {
                p class="note" { "Why it fails in every reading (" (cause.because.word()) "): " (cause.text) }
                (command(&cause.command))
            }
            @if let Some(varied) = &row.varied { p class="note" { (robustness_of(varied)) } }
            @for (column, claim) in &row.verdicts {
                h4 { (column.name()) ": " (verdict_badge(claim.verdict)) }
                dl {
                    dt { "measured" } dd { (claim.measured) }
                    @if !claim.why.is_empty() { dt { "why" } dd { (claim.why) } }
                }
                (command(&command_of(section.built_in.id, column)))
            }
        }
    }
}

/// Whether the verdict depends on values that the paper prints, in a sentence.
fn robustness_of(varied: &Varied<'_>) -> String {
    let word = varied.robustness().word();
    let (runs, changes) = (varied.variations(), varied.changes());
    match changes.is_empty() {
        true => format!("{word} under variations of printed values ({runs} run)."),
        false => format!("{word} under variations of printed values ({runs} run): {changes}."),
    }
}

/// The command that makes the verdicts of an experiment in a column.
fn command_of(id: &str, column: &Column) -> String {
    let reading = match column.reading.as_str() {
        DEFAULT => String::new(),
        name => format!(" --reading {name}"),
    };
    format!("spindle reproduce {id} --{}{reading}", column.scale)
}

/// The page with all claims.
fn overview(parts: &[Part<'_>], directory: &Path) -> Markup {
    let pages = library::PAPERS.iter().filter(|p| has_page(directory, p));
    html! {
        header {
            h1 { "Register of claims" }
            p {
                "What papers on multipath loss recovery claim, and whether it holds in Spindle's lab. A reading is a set of \
                 choices for what a paper does not say. Each verdict leads to the measured value and to the command that \
                 repeats it."
            }
            nav aria-label="figures" { @for p in pages { a href=(format!("{}/index.html", p.id)) { (p.title) } " " } }
            (counts(parts))
        }
        main {
            (filter(parts))
            table class="claims" id="register" {
                thead {
                    tr {
                        @for (key, text) in [("claim", "claim"), ("paper", "the paper"), ("verdict", "verdicts")] {
                            th scope="col" { button type="button" data-sort=(key) { (text) } }
                        }
                    }
                }
                tbody {
                    @for part in parts {
                        @for section in &part.experiments {
                            @for row in &section.claims { (overview_row(part, section, row)) }
                        }
                    }
                }
            }
        }
    }
}

fn overview_row(part: &Part<'_>, section: &Section<'_>, row: &Row<'_>) -> Markup {
    let paper = part.paper.id;
    html! {
        tr data-paper=(paper) data-outcome=(row.outcome()) data-robustness=(row.robustness()) data-claim=(row.claim.id) data-transports=(row.transports.join(" ")) {
            td class="sentence" {
                @match &section.figure {
                    Some(href) => a href=(href) { code class="id" { (row.claim.id) } },
                    None => code class="id" { (row.claim.id) },
                }
                div { (row.claim.text) }
                @if let Some(varied) = row.varied.as_ref().filter(|v| v.robustness() == Robustness::Fragile) {
                    small { "fragile: " (varied.changes()) }
                }
            }
            td class="sentence" data-label="the paper" { (row.claim.paper) }
            td class="verdicts" data-label="verdicts" {
                @for (column, claim) in &row.verdicts {
                    // There are thousands of these. The page's script derives more from class and text.
                    a class=(format!("verdict {}", claim.verdict.word())) href=(format!("{}#{}", part.file(), row.claim.id)) {
                        (sign(claim.verdict)) " " (column.name())
                    }
                    " "
                }
            }
        }
    }
}

/// The number of claims with each verdict, for each paper and reading.
fn counts(parts: &[Part<'_>]) -> Markup {
    html! {
        (scrolling("number of claims with each verdict", html! {
            table {
                thead {
                    tr {
                        th scope="col" { "paper" }
                        th scope="col" class="text" { "reading" }
                        @for v in VERDICTS { th scope="col" { (name(v)) } }
                        th scope="col" { "version" }
                    }
                }
                tbody {
                    @for part in parts {
                        @for column in &part.columns {
                            tr {
                                th scope="row" { a href=(part.file()) { (part.paper.id) } }
                                td class="text" { (column.name()) }
                                @for v in VERDICTS { td { (part.count(column, v)) } }
                                td { (column.version(&part.ids())) }
                            }
                        }
                    }
                }
            }
        }))
    }
}

impl Part<'_> {
    /// How many claims have the verdict `v` in a column.
    fn count(&self, column: &Column, v: Verdict) -> usize {
        let rows = self.experiments.iter().flat_map(|s| &s.claims);
        let verdicts = rows.flat_map(|r| &r.verdicts);
        verdicts
            .filter(|(c, claim)| c.name() == column.name() && claim.verdict == v)
            .count()
    }

    /// The ids of the experiments.
    fn ids(&self) -> Vec<&'static str> {
        self.experiments.iter().map(|s| s.built_in.id).collect()
    }
}

/// The fields that choose which claims are shown. The page's script displays them.
fn filter(parts: &[Part<'_>]) -> Markup {
    let rows = || {
        let sections = parts.iter().flat_map(|p| &p.experiments);
        sections.flat_map(|s| &s.claims)
    };
    let transports: BTreeSet<&String> = rows().flat_map(|r| &r.transports).collect();
    let mut readings: Vec<String> = Vec::new();
    for column in parts.iter().flat_map(|p| &p.columns) {
        if !readings.contains(&column.name()) {
            readings.push(column.name());
        }
    }
    let papers = parts
        .iter()
        .map(|p| (p.paper.id.to_owned(), p.paper.id.to_owned()));
    let verdicts = VERDICTS.map(|v| (v.word().to_owned(), name(v).to_owned()));
    let same = |text: &String| (text.clone(), text.clone());
    let outcomes = ["holds in all", "holds in some", "undecided", "no cause"].map(str::to_owned);
    let because = Because::ALL.map(|b| format!("fails in all: {}", b.word()));
    let because = Because::ALL
        .map(Because::word)
        .map(str::to_owned)
        .into_iter()
        .zip(because);
    let outcomes = outcomes.iter().map(same).chain(because);
    html! {
        form id="filter" class="filter" hidden="hidden" {
            (choice("paper", papers))
            (choice("reading", readings.iter().map(same)))
            (choice("verdict", verdicts))
            (choice("transport", transports.into_iter().map(same)))
            (choice("outcome", outcomes))
            @if rows().any(|r| r.varied.is_some()) {
                (choice("robustness", Robustness::ALL.map(|r| (r.word().to_owned(), r.word().to_owned()))))
            }
            label { "text " input type="search" name="text" autocomplete="off"; }
            button type="button" id="csv" { "CSV" }
        }
        p id="shown" role="status" {}
    }
}

/// A field with a value for each option, and one that accepts all.
fn choice(name: &str, options: impl IntoIterator<Item = (String, String)>) -> Markup {
    html! {
        label {
            (name) " "
            select name=(name) {
                option value="" { "all" }
                @for (value, text) in options { option value=(value) { (text) } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use spindle_experiment::variations::Variation;

    use super::super::{Claim, Column, Experiment};
    use super::*;
    use crate::tests::check_directory;

    fn column(reading: &str, verdict: Verdict) -> Column {
        let claim = Claim {
            id: "fuso-fig2-n2".to_owned(),
            text: "At 3 % loss <b>10 %</b> time out".to_owned(),
            paper: "slide 11".to_owned(),
            measured: format!("value in {reading}"),
            verdict,
            why: String::new(),
        };
        Column {
            reading: reading.to_owned(),
            scale: "quick".to_owned(),
            variation: None,
            experiments: vec![Experiment {
                id: "fuso-fig2".to_owned(),
                version: "1".to_owned(),
                claims: vec![claim],
            }],
        }
    }

    /// The register with a variation under which the claim holds in the default reading.
    fn varied() -> Register {
        let varied = Column {
            variation: Some(Variation::LowerLoad),
            ..column(DEFAULT, Verdict::Holds)
        };
        Register {
            varied: vec![varied],
            ..register()
        }
    }

    #[test]
    fn fragile_claim_names_the_variations_that_reverse_its_verdict() {
        let directory = tempfile::tempdir().unwrap();
        let registry = Registry::standard();
        let index = varied().write_site(&registry, directory.path()).unwrap();
        check_directory(directory.path());
        let page = fs::read_to_string(index).unwrap();
        assert!(page.contains("data-robustness=\"fragile\""), "{page}");
        assert!(page.contains("fragile: holds with lower-load"), "{page}");
        assert!(page.contains("name=\"robustness\""), "{page}");
        let details = fs::read_to_string(directory.path().join("claims-fuso.html")).unwrap();
        let text = "fragile under variations of printed values (1 run): holds with lower-load.";
        assert!(details.contains(text), "{details}");
        let index = register().write_site(&registry, directory.path()).unwrap();
        let page = fs::read_to_string(index).unwrap();
        assert!(!page.contains("name=\"robustness\""), "{page}");
    }

    fn register() -> Register {
        Register {
            columns: vec![
                column(DEFAULT, Verdict::Fails),
                column("linux-3.18", Verdict::Holds),
            ],
            varied: Vec::new(),
        }
    }

    #[test]
    fn site_has_a_row_for_each_claim_and_a_link_for_each_verdict() {
        let directory = tempfile::tempdir().unwrap();
        let registry = Registry::standard();
        let index = register().write_site(&registry, directory.path()).unwrap();
        check_directory(directory.path());
        let page = fs::read_to_string(index).unwrap();
        assert_eq!(page.matches("data-claim=\"fuso-fig2-n2\"").count(), 1);
        assert_eq!(
            page.matches("href=\"claims-fuso.html#fuso-fig2-n2\"")
                .count(),
            2
        );
        let link = "<a class=\"verdict holds\" href=\"claims-fuso.html#fuso-fig2-n2\">\u{2713} linux-3.18, quick</a>";
        assert!(page.contains(link), "{page}");
        assert!(page.contains("data-transports=\"tcp\""));
        let details = fs::read_to_string(directory.path().join("claims-fuso.html")).unwrap();
        for text in [
            "value in default",
            "spindle reproduce fuso-fig2 --quick --reading linux-3.18",
        ] {
            assert!(details.contains(text), "{text}");
        }
    }

    #[test]
    fn claim_leads_to_its_figure_if_the_directory_has_the_page() {
        let directory = tempfile::tempdir().unwrap();
        let registry = Registry::standard();
        let figures = directory.path().join("fuso");
        fs::create_dir(&figures).unwrap();
        fs::write(figures.join("index.html"), "").unwrap();
        fs::write(figures.join("fuso-fig2.html"), "").unwrap();
        let index = register().write_site(&registry, directory.path()).unwrap();
        let page = fs::read_to_string(index).unwrap();
        assert!(page.contains("href=\"fuso/fuso-fig2.html\""), "{page}");
        assert!(!page.contains("mmptcp/index.html"), "{page}");
    }
}

//! The page of runs to which the points of a figure link.

use std::path::{Path, PathBuf};

use maud::{Markup, html};
use spindle_experiment::identity::RunIdentity;

use super::error::{ReportError, check_identities};
use super::format::{NONE, Quantity, count};
use super::model::{Estimate, RunGroup, RunList, RunRow};
use super::page::{Page, badge, command, file_stem, provenance, scrolling};

/// The directory of the pages of runs, relative to the report's.
const DIRECTORY: &str = "runs";

/// What is appended to the command that follows a run, so that it writes a capture of the run as well.
pub(super) const CAPTURE: &str = " --pcap captures";

impl RunList {
    /// Checks that every run has the version of `report` and the configuration of its group. `place` describes
    /// the place in the report and may be empty.
    pub(super) fn check(&self, place: &str, report: &RunIdentity) -> Result<(), ReportError> {
        for group in &self.groups {
            let mut place = format!("{place}transport {}", group.transport);
            if !group.set.is_empty() {
                place += &format!(" at {}", label(group));
            }
            let expected = RunIdentity {
                version: report.version.clone(),
                configuration: group.identity.configuration.clone(),
            };
            let runs = group.rows.iter().map(|r| &r.identity);
            check_identities(
                &expected,
                &place,
                std::iter::once(&group.identity).chain(runs),
            )?;
        }
        Ok(())
    }

    /// The address of a group's runs, relative to the report's page.
    pub(super) fn href(&self, group: Option<usize>) -> Option<String> {
        let group = group.filter(|g| *g < self.groups.len())?;
        Some(format!("{DIRECTORY}/{}.html#g{group}", file_stem(&self.id)))
    }

    /// The command that lists the slowest flows of a group's run, for the run with the slowest flow.
    pub(super) fn follow(&self, group: Option<usize>) -> Option<&str> {
        let run = slowest(self.groups.get(group?)?)?;
        (!run.follow.is_empty()).then_some(run.follow.as_str())
    }

    /// The page's address, relative to the report's.
    pub(super) fn page(&self) -> String {
        format!("{DIRECTORY}/{}.html", file_stem(&self.id))
    }

    /// Writes the page of runs below the report's directory.
    pub(super) fn write(
        &self,
        directory: &Path,
        back: &str,
        report: &RunIdentity,
    ) -> Result<PathBuf, ReportError> {
        let mut page = Page::default();
        let title = format!("Runs of {}", self.id);
        let body = html! {
            header {
                nav { a href=(back) { "\u{2190} back to the figures" } }
                h1 { (title) }
                p {
                    "A run is one simulation, with connections and paths of its own. Intervals are \
                     made by resampling runs, never flows, so a single run has none."
                }
                @if let Some(store) = &self.store {
                    p {
                        "Every completion time is in "
                        a href=(format!("../{store}")) { (store) }
                        ", a line of JSON for each run."
                    }
                }
                (contents(&self.groups))
            }
            main {
                @for (i, group) in self.groups.iter().enumerate() {
                    @if first_of_point(&self.groups, i) && !group.set.is_empty() {
                        h2 class="point" { (label(group)) }
                    }
                    (section(&mut page, i, group))
                }
            }
            footer { (provenance(report)) }
        };
        let name = format!("{}.html", file_stem(&self.id));
        page.write(&directory.join(DIRECTORY), &name, &title, &body)
    }
}

/// Whether the previous group belongs to another point.
fn first_of_point(groups: &[RunGroup], i: usize) -> bool {
    i == 0 || groups[i - 1].set != groups[i].set
}

fn contents(groups: &[RunGroup]) -> Markup {
    let firsts = || (0..groups.len()).filter(|i| first_of_point(groups, *i));
    html! {
        @if firsts().count() > 1 {
            nav aria-label="points" {
                @for i in firsts() { a href=(format!("#g{i}")) { (label(&groups[i])) } " " }
            }
        }
    }
}

fn label(group: &RunGroup) -> String {
    let pairs: Vec<String> = group
        .set
        .iter()
        .map(|(k, v)| format!("{k} = {v}"))
        .collect();
    pairs.join(", ")
}

const COLUMNS: [&str; 9] = [
    "part",
    "flows",
    "completed",
    "timed out",
    "mean",
    "p50",
    "p90",
    "max",
    "extra load",
];

/// The highest percentile of a group that is shown, in per cent, and its value.
fn tail(group: &RunGroup) -> Option<(u32, Estimate)> {
    let p99 = group.p99_us.map(|time| (99, time));
    p99.or_else(|| group.p90_us.map(|time| (90, time)))
}

fn section(page: &mut Page, i: usize, group: &RunGroup) -> Markup {
    let follow = slowest(group);
    html! {
        section id=(format!("g{i}")) {
            h3 { (badge(page, &group.transport)) }
            @if let Some((share, time)) = tail(group) {
                p {
                    (share) "th percentile over all: " (Quantity::Micros.show(time.value))
                    @if let Some(ci) = time.ci95 {
                        " (95% interval " (Quantity::Micros.show_interval(ci)) ")"
                    }
                }
            }
            (scrolling("runs", html! {
                table {
                    thead {
                        tr {
                            th scope="col" { "seed" }
                            @for name in COLUMNS { th scope="col" { (name) } }
                        }
                    }
                    tbody { @for run in &group.rows { (row(run)) } }
                }
            }))
            @if let Some(run) = follow.filter(|r| !r.follow.is_empty()) {
                details {
                    summary { "The slowest flows of seed " (run.seed) ", part " (run.part) }
                    (command(&run.follow))
                    p class="source" {
                        "With --flow N for one of them event by event, --report DIR for its picture, and"
                        (CAPTURE) " for a capture of the run."
                    }
                }
            }
        }
    }
}

/// The run with the slowest flow.
fn slowest(group: &RunGroup) -> Option<&RunRow> {
    let rows = group.rows.iter();
    rows.max_by(|a, b| worst(a).total_cmp(&worst(b)))
}

fn worst(run: &RunRow) -> f64 {
    run.max_us.unwrap_or(0.0)
}

fn row(run: &RunRow) -> Markup {
    let time = |t: Option<f64>| t.map_or_else(|| NONE.to_owned(), |t| Quantity::Micros.show(t));
    let share = run.extra_load.map(|e| Quantity::Fraction.show(e));
    html! {
        tr {
            th scope="row" { (run.seed) }
            td { (run.part) }
            @for n in [run.flows, run.completed, run.timed_out] { td { (count(n)) } }
            @for t in [run.mean_us, run.p50_us, run.p90_us, run.max_us] { td { (time(t)) } }
            td { (share.as_deref().unwrap_or(NONE)) }
        }
    }
}

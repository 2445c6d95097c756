//! Claims next to a figure, and the number of claims with each verdict.

use maud::{Markup, html};
use spindle_experiment::claims::{Kind, Outcome, PointValues, TransportValue, Verdict};

use super::format::count;
use super::page::{Page, badge, scrolling};

/// The number of claims with each verdict.
pub(super) fn tally<'a>(claims: impl Iterator<Item = &'a Outcome> + Clone) -> Markup {
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

/// A dot for each claim in its verdict's colour.
pub(super) fn dots(claims: &[Outcome]) -> Markup {
    let holds = claims
        .iter()
        .filter(|c| c.verdict == Verdict::Holds)
        .count();
    let text = format!("{holds} of {} claims hold", claims.len());
    html! {
        @if !claims.is_empty() {
            span class="dots" role="img" aria-label=(text) title=(text) {
                @for c in claims { span class=(format!("pip {}", c.verdict.word())) {} }
            }
        }
    }
}

/// The sign of a verdict in front of its name.
pub(super) const fn sign(v: Verdict) -> &'static str {
    match v {
        Verdict::Holds => "\u{2713}",
        Verdict::Fails => "\u{2717}",
        Verdict::Tied => "=",
        Verdict::NotCheckable => "?",
    }
}

/// A verdict's name for people.
pub(super) const fn name(v: Verdict) -> &'static str {
    match v {
        Verdict::NotCheckable => "not checkable",
        other => other.word(),
    }
}

pub(super) fn verdict_badge(v: Verdict) -> Markup {
    html! { span class=(format!("verdict {}", v.word())) { (sign(v)) " " (name(v)) } }
}

/// The paper's claims, one card each.
pub(super) fn cards(page: &mut Page, claims: &[Outcome]) -> Markup {
    html! {
        @if !claims.is_empty() {
            h3 { "What the paper says" }
            @for c in claims { (card(page, c)) }
        }
    }
}

fn card(page: &mut Page, c: &Outcome) -> Markup {
    let kind = match c.kind {
        Kind::Numeric => "a number",
        Kind::Ordering => "an order",
    };
    let rows = [("paper", &c.paper), ("why", &c.why)];
    html! {
        article class=(format!("claim {}", c.verdict.word())) {
            div class="top" { (verdict_badge(c.verdict)) code class="id" title=(kind) { (c.id) } }
            h4 { (c.text) }
            dl {
                @for (name, text) in rows.into_iter().filter(|r| !r.1.is_empty()) {
                    dt { (name) } dd { (text) }
                }
            }
            @for points in c.points.chunk_by(|a, b| a.metric == b.metric) { (values(page, c, points)) }
        }
    }
}

/// Largest number of points whose values a card shows at once.
const SHOWN: usize = 8;

/// The values of one metric behind a claim, with a row for each point.
fn values(page: &mut Page, c: &Outcome, points: &[PointValues]) -> Markup {
    let label = format!("values of {}", c.id);
    let first = &points[0];
    let made = match first.runs {
        0 => "computed".to_owned(),
        runs => format!("{runs} runs each"),
    };
    let caption = format!("{}, {made}", first.metric);
    let table = scrolling(&label, table(page, points));
    html! {
        @if points.len() > SHOWN {
            details { summary { (caption) ", " (points.len()) " points" } (table) }
        } @else {
            p class="caption" { (caption) }
            (table)
        }
    }
}

fn table(page: &mut Page, points: &[PointValues]) -> Markup {
    let mut names: Vec<&str> = Vec::new();
    for value in points.iter().flat_map(|p| &p.values) {
        if !names.contains(&value.transport.as_str()) {
            names.push(&value.transport);
        }
    }
    let compared = points.iter().any(|p| !p.comparisons.is_empty());
    html! {
        table class="values" {
            thead {
                tr {
                    th scope="col" { "point" }
                    @if compared { th scope="col" { "comparisons" } }
                    @for name in &names { th scope="col" { (badge(page, name)) } }
                }
            }
            tbody {
                @for point in points {
                    tr {
                        th scope="row" { (point.point) }
                        @if compared { td { (comparisons(&point.comparisons)) } }
                        @for name in &names { (value(point.values.iter().find(|v| v.transport == *name))) }
                    }
                }
            }
        }
    }
}

fn value(value: Option<&TransportValue>) -> Markup {
    html! {
        @match value {
            Some(v) => td { (v.text) @if let Some(interval) = &v.interval { small { (interval) } } },
            None => td { "\u{2013}" },
        }
    }
}

/// How many comparisons have which verdict.
fn comparisons(verdicts: &[Verdict]) -> Markup {
    let number = |v: Verdict| verdicts.iter().filter(|other| **other == v).count();
    html! {
        @for v in [Verdict::Holds, Verdict::Tied, Verdict::Fails] {
            @match number(v) {
                0 => {},
                1 if verdicts.len() == 1 => { (verdict_badge(v)) },
                n => { span class=(format!("verdict {}", v.word())) title=(name(v)) { (sign(v)) " " (n) } " " },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(number: usize, comparisons: &[Verdict]) -> Outcome {
        let at = |i| PointValues {
            point: format!("loss {i}%"),
            metric: "p99 FCT".to_owned(),
            unit: "us",
            runs: 20,
            values: vec![TransportValue {
                transport: "tcp".to_owned(),
                value: 1.2e3,
                ci95: Some([1.1e3, 1.3e3]),
                text: "1.2 ms".to_owned(),
                interval: Some("1.1 ms to 1.3 ms".to_owned()),
            }],
            comparisons: comparisons.to_vec(),
        };
        Outcome {
            id: "c".to_owned(),
            kind: Kind::Ordering,
            text: "t".to_owned(),
            paper: "p".to_owned(),
            measured: String::new(),
            verdict: Verdict::Tied,
            why: String::new(),
            points: (0..number).map(at).collect(),
        }
    }

    fn shown(outcome: &Outcome) -> String {
        card(&mut Page::default(), outcome).into_string()
    }

    #[test]
    fn card_has_a_row_for_each_point_with_its_comparisons() {
        let html = shown(&points(2, &[Verdict::Holds, Verdict::Holds, Verdict::Tied]));
        assert!(html.contains("p99 FCT, 20 runs each"), "{html}");
        assert!(html.contains("<th scope=\"row\">loss 1%</th>"), "{html}");
        assert!(html.contains("1.2 ms<small>1.1 ms to 1.3 ms</small>"));
        assert!(
            html.contains("title=\"holds\">\u{2713} 2<") && html.contains("title=\"tied\">= 1<")
        );
        assert!(!html.contains("title=\"fails\""), "{html}");
    }

    #[test]
    fn card_of_comparisons_between_points_has_no_column_for_them() {
        assert!(!shown(&points(2, &[])).contains("comparisons"));
    }

    #[test]
    fn card_folds_the_values_of_many_points() {
        assert!(!shown(&points(SHOWN, &[])).contains("<details>"));
        let html = shown(&points(SHOWN + 1, &[]));
        assert!(
            html.contains("<summary>p99 FCT, 20 runs each, 9 points"),
            "{html}"
        );
    }
}

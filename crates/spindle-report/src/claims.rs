//! Claims next to a figure, and the number of claims with each verdict.

use maud::{Markup, html};
use spindle_experiment::claims::{Kind, Outcome, Verdict};

use super::format::count;

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
pub(super) fn cards(claims: &[Outcome]) -> Markup {
    html! {
        @if !claims.is_empty() {
            h3 { "What the paper says" }
            @for c in claims { (card(c)) }
        }
    }
}

fn card(c: &Outcome) -> Markup {
    let kind = match c.kind {
        Kind::Numeric => "a number",
        Kind::Ordering => "an order",
    };
    let rows = [
        ("paper", &c.paper),
        ("measured", &c.measured),
        ("why", &c.why),
    ];
    html! {
        article class=(format!("claim {}", c.verdict.word())) {
            div class="top" { (verdict_badge(c.verdict)) code class="id" title=(kind) { (c.id) } }
            h4 { (c.text) }
            dl {
                @for (name, text) in rows.into_iter().filter(|r| !r.1.is_empty()) {
                    dt { (name) } dd { (text) }
                }
            }
        }
    }
}

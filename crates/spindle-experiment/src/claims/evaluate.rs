//! Turns the findings of a test into the outcome of a claim.

use super::{Claim, Finding, Judge, Outcome, PointView, Verdict};

/// Largest number of comparisons that `why` lists.
const LISTED: usize = 6;

/// Checks one claim at the points that meet its conditions.
pub fn evaluate(claim: &Claim, points: &[PointView<'_>]) -> Outcome {
    let chosen: Vec<PointView<'_>> = points
        .iter()
        .filter(|p| claim.filter.iter().all(|c| c.holds(p.set)))
        .copied()
        .collect();
    let judge = Judge {
        metric: claim.metric,
        points: &chosen,
    };
    let findings = match (claim.test.not_checkable(), chosen.is_empty()) {
        (Some(reason), _) => Err(reason.to_owned()),
        (None, true) => Err("no point of this run meets the claim's conditions".to_owned()),
        (None, false) => claim.test.findings(&judge),
    };
    let (verdict, mut why) = match &findings {
        Err(reason) => (Verdict::NotCheckable, reason.clone()),
        Ok(list) => {
            let verdict = claim.test.verdict(list);
            (verdict, reasons(list, verdict))
        }
    };
    if let Some(note) = &claim.note {
        why = if why.is_empty() {
            note.clone()
        } else {
            format!("{why} ({note})")
        };
    }
    let also = claim.test.also().iter().copied();
    let metrics = std::iter::once(claim.metric).chain(also);
    let judges = metrics.map(|metric| Judge { metric, ..judge });
    let (measured, values) = match &findings {
        Err(_) => ("-".to_owned(), Vec::new()),
        Ok(list) => {
            let texts = judges.clone().map(|j| j.measured(&*claim.test));
            let values = judges.flat_map(|j| j.at_points(&*claim.test, list));
            (texts.collect::<Vec<_>>().join("; "), values.collect())
        }
    };
    Outcome {
        id: claim.id.clone(),
        kind: claim.kind,
        text: claim.text.clone(),
        paper: claim.paper.clone(),
        measured,
        verdict,
        why,
        points: values,
    }
}

/// Lists the comparisons that fail. If the claim does not fail, lists those that are tied as well.
fn reasons(list: &[Finding], verdict: Verdict) -> String {
    let count = |v| list.iter().filter(|f| f.verdict == v).count();
    let (holds, tied, fails) = (
        count(Verdict::Holds),
        count(Verdict::Tied),
        count(Verdict::Fails),
    );
    if list.len() == 1 {
        return list[0].text.clone();
    }
    let mut text = format!(
        "of {} comparisons {holds} hold, {tied} are tied, {fails} fail",
        list.len()
    );
    let of = |v| list.iter().filter(move |f| f.verdict == v);
    let tied = of(Verdict::Tied).filter(|_| verdict != Verdict::Fails);
    let named: Vec<&str> = of(Verdict::Fails)
        .chain(tied)
        .map(|f| f.text.as_str())
        .collect();
    if !named.is_empty() {
        let more = named.len().saturating_sub(LISTED);
        text = format!("{text}: {}", named[..named.len().min(LISTED)].join("; "));
        if more > 0 {
            text = format!("{text}; and {more} more");
        }
    }
    text
}

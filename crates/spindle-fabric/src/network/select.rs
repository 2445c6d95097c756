//! Patterns that match links, see [`Network::links_matching`](super::Network::links_matching).

use std::collections::BTreeSet;

use super::{Cable, CableId, Direction, LinkId};
use crate::NetworkError;

pub(super) const UP: &str = ".up";
pub(super) const DOWN: &str = ".down";

/// Whether the name can be used in patterns.
pub(super) fn is_name(name: &str) -> bool {
    let reserved = |c: char| matches!(c, ',' | ':' | '*' | '?') || c.is_control();
    !name.is_empty()
        && !name.contains(reserved)
        && name.trim() == name
        && !name.ends_with(UP)
        && !name.ends_with(DOWN)
}

/// The links that match a pattern, in ascending order.
pub(super) fn links(cables: &[Cable], pattern: &str) -> Result<Vec<LinkId>, NetworkError> {
    let mut found = BTreeSet::new();
    for term in pattern.split(',').map(str::trim) {
        let (what, directions): (_, &[Direction]) = match term {
            t if t.ends_with(UP) => (&t[..t.len() - UP.len()], &[Direction::Up]),
            t if t.ends_with(DOWN) => (&t[..t.len() - DOWN.len()], &[Direction::Down]),
            t => (t, &[Direction::Up, Direction::Down]),
        };
        let matching = matching(cables, what);
        if matching.is_empty() {
            return Err(NetworkError::NoLink {
                pattern: term.to_owned(),
                suggestion: likeliest(cables, what),
            });
        }
        let links = |&cable: &CableId| directions.iter().map(move |&d| cable.link(d));
        found.extend(matching.iter().flat_map(links));
    }
    Ok(found.into_iter().collect())
}

/// The cables that match one item of a pattern, without its direction.
fn matching(cables: &[Cable], term: &str) -> Vec<CableId> {
    let select = |test: &dyn Fn(&Cable) -> bool| -> Vec<CableId> {
        let matching = cables.iter().enumerate().filter(|(_, c)| test(c));
        matching.map(|(index, _)| CableId(index as u32)).collect()
    };
    let Some((group, members)) = term.split_once(':') else {
        let named = select(&|c| glob(term, &c.name));
        return match named.is_empty() {
            true => select(&|c| c.group == term),
            false => named,
        };
    };
    let named = select(&|c| c.group == group && glob(members, &c.member));
    match range(members) {
        Some((prefix, first, last)) if named.is_empty() => select(&|c| {
            let number = c.member.strip_prefix(prefix).and_then(number);
            c.group == group && number.is_some_and(|n| (first..=last).contains(&n))
        }),
        _ => named,
    }
}

/// Reads "H4-H6" or "H4-6" as ("H", 4, 6).
fn range(text: &str) -> Option<(&str, u64, u64)> {
    let (first, last) = text.split_once('-')?;
    let digits = first.find(|c: char| c.is_ascii_digit())?;
    let (prefix, first) = first.split_at(digits);
    let last = last.strip_prefix(prefix).unwrap_or(last);
    Some((prefix, number(first)?, number(last)?))
}

/// Parses a number that consists only of digits.
fn number(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

/// Whether `text` matches `pattern`, where `*` stands for any text and `?` for any one character.
fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    // Where to continue if the last star matches one more character. This is linear in practice and never
    // exponential.
    let mut retry = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p + 1, t + 1));
                p += 1;
            }
            Some(&c) if c == b'?' || c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match retry {
                Some((after_star, next)) => {
                    p = after_star;
                    t = next;
                    retry = Some((after_star, next + 1));
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == b'*')
}

/// The most similar name among all cables, groups and members, if any name is similar.
fn likeliest(cables: &[Cable], term: &str) -> Option<String> {
    let groups: BTreeSet<&str> = cables.iter().map(|c| c.group.as_str()).collect();
    let mut names: Vec<String> = groups.iter().map(|&g| g.to_owned()).collect();
    if term.contains(':') {
        names.extend(cables.iter().map(|c| format!("{}:{}", c.group, c.member)));
    } else {
        names.extend(cables.iter().map(|c| c.name.clone()));
    }
    let limit = term.chars().count() / 3 + 1;
    let rated = names.into_iter().map(|name| (distance(term, &name), name));
    let best = rated.min_by_key(|(d, _)| *d)?;
    (best.0 <= limit).then_some(best.1)
}

/// The number of edits (insert, delete or replace a character) that turn one text into the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().flat_map(char::to_lowercase).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().flat_map(char::to_lowercase).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &cb) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(ca != cb);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::NodeId;

    fn cables() -> Vec<Cable> {
        let cable = |name: &str, group: &str, member: &str| Cable {
            name: name.into(),
            group: group.into(),
            member: member.into(),
            a: NodeId(0),
            b: NodeId(1),
        };
        vec![
            cable("H4.access", "access", "H4"),
            cable("H5.access", "access", "H5"),
            cable("H10.access", "access", "H10"),
            cable("P1", "paths", "P1"),
            cable("pod0.agg1-core3", "agg-core", "pod0.agg1-core3"),
        ]
    }

    fn found(pattern: &str) -> Vec<u32> {
        let links = links(&cables(), pattern).unwrap();
        links.into_iter().map(|l| l.0).collect()
    }

    #[test]
    fn patterns_match_the_documented_links() {
        assert_eq!(found("P1"), [6, 7]);
        assert_eq!(found("P1.up"), [6]);
        assert_eq!(found("P1.down"), [7]);
        assert_eq!(found("H4.access.down"), [1]);
        assert_eq!(found("access"), [0, 1, 2, 3, 4, 5]);
        assert_eq!(found("access:H4-H5"), [0, 1, 2, 3]);
        assert_eq!(found("access:H5-10.up"), [2, 4]);
        assert_eq!(found("access:H?"), [0, 1, 2, 3]);
        assert_eq!(found("pod0.agg*-core3"), [8, 9]);
        assert_eq!(found("agg-core:pod0.agg1-core3.up"), [8]);
        assert_eq!(found("P1.down, H10.access.up"), [4, 7]);
        assert_eq!(found("*").len(), 10);
    }

    #[test]
    fn pattern_without_a_match_suggests_a_similar_name() {
        let error = |pattern| links(&cables(), pattern).unwrap_err().to_string();
        let text = error("h4.acess");
        assert!(text.contains("did you mean `H4.access`"), "{text}");
        let text = error("acces:H4");
        assert!(text.contains("did you mean `access:H4`"), "{text}");
        assert_eq!(error("zzzzzz"), "no link matches `zzzzzz`");
        assert!(error("P1,").contains("no link matches ``"));
        assert!(links(&cables(), "access:H90-H99").is_err());
    }

    #[test]
    fn glob_matches_stars_and_question_marks() {
        assert!(glob("*a*b", "xxaxxbxab"));
        assert!(!glob("*a*b", "xxaxxbxa"));
        assert!(glob("*", ""));
        assert!(!glob("?", ""));
    }
}

//! The list of all names, one per line.

use std::fmt::Write as _;

use spindle_mptcp::Variant;

use super::groups;
use crate::catalog::Catalog;
use crate::registry::{Registry, Transport, WITH_PRIORITIES};

/// The greatest length of a line in characters.
const WIDTH: usize = 100;
/// The width of the column of names, without the indentation.
const NAME: usize = 20;

/// Lists all transports, variants, balancers and topologies.
pub(super) fn all(registry: &Registry) -> String {
    let mut text = String::from("transports (`spindle explain NAME` describes one of them):\n");
    transports(&mut text, registry);
    text += "\nvariants, each after a plus sign, as in fuso+roundrobin+held:\n";
    variants(&mut text, registry);
    let _ = writeln!(
        text,
        "\nbalancers, after an @, as in tcp@rps ({WITH_PRIORITIES} after the name: short flows have priority):"
    );
    for b in registry.balancers() {
        let summary = match b.part.as_str() {
            "" => None,
            part => find(groups::BALANCERS, &b.name).or(Some(part)),
        };
        line(
            &mut text,
            &b.name,
            summary.unwrap_or("added by this program"),
        );
    }
    named(
        &mut text,
        "topologies, for [topology] name in an experiment file",
        registry.topologies(),
    );
    named(
        &mut text,
        "loss models, for [loss] model",
        registry.loss_models(),
    );
    named(
        &mut text,
        "properties of links, keys of [links]",
        registry.link_properties(),
    );
    named(
        &mut text,
        "queue disciplines, for [queue] name",
        registry.queues(),
    );
    named(
        &mut text,
        "links that change, for [link_trace] model",
        registry.link_traces(),
    );
    named(
        &mut text,
        "kinds of traffic, for [traffic] kind",
        registry.traffic_kinds(),
    );
    named(
        &mut text,
        "distributions, for [traffic] sizes",
        registry.workloads(),
    );
    named(
        &mut text,
        "metrics, in addition to fct.*, timeout_fraction, extra_load and goodput",
        registry.metrics(),
    );
    named(
        &mut text,
        "tests, for [[claims]] test",
        registry.claim_tests(),
    );
    text
}

/// Lists the entries of a catalog with their summaries.
fn named<T: ?Sized>(text: &mut String, title: &str, catalog: &Catalog<T>) {
    let _ = writeln!(text, "\n{title}:");
    for entry in catalog.entries() {
        let summary = match entry.summary.as_str() {
            "" => "added by this program",
            summary => summary,
        };
        line(text, &entry.name, summary);
    }
}

/// Lists the variants by group, then those that are in no group.
fn variants(text: &mut String, registry: &Registry) {
    let all = registry.variants();
    let known: Vec<&str> = all.iter().map(Variant::name).collect();
    for group in groups::VARIANTS {
        entries(text, group.title, group.entries.iter().copied(), &known);
    }
    let grouped = |name: &str| {
        let patterns = groups::VARIANTS.iter().flat_map(|g| g.entries);
        patterns
            .clone()
            .any(|(pattern, _)| groups::matches(pattern, name).is_some())
    };
    let others: Vec<&Variant> = all.iter().filter(|v| !grouped(v.name())).collect();
    if !others.is_empty() {
        *text += " others\n";
    }
    for v in others {
        line(text, v.name(), v.part());
    }
}

/// Lists the transports of the registry by group, the default one first, then the kernel's.
fn transports(text: &mut String, registry: &Registry) {
    let standard = Registry::standard();
    let (known, added): (Vec<&Transport>, Vec<&Transport>) = registry
        .transports()
        .partition(|t| standard.find(&t.name).is_some_and(|s| same(s, t)));
    let known: Vec<&str> = known.iter().map(|t| t.name.as_str()).collect();
    for (title, patterns) in groups::TRANSPORTS {
        let summary = |p: &&'static str| Some((*p, groups::transport_summary(p)?));
        entries(text, title, patterns.iter().filter_map(summary), &known);
    }
    if !added.is_empty() {
        *text += " added by this program\n";
    }
    for t in added {
        let first = t.parts.first().map_or("", String::as_str);
        line(text, &t.name, first);
    }
    let kernel: Vec<&str> = groups::KERNEL.entries.iter().map(|e| e.0).collect();
    entries(
        text,
        groups::KERNEL.title,
        groups::KERNEL.entries.iter().copied(),
        &kernel,
    );
}

/// The summary of a transport of the kernel. `None` if `name` is no such transport.
pub(super) fn kernel_transport(name: &str) -> Option<&'static str> {
    find(groups::KERNEL.entries, name)
}

/// Whether two transports of the same name are the same.
fn same(a: &Transport, b: &Transport) -> bool {
    a.parts == b.parts && a.configuration() == b.configuration()
}

fn find<'a>(entries: &[(&str, &'a str)], name: &str) -> Option<&'a str> {
    let entry = entries.iter().find(|(n, _)| *n == name)?;
    Some(entry.1)
}

/// Writes the heading of a group and a line for each of its names that is in `known`.
fn entries(
    text: &mut String,
    title: &str,
    group: impl Iterator<Item = (&'static str, &'static str)>,
    known: &[&str],
) {
    let _ = writeln!(text, " {title}");
    for (pattern, summary) in group {
        let found: Vec<Option<u32>> = known
            .iter()
            .filter_map(|name| groups::matches(pattern, name))
            .collect();
        let numbers: Vec<u32> = found.iter().copied().flatten().collect();
        match (found.is_empty(), numbers.as_slice()) {
            (true, _) => {}
            (false, []) => line(text, pattern, summary),
            (false, numbers) => {
                let numbers = listed(numbers);
                line(text, pattern, &format!("{summary}; N is {numbers}"));
            }
        }
    }
}

/// Numbers as text: `1 to 8` if they are consecutive, `3, 5, ..., 23` if they have equal distances, else
/// `1, 2 or 4`.
fn listed(numbers: &[u32]) -> String {
    match numbers {
        [] => String::new(),
        [one] => one.to_string(),
        [first, .., last] if (*first..=*last).eq(numbers.iter().copied()) => {
            format!("{first} to {last}")
        }
        [first, second, third, .., last] if evenly_spaced(numbers) && last > third => {
            format!("{first}, {second}, ..., {last}")
        }
        [first @ .., last] => {
            let first: Vec<String> = first.iter().map(u32::to_string).collect();
            format!("{} or {last}", first.join(", "))
        }
    }
}

/// Whether each number has the same distance from the number before it.
fn evenly_spaced(numbers: &[u32]) -> bool {
    let mut triples = numbers.windows(3);
    triples.all(|w| i64::from(w[1]) * 2 == i64::from(w[0]) + i64::from(w[2]))
}

/// Writes a name and its summary. A summary that is too long is cut after a word.
fn line(text: &mut String, name: &str, summary: &str) {
    let mut line = format!("  {name:NAME$} {summary}");
    if line.chars().count() > WIDTH {
        let kept: String = line.chars().take(WIDTH - 3).collect();
        let end = kept.rfind(' ').unwrap_or(kept.len());
        line = format!("{}...", &kept[..end]);
    }
    let _ = writeln!(text, "{}", line.trim_end());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport_name::KERNEL_TRANSPORTS;
    use spindle_mptcp::DEFAULT_TRANSPORT;

    /// The lines of the list that begin with this name.
    fn lines_of<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
        let named = |l: &&str| l.starts_with("  ") && l.split_whitespace().next() == Some(name);
        text.lines().filter(named).collect()
    }

    /// How many of the patterns match a name.
    fn matching<'a>(patterns: impl Iterator<Item = &'a str>, name: &str) -> usize {
        patterns
            .filter(|pattern| groups::matches(pattern, name).is_some())
            .count()
    }

    /// The patterns of all transports.
    fn transport_patterns() -> impl Iterator<Item = &'static str> {
        groups::TRANSPORTS.iter().flat_map(|(_, p)| *p).copied()
    }

    /// The patterns of all variants.
    fn variant_patterns() -> impl Iterator<Item = &'static str> {
        let entries = groups::VARIANTS.iter().flat_map(|g| g.entries);
        entries.map(|(pattern, _)| *pattern)
    }

    #[test]
    fn every_name_has_exactly_one_line_in_the_list() {
        let registry = Registry::standard();
        for t in registry.transports() {
            assert_eq!(matching(transport_patterns(), &t.name), 1, "{}", t.name);
        }
        let text = all(&registry);
        for v in registry.variants() {
            assert!(matching(variant_patterns(), v.name()) <= 1, "{}", v.name());
        }
        for b in registry.balancers() {
            assert!(find(groups::BALANCERS, &b.name).is_some(), "{}", b.name);
        }
        for name in KERNEL_TRANSPORTS {
            assert_eq!(lines_of(&text, name).len(), 1, "{name}");
        }
        for pattern in transport_patterns().chain(variant_patterns()) {
            assert!(!lines_of(&text, pattern).is_empty(), "{pattern}");
        }
    }

    #[test]
    fn lines_have_at_most_100_characters_and_are_not_cut() {
        let text = all(&Registry::standard());
        for line in text.lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
            assert!(!line.ends_with("..."), "{line}");
        }
    }

    #[test]
    fn default_transport_is_first() {
        let registry = Registry::standard();
        let text = all(&registry);
        let first = text.lines().find(|l| l.starts_with("  ")).unwrap();
        let line = format!("  {DEFAULT_TRANSPORT} ");
        assert!(first.starts_with(&line), "{first}");
        assert_eq!(text.matches(&line).count(), 1);
        assert!(registry.find(DEFAULT_TRANSPORT).is_some());
    }

    #[test]
    fn numbered_names_share_a_line_that_has_their_numbers() {
        let text = all(&Registry::standard());
        for (pattern, numbers) in [
            ("fuso-N", "`fuso` with N subflows; N is 1 to 8"),
            ("cofuso-fixed-N", "N is 1, 2, 4, 8, 16 or 32"),
            ("at-NKB", "N is 256, 512 or 1024"),
            ("dup-N", "N is 3, 5, ..., 23"),
        ] {
            let lines = lines_of(&text, pattern);
            assert!(lines.len() == 1 && lines[0].ends_with(numbers), "{lines:?}");
        }
        assert!(lines_of(&text, "fuso-1").is_empty());
    }

    #[test]
    fn added_names_are_in_the_list_and_a_long_part_is_cut() {
        let registry = Registry::standard()
            .transport("mine", vec!["word ".repeat(40)], Default::default)
            .transport("tcp", vec!["replaced".to_owned()], Default::default);
        let text = all(&registry);
        let mine = lines_of(&text, "mine")[0];
        assert!(mine.len() <= WIDTH && mine.ends_with("word..."), "{mine}");
        assert_eq!(lines_of(&text, "tcp"), ["  tcp                  replaced"]);
    }
}

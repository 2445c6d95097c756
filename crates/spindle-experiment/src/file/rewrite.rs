//! Writes an experiment's file again with all overrides included.

use std::fmt::Write as _;
use std::path::Path;

use super::Overrides;
use super::overlay::{self, path_of, sweeps_mut};
use super::printed::Written;
use crate::document::{ExperimentError, Origin};
use crate::document::{Node, Value};

/// The text of an experiment's file with all overrides included. Reading this text without overrides, in any
/// directory, gives the same experiment. Files that the experiment names are searched from `directory`, and
/// their contents are included. The order within tables is kept. Comments are not kept.
///
/// A variation is not included, since it changes the resolved scenarios and no key.
///
/// If no scale is applied, the tables of scales stay. A later scale is then applied over the values that were
/// set.
///
/// # Errors
/// The first syntax error, or the first mistake in an override. If a named file cannot be read, its name stays,
/// and the reader of the text reports the error.
pub fn rewrite(
    name: &str,
    text: &str,
    overrides: &Overrides,
    directory: &Path,
) -> Result<String, ExperimentError> {
    let mut tree = Node::parse(name, text)?;
    let scales = tree.get("scale").cloned();
    overlay::apply(&mut tree, overrides)?;
    settle(&mut tree);
    embed_files(&mut tree, directory);
    if let (None, Some(mut scales)) = (overrides.scale, scales) {
        embed(&mut scales, "cdf", directory);
        tree.set("scale", scales)?;
    }
    if let Some(mut printed) = tree.remove("printed") {
        Written::of(&tree).keep_known(&mut printed);
        if !matches!(&printed.value, Value::List(list) if list.is_empty()) {
            tree.set("printed", printed)?;
        }
    }
    let mut text = String::new();
    write_file(&mut text, &tree);
    Ok(text)
}

/// Removes the keys that flags have set from the sweep. Flags take precedence over the tables of the sweep's
/// values, but the same settings in a file would not.
fn settle(tree: &mut Node) {
    let flags = tree.clone();
    let is_set = |key: &str| {
        let path = path_of(key);
        let there = path.split('.').try_fold(&flags, |at, part| at.get(part));
        there.is_some_and(|n| matches!(n.origin, Origin::Flag(_)))
    };
    for value in values_mut(tree) {
        if let Value::Table(entries) = &mut value.value {
            entries.retain(|(key, _)| key == "name" || !is_set(key));
        }
    }
}

/// The values of all axes.
fn values_mut(tree: &mut Node) -> impl Iterator<Item = &mut Node> {
    let axes = sweeps_mut(tree).iter_mut().flat_map(entries_mut);
    axes.flat_map(|(_, node)| each_mut(node))
}

/// The items of a list, or the single value that stands for a list.
fn each_mut(node: &mut Node) -> &mut [Node] {
    match node.value {
        Value::List(ref mut values) => values,
        _ => std::slice::from_mut(node),
    }
}

fn entries_mut(node: &mut Node) -> &mut [(String, Node)] {
    match &mut node.value {
        Value::Table(entries) => entries,
        _ => &mut [],
    }
}

/// Prefix of the name of a file that sizes are drawn from, or that has the steps of a link's trace.
const FILE: &str = "file:";

/// The key of a file in the tables of topologies and traffic.
const PATH: &str = "path";

/// The tables with names of files, and the key of a table with the contents of such a file.
const WITH_FILES: [(&str, &str); 3] = [
    ("topology", "text"),
    ("traffic", "cdf"),
    ("link_trace", "csv"),
];

/// The key of a table with the contents of a file, for a table or for the value of an axis. `None` if the table
/// has no names of files.
fn contents_key(axis: &str) -> Option<&'static str> {
    let table = path_of(axis).split('.').next();
    let known = WITH_FILES.iter().find(|(name, _)| Some(*name) == table);
    known.map(|(_, key)| *key)
}

/// Replaces the names of files in the traffic, the links' traces and the sweep with the files' contents.
fn embed_files(tree: &mut Node, directory: &Path) {
    for (name, node) in entries_mut(tree) {
        if let Some(key) = contents_key(name) {
            embed(node, key, directory);
        }
    }
    for (axis, node) in sweeps_mut(tree).iter_mut().flat_map(entries_mut) {
        for value in each_mut(node) {
            embed_value(axis, value, directory);
        }
    }
}

/// Embeds the file that a value of an axis names. The value keeps its name.
fn embed_value(axis: &str, value: &mut Node, directory: &Path) {
    let key = contents_key(axis).unwrap_or("cdf");
    let Value::Text(name) = &value.value else {
        return embed(value, key, directory);
    };
    let found = match is_path(axis) {
        true => whole(name, value, directory),
        false => contents(name, value, key, directory),
    };
    if let Some(contents) = found {
        let entries = vec![
            ("name".to_owned(), value.clone()),
            (path_of(axis).to_owned(), contents),
        ];
        value.value = Value::Table(entries);
    }
}

fn embed(node: &mut Node, key: &str, directory: &Path) {
    match &mut node.value {
        Value::Text(name) => {
            let name = name.clone();
            if let Some(contents) = contents(&name, node, key, directory) {
                *node = contents;
            }
        }
        Value::List(items) => items.iter_mut().for_each(|n| embed(n, key, directory)),
        // A value of an axis that was rewritten before has the file's name as its own name.
        Value::Table(entries) => entries
            .iter_mut()
            .filter(|(key, _)| key != "name")
            .for_each(|(entry, n)| match &n.value {
                Value::Text(name) if is_path(entry) => {
                    if let Some(whole) = whole(&name.clone(), n, directory) {
                        *n = whole;
                    }
                }
                _ => embed(n, contents_key(entry).unwrap_or(key), directory),
            }),
        _ => {}
    }
}

/// Whether a key or the last part of an axis names a file.
fn is_path(key: &str) -> bool {
    key.rsplit('.').next() == Some(PATH)
}

/// `{ name = "...", text = "..." }` for the name of a file.
fn whole(name: &str, at: &Node, directory: &Path) -> Option<Node> {
    let node = |value| Node {
        value,
        origin: at.origin.clone(),
    };
    let text = std::fs::read_to_string(directory.join(name)).ok()?;
    let entry = |key: &str, text: String| (key.to_owned(), node(Value::Text(text)));
    let entries = vec![entry("name", name.to_owned()), entry("text", text)];
    Some(node(Value::Table(entries)))
}

/// `{ cdf = "..." }` for `file:...` if `key` is `cdf`.
fn contents(name: &str, at: &Node, key: &str, directory: &Path) -> Option<Node> {
    let path = directory.join(name.strip_prefix(FILE)?);
    let node = |value| Node {
        value,
        origin: at.origin.clone(),
    };
    let text = std::fs::read_to_string(path).ok()?;
    let entries = vec![(key.to_owned(), node(Value::Text(text)))];
    Some(node(Value::Table(entries)))
}

/// Writes plain values first, then a section for each table and for each table in a list of tables.
fn write_file(text: &mut String, tree: &Node) {
    let Value::Table(entries) = &tree.value else {
        return;
    };
    let is_section = |node: &Node| match &node.value {
        Value::Table(_) => true,
        Value::List(items) => {
            !items.is_empty() && items.iter().all(|n| matches!(n.value, Value::Table(_)))
        }
        _ => false,
    };
    let (sections, values): (Vec<_>, Vec<_>) = entries.iter().partition(|(_, n)| is_section(n));
    for (key, node) in values {
        write_entry(text, key, node);
    }
    for (key, node) in sections {
        let key = key_text(key);
        match &node.value {
            Value::List(items) => items
                .iter()
                .for_each(|item| write_section(text, &format!("[[{key}]]"), item)),
            _ => write_section(text, &format!("[{key}]"), node),
        }
    }
}

fn write_section(text: &mut String, heading: &str, node: &Node) {
    let _ = writeln!(text, "\n{heading}");
    if let Value::Table(entries) = &node.value {
        for (key, node) in entries {
            write_entry(text, key, node);
        }
    }
}

fn write_entry(text: &mut String, key: &str, node: &Node) {
    let _ = writeln!(text, "{} = {}", key_text(key), value_text(node));
}

fn key_text(key: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    match !key.is_empty() && key.chars().all(bare) {
        true => key.to_owned(),
        false => string_text(key),
    }
}

fn value_text(node: &Node) -> String {
    match &node.value {
        Value::Text(s) => string_text(s),
        Value::Integer(i) => i.to_string(),
        Value::Float(f) => float_text(*f),
        Value::Boolean(b) => b.to_string(),
        Value::List(items) => {
            let items: Vec<String> = items.iter().map(value_text).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Table(entries) if entries.is_empty() => "{}".to_owned(),
        Value::Table(entries) => {
            let entry =
                |(key, node): &(String, Node)| format!("{} = {}", key_text(key), value_text(node));
            let entries: Vec<String> = entries.iter().map(entry).collect();
            format!("{{ {} }}", entries.join(", "))
        }
    }
}

/// The shortest text that is read as the same number.
fn float_text(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    // Rust's "inf" and "1e-7" are valid TOML.
    format!("{value:?}")
}

/// A basic string (TOML 1.0).
fn string_text(s: &str) -> String {
    let mut text = String::from("\"");
    for c in s.chars() {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            c if c.is_control() => {
                let _ = write!(text, "\\u{:04X}", u32::from(c));
            }
            c => text.push(c),
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{Experiment, Scale};
    use crate::library::{self, EXPERIMENTS};
    use crate::registry::Registry;
    use proptest::prelude::*;

    fn read(text: &str, overrides: &Overrides) -> Experiment {
        let registry = Registry::standard();
        let nowhere = Path::new("/nowhere");
        library::parse(&registry, ("x.toml", text), nowhere, overrides).unwrap()
    }

    /// Everything that results and verdicts depend on.
    fn essence(e: &Experiment) -> String {
        format!("{e:?}")
    }

    fn same(text: &str, overrides: &Overrides, directory: &Path) -> String {
        let written = rewrite("x.toml", text, overrides, directory).unwrap();
        let again = read(&written, &Overrides::default());
        if directory == Path::new(".") {
            assert_eq!(
                essence(&read(text, overrides)),
                essence(&again),
                "{written}"
            );
        }
        let twice = rewrite("x.toml", &written, &Overrides::default(), directory).unwrap();
        assert_eq!(written, twice);
        written
    }

    #[test]
    fn every_rewritten_experiment_is_the_same_at_every_scale() {
        for file in EXPERIMENTS {
            for scale in Scale::ALL.map(Some).into_iter().chain([None]) {
                let overrides = Overrides {
                    scale,
                    ..Overrides::default()
                };
                let written = same(file.text, &overrides, Path::new("."));
                let whole = Overrides {
                    scale: Some(Scale::Paper),
                    ..Overrides::default()
                };
                if scale.is_none() {
                    let again = read(&written, &whole);
                    assert_eq!(essence(&again), essence(&read(file.text, &whole)));
                }
            }
        }
    }

    #[test]
    fn files_of_traces_and_topologies_are_included_in_the_rewritten_text() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name, text| std::fs::write(directory.path().join(name), text).unwrap();
        let net = "hosts = [\"a\", \"b\"]\n[[cables]]\nends = [\"a\", \"b\"]\n";
        write("net.toml", net);
        write("one.csv", "time,source,destination,size\n0,a,b,10\n");
        write("two.csv", "time,source,destination,size\n0,a,b,20\n");
        let text = "transports = [\"tcp\"]\ntopology = { name = \"file\", path = \"net.toml\" }\n\
                    traffic = { kind = \"trace\", path = \"one.csv\" }\n\
                    sweep = { \"traffic.path\" = [\"one.csv\", \"two.csv\"] }\n";
        let written = same(text, &Overrides::default(), directory.path());
        let registry = Registry::standard();
        let overrides = Overrides::default();
        let original =
            library::parse(&registry, ("x.toml", text), directory.path(), &overrides).unwrap();
        assert_eq!(essence(&original), essence(&read(&written, &overrides)));
    }

    #[test]
    fn rewritten_text_contains_flags_in_place_of_keys_of_sweep_tables() {
        let file = crate::library::find("fuso-fig4ab").unwrap();
        let overrides = Overrides {
            set: vec!["traffic.load=20Mbps".into(), "size=10KB".into()],
            loss: Some("1%,2%".into()),
            flows: Some("60".into()),
            transports: Some("tcp,fuso@rps".into()),
            scale: Some(Scale::Quick),
            ..Overrides::default()
        };
        let case = "[sweep.case]\nname = \"a\"\n\"traffic.load\" = \"1Mbps\"\nseeds = 3\n";
        let text = format!("{}\n{case}", file.text);
        let tree = rewrite("x.toml", &text, &overrides, Path::new(".")).unwrap();
        assert!(tree.contains("load = \"20Mbps\""), "{tree}");
        assert!(
            tree.contains("case = { name = \"a\", seeds = 3 }"),
            "{tree}"
        );
        same(file.text, &overrides, Path::new("."));
    }

    #[test]
    fn rewritten_text_embeds_files_and_keeps_their_names_on_an_axis() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.cdf"), "1000 0\n2000 1\n").unwrap();
        let file = crate::library::find("fuso-fig4ab").unwrap();
        let text = file.text.replace("\"web-search\"", "\"file:a.cdf\"");
        let text = text.replace("below = \"100KB\"\n", "");
        let with = same(&text, &Overrides::default(), dir.path());
        assert!(!with.contains("file:"), "{with}");
        let overrides = Overrides {
            set: vec!["loss=2%".into()],
            ..Overrides::default()
        };
        let text = text.replace("[sweep]", "[sweep]\nsize = [\"file:a.cdf\", \"10KB\"]");
        let with = same(&text, &overrides, dir.path());
        let points = read(&with, &Overrides::default()).points;
        assert_eq!(points[0].set[0], ("size".into(), "file:a.cdf".into()));
        assert_eq!(points.len(), 2);
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<String>().prop_map(Value::Text),
            any::<i64>().prop_map(Value::Integer),
            any::<f64>()
                .prop_filter("NaN is no equal", |f| !f.is_nan())
                .prop_map(Value::Float),
            any::<bool>().prop_map(Value::Boolean),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            let node = inner.prop_map(|value| Node {
                value,
                origin: Origin::File("x".into()),
            });
            prop_oneof![
                prop::collection::vec(node.clone(), 0..4).prop_map(Value::List),
                prop::collection::btree_map(any::<String>(), node, 0..4)
                    .prop_map(|m| Value::Table(m.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn written_text_parses_to_the_same_tree(
            entries in prop::collection::btree_map("[a-z .]{0,6}", value(), 0..5),
        ) {
            let node = |value| Node { value, origin: Origin::File("x".into()) };
            let entries = entries.into_iter().map(|(k, v)| (k, node(v))).collect();
            let tree = node(Value::Table(entries));
            let mut text = String::new();
            write_file(&mut text, &tree);
            let again = Node::parse("x", &text).unwrap();
            prop_assert_eq!(again.canonical(), tree.canonical(), "{}", text);
        }
    }
}

//! Readings: named sets of choices for what a paper leaves open. A reading is applied to all of a paper's
//! experiments at once, never to one.
//!
//! A reading is a file of `experiments/readings/` with a `title`, the `papers` that it is a reading of, and a table
//! `[set]` of keys as `--set` takes them, which apply to every experiment. Its comments give the reason for each
//! choice. Three more entries are optional:
//!
//! - `[[when]]` gives keys for some experiments only: `set` is applied to files in which `key` has the value `is`.
//! - `[[replace]]` changes a choice where it is made: `value` is replaced by `with` where the file, or a point of its
//!   sweep, has it under `key`.
//! - `includes` names other readings. Their keys and replacements are applied before the file's own. If several of
//!   them set a key to a list, the lists are joined.

use crate::document::{ExperimentError, FromNode, Node, Section, UnknownName, Value, suggestion};

/// A reading that comes with Spindle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Its name.
    pub name: &'static str,
    /// The file's path in the source tree.
    path: &'static str,
    /// The file's text.
    text: &'static str,
}

macro_rules! reading {
    ($name:literal) => {
        Reading {
            name: $name,
            path: concat!("experiments/readings/", $name, ".toml"),
            text: include_str!(concat!("../experiments/readings/", $name, ".toml")),
        }
    };
}

/// A value that a reading replaces.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Replacement {
    /// The key that has the value: a dotted path, or the key of an entry.
    pub(crate) key: String,
    /// The value so far.
    pub(crate) value: Node,
    /// The value of the reading.
    pub(crate) with: Node,
}

/// All readings.
pub const READINGS: &[Reading] = &[
    reading!("linux-3.18"),
    reading!("ns-3"),
    reading!("syn-3s"),
    reading!("window-64k"),
    reading!("lossy-links-4-percent"),
    reading!("reinjection-after-one-timeout"),
    reading!("rounds-back-to-back"),
    reading!("small-responses"),
    reading!("literal-algorithm-1"),
    reading!("hosts-1.5x"),
    reading!("hosts-2.5x"),
    reading!("hosts-10x"),
    reading!("linux"),
    reading!("ns-2"),
    reading!("known"),
    reading!("known-systematic"),
    reading!("shared"),
    reading!("short-flows-fit"),
    reading!("linux-hosts-2.5x"),
    reading!("linux-hosts-2.5x-short-flows-fit"),
    reading!("ns-2-hosts-2.5x"),
];

/// The reading with that name, if it is one of each of these papers.
///
/// # Errors
/// No reading has that name, or it is not one of a paper.
pub fn find(name: &str, papers: &[&str]) -> Result<&'static Reading, UnknownName> {
    let Some(reading) = READINGS.iter().find(|r| r.name == name) else {
        let names: Vec<&str> = READINGS.iter().map(|r| r.name).collect();
        let near = suggestion(name, names.iter().copied());
        return Err(UnknownName(format!(
            "--reading: found \"{name}\", want one of {}{near}",
            names.join(", ")
        )));
    };
    let of = reading.papers().unwrap_or_default();
    match papers.iter().find(|p| !of.iter().any(|o| o == *p)) {
        None => Ok(reading),
        Some(other) => Err(UnknownName(format!(
            "--reading: {name} is a reading of {}, not of {other}",
            of.join(", ")
        ))),
    }
}

impl Reading {
    /// The file. An entry of another name is a mistake.
    fn read(&self) -> Result<Node, ExperimentError> {
        let file = Node::parse(self.path, self.text)?;
        let section = Section::new("", &file)?;
        for key in ["title", "papers", "includes", "set", "when", "replace"] {
            section.node(key);
        }
        section.finish()?;
        Ok(file)
    }

    /// Its title.
    ///
    /// # Errors
    /// A mistake in the file.
    pub fn title(&self) -> Result<String, ExperimentError> {
        Section::new("", &self.read()?)?.need("title")
    }

    /// The short names of the papers that it is a reading of.
    ///
    /// # Errors
    /// A mistake in the file.
    pub fn papers(&self) -> Result<Vec<String>, ExperimentError> {
        let file = self.read()?;
        let papers = Section::new("", &file)?.list("papers")?;
        Ok(papers.unwrap_or_default())
    }

    /// The values that it replaces. Those of included readings come first.
    ///
    /// # Errors
    /// A mistake in the file.
    pub(crate) fn replacements(&self) -> Result<Vec<Replacement>, ExperimentError> {
        let file = self.read()?;
        let mut all = Vec::new();
        for reading in self.included()? {
            all.extend(reading.replacements()?);
        }
        for item in tables(&file, "replace")? {
            all.push(Replacement::read(item)?);
        }
        Ok(all)
    }

    /// The readings that it includes.
    fn included(&self) -> Result<Vec<&'static Self>, ExperimentError> {
        let file = self.read()?;
        let section = Section::new("", &file)?;
        let find = |name: String| {
            let included = READINGS.iter().find(|r| r.name == name);
            let problem = format!("found \"{name}\", want the name of a reading");
            included.ok_or_else(|| section.error("includes", problem))
        };
        self.includes()?.into_iter().map(find).collect()
    }

    /// The names of the readings that it includes.
    ///
    /// # Errors
    /// A mistake in the file.
    pub fn includes(&self) -> Result<Vec<String>, ExperimentError> {
        let file = self.read()?;
        let includes = Section::new("", &file)?.list("includes")?;
        Ok(includes.unwrap_or_default())
    }

    /// The keys that it sets in the experiment file `tree`, and their values. Included readings come first.
    ///
    /// # Errors
    /// A mistake in the file.
    pub(crate) fn set_in(&self, tree: &Node) -> Result<Vec<(String, Node)>, ExperimentError> {
        let file = self.read()?;
        let mut all = Vec::new();
        for reading in self.included()? {
            for (key, value) in reading.set_in(tree)? {
                add(&mut all, key, value);
            }
        }
        let own = file.get("set").into_iter();
        let when = Self::when(&file, tree)?;
        for (key, value) in own.chain(when).flat_map(entries) {
            add(&mut all, key.clone(), value.clone());
        }
        Ok(all)
    }

    /// The tables `set` of those `[[when]]` that apply to the experiment file `tree`.
    fn when<'f>(file: &'f Node, tree: &Node) -> Result<Vec<&'f Node>, ExperimentError> {
        let mut found = Vec::new();
        for one in tables(file, "when")? {
            let section = Section::new("when", one)?;
            let (key, is): (String, String) = (section.need("key")?, section.need("is")?);
            let set = section.node("set");
            let set = set.ok_or_else(|| section.error("set", "missing, want a table of keys"))?;
            section.finish()?;
            let place = key.split('.').try_fold(tree, |node, part| node.get(part));
            if place.and_then(String::from_node) == Some(is) {
                found.push(set);
            }
        }
        Ok(found)
    }
}

/// The tables `[[key]]` of a file.
fn tables<'f>(file: &'f Node, key: &str) -> Result<&'f [Node], ExperimentError> {
    let Some(list) = file.get(key) else {
        return Ok(&[]);
    };
    match &list.value {
        Value::List(items) => Ok(items),
        _ => {
            let problem = format!("found {}, want [[{key}]]", list.kind());
            Err(ExperimentError::new(list.origin.clone(), key, problem))
        }
    }
}

/// The entries of a table.
fn entries(table: &Node) -> &[(String, Node)] {
    match &table.value {
        Value::Table(entries) => entries,
        _ => &[],
    }
}

/// Adds a key. If it is there already, its list is continued, or its other value is replaced.
fn add(all: &mut Vec<(String, Node)>, key: String, value: Node) {
    let Some((_, before)) = all.iter_mut().find(|(k, _)| *k == key) else {
        all.push((key, value));
        return;
    };
    match (&mut before.value, value.value) {
        (Value::List(before), Value::List(more)) => before.extend(more),
        (_, other) => before.value = other,
    }
}

impl Replacement {
    fn read(item: &Node) -> Result<Self, ExperimentError> {
        let section = Section::new("replace", item)?;
        let part = |key| match section.node(key) {
            Some(node) => Ok(node.clone()),
            None => Err(section.error(key, "missing, want the value before and the value after")),
        };
        let read = Self {
            key: section.need("key")?,
            value: part("value")?,
            with: part("with")?,
        };
        section.finish()?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use spindle_units::Duration;

    use super::*;
    use crate::file::Overrides;
    use crate::library;
    use crate::registry::Registry;

    /// A reading may replace a point by another one, and the number that the paper prints for it goes with it.
    #[test]
    fn every_reading_keeps_the_numbers_that_the_paper_prints() {
        let registry = Registry::standard();
        for reading in READINGS {
            for paper in reading.papers().unwrap() {
                for experiment in library::of_paper(&paper).unwrap() {
                    let printed = |reading| {
                        let overrides = Overrides {
                            reading,
                            ..Overrides::default()
                        };
                        experiment
                            .read(&registry, &overrides)
                            .unwrap()
                            .printed
                            .len()
                    };
                    let (with, without) = (printed(Some(reading)), printed(None));
                    assert_eq!(with, without, "{} in {}", experiment.id, reading.name);
                }
            }
        }
    }

    #[test]
    fn every_reading_can_be_applied_to_every_experiment_of_its_papers() {
        let registry = Registry::standard();
        for reading in READINGS {
            assert!(!reading.title().unwrap().is_empty());
            for paper in reading.papers().unwrap() {
                for experiment in library::of_paper(&paper).unwrap() {
                    let overrides = Overrides {
                        reading: Some(reading),
                        ..Overrides::default()
                    };
                    experiment.read(&registry, &overrides).unwrap();
                }
            }
        }
    }

    #[test]
    fn every_replacement_of_a_reading_replaces_a_value_of_an_experiment() {
        for reading in READINGS {
            let papers = reading.papers().unwrap();
            let of = |paper: &String| library::of_paper(paper).unwrap();
            let texts: Vec<&str> = papers.iter().flat_map(of).map(|e| e.text).collect();
            for r in reading.replacements().unwrap() {
                let replaced = |text: &&str| {
                    let mut tree = Node::parse("x.toml", text).unwrap();
                    tree.replace(&r.key, &r.value, &r.with) > 0
                };
                assert!(texts.iter().any(replaced), "{}: {r:?}", reading.name);
            }
        }
    }

    #[test]
    fn entry_of_an_unknown_name_is_an_error() {
        let reading = Reading {
            name: "x",
            path: "x.toml",
            text: "title = \"X\"\npapers = [\"caps\"]\n[sets]\n\"scenario.mss\" = 1000\n",
        };
        let error = reading.title().unwrap_err().to_string();
        assert!(
            error.contains("sets") && error.contains("x.toml:3"),
            "{error}"
        );
    }

    #[test]
    fn reading_reaches_the_configuration_of_every_transport() {
        let registry = Registry::standard();
        let overrides = Overrides {
            reading: Some(find("linux-3.18", &["fuso"]).unwrap()),
            ..Overrides::default()
        };
        let figure = library::find("fuso-fig4ab").unwrap();
        let experiment = figure.read(&registry, &overrides).unwrap();
        let scenario = &experiment.points[0].scenario;
        assert!(scenario.topology.links.drop_unmarkable);
        for name in ["tcp", "tlp", "fuso"] {
            let config = crate::hosts::configure(registry.find(name).unwrap(), &scenario.host);
            assert_eq!(config.congestion.name(), "cubic", "{name}");
            assert!(config.loss.early_retransmit_delay.is_some(), "{name}");
        }
    }

    /// The value that a reading gives to a key in an experiment file with this traffic.
    fn value(reading: &str, kind: &str, key: &str) -> Option<Value> {
        let tree = Node::parse("f.toml", &format!("traffic.kind = \"{kind}\"")).unwrap();
        let set = find(reading, &["caps"]).unwrap().set_in(&tree).unwrap();
        let mut values = set.into_iter().filter(|(k, _)| k == key);
        let found = values.next().map(|(_, node)| node.value);
        assert!(values.next().is_none(), "{key} is set once");
        found
    }

    #[test]
    fn reading_sets_some_keys_only_where_the_experiment_has_a_given_value() {
        let speedup = |kind| value("hosts-2.5x", kind, "topology.host_speedup");
        assert_eq!(speedup("mix"), Some(Value::Float(2.5)));
        assert_eq!(speedup("formula"), None);
    }

    #[test]
    fn reading_has_the_keys_of_the_readings_that_it_includes() {
        let get = |key| value("linux-hosts-2.5x", "mix", key);
        assert_eq!(get("topology.host_speedup"), Some(Value::Float(2.5)));
        assert_eq!(
            get("scenario.min_rto"),
            Some(Value::Text("200ms".to_owned()))
        );
    }

    #[test]
    fn lists_of_included_readings_are_joined_and_other_values_replaced() {
        let mut all = Vec::new();
        let file = Node::parse("f.toml", "a = [1]\nb = 2\nc = [3]\nd = 4").unwrap();
        for (key, from) in [("list", "a"), ("value", "b"), ("list", "c"), ("value", "d")] {
            add(&mut all, key.to_owned(), file.get(from).unwrap().clone());
        }
        let Value::List(list) = &all[0].1.value else {
            panic!("{all:?}");
        };
        assert_eq!((all.len(), list.len()), (2, 2));
        assert_eq!(all[1].1.value, Value::Integer(4));
    }

    #[test]
    fn readings_do_not_include_two_different_values_of_one_key() {
        let tree = Node::parse("f.toml", "traffic.kind = \"mix\"").unwrap();
        for reading in READINGS {
            let mut all: Vec<(String, Node)> = Vec::new();
            for name in reading.includes().unwrap() {
                for (key, value) in find(&name, &[]).unwrap().set_in(&tree).unwrap() {
                    let list = matches!(value.value, Value::List(_));
                    let known = all.iter().find(|(k, _)| *k == key && !list);
                    assert!(
                        known.is_none_or(|(_, v)| v.value == value.value),
                        "{}: {key}",
                        reading.name
                    );
                    all.push((key, value));
                }
            }
        }
    }

    #[test]
    fn ns_3_reading_reaches_tcp_mptcp_and_mmptcp_in_every_experiment() {
        let registry = Registry::standard();
        let overrides = Overrides {
            reading: Some(find("ns-3", &["mmptcp"]).unwrap()),
            ..Overrides::default()
        };
        for experiment in library::of_paper("mmptcp").unwrap() {
            let e = experiment.read(&registry, &overrides).unwrap();
            for transport in ["tcp+newreno", "mptcp-8+newreno", "mmptcp"] {
                let transport = registry.find(transport).unwrap();
                for point in &e.points {
                    let config = crate::hosts::configure(transport, &point.scenario.host);
                    let tcp = &config.tcp;
                    assert_eq!(tcp.initial_rto, Duration::from_secs(3));
                    assert_eq!(tcp.data_rto.fixed, Some(Duration::from_millis(1500)));
                    assert_eq!(tcp.max_window.send, Some(65_535));
                    let Some(m) = &config.multipath else { continue };
                    assert!(m.wait_for_joins && !m.opportunistic_retransmission);
                    assert_eq!(m.dead_after_timeouts, u32::MAX);
                    assert_eq!(m.scheduler.name(), "roundrobin");
                }
            }
        }
    }

    #[test]
    fn reading_of_another_paper_is_refused() {
        let wrong = find("linux-3.18", &["fuso", "caps"])
            .unwrap_err()
            .to_string();
        assert!(
            wrong.contains("is a reading of fuso, cofuso, not of caps"),
            "{wrong}"
        );
        let wrong = find("linux-3.1", &[]).unwrap_err().to_string();
        assert!(wrong.contains("did you mean \"linux-3.18\"?"), "{wrong}");
    }
}

//! Readings: named sets of choices for what a paper leaves open. A reading is applied to all of a paper's
//! experiments at once, never to one.
//!
//! A reading is a file of `experiments/readings/` with a `title` and the `papers` that it is a reading of. Its comments
//! give the reason for each choice. A table `[set]` has keys as `--set` takes them, which apply to every experiment. A
//! list `[[replace]]` has choices that apply only to experiments that make another choice so far: `value` is replaced
//! by `with` where the file, or a point of its sweep, has it under `key`.

use crate::document::{ExperimentError, Node, Section, Value, suggestion};
use crate::library::UnknownName;

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
            text: include_str!(concat!("../../../experiments/readings/", $name, ".toml")),
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
    reading!("small-responses"),
    reading!("literal-algorithm-1"),
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
    fn read(&self) -> Result<Node, ExperimentError> {
        Node::parse(self.path, self.text)
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

    /// The values that it replaces.
    ///
    /// # Errors
    /// A mistake in the file.
    pub(crate) fn replacements(&self) -> Result<Vec<Replacement>, ExperimentError> {
        let file = self.read()?;
        let Some(list) = file.get("replace") else {
            return Ok(Vec::new());
        };
        let Value::List(items) = &list.value else {
            let problem = format!("found {}, want [[replace]]", list.kind());
            return Err(ExperimentError::new(
                list.origin.clone(),
                "replace",
                problem,
            ));
        };
        items.iter().map(Replacement::read).collect()
    }

    /// The keys that it sets, and their values.
    ///
    /// # Errors
    /// A mistake in the file.
    pub(crate) fn set(&self) -> Result<Vec<(String, Node)>, ExperimentError> {
        let mut file = self.read()?;
        Ok(match file.remove("set").map(|set| set.value) {
            Some(Value::Table(entries)) => entries,
            _ => Vec::new(),
        })
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

    #[test]
    fn every_reading_can_be_applied_to_every_experiment_of_its_papers() {
        let registry = Registry::standard();
        for reading in READINGS {
            let choices = reading.set().unwrap().len() + reading.replacements().unwrap().len();
            assert!(!reading.title().unwrap().is_empty() && choices > 0);
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
        let wrong = find("linux", &[]).unwrap_err().to_string();
        assert!(wrong.contains("did you mean \"linux-3.18\"?"), "{wrong}");
    }
}

//! The queue disciplines that experiment files can name.
//!
//! Each discipline of Spindle is registered in [`built_in`]. Other crates add theirs with
//! [`Registry::queue`](crate::registry::Registry::queue).

mod codel;
mod plain;
mod two_thresholds;

use spindle_fabric::{Network, NetworkError, Queueing};

use crate::catalog::Catalog;
use crate::document::{ExperimentError, Node, Section, Value};
use crate::link_choice::LinkChoice;

type Result<T> = std::result::Result<T, ExperimentError>;

/// The queue discipline of some ports.
#[derive(Clone, Debug)]
pub struct PortQueue {
    /// The discipline.
    pub queueing: Queueing,
    /// The links of the ports. By default the ports of switches.
    pub links: LinkChoice,
}

impl PortQueue {
    /// Gives the ports of a network the discipline.
    ///
    /// # Errors
    /// A name that matches no link, or ports that have priorities.
    pub fn apply(&self, network: &mut Network) -> std::result::Result<(), NetworkError> {
        let links = self.links.links(network)?;
        network.configure(&links, |spec| spec.queue = Some(self.queueing.clone()))
    }
}

/// Reads a discipline's own keys from the table `[queue]`.
pub type ReadQueue = dyn Fn(&Section<'_>) -> Result<Queueing> + Send + Sync;

/// The queue disciplines that come with Spindle.
pub fn built_in() -> Catalog<ReadQueue> {
    let mut catalog = Catalog::new("queue discipline");
    for register in [
        plain::register_drop_tail,
        plain::register_priorities,
        two_thresholds::register,
        codel::register,
        codel::register_fq,
    ] {
        register(&mut catalog);
    }
    catalog
}

/// Reads the queue disciplines of a scenario: `[queue]`, or several `[[queue]]`, of which a later one replaces
/// an earlier one at the same port.
///
/// # Errors
/// The first mistake.
pub fn read(
    root: &Section<'_>,
    network: &Network,
    catalog: &Catalog<ReadQueue>,
) -> Result<Vec<PortQueue>> {
    let Some(node) = root.node("queue") else {
        return Ok(Vec::new());
    };
    let one = |path: String, node: &Node| {
        let section = Section::new(path, node)?;
        let queue = queue(&section, network, catalog)?;
        let applied = queue.apply(&mut network.clone());
        applied.map_err(|e| section.error("name", e.to_string()))?;
        section.finish()?;
        Ok(queue)
    };
    match &node.value {
        Value::List(items) => items
            .iter()
            .enumerate()
            .map(|(i, n)| one(format!("queue[{}]", i + 1), n))
            .collect(),
        _ => Ok(vec![one("queue".to_owned(), node)?]),
    }
}

fn queue(s: &Section<'_>, network: &Network, catalog: &Catalog<ReadQueue>) -> Result<PortQueue> {
    let _: String = s.need("name")?;
    let Some(entry) = catalog.choice(s, "name")? else {
        return Err(s.error("name", "missing, want the name of a queue discipline"));
    };
    Ok(PortQueue {
        queueing: (entry.item)(s)?,
        links: LinkChoice::read(s, network)?,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use spindle_fabric::{Link, NodeKind};

    use crate::registry::Registry;
    use crate::{Experiment, Overrides, library};

    use super::*;

    const FILE: &str = "transports = [\"tcp\"]\ntraffic = { kind = \"none\" }\ntopology = { name = \"dumbbell\" }\n";

    fn read(registry: &Registry, keys: &str) -> Result<Experiment> {
        let text = format!("{FILE}{keys}");
        library::parse(
            registry,
            ("f.toml", &text),
            Path::new("."),
            &Overrides::default(),
        )
    }

    /// The links of a network with these keys, each with whether it starts at a switch.
    fn links(keys: &str) -> Vec<(Link, bool)> {
        let e = read(&Registry::standard(), keys).unwrap();
        let network = crate::network::network(&e.points[0].scenario).unwrap();
        let links = network.links().iter().map(|l| {
            let kind = network.node(l.from).kind;
            (l.clone(), matches!(kind, NodeKind::Switch(_)))
        });
        links.collect()
    }

    fn error(keys: &str) -> String {
        read(&Registry::standard(), keys).unwrap_err().to_string()
    }

    #[test]
    fn discipline_is_at_the_ports_of_switches_unless_links_are_named() {
        for name in ["drop-tail", "priorities", "codel", "fq-codel"] {
            let links = links(&format!("[queue]\nname = \"{name}\"\n"));
            assert!(
                links
                    .iter()
                    .all(|(l, switch)| l.spec.queue.is_some() == *switch)
            );
        }
        let one = "[queue]\nname = \"codel\"\non = [\"bottleneck\"]\ndirection = \"forward\"\n";
        let with = links(one)
            .into_iter()
            .filter(|(l, _)| l.spec.queue.is_some());
        assert_eq!(with.count(), 1);
    }

    #[test]
    fn later_discipline_replaces_an_earlier_one_at_the_same_port() {
        let two = "[[queue]]\nname = \"drop-tail\"\n[[queue]]\nname = \"fq-codel\"\non = [\"bottleneck\"]\nqueues = 4\n";
        let kinds: Vec<String> = links(two)
            .iter()
            .filter_map(|(l, _)| Some(format!("{:?}", l.spec.queue.as_ref()?)))
            .collect();
        assert_eq!(kinds.iter().filter(|k| *k == "DropTail").count(), 2);
        assert_eq!(kinds.iter().filter(|k| k.contains("queues: 4")).count(), 2);
    }

    #[test]
    fn wrong_keys_of_disciplines_are_reported_with_what_would_be_right() {
        let start = "f.toml:";
        for (keys, wanted) in [
            ("[queue]\n", "queue.name: missing"),
            ("[queue]\nname = \"codell\"\n", "did you mean \"codel\"?"),
            ("[queue]\nname = \"codel\"\nqueues = 3\n", "unknown key"),
            (
                "[queue]\nname = \"codel\"\ninterval = \"0ms\"\n",
                "a time above 0",
            ),
            (
                "[queue]\nname = \"fq-codel\"\nqueues = 70000\n",
                "want 1 to 65536",
            ),
            (
                "[queue]\nname = \"fq-codel\"\nlimit = 0\n",
                "want 1 or more",
            ),
            ("[queue]\nname = \"two-thresholds\"\n", "unimportant_above"),
            (
                "[queue]\nname = \"codel\"\non = [\"Q7\"]\n",
                "no link matches `Q7`",
            ),
        ] {
            let error = error(keys);
            assert!(
                error.starts_with(start) && error.contains(wanted),
                "{error}"
            );
        }
        let both = "[queue]\nname = \"codel\"\n[scenario]\n";
        let text = format!("{FILE}{both}").replace("dumbbell\"", "dumbbell\", priorities = true");
        let result = library::parse(
            &Registry::standard(),
            ("f.toml", &text),
            Path::new("."),
            &Overrides::default(),
        );
        let error = result.unwrap_err().to_string();
        assert!(error.contains("not both"), "{error}");
    }

    #[test]
    fn discipline_of_another_crate_is_found_by_its_name() {
        let own = |s: &Section<'_>| {
            let _: u32 = s.need("depth")?;
            Ok(Queueing::drop_tail())
        };
        let registry = Registry::standard().queue("mine", "of a test", own);
        assert!(read(&registry, "[queue]\nname = \"mine\"\ndepth = 2\n").is_ok());
        let error = read(&registry, "[queue]\nname = \"mine\"\n").unwrap_err();
        assert!(error.to_string().contains("depth"), "{error}");
    }
}

//! Links whose rate and delay change over time, as experiment files describe them.
//!
//! Each model of Spindle is registered in [`built_in`]. Other crates add theirs with
//! [`Registry::link_trace`](crate::registry::Registry::link_trace).

mod generated;
mod steps;

use std::path::Path;

use spindle_fabric::{Network, NetworkError, Trace};

use crate::catalog::Catalog;
use crate::document::{ExperimentError, Node, Section, Value};
use crate::link_choice::LinkChoice;

type Result<T> = std::result::Result<T, ExperimentError>;

/// Links that follow a trace.
#[derive(Clone, Debug)]
pub struct TracedLinks {
    /// How their rate and delay change.
    pub trace: Trace,
    /// The links.
    pub links: LinkChoice,
}

impl TracedLinks {
    /// Makes the links of a network follow the trace.
    ///
    /// # Errors
    /// A name that matches no link.
    pub fn apply(&self, network: &mut Network) -> std::result::Result<(), NetworkError> {
        let links = self.links.links(network)?;
        network.configure(&links, |spec| spec.trace = Some(self.trace.clone()))
    }
}

/// What is known when a trace is read.
#[derive(Clone, Copy, Debug)]
pub struct TracePlace<'a> {
    /// The directory that relative paths start from.
    pub directory: &'a Path,
}

/// Reads a model's own keys from the table `[link_trace]`.
pub type ReadLinkTrace = dyn Fn(&Section<'_>, &TracePlace<'_>) -> Result<Trace> + Send + Sync;

/// The models that come with Spindle.
pub fn built_in() -> Catalog<ReadLinkTrace> {
    let mut catalog = Catalog::new("link trace");
    for register in [
        steps::register,
        generated::register_lte,
        generated::register_leo,
    ] {
        register(&mut catalog);
    }
    catalog
}

/// Reads the traces of a scenario: `[link_trace]`, or several `[[link_trace]]`.
///
/// # Errors
/// The first mistake.
pub fn read(
    root: &Section<'_>,
    network: &Network,
    place: &TracePlace<'_>,
    catalog: &Catalog<ReadLinkTrace>,
) -> Result<Vec<TracedLinks>> {
    let Some(node) = root.node("link_trace") else {
        return Ok(Vec::new());
    };
    let one = |path: String, node: &Node| {
        let section = Section::new(path, node)?;
        let _: String = section.need("model")?;
        let Some(entry) = catalog.choice(&section, "model")? else {
            return Err(section.error("model", "missing, want the name of a link trace"));
        };
        let traced = TracedLinks {
            trace: (entry.item)(&section, place)?,
            links: LinkChoice::read(&section, network)?,
        };
        if traced.links.on.is_empty() {
            return Err(section.error("on", "missing, want links such as [\"bottleneck\"]"));
        }
        section.finish()?;
        Ok(traced)
    };
    match &node.value {
        Value::List(items) => items
            .iter()
            .enumerate()
            .map(|(i, n)| one(format!("link_trace[{}]", i + 1), n))
            .collect(),
        _ => Ok(vec![one("link_trace".to_owned(), node)?]),
    }
}

#[cfg(test)]
mod tests {
    use crate::registry::Registry;
    use crate::{Experiment, Overrides, library};

    use super::*;

    const FILE: &str = "transports = [\"tcp\"]\ntraffic = { kind = \"none\" }\ntopology = { name = \"dumbbell\" }\n";

    fn read_in(directory: &Path, keys: &str) -> Result<Experiment> {
        let text = format!("{FILE}[link_trace]\n{keys}");
        let registry = Registry::standard();
        library::parse(
            &registry,
            ("f.toml", &text),
            directory,
            &Overrides::default(),
        )
    }

    /// The traces of the links of a network with these keys, as text.
    fn traces(directory: &Path, keys: &str) -> Vec<String> {
        let e = read_in(directory, keys).unwrap();
        let network = crate::network::network(&e.points[0].scenario).unwrap();
        let traces = network.links().iter().filter_map(|l| l.spec.trace.as_ref());
        traces.map(|t| format!("{t:?}")).collect()
    }

    #[test]
    fn steps_in_the_file_in_a_csv_text_and_in_a_csv_file_are_the_same() {
        let here = Path::new(".");
        let inline = "model = \"steps\"\non = [\"bottleneck\"]\nperiod = \"9s\"\nsteps = [\
                      { at = \"0s\", rate = \"5Mbps\", delay = \"20ms\" }, \
                      { at = \"2s\", rate = \"0bps\", delay = \"30ms\" }]\n";
        let csv = "at,rate,delay\n0s,5Mbps,20ms\n2s,0bps,30ms\n";
        let text = format!(
            "model = \"steps\"\non = [\"bottleneck\"]\nperiod = \"9s\"\nsteps = {{ csv = {csv:?} }}\n"
        );
        let directory = std::env::temp_dir().join(format!("spindle-trace-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("t.csv"), csv).unwrap();
        let file =
            "model = \"steps\"\non = [\"bottleneck\"]\nperiod = \"9s\"\nsteps = \"file:t.csv\"\n";
        let expected = traces(here, inline);
        assert_eq!(expected.len(), 2, "both directions");
        assert_eq!(traces(here, &text), expected);
        assert_eq!(traces(&directory, file), expected);
        let whole = format!("{FILE}[link_trace]\n{file}");
        let rewritten =
            crate::file::rewrite("f.toml", &whole, &Overrides::default(), &directory).unwrap();
        std::fs::remove_dir_all(&directory).unwrap();
        assert!(rewritten.contains("csv = "), "{rewritten}");
    }

    #[test]
    fn wrong_keys_of_traces_are_reported_with_what_would_be_right() {
        for (keys, wanted) in [
            ("on = [\"bottleneck\"]\n", "link_trace.model: missing"),
            ("model = \"leo-like\"\n", "link_trace.on: missing"),
            ("model = \"lte\"\non = [\"bottleneck\"]\n", "want one of"),
            (
                "model = \"lte-like\"\non = [\"bottleneck\"]\nlowest = 0\n",
                "a share above 0",
            ),
            (
                "model = \"lte-like\"\non = [\"bottleneck\"]\nstep = \"0s\"\n",
                "a time above 0",
            ),
            (
                "model = \"leo-like\"\non = [\"bottleneck\"]\nlongest_pause = \"15s\"\n",
                "below 15s",
            ),
            (
                "model = \"steps\"\non = [\"bottleneck\"]\nsteps = \"x.csv\"\n",
                "file:PATH",
            ),
            (
                "model = \"steps\"\non = [\"bottleneck\"]\nsteps = { csv = \"0s\" }\n",
                "the header at,rate,delay",
            ),
            (
                "model = \"steps\"\non = [\"bottleneck\"]\nsteps = [{ at = \"0s\", rate = \"1Mbps\" }]\n",
                "delay",
            ),
        ] {
            let error = read_in(Path::new("."), keys).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }
}

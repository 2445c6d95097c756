//! `trace`: flows from a file, such as a trace of a real network.

mod read;

use std::fmt;
use std::sync::Arc;

use spindle_units::Duration;

use super::plan::{flow, sort_by_start};
use super::read::observe;
use super::{
    Ask, Observe, Plan, PlanError, PlanRequest, Result, Traffic, TrafficKind, TrafficPlace,
};
use crate::catalog::Catalog;
use crate::document::Section;
use crate::rng::hash64;
use crate::text_file::TextFile;
use read::TraceFlow;

/// Largest size of a trace file in bytes (our choice; more than the largest number of flows needs).
const MOST_BYTES: u64 = 64 << 20;

/// Flows at given times from host to host. Each flow has its own connection, on which the source sends.
#[derive(Clone, PartialEq)]
pub struct Trace {
    /// The flows, ordered by time.
    flows: Arc<[TraceFlow]>,
    /// How many times faster the flows start than in the file.
    speedup: f64,
    /// When the time of a flow begins: when the connection is opened, or once it is established.
    ask: Ask,
    /// What is observed of each flow.
    observe: Observe,
}

/// The text has a hash of the flows, because there may be a million of them.
impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.flows.iter();
        let words = words.flat_map(|w| {
            [
                w.start.as_nanos(),
                u64::from(w.source),
                u64::from(w.destination),
                w.bytes,
            ]
        });
        let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        f.debug_struct("Trace")
            .field("flows", &self.flows.len())
            .field("hash", &hash64(&[&bytes]))
            .field("speedup", &self.speedup)
            .field("ask", &self.ask)
            .field("observe", &self.observe)
            .finish()
    }
}

impl Traffic for Trace {
    fn size(&self) -> String {
        format!("{} flows", self.flows.len())
    }

    fn plan(&self, _: &PlanRequest<'_>) -> std::result::Result<Plan, PlanError> {
        let planned = self.flows.iter().map(|f| {
            let start = f.start.as_nanos() as f64 / self.speedup;
            let start = Duration::from_nanos(start.round() as u64);
            flow(start, (f.source, f.destination), f.bytes)
        });
        let mut flows: Vec<_> = planned.collect();
        sort_by_start(&mut flows);
        Ok(Plan {
            ask: self.ask,
            push: true,
            observe: self.observe,
            flows,
            ..Plan::default()
        })
    }

    fn observes(&self, what: &str) -> bool {
        self.observe.has(what)
    }

    fn at_load(&self, factor: f64) -> Option<Arc<dyn Traffic>> {
        Some(Arc::new(Self {
            speedup: self.speedup * factor,
            ..self.clone()
        }))
    }

    fn only_in_lab(&self) -> Option<super::OnlyInLab> {
        let remedy = "only the lab has transfers from a file; want requests, incast or mix";
        Some(super::OnlyInLab::new("traffic", "trace", remedy))
    }
}

struct Kind;

impl TrafficKind for Kind {
    fn read(&self, s: &Section<'_>, place: &TrafficPlace<'_>) -> Result<Arc<dyn Traffic>> {
        let file = TextFile::read(s, place.directory, MOST_BYTES)?;
        let flows = read::parse(&file.text, place.network)
            .map_err(|e| s.error("path", format!("{}:{e}", file.name)))?;
        let speedup: f64 = s.or("speedup", 1.0)?;
        // The range is our choice. It is the ratio of a second and a microsecond.
        if !(1e-6..=1e6).contains(&speedup) {
            let problem = format!("found {speedup}, want a factor from 1e-6 to 1e6");
            return Err(s.error("speedup", problem));
        }
        let ask = [("opening", Ask::Opening), ("at-once", Ask::AtOnce)];
        Ok(Arc::new(Trace {
            flows: flows.into(),
            speedup,
            ask: s.choice("ask", &ask)?.unwrap_or_default(),
            observe: observe(s)?,
        }))
    }
}

pub(super) fn register(catalog: &mut Catalog<dyn TrafficKind>) {
    let summary = "flows from a CSV file of time, source, destination and size";
    catalog.add("trace", summary, Arc::new(Kind));
}

#[cfg(test)]
mod tests {
    use spindle_units::Duration;

    use crate::file::Overrides;
    use crate::library;
    use crate::registry::Registry;
    use crate::rng::Streams;
    use crate::traffic::{Plan, Start};

    /// The plan of a file with this trace and these keys, or the error.
    fn plan(csv: &str, keys: &str) -> std::result::Result<(Plan, u64), String> {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("flows.csv"), csv).unwrap();
        let text = format!(
            "transports = [\"tcp\"]\ntopology = {{ name = \"fuso-testbed\" }}\n\
             [traffic]\nkind = \"trace\"\npath = \"flows.csv\"\n{keys}"
        );
        let file = ("f.toml", text.as_str());
        let registry = Registry::standard();
        let e = library::parse(&registry, file, directory.path(), &Overrides::default())
            .map_err(|e| e.to_string())?;
        let hosts: Vec<String> = (1..=6).map(|n| format!("H{n}")).collect();
        let point = &e.points[0];
        let plan = point.scenario.plan(&hosts, &Streams::new(1, 0), 0, 1);
        Ok((plan.map_err(|e| e.to_string())?, point.hash))
    }

    #[test]
    fn flows_of_a_trace_are_planned_in_the_order_of_their_times() {
        let csv = "time_ms,source,destination,size_KB\n5,H1,H4,20\n1.5,1,5,70\n";
        let (plan, _) = plan(csv, "").unwrap();
        assert!(plan.push);
        let flows = plan
            .flows
            .iter()
            .map(|f| (f.start, f.client, f.server, f.bytes));
        let at = |us| Start::At(Duration::from_micros(us));
        let expected = [(at(1500), 1, 5, 70_000), (at(5000), 0, 3, 20_000)];
        assert!(flows.eq(expected));
        assert_eq!(plan.flows[1].group, 1);
    }

    #[test]
    fn speedup_divides_the_times_of_a_trace() {
        let csv = "time,source,destination,size\n2,H1,H4,20\n";
        let (plan, _) = plan(csv, "speedup = 1000").unwrap();
        assert_eq!(plan.flows[0].start, Start::At(Duration::from_millis(2)));
        assert!(
            super::tests::plan(csv, "speedup = 0")
                .unwrap_err()
                .contains("traffic.speedup")
        );
    }

    #[test]
    fn other_flows_in_the_file_give_the_point_another_hash() {
        let hash = |size: u32| {
            let csv = format!("time,source,destination,size\n2,H1,H4,{size}\n");
            plan(&csv, "").unwrap().1
        };
        assert_eq!(hash(20), hash(20));
        assert_ne!(hash(20), hash(21));
    }

    #[test]
    fn mistake_in_a_trace_is_reported_with_file_and_line() {
        let e = plan("time,source,destination,size\n2,H1,H9,5\n", "").unwrap_err();
        assert!(
            e.contains("f.toml:5: traffic.path") && e.contains("flows.csv:2: "),
            "{e}"
        );
        let e = plan("", "path = \"none.csv\"").unwrap_err();
        assert!(e.contains("duplicate key"), "{e}");
    }
}

//! The page of the arena: for each network, the transports by their tail with their price, and whether the order is
//! the same with other seeds.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::RegisterError;
use crate::format::Quantity;
use crate::{Arena, ArenaNetwork, ArenaRow, Estimate};

/// A file of `reproduce --json` with a part of the arena.
#[derive(Deserialize)]
struct ArenaFile {
    scale: String,
    variation: Option<String>,
    arena: Option<Arena>,
    experiments: Vec<Version>,
}

#[derive(Deserialize)]
struct Version {
    version: String,
}

/// The networks of one file.
#[derive(Debug)]
struct Part {
    /// `quick` or `full`.
    scale: String,
    version: String,
    /// It has other seeds.
    varied: bool,
    networks: Vec<ArenaNetwork>,
}

impl Part {
    /// The scale and the version.
    fn made_by(&self) -> String {
        format!("`--{}`, version {}", self.scale, self.version)
    }
}

/// Results of the arena from files of `reproduce --json`.
#[derive(Debug, Default)]
pub struct ArenaPage {
    parts: Vec<Part>,
}

impl ArenaPage {
    /// Reads files. The page shows those of the first file's scale. Those of `--vary other-seeds` are compared with the
    /// others of their scale.
    ///
    /// # Errors
    /// [`RegisterError`] if a file cannot be read, or has no results of the arena.
    pub fn read(files: &[PathBuf]) -> Result<Self, RegisterError> {
        let parts = files.iter().map(|path| Self::part(path));
        Ok(Self {
            parts: parts.collect::<Result<_, _>>()?,
        })
    }

    fn part(path: &Path) -> Result<Part, RegisterError> {
        let wrong = |problem: String| RegisterError::Arena {
            path: path.to_owned(),
            problem,
        };
        let text = fs::read_to_string(path).map_err(|e| wrong(e.to_string()))?;
        let file: ArenaFile = serde_json::from_str(&text).map_err(|e| wrong(e.to_string()))?;
        let arena = file
            .arena
            .ok_or_else(|| wrong("has no results of the arena".to_owned()))?;
        let first = file.experiments.into_iter().next();
        Ok(Part {
            scale: file.scale,
            version: first.map(|e| e.version).unwrap_or_default(),
            varied: file.variation.is_some(),
            networks: arena.networks,
        })
    }

    /// The parts with the seeds of the experiments, and with the scale of `like`.
    fn of_scale<'a>(&'a self, like: Option<&'a Part>) -> impl Iterator<Item = &'a Part> {
        let scale = like.map(|p| p.scale.as_str());
        self.parts
            .iter()
            .filter(move |p| !p.varied && Some(p.scale.as_str()) == scale)
    }

    /// The parts that the page shows.
    fn shown(&self) -> impl Iterator<Item = &Part> {
        self.of_scale(self.parts.iter().find(|p| !p.varied))
    }

    /// The page as Markdown. Networks with the same transports are in one table.
    pub fn markdown(&self) -> String {
        let mut text = format!(
            "# The arena\n\nWritten by `spindle register --arena` from `spindle reproduce arena --json` ({}). `spindle reproduce arena \
             --out DIR` writes all values\nwith their intervals, and the runs, seeds and commands behind them. What each network is: \
             [experiments/arena](../../experiments/README.md).\n\n\
             *Tail*: p99; p90 where some transport has fewer than 5000 flows; the longest time where a path dies. It is shown over the lowest \
             tail in the same\nruns. In bold: not told apart from it. In italics: not told apart from it either, but the 95 % interval of the tail, or of its \
             ratio, spans a factor\nof 2 or more, so that little is known. In brackets: flows were given up.\n\n\
             *Price*, as means over the points of a network. *Extra*: bytes of short flows that were sent twice, in %. *Long*: goodput of long flows over \
             that\nwith the first transport. *Bystanders*: p90 of plain TCP's flows next to the transport over that next to the first one.\n",
            self.shown().next().map(Part::made_by).unwrap_or_default()
        );
        for group in self.groups() {
            let _ = write!(text, "\n## {}\n", names(&group));
            tails(&mut text, &group);
            prices(&mut text, &group);
        }
        self.seeds(&mut text);
        text
    }

    /// The networks, grouped by their transports.
    fn groups(&self) -> Vec<Vec<&ArenaNetwork>> {
        let names = |n: &ArenaNetwork| -> Vec<String> {
            n.transports.iter().map(|r| r.transport.clone()).collect()
        };
        let mut groups: Vec<Vec<&ArenaNetwork>> = Vec::new();
        for network in self.shown().flat_map(|p| &p.networks) {
            match groups.iter_mut().find(|g| names(g[0]) == names(network)) {
                Some(group) => group.push(network),
                None => groups.push(vec![network]),
            }
        }
        groups
    }

    /// Whether the order is the same with other seeds.
    fn seeds(&self, text: &mut String) {
        let _ = write!(text, "\n## Other seeds\n\n");
        let mut others = self.parts.iter().filter(|p| p.varied).peekable();
        let Some(first) = others.peek().copied() else {
            let _ = writeln!(text, "Other seeds were not run.");
            return;
        };
        let networks = self.of_scale(Some(first)).flat_map(|p| &p.networks);
        let others: Vec<&ArenaNetwork> = others.flat_map(|p| &p.networks).collect();
        let (mut all, mut compared) = (0, 0);
        let mut changes = String::new();
        for network in networks {
            all += 1;
            let same = |n: &&&ArenaNetwork| {
                (&n.id, &n.set, &n.tail) == (&network.id, &network.set, &network.tail)
            };
            let Some(other) = others.iter().find(same) else {
                continue;
            };
            compared += 1;
            for (a, b) in reversed(network, other) {
                let _ = writeln!(changes, "- {}: `{a}` and `{b}`", network.heading());
            }
        }
        if compared == 0 {
            let _ = writeln!(
                text,
                "Other seeds were run at another scale only ({}).",
                first.made_by()
            );
            return;
        }
        let _ = write!(
            text,
            "In {compared} of {all} networks, other seeds were run ({}). ",
            first.made_by()
        );
        let _ = match changes.is_empty() {
            true => writeln!(
                text,
                "No two transports with separate intervals change places."
            ),
            false => writeln!(
                text,
                "Of the transports with separate intervals, these change places:\n\n{changes}"
            ),
        };
    }
}

/// The names of a group's networks, each once.
fn names(group: &[&ArenaNetwork]) -> String {
    let mut names: Vec<&str> = group.iter().map(|n| short(&n.id)).collect();
    names.dedup();
    names.join(", ")
}

/// The name of an experiment without the prefix that all have.
fn short(id: &str) -> &str {
    id.trim_start_matches("arena-")
}

/// The first cell of a row: the experiment and the point.
fn place(network: &ArenaNetwork) -> String {
    let id = short(&network.id);
    match network.set.as_str() {
        "" => id.to_owned(),
        set => format!("{id}, {set}"),
    }
}

fn head(text: &mut String, first: &str, rows: &[ArenaRow]) {
    let names: Vec<&str> = rows.iter().map(|r| r.transport.as_str()).collect();
    let _ = writeln!(text, "| {first} | {} |", names.join(" | "));
    let _ = writeln!(text, "|---|{}", "---|".repeat(names.len()));
}

/// Networks in which no tail is longer than this many times the lowest have no row.
const CLOSE: f64 = 1.03;

/// The tails of each network over the lowest one.
fn tails(text: &mut String, group: &[&ArenaNetwork]) {
    let _ = write!(text, "\n**Tail**\n\n");
    head(text, "network; lowest tail", &group[0].transports);
    let (level, apart): (Vec<&ArenaNetwork>, Vec<&ArenaNetwork>) = group
        .iter()
        .partition(|n| n.transports.iter().all(is_level));
    for network in apart {
        let best = ranked(network).into_iter().next();
        let best = best.and_then(|row| row.tail_us);
        let tail = &network.tail;
        let best = best.map_or_else(String::new, |e| Quantity::Micros.show(e.value));
        let cells: Vec<String> = network.transports.iter().map(times).collect();
        let place = place(network);
        let _ = writeln!(text, "| {place}; {tail} {best} | {} |", cells.join(" | "));
    }
    if !level.is_empty() {
        let places: Vec<String> = level.into_iter().map(place).collect();
        let _ = writeln!(text, "\nAll are level in: {}.", places.join("; "));
    }
}

/// Whether the transport's tail is not told apart from the lowest, or hardly longer, and is known well enough. All
/// flows completed.
fn is_level(row: &ArenaRow) -> bool {
    let close = row.over_best.is_some_and(|over| over.value < CLOSE);
    row.completed >= 1.0 && (close || at_best(row)) && !is_uncertain(row)
}

/// Whether the interval of the transport's tail, or of its ratio to the lowest, spans a factor of 2 or more.
fn is_uncertain(row: &ArenaRow) -> bool {
    let either = [row.tail_us, row.over_best];
    either.iter().flatten().any(Estimate::is_wide)
}

/// How many times the lowest tail a transport's is.
fn times(row: &ArenaRow) -> String {
    let Some(over) = row.over_best else {
        return String::new();
    };
    let shown = match over.value {
        v if v < 2.0 => format!("{v:.2}"),
        v if v < 10.0 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    };
    match (row.completed < 1.0, at_best(row)) {
        (true, _) => format!("({shown})"),
        (false, true) if is_uncertain(row) => format!("*{shown}*"),
        (false, true) => format!("**{shown}**"),
        (false, false) => shown,
    }
}

/// A part of the price.
struct Price {
    name: &'static str,
    of: fn(&ArenaRow) -> Option<Estimate>,
    /// Whether it is shown as a ratio to that of the first transport.
    is_ratio: bool,
}

impl Price {
    const ALL: [Self; 3] = [
        Self {
            name: "extra",
            of: |r| r.extra_load,
            is_ratio: false,
        },
        Self {
            name: "long",
            of: |r| r.long_bps,
            is_ratio: true,
        },
        Self {
            name: "bystanders",
            of: |r| r.bystanders_us,
            is_ratio: true,
        },
    ];

    /// The value of a transport at a point. `None` if there is none.
    fn at(&self, network: &ArenaNetwork, column: usize) -> Option<f64> {
        let value = (self.of)(&network.transports[column])?.value;
        let first = (self.of)(&network.transports[0])?.value;
        match self.is_ratio {
            true => Some(value / first).filter(|v| v.is_finite()),
            false => Some(100.0 * value),
        }
    }

    /// The cells of a row: the means over these points. `None` if a transport has no value.
    fn cells(&self, points: &[&ArenaNetwork]) -> Option<String> {
        let show = |v: f64| match self.is_ratio {
            true => format!("{v:.2}"),
            false if v == 0.0 => "0".to_owned(),
            false => format!("{v:.1}"),
        };
        let mean = |column: usize| {
            let values: Option<Vec<f64>> = points.iter().map(|n| self.at(n, column)).collect();
            values.map(|v| show(v.iter().sum::<f64>() / v.len() as f64))
        };
        let columns = points.first()?.transports.len();
        let cells: Option<Vec<String>> = (0..columns).map(mean).collect();
        cells.map(|c| c.join(" | "))
    }
}

/// The price in each experiment, averaged over its points.
fn prices(text: &mut String, group: &[&ArenaNetwork]) {
    let mut ids: Vec<&str> = group.iter().map(|n| n.id.as_str()).collect();
    ids.dedup();
    let mut rows = String::new();
    for price in Price::ALL {
        for id in &ids {
            let points: Vec<&ArenaNetwork> =
                group.iter().copied().filter(|n| n.id == *id).collect();
            if let Some(cells) = price.cells(&points) {
                let _ = writeln!(rows, "| {}: {} | {cells} |", price.name, short(id));
            }
        }
    }
    if rows.is_empty() {
        return;
    }
    text.push_str("\n**Price**\n\n");
    head(text, "network", &group[0].transports);
    text.push_str(&rows);
}

/// Whether the transport's tail is not told apart from the lowest.
fn at_best(row: &ArenaRow) -> bool {
    let Some(over) = row.over_best else {
        return false;
    };
    over.value <= 1.0 || over.ci95.is_some_and(|(low, _)| low <= 1.0)
}

/// The transports, the lowest tail first. Those that gave up flows come after all others.
fn ranked(network: &ArenaNetwork) -> Vec<&ArenaRow> {
    let tail = |row: &ArenaRow| row.tail_us.map_or(f64::INFINITY, |e| e.value);
    let mut rows: Vec<&ArenaRow> = network.transports.iter().collect();
    rows.sort_by(|a, b| {
        let complete = (a.completed < 1.0).cmp(&(b.completed < 1.0));
        complete.then(tail(a).total_cmp(&tail(b)))
    });
    rows
}

/// The pairs of transports whose tails' intervals are apart in both results, but in the opposite order.
fn reversed<'a>(network: &'a ArenaNetwork, other: &ArenaNetwork) -> Vec<(&'a str, &'a str)> {
    let rows = ranked(network);
    let tail = |of: &ArenaNetwork, name: &str| {
        let row = of.transports.iter().find(|r| r.transport == name)?;
        row.tail_us
    };
    let apart = |of: &ArenaNetwork, low: &str, high: &str| {
        let (Some(low), Some(high)) = (tail(of, low), tail(of, high)) else {
            return false;
        };
        low.is_apart_from(&high) && low.value < high.value
    };
    let mut pairs = Vec::new();
    for (i, a) in rows.iter().enumerate() {
        for b in &rows[i + 1..] {
            let (a, b) = (a.transport.as_str(), b.transport.as_str());
            if apart(network, a, b) && apart(other, b, a) {
                pairs.push((a, b));
            }
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(tails: &[(&str, f64)], seed: u64) -> ArenaNetwork {
        let row = |(name, us): &(&str, f64)| ArenaRow {
            transport: (*name).to_owned(),
            tail_us: Some(Estimate::new(*us, us * 0.9, us * 1.1)),
            over_best: Some(Estimate::new(us / 100.0, us / 110.0, us / 90.0)),
            extra_load: Some(Estimate::exact(0.25)),
            completed: if *name == "lost" { 0.9 } else { 1.0 },
            ..ArenaRow::default()
        };
        ArenaNetwork {
            id: "arena-incast".to_owned(),
            title: "Incast".to_owned(),
            set: "traffic.fanout 16".to_owned(),
            tail: "p90".to_owned(),
            seeds: (seed, 10),
            transports: tails.iter().map(row).collect(),
            ..ArenaNetwork::default()
        }
    }

    fn page(others: &[(&str, f64)]) -> String {
        let tails = [("tcp", 300.0), ("fuso", 100.0), ("rack", 105.0)];
        let page = ArenaPage {
            parts: vec![
                part("quick", false, network(&tails, 1)),
                part("quick", true, network(others, 1001)),
            ],
        };
        page.markdown()
    }

    fn part(scale: &str, varied: bool, network: ArenaNetwork) -> Part {
        Part {
            scale: scale.to_owned(),
            version: "1".to_owned(),
            varied,
            networks: vec![network],
        }
    }

    #[test]
    fn other_seeds_are_compared_at_their_own_scale() {
        let tails = [("tcp", 300.0), ("fuso", 100.0)];
        let mut full = network(&[("tcp", 100.0), ("fuso", 300.0)], 1);
        full.tail = "p99".to_owned();
        let page = ArenaPage {
            parts: vec![
                part("full", false, full),
                part("quick", false, network(&tails, 1)),
                part("quick", true, network(&tails, 1001)),
            ],
        };
        let text = page.markdown();
        assert!(text.contains("(`--full`, version 1)"), "{text}");
        assert!(text.contains("| incast, traffic.fanout 16; p99 "), "{text}");
        assert!(
            !text.contains("| incast, traffic.fanout 16; p90 "),
            "{text}"
        );
        let same = "In 1 of 1 networks, other seeds were run (`--quick`, version 1). No two";
        assert!(text.contains(same), "{text}");
    }

    #[test]
    fn tails_are_shown_over_the_lowest_and_those_not_told_apart_from_it_in_bold() {
        let text = page(&[("tcp", 300.0), ("fuso", 110.0), ("rack", 100.0)]);
        let row =
            "| incast, traffic.fanout 16; p90 100\u{202f}\u{b5}s | 3.0 | **1.00** | **1.05** |";
        assert!(text.contains(row), "{text}");
        assert!(
            text.contains("| extra: incast | 25.0 | 25.0 | 25.0 |"),
            "{text}"
        );
        assert!(!text.contains("| long: "), "no long flows: {text}");
        let same = "No two transports with separate intervals change places";
        assert!(text.contains(same), "{text}");
    }

    #[test]
    fn other_seeds_of_another_scale_prove_nothing() {
        let tails = [("tcp", 300.0), ("fuso", 100.0)];
        let page = ArenaPage {
            parts: vec![
                part("full", false, network(&tails, 1)),
                part("quick", true, network(&tails, 1001)),
            ],
        };
        let text = page.markdown();
        let said = "Other seeds were run at another scale only (`--quick`, version 1).";
        assert!(text.contains(said), "{text}");
        assert!(!text.contains("No two transports"), "{text}");
    }

    #[test]
    fn value_whose_interval_spans_a_factor_of_two_is_in_italics_and_never_in_bold() {
        let mut wide = network(&[("tcp", 150.0), ("fuso", 100.0), ("rack", 105.0)], 1);
        wide.transports[0].over_best = Some(Estimate::new(1.5, 0.9, 1.8));
        wide.transports[1].tail_us = Some(Estimate::new(100.0, 60.0, 119.0));
        wide.transports[2].tail_us = Some(Estimate::new(105.0, 60.0, 120.0));
        let page = |network| ArenaPage {
            parts: vec![part("quick", false, network)],
        };
        let text = page(wide.clone()).markdown();
        let row = "p90 100\u{202f}\u{b5}s | *1.50* | **1.00** | *1.05* |";
        assert!(text.contains(row), "{text}");
        // A wide interval does not make transports level.
        wide.transports.remove(0);
        let text = page(wide).markdown();
        assert!(text.contains("| **1.00** | *1.05* |"), "{text}");
        assert!(!text.contains("level in"), "{text}");
    }

    #[test]
    fn transport_that_gave_up_flows_is_in_brackets_and_not_the_lowest() {
        let lost = network(&[("lost", 50.0), ("fuso", 100.0)], 1);
        let page = ArenaPage {
            parts: vec![part("quick", false, lost)],
        };
        let text = page.markdown();
        let row = "p90 100\u{202f}\u{b5}s | (0.50) | **1.00** |";
        assert!(text.contains(row), "{text}");
    }

    #[test]
    fn pairs_that_change_places_beyond_their_intervals_are_named() {
        let text = page(&[("tcp", 100.0), ("fuso", 300.0), ("rack", 295.0)]);
        assert!(
            text.contains("16: `fuso` and `tcp`\n") && text.contains("16: `rack` and `tcp`\n"),
            "{text}"
        );
    }
}

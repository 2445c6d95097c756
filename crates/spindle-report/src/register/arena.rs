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

/// Results of the arena from files of `reproduce --json`.
#[derive(Debug, Default)]
pub struct ArenaPage {
    /// The networks, as the experiments have them.
    networks: Vec<ArenaNetwork>,
    /// The same networks with other seeds, if they were run.
    others: Vec<ArenaNetwork>,
    /// The scale and the version of the first file.
    made_by: String,
}

impl ArenaPage {
    /// Reads files. Those of `--vary other-seeds` are compared with the others.
    ///
    /// # Errors
    /// [`RegisterError`] if a file cannot be read, or has no results of the arena.
    pub fn read(files: &[PathBuf]) -> Result<Self, RegisterError> {
        let mut page = Self::default();
        for path in files {
            page.add(path)?;
        }
        Ok(page)
    }

    fn add(&mut self, path: &Path) -> Result<(), RegisterError> {
        let wrong = |problem: String| RegisterError::Arena {
            path: path.to_owned(),
            problem,
        };
        let text = fs::read_to_string(path).map_err(|e| wrong(e.to_string()))?;
        let file: ArenaFile = serde_json::from_str(&text).map_err(|e| wrong(e.to_string()))?;
        let arena = file
            .arena
            .ok_or_else(|| wrong("has no results of the arena".to_owned()))?;
        match file.variation {
            None => self.networks.extend(arena.networks),
            Some(_) => self.others.extend(arena.networks),
        }
        if let Some(first) = file.experiments.first().filter(|_| self.made_by.is_empty()) {
            self.made_by = format!("`--{}`, version {}", file.scale, first.version);
        }
        Ok(())
    }

    /// The page as Markdown.
    pub fn markdown(&self) -> String {
        let mut text = format!(
            "# The arena\n\nWritten by `spindle register --arena` from results of `spindle reproduce arena --json` ({}). For each network, the \
             transports by\ntheir tail: p99, or p90 where some transport has fewer than 5000 flows. *Times* is the tail over the lowest one in the \
             same runs; in bold, it is\nnot told apart from 1. *Extra*: bytes that short flows send twice. *Long*: goodput of long flows. \
             *Bystanders*: p90 of flows with plain TCP in the same\nnetwork. *Queues*: mean wait of short flows' packets. Intervals are of 95 %.\n",
            self.made_by
        );
        let mut id = "";
        for network in &self.networks {
            if network.id != id {
                let _ = write!(text, "\n## {}\n", network.title);
                id = &network.id;
            }
            self.section(&mut text, network);
        }
        text
    }

    fn section(&self, text: &mut String, network: &ArenaNetwork) {
        let (first, seeds) = network.seeds;
        let set = match network.set.as_str() {
            "" => String::new(),
            set => format!("**{set}.** "),
        };
        let _ = writeln!(
            text,
            "\n{set}`spindle reproduce {}`, seeds {first} to {}. {}\n",
            network.id,
            first + seeds - 1,
            self.order(network)
        );
        let tail = if network.tail_is_p99 { "p99" } else { "p90" };
        let shown: Vec<Column> = Column::ALL
            .into_iter()
            .filter(|c| network.transports.iter().any(|r| c.of(r).is_some()))
            .collect();
        let titles: Vec<&str> = shown.iter().map(|c| c.title).collect();
        let _ = writeln!(
            text,
            "| transport | {tail} | times | {} |",
            titles.join(" | ")
        );
        let _ = writeln!(text, "|---|---|---|{}", "---|".repeat(shown.len()));
        for row in ranked(network) {
            let over = row.over_best;
            let times = match over {
                Some(o) if at_best(row) => format!("**{}**", Quantity::Times.show(o.value)),
                Some(o) => Quantity::Times.show(o.value),
                None => String::new(),
            };
            let cells: Vec<String> = shown
                .iter()
                .map(|c| {
                    c.of(row)
                        .map_or_else(String::new, |e| c.quantity.show(e.value))
                })
                .collect();
            let tail = network.tail(row);
            let tail = tail.map_or_else(String::new, |e| with_interval(Quantity::Micros, e));
            let given_up = match row.completed < 1.0 {
                true => format!(
                    ", {} given up",
                    Quantity::Fraction.show(1.0 - row.completed)
                ),
                false => String::new(),
            };
            let _ = writeln!(
                text,
                "| `{}` | {tail}{given_up} | {times} | {} |",
                row.transport,
                cells.join(" | ")
            );
        }
    }

    /// Whether the order is the same with other seeds.
    fn order(&self, network: &ArenaNetwork) -> String {
        let same = |n: &&ArenaNetwork| n.id == network.id && n.set == network.set;
        let Some(other) = self.others.iter().find(same) else {
            return "Other seeds were not run.".to_owned();
        };
        let reversed = reversed(network, other);
        match reversed.as_slice() {
            [] => "With other seeds no two transports with separate intervals change places."
                .to_owned(),
            pairs => {
                let pairs: Vec<String> = pairs
                    .iter()
                    .map(|(a, b)| format!("`{a}` and `{b}`"))
                    .collect();
                format!(
                    "With other seeds these change places: {}.",
                    pairs.join(", ")
                )
            }
        }
    }
}

/// A column of the price.
#[derive(Clone, Copy)]
struct Column {
    title: &'static str,
    quantity: Quantity,
    of: fn(&ArenaRow) -> Option<Estimate>,
}

impl Column {
    const ALL: [Self; 5] = [
        Self {
            title: "mean",
            quantity: Quantity::Micros,
            of: |r| r.mean_us,
        },
        Self {
            title: "extra",
            quantity: Quantity::Fraction,
            of: |r| r.extra_load,
        },
        Self {
            title: "long",
            quantity: Quantity::BitsPerSecond,
            of: |r| r.long_bps,
        },
        Self {
            title: "bystanders",
            quantity: Quantity::Micros,
            of: |r| r.bystanders_us,
        },
        Self {
            title: "queues",
            quantity: Quantity::Micros,
            of: |r| r.queueing_us,
        },
    ];

    fn of(&self, row: &ArenaRow) -> Option<Estimate> {
        (self.of)(row)
    }
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
    let tail = |row: &ArenaRow| network.tail(row).map_or(f64::INFINITY, |e| e.value);
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
        of.tail(row)
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

fn with_interval(quantity: Quantity, e: Estimate) -> String {
    match e.ci95 {
        None => quantity.show(e.value),
        Some(ends) => format!(
            "{} ({})",
            quantity.show(e.value),
            quantity.show_interval(ends)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(tails: &[(&str, f64)], seed: u64) -> ArenaNetwork {
        let row = |(name, us): &(&str, f64)| ArenaRow {
            transport: (*name).to_owned(),
            p90_us: Some(Estimate::new(*us, us * 0.9, us * 1.1)),
            over_best: Some(Estimate::new(us / 100.0, us / 110.0, us / 90.0)),
            extra_load: Some(Estimate::exact(0.25)),
            completed: if *name == "lost" { 0.9 } else { 1.0 },
            ..ArenaRow::default()
        };
        ArenaNetwork {
            id: "arena-incast".to_owned(),
            title: "Incast".to_owned(),
            set: "traffic.fanout 16".to_owned(),
            seeds: (seed, 10),
            transports: tails.iter().map(row).collect(),
            ..ArenaNetwork::default()
        }
    }

    fn page(others: &[(&str, f64)]) -> String {
        let page = ArenaPage {
            networks: vec![network(
                &[("tcp", 300.0), ("fuso", 100.0), ("rack", 105.0)],
                1,
            )],
            others: vec![network(others, 1001)],
            made_by: "`--quick`, version 1".to_owned(),
        };
        page.markdown()
    }

    #[test]
    fn transports_are_listed_by_their_tail_with_what_is_not_told_apart_from_the_best_in_bold() {
        let text = page(&[("tcp", 300.0), ("fuso", 110.0), ("rack", 100.0)]);
        let rows: Vec<&str> = text.lines().filter(|l| l.starts_with("| `")).collect();
        let names: Vec<&str> = rows.iter().filter_map(|r| r.split('`').nth(1)).collect();
        assert_eq!(names, ["fuso", "rack", "tcp"], "{text}");
        assert!(rows[0].contains("**") && rows[1].contains("**") && !rows[2].contains("**"));
        assert!(
            text.contains("| transport | p90 | times | extra |"),
            "{text}"
        );
        assert!(
            text.contains("no two transports with separate intervals change places"),
            "{text}"
        );
    }

    #[test]
    fn transport_that_gave_up_flows_comes_last() {
        let page = ArenaPage {
            networks: vec![network(&[("lost", 50.0), ("fuso", 100.0)], 1)],
            ..ArenaPage::default()
        };
        let text = page.markdown();
        let rows: Vec<&str> = text.lines().filter(|l| l.starts_with("| `")).collect();
        assert!(
            rows[1].contains("`lost`") && rows[1].contains(", 10"),
            "{text}"
        );
    }

    #[test]
    fn pairs_that_change_places_beyond_their_intervals_are_named() {
        let text = page(&[("tcp", 100.0), ("fuso", 300.0), ("rack", 295.0)]);
        assert!(
            text.contains("these change places: `fuso` and `tcp`, `rack` and `tcp`."),
            "{text}"
        );
    }
}

//! Builds the arena's table from results.

use std::fmt::Write as _;

use spindle_experiment::Experiment;
use spindle_experiment::metrics::{Metric, TooFewFlows, show_us, show_us_interval};
use spindle_experiment::results::{SweepResult, pools};
use spindle_experiment::stats::Pool;

use super::oracle::ratio;
use super::{estimate, title};
use crate::format::Quantity;
use crate::{Arena, ArenaNetwork, ArenaRow, Estimate};

/// What an experiment contributes to the arena: a network for each point of its sweep.
pub fn networks(experiment: &Experiment, result: &SweepResult) -> Vec<ArenaNetwork> {
    let points = experiment.points.iter().zip(pools(result));
    let network = |(point, pools): (&spindle_experiment::Point, Vec<(String, Pool)>)| {
        let set: Vec<String> = point.set.iter().map(|(a, v)| format!("{a} {v}")).collect();
        let (name, tail) = tail(experiment, &pools);
        ArenaNetwork {
            id: experiment.id.clone(),
            title: title(experiment),
            set: set.join(", "),
            seeds: (experiment.seed, experiment.seeds),
            tail: name.to_owned(),
            transports: rows(&pools, tail),
            notes: experiment.notes.clone(),
        }
    };
    points.map(network).collect()
}

const P90: Metric = Metric::FctPercentile(0.9);
const P99: Metric = Metric::FctPercentile(0.99);

/// The metric by which transports are ranked, and its name.
fn tail(experiment: &Experiment, pools: &[(String, Pool)]) -> (&'static str, Metric) {
    let mut columns = experiment.columns.iter();
    if columns.any(|(_, metric)| *metric == Metric::FctMax) {
        return ("longest", Metric::FctMax);
    }
    match pools.iter().all(|(_, pool)| pool.check_flows(P99).is_ok()) {
        true => ("p99", P99),
        false => ("p90", P90),
    }
}

fn rows(pools: &[(String, Pool)], tail: Metric) -> Vec<ArenaRow> {
    let lowest = |a: &&(String, Pool), b: &&(String, Pool)| {
        let of = |pool: &Pool| pool.value(tail).unwrap_or(f64::INFINITY);
        of(&a.1).total_cmp(&of(&b.1))
    };
    // Where flows were given up, the percentiles of the others say little.
    let all = |(_, pool): &&(String, Pool)| share_of_completed(pool) >= 1.0;
    let best = pools.iter().filter(all).min_by(lowest);
    let row = |(name, pool): &(String, Pool)| {
        let estimate = |metric| estimate(pool, metric);
        let named = |name| Metric::parse(name).and_then(estimate);
        ArenaRow {
            transport: name.clone(),
            flows: pool.completed(),
            completed: share_of_completed(pool),
            mean_us: estimate(Metric::FctMean),
            p90_us: estimate(P90),
            p99_us: estimate(P99),
            tail_us: estimate(tail),
            over_best: match best {
                Some((best, _)) if best == name => Some(Estimate::exact(1.0)),
                Some((_, best)) => ratio(pool, best, tail),
                None => None,
            },
            extra_load: estimate(Metric::ExtraLoad),
            long_bps: estimate(Metric::GoodputBackground),
            bystanders_us: named("bystanders.fct.p90"),
            queueing_us: named("queueing.short"),
        }
    };
    pools.iter().map(row).collect()
}

/// The share of flows that completed, 0 to 1.
fn share_of_completed(pool: &Pool) -> f64 {
    let completed = Metric::parse("completed").and_then(|m| pool.value(m));
    completed.unwrap_or(0.0)
}

/// Widths of the columns of [`ArenaRow::COLUMNS`]: the lengths of their longest intervals.
const WIDTHS: [usize; 8] = [16, 16, 16, 13, 13, 19, 16, 16];

/// Formats the table for people. The 95 % interval stands below each value.
pub fn arena_table(arena: &Arena) -> String {
    let rows = arena.networks.iter().flat_map(|n| &n.transports);
    let names = rows.map(|t| t.transport.len()).max().unwrap_or(0).max(9);
    let mut text = "All networks; below each value its 95% interval\n".to_owned();
    let _ = write!(text, "{:names$}  {:>7}", "transport", "flows");
    for ((name, _), width) in ArenaRow::COLUMNS.iter().zip(WIDTHS) {
        let _ = write!(text, " {name:>width$}");
    }
    text.push('\n');
    for n in &arena.networks {
        let _ = writeln!(text, "\n{}: {}", n.id, n.heading());
        for row in &n.transports {
            rows_of(&mut text, row, names);
        }
    }
    text.push('\n');
    text
}

fn rows_of(text: &mut String, row: &ArenaRow, names: usize) {
    let mut lines = [
        format!("{:names$}  {:>7}", row.transport, row.flows),
        format!("{:names$}  {:>7}", "", ""),
    ];
    let columns = ArenaRow::COLUMNS.iter().zip(WIDTHS);
    for (((name, quantity), width), cell) in columns.zip(row.cells()) {
        let none = match row.too_few(name) {
            Some(_) => TooFewFlows::SHOWN,
            None => "-",
        };
        let shown = cell.map_or_else(|| none.to_owned(), |e| value(*quantity, e));
        let ends = cell.and_then(|e| e.ci95);
        let ends = ends.map_or_else(String::new, |(low, high)| ends_of(*quantity, low, high));
        let _ = write!(lines[0], " {shown:>width$}");
        let _ = write!(lines[1], " {ends:>width$}");
    }
    for line in lines {
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

fn value(quantity: Quantity, e: Estimate) -> String {
    match quantity {
        Quantity::Micros => show_us(e.value),
        Quantity::BitsPerSecond => format!("{:.1} Mbps", e.value / 1e6),
        Quantity::Fraction => format!("{:.1}%", e.value * 100.0),
        _ => format!("{:.2}", e.value),
    }
}

fn ends_of(quantity: Quantity, low: f64, high: f64) -> String {
    match quantity {
        Quantity::Micros => show_us_interval([low, high]),
        Quantity::BitsPerSecond => format!("{:.1}-{:.1} Mbps", low / 1e6, high / 1e6),
        Quantity::Fraction => format!("{:.1}-{:.1}%", low * 100.0, high * 100.0),
        _ => format!("{low:.2}-{high:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindle_experiment::Overrides;
    use spindle_experiment::library;
    use spindle_experiment::metrics::{BackgroundFlows, RunResult};
    use spindle_experiment::registry::Registry;
    use spindle_experiment::results::TransportRuns;

    /// Two runs of two short flows each, plus a long flow. `ms` is the time of the slower short flow, in
    /// milliseconds.
    fn runs(ms: [u64; 2], extra: u64) -> Vec<RunResult> {
        let run = |ms: u64| RunResult {
            flows: 2,
            completed: 2,
            fct_ns: vec![1_000_000, ms * 1_000_000],
            payload_bytes: 1000,
            extra_bytes: extra,
            background: BackgroundFlows {
                flows: 1,
                completed: 1,
                goodput_sum_bps: 5e8,
                ..BackgroundFlows::default()
            },
            ..RunResult::default()
        };
        ms.map(run).to_vec()
    }

    fn shown(transports: &str, of_each: &[([u64; 2], u64)]) -> Arena {
        let registry = Registry::standard();
        let overrides = Overrides {
            transports: Some(transports.to_owned()),
            ..Overrides::default()
        };
        let file = library::find("arena-lossy-fat-tree").unwrap();
        let e = file.read(&registry, &overrides).unwrap();
        let of_point = e.transports.iter().zip(of_each);
        let of_point =
            of_point.map(|(t, (ms, x))| TransportRuns::here(t.clone(), runs(*ms, *x), ""));
        let result = SweepResult {
            points: vec![of_point.collect()],
            wall_s: 0.0,
            resumed: 0,
            configurations: vec![String::new()],
            given_up: 0.0,
        };
        Arena {
            networks: networks(&e, &result),
        }
    }

    #[test]
    fn each_transport_is_listed_with_its_price_and_its_distance_from_the_best() {
        let arena = shown("tcp,fuso,rack", &[([6, 8], 0), ([2, 4], 250), ([2, 2], 0)]);
        let [network] = arena.networks.as_slice() else {
            panic!("one point");
        };
        assert_eq!(network.tail, "p90", "four flows are too few for p99");
        let far = |i: usize| network.transports[i].over_best.unwrap();
        // The slowest of four flows divided by the best's slowest: 3 in one run and 4 in the other.
        let covers = |i: usize, value: f64, one_run: f64| {
            let (low, high) = far(i).ci95.unwrap();
            assert_eq!(far(i).value, value);
            assert!(low <= one_run && high >= value, "{low} to {high}");
        };
        covers(0, 4.0, 3.0);
        covers(1, 2.0, 1.0);
        assert_eq!(far(2), Estimate::exact(1.0));
        let text = arena_table(&arena);
        let lines: Vec<&str> = text.lines().collect();
        let fuso = lines.iter().position(|l| l.starts_with("fuso ")).unwrap();
        for part in ["4 ", "2.000 ms", "4.000 ms", "500.0 Mbps", "25.0%", "2.00"] {
            assert!(lines[fuso].contains(part), "{part}: {text}");
        }
        assert!(text.contains("\narena-lossy-fat-tree: "), "{text}");
    }

    #[test]
    fn json_of_an_arena_is_read_as_it_was_written() {
        let arena = shown("tcp,fuso", &[([6, 8], 0), ([2, 4], 0)]);
        let text = serde_json::to_string(&arena).unwrap();
        let read: Arena = serde_json::from_str(&text).unwrap();
        assert_eq!(read, arena);
    }
}

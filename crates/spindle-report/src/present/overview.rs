//! Builds the joint table of experiments that are its scenarios.

use std::fmt::Write as _;

use spindle_experiment::Experiment;
use spindle_experiment::metrics::{Metric, TooFewFlows, show_us, show_us_interval};
use spindle_experiment::registry::Registry;
use spindle_experiment::results::{SweepResult, pools};
use spindle_experiment::stats::Pool;

use super::oracle::{oracle_of, ratio};
use super::{estimate, title};
use crate::format::Quantity;
use crate::{Estimate, Overview, OverviewRow, OverviewScenario};

/// What an experiment contributes to the table: the results at its first point.
pub fn scenario(
    registry: &Registry,
    experiment: &Experiment,
    result: &SweepResult,
) -> OverviewScenario {
    let oracle = oracle_of(registry, experiment).map(ToString::to_string);
    let pools = pools(result).into_iter().next().unwrap_or_default();
    let best = pools.iter().find(|(name, _)| Some(name) == oracle.as_ref());
    let row = |(name, pool): &(String, Pool)| {
        let estimate = |metric| estimate(pool, metric);
        let is_best = Some(name) == oracle.as_ref();
        OverviewRow {
            transport: name.clone(),
            flows: pool.fct_us().count() as u64,
            mean_us: estimate(Metric::FctMean),
            p90_us: estimate(P90),
            p99_us: estimate(Metric::FctPercentile(0.99)),
            p999_us: estimate(Metric::FctPercentile(0.999)),
            long_bps: estimate(Metric::GoodputBackground),
            extra_load: estimate(Metric::ExtraLoad),
            p90_over_oracle: best
                .filter(|_| !is_best)
                .and_then(|(_, best)| ratio(pool, best, P90)),
        }
    };
    OverviewScenario {
        id: experiment.id.clone(),
        title: title(experiment),
        transports: pools.iter().map(row).collect(),
        oracle,
        notes: experiment.notes.clone(),
    }
}

/// The metric from which the distance from the oracle is computed.
const P90: Metric = Metric::FctPercentile(0.9);

/// Widths of the columns of [`OverviewRow::COLUMNS`]: the lengths of their longest intervals.
const WIDTHS: [usize; 7] = [16, 16, 16, 16, 19, 13, 13];

/// Formats the table for people. The 95 % interval stands below each value.
pub fn overview_table(overview: &Overview) -> String {
    let rows = overview.scenarios.iter().flat_map(|s| &s.transports);
    let names = rows.map(|t| t.transport.len()).max().unwrap_or(0).max(9);
    let mut text = "All transports; below each value its 95% interval\n".to_owned();
    let _ = write!(text, "{:names$}  {:>7}", "transport", "flows");
    for ((name, _), width) in OverviewRow::COLUMNS.iter().zip(WIDTHS) {
        let _ = write!(text, " {name:>width$}");
    }
    text.push('\n');
    for s in &overview.scenarios {
        let _ = writeln!(text, "\n{}: {}", s.id, s.title);
        for row in &s.transports {
            rows_of(&mut text, row, names);
        }
    }
    text.push('\n');
    text
}

fn rows_of(text: &mut String, row: &OverviewRow, names: usize) {
    let mut lines = [
        format!("{:names$}  {:>7}", row.transport, row.flows),
        format!("{:names$}  {:>7}", "", ""),
    ];
    let columns = OverviewRow::COLUMNS.iter().zip(WIDTHS);
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

    fn shown(transports: &str, of_each: &[([u64; 2], u64)]) -> (OverviewScenario, String) {
        let registry = Registry::standard();
        let overrides = Overrides {
            transports: Some(transports.to_owned()),
            ..Overrides::default()
        };
        let file = library::find("overview-loss").unwrap();
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
        let scenario = scenario(&registry, &e, &result);
        let overview = Overview {
            scenarios: vec![scenario.clone()],
        };
        (scenario, overview_table(&overview))
    }

    #[test]
    fn each_transport_is_listed_with_its_distance_from_the_oracle() {
        let each = [([6, 8], 0), ([2, 4], 250), ([2, 2], 0)];
        let (scenario, text) = shown("tcp,fuso,oracle", &each);
        assert_eq!(scenario.oracle.as_deref(), Some("oracle"));
        let far = |i: usize| scenario.transports[i].p90_over_oracle;
        // The slowest of four flows divided by the oracle's slowest: 3 in one run and 4 in the other.
        let covers = |i: usize, value: f64, one_run: f64| {
            let found = far(i).unwrap();
            let (low, high) = found.ci95.unwrap();
            assert_eq!(found.value, value);
            assert!(low <= one_run && high >= value, "{low} to {high}");
            format!("{low:.2}-{high:.2}")
        };
        covers(0, 4.0, 3.0);
        let of_fuso = covers(1, 2.0, 1.0);
        assert_eq!(far(2), None, "the others are compared with it");
        let lines: Vec<&str> = text.lines().collect();
        let fuso = lines.iter().position(|l| l.starts_with("fuso ")).unwrap();
        for part in ["4 ", "2.000 ms", "4.000 ms", "500.0 Mbps", "25.0%", "2.00"] {
            assert!(lines[fuso].contains(part), "{part}: {text}");
        }
        assert!(lines[fuso + 1].ends_with(&of_fuso), "{text} {of_fuso}");
        assert!(text.contains("\noverview-loss: "), "{text}");
    }

    #[test]
    fn without_an_oracle_there_is_no_distance() {
        let (scenario, text) = shown("tcp,fuso", &[([6, 8], 0), ([2, 4], 0)]);
        assert_eq!(scenario.oracle, None);
        let far = |row: &OverviewRow| row.p90_over_oracle.is_none();
        assert!(scenario.transports.iter().all(far));
        let tcp = text.lines().find(|l| l.starts_with("tcp ")).unwrap();
        assert!(tcp.ends_with(" -"), "{text}");
    }
}

//! Computes how far the schemes of an experiment are from the oracle, and which advantages explain a scheme
//! that beats it.

use spindle_experiment::explain::advantages;
use spindle_experiment::metrics::Metric;
use spindle_experiment::registry::Registry;
use spindle_experiment::results::{SweepResult, pools};
use spindle_experiment::stats::{Interval, Pool, Resamples};
use spindle_experiment::{Experiment, TransportName};

use super::figure::tail;
use super::plots::{Value, plots};
use crate::format::Quantity;
use crate::{AxisSpec, Beaten, Estimate, OracleDistance};

/// The distances. `None` if no oracle ran, or no other scheme.
pub(super) fn distance(
    registry: &Registry,
    experiment: &Experiment,
    result: &SweepResult,
) -> Option<OracleDistance> {
    let oracle = oracle_of(registry, experiment)?;
    let names = experiment.transports.iter();
    let others: Vec<&TransportName> = names.filter(|t| !is_oracle(registry, t)).collect();
    let mut distance = OracleDistance {
        oracle: oracle.to_string(),
        ..OracleDistance::default()
    };
    let mut beaten: Vec<(String, Vec<String>)> = Vec::new();
    for metric in [tail(&pools(result)), Metric::FctMean] {
        let ratios = ratios(result, &oracle.to_string(), &others, metric);
        for value in ratios.iter().filter(|v| is_below(&v.y)) {
            let text = describe(experiment, value, metric);
            match beaten.iter_mut().find(|(name, _)| *name == value.name) {
                Some((_, at)) => at.push(text),
                None => beaten.push((value.name.clone(), vec![text])),
            }
        }
        let y = AxisSpec {
            name: format!("{}, over the oracle's", metric.title()),
            quantity: Quantity::Times,
            log: true,
            cases: Vec::new(),
        };
        let title = format!("{} over the oracle's", metric.title());
        distance
            .plots
            .extend(plots(experiment, &title, &y, &ratios));
    }
    distance.beaten = beaten
        .into_iter()
        .map(|(transport, at)| Beaten {
            by: advantages(registry, experiment, &transport, oracle),
            transport,
            at,
        })
        .collect();
    (!distance.plots.is_empty()).then_some(distance)
}

/// Whether a transport is an oracle. A scheme that is notified of drops is a bound and not a protocol, whatever
/// its name.
fn is_oracle(registry: &Registry, name: &TransportName) -> bool {
    let recovery = registry
        .find(&name.transport)
        .and_then(|t| t.config().recovery);
    recovery.is_some_and(|r| r.capabilities().drops)
}

/// The experiment's oracle, if there is one.
pub(super) fn oracle_of<'e>(
    registry: &Registry,
    experiment: &'e Experiment,
) -> Option<&'e TransportName> {
    let mut names = experiment.transports.iter();
    names.find(|t| is_oracle(registry, t))
}

fn is_below(ratio: &Estimate) -> bool {
    ratio.ci95.is_some_and(|(_, high)| high < 1.0)
}

fn describe(experiment: &Experiment, value: &Value, metric: Metric) -> String {
    let set = &experiment.points[value.point].set;
    let at: Vec<String> = set.iter().map(|(axis, v)| format!("{axis} {v}")).collect();
    let times = |v: f64| Quantity::Times.show(v);
    let (low, high) = value.y.ci95.unwrap_or((value.y.value, value.y.value));
    let ratio = format!(
        "{} [{} to {}]",
        times(value.y.value),
        times(low),
        times(high)
    );
    let text = format!("{} {ratio}", metric.title());
    match at.is_empty() {
        true => text,
        false => format!("{}: {text}", at.join(", ")),
    }
}

/// Each transport's value divided by the oracle's at each point, with the interval of the ratio over paired
/// runs.
fn ratios(
    result: &SweepResult,
    oracle: &str,
    others: &[&TransportName],
    metric: Metric,
) -> Vec<Value> {
    let mut list = Vec::new();
    let mut group = 0;
    for (point, pools) in pools(result).iter().enumerate() {
        let best = pools.iter().find(|(name, _)| name == oracle);
        for (i, (name, pool)) in pools.iter().enumerate() {
            let measured = others.iter().any(|o| o.to_string() == *name);
            let ratio = best.and_then(|(_, best)| ratio(pool, best, metric));
            if let Some(y) = ratio.filter(|_| measured) {
                list.push(Value {
                    name: name.clone(),
                    reference: false,
                    point,
                    y,
                    group: Some(group + i),
                    printed: None,
                });
            }
        }
        list.push(Value {
            name: oracle.to_owned(),
            reference: false,
            point,
            y: Estimate::exact(1.0),
            group: pools
                .iter()
                .position(|(n, _)| n == oracle)
                .map(|i| group + i),
            printed: None,
        });
        group += pools.len();
    }
    list
}

/// A value divided by the oracle's, with the interval of the ratio if their runs are paired. `None` if there is
/// none, or if too few flows completed for one.
pub(super) fn ratio(pool: &Pool, best: &Pool, metric: Metric) -> Option<Estimate> {
    let over = |a: Option<f64>, b: Option<f64>| {
        let (a, b) = (a?, b.filter(|b| *b > 0.0)?);
        Some(a / b)
    };
    let value = over(pool.shown(metric), best.shown(metric))?;
    let paired = pool.runs() == best.runs();
    let interval = paired.then(|| {
        let one = |w: &[u32]| over(pool.weighted(metric, w), best.weighted(metric, w));
        Resamples::new(pool.runs()).interval(one)
    });
    Some(
        match interval.flatten().map(|i| i.within(0.0, f64::INFINITY)) {
            Some(Interval { low, high }) => Estimate::new(value, low, high),
            None => Estimate::exact(value),
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindle_experiment::Overrides;
    use spindle_experiment::library;
    use spindle_experiment::metrics::RunResult;
    use spindle_experiment::results::TransportRuns;

    fn experiment(registry: &Registry) -> Experiment {
        let file = library::find("fuso-fig4ab").unwrap();
        let overrides = Overrides {
            loss: Some("4%".to_owned()),
            transports: Some("tcp,repflow,mptcp,fuso-5,oracle".to_owned()),
            ..Overrides::default()
        };
        file.read(registry, &overrides).unwrap()
    }

    /// Ten runs of one flow each. Their times are `from` microseconds and up.
    fn runs(name: &TransportName, from: u64) -> TransportRuns {
        let run = |i| RunResult {
            flows: 1,
            completed: 1,
            fct_ns: vec![(from + i) * 1000],
            ..RunResult::default()
        };
        TransportRuns::here(name.clone(), (0..10).map(run).collect(), "")
    }

    #[test]
    fn schemes_that_beat_the_oracle_are_listed_with_their_advantages() {
        let registry = Registry::standard();
        let e = experiment(&registry);
        // In the order above: worse, better, about equal but never better, better, the oracle.
        let from = [2000, 500, 1000, 400, 1000];
        let of_point = e.transports.iter().zip(from).map(|(t, us)| runs(t, us));
        let result = SweepResult {
            points: vec![of_point.collect()],
            wall_s: 0.0,
            resumed: 0,
            configurations: vec![String::new()],
            given_up: 0.0,
        };
        let d = distance(&registry, &e, &result).unwrap();
        assert_eq!((d.oracle.as_str(), d.plots.len()), ("oracle", 2));
        let named: Vec<&str> = d.beaten.iter().map(|b| b.transport.as_str()).collect();
        assert_eq!(named, ["repflow", "fuso-5"]);
        let by = d.beaten[0].by.join("; ");
        assert!(by.contains("a second connection"), "{by}");
        assert!(by.contains("1 subflow instead of"), "{by}");
        assert!(by.contains("other control: "), "{by}");
        assert!(
            d.beaten[1].by[0].starts_with("more paths: 5"),
            "{:?}",
            d.beaten[1]
        );
        assert_eq!(d.beaten[0].at.len(), 2, "in the tail and in the mean");
        for point in d
            .plots
            .iter()
            .flat_map(|p| &p.series)
            .flat_map(|s| &s.points)
        {
            let (low, high) = point.y.ci95.unwrap_or((1.0, 1.0));
            assert!((low..=high).contains(&point.y.value), "{point:?}");
        }
    }

    #[test]
    fn equal_control_scheduler_and_paths_are_not_listed_as_advantages() {
        let registry = Registry::standard();
        let e = experiment(&registry);
        let oracle = e.transports.last().unwrap();
        assert_eq!(advantages(&registry, &e, "mptcp", oracle), [""; 0]);
        assert!(!advantages(&registry, &e, "tcp", oracle).is_empty());
    }
}

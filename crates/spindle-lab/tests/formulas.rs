//! Experiments that are computed and not run: the verdicts on the claims of CAPS's analysis.

use spindle_experiment::claims::{Outcome, Verdict};
use spindle_experiment::metrics::Metric;
use spindle_experiment::registry::Registry;
use spindle_experiment::results::{SweepResult, pools, verdicts};
use spindle_experiment::{Experiment, Overrides, library};
use spindle_lab::sweep::{Options, execute};

fn made(id: &str, set: &[&str]) -> (Experiment, SweepResult) {
    let registry = Registry::standard();
    let overrides = Overrides {
        set: set.iter().map(|s| (*s).to_owned()).collect(),
        ..Overrides::default()
    };
    let file = library::find(id).expect("an experiment");
    let experiment = file.read(&registry, &overrides).expect("reads");
    let result = execute(&experiment, &registry, &Options::default()).expect("is computed");
    (experiment, result)
}

fn claims(id: &str, set: &[&str]) -> Vec<Outcome> {
    let (experiment, result) = made(id, set);
    verdicts(&experiment, &result).claims
}

#[test]
fn claims_hold_or_are_not_checkable_with_a_reason() {
    use Verdict::{Holds, NotCheckable};
    let expected = [
        ("caps-fig6-n1", Holds, "98.0432%"),
        ("caps-fig6-o1", Holds, "4 comparisons 4 hold"),
        ("caps-fig6-o2", Holds, "8 comparisons 8 hold"),
        ("caps-fig6-o3", Holds, "8 comparisons 8 hold"),
        ("caps-fig6-o4", Holds, "9 comparisons 9 hold"),
        ("caps-fig7-example-n1", Holds, "65.625%"),
        ("caps-fig7-example-n2", Holds, "6.9264%"),
        (
            "caps-fig7-example-o1",
            NotCheckable,
            "larger units are always better",
        ),
        ("caps-fig8-o1", NotCheckable, "a saw-tooth"),
        ("caps-fig8-o2", NotCheckable, "a saw-tooth"),
        ("caps-fig9-n1", NotCheckable, "smallest at k = 61"),
        ("caps-fig9-n2", NotCheckable, "smallest at k = 64"),
        ("caps-fig9-n3", NotCheckable, "smallest at k = 61"),
        ("caps-fig9-n4", NotCheckable, "smallest at k = 64"),
        ("caps-fig9-o1", Holds, "4 comparisons 4 hold"),
        ("caps-fig9-o2", Holds, "4 comparisons 4 hold"),
        ("caps-fig10-n1", NotCheckable, "up to p_B = 0.266"),
        ("caps-fig10-n2", NotCheckable, "up to p_B = 0.344"),
        ("caps-fig10-o1", NotCheckable, "equation 7 falls with g"),
    ];
    let files = [
        "caps-fig6",
        "caps-fig7-example",
        "caps-fig8",
        "caps-fig9",
        "caps-fig10",
    ];
    let found: Vec<Outcome> = files.iter().flat_map(|id| claims(id, &[])).collect();
    assert_eq!(found.len(), expected.len());
    for (claim, (id, verdict, why)) in found.iter().zip(expected) {
        let said = format!(
            "{} {:?}: {} | {}",
            claim.id, claim.verdict, claim.measured, claim.why
        );
        assert_eq!((claim.id.as_str(), claim.verdict), (id, verdict), "{said}");
        assert!(claim.why.contains(why), "{said}");
        let computed = claim.verdict == Holds;
        assert!(!computed || claim.measured.ends_with("computed)"), "{said}");
    }
}

#[test]
fn noted_optima_match_the_equations() {
    for (set, optima) in [
        (&["traffic.units=whole"][..], [33.0, 34.0, 33.0, 34.0]),
        (&["traffic.rate=200Mbps"][..], [33.0, 37.0, 40.0, 41.0]),
        (&[][..], [61.0, 64.0, 61.0, 64.0]),
    ] {
        let (experiment, result) = made("caps-fig9", set);
        let metric = Metric::parse("caps.optimum").expect("a metric");
        let pools = pools(&result);
        let of_b = experiment
            .points
            .iter()
            .zip(&pools)
            .filter(|(p, _)| p.set.len() == 1);
        let found: Vec<f64> = of_b
            .filter_map(|(_, pools)| pools[0].1.value(metric))
            .collect();
        assert_eq!(found, optima, "{set:?}");
    }
    // The values that a claim's note gives for the printed sizes.
    for (k, share, ms) in [(29, "20%", 1.811), (40, "35%", 1.856), (61, "20%", 1.429)] {
        let k = format!("traffic.k={k}");
        let share = format!("traffic.blocking={share}");
        let (experiment, result) = made("caps-fig9", &[&k, &share]);
        let metric = Metric::parse("caps.delay").expect("a metric");
        let last = pools(&result).pop().expect("a point");
        let us = last[0].1.value(metric).expect("a delay");
        assert!((us / 1e3 - ms).abs() < 5e-4, "{k} {us}");
        assert_eq!(
            experiment.points.last().expect("a point").set[0].1,
            share[17..]
        );
    }
}

#[test]
fn a_computed_point_has_one_run_and_no_interval() {
    let (experiment, result) = made("caps-fig9", &[]);
    assert_eq!((experiment.seeds, experiment.parts()), (1, 1));
    let metric = Metric::parse("caps.delay").expect("a metric");
    for (_, pool) in pools(&result).iter().flatten() {
        assert!(pool.is_exact() && pool.runs() == 1);
        let i = pool.resamples().interval(|w| pool.weighted(metric, w));
        let value = pool.value(metric).expect("a value");
        assert_eq!(i.map(|i| (i.low, i.high)), Some((value, value)));
        assert_eq!(pool.value(Metric::FctMean), None);
    }
}

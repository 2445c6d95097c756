//! The inputs of the papers' experiments have the printed shares. These numbers go into the generators, so that a
//! run cannot contradict them, and they are no claims.

use spindle_experiment::registry::Registry;
use spindle_experiment::rng::Stream;
use spindle_experiment::workload::LossyLinks;
use spindle_experiment::{Experiment, Overrides, library};

fn experiment(id: &str) -> Experiment {
    let file = library::find(id).unwrap();
    file.read(&Registry::standard(), &Overrides::default())
        .unwrap()
}

/// The lossy links of FUSO's Fig 1, with all loss rates of the measurement.
fn lossy() -> LossyLinks {
    let experiment = experiment("fuso-fig1");
    let is_production = |set: &[(String, String)]| set.iter().any(|(_, v)| v == "production");
    let mut points = experiment.points.iter();
    let point = points.find(|p| is_production(&p.set)).unwrap();
    let model = &point.scenario.loss[0].model;
    model.lossy_links().unwrap().clone()
}

/// FUSO section 2.1: "~63% of lossy links have the loss rate between 1% to 10%. About 22% of links even have a
/// detected loss rate larger than 60%".
#[test]
fn loss_rates_of_fuso_fig1_have_the_printed_shares() {
    let (lossy, mut rng) = (lossy(), Stream::from_seed(1));
    let rates: Vec<f64> = (0..100_000).map(|_| lossy.rates.sample(&mut rng)).collect();
    let share = |low: f64, high: f64| {
        let inside = rates.iter().filter(|r| (low..=high).contains(*r));
        inside.count() as f64 / rates.len() as f64
    };
    assert!((share(0.01, 0.1) - 0.63).abs() < 0.01);
    assert!((share(0.6, 1.0) - 0.22).abs() < 0.01);
}

/// FUSO section 2.1: 22 % of lossy links are at the edge, 24 % between ToR and aggregation switches, and 25 % and
/// 29 % in the two layers above, which are one layer in the simulated topology (footnote 7).
#[test]
fn locations_of_fuso_fig1_have_the_printed_shares() {
    let (lossy, mut rng) = (lossy(), Stream::from_seed(2));
    // The cables of mechanisms T2.
    let cables: Vec<&str> = [("access", 64), ("edge-agg", 16), ("agg-core", 16)]
        .iter()
        .flat_map(|(group, n)| vec![*group; *n])
        .collect();
    let draws = 20_000;
    let drawn: Vec<&str> = (0..draws)
        .flat_map(|_| lossy.draw(&cables, &mut rng))
        .map(|link| cables[link.cable])
        .collect();
    let share = |group| drawn.iter().filter(|g| **g == group).count() as f64 / drawn.len() as f64;
    for (group, printed) in [
        ("access", 0.22),
        ("edge-agg", 0.24),
        ("agg-core", 0.25 + 0.29),
    ] {
        assert!((share(group) - printed).abs() < 0.01, "{group}");
    }
    assert!((1.0 - share("access") - 0.78).abs() < 0.01);
}

/// Mechanisms C1: a lognormal distribution with a median of 48 KiB and a sigma of 0.9 has a mean of 48 KiB times
/// exp(0.9^2 / 2), which is 72 KiB. The upper limit takes about 1 % off.
#[test]
fn sizes_of_cofuso_fig3_have_the_mean_of_their_lognormal_distribution() {
    let experiment = experiment("cofuso-fig3");
    let is_default = |set: &[(String, String)]| set.iter().any(|(_, v)| v == "48KiB");
    let mut points = experiment.points.iter();
    let point = points.find(|p| is_default(&p.set)).unwrap();
    let mean = point.scenario.traffic.mean_response().unwrap() / 1024.0;
    assert!((70.0..=72.0).contains(&mean), "{mean} KiB");
}

use super::*;
use crate::file::{Context, Experiment, Overrides};
use crate::metrics::RunResult;
use crate::registry::Registry;
use crate::rng::Stream;
use crate::stats::Pool;

/// Ten runs of 600 flows whose completion time scatters around `mean_us`, with the given share of
/// timeouts. Three flows each take the same time. Both schemes of a test share the noise of each run, as paired runs do.
fn runs(mean_us: f64, timeouts: f64) -> Pool {
    let runs: Vec<RunResult> = (0..10)
        .map(|run| {
            let mut rng = Stream::from_seed(run);
            let shift = 1.0 + 0.3 * rng.unit();
            let fct_ns: Vec<u64> = (0..200)
                .map(|_| (mean_us * 1e3 * shift * (0.9 + 0.2 * rng.unit())) as u64)
                .flat_map(|t| [t; 3])
                .collect();
            RunResult {
                flows: 600,
                completed: 600,
                fct_ns,
                flows_with_timeout: 3 * (200.0 * timeouts * shift) as u64,
                payload_bytes: 1000,
                ..RunResult::default()
            }
        })
        .collect();
    Pool::new(&runs)
}

fn experiment(claims: &str) -> Result<Experiment, crate::ExperimentError> {
    swept("{ loss = [\"1%\", \"2%\"] }", claims)
}

fn swept(sweep: &str, claims: &str) -> Result<Experiment, crate::ExperimentError> {
    let text = format!(
        "transports = [\"tcp\", \"fuso\"]\n\
         topology = {{ name = \"fuso-testbed\" }}\n\
         loss = {{ on = [\"P1\"] }}\n\
         traffic = {{ kind = \"requests\", clients = [\"H4\"], servers = [\"H1\"], sizes = \"100KB\" }}\n\
         sweep = {sweep}\n{claims}"
    );
    let names = ["tcp", "fuso"].map(str::to_owned);
    let context = Context {
        directory: std::path::Path::new("."),
        transports: &names,
        balancers: &[],
        registry: &Registry::standard(),
    };
    Experiment::parse("t.toml", &text, &Overrides::default(), &context)
}

fn check(claim: &str, pools: &[(&str, f64, f64)]) -> Outcome {
    let text = format!("[[claims]]\nid = \"c\"\nkind = \"numeric\"\ntext = \"t\"\n{claim}");
    let experiment = experiment(&text).unwrap();
    let pools: Vec<(String, Pool)> = pools
        .iter()
        .map(|(n, mean, t)| ((*n).to_owned(), runs(*mean, *t)))
        .collect();
    let points: Vec<PointView<'_>> = experiment
        .points
        .iter()
        .map(|p| PointView {
            set: &p.set,
            scenario: &p.scenario,
            pools: &pools,
        })
        .collect();
    evaluate(&experiment.claims[0], &points)
}

#[test]
fn difference_test_uses_the_metrics_own_unit() {
    let at = |between: &str| {
        let claim = format!(
            "metric = \"fct.mean\"\ntest = \"difference\"\nof = \"tcp\"\nagainst = \"fuso\"\n\
             between = {between}\nslack = \"15us\"\nwhere = \"loss = 1%\""
        );
        check(&claim, &[("fuso", 1000.0, 0.0), ("tcp", 1200.0, 0.0)])
    };
    // 200 us times a mean shift of 1.15.
    let holds = at("[\"230us\", \"230us\"]");
    assert_eq!(holds.verdict, Verdict::Holds, "{}", holds.why);
    assert!(holds.why.contains("by +2"), "{}", holds.why);
    assert_eq!(at("[\"0us\", \"100us\"]").verdict, Verdict::Fails);
}

#[test]
fn ks_test_holds_fails_or_ties_by_distance() {
    let at = |mean: f64, below: &str| {
        let claim = format!(
            "test = \"ks\"\nof = \"fuso\"\nagainst = \"tcp\"\nbelow = \"{below}\"\nwhere = \"loss = 1%\""
        );
        check(&claim, &[("fuso", 1000.0, 0.0), ("tcp", mean, 0.0)])
    };
    let same = at(1000.0, "1%");
    assert_eq!(same.verdict, Verdict::Holds, "{}", same.why);
    assert!(same.why.contains("are 0% apart"), "{}", same.why);
    assert_eq!(at(1300.0, "2%").verdict, Verdict::Fails);
    // The distance is the limit itself, within the uncertainty of ten runs.
    let near = at(1050.0, "1%").why;
    let found = near
        .split(" apart")
        .next()
        .and_then(|t| t.rsplit(' ').next());
    let tied = at(1050.0, found.unwrap_or_default());
    assert_eq!(tied.verdict, Verdict::Tied, "{}", tied.why);
}

#[test]
fn gains_test_compares_each_flow_with_its_counterpart() {
    let at = |gain: &str, share: &str| {
        let claim = format!(
            "test = \"gains\"\nof = \"fuso\"\nagainst = \"tcp\"\ngain = {gain}\nshare = \"{share}\""
        );
        check(&claim, &[("fuso", 500.0, 0.0), ("tcp", 1000.0, 0.0)])
    };
    let all = at("[\"45%\", \"55%\"]", "100%");
    assert_eq!(all.verdict, Verdict::Holds, "{}", all.why);
    assert!(
        all.why.starts_with("of 2 comparisons 2 hold"),
        "{}",
        all.why
    );
    assert_eq!(at("[\"45%\", \"55%\"]", "70%").verdict, Verdict::Fails);
    assert_eq!(at("[\"-5%\", \"5%\"]", "0%").verdict, Verdict::Holds);
}

#[test]
fn claim_about_a_metric_that_is_not_observed_is_refused() {
    let claim = "[[claims]]\nid = \"c\"\nkind = \"numeric\"\ntext = \"t\"\n\
                 metric = \"recovery.flows\"\ntest = \"below\"\nof = \"fuso\"\nvalue = \"5%\"";
    let e = experiment(claim).unwrap_err().to_string();
    assert!(e.contains("want traffic.observe = [\"recovery\"]"), "{e}");
}

#[test]
fn limits_hold_fail_and_tie() {
    let at = |value: &str| {
        check(
            &format!("test = \"below\"\nof = \"fuso\"\nvalue = \"{value}\""),
            &[("fuso", 1000.0, 0.0)],
        )
        .verdict
    };
    assert_eq!(at("5ms"), Verdict::Holds);
    assert_eq!(at("1ms"), Verdict::Fails);
    assert_eq!(at("1.345ms"), Verdict::Tied);
    let share = "metric = \"timeout_fraction\"\ntest = \"below\"\nof = \"fuso\"\n";
    // No timeout in 6000 flows does not prove a share below 0.01 %, but it proves a share below 1 %.
    let none = [("fuso", 1000.0, 0.0)];
    assert_eq!(
        check(&format!("{share}value = \"0.01%\""), &none).verdict,
        Verdict::Tied
    );
    assert_eq!(
        check(&format!("{share}value = \"1%\""), &none).verdict,
        Verdict::Holds
    );
}

#[test]
fn orders_use_paired_differences() {
    // The runs' own variation is 30 %, but a difference of 3 % is detected because it is in every run.
    let order = "test = \"order\"\norder = [\"fuso\", \"tcp\"]";
    let o = check(order, &[("fuso", 1000.0, 0.0), ("tcp", 1030.0, 0.0)]);
    assert_eq!(o.verdict, Verdict::Holds, "{}", o.why);
    let o = check(order, &[("fuso", 1030.0, 0.0), ("tcp", 1000.0, 0.0)]);
    assert_eq!(o.verdict, Verdict::Fails);
    assert!(
        o.why.contains("2 fail: loss 1%: fuso 1.388 ms"),
        "{}",
        o.why
    );
    let o = check(order, &[("fuso", 1000.0, 0.0), ("tcp", 1000.0, 0.0)]);
    assert_eq!(o.verdict, Verdict::Tied);
    let lowest = "test = \"lowest\"\nof = \"fuso\"\nagainst = \"tcp\"";
    let o = check(lowest, &[("fuso", 1000.0, 0.0), ("tcp", 1000.0, 0.0)]);
    assert_eq!(o.verdict, Verdict::Tied);
}

#[test]
fn reduction_increase_and_similar_tests_hold_or_fail() {
    let pools = [("fuso", 200.0, 0.0), ("tcp", 1000.0, 0.0)];
    let reduction = |x: &str| {
        let claim =
            format!("test = \"reduction\"\nof = \"fuso\"\nagainst = [\"tcp\"]\nup_to = \"{x}\"");
        check(&claim, &pools).verdict
    };
    assert_eq!(reduction("82.3%"), Verdict::Holds); // 80 % is "about" that
    assert_eq!(reduction("90%"), Verdict::Fails);
    let increase = |a: &str, b: &str| {
        let claim = format!(
            "test = \"increase\"\nof = \"tcp\"\nagainst = \"fuso\"\nbetween = [\"{a}\", \"{b}\"]"
        );
        check(&claim, &[("fuso", 1000.0, 0.0), ("tcp", 1500.0, 0.0)]).verdict
    };
    assert_eq!(increase("32%", "64.5%"), Verdict::Holds);
    assert_eq!(increase("60%", "64.5%"), Verdict::Fails);
    let similar = "test = \"similar\"\nof = \"tcp\"\nagainst = \"fuso\"\nwithin = \"10%\"";
    assert_eq!(
        check(similar, &[("fuso", 1000.0, 0.0), ("tcp", 1050.0, 0.0)]).verdict,
        Verdict::Holds
    );
    assert_eq!(
        check(similar, &[("fuso", 1000.0, 0.0), ("tcp", 1200.0, 0.0)]).verdict,
        Verdict::Fails
    );
}

#[test]
fn rto_bound_uses_the_points_loss_rate_and_size() {
    let claim =
        "metric = \"timeout_fraction\"\ntest = \"rto-bound\"\nof = \"tcp\"\nwhere = \"loss = 2%\"";
    // 100 KB at 2 %: the bound is 2.723 %.
    let o = check(claim, &[("tcp", 1000.0, 0.04)]);
    assert_eq!(o.verdict, Verdict::Holds);
    assert!(o.why.contains("bound 2.7228%"), "{}", o.why);
    assert_eq!(
        check(claim, &[("tcp", 1000.0, 0.005)]).verdict,
        Verdict::Fails
    );
    let near = format!("{claim}\nwithin = \"25%\"");
    assert_eq!(
        check(&near, &[("tcp", 1000.0, 0.2)]).verdict,
        Verdict::Fails
    );
}

#[test]
fn claim_without_runs_or_points_is_not_checkable() {
    let order = "test = \"order\"\norder = [\"fuso\", \"tcp\"]";
    let o = check(order, &[("fuso", 1000.0, 0.0)]);
    assert_eq!(
        (o.verdict, o.why.as_str()),
        (Verdict::NotCheckable, "tcp was not run")
    );
    let o = check(
        "test = \"not-checkable\"\nreason = \"figure only\"\nnote = \"see docs\"",
        &[],
    );
    assert_eq!(
        (o.verdict, o.why.as_str()),
        (Verdict::NotCheckable, "figure only (see docs)")
    );
    let o = check(&format!("{order}\nwhere = \"loss > 5%\""), &[]);
    assert_eq!(o.verdict, Verdict::NotCheckable);
}

#[test]
fn conditions_compare_quantities() {
    let set = vec![
        ("loss".to_owned(), "0.5%".to_owned()),
        ("size".to_owned(), "10KB".to_owned()),
    ];
    for (text, want) in [
        ("loss < 1%", true),
        ("loss>=0.005", true),
        ("loss > 0.5%", false),
        ("size = 10KB", true),
        ("size = 100KB", false),
        ("load = 1", false),
    ] {
        assert_eq!(Condition::parse(text).unwrap().holds(&set), want, "{text}");
    }
    assert_eq!(Condition::parse("loss"), None);
    assert_eq!(Condition::parse("loss < some"), None);
}

#[test]
fn mistakes_in_claims_are_named() {
    let e = |claim: &str| {
        experiment(&format!("[[claims]]\n{claim}"))
            .unwrap_err()
            .to_string()
    };
    let start = "id = \"c\"\nkind = \"numeric\"\ntext = \"t\"\n";
    assert!(
        e("id = \"c\"").contains("t.toml:6: claims[1].kind: missing"),
        "{}",
        e("id = \"c\"")
    );
    let x = e(&format!("{start}metric = \"fct.p98\"\ntest = \"below\""));
    assert!(
        x.starts_with("t.toml:10: claims[1].metric: found \"fct.p98\", want one of fct.mean"),
        "{x}"
    );
    let x = e(&format!(
        "{start}test = \"below\"\nof = \"fuso\"\nvalue = \"2 parsec\""
    ));
    assert!(
        x.contains("claims[1].value: found \"2 parsec\", want a quantity"),
        "{x}"
    );
    let x = e(&format!(
        "{start}test = \"order\"\norder = [\"fuso\", \"tcp\"]\nwhere = \"lod < 1%\""
    ));
    assert!(x.contains("found axis \"lod\", the sweep has loss"), "{x}");
}

#[test]
fn growth_is_the_slope_in_a_log_log_plane() {
    let flat = "test = \"growth\"\nof = \"tcp\"\naxis = \"loss\"\nbetween = [\"-0.1\", \"0.1\"]";
    assert_eq!(check(flat, &[("tcp", 1000.0, 0.0)]).verdict, Verdict::Holds);
    let linear = flat.replace("-0.1", "0.8").replace("\"0.1\"", "\"1.2\"");
    assert_eq!(
        check(&linear, &[("tcp", 1000.0, 0.0)]).verdict,
        Verdict::Fails
    );
}

#[test]
fn about_test_needs_the_interval_within_the_slack() {
    let claim = |value: &str| {
        let text = format!(
            "test = \"about\"\nmetric = \"fct.mean\"\nof = \"fuso\"\nvalue = \"{value}\"\nslack = \
             \"0.5ms\""
        );
        check(&text, &[("tcp", 2000.0, 0.1), ("fuso", 1000.0, 0.0)])
    };
    // The mean is about 1.15 ms.
    assert_eq!(claim("1.2ms").verdict, Verdict::Holds);
    assert_eq!(claim("1.65ms").verdict, Verdict::Tied);
    let outcome = claim("2.5ms");
    assert_eq!(outcome.verdict, Verdict::Fails);
    assert!(
        outcome.why.contains("claimed about 2.500 ms"),
        "{}",
        outcome.why
    );
}

#[test]
fn decrease_test_needs_every_comparison_within_the_range() {
    let claim = |between: &str, tcp: f64| {
        let text = format!(
            "test = \"decrease\"\nmetric = \"fct.mean\"\nof = \"fuso\"\nagainst = \
             [\"tcp\"]\nbetween = {between}\nslack = 0.01"
        );
        check(&text, &[("tcp", tcp, 0.1), ("fuso", 1000.0, 0.0)]).verdict
    };
    assert_eq!(claim("[\"40%\", \"60%\"]", 2000.0), Verdict::Holds);
    assert_eq!(claim("[\"40%\", \"60%\"]", 5000.0), Verdict::Fails);
    assert_eq!(claim("[\"40%\", \"60%\"]", 1100.0), Verdict::Fails);
    assert_eq!(claim("[\"-30%\", \"0%\"]", 800.0), Verdict::Holds);
}

#[test]
fn near_best_tests_check_each_metric_and_point() {
    let of = |test: &str, of: &str, also: &str| {
        let claim = format!(
            "metric = \"fct.mean\"\ntest = \"{test}\"\nof = {of}\nagainst = [\"tcp\"]\nwithin = \
             \"5%\"\n{also}"
        );
        let pools = [("fuso", 1000.0, 0.4), ("tcp", 1030.0, 0.2)];
        check(&claim, &pools)
    };
    let timeouts = "also = [\"timeout_fraction\"]";
    // In the mean alone, both are near the best, which is FUSO. In timeouts, FUSO is far from the best.
    let both = "[\"fuso\", \"tcp\"]";
    assert_eq!(of("near-best", both, "").verdict, Verdict::Holds);
    assert_eq!(of("not-near-best", both, "").verdict, Verdict::Fails);
    let o = of("near-best", both, timeouts);
    assert_eq!(o.verdict, Verdict::Fails);
    assert!(
        o.why.contains("8 comparisons 6 hold, 0 are tied, 2 fail"),
        "{}",
        o.why
    );
    let place = "loss 1%: fuso 101.3% above the best in flows with a timeout";
    assert!(o.why.contains(place), "{}", o.why);
    assert!(
        o.measured.contains("; flows with a timeout: fuso"),
        "{}",
        o.measured
    );
    assert_eq!(
        of("not-near-best", "\"fuso\"", timeouts).verdict,
        Verdict::Holds
    );
    let o = of("not-near-best", both, timeouts);
    assert_eq!(o.verdict, Verdict::Fails, "TCP is near it everywhere");
    assert!(o.why.contains("above the best in mean FCT"), "{}", o.why);

    let text = "[[claims]]\nid = \"c\"\nkind = \"ordering\"\ntext = \"t\"\ntest = \"near-best\"\n\
                of = \"fuso\"\nwithin = \"5%\"\nalso = [\"fct.mena\"]";
    let e = experiment(text).unwrap_err().to_string();
    assert!(
        e.contains("claims[1].also: found \"fct.mena\", want one of"),
        "{e}"
    );
}

/// The outcome of a claim about `tcp` with these means at the points 1 %, 2 %, 3 % and 4 %.
fn along(shape: &str, means: [f64; 4]) -> Outcome {
    let text = format!(
        "[[claims]]\nid = \"c\"\nkind = \"ordering\"\ntext = \"t\"\nmetric = \"fct.mean\"\n\
         test = \"shape\"\nof = \"tcp\"\naxis = \"loss\"\nshape = \"{shape}\""
    );
    let experiment = experiment(&text).unwrap();
    let sets: Vec<_> = (1..5)
        .map(|i| vec![("loss".to_owned(), format!("{i}%"))])
        .collect();
    let pools = means.map(|mean| [("tcp".to_owned(), runs(mean, 0.0))]);
    // The points are not in order. The axis has its own order.
    let points: Vec<PointView<'_>> = [2, 0, 3, 1]
        .map(|i| PointView {
            set: &sets[i],
            scenario: &experiment.points[0].scenario,
            pools: &pools[i],
        })
        .to_vec();
    evaluate(&experiment.claims[0], &points)
}

#[test]
fn shape_test_checks_every_step() {
    use Verdict::{Fails, Holds, Tied};
    for (means, rising, falling, valley, peak) in [
        ([1e3, 2e3, 3e3, 4e3], Holds, Fails, Fails, Fails),
        ([1e3, 2e3, 2e3, 4e3], Holds, Fails, Fails, Fails),
        ([4e3, 3e3, 2e3, 1e3], Fails, Holds, Fails, Fails),
        ([3e3, 1e3, 2e3, 3e3], Fails, Fails, Holds, Fails),
        ([1e3, 2e3, 3e3, 1e3], Fails, Fails, Fails, Holds),
        ([1e3, 3e3, 2e3, 4e3], Fails, Fails, Fails, Fails),
        ([2e3, 2e3, 2e3, 2e3], Tied, Tied, Tied, Tied),
    ] {
        let expected = [
            ("rising", rising),
            ("falling", falling),
            ("valley", valley),
            ("peak", peak),
        ];
        for (shape, verdict) in expected {
            let found = along(shape, means);
            assert_eq!(found.verdict, verdict, "{shape} {means:?}: {}", found.why);
        }
    }
    let why = along("rising", [1e3, 3e3, 2e3, 4e3]).why;
    assert!(
        why.contains("1 of 3 steps go the other way, first from"),
        "{why}"
    );
    assert!(
        why.contains("at loss 2% to") && why.contains("at loss 4%"),
        "{why}"
    );
    let why = along("valley", [1e3, 2e3, 3e3, 4e3]).why;
    assert!(why.contains("it turns nowhere"), "{why}");
    let wrong = experiment(
        "[[claims]]\nid = \"c\"\nkind = \"ordering\"\ntext = \"t\"\ntest = \"shape\"\n\
         of = \"tcp\"\naxis = \"loss\"\nshape = \"valey\"",
    );
    let error = wrong.unwrap_err().to_string();
    assert!(error.contains("did you mean \"valley\"?"), "{error}");
}

/// The outcome of a claim about two axes, `long` and `kind`: mean completion times of `tcp` and `fuso` at
/// (0, a), (4, a), (0, b) and (4, b).
fn over(claim: &str, tcp: [f64; 4], fuso: [f64; 4]) -> Outcome {
    let case = |name: &str, sets: &str| format!("{{ name = \"{name}\", {sets} }}");
    let [none, four] = ["0", "4"].map(|n| case(n, "\"loss.rate\" = \"1%\""));
    let [a, b] = ["a", "b"].map(|n| case(n, "\"traffic.sizes\" = \"100KB\""));
    let text = format!(
        "[[claims]]\nid = \"c\"\nkind = \"numeric\"\ntext = \"t\"\nmetric = \"fct.mean\"\n{claim}"
    );
    let sweep = format!("{{ long = [{none}, {four}], kind = [{a}, {b}] }}");
    let experiment = swept(&sweep, &text).unwrap();
    let pools_at = |set: &[(String, String)]| -> Vec<(String, Pool)> {
        let has = |value: &str| usize::from(set.iter().any(|(_, v)| v == value));
        let i = has("4") + 2 * has("b");
        let both = [("tcp", tcp[i]), ("fuso", fuso[i])];
        both.map(|(n, mean)| (n.to_owned(), runs(mean, 0.0)))
            .to_vec()
    };
    let pools: Vec<_> = experiment.points.iter().map(|p| pools_at(&p.set)).collect();
    let points: Vec<PointView<'_>> = experiment
        .points
        .iter()
        .zip(&pools)
        .map(|(p, pools)| PointView {
            set: &p.set,
            scenario: &p.scenario,
            pools,
        })
        .collect();
    evaluate(&experiment.claims[0], &points)
}

#[test]
fn values_of_each_point_are_next_to_the_verdicts_there() {
    let claim = "metric = \"fct.mean\"\ntest = \"order\"\norder = [[\"fuso\"], [\"tcp\"]]";
    let o = check(claim, &[("fuso", 1000.0, 0.0), ("tcp", 1200.0, 0.0)]);
    let labels: Vec<&str> = o.points.iter().map(|p| p.point.as_str()).collect();
    assert_eq!(labels, ["loss 1%", "loss 2%"]);
    for point in &o.points {
        assert_eq!((point.metric.as_str(), point.unit), ("mean FCT", "us"));
        assert_eq!(point.comparisons, [Verdict::Holds]);
        let names: Vec<&str> = point.values.iter().map(|v| v.transport.as_str()).collect();
        assert_eq!(names, ["fuso", "tcp"]);
        for value in &point.values {
            let [low, high] = value.ci95.unwrap();
            assert!(low < value.value && value.value < high, "{value:?}");
            let (number, unit) = value.text.split_once(' ').unwrap();
            assert!((number.parse::<f64>().unwrap() - value.value / 1e3).abs() < 1e-3);
            let (_, high) = value.interval.as_ref().unwrap().split_once(" to ").unwrap();
            assert!(high.ends_with(unit), "{value:?}");
        }
    }
}

#[test]
fn comparison_of_several_points_is_at_none_of_them() {
    let claim = "test = \"between-points\"\nof = \"tcp\"\naxis = \"long\"\nlow = 0\nhigh = \"4\"";
    let o = over(claim, [400.0, 1000.0, 200.0, 1000.0], [1e3; 4]);
    assert_eq!(o.verdict, Verdict::Holds, "{}", o.why);
    assert_eq!(o.points.len(), 4);
    assert!(o.points.iter().all(|p| p.comparisons.is_empty()));
}

#[test]
fn each_metric_of_a_claim_has_its_own_values_and_comparisons() {
    let claim = "metric = \"fct.mean\"\ntest = \"near-best\"\nof = \"fuso\"\nagainst = \"tcp\"\n\
                 within = \"10%\"\nalso = [\"timeout_fraction\"]\nwhere = \"loss = 1%\"";
    let o = check(claim, &[("fuso", 1000.0, 0.4), ("tcp", 1030.0, 0.2)]);
    let found = o
        .points
        .iter()
        .map(|p| (p.metric.as_str(), &p.comparisons[..]));
    let expected = [
        ("mean FCT", &[Verdict::Holds][..]),
        ("flows with a timeout", &[Verdict::Fails]),
    ];
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

#[test]
fn between_points_test_compares_a_transport_with_itself() {
    let same = [1e3; 4];
    let tcp = [400.0, 1000.0, 200.0, 1000.0];
    let at = |keys: &str| {
        let claim = format!("test = \"between-points\"\nof = \"tcp\"\naxis = \"long\"\n{keys}");
        over(&claim, tcp, same)
    };
    let ends = "low = 0\nhigh = \"4\"";
    let o = at(&format!("{ends}\nup_to = \"82%\""));
    assert_eq!(o.verdict, Verdict::Holds, "{}", o.why);
    assert!(
        o.why
            .starts_with("largest reduction 80% [80% to 80%], kind b: tcp 227.5 us [")
            && o.why.ends_with("claimed about 82%"),
        "{}",
        o.why
    );
    assert_eq!(
        at(&format!("{ends}\nup_to = \"90%\"")).verdict,
        Verdict::Fails
    );
    let within = |range: &str| at(&format!("{ends}\nbetween = {range}"));
    let o = within("[\"60%\", \"80%\"]");
    assert_eq!(o.verdict, Verdict::Holds, "{}", o.why);
    let o = within("[\"75%\", \"80%\"]");
    assert_eq!(o.verdict, Verdict::Fails);
    assert!(o.why.contains("1 fail: kind a: tcp 4"), "{}", o.why);
    assert!(o.why.contains("lower by 60% ["), "{}", o.why);
    // Only the direction is claimed.
    assert_eq!(at(ends).verdict, Verdict::Holds);
    assert_eq!(at("low = 4\nhigh = 0").verdict, Verdict::Fails);
    let o = at("low = 4\nhigh = 5");
    assert_eq!(o.verdict, Verdict::NotCheckable);
    assert!(
        o.why.contains("no two points with long 4 and 5"),
        "{}",
        o.why
    );
    // Values of an axis need not be numbers.
    let named = "test = \"between-points\"\nof = [\"fuso\", \"tcp\"]\naxis = \"kind\"\nlow = \"b\"\nhigh = \"a\"";
    let o = over(named, tcp, [900.0, 1000.0, 800.0, 900.0]);
    assert_eq!(o.verdict, Verdict::Tied, "tcp is the same at 4: {}", o.why);
    assert!(
        o.why.contains("of 4 comparisons 3 hold, 1 are tied"),
        "{}",
        o.why
    );
    assert!(o.measured.contains("fuso") && o.measured.contains("tcp"));
}

#[test]
fn shape_test_accepts_the_distance_from_another_transport() {
    let at = |shape: &str| {
        let claim = format!(
            "test = \"shape\"\nof = \"fuso\"\nagainst = \"tcp\"\naxis = \"long\"\nshape = \"{shape}\""
        );
        // `fuso` is 50 % and then 20 % lower in one case, 40 % and then 30 % in the other. The metric itself
        // rises.
        over(&claim, [1e3, 2e3, 1e3, 2e3], [500.0, 1600.0, 600.0, 1400.0])
    };
    let o = at("falling");
    assert_eq!(o.verdict, Verdict::Holds, "{}", o.why);
    let o = at("rising");
    assert_eq!(o.verdict, Verdict::Fails);
    assert!(
        o.why
            .contains("kind a: fuso below tcp 50% at long 0, 20% at long 4"),
        "{}",
        o.why
    );
}

#[test]
fn highest_and_largest_increase_tests_hold_or_fail() {
    let pools = [("fuso", 1000.0, 0.0), ("tcp", 1450.0, 0.0)];
    let highest = |of: &str, against: &str| {
        let claim = format!("test = \"highest\"\nof = \"{of}\"\nagainst = [\"{against}\"]");
        check(&claim, &pools).verdict
    };
    assert_eq!(highest("tcp", "fuso"), Verdict::Holds);
    assert_eq!(highest("fuso", "tcp"), Verdict::Fails);
    assert_eq!(highest("tcp", "tcp"), Verdict::Tied);
    let increase = |up_to: &str| {
        let claim = format!(
            "metric = \"fct.mean\"\ntest = \"largest-increase\"\nof = \"tcp\"\nagainst = \"fuso\"\nup_to = \"{up_to}\""
        );
        check(&claim, &pools)
    };
    let o = increase("48%");
    assert_eq!(o.verdict, Verdict::Holds, "{}", o.why);
    assert!(o.why.starts_with("largest increase 45% ["), "{}", o.why);
    assert!(o.why.contains(", tcp against fuso at loss 1%"), "{}", o.why);
    assert_eq!(increase("60%").verdict, Verdict::Fails);
}

#[test]
fn two_zeros_are_similar() {
    let claim = "metric = \"timeout_fraction\"\ntest = \"similar\"\nof = \"fuso\"\nagainst = \"tcp\"\nwithin = \"5%\"";
    let at = |share: f64| check(claim, &[("fuso", 1e3, share), ("tcp", 1e3, 0.0)]).verdict;
    assert_eq!((at(0.0), at(0.1)), (Verdict::Holds, Verdict::Fails));
}

#[test]
fn mistakes_in_comparisons_of_points_are_named() {
    let e = |keys: &str| {
        let claim = format!(
            "[[claims]]\nid = \"c\"\nkind = \"numeric\"\ntext = \"t\"\ntest = \"between-points\"\n\
             of = \"tcp\"\n{keys}"
        );
        experiment(&claim).unwrap_err().to_string()
    };
    let ends = "axis = \"loss\"\nlow = \"1%\"\nhigh = \"2%\"\n";
    for (keys, said) in [
        (
            "axis = \"lod\"\nlow = \"1%\"\nhigh = \"2%\"",
            "found axis \"lod\"",
        ),
        (
            "axis = \"loss\"\nhigh = \"2%\"",
            "low: missing, want a value of the axis",
        ),
        (&format!("{ends}slack = 1"), "slack: nothing to be about"),
        (
            &format!("{ends}up_to = 1\nbetween = [0, 1]"),
            "up_to: found between as well",
        ),
    ] {
        let found = e(keys);
        assert!(found.contains(said), "{found}");
    }
}

#[test]
fn claim_on_a_percentile_of_too_few_flows_is_not_checkable_and_says_how_many_it_needs() {
    let of = |metric: &str| {
        let claim = format!("metric = \"{metric}\"\ntest = \"order\"\norder = [\"fuso\", \"tcp\"]");
        check(&claim, &[("fuso", 1000.0, 0.0), ("tcp", 2000.0, 0.0)])
    };
    let tail = of("fct.p999");
    assert_eq!(tail.verdict, Verdict::NotCheckable);
    assert!(
        tail.why
            .starts_with("6000 flows, want 50000 for p999 FCT of "),
        "{}",
        tail.why
    );
    for enough in ["fct.p99", "fct.p90", "fct.mean"] {
        assert_eq!(of(enough).verdict, Verdict::Holds, "{enough}");
    }
}

#[test]
fn onset_holds_only_if_the_metric_is_zero_below_and_above_zero_beyond() {
    let claim = "[[claims]]\nid = \"c\"\nkind = \"ordering\"\ntext = \"t\"\n\
                 metric = \"timeout_fraction\"\ntest = \"onset\"\nof = \"tcp\"\naxis = \"loss\"\n\
                 at = \"1.5%\"\nnone = \"1%\"";
    let experiment = experiment(claim).unwrap();
    let of = |timeouts: [f64; 2]| {
        let pools = timeouts.map(|t| vec![("tcp".to_owned(), runs(1000.0, t))]);
        let points = experiment.points.iter().zip(&pools);
        let points: Vec<PointView<'_>> = points
            .map(|(p, pools)| PointView {
                set: &p.set,
                scenario: &p.scenario,
                pools,
            })
            .collect();
        evaluate(&experiment.claims[0], &points).verdict
    };
    assert_eq!(of([0.0, 0.2]), Verdict::Holds);
    assert_eq!(of([0.2, 0.2]), Verdict::Fails, "it sets in before");
    assert_eq!(of([0.0, 0.0]), Verdict::Tied, "no event was seen beyond");
}

#[test]
fn slack_of_a_decrease_does_not_accept_an_increase() {
    let claim = "metric = \"fct.mean\"\ntest = \"decrease\"\nof = \"fuso\"\nagainst = \"tcp\"\n\
                 between = [\"2%\", \"20%\"]";
    let of = |mean| check(claim, &[("fuso", mean, 0.0), ("tcp", 1000.0, 0.0)]).verdict;
    assert_eq!(of(990.0), Verdict::Holds, "1 % is about 2 %");
    assert_eq!(of(1010.0), Verdict::Fails, "it is higher");
}

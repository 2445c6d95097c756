use super::*;
use crate::metrics::Metric;

fn of_runs(runs: &[RunResult], metric: Metric, weights: &[u32]) -> Option<f64> {
    match metric {
        Metric::Spec(spec) => spec.value(runs, weights),
        Metric::Observed(observed) => weighted(runs, observed, weights),
        other => panic!("{other:?}"),
    }
}

fn run(first_hits: &[u32], spare: &[[u32; 3]]) -> RunResult {
    RunResult {
        flows: 10,
        recovery: Some(RecoveryOfFlows {
            first_hits: first_hits.to_vec(),
            packets: 100,
            useful: 10,
            spare: spare.to_vec(),
        }),
        sizes: vec![10, 30],
        ..RunResult::default()
    }
}

#[test]
fn timers_and_links_are_summed_over_runs() {
    let run = |flows: &[(u64, u64)], busy_s, dropped| {
        let mut timers = TimersOfFlows::default();
        flows.iter().for_each(|(t, r)| timers.add(*t, *r));
        let group = |name: &str, dropped| LinksOfGroup {
            group: name.to_owned(),
            busy_s,
            time_s: 10.0,
            offered: 1000,
            dropped,
        };
        let observed = Observations {
            timers: Some(timers),
            links: vec![group("access", 2 * dropped), group("agg-core", dropped)],
            ..Observations::default()
        };
        RunResult {
            observed,
            ..RunResult::default()
        }
    };
    let runs = [
        run(&[(0, 1), (0, 0), (3, 0)], 5.0, 1),
        run(&[(25, 2)], 7.0, 3),
    ];
    let of = |name: &str, w: [u32; 2]| {
        let metric = Metric::parse(name).expect("a name");
        of_runs(&runs, metric, &w)
    };
    assert_eq!(of("timeouts.mean", [1, 1]), Some(7.0));
    assert_eq!(of("timeouts.max", [1, 1]), Some(25.0));
    assert_eq!(of("timeouts.max", [1, 0]), Some(3.0));
    assert_eq!(of("timeouts.none", [1, 1]), Some(0.5));
    assert_eq!(of("timeouts.above-2", [1, 1]), Some(0.5));
    assert_eq!(of("timeouts.above-20", [1, 1]), Some(0.25));
    assert_eq!(of("retransmits.one", [1, 1]), Some(0.25));
    assert_eq!(of("core.utilisation", [1, 1]), Some(0.6));
    assert_eq!(of("access.utilisation", [0, 1]), Some(0.7));
    assert_eq!(of("leaf-spine.utilisation", [1, 1]), None);
    assert_eq!(of("core.loss", [1, 1]), Some(0.002));
    assert_eq!(of("access.loss", [0, 1]), Some(0.006));
    assert_eq!(of("recovery.flows", [1, 1]), None);
    let mut many = TimersOfFlows::default();
    many.add(1_000_000, 0);
    assert_eq!(many.timeouts.len(), 101, "bounded");
}

#[test]
fn metrics_are_ratios_of_sums_over_weighted_runs() {
    let runs = [
        run(&[1, 5, 16, 17], &[[3, 4, 5]]),
        run(&[2], &[[9, 9, 9], [0, 0, 0]]),
    ];
    let of = |name: &str, w: [u32; 2]| {
        let metric = Metric::parse(name).expect("a name");
        of_runs(&runs, metric, &w)
    };
    assert_eq!(of("recovery.flows", [1, 1]), Some(0.25));
    assert_eq!(of("recovery.flows", [0, 1]), Some(0.1));
    assert_eq!(of("recovery.useful", [1, 1]), Some(0.1));
    assert_eq!(of("recovery.hit-by-4", [1, 1]), Some(0.4));
    assert_eq!(of("recovery.hit-5-to-16", [1, 0]), Some(0.5));
    assert_eq!(of("spare.20ms.to-4", [1, 1]), Some(2.0 / 3.0));
    assert_eq!(of("spare.50ms.to-3", [1, 0]), Some(0.0));
    assert_eq!(of("size.mean", [1, 1]), Some(20.0));
    assert_eq!(of("size.p50", [1, 1]), Some(10.0));
    let to = |most| weighted(&runs, ObservedMetric::SizeTo(most), &[1, 1]);
    assert_eq!((to(9), to(10), to(30)), (Some(0.0), Some(0.5), Some(1.0)));
    assert_eq!(of("recovery.hit-by-4", [0, 0]), None);
    assert_eq!(
        of_runs(
            &[RunResult::default()],
            Metric::parse("size.p50").expect("a name"),
            &[1]
        ),
        None
    );
}

/// A run in which the network, coding and windows were observed.
fn observed_run(n: u64) -> RunResult {
    let observed = Observations {
        paths: Some(PathsOfFlows {
            short: WaitsOfClass {
                packets: 10 * n,
                queueing_ns: 50_000 * n,
                overtaken: n,
                ..WaitsOfClass::default()
            },
            long: WaitsOfClass::default(),
            available: 40,
            used: 30 + n,
        }),
        goodput: vec![GoodputOfGroup {
            group: "leaf-spine".to_owned(),
            bytes: 100 * n,
            room: 400.0,
        }],
        coding: Some(CodingOfFlows {
            units: 4,
            decoded: 3,
            segments: 30,
            encoded: 40,
            extra: 10,
            extra_bytes: 14_000,
            payload_bytes: 140_000,
            received: 36,
            late: 9,
            periods: 2,
            rtt_distance: 0.1 * n as f64,
            blocking: 0.2,
        }),
        units: Some(UnitsOfFlows {
            units: 4,
            at_once: n,
            segments: 20,
            delay_ns: 1_000_000 * n,
            windows: 2,
            window_ns: 400_000,
        }),
        windows: Some(WindowsOfFlows {
            short: WindowsOfClass {
                packets: 2,
                segments: 10.0 * n as f64,
            },
            long: WindowsOfClass::default(),
        }),
        packets: Some(PacketsOfFlows {
            short: PacketsOfClass {
                sent: 10,
                dropped: n,
            },
            others: PacketsOfClass {
                sent: 90,
                dropped: 4,
            },
        }),
        ..Observations::default()
    };
    RunResult {
        observed,
        ..RunResult::default()
    }
}

#[test]
fn network_and_coding_observations_are_summed_over_runs() {
    let runs = [observed_run(1), observed_run(3)];
    let of = |name: &str, w: [u32; 2]| {
        let metric = Metric::parse(name).expect("a name");
        of_runs(&runs, metric, &w)
    };
    for (name, value) in [
        ("queueing.short", 5.0),
        ("disorder.short", 0.1),
        ("paths.unused", 0.2),
        ("leaf-spine.goodput", 0.5),
        ("core.goodput", 0.5),
        ("coding.redundant", 0.25),
        ("coding.redundant.all", 0.1),
        ("coding.unit", 7.5),
        ("coding.undecoded", 0.25),
        ("coding.late", 0.25),
        ("coding.blocking", 0.1),
        ("coding.at-once", 0.5),
        ("coding.delay", 100.0),
        ("coding.delay.window", 200.0),
        ("rtt.tracking", 0.1),
        ("cwnd.short", 10.0),
        ("loss.all", 0.06),
    ] {
        let found = of(name, [1, 1]).expect(name);
        assert!((found - value).abs() < 1e-12, "{name}: {found}");
    }
    for none in [
        "queueing.long",
        "disorder.long",
        "cwnd.long",
        "access.goodput",
    ] {
        assert_eq!(of(none, [1, 1]), None, "{none}");
    }
    assert_eq!(of("leaf-spine.goodput", [0, 1]), Some(0.75));
    assert_eq!(of("cwnd.short", [0, 2]), Some(15.0));
    let queueing = Metric::parse("queueing.short").expect("a name");
    assert_eq!(queueing.show(5.0), "5.000 us");
    assert!(queueing.unit() == "us" && !queueing.is_share());
}

#[test]
fn disorder_of_coded_packets_is_that_of_the_decoded_segments() {
    let run = |decoded: u64| RunResult {
        observed: Observations {
            paths: Some(PathsOfFlows {
                short: WaitsOfClass {
                    packets: 100,
                    overtaken: 40,
                    decoded,
                    decoded_disordered: decoded / 10,
                    ..WaitsOfClass::default()
                },
                ..PathsOfFlows::default()
            }),
            ..Observations::default()
        },
        ..RunResult::default()
    };
    let disorder = Metric::parse("disorder.short").expect("a name");
    let of = |decoded| of_runs(&[run(decoded)], disorder, &[1]);
    assert_eq!(of(0), Some(0.4), "the packets are not coded");
    assert_eq!(of(50), Some(0.1));
}

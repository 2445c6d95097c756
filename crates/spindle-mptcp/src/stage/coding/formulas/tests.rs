//! The formulas of mechanisms C4 against values that were computed by hand or elsewhere.

use proptest::prelude::*;

use super::*;

fn of(blocked: u32, n: u32) -> Blocking {
    Blocking::new(blocked, n).expect("a share")
}

fn percent(p: u32) -> Blocking {
    of(p, 100)
}

/// CAPS section VI-D: 1 Gbps, 1500 B, 0.1 ms and 3 ms.
const PAPER: Conditions = Conditions {
    rate: BitRate(1_000_000_000),
    packet: 1500,
    rtt_short: Duration::from_micros(100),
    rtt_long: Duration::from_millis(3),
};

/// Fig 9's shares, and the optima that the paper prints for them.
const PRINTED: [(u32, u32); 4] = [(20, 29), (25, 31), (30, 33), (35, 40)];

fn ms(d: Duration) -> f64 {
    d.as_nanos() as f64 / 1e6
}

fn near(found: f64, want: f64, by: f64) {
    assert!((found - want).abs() <= by, "found {found}, want {want}");
}

#[test]
fn redundancy_is_exact() {
    // mechanisms A4.4; CAPS section IX-E.
    for (blocked, r) in [(1, 1), (2, 2), (3, 4), (4, 5)] {
        assert_eq!(of(blocked, 12).redundancy(10), r);
    }
    // 4/(1 - 4/5) - 4 is a little above 16 in floating point.
    assert_eq!(of(4, 5).redundancy(4), 16);
    assert_eq!(Blocking::NONE.redundancy(64), 0);
    assert_eq!(percent(50).redundancy(0), 0);
    assert_eq!(Blocking::MOST.redundancy(1), 99);
    assert_eq!(Blocking::MOST.redundancy(u32::MAX), u32::MAX);
}

#[test]
fn shares_are_parsed_exactly_or_refused() {
    let read = |t: &str| t.parse::<Blocking>();
    for (text, share) in [("0.35", percent(35)), ("30%", percent(30))] {
        let found = read(text).expect("a share");
        assert_eq!(
            (found.get(), found.redundancy(100)),
            (share.get(), share.redundancy(100))
        );
    }
    assert_eq!(read("4/40"), Ok(of(4, 40)));
    assert_eq!(read(" 4 / 40 "), Ok(of(4, 40)));
    assert_eq!(
        read("0"),
        Ok(Blocking::from_probability(Probability::ZERO).expect("a share"))
    );
    for text in [
        "1",
        "0.991",
        "-0.1",
        "4/0",
        "5/4",
        "x",
        "",
        "nan",
        "1/2/3",
        "99999999999/1",
    ] {
        let error = read(text).expect_err(text).to_string();
        assert!(
            error.contains(text) && error.contains("0 to 0.99"),
            "{error}"
        );
    }
    assert_eq!(
        (of(7, 20).to_string(), of(1, 3).to_string()),
        ("35%".into(), "1/3".into())
    );
}

#[test]
fn unblocked_probabilities_match_fig_6b() {
    const TABLE: [[f64; 5]; 4] = [
        [0.7763, 0.9704, 0.9971, 0.9998, 1.0000],
        [0.5987, 0.8981, 0.9804, 0.9969, 0.9996],
        [0.4586, 0.8025, 0.9444, 0.9870, 0.9973],
        [0.3487, 0.6974, 0.8891, 0.9658, 0.9908],
    ];
    for (row, blocked) in TABLE.iter().zip(1..) {
        for (p_s, r) in row.iter().zip(0..) {
            near(unblocked(10, r, of(blocked, 40)), *p_s, 5e-5);
        }
    }
}

#[test]
fn probabilities_match_the_examples_of_fig_7() {
    near(unblocked(3, 3, percent(50)), 0.656_25, 1e-12);
    let failure: f64 = (4..=6).map(|j| blocked(j, 3, 3, percent(50))).sum();
    near(failure, 22.0 / 64.0, 1e-12);
    for (k, units, p) in [(1, 6, 64.0), (2, 3, 216.0), (3, 2, 400.0), (6, 1, 924.0)] {
        near(all_at_once(k, k, units), p / 924.0, 1e-12);
    }
    near(all_at_once(1, 1, 6), 0.07, 0.005);
}

#[test]
fn buffering_delays_match_equation_3() {
    for (k, us) in [
        (0, 0),
        (1, 0),
        (10, 54),
        (29, 168),
        (33, 192),
        (40, 234),
        (64, 378),
    ] {
        assert_eq!(PAPER.buffering_delay(k), Duration::from_micros(us), "{k}");
    }
}

#[test]
fn delays_match_those_with_the_constants_of_fig_9() {
    let rows = [
        (29, 8, 1.811),
        (31, 11, 1.887),
        (33, 15, 1.853),
        (40, 22, 1.856),
    ];
    for ((p, printed), (k, r, d_w)) in PRINTED.into_iter().zip(rows) {
        assert_eq!((printed, percent(p).redundancy(k)), (k, r));
        let p_s = unblocked(k, r, percent(p));
        near(
            ms(PAPER.coded_delay(64, k, p_s, Units::Fraction)),
            d_w,
            5e-4,
        );
        assert!(ms(PAPER.uncoded_delay(64, percent(p))) >= 2.99999);
    }
    near(ms(PAPER.uncoded_delay(10, percent(10))), 1.98883, 5e-6);
    for (k, r, d_w) in [(1, 1, 0.3773), (10, 2, 0.4695)] {
        assert_eq!(percent(10).redundancy(k), r);
        let p_s = unblocked(k, r, percent(10));
        near(
            ms(PAPER.coded_delay(10, k, p_s, Units::Fraction)),
            d_w,
            5e-5,
        );
    }
}

#[test]
fn unrounded_redundancy_has_the_probability_of_whole_redundancy_where_it_is_whole() {
    for (k, blocking) in [
        (4, percent(20)),
        (8, percent(20)),
        (9, percent(10)),
        (27, percent(10)),
        (1, percent(50)),
        (127, percent(50)),
        (3, Blocking::NONE),
    ] {
        let r = blocking.redundancy(k);
        let whole = unblocked(k, r, blocking);
        near(unblocked_unrounded(k, blocking), whole, 1e-12);
    }
    // Without rounding there is less redundancy between these.
    let p_s = unblocked_unrounded(5, percent(20));
    assert!(p_s < unblocked(5, 2, percent(20)) && p_s > unblocked(5, 1, percent(20)));
}

#[test]
fn unit_is_the_window_if_redundancy_is_not_rounded_and_the_window_is_small() {
    for p in [5, 10, 15, 20] {
        let k = |w| optimal_unit_unrounded(w, percent(p), &PAPER, Units::Fraction);
        assert_eq!([k(2), k(5), k(10)], [2, 5, 10], "{p} %");
        // Rounded up, a unit of one packet is sent twice.
        let rounded = optimal_unit(10, percent(p), &PAPER, Units::Fraction);
        assert_eq!(rounded == 1, p < 15, "{p} %: {rounded}");
    }
    let mut last = LastOptimum::default();
    let unrounded = (Units::Fraction, Redundant::Unrounded);
    assert_eq!(last.get(10, percent(10), &PAPER, unrounded), 10);
    let rounded = (Units::Fraction, Redundant::Whole);
    assert_eq!(last.get(10, percent(10), &PAPER, rounded), 1);
}

#[test]
fn optimal_units_differ_from_the_printed_ones() {
    let optima = |conditions: &Conditions, units| {
        PRINTED.map(|(p, _)| optimal_unit(64, percent(p), conditions, units))
    };
    let own = optima(&PAPER, Units::Fraction);
    assert_eq!(own, [61, 64, 61, 64]);
    for ((k, (p, printed)), d_w) in own
        .into_iter()
        .zip(PRINTED)
        .zip([1.429, 1.472, 1.497, 1.550])
    {
        let delay = |k| {
            let p_s = unblocked(k, percent(p).redundancy(k), percent(p));
            PAPER.coded_delay(64, k, p_s, Units::Fraction)
        };
        near(ms(delay(k)), d_w, 5e-4);
        assert!(
            delay(printed) > delay(k),
            "{printed} does not minimise equation 4"
        );
    }
    assert_eq!(optima(&PAPER, Units::Whole), [33, 34, 33, 34]);
    let slower = Conditions {
        rate: BitRate(200_000_000),
        ..PAPER
    };
    assert_eq!(optima(&slower, Units::Fraction), [33, 37, 40, 41]);
    assert_eq!(optimal_unit(0, percent(20), &PAPER, Units::Fraction), 1);
    assert_eq!(optimal_unit(9, Blocking::NONE, &PAPER, Units::Fraction), 1);
    let mut last = LastOptimum::default();
    for (w, conditions, k) in [
        (64, PAPER, 61),
        (64, PAPER, 61),
        (64, slower, 33),
        (9, slower, 9),
    ] {
        let model = (Units::Fraction, Redundant::Whole);
        let found = last.get(w, percent(20), &conditions, model);
        assert_eq!(
            found,
            optimal_unit(w, percent(20), &conditions, Units::Fraction)
        );
        assert_eq!(found, k);
    }
}

#[test]
fn overheads_match_equation_7() {
    for (p, eta) in [(10, 0.0110), (20, 0.0244), (25, 0.0323), (30, 0.0411)] {
        near(overhead_unrounded(percent(p), 9.0), eta, 5e-5);
    }
    near(overhead_unrounded(percent(20), 99.0), 0.0025, 5e-5);
    // The two forms are equal if r needs no rounding.
    assert_eq!(percent(20).redundancy(40), 10);
    near(
        overhead(40, 10, 9.0),
        overhead_unrounded(percent(20), 9.0),
        1e-15,
    );
    // "Less than 3.5 %" and "less than 5 %" at g = 9 hold up to these shares.
    for (p, most) in [("0.266", 0.035), ("0.344", 0.05)] {
        let p: f64 = p.parse().expect("a number");
        let at = |p| {
            let p = Probability::new(p).expect("a probability");
            overhead_unrounded(Blocking::from_probability(p).expect("a share"), 9.0)
        };
        assert!(at(p) < most && at(p + 0.002) > most);
    }
}

/// The sum of equation 2 with binomials in whole numbers.
fn summed(k: u32, r: u32, blocking: Blocking) -> f64 {
    let (n, p) = (k + r, blocking.get());
    let mut choose = 1u128;
    let mut sum = 0.0;
    for j in 0..=r {
        sum += choose as f64 * p.powi(j as i32) * (1.0 - p).powi((n - j) as i32);
        choose = choose * u128::from(n - j) / u128::from(j + 1);
    }
    sum
}

proptest! {
    #[test]
    fn sum_and_walk_agree(blocked in 0u32..=50, k in 1u32..=50) {
        let blocking = percent(blocked);
        let r = blocking.redundancy(k);
        let p_s = unblocked(k, r, blocking);
        prop_assert!((p_s - summed(k, r, blocking)).abs() < 1e-12);
        let mut walk = Walk::new(blocking);
        (0..k).for_each(|_| walk.next());
        prop_assert_eq!((walk.k, walk.r), (k, r));
        prop_assert!((p_s - walk.unblocked()).abs() < 1e-12);
    }

    #[test]
    fn walk_stays_accurate_for_large_units(blocked in 0u32..=99, w in 1u32..=600) {
        let blocking = percent(blocked);
        let mut walk = Walk::new(blocking);
        (0..w).for_each(|_| walk.next());
        let p_s = unblocked(w, blocking.redundancy(w), blocking);
        prop_assert!((p_s - walk.unblocked()).abs() < 1e-9, "{p_s} {walk:?}");
        // With this redundancy, k packets get through on average, so about half of the units do.
        prop_assert!(p_s > 0.45, "{p_s}");
    }

    #[test]
    fn probabilities_sum_to_one(blocked in 0u32..=99, k in 0u32..=40, r in 0u32..=40) {
        let all: f64 = (0..=k + r).map(|j| super::blocked(j, k, r, percent(blocked))).sum();
        prop_assert!((all - 1.0).abs() < 1e-9, "{all}");
    }

    #[test]
    fn optimum_minimises_the_delay(
        blocked in 0u32..=90,
        w in 1u32..=80,
        mbps in 1u64..=10_000,
        short_us in 0u64..=1_000,
        long_us in 0u64..=10_000,
        whole: bool,
    ) {
        let units = if whole { Units::Whole } else { Units::Fraction };
        let conditions = Conditions {
            rate: BitRate(mbps * 1_000_000),
            rtt_short: Duration::from_micros(short_us),
            rtt_long: Duration::from_micros(long_us),
            ..PAPER
        };
        let blocking = percent(blocked);
        let delay = |k| {
            let p_s = unblocked(k, blocking.redundancy(k), blocking);
            conditions.coded_delay(w, k, p_s, units)
        };
        let best = optimal_unit(w, blocking, &conditions, units);
        let least = (1..=w).map(delay).min().expect("one or more");
        // Rounding to the nearest nanosecond may fall to either side.
        prop_assert!(delay(best).saturating_sub(least) <= Duration::from_nanos(1));
    }

    #[test]
    fn extreme_inputs_do_not_panic(
        blocked in any::<u32>(), of in any::<u32>(), w in 0u32..200, k in any::<u32>(),
        r in 0u32..5000, rate in any::<u64>(), packet in any::<u32>(), long in any::<u64>(),
    ) {
        let Ok(blocking) = Blocking::new(blocked, of) else {
            return Ok(());
        };
        let conditions = Conditions {
            rate: BitRate(rate),
            packet,
            rtt_short: Duration::ZERO,
            rtt_long: Duration::from_nanos(long),
        };
        let best = optimal_unit(w, blocking, &conditions, Units::Fraction);
        prop_assert!((1..=w.max(1)).contains(&best));
        let best = optimal_unit_unrounded(w, blocking, &conditions, Units::Fraction);
        prop_assert!((1..=w.max(1)).contains(&best));
        let p_s = unblocked(k % 10_000, r, blocking);
        prop_assert!((0.0..=1.0).contains(&p_s));
        let _ = (conditions.coded_delay(w, k, p_s, Units::Whole), conditions.buffering_delay(k));
        prop_assert!((0.0..1.0).contains(&overhead(k, r, 0.0)));
    }
}

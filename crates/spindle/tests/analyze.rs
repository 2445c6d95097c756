//! `spindle analyze caps` as its users see it.

mod common;

use std::fs;

use common::{spindle, text};
use serde_json::Value;

#[test]
fn the_defaults_are_the_papers_constants_and_each_optimum_is_a_minimum() {
    let dir = tempfile::tempdir().unwrap();
    let out = spindle(&["analyze", "caps", "--json", "-"], dir.path());
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let json: Value = serde_json::from_slice(&out.stdout).unwrap();
    let blocking = json["blocking"].as_array().unwrap();
    let optima: Vec<_> = blocking.iter().map(|b| b["optimal_k"].as_u64()).collect();
    assert_eq!(optima, [61, 64, 61, 64].map(Some));
    let shares: Vec<_> = blocking.iter().map(|b| b["p_b"].as_f64()).collect();
    assert_eq!(shares, [0.2, 0.25, 0.3, 0.35].map(Some));
    let units = blocking[0]["units"].as_array().unwrap();
    assert_eq!(units.len(), 64);
    let unit = &units[28];
    assert_eq!(
        (unit["k"].as_u64(), unit["r"].as_u64()),
        (Some(29), Some(8))
    );
    assert_eq!(unit["d_b_us"].as_f64(), Some(168.0));
    assert!(
        (unit["d_w_us"].as_f64().unwrap() - 1811.0).abs() < 0.5,
        "{unit}"
    );
    let least = units.iter().map(|u| u["d_w_us"].as_f64().unwrap());
    assert_eq!(
        least.reduce(f64::min),
        blocking[0]["optimal_d_w_us"].as_f64()
    );
    assert!((blocking[0]["d_wnc_us"].as_f64().unwrap() - 3000.0).abs() < 0.01);
    assert!((blocking[0]["eta_unrounded"].as_f64().unwrap() - 0.0244).abs() < 5e-5);
}

#[test]
fn the_optimum_is_marked_among_the_chosen_k() {
    let dir = tempfile::tempdir().unwrap();
    let flags = [
        "--k",
        "40,1,33..=34,34",
        "--blocking",
        "0.2,3/10",
        "--rate",
        "200Mbps",
    ];
    let out = spindle(&[&["analyze", "caps"], &flags[..]].concat(), dir.path());
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let table = text(&out.stdout);
    let ks: Vec<&str> = table
        .lines()
        .filter_map(|l| l.split_whitespace().next())
        .filter(|w| w.trim_end_matches('*').parse::<u32>().is_ok())
        .collect();
    assert_eq!(
        ks,
        ["1", "33*", "34", "40", "1", "33", "34", "40*"],
        "{table}"
    );
    assert!(
        table.contains("p_B 20%: ") && table.contains("p_B 30%: "),
        "{table}"
    );
    let whole = spindle(
        &["analyze", "caps", "--whole", "--blocking", "20%"],
        dir.path(),
    );
    assert!(
        text(&whole.stdout).contains("\n   33* "),
        "{}",
        text(&whole.stdout)
    );
}

#[test]
fn pictures_are_written_next_to_the_page() {
    let dir = tempfile::tempdir().unwrap();
    let out = spindle(&["analyze", "caps", "--report", "page"], dir.path());
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    assert!(text(&out.stdout).ends_with("report: page/index.html\n"));
    let page = fs::read_to_string(dir.path().join("page/index.html")).unwrap();
    for part in [
        "p_B 35%",
        "k = 61 is optimal",
        "analyze caps --report page",
        "1\u{202f}Gbps",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("resampled over runs"), "nothing was run");
    for i in 0..5 {
        let svg = fs::read_to_string(dir.path().join(format!("page/analyze-caps-{i}.svg")));
        assert!(svg.unwrap().contains("<svg"), "{i}");
    }
}

#[test]
fn bad_numbers_are_refused_with_a_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let cases: &[(&[&str], &[&str])] = &[
        (
            &["--k", "0"],
            &["--k", "found \"0\"", "1 to the window, 64"],
        ),
        (
            &["--k", "65"],
            &["--k", "found \"65\"", "1 to the window, 64"],
        ),
        (
            &["--k", "9..3"],
            &["--k", "found \"9..3\"", "the smaller first"],
        ),
        (&["--k", "3,,4"], &["--k", "found \"\""]),
        (
            &["--window", "-1"],
            &["--window", "found \"-1\"", "1 to 4096"],
        ),
        (&["--window", "5000"], &["--window", "1 to 4096"]),
        (
            &["--blocking", "1"],
            &["--blocking", "found \"1\"", "0 to 0.99"],
        ),
        (
            &["--blocking", "4/0"],
            &["--blocking", "found \"4/0\"", "4/40"],
        ),
        (&["--rate", "1"], &["--rate", "`1`", "Mbps"]),
        (&["--rate", "0bps"], &["--rate", "above 0"]),
        (&["--mss", "0"], &["--mss", "1 to 65535"]),
        (&["--rtt-short", "3"], &["--rtt-short", "us"]),
        (
            &["--rtt-long", "10us"],
            &["--rtt-long", "no less than --rtt-short, 100us"],
        ),
        (
            &["--ratio", "nan"],
            &["--ratio", "found \"nan\"", "0 to 1000000"],
        ),
        (&["--frobnicate"], &["--frobnicate"]),
    ];
    for (flags, parts) in cases {
        let out = spindle(&[&["analyze", "caps"], *flags].concat(), dir.path());
        let error = text(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{flags:?}: {error}");
        assert_eq!(error.lines().count(), 1, "{flags:?}: {error}");
        assert!(
            parts.iter().all(|p| error.contains(p)),
            "{flags:?}: {error}"
        );
        assert!(out.stdout.is_empty(), "{flags:?}");
    }
    let out = spindle(&["analyze", "cap"], dir.path());
    let error = text(&out.stderr);
    assert!(
        out.status.code() == Some(2) && error.contains("caps"),
        "{error}"
    );
}

#[test]
fn the_papers_analysis_is_reproduced_like_any_figure() {
    let dir = tempfile::tempdir().unwrap();
    let flags = [
        "reproduce",
        "caps-fig9",
        "caps-fig6",
        "--out",
        "caps",
        "--json",
        "v.json",
    ];
    let out = spindle(&flags, dir.path());
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let json = fs::read(dir.path().join("v.json")).unwrap();
    let json: Value = serde_json::from_slice(&json).unwrap();
    let claim = &json["experiments"][0]["claims"][0];
    assert_eq!(
        (&claim["id"], &claim["verdict"]),
        (&"caps-fig9-n1".into(), &"not-checkable".into())
    );
    let why = claim["why"].as_str().unwrap();
    assert!(why.contains("k = 61"), "{why}");
    for (page, parts) in [
        ("index", &["CAPS: Coding-based", "caps-fig9.html"][..]),
        ("caps-fig9", &["caps-fig9-n1", "nothing was sent"]),
        ("caps-fig6", &["over traffic.redundancy"]),
    ] {
        let file = dir.path().join(format!("caps/{page}.html"));
        let html = fs::read_to_string(file).unwrap();
        for part in parts {
            assert!(html.contains(part), "{page}: {part}");
        }
        assert!(!html.contains("All its runs"), "{page}");
    }
    assert!(!dir.path().join("caps/runs").exists());
    let trace = spindle(&["trace", "caps-fig9", "--transport", "coded"], dir.path());
    assert!(
        text(&trace.stderr).contains("found a formula"),
        "{}",
        text(&trace.stderr)
    );
    let again = spindle(&[&flags[..], &["--resume"]].concat(), dir.path());
    assert_eq!(again.status.code(), Some(0), "{}", text(&again.stderr));
    assert_eq!(text(&again.stdout), text(&out.stdout));
}

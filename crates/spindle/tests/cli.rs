//! The command as its users see it: exit codes, one-line errors, the JSON contract.

mod common;

use std::path::Path;

use common::{spindle, text};

/// The one line on standard error of a command that ends with exit code 2.
fn refused(arguments: &[&str], directory: &Path) -> String {
    let out = spindle(arguments, directory);
    let error = text(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{arguments:?}: {error}");
    assert_eq!(error.lines().count(), 1, "{arguments:?}: {error}");
    assert!(out.stdout.is_empty(), "{arguments:?}");
    error
}

/// Each command is refused in one line that contains all parts. A case is the arguments and the parts.
fn each_is_refused(cases: &[(&[&str], &[&str])]) {
    let dir = tempfile::tempdir().unwrap();
    for (arguments, parts) in cases {
        let error = refused(arguments, dir.path());
        for part in *parts {
            assert!(error.contains(part), "{arguments:?}: {error}");
        }
    }
}

#[test]
fn numbers_and_shares_out_of_range_are_refused_with_what_is_accepted() {
    each_is_refused(&[
        (
            &["compare", "--flows", "0"],
            &["--flows", "found 0", "want 1 or more"],
        ),
        (
            &["compare", "--flows", "-3"],
            &["--flows", "found -3", "whole number"],
        ),
        (&["compare", "--seeds", "0"], &["--seeds", "want 1 or more"]),
        (&["compare", "--jobs", "0"], &["--jobs", "want 1 or more"]),
        (
            &["compare", "--loss", "2ms"],
            &["--loss", "found \"2ms\"", "want a share"],
        ),
        (&["compare", "--loss", "-1%"], &["--loss", "found \"-1%\""]),
    ]);
}

#[test]
fn bad_settings_of_a_scenario_are_refused_with_their_key() {
    each_is_refused(&[
        (
            &["compare", "--set", "trafic.load=1Mbps"],
            &["did you mean \"traffic\"?"],
        ),
        (
            &["compare", "--set", "traffic.load=-1Mbps"],
            &["traffic.load", "found \"-1Mbps\""],
        ),
        (&["compare", "--set", "traffic.load"], &["want key=value"]),
        (
            &["compare", "--set", "topology.rate=0Gbps"],
            &["topology.rate", "above 0"],
        ),
        (
            &["compare", "--set", "loss.on=P9"],
            &["loss.on", "did you mean `P1`?"],
        ),
    ]);
}

#[test]
fn unknown_names_are_refused_with_a_suggestion() {
    each_is_refused(&[
        (
            &["compare", "--transports", "mtpcp"],
            &["--transports", "did you mean \"mptcp\"?"],
        ),
        (
            &["compare", "--transports", "tcp@rsp"],
            &["did you mean \"rps\"?"],
        ),
        (&["explain", "fuzo"], &["did you mean \"fuso\"?"]),
        (&["explain", "tcp@rsp"], &["did you mean \"rps\"?"]),
        (
            &["reproduce", "--paper", "fuzo"],
            &["did you mean \"fuso\"?"],
        ),
        (
            &["reproduce", "areena", "--list"],
            &["did you mean \"arena\"?"],
        ),
        (
            &["reproduce", "fuso-fig3"],
            &["want one of fuso-fig1, fuso-fig2"],
        ),
        (
            &["compare", "elsewhere"],
            &["want a file ending in .toml or one of compare"],
        ),
    ]);
}

#[test]
fn beginnings_of_names_are_refused_with_the_name_that_they_begin() {
    each_is_refused(&[
        (
            &["compare", "--set", "topology.name=fuso-si"],
            &["did you mean \"fuso-sim\"?"],
        ),
        (
            &["explain", "deadline"],
            &["did you mean \"deadline-reinjection\"?"],
        ),
        (&["explain", "tcp@free"], &["did you mean \"freeway\"?"]),
        (
            &["reproduce", "arena-inca", "--list"],
            &["did you mean \"arena-incast\"?"],
        ),
    ]);
}

#[test]
fn files_that_do_not_exist_are_refused_with_their_name() {
    each_is_refused(&[
        (&["run", "none.toml"], &["none.toml: no such file"]),
        (
            &["compare", "--payload", "none.bin"],
            &["none.bin", "cannot read"],
        ),
        (
            &["flows", "none.flows", "--k", "4"],
            &["none.flows", "cannot read"],
        ),
    ]);
}

#[test]
fn unknown_flags_and_commands_and_a_missing_experiment_are_refused() {
    each_is_refused(&[
        (&["compare", "--frobnicate"], &["--frobnicate"]),
        (&["reproduce"], &["--list"]),
        (&["frobnicate"], &["frobnicate"]),
    ]);
}

const FILE: &str = "\
title = \"Mine\"
transports = [\"tcp\", \"fuso\"]
seed = 3

[topology]
name = \"fuso-testbed\"
rate = \"1Gbps\"

[loss]
rate = \"1%\"
on = [\"P1\"]

[traffic]
kind = \"requests\"
clients = [\"H4\"]
servers = [\"H1\"]
sizes = \"20KB\"
flows = 40
";

#[test]
fn mistakes_in_a_file_are_reported_with_their_line() {
    let dir = tempfile::tempdir().unwrap();
    let cases = [
        (
            "rate = \"1Gbps\"",
            "rat = \"1Gbps\"",
            "mine.toml:7: topology.rat: unknown key",
        ),
        (
            "rate = \"1Gbps\"",
            "rate = \"1Gb\"",
            "mine.toml:7: topology.rate: found \"1Gb\", want a rate",
        ),
        (
            "rate = \"1Gbps\"",
            "rate = \"-1Gbps\"",
            "mine.toml:7: topology.rate: found \"-1Gbps\"",
        ),
        (
            "\"fuso-testbed\"",
            "\"fat-tree\"\nk = 5",
            "mine.toml:7: topology.k: found 5, want an even",
        ),
        (
            "\"fuso-testbed\"",
            "\"fuso-tesbed\"",
            "did you mean \"fuso-testbed\"?",
        ),
        (
            "\"P1\"",
            "\"P7\"",
            "mine.toml:11: loss.on: no link matches `P7`",
        ),
        (
            "\"H4\"",
            "\"H9\"",
            "mine.toml:15: traffic.clients: found \"H9\", which is no host here",
        ),
        (
            "flows = 40",
            "flows = 0",
            "mine.toml:18: traffic.flows: found 0, want 1 or more",
        ),
        (
            "\"20KB\"",
            "\"20ms\"",
            "mine.toml:17: traffic.sizes: found \"20ms\", want web-search",
        ),
        (
            "\"20KB\"",
            "\"file:none.cdf\"",
            "mine.toml:17: traffic.sizes: cannot read",
        ),
        (
            "\"tcp\", \"fuso\"",
            "\"tcp\", \"quic\"",
            "mine.toml:2: transports: found \"quic\", want one of spindle, tcp",
        ),
        (
            "\"tcp\", \"fuso\"",
            "",
            "mine.toml:2: transports: missing or empty",
        ),
        ("seed = 3", "seed = ", "mine.toml:3: not valid TOML"),
        (
            "seed = 3",
            "seed = -3",
            "mine.toml:3: seed: found -3, want a whole number",
        ),
    ];
    for (from, to, want) in cases {
        assert!(FILE.contains(from));
        std::fs::write(dir.path().join("mine.toml"), FILE.replacen(from, to, 1)).unwrap();
        let error = refused(&["run", "mine.toml"], dir.path());
        assert!(error.contains(want), "{to}: {error}");
    }
}

#[test]
fn json_has_the_fields_of_the_contract_and_is_reproducible() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("mine.toml"), FILE).unwrap();
    let json = |more: &[&str]| {
        let mut arguments = vec!["run", "mine.toml", "--json", "-"];
        arguments.extend(more);
        let out = spindle(&arguments, dir.path());
        assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
        let mut value: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        let engine = value["engine"].as_object_mut().unwrap();
        for key in ["events", "packet_hops", "wall_s", "sim_s", "peak_rss_bytes"] {
            assert!(engine[key].as_f64().unwrap() > 0.0, "{key}");
        }
        engine.remove("wall_s");
        engine.remove("peak_rss_bytes");
        value
    };
    let value = json(&["--jobs", "1"]);
    assert_eq!(value, json(&["--jobs", "2"]));
    assert_ne!(value, json(&["--seed", "4"]));
    assert_eq!(
        (value["scenario"].as_str(), value["seed"].as_u64()),
        (Some("Mine"), Some(3))
    );
    let fuso = &value["points"][0]["transports"]["fuso"];
    assert_eq!(
        (fuso["flows"].as_u64(), fuso["completed"].as_u64()),
        (Some(40), Some(40))
    );
    for key in ["mean", "p50", "p90", "max"] {
        assert!(fuso["fct_us"][key].as_f64().unwrap() > 280.0, "{key}");
    }
    for key in ["mean", "p90"] {
        assert_eq!(fuso["fct_us"]["ci95"][key].as_array().unwrap().len(), 2);
    }
    for (key, want) in [("p95", 1_000), ("p99", 5_000), ("p999", 50_000)] {
        assert!(
            fuso["fct_us"][key].is_null() && fuso["fct_us"]["ci95"][key].is_null(),
            "{key}"
        );
        let few = serde_json::json!({ "flows": 40, "want": want });
        assert_eq!(fuso["fct_us"]["too_few"][key], few);
    }
    for key in [
        "aborted",
        "timeout_fraction",
        "timeouts",
        "late_timeouts",
        "fast_retransmits",
        "spurious_retransmits",
        "extra_load",
        "bytes_delivered",
        "bytes_corrupted",
    ] {
        assert!(fuso[key].is_number(), "{key}");
    }
    assert!(fuso["goodput_bps"]["mean"].as_f64().unwrap() > 1e6);
    assert_eq!(
        json(&["--loss", "2%"])["points"][0]["set"],
        serde_json::json!({})
    );
}

#[test]
fn compare_prints_a_table_and_the_path_of_its_report() {
    let dir = tempfile::tempdir().unwrap();
    let out = spindle(
        &["compare", "--flows", "100", "--json", "out.json"],
        dir.path(),
    );
    let table = text(&out.stdout);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    for name in ["tcp", "tlp", "repflow", "mptcp", "fuso", "cofuso-4"] {
        assert!(table.lines().any(|l| l.starts_with(name)), "{table}");
    }
    assert!(
        table.contains("report: spindle-report/index.html"),
        "{table}"
    );
    assert!(dir.path().join("spindle-report/index.html").exists());
    let json = std::fs::read(dir.path().join("out.json")).unwrap();
    let value: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(value["points"][0]["set"], serde_json::json!({"loss": "2%"}));
}

#[test]
fn unfinished_flows_end_with_exit_code_1() {
    let dir = tempfile::tempdir().unwrap();
    let file = FILE.replace(
        "rate = \"1%\"\non = [\"P1\"]",
        "model = \"black-hole\"\non = [\"H1\"]\nfrom = \"1s\"",
    ) + "load = \"100kbps\"\n[scenario]\nuser_timeout = \"3s\"\n";
    std::fs::write(dir.path().join("mine.toml"), file).unwrap();
    let out = spindle(&["run", "mine.toml"], dir.path());
    assert_eq!(out.status.code(), Some(1), "{}", text(&out.stdout));
    assert!(text(&out.stdout).contains("aborted"));
    assert_eq!(text(&out.stderr).lines().count(), 1);
}

#[test]
fn a_flow_file_gives_speed_and_completion_times() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("one.flows"), "0 0 8 6907 0 1 1\n").unwrap();
    let out = spindle(
        &["flows", "one.flows", "--k", "4", "--json", "-"],
        dir.path(),
    );
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let value: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    // Three simulators give 8318.8 to 8331.3 us for this flow.
    let fct = value["fct_us"]["mean"].as_f64().unwrap();
    assert!((8294.0..8359.0).contains(&fct), "{fct}");
    assert!(value["engine"]["packet_hops_per_s"].as_f64().unwrap() > 0.0);
    std::fs::write(dir.path().join("bad.flows"), "0 0 99 5 0 1 1\n").unwrap();
    let error = refused(&["flows", "bad.flows", "--k", "4"], dir.path());
    assert!(
        error.contains("host 99, but k=4 has hosts 0 to 15"),
        "{error}"
    );
}

#[test]
fn explain_and_list_show_transports_and_experiments() {
    let dir = tempfile::tempdir().unwrap();
    let all = text(&spindle(&["explain"], dir.path()).stdout);
    for name in ["tcp", "repflow", "mptcp-N", "fuso-N", "kernel-mptcp"] {
        assert!(
            all.lines().any(|l| l.starts_with(&format!("  {name} "))),
            "{name}"
        );
    }
    assert!(
        all.lines()
            .any(|l| l.starts_with("  caps-dark ") && l.contains("100 KB"))
    );
    let pair = text(&spindle(&["explain", "tcp@rps-pq"], dir.path()).stdout);
    assert!(
        pair.starts_with("tcp@rps-pq\n") && pair.contains("two strict priorities"),
        "{pair}"
    );
    let fuso = text(&spindle(&["explain", "fuso"], dir.path()).stdout);
    assert!(
        fuso.contains("FUSO section 3.2") && fuso.contains("subflows: 4"),
        "{fuso}"
    );
    let cofuso = text(&spindle(&["explain", "cofuso"], dir.path()).stdout);
    for part in ["CoFUSO section 4", "parities", "subflows: 5"] {
        assert!(cofuso.contains(part), "{cofuso}");
    }
    let list = text(&spindle(&["reproduce", "--list"], dir.path()).stdout);
    for id in ["fuso-fig2", "fuso-fig4ab", "fuso-fig8"] {
        assert!(list.lines().any(|l| l.starts_with(id)), "{id}: {list}");
    }
    let arena = spindle(&["reproduce", "arena", "--quick", "--list"], dir.path());
    let arena = text(&arena.stdout);
    let ids = arena.lines().filter_map(|l| l.split(' ').next());
    assert!(ids.clone().count() >= 13, "{arena}");
    assert!(ids.clone().all(|id| id.starts_with("arena-")), "{arena}");
    let of_paper = spindle(
        &["reproduce", "--paper", "arena", "--quick", "--list"],
        dir.path(),
    );
    assert_eq!(text(&of_paper.stdout), arena);
    let help = spindle(&["--help"], dir.path());
    assert_eq!(help.status.code(), Some(0));
}

#[test]
fn a_slow_flow_is_found_and_followed() {
    let dir = tempfile::tempdir().unwrap();
    let common = ["trace", "compare", "--transport", "mptcp", "--flows", "300"];
    let list = spindle(&[&common[..], &["--slowest", "10"]].concat(), dir.path());
    let list = text(&list.stdout);
    assert_eq!(list.lines().count(), 12, "{list}");
    let columns = |line: &str| -> Vec<f64> {
        line.split_whitespace()
            .map(|w| w.parse().unwrap())
            .collect()
    };
    let flows: Vec<Vec<f64>> = list.lines().skip(2).map(columns).collect();
    assert!(flows.windows(2).all(|w| w[0][2] >= w[1][2]), "{list}");
    // Flow, bytes, time, losses, timeouts: find a flow that lost response data and waited for the timer.
    let waited = flows.iter().find(|f| f[3] > 0.0 && f[4] > 0.0);
    let flow = waited.unwrap_or_else(|| panic!("{list}"))[0].to_string();
    let one = spindle(&[&common[..], &["--flow", &flow]].concat(), dir.path());
    let one = text(&one.stdout);
    assert!(
        one.contains("TIMEOUT at") && one.contains("LOST on"),
        "{one}"
    );
    let refusal = refused(&[&common[..], &["--flow", "300"]].concat(), dir.path());
    assert!(refusal.contains("want 0 to 299"), "{refusal}");
}

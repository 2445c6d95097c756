//! Reports as their readers see them: links between pages, runs that can be followed, and no mixed versions.

mod common;

use std::fs;
use std::path::Path;

use common::{spindle, text};

/// The output of the command, which must succeed.
fn printed(arguments: &[&str], directory: &Path) -> String {
    let out = spindle(arguments, directory);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    text(&out.stdout)
}

#[test]
fn a_page_of_runs_has_the_command_that_finds_the_slowest_flow() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = [
        "compare",
        "--transports",
        "tcp",
        "--flows",
        "200",
        "--loss",
        "1%,4%",
        "--seed",
        "3",
    ];
    let files = ["--json", "out.json", "--report", "report"];
    printed(&[&arguments[..], &files[..]].concat(), dir.path());
    let json = fs::read(dir.path().join("out.json")).unwrap();
    let value: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let slowest = &value["points"][1]["transports"]["tcp"]["fct_us"]["max"];
    let page = fs::read_to_string(dir.path().join("report/runs/compare.html")).unwrap();
    let command = page.rsplit("<code>spindle ").next().unwrap();
    let command = command.split("</code>").next().unwrap();
    for part in ["--loss 1%,4%", "--point 1", "--seed 3", "/20"] {
        assert!(command.contains(part), "{command}");
    }
    let words: Vec<&str> = command.split(' ').collect();
    let list = printed(&[&words[..], &["--slowest", "1"]].concat(), dir.path());
    let time = list.lines().nth(2).unwrap().split_whitespace().nth(2);
    let time: f64 = time.unwrap().parse().unwrap();
    assert!(
        (time - slowest.as_f64().unwrap()).abs() < 0.1,
        "{list} {slowest}"
    );
}

/// The commands that the cells of a figure's page offer are run as they are.
#[test]
fn commands_of_the_cells_of_a_figure_trace_and_capture_their_runs() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = [
        "reproduce",
        "cofuso-fig9a",
        "--quick",
        "--reading",
        "linux-3.18",
    ];
    printed(&[&arguments[..], &["--out", "site"]].concat(), dir.path());
    let page = fs::read_to_string(dir.path().join("site/cofuso-fig9a.html")).unwrap();
    let attribute = |name: &str| {
        let marked = format!("{name}=\"");
        let parts = page.split(&marked).skip(1);
        let values = parts.map(|rest| rest.split('"').next().unwrap().to_owned());
        values.collect::<Vec<String>>()
    };
    let (traces, captures) = (attribute("data-trace"), attribute("data-capture"));
    assert!(
        traces.len() >= 20,
        "ten points of two transports: {traces:?}"
    );
    for (i, trace) in traces.iter().step_by(7).enumerate() {
        let words: Vec<&str> = trace.split(' ').skip(1).collect();
        let list = printed(&words, dir.path());
        assert!(
            list.contains("cofuso-fig9a (loss.packet "),
            "{trace}: {list}"
        );
        let own = captures[0].replace("captures", &format!("captures{i}"));
        let words = [&words[..], &own.trim().split(' ').collect::<Vec<_>>()].concat();
        printed(&words, dir.path());
        let files = fs::read_dir(dir.path().join(format!("captures{i}"))).unwrap();
        let sizes = files.map(|f| f.unwrap().metadata().unwrap().len());
        let sizes: Vec<u64> = sizes.collect();
        assert!(
            matches!(sizes[..], [size] if size > 1000),
            "{trace}: {sizes:?}"
        );
    }
}

#[test]
fn a_flow_is_drawn_together_with_that_of_another_transport() {
    let dir = tempfile::tempdir().unwrap();
    let one = ["trace", "compare", "--transport", "fuso", "--flows", "60"];
    // 88 KB: more than a first window, so that congestion windows are in the trace.
    let drawn = ["--flow", "8", "--against", "mptcp", "--report", "flow"];
    let out = printed(&[&one[..], &drawn[..]].concat(), dir.path());
    assert!(out.contains("report: flow/index.html"), "{out}");
    assert!(out.contains("cwnd "), "{out}");
    let page = fs::read_to_string(dir.path().join("flow/index.html")).unwrap();
    for part in ["class=\"figure zoomable\"", "class=\"cwnd\"", "mptcp: done"] {
        assert!(page.contains(part), "{part}");
    }
    for (bad, remedy) in [
        (["--part", "3"], "want K/N"),
        (["--part", "3/3"], "want K/N"),
        (["--point", "9"], "--point: found 9, want 0 to 0"),
    ] {
        let out = spindle(&[&one[..], &bad[..]].concat(), dir.path());
        assert_eq!(out.status.code(), Some(2), "{bad:?}");
        let error = text(&out.stderr);
        assert!(error.contains(remedy), "{error}");
    }
}

#[test]
fn runs_of_another_version_are_not_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = [
        "compare",
        "--transports",
        "tcp",
        "--flows",
        "40",
        "--report",
        "report",
        "--store",
        "runs.jsonl",
        "--resume",
    ];
    printed(&arguments, dir.path());
    let store = dir.path().join("runs.jsonl");
    let runs = fs::read_to_string(&store).unwrap();
    printed(&arguments, dir.path());
    assert_eq!(fs::read_to_string(&store).unwrap(), runs, "runs are kept");

    let version = printed(&["--version"], dir.path());
    // The commit follows it in parentheses.
    let version = version.split_whitespace().nth(1).unwrap();
    assert!(
        runs.contains(&format!("\"version\":\"{version}\"")),
        "{version}"
    );
    fs::write(&store, runs.replacen(version, "0.0.1+older", 1)).unwrap();
    let out = spindle(&arguments, dir.path());
    assert_eq!(out.status.code(), Some(1));
    let error = text(&out.stderr);
    for part in [
        "runs.jsonl, line 1",
        "0.0.1+older",
        version,
        "without --resume",
    ] {
        assert!(error.contains(part), "{error}");
    }
    assert!(out.stdout.is_empty(), "no table");
}

#[test]
fn the_name_all_selects_all_transports() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = [
        "compare",
        "--transports",
        "all",
        "--flows",
        "10",
        "--json",
        "-",
    ];
    let value: serde_json::Value = serde_json::from_str(&printed(&arguments, dir.path())).unwrap();
    let transports = value["points"][0]["transports"].as_object().unwrap();
    for name in [
        "tcp",
        "dctcp",
        "repflow",
        "tcp-ir",
        "mptcp-linux",
        "fuso",
        "cofuso",
        "oracle",
    ] {
        assert!(transports.contains_key(name), "{name}");
    }
    assert!(
        !transports.contains_key("fuso-8"),
        "only a number of subflows"
    );
    let fuso = &transports["fuso"];
    for (value, interval) in [
        (&fuso["fct_us"]["p50"], &fuso["fct_us"]["ci95"]["p50"]),
        (&fuso["fct_us"]["p90"], &fuso["fct_us"]["ci95"]["p90"]),
        (&fuso["goodput_bps"]["mean"], &fuso["goodput_bps"]["ci95"]),
        (&fuso["timeout_fraction"], &fuso["timeout_fraction_ci95"]),
    ] {
        let number = |v: &serde_json::Value| v.as_f64().unwrap();
        let inside = number(&interval[0]) <= number(value) && number(value) <= number(&interval[1]);
        assert!(inside, "{value} {interval}");
    }
}

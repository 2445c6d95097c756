//! The lock of verdicts and the register of claims, made from experiments that are computed and not run.

mod common;

use std::fs;
use std::path::Path;

use common::{spindle, text};
use serde_json::Value;

/// The message of a command that is refused as bad usage.
fn refused(arguments: &[&str], directory: &Path) -> String {
    let out = spindle(arguments, directory);
    let error = text(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{error}");
    error
}

#[test]
fn lock_accepts_the_run_that_wrote_it_and_names_a_claim_whose_verdict_differs() {
    let dir = tempfile::tempdir().unwrap();
    let both = ["reproduce", "caps-fig9", "caps-fig6", "--quick"];
    let written = spindle(
        &[&both[..], &["--write-lock", "lock.json"]].concat(),
        dir.path(),
    );
    assert_eq!(written.status.code(), Some(0), "{}", text(&written.stderr));
    let some = ["reproduce", "caps-fig9", "--check-lock", "lock.json"];
    let checked = spindle(&some, dir.path());
    assert_eq!(checked.status.code(), Some(0), "{}", text(&checked.stderr));

    let path = dir.path().join("lock.json");
    let lock = fs::read_to_string(&path).unwrap();
    let line = lock
        .lines()
        .find(|l| l.contains("\"caps-fig9-o1\""))
        .unwrap();
    let hash = line.split('"').nth(7).unwrap();
    let changed = line
        .replace("\"holds\"", "\"fails\"")
        .replace(hash, "0000000000000000");
    fs::write(&path, lock.replace(line, &changed)).unwrap();
    let checked = spindle(&some, dir.path());
    let error = text(&checked.stderr);
    assert_eq!(checked.status.code(), Some(1), "{error}");
    for part in [
        "caps-fig9-o1: its text or rule changed",
        "caps-fig9-o1: holds, was fails",
        "--write-lock",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }

    // The run of one experiment repairs its entry and keeps the other.
    let repair = ["reproduce", "caps-fig9", "--write-lock", "lock.json"];
    assert_eq!(spindle(&repair, dir.path()).status.code(), Some(0));
    assert_eq!(fs::read_to_string(&path).unwrap(), lock);
}

#[test]
fn lock_is_only_for_the_default_reading_and_for_its_scale() {
    let dir = tempfile::tempdir().unwrap();
    let run = ["reproduce", "caps-fig9", "--write-lock", "lock.json"];
    assert_eq!(spindle(&run, dir.path()).status.code(), Some(0));
    let full = [
        "reproduce",
        "caps-fig9",
        "--full",
        "--check-lock",
        "lock.json",
    ];
    let error = refused(&full, dir.path());
    assert!(
        error.contains("found verdicts of --quick, want those of --full"),
        "{error}"
    );
    let reading = ["--reading", "linux-3.18"];
    refused(&[&run[..], &reading].concat(), dir.path());
}

#[test]
fn hash_of_claims_and_sizes_is_listed_before_a_run_and_printed_with_its_verdicts() {
    let dir = tempfile::tempdir().unwrap();
    let list = text(&spindle(&["reproduce", "caps-fig9", "--list"], dir.path()).stdout);
    let (_, hash) = list
        .trim_end()
        .trim_end_matches(')')
        .rsplit_once(' ')
        .unwrap();
    assert_eq!(hash.len(), 16, "{list}");
    let run = text(&spindle(&["reproduce", "caps-fig9"], dir.path()).stdout);
    assert!(
        run.contains(&format!("caps-fig9 (claims and sizes {hash})")),
        "{run}"
    );
}

#[test]
fn register_has_a_row_for_each_claim_that_fails() {
    let dir = tempfile::tempdir().unwrap();
    let run = ["reproduce", "caps-fig9", "caps-fig6", "--json", "v.json"];
    assert_eq!(spindle(&run, dir.path()).status.code(), Some(0));
    // All claims of these experiments hold or are not checkable.
    let path = dir.path().join("v.json");
    let mut results: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let claims = results["experiments"][0]["claims"].as_array_mut().unwrap();
    let claim = claims.iter_mut().find(|c| c["id"] == "caps-fig9-o1");
    claim.unwrap()["verdict"] = "fails".into();
    fs::write(&path, results.to_string()).unwrap();
    let made = spindle(&["register", "v.json", "--out", "page.md"], dir.path());
    assert_eq!(made.status.code(), Some(0), "{}", text(&made.stderr));
    let page = fs::read_to_string(dir.path().join("page.md")).unwrap();
    for part in [
        "## CAPS: Coding-based",
        "| default | quick | ",
        "**caps-fig6** holds: ",
        "| `o1` ",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let error = refused(&["register", "v.json", "v.json"], dir.path());
    assert!(
        error.contains("v.json: caps-fig9 (default, quick) is in an earlier file"),
        "{error}"
    );
    fs::write(dir.path().join("other.json"), "{}").unwrap();
    let error = refused(&["register", "other.json"], dir.path());
    assert!(
        error.contains("want a file that `reproduce --json` has written"),
        "{error}"
    );
}

#[test]
fn robustness_page_compares_a_run_with_its_variations() {
    let dir = tempfile::tempdir().unwrap();
    // Both are computed, so that no variation changes them.
    let run = ["reproduce", "caps-fig9", "caps-fig6", "--json"];
    for vary in [None, Some("lower-load"), Some("other-seeds")] {
        let file = format!("{}.json", vary.unwrap_or("printed"));
        let vary = vary.map_or(Vec::new(), |name| vec!["--vary", name]);
        let made = spindle(&[&run[..], &[&file], &vary].concat(), dir.path());
        assert_eq!(made.status.code(), Some(0), "{}", text(&made.stderr));
    }
    let files = ["printed.json", "lower-load.json", "other-seeds.json"];
    let page = [&["register"], &files[..], &["--robustness", "page.md"]].concat();
    let made = spindle(&page, dir.path());
    assert_eq!(made.status.code(), Some(0), "{}", text(&made.stderr));
    let page = fs::read_to_string(dir.path().join("page.md")).unwrap();
    for part in [
        " robust, 0 uncertain, 0 fragile.",
        "| lower-load | load x 0.8 | ",
        "| other-seeds | other seeds | ",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let error = refused(&["reproduce", "caps-fig9", "--vary", "lower"], dir.path());
    assert!(error.contains("want one of other-seeds"), "{error}");
    let lock = ["--vary", "lower-load", "--check-lock", "lock.json"];
    refused(
        &[&["reproduce", "caps-fig9"], &lock[..]].concat(),
        dir.path(),
    );
}

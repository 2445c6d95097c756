//! The command line with the names of this crate.

use std::process::ExitCode;

/// Runs the command line and returns whether the exit code was that of success.
fn succeeds(arguments: &[&str]) -> bool {
    let all = std::iter::once("spindle").chain(arguments.iter().copied());
    let code = spindle::run(extensions::registry(), all);
    format!("{code:?}") == format!("{:?}", ExitCode::SUCCESS)
}

/// The file of the pages, by its path.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/controller.toml");

#[test]
fn controller_of_this_crate_runs_from_a_file_and_as_a_variant() {
    assert!(succeeds(&["run", FILE, "--flows", "60"]));
    let variants = "tcp+scalable,fuso+scalable,mptcp+scalable+most-room";
    let without = ["--set", "scenario.congestion=reno"];
    let arguments = ["run", FILE, "--flows", "60", "--transports", variants];
    assert!(succeeds(&[&arguments[..], &without[..]].concat()));
}

#[test]
fn traffic_of_this_crate_runs_from_a_file() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/ring.toml");
    assert!(succeeds(&["run", file]));
    assert!(!succeeds(&["run", file, "--set", "traffic.hosts=h1"]));
}

#[test]
fn scheduler_of_this_crate_is_a_variant_of_multipath_transports_only() {
    assert!(succeeds(&["explain", "mptcp+most-room"]));
    assert!(!succeeds(&["explain", "tcp+most-room"]));
}

#[test]
fn path_manager_of_this_crate_runs_as_a_variant() {
    assert!(succeeds(&["explain", "mptcp+per-address"]));
    let transports = ["--transports", "mptcp,mptcp+per-address"];
    let arguments = ["run", FILE, "--flows", "60"];
    assert!(succeeds(&[&arguments[..], &transports[..]].concat()));
}

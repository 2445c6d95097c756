//! The testbed, run by a user without privileges in a user namespace.

use std::path::Path;
use std::process::Command;
use std::sync::PoisonError;

use crate::two_hosts::{ONE_AT_A_TIME, copy_program, have};

const EXPERIMENT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../experiments/wire/two-paths.toml"
);
/// The user that has no rights on most systems.
const UNPRIVILEGED: &str = "65534";

/// Whether such a user may create namespaces and TUN devices here.
fn allowed(test: &str, unprivileged: &dyn Fn() -> Command) -> bool {
    let made = unprivileged()
        .args(["unshare", "--user", "--net", "true"])
        .output();
    let allowed = made.is_ok_and(|o| o.status.success());
    if !allowed {
        eprintln!("skipped {test}: user namespaces are not allowed here");
        return false;
    }
    let opened = unprivileged()
        .args(["sh", "-c", "test -r /dev/net/tun -a -w /dev/net/tun"])
        .status();
    let opened = opened.is_ok_and(|s| s.success());
    if !opened {
        eprintln!("skipped {test}: /dev/net/tun is root's alone here");
    }
    opened
}

/// A copy that everyone may read, since the build directory may be closed to others.
fn published(dir: &Path, from: &str, name: &str) -> std::path::PathBuf {
    let to = dir.join(name);
    copy_program(from, &to);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&to, mode).expect("its mode");
    to
}

#[test]
fn the_testbed_runs_without_privileges() {
    let test = "rootless::the_testbed_runs_without_privileges";
    if !nix::unistd::geteuid().is_root() || !have(test, "setpriv") || !have(test, "ip") {
        eprintln!("skipped {test}: it takes root, to give up its privileges");
        return;
    }
    let unprivileged = || {
        let mut command = Command::new("setpriv");
        command.args([
            &format!("--reuid={UNPRIVILEGED}"),
            &format!("--regid={UNPRIVILEGED}"),
        ]);
        command.arg("--clear-groups");
        command
    };
    if !allowed(test, &unprivileged) {
        return;
    }
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().expect("a directory");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(dir.path(), mode).expect("its mode");
    let spindle = published(dir.path(), env!("CARGO_BIN_EXE_spindle"), "spindle");
    let experiment = published(dir.path(), EXPERIMENT, "two-paths.toml");
    // How late packets are on a shared machine does not matter here.
    let done = unprivileged()
        .arg(&spindle)
        .arg("testbed")
        .arg(&experiment)
        .args([
            "--flows", "8", "--loss", "0%", "--late", "10s", "--jobs", "2",
        ])
        .args([
            "--set",
            "traffic.first_path=1",
            "--set",
            "traffic.ask=when-joined",
        ])
        .args(["--transports", "kernel-mptcp,tun:fuso,udp:fuso"])
        .current_dir(dir.path())
        .output()
        .expect("started");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    let table = String::from_utf8_lossy(&done.stdout);
    for row in ["kernel-mptcp", "tun:fuso", "udp:fuso"] {
        assert!(table.contains(row), "{table}");
    }
}

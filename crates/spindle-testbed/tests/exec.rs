//! Programs in the hosts end with the testbed, however it ends. Runs as root only.

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use spindle_testbed::exec::{Exec, exec};

mod support;

use support::{able, experiment};

const NEEDS: [&str; 1] = ["/proc/sys/net/mptcp"];

const TEXT: &str = r#"
transports = ["tcp"]
[topology]
name = "dual-homed"
rate = "100Mbps"
rtt = "10ms"
buffer = "500KB"
[traffic]
kind = "requests"
clients = ["client"]
servers = ["server"]
arrivals = "sequential"
sizes = "50KB"
connections = "new"
flows = 10
"#;

/// Distinguishes the test's own process from the process that it starts.
const INSIDE: &str = "SPINDLE_TEST_EXEC_MARK";

fn carried_out(programs: &[String]) -> i32 {
    let (experiment, registry) = experiment(TEXT, None, &[]);
    let programs: Vec<Exec> = programs.iter().map(|p| Exec::parse(p).unwrap()).collect();
    exec(&experiment, &registry, &programs).unwrap().0
}

/// A program that starts another and waits for it. `mark`, in seconds, identifies both.
fn family(mark: &str) -> String {
    format!("server=sleep {mark} & sleep {mark}; true")
}

/// The number of `sleep`s with this mark.
fn sleeping(mark: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let line = |p: std::fs::DirEntry| std::fs::read(p.path().join("cmdline")).unwrap_or_default();
    let wanted = format!("sleep\0{mark}\0");
    processes
        .map(line)
        .filter(|l| *l == wanted.as_bytes())
        .count()
}

/// Waits until this many are running. The machine may be slow.
fn until(mark: &str, count: usize) {
    let start = Instant::now();
    while sleeping(mark) != count {
        let waited = start.elapsed();
        assert!(
            waited < Duration::from_secs(30),
            "{} of {mark}, want {count}",
            sleeping(mark)
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs this test again in a child process, which then receives a signal.
fn ended_by(test: &str, signal: Signal) {
    if let Ok(mark) = std::env::var(INSIDE) {
        std::process::exit(carried_out(&[family(&mark)]));
    }
    if !able(&NEEDS) {
        return;
    }
    let mark = format!("{}.{}", 40 + signal as i32, std::process::id());
    let mut child: Child = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(INSIDE, &mark)
        .spawn()
        .unwrap();
    until(&mark, 2);
    kill(Pid::from_raw(child.id() as i32), signal).unwrap();
    let status = child.wait().unwrap();
    until(&mark, 0);
    let code = (signal == Signal::SIGTERM).then_some(130);
    assert_eq!(status.code(), code);
}

#[test]
fn the_last_program_ends_the_others_with_all_that_they_started() {
    if !able(&NEEDS) {
        return;
    }
    let mark = format!("40.{}", std::process::id());
    let wait =
        format!("client=until [ $(pgrep -fxc 'sleep {mark}') = 2 ]; do sleep 0.05; done; exit 3");
    assert_eq!(carried_out(&[family(&mark), wait]), 3);
    until(&mark, 0);
}

#[test]
fn a_signal_to_end_ends_the_programs() {
    ended_by("a_signal_to_end_ends_the_programs", Signal::SIGTERM);
}

#[test]
fn programs_do_not_outlive_a_testbed_that_is_killed() {
    ended_by(
        "programs_do_not_outlive_a_testbed_that_is_killed",
        Signal::SIGKILL,
    );
}

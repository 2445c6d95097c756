//! Connections to a forwarding gateway that are ready before a program needs them.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::forward::{curl, page};
use crate::program::{Running, program, wait_for};
use crate::two_hosts::have;
use crate::udp::{free, start};

/// Makes the keys of a gateway at this address and the bundle of a client.
pub(crate) fn keys(directory: &Path, gateway: SocketAddr) {
    let spindle = |args: &[&str]| {
        let mut command = Command::new(program());
        let done = command.current_dir(directory).args(args).output();
        assert!(done.as_ref().is_ok_and(|d| d.status.success()), "{done:?}");
    };
    let via = gateway.to_string();
    spindle(&["keygen", "keys", "--name", "gateway.example"]);
    spindle(&[
        "enroll",
        "keys",
        "--client",
        "me",
        "--via",
        &via,
        "--out",
        "me.bundle",
    ]);
}

/// A gateway that forwards to one port of the loopback.
fn gateway(directory: &Path, outer: SocketAddr, to: u16) -> Running {
    let keys = directory.join("keys");
    let keys = keys.display();
    start(
        "gateway",
        &format!("--listen {outer} --forward 127.0.0.0/8:{to} --keys {keys}"),
    )
}

fn connect(directory: &Path, local: SocketAddr, flags: &str) -> Running {
    let bundle = directory.join("me.bundle");
    let bundle = bundle.display();
    start(
        "connect",
        &format!("--listen {local} --http-connect --bundle {bundle} --log debug {flags}"),
    )
}

/// The numbers of a service's open connections.
fn open(service: &Running) -> Vec<u64> {
    let status = service.status();
    let connections = status["connections"].as_array().expect("a list");
    let ids = connections
        .iter()
        .map(|c| c["id"].as_u64().expect("a number"));
    ids.collect()
}

fn fetched(local: SocketAddr, to: u16) -> bool {
    let url = format!("http://127.0.0.1:{to}/");
    curl(&format!("--proxytunnel --proxy http://{local} {url}")).stdout == b"spindle"
}

#[test]
fn a_program_gets_a_connection_that_was_open_before_it_came() {
    let test = "ready::a_program_gets_a_connection_that_was_open_before_it_came";
    if !have(test, "curl") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let (outer, local, to) = (free(), free(), page(Ipv4Addr::LOCALHOST));
    keys(dir.path(), outer);
    let mut gateway = gateway(dir.path(), outer, to);
    let mut connect = connect(dir.path(), local, "");
    // The first one is the trial of the certificates, which ends by itself.
    wait_for("one is ready", || {
        connect.log().contains("its certificate is accepted") && open(&connect).len() == 1
    });
    let ready = open(&connect)[0];
    assert!(fetched(local, to), "{}\n{}", gateway.log(), connect.log());
    let used = format!("connection={ready} ");
    wait_for("the ready one was used", || {
        connect
            .log()
            .lines()
            .any(|l| l.contains("closed") && l.contains(&used))
    });
    assert_eq!((connect.end(), gateway.end()), (Some(0), Some(0)));
    // Ready connections that are not used are no refused clients.
    assert!(!gateway.log().contains("refused"), "{}", gateway.log());
}

#[test]
fn programs_reach_a_gateway_that_was_killed_and_started_again() {
    let test = "ready::programs_reach_a_gateway_that_was_killed_and_started_again";
    if !have(test, "curl") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let (outer, local, to) = (free(), free(), page(Ipv4Addr::LOCALHOST));
    keys(dir.path(), outer);
    let first = gateway(dir.path(), outer, to);
    let connect = connect(dir.path(), local, "");
    wait_for("one is ready", || !open(&connect).is_empty());
    assert!(fetched(local, to), "{}\n{}", first.log(), connect.log());
    wait_for("another one is ready", || !open(&connect).is_empty());
    drop(first);
    let second = gateway(dir.path(), outer, to);
    assert!(fetched(local, to), "{}\n{}", second.log(), connect.log());
}

#[test]
fn a_program_that_is_answered_early_reaches_its_target_or_is_reset() {
    let test = "ready::a_program_that_is_answered_early_reaches_its_target_or_is_reset";
    if !have(test, "curl") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let (outer, local, to) = (free(), free(), page(Ipv4Addr::LOCALHOST));
    keys(dir.path(), outer);
    let gateway = gateway(dir.path(), outer, to);
    for ready in [8, 0] {
        let port = free();
        let connect = connect(
            dir.path(),
            port,
            &format!("--answer-early all --ready {ready}"),
        );
        assert!(fetched(port, to), "{}\n{}", gateway.log(), connect.log());
    }
    let connect = connect(dir.path(), local, "--answer-early all");
    let one_is_ready = || wait_for("one is ready", || !open(&connect).is_empty());
    one_is_ready();
    assert!(fetched(local, to), "{}\n{}", gateway.log(), connect.log());
    one_is_ready();
    // No rule allows the port. CURLE_GOT_NOTHING, CURLE_SEND_ERROR or CURLE_RECV_ERROR: the proxy's answer was that it
    // is open.
    let got = curl(&format!(
        "--proxytunnel --proxy http://{local} http://127.0.0.1:1/"
    ));
    let code = got.status.code();
    assert!(matches!(code, Some(52 | 55 | 56)), "{got:?}");
    let said = String::from_utf8_lossy(&got.stderr);
    assert!(
        !said.contains("403"),
        "the answer came before the gateway's: {said}"
    );
    wait_for("the refusal is logged", || {
        connect.log().contains("the gateway answered 403")
    });
}

/// A stopped gateway neither answers nor closes its connections.
#[test]
fn a_program_that_is_answered_early_is_reset_if_the_gateway_stays_silent() {
    let test = "ready::a_program_that_is_answered_early_is_reset_if_the_gateway_stays_silent";
    if !have(test, "curl") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let (outer, local, to) = (free(), free(), page(Ipv4Addr::LOCALHOST));
    keys(dir.path(), outer);
    let gateway = gateway(dir.path(), outer, to);
    let connect = connect(dir.path(), local, "--answer-early all --connect-timeout 1s");
    wait_for("one is ready", || !open(&connect).is_empty());
    gateway.signal("STOP");
    let begin = Instant::now();
    let got = curl(&format!(
        "--proxytunnel --proxy http://{local} http://127.0.0.1:{to}/"
    ));
    // 28 would be curl's own timeout.
    let code = got.status.code();
    assert!(
        matches!(code, Some(52 | 55 | 56)),
        "{got:?}\n{}",
        connect.log()
    );
    assert!(begin.elapsed() >= Duration::from_secs(1));
    gateway.signal("CONT");
    wait_for("programs reach the gateway again", || fetched(local, to));
}

//! `--fallback direct`: programs reach their targets directly while the gateway cannot be reached, and not if it refuses.
//!
//! The servers answer with the address that they were reached from: their own host's if the gateway has connected to them,
//! and the client's if the client has done so directly.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::program::{Running, program, wait_for};
use crate::ready::keys;
use crate::redirect::{FORWARD, LOOPBACK, SERVERS, by_the_gateway, curl, direct, seen, serve};
use crate::two_hosts::{Hosts, have, output, run, within};

/// The gateway's address.
const AT: &str = "10.1.1.1:4430";
/// Far longer than any of these connections takes. Today's time-out of an unreachable gateway is 2 s.
const GENEROUS: Duration = Duration::from_secs(10);

/// Whether the test's programs are installed.
fn ready(test: &str) -> bool {
    have(test, "curl") && have(test, "nft")
}

/// Makes the gateway unreachable without any answer.
fn block() {
    run(
        "nft 'add table inet hole; add chain inet hole in { type filter hook input priority 0; }; \
         add chain inet hole out { type filter hook output priority 0; }; \
         add rule inet hole in udp dport 4430 drop; add rule inet hole out udp sport 4430 drop'",
    );
}

fn unblock() {
    run("nft delete table inet hole");
}

/// A gateway with these keys.
fn gateway(directory: &Path) -> Running {
    let mut command = Command::new(program());
    command.args(["gateway", "--udp", "--listen", AT, "--keys"]);
    command.arg(directory.join("keys")).args(FORWARD);
    Running::start(command)
}

/// A connect with the bundle of this directory and `--fallback direct`.
fn connect(hosts: &Hosts, directory: &Path, flags: &str) -> Running {
    let mut command = hosts.client_command(&[program(), "connect", "--udp"]);
    command.args("--fallback direct --bundle".split(' '));
    command.arg(directory.join("me.bundle"));
    command.args(flags.split_whitespace());
    Running::start(command)
}

const PROXY: &str = "--listen 127.0.0.1:1080 --socks5 --http-connect";

/// What a server says to curl by a proxy of this kind.
fn by_proxy(hosts: &Hosts, kind: &str, host: &str) -> String {
    let flags = "-sS --max-time 20 --noproxy '' --proxytunnel";
    let line = format!("curl {flags} --proxy {kind}://127.0.0.1:1080 http://{host}/");
    let out = hosts.client_output(&line);
    let [text, said] = [out.stdout, out.stderr].map(|t| String::from_utf8_lossy(&t).into_owned());
    text + &said
}

fn silent(connect: &Running) -> bool {
    connect.status()["direct"]["gateway_silent"] == true
}

/// The number of direct connections since the start.
fn total(connect: &Running) -> u64 {
    connect.status()["direct"]["total"]
        .as_u64()
        .expect("a number")
}

/// Runs `body` in a namespace with the servers and a directory, unless something is missing.
fn with_servers(test: &str, seconds: u32, body: impl FnOnce(&Hosts, &Path)) {
    within(test, seconds, |hosts| {
        if !ready(test) {
            return;
        }
        serve(hosts);
        let dir = tempfile::tempdir().expect("a directory");
        body(hosts, dir.path());
    });
}

/// Gives an address of the servers a name, in the test's mount namespace.
fn name(directory: &Path) {
    let hosts = directory.join("hosts");
    std::fs::write(&hosts, format!("{} server.example\n", SERVERS[0])).expect("a file");
    run(&format!("mount --bind {} /etc/hosts", hosts.display()));
}

#[test]
fn a_program_reaches_its_target_while_the_gateway_is_silent_and_by_the_gateway_afterwards() {
    let test = "fallback::a_program_reaches_its_target_while_the_gateway_is_silent_and_by_the_gateway_afterwards";
    with_servers(test, 90, |hosts, dir| {
        name(dir);
        keys(dir, AT.parse().expect("an address"));
        let gateway = gateway(dir);
        let flags = format!("{PROXY} --metrics 127.0.0.1:9100");
        let connect = connect(hosts, dir, &flags);
        let log = || format!("{}\n{}", connect.log(), gateway.log());
        let by_gateway = SERVERS[0];
        assert_eq!(by_proxy(hosts, "http", SERVERS[0]), by_gateway, "{}", log());
        assert_eq!(total(&connect), 0);
        block();
        let begin = Instant::now();
        assert_eq!(by_proxy(hosts, "http", SERVERS[0]), "10.1.1.2", "{}", log());
        let first = begin.elapsed();
        assert!(first < GENEROUS, "{first:?}");
        assert!(silent(&connect), "{}", log());
        // A name is resolved here.
        let begin = Instant::now();
        let named = by_proxy(hosts, "socks5h", "server.example");
        let second = begin.elapsed();
        eprintln!("the first direct connection took {first:?}, the second {second:?}");
        assert_eq!(named, "10.1.1.2", "{}", log());
        assert!(second < Duration::from_secs(2), "it waits for nothing");
        assert_eq!(total(&connect), 2, "{}", log());
        let metrics = hosts.client("curl -sS http://127.0.0.1:9100/metrics");
        let counted = |l: &str| l.starts_with("spindle_direct_total") && l.ends_with(" 2");
        assert!(metrics.lines().any(counted), "{metrics}");
        for line in [
            "the gateway cannot be reached",
            "opened directly",
            "target=server.example:80",
        ] {
            assert!(connect.log().contains(line), "{line}: {}", log());
        }
        unblock();
        wait_for("the gateway is used again", || {
            by_proxy(hosts, "http", SERVERS[0]) == by_gateway
        });
        wait_for("it is known", || !silent(&connect));
        let before = total(&connect);
        assert_eq!(by_proxy(hosts, "socks5h", SERVERS[0]), by_gateway);
        assert_eq!(total(&connect), before);
        assert!(connect.log().contains("answers again"), "{}", log());
    });
}

#[test]
fn a_gateway_that_refuses_or_has_a_wrong_certificate_is_not_passed_by() {
    let test = "fallback::a_gateway_that_refuses_or_has_a_wrong_certificate_is_not_passed_by";
    within(test, 90, |hosts| {
        if !ready(test) {
            return;
        }
        serve(hosts);
        let (right, wrong) = (tempfile::tempdir(), tempfile::tempdir());
        let (right, wrong) = (right.expect("one"), wrong.expect("another"));
        for dir in [&right, &wrong] {
            keys(dir.path(), AT.parse().expect("an address"));
        }
        let mut own = gateway(right.path());
        let connect = connect(hosts, right.path(), PROXY);
        // A target that no rule allows. Routes lead to it.
        run("ip addr add 198.51.100.1/32 dev lo");
        let refused = by_proxy(hosts, "http", "198.51.100.1");
        assert!(refused.contains("403"), "{refused}\n{}", connect.log());
        // A target that is this host itself is not the gateway's.
        assert_eq!(own.end(), Some(0), "{}", own.log());
        let here = by_proxy(hosts, "http", "10.1.1.2");
        assert!(here.contains("502"), "{here}\n{}", connect.log());
        assert_eq!(total(&connect), 0, "{}", connect.log());
        block();
        assert_eq!(by_proxy(hosts, "http", SERVERS[0]), "10.1.1.2");
        let other = gateway(wrong.path());
        unblock();
        wait_for("the other one answers", || {
            by_proxy(hosts, "http", SERVERS[0]) != "10.1.1.2"
        });
        let before = total(&connect);
        let refused = by_proxy(hosts, "http", SERVERS[0]);
        let log = || format!("{}\n{}", connect.log(), other.log());
        assert!(refused.contains("502"), "{refused}\n{}", log());
        assert!(!silent(&connect), "{}", log());
        assert_eq!(total(&connect), before, "{}", log());
    });
}

#[test]
fn a_revoked_client_is_not_connected_directly() {
    let test = "fallback::a_revoked_client_is_not_connected_directly";
    with_servers(test, 60, |hosts, dir| {
        keys(dir, AT.parse().expect("an address"));
        run(&format!(
            "cd {} && {} revoke keys --client me",
            dir.display(),
            program()
        ));
        let gateway = gateway(dir);
        let connect = connect(hosts, dir, PROXY);
        for _ in 0..2 {
            let refused = by_proxy(hosts, "http", SERVERS[0]);
            let log = format!("{}\n{}", connect.log(), gateway.log());
            assert!(refused.contains("502"), "{refused}\n{log}");
            assert_eq!(total(&connect), 0, "{log}");
        }
    });
}

#[test]
fn direct_connections_are_not_redirected_again() {
    let test = "fallback::direct_connections_are_not_redirected_again";
    with_servers(test, 90, |hosts, dir| {
        keys(dir, AT.parse().expect("an address"));
        let _gateway = gateway(dir);
        block();
        // The service runs as root, whose programs are redirected, too.
        let connect = connect(
            hosts,
            dir,
            &format!("{LOOPBACK} --redirect all --answer-early all"),
        );
        let client = hosts.namespace();
        assert_eq!(seen(client, ""), direct(), "{}", connect.log());
        assert_eq!(total(&connect), 2, "{}", connect.log());
        unblock();
        wait_for("the gateway is used", || {
            seen(client, "") == by_the_gateway()
        });
    });
}

#[test]
fn a_loop_by_rules_of_the_users_own_ends_with_a_message() {
    let test = "fallback::a_loop_by_rules_of_the_users_own_ends_with_a_message";
    with_servers(test, 60, |hosts, dir| {
        keys(dir, AT.parse().expect("an address"));
        let connect = connect(hosts, dir, "--listen [::]:1080 --expose --transparent");
        let rules = |matches: &str| {
            hosts.client(&format!(
                "nft 'add table inet own; flush table inet own; \
                 add chain inet own out {{ type nat hook output priority -100; }}; \
                 add rule inet own out {matches} tcp dport 80 redirect to :1080'"
            ));
        };
        rules("");
        let client = hosts.namespace();
        let looped = curl(client, "", SERVERS[0]);
        assert!(looped.contains("curl: ("), "{looped}");
        let why = "except packets with the mark 0x53000000";
        wait_for("a message", || connect.log().contains(why));
        // One direct connection. The reset may already end the call that connects.
        let attempts = || total(&connect) + connect.log().matches("; directly: ").count() as u64;
        wait_for("the direct connection ends", || attempts() >= 1);
        assert_eq!(attempts(), 1, "{}", connect.log());
        rules("meta mark != 0x53000000");
        assert_eq!(seen(client, ""), direct(), "{}", connect.log());
    });
}

#[test]
fn a_program_of_exec_reaches_addresses_and_names_without_the_gateway() {
    let test = "fallback::a_program_of_exec_reaches_addresses_and_names_without_the_gateway";
    with_servers(test, 60, |hosts, dir| {
        name(dir);
        for host in [SERVERS[0], "server.example"] {
            let mut command = hosts.client_command(&[program(), "exec", "--udp", "--insecure"]);
            command.args(["--via", AT, "--fallback", "direct", "--control"]);
            command.arg(dir.join(host)).arg("--");
            command.args("curl -sS --max-time 20 --noproxy *".split(' '));
            let out = command.arg(format!("http://{host}/")).output();
            let out = out.expect("started");
            assert_eq!(out.stdout, b"10.1.1.2", "{host}: {out:?}");
        }
    });
}

#[test]
fn without_a_known_target_the_flag_is_refused_at_the_start() {
    let said = |flags: &str| {
        let out = output(&format!(
            "{} connect --listen 127.0.0.1:0 --fallback direct {flags}",
            program()
        ));
        assert_eq!(out.status.code(), Some(2), "{out:?}");
        String::from_utf8_lossy(&out.stderr).into_owned()
    };
    let plain = said("--udp --via 127.0.0.1:9");
    let why = "--fallback direct: the targets of the programs are not known";
    assert!(plain.contains(why), "{plain}");
    let no_gateway = said("--tun spin9 --socks5");
    let why = "--fallback direct: there is no gateway";
    assert!(no_gateway.contains(why), "{no_gateway}");
}

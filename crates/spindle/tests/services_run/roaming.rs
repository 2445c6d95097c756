//! A `connect` over UDP whose host's addresses change, between two network namespaces.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use crate::program::{Running, program, wait_for};
use crate::two_hosts::{Hosts, run, within};
use crate::udp::{echo, works};

/// Only turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(20);
const PORT: &str = "127.0.0.1:7000";

fn port() -> SocketAddr {
    PORT.parse().expect("an address")
}

/// A gateway at 10.1.1.1 in front of an echo.
fn gateway() -> Running {
    let mut command = Command::new(program());
    let flags = format!(
        "gateway --udp --insecure --listen 10.1.1.1:4430 --to {}",
        echo()
    );
    command.args(flags.split_whitespace());
    Running::start(command)
}

fn connect(hosts: &Hosts, flags: &str) -> Running {
    let mut command = hosts.client_command(&[program(), "connect", "--udp", "--listen", PORT]);
    command.arg("--insecure");
    command.args(flags.split_whitespace());
    Running::start(command)
}

/// Whether a line that is sent to the echo comes back.
fn goes_on(stream: &TcpStream) -> bool {
    let (mut s, mut back) = (stream, [0; 5]);
    s.write_all(b"again").is_ok() && s.read_exact(&mut back).is_ok() && &back == b"again"
}

#[test]
fn without_local_new_and_open_connections_follow_an_address_change() {
    let test = "roaming::without_local_new_and_open_connections_follow_an_address_change";
    within(test, 150, |hosts| {
        let _gateway = gateway();
        // Plain TCP has one subflow, which sends from the new address as after a NAT rebinding.
        let plain = "--local auto --transport tcp";
        for (run, flags) in ["", "--local system", plain].iter().enumerate() {
            let connect = connect(hosts, &format!("--via 10.1.1.1:4430 {flags}"));
            hosts.at_client(|| {
                assert!(works(port()), "{}", connect.log());
                let open = TcpStream::connect(port()).expect("a connection");
                open.set_read_timeout(Some(PATIENCE)).expect("a timeout");
                assert!(goes_on(&open));
                for address in [10 * run + 3, 10 * run + 4] {
                    hosts.client(&format!(
                        "ip addr flush dev c1 scope global; ip addr add 10.1.1.{address}/24 dev c1"
                    ));
                    assert!(works(port()), "{flags}, {address}: {}", connect.log());
                    assert!(goes_on(&open), "{flags}, {address}: {}", connect.log());
                }
            });
        }
    });
}

#[test]
fn an_address_that_is_missing_is_skipped_and_used_again_once_it_is_back() {
    let test = "roaming::an_address_that_is_missing_is_skipped_and_used_again_once_it_is_back";
    within(test, 100, |hosts| {
        run("ip route add 10.1.7.0/24 dev s1");
        let gateway = gateway();
        let flags = "--via 10.1.1.1:4430 --local 10.1.7.2 --local 10.1.2.2";
        let connect = connect(hosts, flags);
        let from = |address: &str| {
            let status = gateway.status();
            let mut last = status["connections"].as_array().expect("a list").iter();
            let outside = last.next_back().map(|c| c["outside"].to_string());
            outside.is_some_and(|o| o.contains(address))
        };
        hosts.at_client(|| {
            assert!(connect.log().contains("10.1.7.2"), "{}", connect.log());
            for _ in 0..20 {
                assert!(works(port()), "{}", connect.log());
            }
            let warnings = connect.log().matches("no UDP socket").count();
            assert_eq!(warnings, 0, "{}", connect.log());
            let there = TcpStream::connect(port()).expect("a connection");
            wait_for("it comes from the other", || from("10.1.2.2:"));
            drop(there);
            hosts.client("ip addr add 10.1.7.2/24 dev c1");
            wait_for("it is used", || {
                connect.status()["uplinks"][0]["address"] == "10.1.7.2"
            });
            // SYNs from both addresses race, so that a connection may begin at either of them.
            wait_for("one begins at the address", || {
                let there = TcpStream::connect(port()).expect("a connection");
                there.set_read_timeout(Some(PATIENCE)).expect("a timeout");
                assert!(goes_on(&there), "{}", connect.log());
                from("10.1.7.2:")
            });
            hosts.client("ip addr del 10.1.7.2/24 dev c1");
            assert!(works(port()), "{}", connect.log());
        });
    });
}

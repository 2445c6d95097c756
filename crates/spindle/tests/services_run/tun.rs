//! Gateway and connect over TUN, between two network namespaces.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use crate::program::{Running, program, wait_for};
use crate::service::{connect, serve, transfer};
use crate::two_hosts::{Hosts, have, on_path, run, within};

const LEN: u64 = 1_000_000;

fn at_server(flags: &str) -> Running {
    let mut command = Command::new(program());
    command.args(["gateway", "--tun", "spin0", "--to", "127.0.0.1:9000"]);
    command.args(flags.split_whitespace());
    Running::start(command)
}

fn at_client(hosts: &Hosts, flags: &str) -> Running {
    let mut command = hosts.client_command(&[program(), "connect", "--tun", "spin1"]);
    command.args(flags.split_whitespace());
    Running::start(command)
}

/// The service behind the gateway.
fn service() {
    serve("127.0.0.1:9000".parse().expect("an address"), false);
}

/// Clients of the kernel reach the gateway at the host's own addresses.
#[test]
fn dnat_gives_the_hosts_own_addresses_to_the_gateway() {
    let test = "tun::dnat_gives_the_hosts_own_addresses_to_the_gateway";
    within(test, 60, |hosts| {
        if !have(test, "nft") {
            return;
        }
        service();
        let listen = "--dnat --listen 10.1.1.1:8080 --listen [fd01:1::1]:8080";
        let mut gateway = at_server(listen);
        for v6 in [false, true] {
            for multipath in [false, true] {
                let to = (on_path(v6, 1, 1), 8080).into();
                let done = hosts.at_client(|| {
                    let stream = connect(on_path(v6, 1, 2), to, multipath);
                    transfer(&stream, true, LEN)
                });
                assert!(done, "v6: {v6}, multipath: {multipath}: {}", gateway.log());
            }
        }
        let totals = gateway.status()["totals"].clone();
        assert_eq!(
            (&totals["multipath"], &totals["fallbacks"]),
            (&2.into(), &2.into())
        );
        assert_eq!(gateway.end(), Some(0), "{}", gateway.log());
        let left = run("nft list tables; ip link show");
        assert!(!left.contains("spin"), "{left}");
    });
}

/// Starts a gateway that must fail. Returns its error output.
fn fails(flags: &str) -> String {
    let mut command = Command::new(program());
    command.args(["gateway", "--to", "127.0.0.1:9000"]);
    command.args(flags.split_whitespace());
    let out = command.output().expect("the command");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(1), "{flags}: {said}");
    said
}

/// Two gateways, or a gateway and a service, cannot share an address, since one of them would never get its
/// clients' packets.
#[test]
fn a_dnat_gateway_is_refused_if_another_one_or_a_service_listens() {
    let test = "tun::a_dnat_gateway_is_refused_if_another_one_or_a_service_listens";
    within(test, 60, |_| {
        if !have(test, "nft") {
            return;
        }
        let listen = "--dnat --listen 10.1.1.1:80 --listen [fd01:1::1]:80";
        let mut gateway = at_server(listen);
        for second in ["--listen 10.1.1.1:80", "--listen [fd01:1::1]:80"] {
            let said = fails(&format!("--tun spin7 --dnat {second}"));
            assert!(said.contains(":80 is in use"), "{said}");
        }
        assert!(!run("ip link show").contains("spin7"));
        assert_eq!(gateway.end(), Some(0), "{}", gateway.log());
        let service = std::net::TcpListener::bind("10.1.1.1:80").expect("a service");
        let said = fails("--tun spin7 --dnat --listen 10.1.1.1:80");
        assert!(said.contains("10.1.1.1:80 is in use"), "{said}");
        drop(service);
        assert_eq!(at_server(listen).end(), Some(0));
    });
}

/// A kernel client opens a subflow to an address that was announced.
#[test]
fn a_kernel_client_opens_a_subflow_to_an_announced_address() {
    let test = "tun::a_kernel_client_opens_a_subflow_to_an_announced_address";
    within(test, 60, |hosts| {
        service();
        let gateway = at_server("--listen 10.9.0.1:8080 --announce 10.9.0.2");
        let joined = || {
            let status = gateway.status();
            let flows = status["connections"][0]["subflows"].as_array().cloned();
            let local = |f: &serde_json::Value| f["local"].as_str().map(str::to_owned);
            let locals: Vec<_> = flows.iter().flatten().filter_map(local).collect();
            locals.iter().any(|l| l.starts_with("10.9.0.2:"))
        };
        hosts.at_client(|| {
            let to = "10.9.0.1:8080".parse().expect("an address");
            let stream = connect(on_path(false, 1, 2), to, true);
            // The kernel opens no subflow once either direction has ended.
            wait_for("a subflow to 10.9.0.2", joined);
            assert!(transfer(&stream, true, LEN), "{}", gateway.log());
        });
    });
}

/// Bytes that a device of the client has sent.
fn sent(hosts: &Hosts, device: &str) -> u64 {
    let text = hosts.client(&format!("ip -s -j link show {device}"));
    let links: serde_json::Value = serde_json::from_str(&text).expect("JSON of ip");
    links[0]["stats64"]["tx"]["bytes"]
        .as_u64()
        .expect("a number")
}

/// `--local IP@DEVICE/GATEWAY`: each subflow uses its own route.
#[test]
fn each_local_address_uses_its_own_device_and_next_hop() {
    let test = "tun::each_local_address_uses_its_own_device_and_next_hop";
    within(test, 60, |hosts| {
        service();
        let gateway = at_server("--listen 10.9.0.1:8080");
        run("ip route add 10.8.1.0/24 via 10.1.1.2; ip route add 10.8.2.0/24 via 10.1.2.2");
        // Traffic uses the second device only because of its rule.
        hosts.client("ip route del 10.9.0.0/24 metric 2");
        let before = hosts.client("ip rule; ip route show table all");
        let flags = "--listen 127.0.0.1:7000 --via 10.9.0.1:8080 --insecure \
                     --local 10.8.1.1@c1/10.1.1.1 --local 10.8.2.1@c2/10.1.2.1";
        let mut client = at_client(hosts, flags);
        let status = hosts.at_client(|| {
            let to = "127.0.0.1:7000".parse().expect("an address");
            let stream = connect("127.0.0.1".parse().expect("an address"), to, false);
            assert!(transfer(&stream, false, 20 * LEN), "{}", gateway.log());
            client.status()
        });
        assert_eq!(status["totals"]["multipath"], 1, "{status}");
        for line in ["c1", "c2"] {
            let bytes = sent(hosts, line);
            assert!(bytes > LEN / 10, "{line}: {bytes}");
        }
        assert_eq!(client.end(), Some(0), "{}", client.log());
        assert_eq!(hosts.client("ip rule; ip route show table all"), before);
    });
}

/// SOCKS5 to any server, with curl as the client.
#[test]
fn curl_reaches_a_kernel_server_by_socks_over_tun() {
    let test = "tun::curl_reaches_a_kernel_server_by_socks_over_tun";
    within(test, 60, |hosts| {
        if !(have(test, "curl") && have(test, "python3")) {
            return;
        }
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("page"), "spindle").expect("a file");
        let mut http = Command::new("python3")
            .args(["-m", "http.server", "8000", "--bind", "10.1.1.1", "-d"])
            .arg(dir.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("python3");
        run("ip route add 10.8.1.0/24 via 10.1.1.2");
        let client = at_client(hosts, "--listen 127.0.0.1:1080 --socks5 --local 10.8.1.1");
        let curl = |url: &str| {
            let line = format!(
                "curl -sS --max-time 10 --noproxy '' --retry 20 --retry-delay 0 --retry-all-errors \
                 --socks5-hostname 127.0.0.1:1080 {url}"
            );
            hosts.client_output(&line)
        };
        let got = curl("http://10.1.1.1:8000/page");
        assert_eq!(got.stdout, b"spindle", "{got:?}\n{}", client.log());
        let refused = hosts.client_output(
            "curl -sS --max-time 10 --noproxy '' --socks5-hostname 127.0.0.1:1080 http://10.1.1.1:8001/",
        );
        // CURLE_PROXY: the proxy's reply reports that the server refused.
        assert_eq!(
            refused.status.code(),
            Some(97),
            "{refused:?}\n{}",
            client.log()
        );
        hosts.at_client(|| {
            let proxy = "127.0.0.1:1080".parse().expect("an address");
            let mut stream = connect("127.0.0.1".parse().expect("an address"), proxy, false);
            stream.write_all(b"GET / HTTP/1.0\r\n\r\n").expect("room");
            let _ = stream.read(&mut [0; 16]);
        });
        wait_for("the log names a client that does not speak SOCKS", || {
            client.log().contains("found SOCKS version 71, want 5")
        });
        let _ = http.kill();
        let _ = http.wait();
    });
}

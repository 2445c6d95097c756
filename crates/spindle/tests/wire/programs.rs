//! Real programs through connect and gateway.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::service::{connect, listen, serve, transfer};
use crate::spindle::{Running, program};
use crate::two_hosts::{Hosts, have, run, within};

/// A server, which is killed when dropped.
pub(crate) struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a server in the server's namespace and waits until its port answers.
pub(crate) fn server(port: u16, arguments: &[&str]) -> Server {
    let started = Command::new(arguments[0])
        .args(&arguments[1..])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|e| panic!("{}: {e}", arguments[0]));
    let server = Server(started);
    for _ in 0..250 {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return server;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("{} does not listen on {port}", arguments[0]);
}

/// A directory with files to fetch.
fn files() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    for (name, len) in [("small", 10_000_usize), ("large", 5_000_000)] {
        let mut x = len as u32;
        let bytes: Vec<u8> = std::iter::repeat_with(|| {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (x >> 24) as u8
        })
        .take(len)
        .collect();
        std::fs::write(dir.path().join(name), bytes).expect("a file");
    }
    dir
}

fn same(a: &Path, b: &Path) -> bool {
    std::fs::read(a).expect("a file") == std::fs::read(b).expect("a file")
}

/// The port that the servers of these tests listen on.
const SERVER_PORT: u16 = 9000;

/// Python's server for HTTP/1.1 on these files.
fn http_server(path: &str) -> Server {
    let port = SERVER_PORT.to_string();
    server(
        SERVER_PORT,
        &[
            "python3",
            "-m",
            "http.server",
            &port,
            "--bind",
            "127.0.0.1",
            "-d",
            path,
        ],
    )
}

/// A gateway with the default transport, which never copies data over the subflow that carries them. `fuso` does so on
/// an only subflow, and a receiver that falls back at that moment cannot recognize a copy.
fn tun_gateway(port: u16) -> Running {
    let mut command = Command::new(program());
    command.args(["gateway", "--tun", "spin0"]);
    command.args([
        "--listen",
        "10.9.0.1:8080",
        "--to",
        &format!("127.0.0.1:{port}"),
    ]);
    Running::start(command, "gateway")
}

/// Connect at the client and a gateway at the server, over UDP.
fn udp_pair(hosts: &Hosts, port: u16) -> (Running, Running) {
    let mut command = Command::new(program());
    command.args(["gateway", "--udp", "--insecure", "--transport", "fuso"]);
    command.args([
        "--listen",
        "10.1.1.1:4430",
        "--to",
        &format!("127.0.0.1:{port}"),
    ]);
    let gateway = Running::start(command, "gateway");
    let mut command = hosts.client_command(&[program(), "connect", "--udp", "--insecure"]);
    command.args([
        "--listen",
        "127.0.0.1:7000",
        "--via",
        "10.1.1.1:4430",
        "--transport",
        "fuso",
    ]);
    (gateway, Running::start(command, "connect"))
}

#[test]
fn clients_with_mptcp_or_tcp_or_with_options_lost_in_transit_are_served() {
    let test = "programs::clients_with_mptcp_or_tcp_or_with_options_lost_in_transit_are_served";
    within(test, 240, |hosts| {
        if !(have(test, "curl")
            && have(test, "mptcpize")
            && have(test, "python3")
            && have(test, "nft"))
        {
            return;
        }
        hosts.client_endpoint();
        let dir = files();
        let path = dir.path().to_str().expect("a path");
        let _http = http_server(path);
        let gateway = tun_gateway(SERVER_PORT);
        let fetch = |how: &str| {
            let got = dir.path().join("got");
            let _ = std::fs::remove_file(&got);
            hosts.client(&format!(
                "{how} curl -sS --max-time 60 -o {} http://10.9.0.1:8080/large",
                got.display()
            ));
            assert!(
                same(&dir.path().join("large"), &got),
                "{how}: {}",
                gateway.log()
            );
        };
        let counts = || {
            let t = gateway.status()["totals"].clone();
            (
                t["multipath"].as_u64().expect("a number"),
                t["fallbacks"].as_u64().expect("a number"),
            )
        };
        fetch("mptcpize run");
        assert_eq!(counts(), (1, 0));
        fetch("");
        assert_eq!(counts(), (1, 1));
        // nftables removes MPTCP's option: from the SYN only, from all segments that follow it, or from all
        // segments after some time into the transfer.
        hosts.client("ip mptcp endpoint flush");
        let strip = |match_: &str| {
            let rules: String = ["dport", "sport"]
                .map(|port| {
                    format!(
                        "add rule inet strip way tcp {port} 8080 {match_} reset tcp option mptcp\n"
                    )
                })
                .concat();
            run(&format!(
                "printf '%s' 'add table inet strip\nadd chain inet strip way {{ type filter hook forward priority 0; }}\n{rules}' | nft -f -"
            ));
        };
        for (what, rule) in [
            ("from the SYN", "tcp flags & syn == syn"),
            ("from the third ACK", "tcp flags & syn == 0"),
        ] {
            let before = counts();
            strip(rule);
            fetch("mptcpize run");
            run("nft delete table inet strip");
            assert_eq!(counts(), (before.0, before.1 + 1), "{what}");
        }
        stripped_in_the_middle(hosts, dir.path(), &strip);
    });
}

/// Removes the options with `strip` while a transfer runs.
fn stripped_in_the_middle(hosts: &Hosts, dir: &Path, strip: &dyn Fn(&str)) {
    let got = dir.join("slow");
    let have = || std::fs::metadata(&got).map_or(0, |m| m.len());
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| {
            hosts.client(&format!(
                "mptcpize run curl -sS --max-time 60 --limit-rate 2M -o {} http://10.9.0.1:8080/large",
                got.display()
            ));
            assert!(same(&dir.join("large"), &got), "in the middle");
        });
        while have() == 0 {
            assert!(!slow.is_finished(), "curl ended before any data");
            std::thread::sleep(Duration::from_millis(20));
        }
        strip("tcp flags & syn == 0");
        let whole = std::fs::metadata(dir.join("large")).map_or(0, |m| m.len());
        assert!(have() < whole, "the transfer was over before");
        slow.join().expect("the transfer");
    });
    run("nft delete table inet strip");
}

#[test]
fn http2_download_through_connect_and_gateway_is_intact() {
    let test = "programs::http2_download_through_connect_and_gateway_is_intact";
    within(test, 120, |hosts| {
        if !(have(test, "curl") && have(test, "nghttpd")) {
            return;
        }
        let dir = files();
        let path = dir.path().to_str().expect("a path");
        let got = dir.path().join("got");
        let _http = server(
            SERVER_PORT,
            &["nghttpd", "--no-tls", "-a", "127.0.0.1", "-d", path, "9000"],
        );
        let (_gateway, connect) = udp_pair(hosts, SERVER_PORT);
        hosts.client(&format!(
            "curl -sS --max-time 60 --http2-prior-knowledge -o {} http://127.0.0.1:7000/large",
            got.display()
        ));
        assert!(same(&dir.path().join("large"), &got), "{}", connect.log());
    });
}

#[test]
fn two_http1_downloads_through_connect_and_gateway_are_intact() {
    let test = "programs::two_http1_downloads_through_connect_and_gateway_are_intact";
    within(test, 120, |hosts| {
        if !(have(test, "curl") && have(test, "python3")) {
            return;
        }
        let dir = files();
        let path = dir.path().to_str().expect("a path");
        let _http = http_server(path);
        let (_gateway, connect) = udp_pair(hosts, SERVER_PORT);
        hosts.client(&format!(
            "curl -sS --max-time 60 --http1.1 -o {path}/got http://127.0.0.1:7000/large -o {path}/got2 http://127.0.0.1:7000/small"
        ));
        for (sent, got) in [("large", "got"), ("small", "got2")] {
            let (sent, got) = (dir.path().join(sent), dir.path().join(got));
            assert!(same(&sent, &got), "{}: {}", sent.display(), connect.log());
        }
    });
}

#[test]
fn rsync_through_connect_and_gateway_copies_a_file_intact() {
    let test = "programs::rsync_through_connect_and_gateway_copies_a_file_intact";
    within(test, 120, |hosts| {
        if !have(test, "rsync") {
            return;
        }
        let dir = files();
        let path = dir.path().to_str().expect("a path");
        let got = dir.path().join("got");
        let conf = dir.path().join("rsyncd.conf");
        let text = format!(
            "use chroot = no\nuid = root\ngid = root\nport = {SERVER_PORT}\naddress = 127.0.0.1\n[files]\npath = {path}\n"
        );
        std::fs::write(&conf, text).expect("a file");
        let conf = conf.to_str().expect("a path");
        let _rsync = server(
            SERVER_PORT,
            &["rsync", "--daemon", "--no-detach", "--config", conf],
        );
        let (_gateway, connect) = udp_pair(hosts, SERVER_PORT);
        hosts.client(&format!(
            "rsync -q --timeout 60 rsync://127.0.0.1:7000/files/large {}",
            got.display()
        ));
        assert!(same(&dir.path().join("large"), &got), "{}", connect.log());
    });
}

#[test]
fn iperf3_through_connect_and_gateway_runs_in_both_directions() {
    let test = "programs::iperf3_through_connect_and_gateway_runs_in_both_directions";
    within(test, 120, |hosts| {
        if !have(test, "iperf3") {
            return;
        }
        let _iperf = server(
            SERVER_PORT,
            &["iperf3", "-s", "-p", "9000", "-B", "127.0.0.1"],
        );
        // The probe of the port counted as a client. The server accepts the next one after it.
        std::thread::sleep(Duration::from_millis(300));
        let (_gateway, connect) = udp_pair(hosts, SERVER_PORT);
        for direction in ["", "-R"] {
            let line = format!("timeout 30 iperf3 -c 127.0.0.1 -p 7000 -n 20M {direction}");
            let mut out = hosts.client_output(&line);
            // The server listens again some time after each test.
            for _ in 0..10 {
                if out.status.success() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(300));
                out = hosts.client_output(&line);
            }
            let text = String::from_utf8_lossy(&out.stdout).into_owned();
            assert!(
                out.status.success(),
                "iperf3 {direction}: {text} {}",
                connect.log()
            );
        }
    });
}

#[test]
fn a_thousand_connections_at_once_each_get_their_own_bytes() {
    within(
        "programs::a_thousand_connections_at_once_each_get_their_own_bytes",
        240,
        |hosts| {
            serve("127.0.0.1:9000".parse().expect("an address"), false);
            let (gateway, near) = udp_pair(hosts, 9000);
            let count = if crate::full() { 1000 } else { 300 };
            let right = hosts.at_client(|| {
                let localhost = on_loopback();
                let streams: Vec<TcpStream> = (0..count)
                    .map(|_| connect(localhost, (localhost, 7000).into(), false))
                    .collect();
                std::thread::scope(|scope| {
                    let work: Vec<_> = streams
                        .iter()
                        .enumerate()
                        .map(|(i, s)| scope.spawn(move || transfer(s, i % 2 == 0, 64_000)))
                        .collect();
                    work.into_iter()
                        .filter_map(|w| w.join().ok())
                        .filter(|ok| *ok)
                        .count()
                })
            });
            assert_eq!(right, count, "{}\n{}", gateway.log(), near.log());
        },
    );
}

fn on_loopback() -> std::net::IpAddr {
    "127.0.0.1".parse().expect("an address")
}

#[test]
fn half_close_and_reset_reach_the_other_end() {
    within(
        "programs::half_close_and_reset_reach_the_other_end",
        120,
        |hosts| {
            let listener = listen("127.0.0.1:9000".parse().expect("an address"), false);
            let (_gateway, _near) = udp_pair(hosts, 9000);
            let localhost = on_loopback();
            let client = hosts.at_client(|| connect(localhost, (localhost, 7000).into(), false));
            let (mut service, _) = listener.accept().expect("a connection");
            // The client closes its half; the service reads to the end and still answers.
            (&client).write_all(b"question").expect("sent");
            client.shutdown(Shutdown::Write).expect("half closed");
            let mut got = String::new();
            service.read_to_string(&mut got).expect("to the end");
            assert_eq!(got, "question");
            service.write_all(b"answer").expect("sent");
            drop(service);
            let mut got = String::new();
            (&client).read_to_string(&mut got).expect("to the end");
            assert_eq!(got, "answer");
            // A reset at either end causes one at the other.
            for by_service in [true, false] {
                let client =
                    hosts.at_client(|| connect(localhost, (localhost, 7000).into(), false));
                let (service, _) = listener.accept().expect("a connection");
                let (breaks, feels) = if by_service {
                    (service, client)
                } else {
                    (client, service)
                };
                let socket = socket2::Socket::from(breaks);
                socket.set_linger(Some(Duration::ZERO)).expect("an option");
                drop(socket);
                feels
                    .set_read_timeout(Some(Duration::from_secs(20)))
                    .expect("an option");
                let error = (&feels).read(&mut [0; 16]).expect_err("a reset");
                assert_eq!(
                    error.kind(),
                    std::io::ErrorKind::ConnectionReset,
                    "by the service: {by_service}"
                );
            }
        },
    );
}

//! A `connect` over UDP whose uplinks come and go: three network namespaces, a client with two uplinks, a router that
//! masquerades one of them, and the gateway's host.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::program::{Running, program, wait_for};
use crate::two_hosts::{Namespace, have, run, within};

/// The longest time in which no byte of the download may arrive.
const LONGEST_STALL: Duration = Duration::from_secs(5);
/// Bytes of the download. With the rate below it takes 8 s.
const LEN: usize = 6_000_000;
/// Bytes that the service writes at once.
const CHUNK: usize = 65_536;
const RATE: &str = "6mbit";
pub(super) const PORT: &str = "127.0.0.1:7000";

/// Client `c`, the router `r` in between, and the gateway's host, which is the test's own namespace. The uplinks `u1`
/// and `u2` of the client lead to the router. The router masquerades `u2`.
pub(super) struct Net {
    pub(super) client: Namespace,
    pub(super) router: Namespace,
}

impl Net {
    /// `rate` is that of each uplink towards the client, as tc writes it.
    pub(super) fn new(rate: &str) -> Self {
        let (client, router) = (Namespace::new(), Namespace::new());
        run(&format!(
            "ip link add g1 type veth peer name r0 netns {}; ip addr add 192.0.2.1/24 dev g1; ip link set g1 up; \
             ip route add default via 192.0.2.254",
            router.pid()
        ));
        router.run("sysctl -qw net.ipv4.ip_forward=1; ip addr add 192.0.2.254/24 dev r0; ip link set r0 up");
        for n in [1, 2] {
            router.run(&format!(
                "ip link add r{n} type veth peer name u{n} netns {}; ip addr add 10.3.{n}.1/24 dev r{n}; \
                 ip link set r{n} up; tc qdisc add dev r{n} root tbf rate {rate} burst 64kb latency 80ms",
                client.pid()
            ));
        }
        router.run(
            "nft add table ip nat; nft add chain ip nat post '{ type nat hook postrouting priority 100; }'; \
             nft add rule ip nat post ip saddr 10.3.2.0/24 oifname r0 masquerade",
        );
        Self { client, router }
    }

    /// Gives uplink `n` an address and a default route.
    pub(super) fn up(&self, n: u32, host: u32) {
        self.client.run(&format!(
            "ip link set u{n} up; ip addr add 10.3.{n}.{host}/24 dev u{n}; \
             ip route add default via 10.3.{n}.1 dev u{n} metric {n}"
        ));
    }

    /// Lets the packets of the first uplink vanish in the router.
    pub(super) fn hole(&self) {
        self.router.run(
            "nft add table ip hole; nft add chain ip hole lost '{ type filter hook forward priority 0; }'; \
             nft add rule ip hole lost iifname r1 drop; nft add rule ip hole lost oifname r1 drop",
        );
    }

    pub(super) fn connect(&self, flags: &str) -> Running {
        let arguments = [
            program(),
            "connect",
            "--udp",
            "--insecure",
            "--listen",
            PORT,
        ];
        let mut command = self.client.command(&arguments);
        command.args(flags.split_whitespace());
        Running::start(command)
    }
}

/// A gateway at 192.0.2.1.
pub(super) fn gateway(to: SocketAddr) -> Running {
    Running::start(gateway_command(to, ""))
}

/// The command of such a gateway, with further flags.
pub(super) fn gateway_command(to: SocketAddr, more: &str) -> Command {
    let mut command = Command::new(program());
    let flags = format!("gateway --udp --insecure --listen 192.0.2.1:4430 --to {to} {more}");
    command.args(flags.split_whitespace());
    command
}

fn byte(at: usize) -> u8 {
    (at / 7 + at % 251) as u8
}

/// Writes the bytes of the download from `at` on.
fn fill(chunk: &mut [u8], at: usize) {
    for (i, b) in chunk.iter_mut().enumerate() {
        *b = byte(at + i);
    }
}

/// Whether these are the bytes of the download from `at` on.
pub(super) fn fits(bytes: &[u8], at: usize) -> bool {
    bytes.iter().enumerate().all(|(i, b)| *b == byte(at + i))
}

/// A service that reads a length of eight bytes, and sends as many bytes.
pub(super) fn downloads() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a service");
    let addr = listener.local_addr().expect("its address");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut len = [0; 8];
                if stream.read_exact(&mut len).is_ok() {
                    let len = u64::from_be_bytes(len) as usize;
                    let mut chunk = vec![0; CHUNK];
                    for begin in (0..len).step_by(CHUNK) {
                        let chunk = &mut chunk[..CHUNK.min(len - begin)];
                        fill(chunk, begin);
                        // An error means that the test has failed already.
                        if stream.write_all(chunk).is_err() {
                            return;
                        }
                    }
                }
            });
        }
    });
    addr
}

/// Downloads bytes, counts them, and checks each. Returns the longest time without any.
fn download(len: usize, got: &AtomicU64) -> Duration {
    let port: SocketAddr = PORT.parse().expect("an address");
    let mut stream = TcpStream::connect(port).expect("a connection");
    let patience = Some(4 * LONGEST_STALL);
    stream.set_read_timeout(patience).expect("a timeout");
    stream.write_all(&(len as u64).to_be_bytes()).expect("room");
    let (mut at, mut last, mut longest) = (0, Instant::now(), Duration::ZERO);
    let mut buffer = vec![0; 65_536];
    while at < len {
        let n = stream.read(&mut buffer).expect("the next bytes");
        assert!(n > 0, "the download ended at {at}");
        assert!(fits(&buffer[..n], at), "at {at}");
        at += n;
        longest = longest.max(last.elapsed());
        last = Instant::now();
        got.store(at as u64, Ordering::Relaxed);
    }
    longest
}

/// Whether a small download succeeds over a new connection.
pub(super) fn works() -> bool {
    let port: SocketAddr = PORT.parse().expect("an address");
    let Ok(mut stream) = TcpStream::connect(port) else {
        return false;
    };
    let patience = Some(4 * LONGEST_STALL);
    stream.set_read_timeout(patience).expect("a timeout");
    let asked = stream.write_all(&2000u64.to_be_bytes());
    let mut bytes = vec![0; 2000];
    asked.and_then(|()| stream.read_exact(&mut bytes)).is_ok() && fits(&bytes, 0)
}

/// The state of each uplink, in the order of their devices.
pub(super) fn uplinks(connect: &Running) -> Vec<String> {
    let status = connect.status();
    let list = status["uplinks"].as_array().cloned().unwrap_or_default();
    let text = |v: &serde_json::Value| v.as_str().unwrap_or_default().to_owned();
    let each = list.iter();
    let mut lines: Vec<String> = each
        .map(|u| {
            format!(
                "{} {} {}",
                text(&u["device"]),
                text(&u["address"]),
                text(&u["state"])
            )
        })
        .collect();
    lines.sort();
    lines
}

/// Whether a subflow of the oldest connection starts from this address, is established, and has received bytes.
pub(super) fn carries(connect: &Running, address: &str) -> bool {
    let status = connect.status();
    let subflows = status["connections"][0]["subflows"].clone();
    let list = subflows.as_array().cloned().unwrap_or_default();
    list.iter().any(|s| {
        let local = s["local"].as_str().unwrap_or_default();
        let received = s["bytes_received"].as_u64().unwrap_or_default();
        local.starts_with(&format!("{address}:"))
            && s["state"] == "Established"
            && received > 20_000
    })
}

#[test]
fn connect_starts_without_any_uplink_and_refuses_connections_soon_with_a_reason() {
    let test =
        "uplinks::connect_starts_without_any_uplink_and_refuses_connections_soon_with_a_reason";
    if !["tc", "nft"].iter().all(|p| have(test, p)) {
        return;
    }
    within(test, 60, |_| {
        let net = Net::new(RATE);
        let _gateway = gateway(downloads());
        for via in ["192.0.2.1:4430", "gateway.invalid:4430"] {
            let connect = net.connect(&format!("--via {via}"));
            wait_for("it says so", || {
                connect.log().contains("no uplink at present")
            });
            net.client.at(|| {
                let begin = Instant::now();
                assert!(!works());
                let patience = Duration::from_secs(5);
                assert!(begin.elapsed() < patience, "{}", connect.log());
            });
            wait_for("it says why", || {
                connect.log().contains("no uplink leads to it")
            });
            if via.starts_with("192") {
                net.up(2, 2);
                net.client.at(|| {
                    wait_for("the uplink is used", works);
                });
                net.client.run("ip link set u2 down; ip addr flush dev u2");
            }
        }
    });
}

#[test]
fn backups_and_devices_are_selected_by_patterns() {
    let test = "uplinks::backups_and_devices_are_selected_by_patterns";
    if !["tc", "nft"].iter().all(|p| have(test, p)) {
        return;
    }
    within(test, 60, |_| {
        let net = Net::new(RATE);
        let _gateway = gateway(downloads());
        net.up(1, 2);
        net.up(2, 2);
        {
            let connect = net.connect("--via 192.0.2.1:4430 --local u2");
            assert_eq!(uplinks(&connect), ["u2 10.3.2.2 used"], "{}", connect.log());
            net.client.at(|| assert!(works(), "{}", connect.log()));
        }
        let connect = net.connect("--via 192.0.2.1:4430 --local u* --backup u2");
        let expected = ["u1 10.3.1.2 used", "u2 10.3.2.2 backup"];
        assert_eq!(uplinks(&connect), expected, "{}", connect.log());
        net.client.at(|| {
            let got = AtomicU64::new(0);
            std::thread::scope(|scope| {
                let running = scope.spawn(|| download(LEN, &got));
                wait_for("the download begins", || carries(&connect, "10.3.1.2"));
                wait_for("the backup is joined", || {
                    let status = connect.status();
                    let list = status["connections"][0]["subflows"].as_array().cloned();
                    list.unwrap_or_default().iter().any(|s| s["backup"] == true)
                });
                net.client.run("ip link set u1 down");
                wait_for("the backup is used", || carries(&connect, "10.3.2.2"));
                let longest = running.join().expect("the download");
                assert!(longest < LONGEST_STALL, "{longest:?}: {}", connect.log());
            });
        });
    });
}

#[test]
fn metered_device_is_left_once_its_allowance_is_used_up_and_the_count_goes_on_after_a_restart() {
    let test = "uplinks::metered_device_is_left_once_its_allowance_is_used_up_and_the_count_goes_on_after_a_restart";
    if !["tc", "nft"].iter().all(|p| have(test, p)) {
        return;
    }
    within(test, 60, |_| {
        let net = Net::new(RATE);
        let _gateway = gateway(downloads());
        net.up(1, 2);
        net.up(2, 2);
        let state = tempfile::tempdir().expect("a directory");
        let flags = format!(
            "--via 192.0.2.1:4430 --metered u1=1MB/month --state {}",
            state.path().display()
        );
        let both = ["u1 10.3.1.2 used", "u2 10.3.2.2 used"];
        let left = ["u1 10.3.1.2 down", "u2 10.3.2.2 used"];
        let connect = net.connect(&flags);
        assert_eq!(uplinks(&connect), both, "{}", connect.log());
        net.client.at(|| {
            let got = AtomicU64::new(0);
            std::thread::scope(|scope| {
                let running = scope.spawn(|| download(LEN, &got));
                wait_for("the uplink is left", || uplinks(&connect) == left);
                let longest = running.join().expect("the download");
                assert!(longest < LONGEST_STALL, "{longest:?}: {}", connect.log());
            });
        });
        let metered = connect.status()["metered"][0].clone();
        assert_eq!(metered["device"], "u1");
        assert!(metered["used"].as_u64() >= Some(1_000_000), "{metered}");
        drop(connect);

        let connect = net.connect(&flags);
        assert_eq!(uplinks(&connect), left, "{}", connect.log());
        drop(connect);
        // A larger allowance has room again.
        let connect = net.connect(&flags.replace("1MB", "1GB"));
        assert_eq!(uplinks(&connect), both, "{}", connect.log());
    });
}

/// The value of a counter at the metrics' address `at`, in this namespace.
fn counter(at: &str, name: &str) -> u64 {
    let mut stream = TcpStream::connect(at).expect("the metrics");
    let request = "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).expect("room");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("the metrics");
    let value = text.lines().find_map(|l| l.strip_prefix(name));
    let value = value.unwrap_or_else(|| panic!("{name} is not in {text}"));
    value.trim().parse().expect("a number")
}

#[test]
fn metrics_have_the_traffic_of_each_uplink() {
    let test = "uplinks::metrics_have_the_traffic_of_each_uplink";
    if !["tc", "nft"].iter().all(|p| have(test, p)) {
        return;
    }
    within(test, 60, |_| {
        let net = Net::new(RATE);
        let _gateway = gateway(downloads());
        net.up(1, 2);
        net.up(2, 2);
        let at = "127.0.0.1:9100";
        let connect = net.connect(&format!("--via 192.0.2.1:4430 --metrics {at}"));
        net.client.at(|| {
            download(LEN / 2, &AtomicU64::new(0));
            let received = ["10.3.1.2", "10.3.2.2"].map(|address| {
                let labels = format!("{{transport=\"spindle\",address=\"{address}\"}}");
                counter(at, &format!("spindle_path_bytes_received_total{labels}"))
            });
            // Each has a half of the rate.
            let share = LEN as u64 / 8;
            let log = || format!("{received:?}: {}", connect.log());
            assert!(received.iter().all(|bytes| *bytes > share), "{}", log());
            assert!(received.iter().sum::<u64>() >= LEN as u64 / 2, "{}", log());
        });
    });
}

//! An unmodified kernel's MPTCP at the other end, over two paths.

use std::net::IpAddr;
use std::time::Duration;

use crate::service::{connect, serve, transfer};
use crate::spindle::{Running, program};
use crate::two_hosts::{GATEWAY, Hosts, on_path, output, run, within};

/// Bytes of a transfer: long enough to see both subflows at work.
fn size() -> u64 {
    if crate::full() {
        100_000_000
    } else {
        20_000_000
    }
}

/// Makes one transfer from a thread at the client and calls `look` meanwhile. Returns whether the data were
/// right.
fn watched(hosts: &Hosts, v6: bool, down: bool, mut look: impl FnMut()) -> bool {
    let gateway: IpAddr = GATEWAY[usize::from(v6)].parse().expect("an address");
    let to = (gateway, 8080).into();
    std::thread::scope(|scope| {
        let transferring = scope.spawn(|| {
            hosts.at_client(|| {
                let stream = connect(on_path(v6, 1, 2), to, true);
                // The kernel joins once the first data are acknowledged.
                transfer(&stream, down, size())
            })
        });
        while !transferring.is_finished() {
            look();
            std::thread::sleep(Duration::from_millis(20));
        }
        transferring.join().expect("the transfer")
    })
}

/// The largest number after `field:` on each line of `ss -tin` at the client that has one, by the client's
/// address.
fn ss_bytes(hosts: &Hosts, field: &str) -> Vec<(String, u64)> {
    let text = hosts.client("ss -Htin state established '( dport = :8080 )' | paste - -");
    let field = format!(" {field}:");
    let number = |line: &str| -> Option<(String, u64)> {
        let local = line
            .split_whitespace()
            .find(|w| w.contains(':') && !w.contains("8080"))?;
        let (_, rest) = line.split_once(&field)?;
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        Some((local.rsplit_once(':')?.0.to_owned(), digits.parse().ok()?))
    };
    text.lines().filter_map(number).collect()
}

fn note(most: &mut Vec<(String, u64)>, seen: Vec<(String, u64)>) {
    for (who, bytes) in seen {
        match most.iter_mut().find(|(w, _)| *w == who) {
            Some((_, b)) => *b = bytes.max(*b),
            None => most.push((who, bytes)),
        }
    }
}

/// Whether at least two subflows carried a tenth of the data or more each.
fn shared(most: &[(String, u64)]) -> bool {
    most.iter().filter(|(_, b)| *b > size() / 10).count() >= 2
}

fn gateway(transport: &str) -> Running {
    let mut command = std::process::Command::new(program());
    command.args([
        "gateway",
        "--tun",
        "spin0",
        "--to",
        "127.0.0.1:9000",
        "--transport",
        transport,
    ]);
    command.args(["--listen", "10.9.0.1:8080", "--listen", "[fd09::1]:8080"]);
    Running::start(command, "gateway")
}

/// Bytes by subflow, as in `spindle status`.
fn status_bytes(gateway: &Running, field: &str) -> Vec<(String, u64)> {
    let status = gateway.status();
    let connections = status["connections"].as_array().expect("a list");
    let subflows = connections
        .iter()
        .flat_map(|c| c["subflows"].as_array().into_iter().flatten());
    let entry = |s: &serde_json::Value| {
        let remote = s["remote"].as_str()?;
        Some((remote.rsplit_once(':')?.0.to_owned(), s[field].as_u64()?))
    };
    subflows.filter_map(entry).collect()
}

#[test]
fn a_kernel_client_uses_two_paths_through_the_gateway() {
    within(
        "kernel::a_kernel_client_uses_two_paths_through_the_gateway",
        240,
        |hosts| {
            hosts.client_endpoint();
            hosts.limit("200mbit");
            serve("127.0.0.1:9000".parse().expect("an address"), false);
            let gateway = gateway("mptcp");
            let mut monitor = hosts.client_command(&["timeout", "200", "ip", "mptcp", "monitor"]);
            let events =
                std::env::temp_dir().join(format!("spindle-monitor-{}", std::process::id()));
            let file = std::fs::File::create(&events).expect("a file");
            let mut monitor = monitor.stdout(file).spawn().expect("ip mptcp monitor");
            std::thread::sleep(Duration::from_millis(500));
            for v6 in [false, true] {
                for down in [true, false] {
                    let (mut here, mut there) = (Vec::new(), Vec::new());
                    let whole = watched(hosts, v6, down, || {
                        let (own, kernels) = match down {
                            true => ("bytes_sent", "bytes_received"),
                            false => ("bytes_received", "bytes_sent"),
                        };
                        note(&mut here, status_bytes(&gateway, own));
                        note(&mut there, ss_bytes(hosts, kernels));
                    });
                    assert!(whole, "IPv6 {v6}, down {down}: {}", gateway.log());
                    assert!(shared(&here), "IPv6 {v6}, down {down}, status: {here:?}");
                    assert!(shared(&there), "IPv6 {v6}, down {down}, ss: {there:?}");
                }
            }
            let _ = monitor.kill();
            let _ = monitor.wait();
            let told = std::fs::read_to_string(&events).expect("events");
            let _ = std::fs::remove_file(&events);
            assert!(
                told.matches("SF_ESTABLISHED").count() >= 4,
                "ip mptcp monitor: {told}"
            );
            device_goes_with(gateway);
        },
    );
}

/// Checks that the gateway ends in order on SIGTERM and leaves no device or route behind.
fn device_goes_with(mut gateway: Running) {
    assert_eq!(gateway.end(), Some(0), "{}", gateway.log());
    assert!(
        !output("ip link show spin0").status.success(),
        "the device is still there"
    );
    assert!(!run("ip route").contains("10.9.0.1"));
}

#[test]
fn a_client_over_tun_uses_two_paths_to_a_kernel_server() {
    within(
        "kernel::a_client_over_tun_uses_two_paths_to_a_kernel_server",
        240,
        |hosts| {
            hosts.limit("200mbit");
            // The server's kernel listens on its own address. Spindle's addresses at the client are routed back
            // over either path.
            for v6 in [false, true] {
                let server = (on_path(v6, 1, 1), 9000).into();
                serve(server, true);
            }
            run(
                "ip route add 10.8.0.1 via 10.1.1.2; ip route add 10.8.0.2 via 10.1.2.2; \
             ip -6 route add fd08::1 via fd01:1::2; ip -6 route add fd08::2 via fd01:2::2",
            );
            hosts.client("sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1");
            for v6 in [false, true] {
                let (via, locals) = match v6 {
                    false => ("10.1.1.1:9000", ["10.8.0.1", "10.8.0.2"]),
                    true => ("[fd01:1::1]:9000", ["fd08::1", "fd08::2"]),
                };
                for (n, local) in locals.iter().enumerate() {
                    let family = if v6 { "-6" } else { "-4" };
                    let (path, to) = (n + 1, if v6 { "fd01:1::1" } else { "10.1.1.1" });
                    let gate = on_path(v6, path as u32, 1);
                    hosts.client(&format!(
                    "ip {family} rule add from {local} lookup {t}; ip {family} route add {to} via {gate} dev c{path} table {t} onlink",
                    t = 200 + path
                ));
                }
                let mut command = hosts.client_command(&[program(), "connect", "--tun", "spin1"]);
                command.args([
                    "--insecure",
                    "--listen",
                    "127.0.0.1:7000",
                    "--via",
                    via,
                    "--transport",
                    "mptcp",
                ]);
                command.args(["--local", locals[0], "--local", locals[1]]);
                let mut connect = Running::start(command, "connect");
                for down in [true, false] {
                    let mut subflows = Vec::new();
                    let whole = std::thread::scope(|scope| {
                        let work = scope.spawn(|| {
                            hosts.at_client(|| {
                                let near: IpAddr = "127.0.0.1".parse().expect("an address");
                                let stream =
                                    crate::service::connect(near, (near, 7000).into(), false);
                                transfer(&stream, down, size())
                            })
                        });
                        while !work.is_finished() {
                            let field = if down { "bytes_received" } else { "bytes_sent" };
                            note(&mut subflows, local_bytes(&connect, field));
                            std::thread::sleep(Duration::from_millis(20));
                        }
                        work.join().expect("the transfer")
                    });
                    assert!(whole, "IPv6 {v6}, down {down}: {}", connect.log());
                    assert!(shared(&subflows), "IPv6 {v6}, down {down}: {subflows:?}");
                }
                assert_eq!(connect.end(), Some(0), "{}", connect.log());
            }
        },
    );
}

/// Bytes by local address, as in `spindle status`.
fn local_bytes(connect: &Running, field: &str) -> Vec<(String, u64)> {
    let status = connect.status();
    let connections = status["connections"].as_array().expect("a list");
    let subflows = connections
        .iter()
        .flat_map(|c| c["subflows"].as_array().into_iter().flatten());
    let entry = |s: &serde_json::Value| {
        let local = s["local"].as_str()?;
        Some((local.rsplit_once(':')?.0.to_owned(), s[field].as_u64()?))
    };
    subflows.filter_map(entry).collect()
}

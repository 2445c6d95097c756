//! One of two paths fails and returns while a transfer runs.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::service::{connect, serve};
use crate::spindle::{Running, program};
use crate::two_hosts::{Hosts, on_path, run, within};

/// No stall may last longer than this. It is half a second if the machine runs only this test, as at full size.
/// Elsewhere, time is added for a busy machine. The bound itself is tested in virtual time, by `path_death` of
/// the core.
fn stall_allowed() -> Duration {
    Duration::from_millis(if crate::full() { 500 } else { 3000 })
}
/// After its return, the path must carry data within this time.
const RETURN: Duration = Duration::from_secs(5);
/// The path fails this long after the start.
const BLACK_AT: Duration = Duration::from_secs(1);

/// How long the path does not work.
fn black_for() -> Duration {
    Duration::from_secs(if crate::full() { 10 } else { 3 })
}

/// Bytes of the transfer: at 2 x 100 Mbit/s enough to see the path at work again.
fn size() -> u64 {
    if crate::full() {
        300_000_000
    } else {
        150_000_000
    }
}

/// Reads a download to its end. Returns the longest time without any data, and the number of bytes.
fn longest_stall(mut stream: &TcpStream) -> (Duration, u64) {
    let mut head = vec![b'd'];
    head.extend_from_slice(&size().to_be_bytes());
    stream.write_all(&head).expect("the request");
    let (mut block, mut total) = (vec![0; 256 << 10], 0);
    let (mut longest, mut last) = (Duration::ZERO, None::<Instant>);
    loop {
        let n = stream.read(&mut block).expect("data");
        if n == 0 {
            return (longest, total);
        }
        let now = Instant::now();
        longest = longest.max(last.map_or(Duration::ZERO, |t| now - t));
        last = Some(now);
        total += n as u64;
    }
}

/// Bytes sent on path 2 towards the client.
fn sent_on_path_2() -> u64 {
    let table = std::fs::read_to_string("/proc/net/dev").expect("the devices");
    let line = table
        .lines()
        .find_map(|l| l.trim().strip_prefix("s2:"))
        .expect("the device");
    // Eight numbers for received data come first, then the bytes sent.
    let out = line.split_whitespace().nth(8).expect("a column");
    out.parse().expect("a number")
}

/// Makes this path accept all packets and deliver none.
fn black(path: u32) {
    for (hook, side) in [("prerouting", "iifname"), ("postrouting", "oifname")] {
        run(&format!(
            "printf 'add table inet black\\nadd chain inet black {hook} {{ type filter hook {hook} priority -300; }}\\n\
             add rule inet black {hook} {side} s{path} drop\\n' | nft -f -"
        ));
    }
}

/// Makes path 2 fail and return during a download on the connection of `open`, and checks how the download
/// goes.
fn outage(hosts: &Hosts, gateway: &Running, open: impl Fn() -> TcpStream + Sync) {
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| hosts.at_client(|| longest_stall(&open())));
        std::thread::sleep(BLACK_AT);
        assert!(sent_on_path_2() > 0, "both paths are in use at first");
        black(2);
        std::thread::sleep(black_for());
        run("nft delete table inet black");
        let (back, before) = (Instant::now(), sent_on_path_2());
        // A megabyte shows that the path is used again. Less may be retransmissions of the data lost meanwhile.
        while sent_on_path_2() < before + 1_000_000 {
            assert!(
                back.elapsed() < RETURN,
                "not used again: {before} B sent on it; {}",
                gateway.status()
            );
            assert!(
                !reading.is_finished(),
                "over before the path was used again"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        eprintln!("used again {:?} after its return", back.elapsed());
        let (stall, total) = reading.join().expect("the download");
        eprintln!("longest stall {stall:?}");
        assert_eq!(total, size() + 32, "with the digest behind it");
        assert!(stall <= stall_allowed(), "a stall of {stall:?}");
    });
}

fn gateway(transport: &str) -> Running {
    let mut command = Command::new(program());
    command.args(["gateway", "--tun", "spin0", "--transport", transport]);
    command.args(["--listen", "10.9.0.1:8080", "--to", "127.0.0.1:9000"]);
    Running::start(command, "gateway")
}

#[test]
fn a_kernel_client_does_not_stall_while_a_path_dies_and_returns() {
    within(
        "death::a_kernel_client_does_not_stall_while_a_path_dies_and_returns",
        240,
        |hosts| {
            hosts.client_endpoint();
            hosts.limit("100mbit");
            serve("127.0.0.1:9000".parse().expect("an address"), false);
            let gateway_addr: IpAddr = "10.9.0.1".parse().expect("an address");
            for transport in ["spindle", "fuso+rack+cubic", "mptcp"] {
                let gateway = gateway(transport);
                outage(hosts, &gateway, || {
                    connect(on_path(false, 1, 2), (gateway_addr, 8080).into(), true)
                });
            }
        },
    );
}

/// `gateway` and `connect` over UDP. The client listens at 127.0.0.1:7000 and has two addresses.
fn over_udp(hosts: &Hosts, transport: &str) -> (Running, Running) {
    let mut command = Command::new(program());
    command.args(["gateway", "--udp", "--insecure", "--transport", transport]);
    command.args(["--listen", "10.1.1.1:4430", "--to", "127.0.0.1:9000"]);
    let gateway = Running::start(command, "gateway");
    let mut command = hosts.client_command(&[program(), "connect", "--udp", "--transport"]);
    command.args([transport, "--insecure"]);
    command.args(["--listen", "127.0.0.1:7000", "--via", "10.1.1.1:4430"]);
    command.args(["--local", "10.1.1.2", "--local", "10.1.2.2"]);
    (gateway, Running::start(command, "connect"))
}

#[test]
fn connect_does_not_stall_while_a_path_dies_and_returns() {
    within(
        "death::connect_does_not_stall_while_a_path_dies_and_returns",
        240,
        |hosts| {
            hosts.limit("100mbit");
            serve("127.0.0.1:9000".parse().expect("an address"), false);
            hosts.client("ip route add 10.1.1.1 via 10.1.2.1 dev c2 table 102");
            let near: IpAddr = "127.0.0.1".parse().expect("an address");
            for transport in ["spindle", "fuso+rack+cubic"] {
                let (gateway, _near) = over_udp(hosts, transport);
                outage(hosts, &gateway, || {
                    connect(near, (near, 7000).into(), false)
                });
            }
        },
    );
}

/// The time from a program's request to the first byte of the answer.
fn first_byte(near: SocketAddr) -> Duration {
    let begun = Instant::now();
    let mut stream = connect(near.ip(), near, false);
    let mut head = vec![b'd'];
    head.extend_from_slice(&1000u64.to_be_bytes());
    stream.write_all(&head).expect("the request");
    stream.read_exact(&mut [0]).expect("an answer");
    begun.elapsed()
}

#[test]
fn first_connection_opens_over_the_second_path_if_the_first_is_dead() {
    within(
        "death::first_connection_opens_over_the_second_path_if_the_first_is_dead",
        120,
        |hosts| {
            hosts.limit("100mbit");
            serve("127.0.0.1:9000".parse().expect("an address"), false);
            hosts.client("ip route add 10.1.1.1 via 10.1.2.1 dev c2 table 102");
            for transport in ["fuso+rack+cubic", "spindle"] {
                let (_gateway, _near) = over_udp(hosts, transport);
                black(1);
                let near = "127.0.0.1:7000".parse().expect("an address");
                let took = hosts.at_client(|| first_byte(near));
                run("nft delete table inet black");
                eprintln!("{transport}: first byte after {took:?}");
                let most = Duration::from_millis(if crate::full() { 400 } else { 900 });
                assert!(
                    took <= most,
                    "{transport}: {took:?}, a SYN's timeout is 1 s"
                );
            }
        },
    );
}

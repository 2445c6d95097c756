//! Downloads over two paths that lose packets in bursts. No download stalls, whatever carries it.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::link::Link;
use crate::service::{connect, serve};
use crate::spindle::{Running, program};
use crate::two_hosts::{Hosts, have, on_path, within};

/// Downloads in progress at the same time.
const AT_ONCE: u32 = 8;

/// Downloads in all, and bytes of each.
fn downloads() -> (u32, u64) {
    if crate::full() {
        (400, 10_000_000)
    } else {
        (16, 3_000_000)
    }
}

/// The longest time without a byte that is allowed. On a machine with other load, the test only shows that no
/// download stalls permanently.
fn stall_allowed() -> Duration {
    Duration::from_secs(if crate::full() { 2 } else { 20 })
}

/// How long a download took, and the longest time in it without a byte.
#[derive(Clone, Copy, Debug)]
struct Seen {
    took: Duration,
    stall: Duration,
}

/// Path 1 has 100 Mbit/s and 20 ms, path 2 has 50 Mbit/s and 40 ms. A burst of losses begins with one packet in
/// 500 on path 1 and with one in 100 on path 2. A packet of a burst is the last one with probability 0.3.
fn bursty_paths(hosts: &Hosts) {
    hosts.shape(1, &Link::new(100, 10).queue(600_000).bursts(0.002, 0.3));
    hosts.shape(2, &Link::new(50, 20).queue(400_000).bursts(0.01, 0.3));
}

/// Reads a download from its connection.
fn download(mut stream: &TcpStream, started: Instant, size: u64) -> std::io::Result<Seen> {
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let mut head = vec![b'd'];
    head.extend_from_slice(&size.to_be_bytes());
    stream.write_all(&head)?;
    let (mut block, mut total) = (vec![0; 256 << 10], 0);
    let (mut stall, mut last) = (Duration::ZERO, Instant::now());
    loop {
        let n = stream.read(&mut block)? as u64;
        if n == 0 {
            break;
        }
        stall = stall.max(last.elapsed());
        (total, last) = (total + n, Instant::now());
    }
    // The digest follows the bytes.
    if total != size + 32 {
        return Err(std::io::Error::other(format!("{total} bytes came")));
    }
    let took = started.elapsed();
    Ok(Seen { took, stall })
}

/// Makes all downloads, some at once, and checks them.
fn check(hosts: &Hosts, what: &str, gateway: &Running, open: impl Fn() -> TcpStream + Sync) {
    let (count, size) = downloads();
    let (begun, seen) = (AtomicU32::new(0), Mutex::new(Vec::new()));
    let worker = || {
        while begun.fetch_add(1, Ordering::Relaxed) < count {
            let started = Instant::now();
            let got = download(&open(), started, size);
            if let Ok(s) = &got
                && s.stall > Duration::from_secs(1)
            {
                eprintln!("{what}: {s:.2?}");
            }
            seen.lock().expect("the list").push(got);
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE)
            .map(|_| scope.spawn(|| hosts.at_client(worker)))
            .collect();
        for w in workers {
            w.join().expect("downloads");
        }
    });
    let seen = seen.into_inner().expect("the list");
    let failed: Vec<_> = seen.iter().filter_map(|s| s.as_ref().err()).collect();
    assert!(failed.is_empty(), "{what}: {failed:?}\n{}", gateway.log());
    let mut seen: Vec<Seen> = seen.into_iter().flatten().collect();
    seen.sort_by_key(|s| s.took);
    let (median, longest) = (seen[seen.len() / 2].took, seen[seen.len() - 1].took);
    let stall = seen.iter().map(|s| s.stall).max().unwrap_or_default();
    eprintln!(
        "{what}: {} downloads, median {median:.2?}, longest {longest:.2?}, longest stall {stall:.2?}",
        seen.len()
    );
    assert!(stall <= stall_allowed(), "{what}: a stall of {stall:?}");
    if crate::full() {
        assert!(longest <= median * 3, "{what}: {longest:?} of {median:?}");
    }
}

fn service() {
    serve("127.0.0.1:9000".parse().expect("an address"), false);
}

/// A kernel client of the gateway that listens at `to`.
fn kernel_client(to: SocketAddr) -> TcpStream {
    connect(on_path(false, 1, 2), to, true)
}

#[test]
fn downloads_over_tun_do_not_stall_in_bursts_of_losses() {
    let test = "bursts::downloads_over_tun_do_not_stall_in_bursts_of_losses";
    within(test, 2400, |hosts| {
        bursty_paths(hosts);
        hosts.client_endpoint();
        service();
        let mut command = Command::new(program());
        command.args(["gateway", "--tun", "spin0", "--to", "127.0.0.1:9000"]);
        command.args(["--listen", "10.9.0.1:8080"]);
        let gateway = Running::start(command, "gateway");
        let to = ([10, 9, 0, 1], 8080).into();
        check(hosts, "TUN", &gateway, || kernel_client(to));
    });
}

#[test]
fn downloads_over_dnat_do_not_stall_in_bursts_of_losses() {
    let test = "bursts::downloads_over_dnat_do_not_stall_in_bursts_of_losses";
    within(test, 2400, |hosts| {
        if !have(test, "nft") {
            return;
        }
        bursty_paths(hosts);
        service();
        let mut command = Command::new(program());
        command.args(["gateway", "--tun", "spin0", "--dnat"]);
        command.args(["--to", "127.0.0.1:9000"]);
        command.args(["--listen", "10.1.1.1:8080", "--announce", "10.1.2.1"]);
        let gateway = Running::start(command, "gateway");
        let to = (on_path(false, 1, 1), 8080).into();
        check(hosts, "TUN with --dnat", &gateway, || kernel_client(to));
    });
}

#[test]
fn downloads_over_udp_do_not_stall_in_bursts_of_losses() {
    let test = "bursts::downloads_over_udp_do_not_stall_in_bursts_of_losses";
    within(test, 2400, |hosts| {
        bursty_paths(hosts);
        service();
        hosts.client("ip route add 10.1.1.1 via 10.1.2.1 dev c2 table 102");
        let mut command = Command::new(program());
        command.args(["gateway", "--udp", "--insecure"]);
        command.args(["--listen", "10.1.1.1:4430", "--to", "127.0.0.1:9000"]);
        let gateway = Running::start(command, "gateway");
        let mut command = hosts.client_command(&[program(), "connect", "--udp", "--insecure"]);
        command.args(["--listen", "127.0.0.1:7000", "--via", "10.1.1.1:4430"]);
        command.args(["--local", "10.1.1.2", "--local", "10.1.2.2"]);
        let _near = Running::start(command, "connect");
        let near: IpAddr = "127.0.0.1".parse().expect("an address");
        check(hosts, "UDP", &gateway, || {
            connect(near, (near, 7000).into(), false)
        });
    });
}

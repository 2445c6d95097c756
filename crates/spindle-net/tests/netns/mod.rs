//! Runs a test in its own network namespace, which disappears with its process.

pub(crate) mod lossy;

use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::process::Command;

use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use spindle_net::setup::{SetupGuard, SetupOptions, setup};
use spindle_net::tun::{TunLink, TunOptions};

/// Protocol number that requests MPTCP from socket(2) (IPPROTO_MPTCP).
const MPTCP: i32 = 262;
const INSIDE: &str = "SPINDLE_TEST_NAMESPACE";
pub(crate) const DEVICE: &str = "spin0";

/// Runs `body` in a namespace, by starting this program again in one for the test of this name alone. If this
/// is not possible, the test is skipped with a message.
pub(crate) fn within(test: &str, body: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        ip("link set lo up");
        ip("link add host0 type veth peer name host1");
        ip("link set host1 up");
        ip("link set host0 up");
        for addr in ["10.1.0.1/24", "10.1.1.1/24"] {
            ip(&format!("addr add {addr} dev host0"));
        }
        for addr in ["fd01::1/64", "fd01:1::1/64"] {
            ip(&format!("addr add {addr} dev host0 nodad"));
        }
        body();
        return;
    }
    let root = std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0);
    if !root || !std::path::Path::new("/dev/net/tun").exists() {
        eprintln!("skipped {test}: it takes root and /dev/net/tun");
        return;
    }
    let exe = std::env::current_exe().expect("the test program");
    let status = Command::new("timeout")
        .args(["120", "unshare", "--net"])
        .arg(exe)
        .args([test, "--exact", "--nocapture"])
        .env(INSIDE, "1")
        .status()
        .expect("unshare of util-linux");
    assert!(status.success(), "{test} failed in its namespace");
}

/// Runs `ip` with these arguments. Returns its output.
pub(crate) fn ip(line: &str) -> String {
    let output = Command::new("ip")
        .args(line.split_whitespace())
        .output()
        .expect("ip of iproute2");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {line}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Whether this kernel supports MPTCP. Prints a message if it does not.
pub(crate) fn kernel_mptcp(test: &str) -> bool {
    let on = std::fs::read_to_string("/proc/sys/net/mptcp/enabled").is_ok_and(|s| s.trim() == "1");
    if !on {
        eprintln!("skipped in {test}: this kernel has no MPTCP");
    }
    on
}

/// The device with Spindle's addresses 10.7.0.1, 10.7.1.1, fd07::1 and fd07:1::1.
pub(crate) fn device(offloads: bool) -> (TunLink, SetupGuard) {
    let mut tun = TunOptions::new(DEVICE);
    tun.offloads = offloads;
    let addresses = ["10.7.0.1", "10.7.1.1", "fd07::1", "fd07:1::1"];
    let options = SetupOptions {
        tun,
        addresses: addresses.map(address).to_vec(),
        dnat: Vec::new(),
        source_routes: Vec::new(),
        forwarding: false,
    };
    setup(&options).expect("the device")
}

pub(crate) fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn socket(to: SocketAddr, multipath: bool) -> Socket {
    let protocol = if multipath {
        Protocol::from(MPTCP)
    } else {
        Protocol::TCP
    };
    Socket::new(Domain::for_address(to), Type::STREAM, Some(protocol)).expect("a kernel socket")
}

/// A kernel connection from 10.1.0.1 or fd01::1, with MPTCP or TCP.
pub(crate) fn kernel_connect(to: SocketAddr, multipath: bool) -> TcpStream {
    let s = socket(to, multipath);
    let from = if to.is_ipv4() { "10.1.0.1" } else { "fd01::1" };
    let from = SocketAddr::new(address(from), 0);
    s.bind(&SockAddr::from(from)).expect("the address");
    s.connect(&SockAddr::from(to)).expect("a connection");
    s.into()
}

/// A kernel listener, with MPTCP or TCP.
pub(crate) fn kernel_listen(at: SocketAddr, multipath: bool) -> TcpListener {
    let s = socket(at, multipath);
    s.set_reuse_address(true).expect("an option");
    s.bind(&SockAddr::from(at)).expect("the address");
    s.listen(64).expect("to listen");
    s.into()
}

/// Bytes of which no two blocks are equal.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    let mut x = 0x9e37_79b9_u32;
    (0..len.div_ceil(4))
        .flat_map(|_| {
            x ^= x << 13;
            x ^= x >> 17;
            x ^= x << 5;
            x.to_le_bytes()
        })
        .take(len)
        .collect()
}

/// Sends `data`, shuts the sending side down and reads to the end, at the same time.
pub(crate) fn exchange(stream: &TcpStream, data: &[u8]) -> Vec<u8> {
    use std::io::{Read, Write};
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut s = stream;
            s.write_all(data).expect("room");
            stream.shutdown(Shutdown::Write).expect("shut down");
        });
        let (mut got, mut s) = (Vec::new(), stream);
        s.read_to_end(&mut got).expect("the echo");
        got
    })
}

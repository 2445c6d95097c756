//! Two hosts joined by two paths, in network namespaces that disappear with the test's process.
//!
//! The test's own namespace is the server's. It has the gateway's device and the service behind it. The
//! client's namespace is held by a sleeping child. Path `n` is a veth pair between 10.1.n.1 (server) and
//! 10.1.n.2 (client), fd01:n::1 and fd01:n::2, or an emulated link with a rate, a delay, a queue and losses
//! (`Hosts::shape`).

use std::fs::File;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// The gateway's addresses, routed to its device.
pub(crate) const GATEWAY: [&str; 2] = ["10.9.0.1", "fd09::1"];

const INSIDE: &str = "SPINDLE_TEST_NAMESPACE";

/// Tests of this file run one after the other, since each needs the whole machine.
pub(crate) static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs `body` in a namespace, by starting this program again in one for the test of this name alone. If this
/// is not possible, the test is skipped with a message.
pub(crate) fn within(test: &str, seconds: u32, body: impl FnOnce(&Hosts)) {
    if std::env::var_os(INSIDE).is_some() {
        body(&Hosts::new());
        return;
    }
    if let Some(missing) = missing() {
        eprintln!("skipped {test}: it takes {missing}");
        return;
    }
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let exe = std::env::current_exe().expect("the test program");
    let status = Command::new("timeout")
        .args(["-k", "5", &seconds.to_string()])
        .args([
            "unshare",
            "--net",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
        ])
        .arg(exe)
        .args([test, "--exact", "--nocapture"])
        .env(INSIDE, "1")
        .status()
        .expect("unshare of util-linux");
    assert!(status.success(), "{test} failed in its namespace: {status}");
}

fn missing() -> Option<&'static str> {
    if std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() != 0) {
        return Some("root");
    }
    if !std::path::Path::new("/dev/net/tun").exists() {
        return Some("/dev/net/tun");
    }
    let mptcp = std::fs::read_to_string("/proc/sys/net/mptcp/enabled");
    (!mptcp.is_ok_and(|s| s.trim() == "1")).then_some("a kernel with MPTCP")
}

/// Whether this program is installed. Prints a message if it is not.
pub(crate) fn have(test: &str, program: &str) -> bool {
    let found = Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|s| s.success());
    if !found {
        eprintln!("skipped {test}: it takes {program}");
    }
    found
}

/// Copies a program. Another process does so: while a file is open for writing, a child that another thread starts has it
/// open as well, and it cannot be executed ("Text file busy").
pub(crate) fn copy_program(from: &str, to: &std::path::Path) {
    let status = Command::new("cp").arg(from).arg(to).status();
    assert!(status.expect("cp").success(), "a copy of {from}");
}

/// Runs a command line. Returns its output, whatever its exit code.
pub(crate) fn output(line: &str) -> Output {
    Command::new("sh")
        .args(["-c", line])
        .output()
        .unwrap_or_else(|e| panic!("{line}: {e}"))
}

/// Runs a command line, which must succeed. Returns what it prints.
pub(crate) fn run(line: &str) -> String {
    let out = output(line);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{line}: {said}");
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Tells the threads that look at a flag to end, also if the test fails before it does.
pub(crate) struct StopOnDrop<'a>(pub(crate) &'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A network namespace, held by a sleeping child.
pub(crate) struct Namespace(Child);

impl Namespace {
    pub(crate) fn new() -> Self {
        let holder = Command::new("unshare")
            .args(["--net", "sleep", "infinity"])
            .spawn()
            .expect("unshare of util-linux");
        let namespace = Self(holder);
        // The child has its namespace once its network differs from ours.
        let own = std::fs::read_link("/proc/self/ns/net").expect("a namespace");
        while std::fs::read_link(namespace.path()).is_ok_and(|n| n == own) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        namespace.run(
            "ip link set lo up; sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0 \
             net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0",
        );
        namespace
    }

    fn path(&self) -> String {
        format!("/proc/{}/ns/net", self.0.id())
    }

    /// The process that holds the namespace, by which `ip` identifies it.
    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Runs a command line in the namespace, which must succeed. Returns what it prints.
    pub(crate) fn run(&self, line: &str) -> String {
        let out = self.output(line);
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{line}: {said}");
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    /// Runs a command line in the namespace.
    pub(crate) fn output(&self, line: &str) -> Output {
        self.command(&["sh", "-c", line])
            .output()
            .expect("nsenter of util-linux")
    }

    /// A command in the namespace, which the caller starts.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut c = Command::new("nsenter");
        c.arg(format!("--net={}", self.path())).args(arguments);
        c
    }

    /// Runs `body` in the namespace, on its own thread.
    pub(crate) fn at<T: Send>(&self, body: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let ns = File::open(self.path()).expect("the namespace");
                nix::sched::setns(&ns, nix::sched::CloneFlags::CLONE_NEWNET).expect("setns");
                body()
            });
            thread.join().expect("the part there")
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The two hosts.
pub(crate) struct Hosts {
    client: Namespace,
}

impl Hosts {
    fn new() -> Self {
        let hosts = Self {
            client: Namespace::new(),
        };
        run(
            "ip link set lo up; sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 \
             net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0 \
             net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0",
        );
        for path in [1, 2] {
            hosts.join(path);
        }
        hosts.client("ip mptcp limits set subflow 4 add_addr_accepted 4");
        run("ip mptcp limits set subflow 4 add_addr_accepted 4");
        hosts
    }

    /// Joins the hosts by path `n`, a veth pair.
    fn join(&self, n: u32) {
        let pid = self.client.pid();
        run(&format!(
            "ip link add s{n} type veth peer name c{n} netns {pid}"
        ));
        self.address(n);
    }

    /// Gives the devices of path `n` their addresses. The client's route from its address on this path to the
    /// gateway's addresses uses the path.
    pub(crate) fn address(&self, n: u32) {
        run(&format!(
            "ip link set s{n} up; ip addr add 10.1.{n}.1/24 dev s{n}; ip addr add fd01:{n}::1/64 dev s{n} nodad"
        ));
        self.client(&format!(
            "ip link set c{n} up; ip addr add 10.1.{n}.2/24 dev c{n}; ip addr add fd01:{n}::2/64 dev c{n} nodad; \
             ip rule add from 10.1.{n}.2 lookup {t}; ip -6 rule add from fd01:{n}::2 lookup {t}; \
             ip route add 10.9.0.0/24 via 10.1.{n}.1 dev c{n} table {t}; ip -6 route add fd09::/64 via fd01:{n}::1 dev c{n} table {t}; \
             ip route add 10.9.0.0/24 via 10.1.{n}.1 dev c{n} metric {n}; ip -6 route add fd09::/64 via fd01:{n}::1 dev c{n} metric {n}",
            t = 100 + n
        ));
    }

    /// Limits every path, in each direction, to this rate (in tc's format).
    pub(crate) fn limit(&self, rate: &str) {
        for n in [1, 2] {
            let shape = |device: char| {
                format!(
                    "tc qdisc add dev {device}{n} root tbf rate {rate} burst 256kb latency 40ms"
                )
            };
            run(&shape('s'));
            self.client(&shape('c'));
        }
    }

    /// Makes the client's kernel open a further subflow from its address on path 2.
    pub(crate) fn client_endpoint(&self) {
        self.client("ip mptcp endpoint add 10.1.2.2 dev c2 subflow; ip mptcp endpoint add fd01:2::2 dev c2 subflow");
    }

    /// The client's namespace.
    pub(crate) fn namespace(&self) -> &Namespace {
        &self.client
    }

    /// Runs a command line at the client, which must succeed. Returns what it prints.
    pub(crate) fn client(&self, line: &str) -> String {
        self.client.run(line)
    }

    /// Runs a command line at the client.
    pub(crate) fn client_output(&self, line: &str) -> Output {
        self.client.output(line)
    }

    /// A command at the client, which the caller starts.
    pub(crate) fn client_command(&self, arguments: &[&str]) -> Command {
        self.client.command(arguments)
    }

    /// Runs `body` in the client's network, on its own thread.
    pub(crate) fn at_client<T: Send>(&self, body: impl FnOnce() -> T + Send) -> T {
        self.client.at(body)
    }
}

/// An address of a host on a path: `end` is 1 for the server, 2 for the client.
pub(crate) fn on_path(v6: bool, path: u32, end: u32) -> IpAddr {
    let text = match v6 {
        true => format!("fd01:{path}::{end}"),
        false => format!("10.1.{path}.{end}"),
    };
    text.parse().expect("an address")
}

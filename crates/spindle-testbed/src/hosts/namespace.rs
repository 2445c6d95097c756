//! Network namespaces without names. Only open files of this process hold them, so they vanish with it.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use nix::sched::{CloneFlags, setns, unshare};
use spindle_experiment::hosts::address;
use spindle_net::tun::{TunLink, TunOptions};
use tun_rs::SyncDevice;

use crate::error::TestbedError;

/// Routing table of a kernel host's first interface. The other interfaces use the tables after it.
const FIRST_TABLE: u32 = 100;
/// A prefix that contains every host of an experiment.
const ALL_HOSTS: &str = "10.0.0.0/8";
/// Name of Spindle's own device.
const TUN: &str = "spindle0";
/// The number of packets that may wait in a device until the fabric's thread reads them.
const DEVICE_QUEUE: u32 = 10_000;

/// Makes sure that this process may create namespaces. A user other than root enters a new user namespace. It
/// must be called while the process has only one thread.
///
/// # Errors
/// [`TestbedError::NoNamespace`] if the kernel does not allow it.
pub fn enter() -> Result<(), TestbedError> {
    if nix::unistd::geteuid().is_root() {
        return Ok(());
    }
    let (uid, gid) = (nix::unistd::getuid(), nix::unistd::getgid());
    let no = |e: nix::Error| TestbedError::NoNamespace(e.into());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET).map_err(no)?;
    // Root inside the namespace maps to the user outside (user_namespaces(7)).
    for (file, text) in [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("0 {uid} 1")),
        ("gid_map", format!("0 {gid} 1")),
    ] {
        std::fs::write(format!("/proc/self/{file}"), text).map_err(TestbedError::NoNamespace)?;
    }
    Ok(())
}

/// How a host on the kernel's network is set up.
#[derive(Clone, Debug)]
pub(crate) struct KernelHost {
    pub(crate) host: u32,
    pub(crate) interfaces: u32,
    pub(crate) mtu: u16,
    pub(crate) role: Role,
}

/// The owner of the host's addresses.
#[derive(Clone, Debug)]
pub(crate) enum Role {
    /// The kernel. Sockets are bound to the addresses.
    Sockets(KernelTcp),
    /// Spindle. The addresses are routed to its own TUN device ([`TUN`]). Packets from that device leave by the
    /// interface that belongs to their source address.
    Routed,
}

/// Settings of the kernel's TCP.
#[derive(Clone, Debug)]
pub(crate) struct KernelTcp {
    /// The congestion controller, by its name in the kernel.
    pub(crate) congestion: String,
    pub(crate) ecn: bool,
    pub(crate) timestamps: bool,
    pub(crate) min_rto_ms: u64,
    /// Initial window in segments, if it should differ from the kernel's.
    pub(crate) initial_window: Option<u32>,
    /// Whether to open a subflow from each interface.
    pub(crate) multipath: bool,
}

/// A namespace with the devices that were created in it.
pub(crate) struct Made {
    pub(crate) namespace: Namespace,
    /// The fabric's ends of the host's interfaces.
    pub(crate) devices: Vec<SyncDevice>,
    /// Spindle's own device, if addresses are routed to it.
    pub(crate) tun: Option<TunLink>,
}

/// A network namespace.
pub(crate) struct Namespace {
    own: File,
    inside: File,
}

fn current() -> io::Result<File> {
    File::open("/proc/thread-self/ns/net")
}

impl Namespace {
    /// Creates a namespace with a host in it.
    pub(crate) fn make(host: &KernelHost) -> Result<Made, TestbedError> {
        let wrong = TestbedError::system::<io::Error>;
        let own = current().map_err(wrong("open this network namespace"))?;
        // A separate thread, so that this thread stays in its namespace whatever fails.
        let made = std::thread::scope(|scope| {
            scope
                .spawn(|| {
                    unshare(CloneFlags::CLONE_NEWNET).map_err(TestbedError::system(
                        "make a network namespace (run as root, or allow user namespaces)",
                    ))?;
                    let inside = current().map_err(wrong("open the new network namespace"))?;
                    let (devices, tun) = set_up(host)?;
                    Ok::<_, TestbedError>((inside, devices, tun))
                })
                .join()
        });
        let (inside, devices, tun) = match made {
            Ok(made) => made?,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        let namespace = Self { own, inside };
        Ok(Made {
            namespace,
            devices,
            tun,
        })
    }

    /// Runs `act` inside the namespace. Sockets and programs that it creates belong to the namespace.
    pub(crate) fn within<T>(&self, act: impl FnOnce() -> T) -> io::Result<T> {
        setns(&self.inside, CloneFlags::CLONE_NEWNET)?;
        let done = act();
        setns(&self.own, CloneFlags::CLONE_NEWNET)?;
        Ok(done)
    }
}

fn set_up(host: &KernelHost) -> Result<(Vec<SyncDevice>, Option<TunLink>), TestbedError> {
    for (key, value) in [
        ("ipv4/conf/all/rp_filter", "0"),
        ("ipv4/conf/default/rp_filter", "0"),
        ("ipv6/conf/default/disable_ipv6", "1"),
    ] {
        sysctl(key, value)?;
    }
    let devices: Result<Vec<SyncDevice>, TestbedError> =
        (0..host.interfaces).map(|i| device(host, i)).collect();
    let devices = devices?;
    let mut lines = vec!["link set lo up".to_owned()];
    // Not by tun-rs, whose ioctl (SIOCSIFTXQLEN) needs root outside any user namespace.
    lines.extend((0..host.interfaces).map(|i| {
        let name = device_name(i);
        format!("link set dev {name} txqueuelen {DEVICE_QUEUE}")
    }));
    let tun = match &host.role {
        Role::Sockets(tcp) => {
            sockets(host, tcp, &mut lines)?;
            None
        }
        Role::Routed => Some(routed(host, &mut lines)?),
    };
    ip(&lines)?;
    Ok((devices, tun))
}

fn device_name(interface: u32) -> String {
    format!("path{}", interface + 1)
}

fn device(host: &KernelHost, i: u32) -> Result<SyncDevice, TestbedError> {
    let device = tun_rs::DeviceBuilder::new()
        .name(device_name(i))
        .mtu(host.mtu)
        .offload(false)
        .packet_information(false)
        .build_sync()
        .map_err(TestbedError::system(
            "make a TUN device (is /dev/net/tun there?)",
        ))?;
    let wrong = TestbedError::system("set a TUN device non-blocking");
    device.set_nonblocking(true).map_err(wrong)?;
    Ok(device)
}

/// Adds the commands for a host whose addresses are the kernel's.
fn sockets(
    host: &KernelHost,
    tcp: &KernelTcp,
    lines: &mut Vec<String>,
) -> Result<(), TestbedError> {
    let flag = |on: bool| if on { "1" } else { "0" };
    for (key, value) in [
        ("ipv4/tcp_ecn", flag(tcp.ecn)),
        ("ipv4/tcp_timestamps", flag(tcp.timestamps)),
        // Flows are independent: the kernel keeps no metrics of earlier ones.
        ("ipv4/tcp_no_metrics_save", "1"),
        ("mptcp/enabled", "1"),
    ] {
        sysctl(key, value)?;
    }
    for i in 0..host.interfaces {
        let (name, addr, table) = (device_name(i), address(host.host, i), FIRST_TABLE + i);
        // The congestion control is set on the route. By sysctl, a namespace may choose only algorithms that
        // the whole system allows to all users.
        let mut settings = format!(
            "src {addr} rto_min {}ms congctl {}",
            tcp.min_rto_ms, tcp.congestion
        );
        if let Some(window) = tcp.initial_window {
            settings += &format!(" initcwnd {window}");
        }
        let route = format!("route add {ALL_HOSTS} dev {name} {settings}");
        lines.extend([
            format!("addr add {addr}/32 dev {name}"),
            format!("link set {name} up"),
            format!("{route} table {table}"),
            format!("rule add from {addr} table {table}"),
        ]);
        if i == 0 {
            lines.push(route);
        }
    }
    if tcp.multipath {
        lines.push("mptcp limits set subflow 8 add_addr_accepted 8".to_owned());
        let endpoint = |i| {
            let (addr, name) = (address(host.host, i), device_name(i));
            format!("mptcp endpoint add {addr} dev {name} subflow")
        };
        lines.extend((0..host.interfaces).map(endpoint));
    }
    Ok(())
}

/// Adds the commands for a host whose addresses are Spindle's. Returns its device.
fn routed(host: &KernelHost, lines: &mut Vec<String>) -> Result<TunLink, TestbedError> {
    sysctl("ipv4/ip_forward", "1")?;
    let options = TunOptions {
        mtu: host.mtu,
        ..TunOptions::new(TUN)
    };
    let link = TunLink::open(&options)?;
    lines.push(format!("link set {TUN} up"));
    for i in 0..host.interfaces {
        let (name, addr, table) = (device_name(i), address(host.host, i), FIRST_TABLE + i);
        lines.extend([
            format!("link set {name} up"),
            format!("route add {addr}/32 dev {TUN}"),
            format!("route add {ALL_HOSTS} dev {name} table {table}"),
            format!("rule add from {addr} table {table}"),
        ]);
    }
    Ok(link)
}

fn sysctl(key: &str, value: &str) -> Result<(), TestbedError> {
    let path = format!("/proc/sys/net/{key}");
    let written = File::options()
        .write(true)
        .open(&path)
        .and_then(|mut f| f.write_all(value.as_bytes()));
    written.map_err(TestbedError::system(format!("write {value} to {path}")))
}

/// Runs commands of `ip`, one per line, in one process.
fn ip(lines: &[String]) -> Result<(), TestbedError> {
    let command = "ip -batch -".to_owned();
    let failed = || TestbedError::system::<io::Error>("run `ip -batch -` (iproute2)");
    let mut child = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed())?;
    let text = lines.join("\n") + "\n";
    if let Some(mut input) = child.stdin.take() {
        // If `ip` ends early, its status reports the reason.
        let _ = input.write_all(text.as_bytes());
    }
    let done = child.wait_with_output().map_err(failed())?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr)
        .trim()
        .replace('\n', "; ");
    let said = match failed_line(&said).and_then(|n| lines.get(n - 1)) {
        Some(line) => format!("ip {line}: {said}"),
        None => said,
    };
    Err(TestbedError::Program { command, said })
}

/// The line at which `ip -batch` stopped. Its message is "Command failed -:3".
fn failed_line(said: &str) -> Option<usize> {
    let (_, number) = said.rsplit_once("Command failed -:")?;
    number.trim().parse().ok().filter(|n| *n > 0)
}

/// Makes the kernel kill the program when the thread that starts it ends for any reason.
pub(crate) fn end_with_us(command: &mut Command) {
    // SAFETY: between fork and exec only prctl is called, which is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) == 0 {
                Ok(())
            } else {
                Err(io::Error::last_os_error())
            }
        });
    }
}

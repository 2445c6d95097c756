//! Network namespaces without names: each is held by open files of this process alone, and vanishes
//! with it.

use std::fs::File;
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::sched::{CloneFlags, setns, unshare};
use spindle_lab::driver::address;
use tun_rs::SyncDevice;

use crate::error::TestbedError;

/// Routing table of a kernel host's first interface; the others follow.
const FIRST_TABLE: u32 = 100;
/// Every host of an experiment is in here.
const ALL_HOSTS: &str = "10.0.0.0/8";
/// Packets that may wait in a device until the fabric's thread reads them.
const DEVICE_QUEUE: u32 = 10_000;

/// Makes sure that this process may make namespaces: as another user than root it enters a user
/// namespace of its own. To be called while the process has but one thread.
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
    // Root within maps to the user without (user_namespaces(7)).
    for (file, text) in [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("0 {uid} 1")),
        ("gid_map", format!("0 {gid} 1")),
    ] {
        std::fs::write(format!("/proc/self/{file}"), text).map_err(TestbedError::NoNamespace)?;
    }
    Ok(())
}

/// How a kernel host is set up.
#[derive(Clone, Debug)]
pub(crate) struct KernelHost {
    pub(crate) host: u32,
    pub(crate) interfaces: u32,
    pub(crate) mtu: u16,
    pub(crate) congestion: &'static str,
    pub(crate) ecn: bool,
    pub(crate) timestamps: bool,
    pub(crate) min_rto_ms: u64,
    /// Initial window in segments, if it is to differ from the kernel's.
    pub(crate) initial_window: Option<u32>,
    /// Open a subflow from each interface.
    pub(crate) multipath: bool,
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
    /// Makes a namespace with a kernel host in it; also its devices in the order of interfaces.
    pub(crate) fn new(host: &KernelHost) -> Result<(Self, Vec<SyncDevice>), TestbedError> {
        let wrong = TestbedError::system::<io::Error>;
        let own = current().map_err(wrong("open this network namespace"))?;
        // A thread of its own, so that whatever fails, this one stays where it is.
        let made = std::thread::scope(|scope| {
            scope
                .spawn(|| {
                    unshare(CloneFlags::CLONE_NEWNET).map_err(TestbedError::system(
                        "make a network namespace (run as root, or allow user namespaces)",
                    ))?;
                    let inside = current().map_err(wrong("open the new network namespace"))?;
                    Ok((inside, set_up(host)?))
                })
                .join()
        });
        match made {
            Ok(made) => made.map(|(inside, devices)| (Self { own, inside }, devices)),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// Does something within: sockets made and programs started there belong to the namespace.
    pub(crate) fn within<T>(&self, act: impl FnOnce() -> T) -> io::Result<T> {
        setns(&self.inside, CloneFlags::CLONE_NEWNET)?;
        let done = act();
        setns(&self.own, CloneFlags::CLONE_NEWNET)?;
        Ok(done)
    }
}

fn set_up(host: &KernelHost) -> Result<Vec<SyncDevice>, TestbedError> {
    let flag = |on: bool| if on { "1" } else { "0" };
    for (key, value) in [
        ("ipv4/tcp_ecn", flag(host.ecn)),
        ("ipv4/tcp_timestamps", flag(host.timestamps)),
        // Each flow for itself: nothing is remembered of earlier ones.
        ("ipv4/tcp_no_metrics_save", "1"),
        ("ipv4/conf/all/rp_filter", "0"),
        ("ipv4/conf/default/rp_filter", "0"),
        ("ipv6/conf/default/disable_ipv6", "1"),
        ("mptcp/enabled", "1"),
    ] {
        sysctl(key, value)?;
    }
    ip(&["link", "set", "lo", "up"])?;
    let mut devices = Vec::new();
    for i in 0..host.interfaces {
        devices.push(interface(host, i)?);
    }
    if host.multipath {
        ip(&[
            "mptcp",
            "limits",
            "set",
            "subflow",
            "8",
            "add_addr_accepted",
            "8",
        ])?;
        for i in 0..host.interfaces {
            let addr = address(host.host, i).to_string();
            ip(&[
                "mptcp",
                "endpoint",
                "add",
                &addr,
                "dev",
                &device_name(i),
                "subflow",
            ])?;
        }
    }
    Ok(devices)
}

fn device_name(interface: u32) -> String {
    format!("path{}", interface + 1)
}

fn interface(host: &KernelHost, i: u32) -> Result<SyncDevice, TestbedError> {
    let name = device_name(i);
    let device = tun_rs::DeviceBuilder::new()
        .name(&name)
        .mtu(host.mtu)
        .tx_queue_len(DEVICE_QUEUE)
        .offload(false)
        .packet_information(false)
        .build_sync()
        .map_err(TestbedError::system(
            "make a TUN device (is /dev/net/tun there?)",
        ))?;
    let wrong = TestbedError::system("set a TUN device non-blocking");
    device.set_nonblocking(true).map_err(wrong)?;
    let addr: IpAddr = address(host.host, i);
    let (addr, prefix) = (addr.to_string(), format!("{addr}/32"));
    let table = (FIRST_TABLE + i).to_string();
    let rto = format!("{}ms", host.min_rto_ms);
    ip(&["addr", "add", &prefix, "dev", &name])?;
    ip(&["link", "set", &name, "up"])?;
    let window = host.initial_window.map(|n| n.to_string());
    // By the route, since a namespace may choose only what the whole system allows to all by sysctl.
    let mut settings = vec!["src", &addr, "rto_min", &rto, "congctl", host.congestion];
    if let Some(window) = &window {
        settings.extend(["initcwnd", window]);
    }
    let mut route = vec!["route", "add", ALL_HOSTS, "dev", &name, "table", &table];
    route.extend(&settings);
    ip(&route)?;
    ip(&["rule", "add", "from", &addr, "table", &table])?;
    if i == 0 {
        let mut route = vec!["route", "add", ALL_HOSTS, "dev", &name];
        route.extend(&settings);
        ip(&route)?;
    }
    Ok(device)
}

fn sysctl(key: &str, value: &str) -> Result<(), TestbedError> {
    let path = format!("/proc/sys/net/{key}");
    let written = File::options()
        .write(true)
        .open(&path)
        .and_then(|mut f| f.write_all(value.as_bytes()));
    written.map_err(TestbedError::system(format!("write {value} to {path}")))
}

fn ip(arguments: &[&str]) -> Result<(), TestbedError> {
    let command = format!("ip {}", arguments.join(" "));
    let done = Command::new("ip")
        .args(arguments)
        .output()
        .map_err(TestbedError::system(format!(
            "start `{command}` (iproute2)"
        )))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr)
        .trim()
        .replace('\n', "; ");
    Err(TestbedError::Program { command, said })
}

/// Has the kernel end the program when this thread ends, however that comes about.
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

//! A network of its own for one program: a network namespace in which every TCP connection is redirected to a connect
//! service, every name is looked up at a name server of ours, and everything else is refused at once.
//!
//! The process that becomes the program enters the namespaces and opens the sockets in them. It passes the sockets to the
//! service, which stays outside. A socket belongs to the namespace in which it was opened, whichever process uses it.
//!
//! A user other than root needs a user namespace (user_namespaces(7)). The program keeps the user's number in it and has no
//! capabilities there. A mount namespace gives it an /etc/resolv.conf and an /etc/nsswitch.conf that lead to the name server.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getegid, geteuid};
use rustix::mount::{MountPropagationFlags, mount_bind, mount_change};
use rustix::thread::{
    CapabilitySet, capabilities, clear_ambient_capability_set, configure_capability_in_ambient_set,
    set_capabilities,
};
use socket2::{Domain, Protocol, Socket, Type};

use super::SetupError;
use super::command::nft;
use super::entries::{Device, everything_is_local};
use crate::randomness::random_bytes;
use crate::redirect::names::{NAMES_V4, NAMES_V6};

/// Connections that may wait until the service accepts them (Linux: `net.core.somaxconn` has this default).
const BACKLOG: i32 = 4096;
/// The port of name servers (RFC 1035, section 4.2.1).
const DNS: u16 = 53;

/// Where the standard library of C looks for name servers. It takes no domain from the host's name.
const RESOLV_CONF: &str =
    "# Names are resolved by the gateway of `spindle exec`.\nnameserver 127.0.0.1\nsearch .\n";
/// The sockets of nscd(8), which looks names up outside.
const CACHES: [&str; 2] = ["/run/nscd/socket", "/var/run/nscd/socket"];

/// Why a program gets no network of its own.
#[derive(Debug, thiserror::Error)]
pub enum IsolateError {
    /// The kernel, or its security modules, allow no namespaces.
    #[error(
        "no namespaces for the program: {0}; a user other than root needs unprivileged user namespaces: see the settings \
         user.max_user_namespaces (more than 0), kernel.unprivileged_userns_clone (1, Debian) and \
         kernel.apparmor_restrict_unprivileged_userns (0, Ubuntu) of sysctl, and --security-opt seccomp=unconfined of a \
         container; or run it as root"
    )]
    Namespaces(io::Error),
    /// A file of the program's could not be replaced.
    #[error("{path} cannot be replaced for the program: {source}")]
    Mount {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A socket could not be opened.
    #[error("no socket in the program's network: {0}")]
    Socket(io::Error),
    /// The network could not be set up, or `nft` is missing or failed.
    #[error("in the program's network: {0}")]
    Setup(#[from] SetupError),
}

/// The sockets in the network of a program.
#[derive(Debug)]
pub struct Isolated {
    /// Where its connections arrive, for each family.
    pub listeners: Vec<TcpListener>,
    /// Where its look-ups arrive, for each family.
    pub name_servers: Vec<UdpSocket>,
}

/// Moves this process to namespaces of its own and sets them up. The process must have only one thread, and should execute
/// the program next. After an error it should end.
///
/// # Errors
/// [`IsolateError`], which says what is missing.
pub fn isolate() -> Result<Isolated, IsolateError> {
    enter()?;
    // The child `nft` of a user other than root inherits no other capability.
    let keep = !geteuid().is_root();
    if keep {
        keep_net_admin().map_err(IsolateError::Namespaces)?;
    }
    let v6 = has_ipv6();
    assign(v6)?;
    let isolated = open(v6).map_err(IsolateError::Socket)?;
    let port = isolated.listeners.first().and_then(|l| l.local_addr().ok());
    nft(&rules(port.map_or(0, |at| at.port())))?;
    replace_files()?;
    if keep {
        give_up().map_err(IsolateError::Namespaces)?;
    }
    Ok(isolated)
}

fn enter() -> Result<(), IsolateError> {
    let no = |e: Errno| IsolateError::Namespaces(e.into());
    let flags = CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS;
    let (user, group) = (geteuid(), getegid());
    if user.is_root() {
        match unshare(flags) {
            // Root of a container may lack CAP_SYS_ADMIN.
            Err(Errno::EPERM) => {}
            done => return done.map_err(no),
        }
    }
    unshare(flags | CloneFlags::CLONE_NEWUSER).map_err(no)?;
    for (file, text) in [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("{user} {user} 1")),
        ("gid_map", format!("{group} {group} 1")),
    ] {
        fs::write(format!("/proc/self/{file}"), text).map_err(IsolateError::Namespaces)?;
    }
    Ok(())
}

/// Lets child processes inherit CAP_NET_ADMIN (capabilities(7), ambient set).
fn keep_net_admin() -> io::Result<()> {
    let mut sets = capabilities(None)?;
    sets.inheritable |= CapabilitySet::NET_ADMIN;
    set_capabilities(None, sets)?;
    configure_capability_in_ambient_set(CapabilitySet::NET_ADMIN, true)?;
    Ok(())
}

/// Lets the program inherit no capabilities.
fn give_up() -> io::Result<()> {
    clear_ambient_capability_set()?;
    let mut sets = capabilities(None)?;
    sets.inheritable = CapabilitySet::empty();
    set_capabilities(None, sets)?;
    Ok(())
}

/// Whether the namespace has IPv6.
fn has_ipv6() -> bool {
    let disabled = fs::read_to_string("/proc/sys/net/ipv6/conf/lo/disable_ipv6");
    disabled.is_ok_and(|text| text.trim() == "0")
}

/// The program's own address of each family: number 1 of the networks of names. Resolvers look up addresses of those families
/// only of which the host has an address that is not loopback (AI_ADDRCONFIG, RFC 3493, section 6.1).
fn own() -> (Ipv4Addr, Ipv6Addr) {
    let v4 = Ipv4Addr::from_bits(NAMES_V4.to_bits() + 1);
    (v4, Ipv6Addr::from_bits(NAMES_V6.to_bits() + 1))
}

/// Makes all addresses local, so that a datagram passes the input hook, and an error reaches its sender as one from a
/// host would. To refuse it at the output hook would make the system call fail with EPERM.
fn assign(v6: bool) -> Result<(), SetupError> {
    let (own_v4, own_v6) = own();
    Device::enable("lo")?;
    everything_is_local(own_v4.into())?;
    if v6 {
        everything_is_local(own_v6.into())?;
    }
    Ok(())
}

/// The rules of the program's network. `port` is that of the listeners.
///
/// Without the ICMP errors of `reject`, a program that tries QUIC first, or pings a host, would wait or be misled.
fn rules(port: u16) -> String {
    let (own_v4, own_v6) = own();
    let here = format!(
        "    ip daddr {{ 127.0.0.0/8, {own_v4} }} accept\n    ip6 daddr {{ ::1, {own_v6} }} accept\n"
    );
    format!(
        "table inet spindle-exec {{\n  \
         chain redirected {{\n    type nat hook output priority -100;\n    \
         udp dport {DNS} redirect to :{DNS}\n{here}    \
         meta l4proto tcp redirect to :{port}\n  }}\n  \
         chain refused {{\n    type filter hook input priority 0;\n{here}    \
         meta l4proto udp reject with icmpx port-unreachable\n    \
         reject with icmpx admin-prohibited\n  }}\n}}\n"
    )
}

/// Opens the sockets, those of both families with the same port.
fn open(v6: bool) -> io::Result<Isolated> {
    let mut ips: Vec<IpAddr> = vec![Ipv4Addr::LOCALHOST.into()];
    if v6 {
        ips.push(Ipv6Addr::LOCALHOST.into());
    }
    let mut isolated = Isolated {
        listeners: Vec::new(),
        name_servers: Vec::new(),
    };
    let mut port = 0;
    for ip in ips {
        let at = SocketAddr::new(ip, port);
        let socket = Socket::new(Domain::for_address(at), Type::STREAM, Some(Protocol::TCP))?;
        socket.bind(&at.into())?;
        socket.listen(BACKLOG)?;
        let listener = TcpListener::from(socket);
        // The namespace is new, so that the port is free in the other family, too.
        port = listener.local_addr()?.port();
        isolated.listeners.push(listener);
        isolated.name_servers.push(UdpSocket::bind((ip, DNS))?);
    }
    Ok(isolated)
}

/// Makes names be looked up at our name server only.
fn replace_files() -> Result<(), IsolateError> {
    // Mounts of the host still appear in the namespace, and ours do not appear outside.
    let flags = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    let failed = |path: &str| {
        let path = PathBuf::from(path);
        move |source: rustix::io::Errno| IsolateError::Mount {
            path,
            source: source.into(),
        }
    };
    mount_change("/", flags).map_err(failed("/"))?;
    replace("/etc/resolv.conf", |_| RESOLV_CONF.to_owned())?;
    replace("/etc/nsswitch.conf", |text| without_other_resolvers(&text))?;
    if let Some(cache) = CACHES.into_iter().find(|path| Path::new(path).exists()) {
        mount_bind("/dev/null", cache).map_err(failed(cache))?;
    }
    Ok(())
}

/// The text of nsswitch.conf(5) with a list of sources for hosts that asks no program outside.
fn without_other_resolvers(text: &str) -> String {
    let other = |line: &&str| !line.trim_start().starts_with("hosts:");
    let kept: Vec<&str> = text.lines().filter(other).collect();
    format!("{}\nhosts: files dns\n", kept.join("\n"))
}

/// Mounts a changed text over a file, if the file exists.
fn replace(path: &str, change: impl FnOnce(String) -> String) -> Result<(), IsolateError> {
    let failed = |source| IsolateError::Mount {
        path: path.into(),
        source,
    };
    let text = match fs::read(path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(failed(e)),
    };
    let random = random_bytes().map_err(|e| failed(e.into()))?;
    let random = u64::from_ne_bytes(random);
    let temporary = std::env::temp_dir().join(format!("spindle-exec-{random:016x}"));
    let mounted =
        write_new(&temporary, &change(text)).and_then(|()| Ok(mount_bind(&temporary, path)?));
    // The mount keeps the file.
    let removed = fs::remove_file(&temporary);
    mounted.and(removed).map_err(failed)
}

/// Writes a file that must not exist, and that the program may read as any user.
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(text.as_bytes())?;
    file.set_permissions(Permissions::from_mode(0o644))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_looked_up_in_files_and_at_name_servers_only() {
        let text = "passwd: files\nhosts: files myhostname resolve [!UNAVAIL=return] dns\nnetworks: files\n";
        let wanted = "passwd: files\nnetworks: files\nhosts: files dns\n";
        assert_eq!(without_other_resolvers(text), wanted);
    }

    #[test]
    fn rules_redirect_to_the_port_and_except_the_programs_own_addresses() {
        let text = rules(40_000);
        assert!(
            text.contains("meta l4proto tcp redirect to :40000\n"),
            "{text}"
        );
        assert_eq!(
            text.matches("127.0.0.0/8, 198.18.0.1 }").count(),
            2,
            "{text}"
        );
        let own = "{ ::1, fd53:7069:6e64:6e61::1 }";
        assert_eq!(text.matches(own).count(), 2, "{text}");
    }
}

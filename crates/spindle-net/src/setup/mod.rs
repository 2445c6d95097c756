//! What the system needs around a TUN device: routes of Spindle's addresses to it, routes for each
//! local address of a client, a DNAT rule; all undone when the guard is dropped.
//!
//! Spindle's addresses are routed to the device and never assigned to the host: the host's own TCP
//! would answer their segments with RST.

mod command;
mod nat;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use command::ip;

use crate::error::NetError;
use crate::tun::{TunLink, TunOptions};

/// Priority of our rules, before the main table (32766).
const RULE_PRIORITY: u32 = 7_900;
/// Number of the first routing table for source-specific routes; as many follow as addresses.
const FIRST_TABLE: u32 = 7_900;

/// Why the system could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// A program could not be started.
    #[error("cannot run `{command}`: {source}; install iproute2 and nftables")]
    Start {
        /// The command line.
        command: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A program failed.
    #[error("`{command}` failed: {said}{hint}")]
    Failed {
        /// The command line.
        command: String,
        /// Its standard error.
        said: String,
        /// What to do about it.
        hint: &'static str,
    },
    /// The device is there and in use by another process.
    #[error("the device {0} is in use by another process; stop it or choose another name")]
    InUse(String),
    /// A name the system would not take.
    #[error(
        "{0:?} cannot be a device's name: 1 to 15 letters, digits, `-`, `_` or `.` are accepted"
    )]
    Name(String),
    /// Two addresses that belong together are of different families.
    #[error("{0} and {1} are not of the same address family")]
    Families(IpAddr, IpAddr),
    /// The device could not be opened.
    #[error(transparent)]
    Net(#[from] NetError),
}

/// A destination address rewritten on its way in: who connects to `from` reaches Spindle at `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dnat {
    /// Address and port of the host.
    pub from: SocketAddr,
    /// Spindle's.
    pub to: SocketAddr,
}

/// A local address of a client and the way its packets are to take, one for each path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceRoute {
    /// Spindle's local address.
    pub source: IpAddr,
    /// The device its packets leave by.
    pub device: String,
    /// The next hop, unless the destination is on the device's own network.
    pub via: Option<IpAddr>,
}

/// What is to be set up.
#[derive(Clone, Debug)]
pub struct SetupOptions {
    /// The device.
    pub tun: TunOptions,
    /// Spindle's own addresses.
    pub addresses: Vec<IpAddr>,
    /// Rewritten destinations.
    pub dnat: Vec<Dnat>,
    /// Ways out by source address; the others follow the system's routes.
    pub source_routes: Vec<SourceRoute>,
    /// Let the system forward packets between the device and others (net.ipv4.ip_forward and its
    /// IPv6 counterpart), as needed by clients on other machines; put back when undone.
    pub forwarding: bool,
}

/// What undoes the set-up when dropped. It does not hold the device: that goes with its link.
#[derive(Debug)]
pub struct SetupGuard {
    /// Command lines for `ip`, to be run in reverse.
    undo: Vec<String>,
    table: Option<String>,
    /// Files of /proc/sys and what stood in them.
    switches: Vec<(PathBuf, String)>,
}

/// Opens the device and sets everything up. Leftovers of a run with the same device name that ended
/// without undoing its own are removed first. On an error all that was done is undone.
///
/// # Errors
/// [`SetupError`], naming the command that failed.
pub fn setup(options: &SetupOptions) -> Result<(TunLink, SetupGuard), SetupError> {
    check(options)?;
    let name = &options.tun.name;
    remove_leftovers(name)?;
    let link = TunLink::open(&options.tun)?;
    let mut guard = SetupGuard {
        undo: Vec::new(),
        table: None,
        switches: Vec::new(),
    };
    ip(&format!("link set dev {name} up"))?;
    for addr in &options.addresses {
        guard.route(&format!("{addr}/{} dev {name}", prefix(*addr)), *addr)?;
    }
    for (i, route) in options.source_routes.iter().enumerate() {
        guard.source_route(FIRST_TABLE + i as u32, route)?;
    }
    if options.forwarding {
        guard.forward(options)?;
    }
    if !options.dnat.is_empty() {
        guard.table = Some(nat::install(name, &options.dnat)?);
    }
    Ok((link, guard))
}

fn check(options: &SetupOptions) -> Result<(), SetupError> {
    let name = &options.tun.name;
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    // The kernel's limit is IFNAMSIZ, 16 with the final zero.
    if name.is_empty()
        || name.len() > 15
        || !name.chars().all(allowed)
        || name == "."
        || name == ".."
    {
        return Err(SetupError::Name(name.clone()));
    }
    for d in &options.dnat {
        if d.from.is_ipv4() != d.to.is_ipv4() {
            return Err(SetupError::Families(d.from.ip(), d.to.ip()));
        }
    }
    for r in &options.source_routes {
        if let Some(via) = r.via.filter(|v| v.is_ipv4() != r.source.is_ipv4()) {
            return Err(SetupError::Families(r.source, via));
        }
    }
    Ok(())
}

/// Removes what a run that was killed left under this name: a persistent device that nobody holds,
/// our rules for it, our nftables table.
fn remove_leftovers(name: &str) -> Result<(), SetupError> {
    if let Ok(text) = ip(&format!("-d link show dev {name}")) {
        // One that is not persistent lives only while a process holds it; a persistent one has a
        // carrier while it does, which shows once it is up.
        let persistent = text.contains("persist on");
        if !persistent || held(name)? {
            return Err(SetupError::InUse(name.to_owned()));
        }
        ip(&format!("link del dev {name}"))?;
    }
    nat::remove(name);
    Ok(())
}

/// Whether a process has the device open.
fn held(name: &str) -> Result<bool, SetupError> {
    ip(&format!("link set dev {name} up"))?;
    Ok(ip(&format!("link show dev {name}"))?.contains("LOWER_UP"))
}

impl SetupGuard {
    fn route(&mut self, what: &str, addr: IpAddr) -> Result<(), SetupError> {
        let family = family(addr);
        ip(&format!("{family} route replace {what}"))?;
        self.undo.push(format!("{family} route del {what}"));
        Ok(())
    }

    fn source_route(&mut self, table: u32, r: &SourceRoute) -> Result<(), SetupError> {
        let family = family(r.source);
        let via = r.via.map_or(String::new(), |v| format!("via {v} "));
        let device = &r.device;
        self.route(
            &format!("default {via}dev {device} table {table}"),
            r.source,
        )?;
        let rule = format!(
            "from {}/{} lookup {table} priority {RULE_PRIORITY}",
            r.source,
            prefix(r.source)
        );
        // That of a run that was killed would stay for ever.
        while ip(&format!("{family} rule del {rule}")).is_ok() {}
        ip(&format!("{family} rule add {rule}"))?;
        self.undo.push(format!("{family} rule del {rule}"));
        Ok(())
    }

    fn forward(&mut self, options: &SetupOptions) -> Result<(), SetupError> {
        let v4 = options.addresses.iter().any(IpAddr::is_ipv4);
        let v6 = options.addresses.iter().any(IpAddr::is_ipv6);
        let switches = [
            (v4, "/proc/sys/net/ipv4/ip_forward"),
            (v6, "/proc/sys/net/ipv6/conf/all/forwarding"),
        ];
        for (_, path) in switches.into_iter().filter(|(wanted, _)| *wanted) {
            let failed = |e: std::io::Error| SetupError::Failed {
                command: format!("echo 1 > {path}"),
                said: e.to_string(),
                hint: "; forwarding has to be switched on by hand",
            };
            let before = std::fs::read_to_string(path).map_err(failed)?;
            if before.trim() != "1" {
                std::fs::write(path, "1").map_err(failed)?;
                self.switches.push((path.into(), before));
            }
        }
        Ok(())
    }

    /// Undoes everything; also done by dropping it.
    pub fn undo(&mut self) {
        if let Some(name) = self.table.take() {
            nat::remove(&name);
        }
        for line in self.undo.drain(..).rev() {
            // Routes go by themselves with their device.
            if let Err(e) = ip(&line) {
                tracing::debug!(error = %e, "nothing left to undo");
            }
        }
        for (path, before) in self.switches.drain(..).rev() {
            if let Err(e) = std::fs::write(&path, before) {
                tracing::warn!(path = %path.display(), error = %e, "cannot put back");
            }
        }
    }
}

impl Drop for SetupGuard {
    fn drop(&mut self) {
        self.undo();
    }
}

fn family(addr: IpAddr) -> &'static str {
    if addr.is_ipv4() { "-4" } else { "-6" }
}

fn prefix(addr: IpAddr) -> u8 {
    if addr.is_ipv4() { 32 } else { 128 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(name: &str) -> SetupOptions {
        SetupOptions {
            tun: TunOptions::new(name),
            addresses: Vec::new(),
            dnat: Vec::new(),
            source_routes: Vec::new(),
            forwarding: false,
        }
    }

    #[test]
    fn bad_names_and_mixed_families_are_refused_before_anything_is_done() {
        for bad in ["", "a name", "sixteen-letters-", "..", "x;reboot"] {
            assert!(matches!(check(&options(bad)), Err(SetupError::Name(_))));
        }
        let mut mixed = options("spindle0");
        assert!(check(&mixed).is_ok());
        mixed.dnat.push(Dnat {
            from: "192.0.2.1:80".parse().expect("an address"),
            to: "[2001:db8::1]:80".parse().expect("an address"),
        });
        assert!(matches!(check(&mixed), Err(SetupError::Families(..))));
    }
}

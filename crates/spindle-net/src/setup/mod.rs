//! System configuration for a TUN device: routes of Spindle's addresses to the device, routes for each local
//! address of a client, and rules that rewrite addresses. All of it is undone when the guard is dropped.
//!
//! Spindle's addresses are routed to the device and never assigned to the host. Otherwise the host's own TCP
//! would answer their segments with RST.

mod command;
mod entries;
mod handover;
mod isolate;
mod nat;
mod redirect;
mod reserve;

use std::net::{IpAddr, SocketAddr};

use entries::{Device, Entry};
pub use handover::{Ownership, SetupState, Share, adopt};
pub use isolate::{IsolateError, Isolated, isolate};
pub(crate) use redirect::Listening;
pub use redirect::{
    IpNet, OWN_MARK, RedirectError, RedirectOptions, Redirected, Redirection, remove_redirection,
};
use serde::{Deserialize, Serialize};
use socket2::Socket;

use crate::error::NetError;
use crate::tun::{TunLink, TunOptions};

/// Priority of Spindle's rules, before the main table (32766).
const RULE_PRIORITY: u32 = 7_900;
/// Routing tables for source-specific routes, one for each address. Each program takes free tables.
const TABLES: std::ops::Range<u32> = 7_900..8_156;

/// What to do about a lack of rights.
const NEEDS_ADMIN: &str = "; it takes CAP_NET_ADMIN: run it as root or in a user namespace";

/// Why the system could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// A program could not be started.
    #[error("cannot run `{command}`: {source}; install nftables")]
    Start {
        /// The command line.
        command: String,
        /// The system's error.
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
    /// The system refused something.
    #[error("cannot {what}: {source}{hint}")]
    System {
        /// What was to be done.
        what: String,
        /// The system's error.
        source: std::io::Error,
        /// What to do about it.
        hint: &'static str,
    },
    /// The device exists and is in use by another process.
    #[error("the device {0} is in use by another process; stop it or choose another name")]
    InUse(String),
    /// An address that must be rewritten is in use by another program.
    #[error(
        "{0} is in use by another gateway or service (or was within the last minute: TIME_WAIT); stop \
         it or choose another address"
    )]
    AddressInUse(SocketAddr),
    /// An address that must be rewritten could not be reserved.
    #[error("{address} cannot be reserved: {source}")]
    Reserve {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: std::io::Error,
    },
    /// An address is already routed to another device.
    #[error(
        "{address} cannot be routed to {device}, since it is routed to {to} already; stop the gateway or \
         connect that has it or choose another address, or with --dnat, which derives inner addresses from \
         the device's name, another name"
    )]
    Routed {
        /// The address, which belongs to Spindle.
        address: IpAddr,
        /// The device that the address should be routed to.
        device: String,
        /// The device of the existing route.
        to: String,
    },
    /// All routing tables for source-specific routes are in use.
    #[error(
        "all routing tables from {} to {} are in use; flush those that no running connect uses, with \
         their rules of priority {RULE_PRIORITY} (`ip rule`)",
        TABLES.start,
        TABLES.end - 1
    )]
    NoTable,
    /// A name that the system would not accept.
    #[error(
        "{0:?} cannot be a device's name: 1 to 15 letters, digits, `-`, `_` or `.` are accepted"
    )]
    Name(String),
    /// Two addresses that belong together are of different families.
    #[error("{0} and {1} are not of the same address family")]
    Families(IpAddr, IpAddr),
    /// Two outer addresses map to the same inner address.
    #[error(
        "two addresses are to be rewritten to {0}, so that replies from there would have no one \
         source; give each its own"
    )]
    Ambiguous(SocketAddr),
    /// The device could not be opened.
    #[error(transparent)]
    Net(#[from] NetError),
}

/// An address that is rewritten in transit. Clients that connect to `from` reach Spindle at `to`, and packets
/// that Spindle sends from `to` leave the host with the source `from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dnat {
    /// Outer address and port, which belong to the host.
    pub from: SocketAddr,
    /// Inner address and port. They belong to Spindle and to one outer address only. No other device carries
    /// packets of the inner address.
    pub to: SocketAddr,
}

/// A local address of a client and the route of its packets, one for each path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceRoute {
    /// Spindle's local address.
    pub source: IpAddr,
    /// The device by which its packets are sent.
    pub device: String,
    /// The next hop, unless the destination is on the device's own network.
    pub via: Option<IpAddr>,
}

/// What must be set up.
#[derive(Clone, Debug)]
pub struct SetupOptions {
    /// The device.
    pub tun: TunOptions,
    /// Spindle's own addresses.
    pub addresses: Vec<IpAddr>,
    /// Rewritten addresses. Each is reserved, so that another set-up with the same address fails.
    pub dnat: Vec<Dnat>,
    /// Routes by source address. Other packets follow the system's routes.
    pub source_routes: Vec<SourceRoute>,
    /// Whether the system must forward packets between the device and other devices (net.ipv4.ip_forward and
    /// its IPv6 counterpart), which clients on other machines need. The previous setting is restored when the
    /// set-up is undone.
    pub forwarding: bool,
}

/// The families for which the set-up has switched the system's forwarding on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Forwarding {
    v4: bool,
    v6: bool,
}

impl Forwarding {
    /// The switches, which hold 0 or 1 (Documentation/networking/ip-sysctl.rst of Linux).
    fn paths(self) -> impl Iterator<Item = &'static str> {
        let switches = [
            (self.v4, "/proc/sys/net/ipv4/ip_forward"),
            (self.v6, "/proc/sys/net/ipv6/conf/all/forwarding"),
        ];
        switches
            .into_iter()
            .filter_map(|(on, path)| on.then_some(path))
    }
}

/// Undoes the set-up when dropped. It does not hold the device, which is closed with its link.
#[derive(Debug)]
pub struct SetupGuard {
    /// What was added, and is removed in reverse order.
    undo: Vec<Entry>,
    table: Option<String>,
    /// Sockets that keep other programs from the rewritten addresses.
    reserved: Vec<Socket>,
    /// What was switched on.
    forwarding: Forwarding,
    /// Whether this process undoes it.
    ownership: Ownership,
    state: SetupState,
}

/// Opens the device and sets everything up. If an earlier run with the same device name ended without undoing
/// its set-up, what it left is removed first. After an error, everything done so far is undone.
///
/// # Errors
/// [`SetupError`], which names what failed.
pub fn setup(options: &SetupOptions) -> Result<(TunLink, SetupGuard), SetupError> {
    check(options)?;
    let name = &options.tun.name;
    let reserved = reserve::reserve(options.dnat.iter().map(|d| d.from))?;
    remove_device(name)?;
    let link = TunLink::open(&options.tun)?;
    // No other process holds the device, so no process needs the table.
    nat::remove(name);
    let mut guard = SetupGuard {
        undo: Vec::new(),
        table: None,
        reserved,
        forwarding: Forwarding::default(),
        ownership: Ownership::new(false),
        state: SetupState::of(options),
    };
    Device::enable(name)?;
    for addr in &options.addresses {
        guard.route(name, *addr)?;
    }
    for route in &options.source_routes {
        guard.source_route(route)?;
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
        if options
            .dnat
            .iter()
            .any(|o| o.to == d.to && o.from != d.from)
        {
            return Err(SetupError::Ambiguous(d.to));
        }
    }
    for r in &options.source_routes {
        if let Some(via) = r.via.filter(|v| v.is_ipv4() != r.source.is_ipv4()) {
            return Err(SetupError::Families(r.source, via));
        }
    }
    Ok(())
}

/// Removes a persistent device of this name that no process holds, which a killed run may have left.
fn remove_device(name: &str) -> Result<(), SetupError> {
    let Some(device) = Device::find(name)? else {
        return Ok(());
    };
    // A device that is not persistent exists only while a process holds it. A persistent device has a
    // carrier while a process holds it, which is visible once the device is up.
    if !device.persistent || held(name)? {
        return Err(SetupError::InUse(name.to_owned()));
    }
    device.delete(name)
}

/// Whether a process has the device open.
fn held(name: &str) -> Result<bool, SetupError> {
    Device::enable(name)?;
    Ok(Device::find(name)?.is_some_and(|device| device.carrier))
}

impl SetupGuard {
    /// Adds an entry that must not exist yet. Returns whether it was added.
    fn add(&mut self, entry: Entry) -> Result<bool, SetupError> {
        let added = entry.add()?;
        if added {
            self.undo.push(entry);
        }
        Ok(added)
    }

    /// Routes one of Spindle's addresses to the device.
    fn route(&mut self, device: &str, addr: IpAddr) -> Result<(), SetupError> {
        let route = Entry::Host {
            to: addr,
            device: device.to_owned(),
        };
        if self.add(route)? {
            return Ok(());
        }
        Err(SetupError::Routed {
            address: addr,
            device: device.to_owned(),
            to: entries::devices_of(addr)?.join(", "),
        })
    }

    /// Routes packets with this source by their device, in a table that no other program uses.
    fn source_route(&mut self, r: &SourceRoute) -> Result<(), SetupError> {
        let v4 = r.source.is_ipv4();
        let rules = entries::rules(v4)?;
        // The address is routed to our device, so an existing rule for it was left by a run that was killed.
        let left = rules.iter().filter(|(from, _)| *from == Some(r.source));
        for (_, table) in left.clone() {
            let rule = Entry::Rule {
                from: r.source,
                table: *table,
            };
            rule.remove()?;
            entries::flush(v4, *table)?;
        }
        let left: Vec<u32> = left.map(|(_, table)| *table).collect();
        let named = rules.iter().map(|(_, table)| *table);
        let named: Vec<u32> = named.filter(|t| !left.contains(t)).collect();
        let table = self.free_table(r, &named)?;
        let rule = Entry::Rule {
            from: r.source,
            table,
        };
        // There is no such rule any more.
        self.add(rule)?;
        Ok(())
    }

    /// The first table that no rule names and that has no default route. The client's default route is added to
    /// it.
    fn free_table(&mut self, r: &SourceRoute, named: &[u32]) -> Result<u32, SetupError> {
        for table in TABLES.filter(|t| !named.contains(t)) {
            let route = Entry::Default {
                v4: r.source.is_ipv4(),
                via: r.via,
                device: r.device.clone(),
                table,
            };
            if self.add(route)? {
                return Ok(table);
            }
        }
        Err(SetupError::NoTable)
    }

    fn forward(&mut self, options: &SetupOptions) -> Result<(), SetupError> {
        for v4 in [true, false] {
            if !options.addresses.iter().any(|a| a.is_ipv4() == v4) {
                continue;
            }
            let family = Forwarding { v4, v6: !v4 };
            let Some(path) = family.paths().next() else {
                continue;
            };
            let failed = |source| SetupError::System {
                what: format!("write 1 to {path}"),
                source,
                hint: "; forwarding has to be switched on by hand",
            };
            let before = std::fs::read_to_string(path).map_err(failed)?;
            if before.trim() == "0" {
                std::fs::write(path, "1").map_err(failed)?;
                self.forwarding.v4 |= v4;
                self.forwarding.v6 |= !v4;
            }
        }
        Ok(())
    }

    /// Undoes everything, unless another process does. Dropping the guard does this, too.
    pub fn undo(&mut self) {
        if !self.ownership.owns() {
            return;
        }
        if let Some(name) = self.table.take() {
            nat::remove(&name);
        }
        self.reserved.clear();
        for entry in self.undo.drain(..).rev() {
            // Routes are removed together with their device.
            if let Err(e) = entry.remove() {
                tracing::debug!(error = %e, "nothing left to undo");
            }
        }
        for path in std::mem::take(&mut self.forwarding).paths() {
            if let Err(error) = std::fs::write(path, "0") {
                tracing::warn!(path, %error, "cannot put back");
            }
        }
    }
}

impl Drop for SetupGuard {
    fn drop(&mut self) {
        self.undo();
    }
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
    fn bad_names_and_mixed_families_are_refused_by_the_check() {
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

    #[test]
    fn two_outer_addresses_with_one_inner_address_are_refused() {
        let mut options = options("spindle0");
        let inner = "10.7.0.1:80".parse().expect("an address");
        for (from, fits) in [("192.0.2.1:80", true), ("192.0.2.2:80", false)] {
            let from = from.parse().expect("an address");
            options.dnat.push(Dnat { from, to: inner });
            let checked = check(&options);
            assert_eq!(checked.is_ok(), fits, "{checked:?}");
        }
    }
}

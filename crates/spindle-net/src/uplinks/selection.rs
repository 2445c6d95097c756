//! Which addresses are uplinks, and which of them are used.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use wildmatch::WildMatch;

use super::allowance::Allowance;
use super::event::{Address, Link, Route};
use super::table::Table;

/// A pattern of device names: `*` stands for any text, `?` for one character.
#[derive(Clone, Debug, PartialEq)]
pub struct DevicePattern(WildMatch);

impl DevicePattern {
    /// A pattern, or the name of one device.
    pub fn new(text: &str) -> Self {
        Self(WildMatch::new(text))
    }

    /// Whether a device's name matches.
    pub fn matches(&self, device: &str) -> bool {
        self.0.matches(device)
    }
}

/// An address that was named, with the device to which its sockets must be bound, if one was named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedAddress {
    /// The address.
    pub addr: IpAddr,
    /// The device.
    pub device: Option<String>,
}

/// Which addresses of this host are used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selection {
    /// Addresses of all devices through which a route leads to a gateway: for each device the best IPv4 and the best
    /// IPv6 address.
    pub automatic: bool,
    /// Devices all of whose IPv4 addresses, and whose best IPv6 address, are used.
    pub devices: Vec<DevicePattern>,
    /// Addresses that are used as soon as the host has them, whatever its routes.
    pub addresses: Vec<NamedAddress>,
    /// Devices whose subflows are backups.
    pub backup_devices: Vec<DevicePattern>,
    /// Addresses whose subflows are backups.
    pub backup_addresses: Vec<IpAddr>,
    /// Devices that are never used, by their names: Spindle's own.
    pub without: Vec<String>,
    /// Devices that may carry so many bytes. An uplink is not used once its device has carried them.
    pub allowances: Vec<Allowance>,
    /// The file in which their counts are stored. Without it they are lost when the program ends.
    pub allowance_file: Option<PathBuf>,
}

/// Why an uplink is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unused {
    /// This host does not have the address.
    Absent,
    /// The device is disabled.
    Disabled,
    /// The device has no carrier.
    NoCarrier,
    /// Duplicate address detection is not finished, or has failed.
    Tentative,
    /// The address is deprecated.
    Deprecated,
    /// No route leads to the gateway through the device.
    NoRoute,
    /// Another address of the device is used.
    OtherAddress,
    /// Another device has the same address.
    SameAddress,
    /// The device has carried as many bytes as its [`Allowance`](super::Allowance) has.
    UsedUp,
}

impl fmt::Display for Unused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absent => "this host does not have the address",
            Self::Disabled => "the device is disabled",
            Self::NoCarrier => "no carrier",
            Self::Tentative => "duplicate address detection has not succeeded",
            Self::Deprecated => "the address is deprecated",
            Self::NoRoute => "no route to the gateway through this device",
            Self::OtherAddress => "another address of the device is used",
            Self::SameAddress => "another device has the same address",
            Self::UsedUp => "its allowance is used up",
        })
    }
}

/// Whether an uplink is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UplinkState {
    /// Connections use it.
    Used,
    /// Connections use it when no other uplink is left.
    Backup,
    /// Connections do not use it.
    Down(Unused),
}

/// A device's address, from which connections may lead to the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uplink {
    /// The device. Empty if no device has the address.
    pub device: String,
    /// The address.
    pub addr: IpAddr,
    /// Whether the device can carry packets.
    pub carrier: bool,
    /// Whether a route leads to the gateway through the device.
    pub route: bool,
    /// The next hop of that route. `None` if there is no route, or if the gateway is reached directly.
    pub next_hop: Option<IpAddr>,
    /// Whether it is used.
    pub state: UplinkState,
    /// Sockets are bound to the device.
    pub(super) bound: bool,
    /// The device was named together with the address.
    pub(super) required: bool,
}

impl Uplink {
    /// An uplink of that device, for tests.
    #[cfg(test)]
    pub(crate) fn example(device: &str, state: UplinkState) -> Self {
        Self {
            device: device.to_owned(),
            addr: IpAddr::from([192, 0, 2, 1]),
            carrier: true,
            route: true,
            next_hop: None,
            state,
            bound: true,
            required: false,
        }
    }

    /// Whether connections use it, be it as a backup.
    pub fn is_up(&self) -> bool {
        !matches!(self.state, UplinkState::Down(_))
    }
}

/// A difference between two lists of uplinks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    New(Uplink),
    Gone(Uplink),
    /// The uplink before and after.
    Changed(Uplink, Uplink),
}

/// What has changed. An uplink is identified by its device and address.
pub(super) fn changes(before: &[Uplink], after: &[Uplink]) -> Vec<Change> {
    let of = |list: &[Uplink], u: &Uplink| {
        let same = |o: &&Uplink| o.device == u.device && o.addr == u.addr;
        list.iter().find(same).cloned()
    };
    let gone = before.iter().filter(|u| of(after, u).is_none());
    let gone = gone.cloned().map(Change::Gone);
    let rest = after.iter().filter_map(|u| match of(before, u) {
        None => Some(Change::New(u.clone())),
        Some(b) if b != *u => Some(Change::Changed(b, u.clone())),
        Some(_) => None,
    });
    gone.chain(rest).collect()
}

/// An address of the table that the selection concerns.
struct Candidate<'a> {
    link: &'a Link,
    address: &'a Address,
    route: Option<&'a Route>,
    /// Its place among the named addresses.
    named: Option<usize>,
    /// Its device was named.
    device_named: bool,
    unused: Option<Unused>,
}

impl Selection {
    /// The uplinks, those that are used first, in the order in which connections should try them: named addresses in
    /// their order, then by the metric of their routes; backups last.
    /// Devices that are `used_up` are not used.
    pub(super) fn uplinks(&self, table: &Table, used_up: impl Fn(&str) -> bool) -> Vec<Uplink> {
        let all = table.addresses();
        let mut list: Vec<Candidate<'_>> = all
            .filter_map(|(link, address)| self.candidate(table, link, address))
            .collect();
        for candidate in list.iter_mut().filter(|c| used_up(&c.link.name)) {
            candidate.unused = candidate.unused.or(Some(Unused::UsedUp));
        }
        keep_best(table, &mut list);
        keep_one_device(&mut list);
        let mut uplinks: Vec<(_, Uplink)> = list
            .iter()
            .map(|c| {
                let metric = c.route.map_or(u32::MAX, |r| r.metric);
                let uplink = self.uplink(c);
                (
                    (rank(&uplink), c.named.unwrap_or(usize::MAX), metric),
                    uplink,
                )
            })
            .collect();
        for (i, named) in self.addresses.iter().enumerate() {
            if !list.iter().any(|c| c.named == Some(i)) {
                let uplink = self.without_device(named);
                uplinks.push(((rank(&uplink), i, u32::MAX), uplink));
            }
        }
        uplinks.sort_by(|(a, x), (b, y)| {
            let key = |u: &Uplink| (u.device.clone(), u.addr);
            a.cmp(b).then_with(|| key(x).cmp(&key(y)))
        });
        uplinks.into_iter().map(|(_, u)| u).collect()
    }

    fn candidate<'a>(
        &self,
        table: &'a Table,
        link: &'a Link,
        address: &'a Address,
    ) -> Option<Candidate<'a>> {
        let addr = address.addr;
        let fits =
            |n: &NamedAddress| n.addr == addr && n.device.as_ref().is_none_or(|d| *d == link.name);
        let named = self.addresses.iter().position(fits);
        let device_named = self.devices.iter().any(|d| d.matches(&link.name));
        let route = table.route(link.index, addr.is_ipv4());
        if named.is_none() {
            let excluded = link.loopback || self.without.contains(&link.name);
            // Bridges for virtual machines and containers lead to no gateway.
            let internal = link.bridge && route.is_none() && !device_named;
            let concerned = self.automatic || device_named;
            if !concerned || excluded || internal || !address.global {
                return None;
            }
        }
        let unused = match () {
            () if !link.up => Some(Unused::Disabled),
            () if !link.carrier => Some(Unused::NoCarrier),
            () if !address.ready => Some(Unused::Tentative),
            () if named.is_some() => None,
            () if address.deprecated => Some(Unused::Deprecated),
            () if route.is_none() => Some(Unused::NoRoute),
            () => None,
        };
        Some(Candidate {
            link,
            address,
            route,
            named,
            device_named,
            unused,
        })
    }

    fn uplink(&self, c: &Candidate<'_>) -> Uplink {
        let (device, addr) = (c.link.name.clone(), c.address.addr);
        let required = c.named.is_some_and(|i| self.addresses[i].device.is_some());
        Uplink {
            state: match c.unused {
                Some(why) => UplinkState::Down(why),
                None if self.is_backup(&device, addr) => UplinkState::Backup,
                None => UplinkState::Used,
            },
            addr,
            carrier: c.link.carrier,
            route: c.route.is_some(),
            next_hop: c.route.and_then(|r| r.via),
            bound: c.named.is_none() || required,
            required,
            device,
        }
    }

    /// A named address that no device has. All addresses of 127.0.0.0/8 are this host's (RFC 1122, section 3.2.1.3).
    fn without_device(&self, named: &NamedAddress) -> Uplink {
        let here = named.addr.is_loopback() && named.device.is_none();
        let device = named.device.clone().unwrap_or_default();
        Uplink {
            state: match here {
                false => UplinkState::Down(Unused::Absent),
                true if self.is_backup(&device, named.addr) => UplinkState::Backup,
                true => UplinkState::Used,
            },
            device,
            addr: named.addr,
            carrier: here,
            route: false,
            next_hop: None,
            bound: false,
            required: false,
        }
    }

    fn is_backup(&self, device: &str, addr: IpAddr) -> bool {
        let mut devices = self.backup_devices.iter();
        self.backup_addresses.contains(&addr) || devices.any(|d| d.matches(device))
    }
}

fn rank(uplink: &Uplink) -> u8 {
    match uplink.state {
        UplinkState::Used => 0,
        UplinkState::Backup => 1,
        UplinkState::Down(_) => 2,
    }
}

/// Of the addresses of each device and family only the best is used. Of the IPv4 addresses of a device that was named,
/// all are used. Addresses that were named themselves are always used.
fn keep_best(table: &Table, list: &mut [Candidate<'_>]) {
    let unique_local = |a: IpAddr| matches!(a, IpAddr::V6(a) if a.is_unique_local());
    let gateway_is_local = table.gateways().iter().copied().any(unique_local);
    // The best IPv6 address is of the gateway's scope, if there is one (RFC 6724, section 5, rules 2 and 6), and a
    // temporary one (rule 7).
    let worth = |c: &Candidate<'_>| {
        let a = c.address;
        let scope = unique_local(a.addr) == gateway_is_local;
        let preferred = a.temporary == a.addr.is_ipv6();
        (a.addr.is_ipv4() || scope, preferred, Reverse(a.addr))
    };
    for i in 0..list.len() {
        let c = &list[i];
        let all = c.named.is_some() || c.device_named && c.address.addr.is_ipv4();
        if c.unused.is_some() || all {
            continue;
        }
        let rival = |o: &Candidate<'_>| {
            o.unused.is_none()
                && o.named.is_none()
                && o.link.index == c.link.index
                && o.address.addr.is_ipv4() == c.address.addr.is_ipv4()
                && worth(o) > worth(c)
        };
        if list.iter().any(rival) {
            list[i].unused = Some(Unused::OtherAddress);
        }
    }
}

/// A connection knows a path by its addresses, so that an address can be used on one device only.
fn keep_one_device(list: &mut [Candidate<'_>]) {
    let mut used = HashSet::new();
    for c in list.iter_mut().filter(|c| c.unused.is_none()) {
        if !used.insert(c.address.addr) {
            c.unused = Some(Unused::SameAddress);
        }
    }
}

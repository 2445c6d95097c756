//! The routes and rules of a set-up, and its devices, by rtnetlink(7).

use std::fmt;
use std::io;
use std::net::IpAddr;

use netlink_packet_core::{DefaultNla, NLM_F_CREATE, NLM_F_EXCL, NetlinkPayload, Nla};
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::link::{
    InfoData, InfoTun, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use nix::net::if_::if_nametoindex;

use super::{NEEDS_ADMIN, RULE_PRIORITY, SetupError, TABLES};
use crate::netlink::{change, dump, open};

/// The table of the host's own addresses (linux/rtnetlink.h: `RT_TABLE_LOCAL`).
const LOCAL_TABLE: u8 = 255;
/// Whether a TUN device exists without a process that holds it (linux/if_link.h: `IFLA_TUN_PERSIST`).
const PERSIST: u16 = 6;
/// How often a list is read again because the kernel's state changed in the meantime.
const ATTEMPTS: usize = 5;

/// What a set-up adds to the system's routes and rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// Packets to one of Spindle's addresses go to its device.
    Host {
        /// The address.
        to: IpAddr,
        /// The device.
        device: String,
    },
    /// Packets that follow the table go to this device.
    Default {
        /// Whether they are of IPv4.
        v4: bool,
        /// The next hop, unless destinations are on the device's own network.
        via: Option<IpAddr>,
        /// The device.
        device: String,
        /// The table.
        table: u32,
    },
    /// Packets from one of Spindle's addresses follow the table.
    Rule {
        /// The address.
        from: IpAddr,
        /// The table.
        table: u32,
    },
}

impl fmt::Display for Entry {
    /// Writes the entry as ip(8) does.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host { to, device } => write!(f, "route {to}/{} dev {device}", bits(*to)),
            Self::Default {
                via, device, table, ..
            } => {
                f.write_str("route default")?;
                if let Some(via) = via {
                    write!(f, " via {via}")?;
                }
                write!(f, " dev {device} table {table}")
            }
            Self::Rule { from, table } => write!(
                f,
                "rule from {from}/{} lookup {table} priority {RULE_PRIORITY}",
                bits(*from)
            ),
        }
    }
}

impl Entry {
    /// Adds the entry. Returns false if there is one already.
    ///
    /// # Errors
    /// [`SetupError::System`].
    pub(super) fn add(&self) -> Result<bool, SetupError> {
        let added = self.message().and_then(|message| {
            let request = match message {
                Message::Route(m) => RouteNetlinkMessage::NewRoute(m),
                Message::Rule(m) => RouteNetlinkMessage::NewRule(m),
            };
            change(request, NLM_F_CREATE | NLM_F_EXCL)
        });
        match added {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(e) => Err(refused(format!("add the {self}"), e)),
        }
    }

    /// Removes the entry.
    ///
    /// # Errors
    /// [`SetupError::System`].
    pub(super) fn remove(&self) -> Result<(), SetupError> {
        let removed = self.message().and_then(|message| {
            let request = match message {
                Message::Route(m) => RouteNetlinkMessage::DelRoute(m),
                Message::Rule(mut m) => {
                    // ip(8) may have added the rule, with another protocol.
                    let is_protocol = |a: &RuleAttribute| matches!(a, RuleAttribute::Protocol(_));
                    m.attributes.retain(|a| !is_protocol(a));
                    RouteNetlinkMessage::DelRule(m)
                }
            };
            change(request, 0)
        });
        removed.map_err(|e| refused(format!("remove the {self}"), e))
    }

    fn message(&self) -> io::Result<Message> {
        Ok(match self {
            Self::Host { to, device } => {
                let mut m = unicast(to.is_ipv4(), None, device)?;
                m.header.table = RouteHeader::RT_TABLE_MAIN;
                m.header.destination_prefix_length = bits(*to);
                m.attributes.push(RouteAttribute::Destination((*to).into()));
                Message::Route(m)
            }
            Self::Default {
                v4,
                via,
                device,
                table,
            } => {
                let mut m = unicast(*v4, *via, device)?;
                m.attributes.push(RouteAttribute::Table(*table));
                Message::Route(m)
            }
            Self::Rule { from, table } => {
                let mut m = RuleMessage::default();
                m.header.family = family(from.is_ipv4());
                m.header.src_len = bits(*from);
                m.header.action = RuleAction::ToTable;
                m.attributes = vec![
                    RuleAttribute::Source(*from),
                    RuleAttribute::Priority(RULE_PRIORITY),
                    RuleAttribute::Table(*table),
                    RuleAttribute::Protocol(RouteProtocol::Boot),
                ];
                Message::Rule(m)
            }
        })
    }
}

enum Message {
    Route(RouteMessage),
    Rule(RuleMessage),
}

/// A route to a device, as ip(8) adds it.
fn unicast(v4: bool, via: Option<IpAddr>, device: &str) -> io::Result<RouteMessage> {
    let mut m = RouteMessage::default();
    m.header.address_family = family(v4);
    m.header.protocol = RouteProtocol::Boot;
    m.header.kind = RouteType::Unicast;
    m.header.scope = match via {
        None if v4 => RouteScope::Link,
        _ => RouteScope::Universe,
    };
    m.attributes.push(RouteAttribute::Oif(index(device)?));
    let via = via.map(|via| RouteAttribute::Gateway(via.into()));
    m.attributes.extend(via);
    Ok(m)
}

fn family(v4: bool) -> AddressFamily {
    match v4 {
        true => AddressFamily::Inet,
        false => AddressFamily::Inet6,
    }
}

/// The bits of an address.
fn bits(addr: IpAddr) -> u8 {
    if addr.is_ipv4() { 32 } else { 128 }
}

fn index(device: &str) -> io::Result<u32> {
    Ok(if_nametoindex(device)?)
}

/// The error of the system that kept us from doing something.
pub(super) fn refused(what: String, source: io::Error) -> SetupError {
    let hint = match source.kind() {
        io::ErrorKind::PermissionDenied => NEEDS_ADMIN,
        _ => "",
    };
    SetupError::System { what, source, hint }
}

/// Reads a list of the kernel's. `take` makes an item of a message.
fn list<T>(
    request: &RouteNetlinkMessage,
    what: &str,
    take: impl Fn(RouteNetlinkMessage) -> Option<T>,
) -> Result<Vec<T>, SetupError> {
    let mut items = Vec::new();
    for _ in 0..ATTEMPTS {
        items.clear();
        let read = open().and_then(|socket| {
            dump(&socket, request.clone(), |message| {
                if let NetlinkPayload::InnerMessage(inner) = message.payload {
                    items.extend(take(inner));
                }
            })
        });
        if read.map_err(|e| refused(format!("list the {what}"), e))? {
            break;
        }
    }
    Ok(items)
}

/// The routes of a family, of all tables, that are wanted.
fn routes(
    v4: bool,
    wanted: impl Fn(&RouteMessage) -> bool,
) -> Result<Vec<RouteMessage>, SetupError> {
    let mut request = RouteMessage::default();
    request.header.address_family = family(v4);
    let request = RouteNetlinkMessage::GetRoute(request);
    list(&request, "routes", |message| match message {
        RouteNetlinkMessage::NewRoute(route) => Some(route).filter(&wanted),
        _ => None,
    })
}

/// The table of a route.
fn table_of_route(route: &RouteMessage) -> u32 {
    let table = route.attributes.iter().find_map(|a| match a {
        RouteAttribute::Table(table) => Some(*table),
        _ => None,
    });
    table.unwrap_or_else(|| route.header.table.into())
}

/// The devices to which the main table routes exactly this address, for a message to the user.
pub(super) fn devices_of(addr: IpAddr) -> Result<Vec<String>, SetupError> {
    let to = RouteAttribute::Destination(RouteAddress::from(addr));
    let exact = |r: &RouteMessage| {
        r.header.destination_prefix_length == bits(addr)
            && table_of_route(r) == u32::from(RouteHeader::RT_TABLE_MAIN)
            && r.attributes.contains(&to)
    };
    let name = |r: &RouteMessage| {
        r.attributes.iter().find_map(|a| match a {
            RouteAttribute::Oif(index) => nix::net::if_::if_indextoname(*index)
                .ok()
                .map(|name| name.to_string_lossy().into_owned()),
            _ => None,
        })
    };
    let routes = routes(addr.is_ipv4(), exact)?;
    Ok(routes.iter().filter_map(name).collect())
}

/// Removes all routes of one of Spindle's tables.
///
/// # Errors
/// [`SetupError::System`].
pub(super) fn flush(v4: bool, table: u32) -> Result<(), SetupError> {
    for route in routes(v4, |r| table_of_route(r) == table)? {
        match change(RouteNetlinkMessage::DelRoute(route), 0) {
            // Routes are removed together with their device.
            Err(e) if e.raw_os_error() == Some(libc::ESRCH) => {}
            removed => {
                removed.map_err(|e| refused(format!("remove a route of table {table}"), e))?;
            }
        }
    }
    Ok(())
}

/// Spindle's rules of a family: the source address, if the rule has one, and the table.
///
/// # Errors
/// [`SetupError::System`].
pub(super) fn rules(v4: bool) -> Result<Vec<(Option<IpAddr>, u32)>, SetupError> {
    let mut request = RuleMessage::default();
    request.header.family = family(v4);
    let request = RouteNetlinkMessage::GetRule(request);
    list(&request, "rules", |message| match message {
        RouteNetlinkMessage::NewRule(rule) => own(&rule),
        _ => None,
    })
}

/// The source address and the table of a rule, if it is one of Spindle's.
fn own(rule: &RuleMessage) -> Option<(Option<IpAddr>, u32)> {
    let find = |f: fn(&RuleAttribute) -> Option<u32>| rule.attributes.iter().find_map(f);
    let priority = find(|a| match a {
        RuleAttribute::Priority(priority) => Some(*priority),
        _ => None,
    });
    let table = find(|a| match a {
        RuleAttribute::Table(table) => Some(*table),
        _ => None,
    })?;
    let from = rule.attributes.iter().find_map(|a| match a {
        RuleAttribute::Source(from) if rule.header.src_len == bits(*from) => Some(*from),
        _ => None,
    });
    (priority == Some(RULE_PRIORITY) && TABLES.contains(&table)).then_some((from, table))
}

/// A device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Device {
    index: u32,
    /// Whether it stays although no process holds it. Only of TUN devices.
    pub(super) persistent: bool,
    /// Whether it has a carrier, as a TUN device that is up has while a process holds it.
    pub(super) carrier: bool,
}

impl Device {
    /// The device of this name, if it exists.
    ///
    /// # Errors
    /// [`SetupError::System`].
    pub(super) fn find(name: &str) -> Result<Option<Self>, SetupError> {
        let request = RouteNetlinkMessage::GetLink(LinkMessage::default());
        let found = list(&request, "devices", |message| match message {
            RouteNetlinkMessage::NewLink(link) => Self::named(&link, name),
            _ => None,
        })?;
        Ok(found.first().copied())
    }

    fn named(link: &LinkMessage, name: &str) -> Option<Self> {
        let has_name = |a: &LinkAttribute| matches!(a, LinkAttribute::IfName(n) if n == name);
        link.attributes.iter().find(|a| has_name(a))?;
        let info = link.attributes.iter().find_map(|a| match a {
            LinkAttribute::LinkInfo(info) => Some(info),
            _ => None,
        });
        let tun = info.into_iter().flatten().find_map(|i| match i {
            LinkInfo::Data(InfoData::Tun(tun)) => Some(tun),
            _ => None,
        });
        let persists = |attribute: &InfoTun| match attribute {
            InfoTun::Other(nla) => nla.kind() == PERSIST && is_set(nla),
            _ => false,
        };
        Some(Self {
            index: link.header.index,
            persistent: tun.is_some_and(|attributes| attributes.iter().any(persists)),
            carrier: link.header.flags.contains(LinkFlags::LowerUp),
        })
    }

    /// Enables the device.
    ///
    /// # Errors
    /// [`SetupError::System`].
    pub(super) fn enable(name: &str) -> Result<(), SetupError> {
        let enabled = index(name).and_then(|index| {
            let mut m = LinkMessage::default();
            m.header.index = index;
            m.header.flags = LinkFlags::Up;
            m.header.change_mask = LinkFlags::Up;
            change(RouteNetlinkMessage::SetLink(m), 0)
        });
        enabled.map_err(|e| refused(format!("enable the device {name}"), e))
    }

    /// Deletes the device.
    ///
    /// # Errors
    /// [`SetupError::System`].
    pub(super) fn delete(self, name: &str) -> Result<(), SetupError> {
        let mut m = LinkMessage::default();
        m.header.index = self.index;
        change(RouteNetlinkMessage::DelLink(m), 0)
            .map_err(|e| refused(format!("delete the device {name}"), e))
    }
}

/// Whether a flag of one byte is set.
fn is_set(nla: &DefaultNla) -> bool {
    let mut value = vec![0; nla.value_len()];
    nla.emit_value(&mut value);
    value.first().is_some_and(|byte| *byte != 0)
}

/// Makes all addresses of a family local ones of the loopback device, which gets the address `own`.
///
/// # Errors
/// [`SetupError::System`].
pub(super) fn everything_is_local(own: IpAddr) -> Result<(), SetupError> {
    let made = index("lo").and_then(|lo| {
        let mut address = AddressMessage::default();
        address.header.family = family(own.is_ipv4());
        address.header.prefix_len = bits(own);
        address.header.index = lo;
        if own.is_ipv6() {
            // No other host can have it, so that nothing waits for an answer (RFC 4862, section 5.4).
            address.header.flags = AddressHeaderFlags::Nodad;
        }
        address.attributes = vec![AddressAttribute::Local(own), AddressAttribute::Address(own)];
        let flags = NLM_F_CREATE | NLM_F_EXCL;
        change(RouteNetlinkMessage::NewAddress(address), flags)?;
        let mut route = RouteMessage::default();
        route.header.address_family = family(own.is_ipv4());
        route.header.table = LOCAL_TABLE;
        route.header.protocol = RouteProtocol::Boot;
        route.header.scope = RouteScope::Host;
        route.header.kind = RouteType::Local;
        route.attributes = vec![
            RouteAttribute::Oif(lo),
            RouteAttribute::PrefSource(own.into()),
        ];
        change(RouteNetlinkMessage::NewRoute(route), flags)
    });
    made.map_err(|e| {
        refused(
            format!("make all addresses local, with {own} as the own one"),
            e,
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(priority: u32, table: u32, from: Option<(&str, u8)>) -> RuleMessage {
        let mut m = RuleMessage::default();
        m.attributes = vec![
            RuleAttribute::Priority(priority),
            RuleAttribute::Table(table),
        ];
        if let Some((from, len)) = from {
            m.header.src_len = len;
            m.attributes
                .push(RuleAttribute::Source(from.parse().unwrap()));
        }
        m
    }

    #[test]
    fn rules_of_other_programs_are_not_ours() {
        let addr = "10.8.0.1";
        let ours = rule(7900, 7903, Some((addr, 32)));
        assert_eq!(own(&ours), Some((Some(addr.parse().unwrap()), 7903)));
        // A rule for a network names a table that is in use, but is for no address of ours.
        let network = rule(7900, 7903, Some(("10.8.0.0", 24)));
        assert_eq!(own(&network), Some((None, 7903)));
        for (priority, table) in [(0, 7903), (7901, 7903), (7900, 100)] {
            assert_eq!(own(&rule(priority, table, Some((addr, 32)))), None);
        }
        assert_eq!(own(&RuleMessage::default()), None);
    }

    #[test]
    fn entries_are_written_as_ip_does() {
        let route = Entry::Host {
            to: "fd00::1".parse().unwrap(),
            device: "spin0".to_owned(),
        };
        let default = Entry::Default {
            v4: true,
            via: "192.0.2.1".parse().ok(),
            device: "eth0".to_owned(),
            table: 7900,
        };
        let rule = Entry::Rule {
            from: "10.8.0.1".parse().unwrap(),
            table: 7900,
        };
        let texts = [route, default, rule].map(|e| e.to_string());
        let wanted = [
            "route fd00::1/128 dev spin0",
            "route default via 192.0.2.1 dev eth0 table 7900",
            "rule from 10.8.0.1/32 lookup 7900 priority 7900",
        ];
        assert_eq!(texts, wanted);
    }

    #[test]
    fn the_loopback_device_of_this_host_is_found() {
        let lo = Device::find("lo").expect("netlink").expect("the device");
        assert!(!lo.persistent, "it is no TUN device");
        assert!(Device::find("no-such-device").expect("netlink").is_none());
    }

    #[test]
    fn a_route_to_a_device_that_does_not_exist_is_refused_with_its_name() {
        let route = Entry::Host {
            to: "192.0.2.1".parse().unwrap(),
            device: "no-such-device".to_owned(),
        };
        let text = route.add().unwrap_err().to_string();
        let wanted = "cannot add the route 192.0.2.1/32 dev no-such-device: ";
        assert!(text.starts_with(wanted), "{text}");
    }
}

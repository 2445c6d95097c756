//! What the kernel reports about links, addresses and routes (rtnetlink(7)), reduced to what uplinks depend on.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netlink_packet_core::{NLM_F_REPLACE, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::address::{
    AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage, AddressScope,
};
use netlink_packet_route::link::{
    InfoKind, LinkAttribute, LinkFlags, LinkInfo, LinkMessage, State,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteMessage, RouteType, RouteVia,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

/// A network device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) index: u32,
    pub(super) name: String,
    /// It was enabled by the administrator (IFF_UP).
    pub(super) up: bool,
    /// It can carry packets (IFF_LOWER_UP, and an operational state that does not contradict it; RFC 2863).
    pub(super) carrier: bool,
    pub(super) loopback: bool,
    pub(super) bridge: bool,
}

/// An address of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) device: u32,
    pub(super) addr: IpAddr,
    /// Its scope is global, as opposed to link or host.
    pub(super) global: bool,
    /// Its duplicate address detection has succeeded (RFC 4862, section 5.4).
    pub(super) ready: bool,
    /// No new connections may use it (RFC 4862, section 5.5.4).
    pub(super) deprecated: bool,
    /// IPv6: a temporary address (RFC 8981). IPv4: an address in the network of an earlier address of the device.
    pub(super) temporary: bool,
}

/// A unicast route through a device. A route with several next hops counts as several routes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Route {
    pub(super) device: u32,
    pub(super) network: IpAddr,
    /// Leading bits of `network` that count.
    pub(super) prefix: u8,
    pub(super) metric: u32,
    pub(super) table: u32,
    /// The next hop. `None` if destinations are reached directly.
    pub(super) via: Option<IpAddr>,
}

/// What a message reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A device is new or has changed.
    Link(Link),
    /// The device with this index no longer exists.
    LinkGone(u32),
    /// An address is new or has changed.
    Address(Address),
    /// A device no longer has an address.
    AddressGone(u32, IpAddr),
    /// Routes are new.
    Routes(Vec<Route>),
    /// Routes have taken the place of others that the message does not name.
    Replaced,
    /// Routes no longer exist.
    RoutesGone(Vec<Route>),
}

impl Event {
    /// What a message reports, unless it is of no importance here.
    pub(super) fn of(message: NetlinkMessage<RouteNetlinkMessage>) -> Option<Self> {
        let replaces = message.header.flags & NLM_F_REPLACE != 0;
        let NetlinkPayload::InnerMessage(inner) = message.payload else {
            return None;
        };
        match inner {
            RouteNetlinkMessage::NewLink(m) => link(&m).map(Self::Link),
            RouteNetlinkMessage::DelLink(m) => link(&m).map(|l| Self::LinkGone(l.index)),
            RouteNetlinkMessage::NewAddress(m) => address(&m).map(Self::Address),
            RouteNetlinkMessage::DelAddress(m) => {
                address(&m).map(|a| Self::AddressGone(a.device, a.addr))
            }
            RouteNetlinkMessage::NewRoute(_) if replaces => Some(Self::Replaced),
            RouteNetlinkMessage::NewRoute(m) => Some(Self::Routes(routes(&m))),
            RouteNetlinkMessage::DelRoute(m) => Some(Self::RoutesGone(routes(&m))),
            _ => None,
        }
    }
}

/// A device. Messages of another family than AF_UNSPEC are about a port of a bridge.
fn link(m: &LinkMessage) -> Option<Link> {
    if m.header.interface_family != AddressFamily::Unspec {
        return None;
    }
    let flags = m.header.flags;
    let (mut name, mut state, mut bridge) = (String::new(), State::Unknown, false);
    for attribute in &m.attributes {
        match attribute {
            LinkAttribute::IfName(text) => name.clone_from(text),
            LinkAttribute::OperState(s) => state = *s,
            LinkAttribute::LinkInfo(list) => {
                bridge = list.contains(&LinkInfo::Kind(InfoKind::Bridge));
            }
            _ => {}
        }
    }
    let contradicts = matches!(
        state,
        State::NotPresent | State::Down | State::LowerLayerDown | State::Dormant
    );
    Some(Link {
        index: m.header.index,
        name,
        up: flags.contains(LinkFlags::Up),
        carrier: flags.contains(LinkFlags::LowerUp) && !contradicts,
        loopback: flags.contains(LinkFlags::Loopback),
        bridge,
    })
}

fn address(m: &AddressMessage) -> Option<Address> {
    let (mut local, mut peer) = (None, None);
    // The header has the lowest eight flags only.
    let header: AddressHeaderFlags = m.header.flags;
    let mut flags = AddressFlags::from_bits_retain(u32::from(header.bits()));
    for attribute in &m.attributes {
        match attribute {
            AddressAttribute::Local(a) => local = Some(*a),
            AddressAttribute::Address(a) => peer = Some(*a),
            AddressAttribute::Flags(f) => flags = *f,
            _ => {}
        }
    }
    // On a point-to-point device IFA_ADDRESS is the address of the other end (rtnetlink(7)).
    let addr = local.or(peer)?;
    Some(Address {
        device: m.header.index,
        addr,
        global: m.header.scope == AddressScope::Universe,
        ready: !flags.intersects(AddressFlags::Tentative | AddressFlags::Dadfailed),
        deprecated: flags.contains(AddressFlags::Deprecated),
        // IFA_F_TEMPORARY and IFA_F_SECONDARY are the same bit.
        temporary: flags.contains(AddressFlags::Secondary),
    })
}

/// The unicast routes of a message, one for each next hop.
fn routes(m: &RouteMessage) -> Vec<Route> {
    let mut network: IpAddr = match m.header.address_family {
        AddressFamily::Inet => Ipv4Addr::UNSPECIFIED.into(),
        AddressFamily::Inet6 => Ipv6Addr::UNSPECIFIED.into(),
        _ => return Vec::new(),
    };
    if m.header.kind != RouteType::Unicast {
        return Vec::new();
    }
    let (mut metric, mut table) = (0, u32::from(m.header.table));
    let (mut hops, single) = (Vec::new(), hop(&m.attributes));
    for attribute in &m.attributes {
        match attribute {
            RouteAttribute::Destination(a) => network = ip(a).unwrap_or(network),
            RouteAttribute::Priority(n) => metric = *n,
            RouteAttribute::Table(n) => table = *n,
            RouteAttribute::MultiPath(list) => {
                let each = list.iter();
                hops.extend(each.map(|h| (h.interface_index, hop(&h.attributes).1)));
            }
            _ => {}
        }
    }
    if let (Some(device), via) = single {
        hops.push((device, via));
    }
    let route = |(device, via)| Route {
        device,
        network,
        prefix: m.header.destination_prefix_length,
        metric,
        table,
        via,
    };
    hops.into_iter().map(route).collect()
}

/// The device and the next hop among the attributes of a route or of one of its next hops.
fn hop(attributes: &[RouteAttribute]) -> (Option<u32>, Option<IpAddr>) {
    let (mut device, mut via) = (None, None);
    for attribute in attributes {
        match attribute {
            RouteAttribute::Oif(index) => device = Some(*index),
            RouteAttribute::Gateway(a) => via = ip(a),
            RouteAttribute::Via(RouteVia::Inet(a)) => via = Some((*a).into()),
            RouteAttribute::Via(RouteVia::Inet6(a)) => via = Some((*a).into()),
            _ => {}
        }
    }
    (device, via)
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(a) => Some((*a).into()),
        RouteAddress::Inet6(a) => Some((*a).into()),
        _ => None,
    }
}

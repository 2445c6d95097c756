//! The links, addresses and routes of this host, as the kernel's messages report them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::event::{Address, Event, Link, Route};

/// Most gateways whose routes are kept.
pub(super) const GATEWAYS: usize = 32;

/// What is known. Of the routes, only default routes and those that lead to a gateway are kept, so that the routing
/// tables of a large router take no memory here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Table {
    gateways: Vec<IpAddr>,
    links: BTreeMap<u32, Link>,
    addresses: BTreeMap<(u32, IpAddr), Address>,
    routes: BTreeSet<Route>,
}

impl Table {
    /// An empty table for routes to these gateways.
    pub(super) fn new(gateways: Vec<IpAddr>) -> Self {
        Self {
            gateways,
            ..Self::default()
        }
    }

    /// Applies one message. Returns whether the kernel may have changed more than its messages report, so that the
    /// table must be read again: Linux removes IPv4 routes without a message when their device is disabled or when
    /// their preferred source address is removed, and does not report which routes others replace.
    #[must_use]
    pub(super) fn apply(&mut self, event: Event) -> bool {
        match event {
            Event::Link(link) => {
                let up = link.up;
                let before = self.links.insert(link.index, link);
                before.is_some_and(|b| b.up && !up)
            }
            Event::LinkGone(index) => {
                self.links.remove(&index);
                self.addresses.retain(|(device, _), _| *device != index);
                self.routes.retain(|r| r.device != index);
                true
            }
            Event::Address(address) => {
                self.addresses
                    .insert((address.device, address.addr), address);
                false
            }
            Event::AddressGone(device, addr) => {
                self.addresses.remove(&(device, addr));
                true
            }
            Event::Routes(routes) => {
                for route in routes
                    .into_iter()
                    .filter(|r| is_relevant(&self.gateways, r))
                {
                    self.routes.insert(route);
                }
                false
            }
            Event::RoutesGone(routes) => {
                for route in routes {
                    self.routes.remove(&route);
                }
                false
            }
            Event::Replaced => true,
        }
    }

    /// The gateways whose routes are kept.
    pub(super) fn gateways(&self) -> &[IpAddr] {
        &self.gateways
    }

    /// The addresses with their devices, in the order of devices and addresses.
    pub(super) fn addresses(&self) -> impl Iterator<Item = (&Link, &Address)> {
        let addresses = self.addresses.values();
        addresses.filter_map(|a| Some((self.links.get(&a.device)?, a)))
    }

    /// The best route through a device for an address family: to one of the gateways of that family, or, as long as
    /// no gateway is known, a default route. No route leads to a gateway that is on this host.
    pub(super) fn route(&self, device: u32, v4: bool) -> Option<&Route> {
        let here = |g: &IpAddr| g.is_loopback() || self.addresses.keys().any(|(_, a)| a == g);
        let gateways = self
            .gateways
            .iter()
            .filter(|g| g.is_ipv4() == v4 && !here(g));
        let gateways: Vec<&IpAddr> = gateways.collect();
        let none = self.gateways.is_empty();
        let leads = |r: &&Route| {
            let default = none && r.prefix == 0;
            default || gateways.iter().any(|g| covers(r, **g))
        };
        let of_device = |r: &&Route| r.device == device && r.network.is_ipv4() == v4;
        let routes = self.routes.iter().filter(of_device).filter(leads);
        routes.min_by_key(|r| (std::cmp::Reverse(r.prefix), r.metric))
    }
}

fn is_relevant(gateways: &[IpAddr], route: &Route) -> bool {
    route.prefix == 0 || gateways.iter().any(|g| covers(route, *g))
}

/// Whether the route's network contains the address.
fn covers(route: &Route, addr: IpAddr) -> bool {
    let same = |a: u128, b: u128, width: u32| {
        let rest = width.saturating_sub(u32::from(route.prefix));
        let (a, b) = (a.checked_shr(rest), b.checked_shr(rest));
        a.unwrap_or(0) == b.unwrap_or(0)
    };
    match (route.network, addr) {
        (IpAddr::V4(n), IpAddr::V4(a)) => same(n.to_bits().into(), a.to_bits().into(), 32),
        (IpAddr::V6(n), IpAddr::V6(a)) => same(n.to_bits(), a.to_bits(), 128),
        _ => false,
    }
}

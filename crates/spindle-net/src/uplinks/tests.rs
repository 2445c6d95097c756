//! Messages in, uplinks out, without a kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use proptest::prelude::*;

use super::event::{Address, Event, Link, Route};
use super::selection::{Change, changes};
use super::table::Table;
use super::{DevicePattern, NamedAddress, Selection, Unused, Uplink, UplinkState};

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn link(index: u32, name: &str) -> Link {
    Link {
        index,
        name: name.to_owned(),
        up: true,
        carrier: true,
        loopback: name == "lo",
        bridge: name.starts_with("br"),
    }
}

fn address(device: u32, text: &str) -> Address {
    Address {
        device,
        addr: ip(text),
        global: true,
        ready: true,
        deprecated: false,
        temporary: false,
    }
}

fn default_route(device: u32, via: &str, metric: u32) -> Route {
    let network = if ip(via).is_ipv4() { "0.0.0.0" } else { "::" };
    Route {
        device,
        network: ip(network),
        prefix: 0,
        metric,
        table: 254,
        via: Some(ip(via)),
    }
}

fn direct(device: u32, network: &str, prefix: u8) -> Route {
    Route {
        device,
        network: ip(network),
        prefix,
        metric: 0,
        table: 254,
        via: None,
    }
}

/// No allowance is used up.
fn unmetered(_: &str) -> bool {
    false
}

fn automatic() -> Selection {
    Selection {
        automatic: true,
        ..Selection::default()
    }
}

/// A table after these events, which report everything.
fn table(gateways: &[&str], events: Vec<Event>) -> Table {
    let mut table = Table::new(gateways.iter().map(|g| ip(g)).collect());
    for event in events {
        assert!(!table.apply(event));
    }
    table
}

/// A laptop with Ethernet, Wi-Fi, a bridge for containers, and a gateway at 192.0.2.1.
fn laptop() -> Vec<Event> {
    vec![
        Event::Link(link(1, "lo")),
        Event::Link(link(2, "eth0")),
        Event::Link(link(3, "wlan0")),
        Event::Link(link(4, "br-docker")),
        Event::Address(address(1, "127.0.0.1")),
        Event::Address(address(2, "10.0.0.5")),
        Event::Address(address(3, "10.1.0.5")),
        Event::Address(address(4, "172.17.0.1")),
        Event::Routes(vec![
            default_route(2, "10.0.0.1", 100),
            default_route(3, "10.1.0.1", 600),
            direct(4, "172.17.0.0", 16),
        ]),
    ]
}

/// Device, address and state of each uplink.
fn states(list: &[Uplink]) -> Vec<(&str, String, UplinkState)> {
    let each = list.iter();
    each.map(|u| (u.device.as_str(), u.addr.to_string(), u.state))
        .collect()
}

fn used(list: &[Uplink]) -> Vec<&str> {
    let up = list.iter().filter(|u| u.is_up());
    up.map(|u| u.device.as_str()).collect()
}

#[test]
fn devices_with_a_route_to_the_gateway_are_used_in_the_order_of_their_metrics() {
    for gateways in [&["192.0.2.1"][..], &[]] {
        let list = automatic().uplinks(&table(gateways, laptop()), unmetered);
        assert_eq!(
            states(&list),
            [
                ("eth0", "10.0.0.5".to_owned(), UplinkState::Used),
                ("wlan0", "10.1.0.5".to_owned(), UplinkState::Used),
            ]
        );
        assert_eq!(list[1].next_hop, Some(ip("10.1.0.1")));
        assert!(list.iter().all(|u| u.bound && u.route && u.carrier));
    }
}

#[test]
fn a_connected_network_that_covers_the_gateway_is_a_route_and_another_is_not() {
    let mut events = laptop();
    events.push(Event::Link(link(5, "usb0")));
    events.push(Event::Address(address(5, "198.51.100.2")));
    events.push(Event::Routes(vec![direct(5, "198.51.100.0", 24)]));
    let list = automatic().uplinks(&table(&["198.51.100.9"], events.clone()), unmetered);
    assert_eq!(used(&list), ["usb0", "eth0", "wlan0"]);
    let list = automatic().uplinks(&table(&["192.0.2.1"], events.clone()), unmetered);
    let down = UplinkState::Down(Unused::NoRoute);
    assert_eq!(states(&list)[2], ("usb0", "198.51.100.2".to_owned(), down));
    // A gateway of the other family has no route here.
    let list = automatic().uplinks(&table(&["2001:db8::1"], events), unmetered);
    assert_eq!(used(&list), [""; 0]);
}

#[test]
fn a_gateway_on_this_host_needs_no_uplink() {
    for gateway in ["127.0.0.1", "10.1.0.5"] {
        let list = automatic().uplinks(&table(&[gateway], laptop()), unmetered);
        assert_eq!(used(&list), [""; 0], "{gateway}");
    }
    let list = automatic().uplinks(&table(&["127.0.0.1", "192.0.2.1"], laptop()), unmetered);
    assert_eq!(used(&list), ["eth0", "wlan0"]);
}

#[test]
fn an_uplink_is_down_without_carrier_or_address_and_says_why() {
    let mut events = laptop();
    let mut eth0 = link(2, "eth0");
    eth0.carrier = false;
    events.push(Event::Link(eth0));
    let mut tentative = address(3, "10.1.0.5");
    tentative.ready = false;
    events.push(Event::Address(tentative));
    let list = automatic().uplinks(&table(&["192.0.2.1"], events), unmetered);
    assert_eq!(list[0].state, UplinkState::Down(Unused::NoCarrier));
    assert_eq!(list[1].state, UplinkState::Down(Unused::Tentative));
    assert!(list[0].route && !list[0].carrier);
}

#[test]
fn the_temporary_ipv6_address_of_the_gateways_scope_is_preferred() {
    let mut temporary = address(2, "2001:db8:5::99");
    temporary.temporary = true;
    let mut local = address(2, "fd00::1");
    local.temporary = true;
    let mut link_local = address(2, "fe80::1");
    link_local.global = false;
    let events = |old: bool| {
        let mut temporary = temporary.clone();
        temporary.deprecated = old;
        vec![
            Event::Link(link(2, "eth0")),
            Event::Address(address(2, "2001:db8:5::1")),
            Event::Address(temporary),
            Event::Address(local.clone()),
            Event::Address(link_local.clone()),
            Event::Routes(vec![default_route(2, "fe80::9", 0)]),
        ]
    };
    let first = |gateway, old| {
        let list = automatic().uplinks(&table(&[gateway], events(old)), unmetered);
        assert_eq!(used(&list).len(), 1);
        assert_eq!(list.len(), 3, "no link-local address");
        list[0].addr.to_string()
    };
    assert_eq!(first("2001:db8::1", false), "2001:db8:5::99");
    assert_eq!(first("2001:db8::1", true), "2001:db8:5::1");
    assert_eq!(first("fd00:7::1", false), "fd00::1");
}

#[test]
fn device_whose_allowance_is_used_up_is_not_used_however_it_was_named() {
    let table = table(&["192.0.2.1"], laptop());
    let used_up = |device: &str| device == "eth0";
    let named = Selection {
        addresses: vec![NamedAddress {
            addr: ip("10.0.0.5"),
            device: None,
        }],
        devices: vec![DevicePattern::new("wlan*")],
        ..Selection::default()
    };
    for selection in [automatic(), named] {
        let list = selection.uplinks(&table, used_up);
        assert_eq!(
            states(&list),
            [
                ("wlan0", "10.1.0.5".to_owned(), UplinkState::Used),
                (
                    "eth0",
                    "10.0.0.5".to_owned(),
                    UplinkState::Down(Unused::UsedUp)
                ),
            ]
        );
    }
}

#[test]
fn named_devices_and_addresses_are_selected_and_backups_come_last() {
    let mut events = laptop();
    events.push(Event::Address(address(2, "10.0.7.5")));
    let table = table(&["192.0.2.1"], events);
    let wireless = Selection {
        devices: vec![DevicePattern::new("wl*")],
        ..Selection::default()
    };
    assert_eq!(used(&wireless.uplinks(&table, unmetered)), ["wlan0"]);
    let both = Selection {
        devices: vec![DevicePattern::new("eth?"), DevicePattern::new("wlan0")],
        backup_devices: vec![DevicePattern::new("eth*")],
        ..Selection::default()
    };
    let list = both.uplinks(&table, unmetered);
    assert_eq!(used(&list), ["wlan0", "eth0", "eth0"], "all its addresses");
    assert!(list[1..].iter().all(|u| u.state == UplinkState::Backup));
    let named = |addr, device: Option<&str>| NamedAddress {
        addr: ip(addr),
        device: device.map(str::to_owned),
    };
    let named = Selection {
        addresses: vec![
            named("10.9.9.9", None),
            named("172.17.0.1", None),
            named("127.0.0.7", None),
            named("10.0.0.5", Some("eth0")),
        ],
        ..Selection::default()
    };
    let list = named.uplinks(&table, unmetered);
    let shown: Vec<_> = list.iter().map(|u| (u.addr.to_string(), u.bound)).collect();
    assert_eq!(
        shown,
        [
            ("172.17.0.1".to_owned(), false),
            ("127.0.0.7".to_owned(), false),
            ("10.0.0.5".to_owned(), true),
            ("10.9.9.9".to_owned(), false),
        ]
    );
    assert_eq!(list[3].state, UplinkState::Down(Unused::Absent));
}

#[test]
fn own_devices_are_never_used_and_an_address_only_on_one_device() {
    let mut events = laptop();
    events.push(Event::Address(address(3, "10.0.0.5")));
    let own = Selection {
        automatic: true,
        without: vec!["eth0".to_owned()],
        ..Selection::default()
    };
    let table = table(&["192.0.2.1"], events);
    assert_eq!(used(&own.uplinks(&table, unmetered)), ["wlan0"]);
    let all = Selection {
        devices: vec![DevicePattern::new("*")],
        ..Selection::default()
    };
    let list = all.uplinks(&table, unmetered);
    let same = UplinkState::Down(Unused::SameAddress);
    assert!(list.iter().any(|u| u.device == "wlan0" && u.state == same));
}

#[test]
fn routes_that_lead_elsewhere_take_no_memory() {
    let mut table = table(&["192.0.2.1"], laptop());
    let before = table.clone();
    for n in 0..1000u32 {
        let network = std::net::Ipv4Addr::from(0xc612_0000 + (n << 8)).to_string();
        let _ = table.apply(Event::Routes(vec![direct(2, &network, 24)]));
    }
    assert_eq!(table, before);
}

/// What a kernel knows. Each change returns the messages that Linux sends about it.
#[derive(Clone, Debug, Default)]
struct Kernel {
    links: BTreeMap<u32, Link>,
    addresses: BTreeMap<(u32, IpAddr), Address>,
    routes: BTreeSet<Route>,
}

impl Kernel {
    fn dump(&self) -> Table {
        let mut table = Table::new(vec![ip("192.0.2.1"), ip("2001:db8::1")]);
        let links = self.links.values().cloned().map(Event::Link);
        let addresses = self.addresses.values().cloned().map(Event::Address);
        let routes = [Event::Routes(self.routes.iter().cloned().collect())];
        for event in links.chain(addresses).chain(routes) {
            let _ = table.apply(event);
        }
        table
    }

    fn change(&mut self, step: &Step) -> Vec<Event> {
        match step.clone() {
            Step::Link(l) => {
                if !l.up {
                    // IPv4 routes vanish without a message.
                    self.routes
                        .retain(|r| r.device != l.index || !r.network.is_ipv4());
                }
                self.links.insert(l.index, l.clone());
                vec![Event::Link(l)]
            }
            Step::Unplug(index) => {
                if self.links.remove(&index).is_none() {
                    return Vec::new();
                }
                self.addresses.retain(|(d, _), _| *d != index);
                self.routes.retain(|r| r.device != index);
                vec![Event::LinkGone(index)]
            }
            Step::Address(a) if self.links.contains_key(&a.device) => {
                self.addresses.insert((a.device, a.addr), a.clone());
                vec![Event::Address(a)]
            }
            Step::NoAddress(device, addr) => {
                if self.addresses.remove(&(device, addr)).is_none() {
                    return Vec::new();
                }
                // Routes of which it was the preferred source vanish without a message.
                self.routes
                    .retain(|r| r.device != device || r.metric % 2 == 0);
                vec![Event::AddressGone(device, addr)]
            }
            Step::Route(r) if self.links.get(&r.device).is_some_and(|l| l.up) => {
                self.routes.insert(r.clone());
                vec![Event::Routes(vec![r])]
            }
            Step::NoRoute(r) => match self.routes.remove(&r) {
                true => vec![Event::RoutesGone(vec![r])],
                false => Vec::new(),
            },
            // As for new routes, the device must be enabled.
            Step::Replace(r) if self.links.get(&r.device).is_some_and(|l| l.up) => {
                self.routes.retain(|o| o.prefix != r.prefix);
                self.routes.insert(r);
                vec![Event::Replaced]
            }
            Step::Address(_) | Step::Route(_) | Step::Replace(_) => Vec::new(),
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Link(Link),
    Unplug(u32),
    Address(Address),
    NoAddress(u32, IpAddr),
    Route(Route),
    NoRoute(Route),
    Replace(Route),
}

fn any_addr() -> impl Strategy<Value = IpAddr> {
    let texts = [
        "10.0.0.1",
        "10.0.0.2",
        "2001:db8:5::1",
        "2001:db8:5::2",
        "fd00::1",
    ];
    prop::sample::select(texts.map(ip).to_vec())
}

fn any_route() -> impl Strategy<Value = Route> {
    let kind = prop::sample::select(vec![
        ("0.0.0.0", 0, "10.0.0.9"),
        ("192.0.2.0", 24, "10.0.0.9"),
        ("10.0.0.0", 8, "10.0.0.9"),
        ("::", 0, "fe80::9"),
        ("2001:db8::", 32, "fe80::9"),
    ]);
    (1..4u32, kind, 0..4u32).prop_map(|(device, (network, prefix, via), metric)| Route {
        device,
        network: ip(network),
        prefix,
        metric,
        table: 254,
        via: Some(ip(via)),
    })
}

fn any_step() -> impl Strategy<Value = Step> {
    let link = (1..4u32, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(index, up, carrier, renamed)| Link {
            up,
            carrier,
            ..link(
                index,
                &format!("{}{index}", if renamed { "br" } else { "eth" }),
            )
        },
    );
    let address = (1..4u32, any_addr(), any::<[bool; 4]>()).prop_map(|(device, addr, flags)| {
        let [global, ready, deprecated, temporary] = flags;
        Address {
            device,
            addr,
            global,
            ready,
            deprecated,
            temporary,
        }
    });
    prop_oneof![
        link.prop_map(Step::Link),
        (1..4u32).prop_map(Step::Unplug),
        address.prop_map(Step::Address),
        (1..4u32, any_addr()).prop_map(|(d, a)| Step::NoAddress(d, a)),
        any_route().prop_map(Step::Route),
        any_route().prop_map(Step::NoRoute),
        any_route().prop_map(Step::Replace),
    ]
}

/// The list that results from applying changes to a list.
fn apply(mut list: Vec<Uplink>, changes: Vec<Change>) -> BTreeMap<(String, IpAddr), Uplink> {
    let key = |u: &Uplink| (u.device.clone(), u.addr);
    for change in changes {
        match change {
            Change::New(u) => list.push(u),
            Change::Gone(u) => list.retain(|o| key(o) != key(&u)),
            Change::Changed(before, after) => {
                let old = list.iter_mut().find(|o| **o == before);
                *old.expect("the uplink before") = after;
            }
        }
    }
    list.into_iter().map(|u| (key(&u), u)).collect()
}

proptest! {
    #[test]
    fn after_any_messages_the_list_equals_that_of_a_fresh_dump(
        steps in prop::collection::vec(any_step(), 1..60),
        named in any::<bool>(),
    ) {
        let mut selection = automatic();
        if named {
            selection.automatic = false;
            selection.devices = vec![DevicePattern::new("eth*")];
            selection.addresses.push(NamedAddress { addr: ip("10.0.0.2"), device: None });
        }
        let mut kernel = Kernel::default();
        let mut table = kernel.dump();
        let mut list = selection.uplinks(&table, unmetered);
        for step in &steps {
            let mut stale = false;
            for event in kernel.change(step) {
                stale |= table.apply(event);
            }
            if stale {
                table = kernel.dump();
            }
            let fresh = selection.uplinks(&kernel.dump(), unmetered);
            let next = selection.uplinks(&table, unmetered);
            prop_assert_eq!(&next, &fresh);
            let applied = apply(list.clone(), changes(&list, &next));
            prop_assert_eq!(applied, apply(next.clone(), Vec::new()));
            list = next;
        }
    }
}

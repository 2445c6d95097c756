//! Hosts with several interfaces, and graphs built by hand.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod common;

use common::{Parcel, drain};
use spindle_fabric::topology::{DualHomed, Mesh};
use spindle_fabric::{
    Address, Buffer, Builder, DropCause, HostId, LinkSpec, NetworkError, Simulation,
};
use spindle_units::{BitRate, Duration};

fn spec() -> LinkSpec {
    let rate = BitRate(1_000_000_000);
    LinkSpec::new(rate, Duration::from_micros(1), Buffer::Packets(10))
}

#[test]
fn dual_homed_client_has_two_addresses() {
    let network = DualHomed::default().build().unwrap();
    let (client, server) = (HostId(0), HostId(1));
    let addresses: Vec<_> = network.addresses_of(client).collect();
    assert_eq!(addresses, [Address(0), Address(1)]);
    assert_eq!(network.address(server, 0), Some(Address(2)));
    assert_eq!(network.address(server, 1), None);
    assert_eq!(network.address(client, u32::MAX), None);
    assert_eq!(network.host_of(Address(1)), client);
    let mut simulation = Simulation::new(network, 1);
    for from in [1, 0] {
        simulation.inject(
            Address(from),
            Address(2),
            Parcel::new(u64::from(from)).len(125),
        );
        simulation.inject(
            Address(2),
            Address(from),
            Parcel::new(u64::from(10 + from)).len(125),
        );
    }
    let outcome = drain(&mut simulation);
    // 1 us of sending and 12.5 ms of delay, twice. The second packets share the server's link.
    let times = [25_002_000, 25_002_000, 25_003_000, 25_003_000];
    assert_eq!(outcome.times(), times);
    let at: Vec<_> = outcome.arrivals.iter().map(|a| (a.1.0, a.2.id)).collect();
    assert!(at.contains(&(0, 10)) && at.contains(&(1, 11)), "{at:?}");
    let p2 = simulation.network().links_matching("P2").unwrap();
    assert!(p2.iter().all(|&l| simulation.stats(l).packets == 1));
}

#[test]
fn mesh_has_sixteen_paths_of_five_links() {
    let network = Mesh::default().build().unwrap();
    assert_eq!((network.hosts(), network.switches().len()), (20, 10));
    assert_eq!(network.path_count(Address(0), Address(10)), 16);
    assert_eq!(network.links_matching("mesh").unwrap().len(), 2 * 16);
    let mut ways = std::collections::HashSet::new();
    for path in 0..16 {
        let route = network.route_on_path(Address(19), Address(0), path);
        assert_eq!(route.len(), 5);
        let name = format!("R{}-R{}.down", 2 + path % 4, 6 + path / 4);
        assert_eq!(network.link_name(route[2]), name);
        ways.insert(route);
    }
    assert_eq!(ways.len(), 16);
}

#[test]
fn two_hosts_on_one_cable_reach_each_other_but_not_themselves() {
    let mut builder = Builder::new("wire");
    let (a, b) = (builder.host("a"), builder.host("b"));
    builder.cable("wire", "wires", (a, b), spec(), spec());
    let mut simulation = Simulation::new(builder.build().unwrap(), 1);
    simulation.observe_drops(true);
    simulation.inject(Address(0), Address(1), Parcel::new(1));
    simulation.inject(Address(1), Address(0), Parcel::new(2));
    // A packet cannot be sent back to its sender.
    simulation.inject(Address(0), Address(0), Parcel::new(3));
    let outcome = drain(&mut simulation);
    assert_eq!(outcome.ids(), [1, 2]);
    assert_eq!(outcome.times(), [13_000, 13_000]);
    assert_eq!(outcome.drops[0].2, DropCause::NoRoute);
    assert_eq!(outcome.dropped(), [3]);
}

#[test]
fn packets_between_disconnected_islands_are_dropped() {
    let mut builder = Builder::new("islands");
    for island in 0..2 {
        let switch = builder.switch(format!("s{island}"), 1);
        for host in 0..2 {
            let name = format!("h{island}{host}");
            let node = builder.host(name.as_str());
            builder.cable(name, "access", (node, switch), spec(), spec());
        }
    }
    let network = builder.build().unwrap();
    assert_eq!(network.path_count(Address(0), Address(2)), 0);
    assert!(network.route_on_path(Address(0), Address(2), 0).is_empty());
    let mut simulation = Simulation::new(network, 1);
    simulation.observe_drops(true);
    simulation.inject(Address(0), Address(2), Parcel::new(1));
    simulation.inject(Address(0), Address(1), Parcel::new(2));
    let outcome = drain(&mut simulation);
    assert_eq!((outcome.dropped(), outcome.ids()), (vec![1], vec![2]));
    assert_eq!(outcome.drops[0].2, DropCause::NoRoute);
}

#[test]
fn impossible_graphs_are_refused() {
    let lone = {
        let mut builder = Builder::new("lone");
        let (host, switch) = (builder.host("h"), builder.switch("s", 1));
        builder.cable("c", "access", (host, switch), spec(), spec());
        builder
    };
    let error = lone.clone().build().unwrap_err();
    assert_eq!(error, NetworkError::Isolated { host: "h".into() });

    let mut unplugged = lone.clone();
    unplugged.host("other");
    assert!(matches!(
        unplugged.build(),
        Err(NetworkError::Isolated { .. })
    ));

    let mut twice = lone.clone();
    twice.host("h");
    let error = twice.build().unwrap_err().to_string();
    assert_eq!(
        error,
        "there are two nodes named `h`; give each its own name"
    );

    let mut bad = lone.clone();
    bad.host("h*");
    assert!(matches!(bad.build(), Err(NetworkError::BadName { .. })));

    let mut looped = lone;
    let node = looped.switch("t", 1);
    looped.cable("l", "loops", (node, node), spec(), spec());
    assert!(matches!(looped.build(), Err(NetworkError::Loop { .. })));
}

#[test]
fn simulation_is_send() {
    fn is_send<T: Send>() {}
    is_send::<Simulation<Parcel>>();
}

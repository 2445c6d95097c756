//! CONGA in a network with a slow path.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod common;

use common::{Parcel, drain};
use spindle_fabric::topology::LeafSpine;
use spindle_fabric::{Address, Balancing, CongaSettings, FlowletSettings, Network, Simulation};
use spindle_units::{BitRate, Duration, Instant};

/// Two leaf switches with eight hosts each and two paths, one of them with a tenth of the rate behind its spine
/// switch.
fn network() -> Network {
    let network = LeafSpine {
        leaves: 2,
        spines: 2,
        hosts_per_leaf: 8,
        ..LeafSpine::default()
    };
    let mut network = network.build().unwrap();
    let slow = network.links_matching("leaf1-spine1").unwrap();
    let change = |spec: &mut spindle_fabric::LinkSpec| spec.rate = BitRate(100_000_000);
    network.configure(&slow, change).unwrap();
    network
}

/// The share of packets that leave the first leaf switch for the slow path. Eight flows send a packet each
/// every 700 us, and the receivers send as many acknowledgements.
fn slow_share(balancing: &Balancing) -> f64 {
    let network = network();
    let up = network.links_matching("leaf0-spine*.up").unwrap();
    let mut simulation = Simulation::new(network, 3);
    simulation.balance(balancing);
    for round in 0..200u64 {
        for host in 0..8 {
            let data = Parcel::new(u64::from(host));
            simulation.inject(Address(host), Address(8 + host), data);
            let back = Parcel::new(u64::from(host)).control();
            simulation.inject(Address(8 + host), Address(host), back);
        }
        let limit = Instant::ZERO + Duration::from_micros(700) * (round + 1);
        while simulation.next_event_until(limit).is_some() {}
    }
    drain(&mut simulation);
    let offered = up.iter().map(|l| simulation.stats(*l).offered as f64);
    let offered: Vec<f64> = offered.collect();
    offered[1] / (offered[0] + offered[1])
}

#[test]
fn conga_avoids_a_path_that_is_slow_behind_the_spine_switch() {
    let conga = slow_share(&Balancing::conga(CongaSettings::default()));
    let flowlet = slow_share(&Balancing::Flowlet(FlowletSettings::default()));
    assert!((0.4..0.6).contains(&flowlet), "{flowlet}");
    assert!(conga < 0.2, "{conga}");
}

#[test]
fn settings_of_a_balancer_that_shares_state_are_its_text() {
    let settings = CongaSettings {
        bits: 5,
        ..CongaSettings::default()
    };
    let text = format!("{:?}", Balancing::conga(settings));
    assert!(
        text.starts_with("CongaSettings") && text.contains("bits: 5"),
        "{text}"
    );
}

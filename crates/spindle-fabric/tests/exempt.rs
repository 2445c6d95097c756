//! Packets that may not be lost: repairs that a caller sends when drops are reported.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod common;

use common::{Parcel, drain};
use spindle_fabric::topology::Dumbbell;
use spindle_fabric::{Address, Buffer, DropCause, Loss, Network, Simulation};
use spindle_units::Probability;

fn dumbbell(packets: u32) -> Network {
    let dumbbell = Dumbbell {
        switch_buffer: Buffer::Packets(packets),
        ..Dumbbell::default()
    };
    dumbbell.build().unwrap()
}

#[test]
fn exempt_packets_are_dropped_only_at_a_link_that_is_down() {
    let network = dumbbell(2);
    let link = network.links_matching("bottleneck.up").unwrap()[0];
    let mut simulation = Simulation::new(network, 1);
    simulation.observe_drops(true);
    for id in 0..6 {
        let parcel = Parcel::new(id);
        let parcel = if id >= 4 { parcel.exempt() } else { parcel };
        simulation.inject(Address(0), Address(2), parcel);
    }
    let outcome = drain(&mut simulation);
    assert_eq!(
        (outcome.ids(), outcome.dropped()),
        (vec![0, 1, 2, 4, 5], vec![3])
    );
    simulation.set_up(link, false);
    simulation.inject(Address(0), Address(2), Parcel::new(6).exempt());
    let drops = drain(&mut simulation).drops;
    assert_eq!((drops[0].2, drops[0].3), (DropCause::Down, 6));
}

#[test]
fn loss_process_advances_for_exempt_packets() {
    let lost = |exempt: bool| {
        let network = dumbbell(1000);
        let link = network.links_matching("bottleneck.up").unwrap()[0];
        let mut simulation = Simulation::new(network, 1);
        simulation.observe_drops(true);
        let half = Probability::new(0.5).unwrap();
        simulation.set_loss(link, &Loss::bernoulli(half));
        for id in 0..200 {
            let parcel = Parcel::new(id);
            let spared = exempt && id % 2 == 0;
            let parcel = if spared { parcel.exempt() } else { parcel };
            simulation.inject(Address(0), Address(2), parcel);
        }
        drain(&mut simulation).dropped()
    };
    let odd = |ids: Vec<u64>| ids.into_iter().filter(|id| id % 2 == 1).collect::<Vec<_>>();
    assert_eq!(lost(true), odd(lost(false)));
}

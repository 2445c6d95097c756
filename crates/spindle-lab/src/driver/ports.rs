//! When packets leave their host's own port, for senders that hold back data until then.

use spindle_fabric::{Address, Network};
use spindle_units::{BitRate, Instant};

/// The hosts' own ports: each a FIFO with a rate.
#[derive(Debug)]
pub(crate) struct Ports {
    /// For each address, the port's rate, and the time when all its packets will have left.
    ports: Vec<(BitRate, Instant)>,
}

impl Ports {
    /// The ports of a network, all empty.
    pub(crate) fn new(network: &Network) -> Self {
        let rate = |a| network.link(network.uplink(Address(a))).spec.rate;
        Self {
            ports: (0..network.addresses())
                .map(|a| (rate(a), Instant::ZERO))
                .collect(),
        }
    }

    /// Adds a packet of `bytes` bytes to a port's queue now. Returns the time when its last bit will have left.
    pub(crate) fn send(&mut self, now: Instant, from: Address, bytes: u64) -> Instant {
        let (rate, free) = &mut self.ports[from.0 as usize];
        *free = (*free).max(now) + rate.time_to_send(bytes);
        *free
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindle_fabric::topology::FusoTestbed;

    #[test]
    fn packets_of_a_port_are_sent_one_after_the_other() {
        let network = FusoTestbed::default().build().unwrap();
        let mut ports = Ports::new(&network);
        let at = Instant::from_nanos;
        // 1500 bytes take 12 us at 1 Gbps.
        assert_eq!(ports.send(at(1000), Address(0), 1500), at(13_000));
        assert_eq!(ports.send(at(2000), Address(0), 1500), at(25_000));
        assert_eq!(ports.send(at(2000), Address(1), 1500), at(14_000));
        assert_eq!(ports.send(at(90_000), Address(0), 1500), at(102_000));
    }
}

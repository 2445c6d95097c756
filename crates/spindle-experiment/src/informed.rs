//! What the lab's hosts know about their network.

use std::net::IpAddr;
use std::sync::Arc;

use spindle_fabric::{Address, HostId, Network};
use spindle_mptcp::Config;
use spindle_mptcp::stage::coding::Destinations;
use spindle_mptcp::stage::scatter::topology::Topology;
use spindle_units::BitRate;

use crate::hosts::place_of;
use crate::scenario::LinkSettings;

/// The network from the hosts' point of view.
#[derive(Debug)]
struct Fabric {
    network: Network,
}

impl Fabric {
    /// The fabric address of an IP address.
    fn at(&self, addr: IpAddr) -> Option<Address> {
        let (host, interface) = place_of(addr)?;
        let host = HostId(host);
        (host.0 < self.network.hosts()).then(|| self.network.address(host, interface))?
    }
}

impl Topology for Fabric {
    /// The number of paths of equal cost between the addresses of hosts.
    fn paths(&self, local: IpAddr, remote: IpAddr) -> Option<u32> {
        let count = self.network.path_count(self.at(local)?, self.at(remote)?);
        u32::try_from(count).ok().filter(|n| *n > 0)
    }
}

impl Destinations for Fabric {
    /// The switch that the peer is connected to.
    fn of(&self, peer: IpAddr) -> u128 {
        self.at(peer).map_or(u128::MAX, |address| {
            let uplink = self.network.uplink(address);
            u128::from(self.network.link(uplink).to.0)
        })
    }

    /// The rate of the slowest link of the path. It is the same on all paths between two hosts of the lab.
    fn bottleneck(&self, local: IpAddr, peer: IpAddr) -> Option<BitRate> {
        let path = self
            .network
            .route_on_path(self.at(local)?, self.at(peer)?, 0);
        let rates = path
            .into_iter()
            .map(|link| self.network.link(link).spec.rate);
        rates.min()
    }
}

/// The configuration for hosts that scatter or code packets, with knowledge of their network: the number of
/// paths to each host, the switch of each host, the links' rate, and the round-trip time without queues.
pub fn informed(mut config: Config, network: &Network, links: &LinkSettings) -> Config {
    let fabric = || {
        Arc::new(Fabric {
            network: network.clone(),
        })
    };
    let scatter = config.multipath.as_mut().and_then(|m| m.scatter.as_mut());
    if let Some(settings) = scatter {
        Arc::make_mut(settings).topology = fabric();
    }
    if let Some(settings) = &mut config.coding {
        let settings = Arc::make_mut(settings);
        settings.destinations = fabric();
        settings.rate = links.rate;
        // Two round-trip times without queues (CAPS section IX-C).
        settings.sampling.period = links.rtt * 2;
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindle_fabric::topology::LeafSpine;

    #[test]
    fn hosts_of_one_leaf_have_the_same_destination() {
        let network = LeafSpine {
            leaves: 3,
            spines: 4,
            hosts_per_leaf: 5,
            ..LeafSpine::default()
        };
        let fabric = Fabric {
            network: network.build().unwrap(),
        };
        let of = |host| Destinations::of(&fabric, crate::hosts::address(host, 0));
        assert!((1..5).all(|h| of(h) == of(0)));
        assert_ne!(of(5), of(0));
        assert_ne!(of(10), of(5));
        let from = crate::hosts::address(0, 0);
        assert_eq!(fabric.paths(from, crate::hosts::address(6, 0)), Some(4));
    }

    #[test]
    fn bottleneck_is_the_slowest_link_of_the_path() {
        let (fast, slow) = (BitRate(10_000_000_000), BitRate(1_000_000_000));
        let network = LeafSpine {
            leaves: 2,
            hosts_per_leaf: 2,
            host_rate: fast,
            fabric_rate: slow,
            ..LeafSpine::default()
        };
        let fabric = Fabric {
            network: network.build().unwrap(),
        };
        let between = |a, b| {
            let [a, b] = [a, b].map(|host| crate::hosts::address(host, 0));
            Destinations::bottleneck(&fabric, a, b)
        };
        assert_eq!(between(0, 2), Some(slow), "across");
        assert_eq!(between(0, 1), Some(fast), "under one leaf");
        let nowhere = "192.0.2.1".parse().unwrap();
        let known = crate::hosts::address(0, 0);
        assert_eq!(Destinations::bottleneck(&fabric, known, nowhere), None);
    }
}
